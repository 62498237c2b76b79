"""The command lines that put a policy into force, and the environment that goes with it.  Pure."""

import base64
import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nanobot.agent.tools.command import Launch
from nanobot.agent.tools.sandbox.bwrap import LAUNCHER, bwrap_argv
from nanobot.agent.tools.sandbox.landlock import landlock_grants
from nanobot.agent.tools.sandbox.policy import HOME, Limits, Policy, Unusable
from nanobot.agent.tools.sandbox.seccomp import program

# What bubblewrap must outlive while its command may still end in order; the launcher inside turns them on again.
_LATER = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_IGNORE = f'trap "" {" ".join(str(int(number)) for number in _LATER)}; exec "$@"'
_MB = 1 << 20


@dataclass(frozen=True, slots=True)
class Tools:
    """What launching needs of this process: its Python, the launcher's file, the architecture, the process to be spared."""

    python: str
    launcher: str
    machine: str
    daemon: int


def bwrap_launch(policy: Policy, launch: Launch, *, bwrap: str, tools: Tools) -> Launch:
    """Return a launch in namespaces of its own."""
    filters = program(tools.machine) or b""
    spec = _spec(policy.limits, filters, landlock={"grants": {}, "scoped": True})
    if policy.limits.processes and not policy.is_root:  # counted inside the namespace; root is never counted
        spec["limits"]["RLIMIT_NPROC"] = policy.limits.processes
    outside = (
        "/bin/sh",
        "-c",
        _IGNORE,
        "sh",
        *bwrap_argv(policy, bwrap=bwrap, launcher=tools.launcher, cwd=str(launch.cwd)),
        "--",
    )
    inside = (tools.python, "-I", "-S", LAUNCHER, json.dumps(spec), *launch.argv)
    own = {"HOME": HOME, "USER": "agent", "LOGNAME": "agent", "NANOBOT_SANDBOX": "bwrap"}
    return Launch((*outside, *inside), launch.cwd, {**_without(launch.env, "TMPDIR"), **own})


def landlock_launch(policy: Policy, launch: Launch, *, tools: Tools) -> Launch:
    """Return a launch that is kept in by Landlock alone.

    Raises:
        Unusable: it could not keep everything closed.
    """
    filters = program(tools.machine, sockets="internet" if policy.network == "on" else "none", spared=(tools.daemon,))
    if filters is None:
        raise Unusable(f"system calls of {tools.machine} are not known here")
    spec = _spec(policy.limits, filters, landlock={"grants": landlock_grants(policy), "scoped": True})
    if policy.limits.processes and not policy.is_root:
        spec["limits"]["more_processes"] = policy.limits.processes
    own = {"HOME": policy.places.home, "TMPDIR": policy.places.tmp, "NANOBOT_SANDBOX": "landlock"}
    if policy.is_root:  # tar believes that root may give files away; here it may not
        own["TAR_OPTIONS"] = "--no-same-owner"
    argv = (tools.python, "-I", "-S", tools.launcher, json.dumps(spec), *launch.argv)
    return Launch(argv, launch.cwd, {**launch.env, **own})


def _spec(
    limits: Limits, filters: bytes, *, landlock: Mapping[str, object]
) -> dict[str, Any]:  # Any: JSON for the launcher
    return {
        "signals": [int(number) for number in _LATER],
        "limits": _rlimits(limits),
        "drop": True,
        "landlock": landlock,
        "seccomp": base64.b64encode(filters).decode(),
    }


def _rlimits(limits: Limits) -> dict[str, int]:
    """Return limits of each process.  Memory counts as data, not as addresses: programs reserve far more of those than they use."""
    wanted = {
        "RLIMIT_CORE": 0,
        "RLIMIT_DATA": limits.memory_mb and limits.memory_mb * _MB,
        "RLIMIT_FSIZE": limits.file_mb and limits.file_mb * _MB,
        "RLIMIT_CPU": limits.cpu_s,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _without(env: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in env.items() if key != name}
