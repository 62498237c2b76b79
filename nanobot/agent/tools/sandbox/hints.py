"""Why a command may have failed in the sandbox: a line for the model with what was refused, the rule, and what opens it.

Pure.  It reads what the command printed, so it may miss a refusal, and it says nothing where it is not sure.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath as Path

from nanobot.agent.tools.sandbox.policy import HOME, Network, Policy
from nanobot.values import frozen

_LINES = 60  # of the end of the output
_REFUSED = re.compile(
    r"No such file or directory|Permission denied|Read-only file system|Operation not permitted", re.I
)
_PATH = re.compile(r"(?<![\w.:/])/[\w.@+~-][^\s'\"`:;,()]*")
_SHELL = re.compile(r"^/\S+: (?:line )?\d+: ")  # who says it, not what it is about
_NOT_FOUND = re.compile(r"(?:^|[\s:])([\w.+-]+): (?:command )?not found")
_NO_NAME = re.compile(
    r"could not resolve|name resolution|Name or service not known|Network is unreachable|ENOTFOUND", re.I
)
_NESTED = re.compile(r"unshare failed|Creating new namespace failed|No usable sandbox|new user namespace", re.I)
_MEMORY = re.compile(r"MemoryError|Cannot allocate memory|heap out of memory|std::bad_alloc", re.I)
_FORK = re.compile(r"fork: .*Resource temporarily unavailable|can't start new thread|Cannot fork", re.I)
_KERNEL = ("/proc", "/sys", "/dev")


@frozen
class View:
    """What a command sees, as far as hints need it."""

    write: tuple[str, ...]
    read: tuple[str, ...]
    network: Network
    has_own_tmp: bool

    @classmethod
    def of(cls, policy: Policy, *, is_landlock: bool) -> "View":
        """Return the view of a policy."""
        places = policy.places
        own = (places.home, places.tmp) if is_landlock else ("/tmp", "/var/tmp", HOME)
        read = (*policy.read, *(link for _, link in policy.links), *_KERNEL)
        network = "off" if is_landlock and policy.network != "on" else policy.network
        return cls((*policy.write, *own), read, network, not is_landlock)


def hint(output: str, view: View, *, elsewhere: Callable[[str], str | None]) -> str:
    """Return one line, or nothing.

    Args:
        output: what the command printed.
        view: what it saw.
        elsewhere: returns where a program lies that the command could not see, if it lies somewhere.
    """
    said = next(_hints("\n".join(output.splitlines()[-_LINES:]), view, elsewhere), "")
    return f"[sandbox: {said}]" if said else ""


def _hints(output: str, view: View, elsewhere: Callable[[str], str | None]) -> Iterator[str]:
    for line in output.splitlines():
        if _REFUSED.search(line):
            for path in _PATH.findall(_SHELL.sub("", line)):
                yield from _about(path.rstrip("."), view, changed="No such file" not in line)
    for name in _NOT_FOUND.findall(output):
        if found := elsewhere(name):
            yield f"{name} lies at {found}, outside; tools.sandbox.read: [{Path(found).parent}] in the configuration shows it"
    if _NO_NAME.search(output) and view.network == "off":
        yield "there is no network, by tools.sandbox.network: off; the owner can set it to on, or to a list of hosts"
    if _NO_NAME.search(output) and not isinstance(view.network, str):
        yield "hosts are reached through the proxy of HTTPS_PROXY only, those that tools.sandbox.network lists"
    if _NESTED.search(output):
        yield "no further sandbox can be made in here; start the program without its own (Chromium: --no-sandbox)"
    if _MEMORY.search(output):
        yield "memory is limited by tools.sandbox.memory_mb"
    if _FORK.search(output):
        yield "the number of processes is limited by tools.sandbox.processes"


def _about(path: str, view: View, *, changed: bool) -> Iterator[str]:
    if _within(path, view.write):
        return
    if not view.has_own_tmp and _within(path, ("/tmp", "/var/tmp", "/dev/shm")):
        yield f"{path} is out of reach (Landlock has no /tmp of its own): use $TMPDIR"
    elif not _within(path, view.read):
        yield f"{path} is not visible in here, whether or not it exists; tools.sandbox.read or write in the configuration opens it"
    elif changed and not _within(path, _KERNEL):
        yield f"{path} can only be read; tools.sandbox.write in the configuration opens it"


def _within(path: str, trees: Iterable[str]) -> bool:
    return any(Path(path).is_relative_to(tree) for tree in trees)
