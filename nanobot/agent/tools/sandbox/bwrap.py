"""A policy in bubblewrap's words: the options that make a file system of what the policy names and nothing else.  Pure.

Capabilities are dropped and further user namespaces refused, because root in a namespace is still root: without that a command of
a daemon that runs as root could mount things back.  A daemon that is root has its commands run as an ordinary number, so that
programs do not believe they could change owners.

There is no ``--new-session``: the supervisor made one already, so that no command has a terminal of ours to type into.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath as Path

from nanobot.agent.tools.sandbox.policy import HOME, Policy

LAUNCHER = "/run/nanobot/launcher.py"
ORDERS = "/run/nanobot/orders.json"
_ORDINARY = 1000
_OWN = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")


def bwrap_options(policy: Policy, *, launcher: str, orders: str) -> list[str]:
    """Return bubblewrap's options; inside, the launcher and its orders are ``LAUNCHER`` and ``ORDERS``."""
    uid, gid = (_ORDINARY, _ORDINARY) if policy.is_root else (policy.uid, policy.gid)
    argv = ["--die-with-parent", *_OWN, "--disable-userns", "--cap-drop", "ALL"]
    argv += ["--uid", str(uid), "--gid", str(gid)]
    argv += [] if policy.network == "on" else ["--unshare-net"]
    for target, link in policy.links:
        argv += ["--symlink", target, link]
    argv += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
    argv += ["--perms", "0755", "--dir", "/run", "--perms", "0755", "--dir", "/var", "--symlink", "../tmp", "/var/tmp"]
    for option, source, path in sorted(_mounts(policy), key=lambda mount: len(Path(mount[2]).parts)):
        argv += [option, source, path] if source else ["--perms", "0500", "--size", "4096", option, path]
    return [*argv, "--ro-bind", launcher, LAUNCHER, "--ro-bind", orders, ORDERS]


def _mounts(policy: Policy) -> Iterable[tuple[str, str, str]]:
    """Yield option, source and place of each mount; sorted by depth, what is nested comes after what holds it."""
    places = policy.places
    yield "--bind", places.tmp, "/tmp"
    yield "--bind", places.home, HOME
    for path in policy.read:
        yield "--ro-bind-try", path, path
    for path in policy.write:
        yield "--bind", path, path
    if places.identity:
        for name in ("passwd", "group"):
            yield "--ro-bind", f"{places.identity}/{name}", f"/etc/{name}"
    for path in policy.hidden:
        yield "--tmpfs", "", path
