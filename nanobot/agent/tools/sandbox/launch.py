"""The command lines that put a policy into force, and the environment that goes with it.  Pure.

What does not change from command to command lies in two files of the data directory: bubblewrap's options, and the launcher's
orders.  So a command line stays short, also where the command itself can see it (``ps``).
"""

import base64
import json
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from nanobot.agent.tools.sandbox.bwrap import LAUNCHER, ORDERS, bwrap_options
from nanobot.agent.tools.sandbox.landlock import landlock_grants
from nanobot.agent.tools.sandbox.policy import HOME, Limits, Policy, Unusable
from nanobot.agent.tools.sandbox.seccomp import program
from nanobot.agent.tools.shell.command import Launch
from nanobot.values import frozen

PROXY_PORT = 3128  # of the command's own network namespace
_OPTIONS_FD, _PROXY_FD = 9, 8

# What bubblewrap must outlive while its command may still end in order; the launcher inside turns them on again.
_LATER = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_JOIN = "{ for group in $1; do echo $$ > $group; done; } 2>/dev/null; shift; "
_IGNORE = f'trap "" {" ".join(str(int(number)) for number in _LATER)}; exec {_OPTIONS_FD}<"$1"; shift; '
_MB = 1 << 20


@frozen
class Tools:
    """What launching needs of this process: its Python, the scripts' files, the architecture, the process to be spared."""

    python: str
    launcher: str
    proxy: str
    machine: str
    daemon: int


@frozen
class Files:
    """Where what does not change was written; ``options`` is empty for Landlock."""

    orders: str
    options: str = ""


@frozen
class Own:
    """What is one command's own: more files that it may read, and the groups that it joins to be limited."""

    shared: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


def bwrap_orders(policy: Policy, tools: Tools) -> bytes:
    """Return what the launcher does inside bubblewrap."""
    orders = _orders(policy.limits, program(tools.machine) or b"", grants={})
    if policy.limits.processes and not policy.is_root:  # counted inside the namespace; root is never counted
        orders["limits"]["RLIMIT_NPROC"] = policy.limits.processes
    if not isinstance(policy.network, str):
        orders["listen"] = {"fd": _PROXY_FD, "port": PROXY_PORT}
    return json.dumps(orders).encode()


def landlock_orders(policy: Policy, tools: Tools) -> bytes:
    """Return what the launcher does where it is alone.

    Raises:
        Unusable: it could not keep everything closed.
    """
    filters = program(tools.machine, sockets="internet" if policy.network == "on" else "none", spared=(tools.daemon,))
    if filters is None:
        raise Unusable(f"system calls of {tools.machine} are not known here")
    orders = _orders(policy.limits, filters, grants=landlock_grants(policy))
    if policy.limits.processes and not policy.is_root:
        orders["limits"]["more_processes"] = policy.limits.processes
    return json.dumps(orders).encode()


def bwrap_options_file(policy: Policy, tools: Tools, *, orders: str) -> bytes:
    """Return bubblewrap's options as it reads them from a file."""
    return b"".join(
        option.encode("utf-8", "surrogateescape") + b"\0"
        for option in bwrap_options(policy, launcher=tools.launcher, orders=orders)
    )


def bwrap_launch(policy: Policy, launch: Launch, *, bwrap: str, files: Files, tools: Tools, own: Own) -> Launch:
    """Return a launch in namespaces of its own."""
    outside = ["/bin/sh", "-c", f'{_JOIN}{_IGNORE}exec "$@"', "sh", " ".join(own.groups), files.options]
    variables = {"HOME": HOME, "USER": "agent", "LOGNAME": "agent", "NANOBOT_SANDBOX": "bwrap"}
    if not isinstance(policy.network, str):
        outside += [tools.python, "-I", "-S", tools.proxy, str(_PROXY_FD), json.dumps(policy.network)]
        variables |= _proxies()
    confined = [bwrap, "--args", str(_OPTIONS_FD)]
    for path in own.shared:
        confined += ["--ro-bind-try", path, path]
    confined += ["--remount-ro", "/", "--chdir", str(launch.cwd), "--"]
    inside = [tools.python, "-I", "-S", LAUNCHER, ORDERS, *launch.argv]
    kept = {name: value for name, value in launch.env.items() if name != "TMPDIR"}
    return Launch((*outside, *confined, *inside), launch.cwd, {**kept, **variables})


def landlock_launch(policy: Policy, launch: Launch, *, files: Files, tools: Tools, own: Own) -> Launch:
    """Return a launch that is kept in by Landlock alone."""
    variables = {"HOME": policy.places.home, "TMPDIR": policy.places.tmp, "NANOBOT_SANDBOX": "landlock"}
    if policy.is_root:  # tar believes that root may give files away; here it may not
        variables["TAR_OPTIONS"] = "--no-same-owner"
    joining = ["/bin/sh", "-c", f'{_JOIN}exec "$@"', "sh", " ".join(own.groups)] if own.groups else []
    more = [word for path in own.shared for word in ("--read", path)]
    argv = (*joining, tools.python, "-I", "-S", tools.launcher, files.orders, *more, *launch.argv)
    return Launch(argv, launch.cwd, {**launch.env, **variables})


def _orders(limits: Limits, filters: bytes, *, grants: Mapping[str, Sequence[str]]) -> dict[str, Any]:  # Any: JSON
    return {
        "signals": [int(number) for number in _LATER],
        "limits": _rlimits(limits),
        "landlock": grants,
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


def _proxies() -> dict[str, str]:
    address = f"http://127.0.0.1:{PROXY_PORT}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {
        **{one: address for name in names for one in (name, name.lower())},
        **dict.fromkeys(("NO_PROXY", "no_proxy"), ""),
    }
