"""A sandbox that is set up for one workspace and was tried."""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nanobot.agent.tools.sandbox import machine
from nanobot.agent.tools.sandbox.cgroups import make_groups
from nanobot.agent.tools.sandbox.launch import (
    Files,
    Own,
    Tools,
    bwrap_launch,
    bwrap_options_file,
    bwrap_orders,
    landlock_launch,
    landlock_orders,
)
from nanobot.agent.tools.sandbox.policy import Policy, Unusable
from nanobot.agent.tools.sandbox.state import State
from nanobot.agent.tools.shell.command import Launch
from nanobot.errors import ToolError
from nanobot.values import frozen

_TRIAL_S = 10.0
_HERE = Path(__file__).parent


@frozen
class Ready:
    """A sandbox that is set up for one workspace."""

    state: State
    policy: Policy
    files: Files
    tools: Tools

    def wrap(self, launch: Launch, own: Own) -> Launch:
        """Return what to start so that ``launch`` runs inside."""
        path = _path(launch.env.get("PATH", os.defpath), self.policy)
        launch = replace(launch, env={**launch.env, "PATH": path})
        if self.state.kind == "bwrap":
            return bwrap_launch(
                self.policy, launch, bwrap=self.state.bwrap, files=self.files, tools=self.tools, own=own
            )
        return landlock_launch(self.policy, launch, files=self.files, tools=self.tools, own=own)

    def own(self, shared: Sequence[str]) -> Own:
        """Make what is the next command's own."""
        groups = make_groups(self.policy.limits) if self.policy.is_root else ()
        return Own(tuple(shared), groups)

    def is_whole(self) -> bool:
        """Whether what was written for it is still there; marks it as in use."""
        places = self.policy.places
        try:
            for path in (self.files.orders, self.files.options or self.files.orders):
                os.utime(path)
        except OSError:
            return False
        return os.path.isdir(places.home) and os.path.isdir(places.tmp)

    def must_be_unmoved(self) -> None:
        """Refuse if a directory that is opened has become a link: it would open what the link names."""
        for path in self.policy.write:
            if os.path.realpath(path) != path:
                raise ToolError(f"{path!r} became a link; the sandbox opens real directories only. Put it back.")

    def fault(self) -> str | None:
        """Run something harmless inside; return what went wrong, or None."""
        trial = Launch(("/bin/sh", "-c", "echo well"), Path(self.policy.places.workspace), {"PATH": os.defpath})
        launch = self.wrap(trial, Own())
        try:
            done = subprocess.run(
                launch.argv,
                env=dict(launch.env),
                cwd=launch.cwd,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TRIAL_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
        if done.returncode == 0 and done.stdout == b"well\n":
            return None
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return said[-1] if said else f"status {done.returncode}"


def prepared(state: State, policy: Policy, directory: Path) -> "Ready | str":
    """Write what does not change from command to command; return why it cannot be."""
    tools = Tools(
        python=os.path.realpath(sys.executable),
        launcher=str(_HERE / "launcher.py"),
        proxy=str(_HERE / "proxy.py"),
        machine=platform.machine(),
        daemon=os.getpid(),
    )
    try:
        if state.kind == "landlock":
            return Ready(state, policy, Files(machine.keep(landlock_orders(policy, tools), directory)), tools)
        orders = machine.keep(bwrap_orders(policy, tools), directory)
        options = machine.keep(bwrap_options_file(policy, tools, orders=orders), directory)
    except (Unusable, OSError) as error:
        return str(error)
    return Ready(state, policy, Files(orders, options), tools)


def _path(path: str, policy: Policy) -> str:
    """Return the search path without what is out of reach: a program found there could not be run, and hides one that can.

    This Python's own directory comes last, so that there is one.
    """
    trees = [*policy.read, *policy.write]
    wanted = [*(path or os.defpath).split(os.pathsep), os.path.dirname(os.path.realpath(sys.executable))]
    return os.pathsep.join(
        one for one in wanted if any(Path(os.path.realpath(one)).is_relative_to(tree) for tree in trees)
    )
