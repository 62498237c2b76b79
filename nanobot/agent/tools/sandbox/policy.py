"""What a command may see and do, worked out from the settings and from what this machine has.  Pure.

A ``Policy`` says it for every kind of sandbox: trees that may be written, trees that may be read, what stays closed inside those,
the network, and limits.  Everything that it does not name is out of reach.  The launchers (``bwrap``, ``landlock``) put it into
their kernel's words.
"""

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath as Path
from typing import Literal, TypeAlias

from nanobot.values import frozen

Network: TypeAlias = Literal["on", "off"] | tuple[str, ...]

HOME = "/home/agent"
"""A command's home, where the sandbox has a file system of its own."""


class Unusable(Exception):
    """No sandbox can keep this workspace in; the text says why, and what to change."""


@frozen
class Limits:
    """What one command may use; None: as much as there is."""

    memory_mb: int | None = None
    processes: int | None = None
    file_mb: int | None = None
    cpu_s: int | None = None


@frozen(kw_only=True)
class Machine:
    """What the sandbox shows of this machine: real paths that exist and may be read, and links such as /bin -> usr/bin.

    ``resolving`` is what names are resolved with, shown only where there is a network; ``private`` are places of keys, never shown.
    """

    system: tuple[str, ...]
    links: tuple[tuple[str, str], ...] = ()
    resolving: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    is_root: bool = False
    uid: int = 1000
    gid: int = 1000


@frozen(kw_only=True)
class Places:
    """Real paths of one workspace: itself, and what its commands have instead of the machine's own home and /tmp."""

    workspace: str
    home: str
    tmp: str
    identity: str = ""  # a directory with passwd and group, as commands see them


@frozen(kw_only=True)
class Policy:
    """What commands of one workspace may see and do."""

    places: Places
    write: tuple[str, ...]
    read: tuple[str, ...]
    hidden: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    network: Network
    limits: Limits
    is_root: bool
    uid: int
    gid: int


def plan(
    machine: Machine,
    places: Places,
    *,
    closed: Sequence[str],
    secret_files: Sequence[str] = (),
    network: Network,
    limits: Limits,
    read: Sequence[str] = (),
    write: Sequence[str] = (),
) -> Policy:
    """Return the policy of a workspace.

    Args:
        machine: what there is.
        places: the workspace and its home.
        closed: nanobot's own directories; they are hidden where something opened holds them.
        secret_files: nanobot's own files, which are hidden with the directory they lie in.
        network: as configured.
        limits: as configured.
        read: more real paths to show.
        write: more real paths to open for writing.

    Raises:
        Unusable: something that is opened lies in nanobot's own data, or right beside its configuration, or is the whole machine.
    """
    workspace = places.workspace
    if any(_inside(known, workspace) for known in ("/", "/usr", "/etc", "/proc")):
        raise Unusable(
            f"the workspace {workspace!r} holds the system itself; set `workspace` to a directory of its own"
        )
    writable = tuple(dict.fromkeys([*write, workspace]))
    readable = tuple(dict.fromkeys([*machine.system, *read, *(machine.resolving if network != "off" else ())]))
    roots = [*writable, *readable]
    for path in (*read, *write):
        if _within_any(path, closed) or path in secret_files:
            raise Unusable(f"tools.sandbox opens {path!r}, which belongs to nanobot itself; take it out")
    hidden = [path for path in closed if _within_any(path, roots)]
    hidden += [_directory(path, roots) for path in secret_files if _within_any(path, roots)]
    hidden += [path for path in machine.private if _within_any(path, roots) and path not in roots]
    return Policy(
        places=places,
        write=writable,
        read=tuple(path for path in readable if path not in writable),
        hidden=tuple(dict.fromkeys(hidden)),
        links=machine.links,
        network=network,
        limits=limits,
        is_root=machine.is_root,
        uid=machine.uid,
        gid=machine.gid,
    )


def _directory(path: str, roots: Sequence[str]) -> str:
    """Return the directory that is hidden for a file: a file hidden by itself would come back when it is replaced."""
    parent = str(Path(path).parent)
    if parent in roots:
        raise Unusable(
            f"{parent!r} holds nanobot's configuration ({Path(path).name}), and commands would work right beside it; "
            "set `workspace` to a directory of its own"
        )
    return parent


def _within_any(path: str, roots: Iterable[str]) -> bool:
    return any(_inside(path, root) for root in roots)


def _inside(path: str, tree: str) -> bool:
    """Whether a path is a tree's root or lies below it."""
    return Path(path).is_relative_to(tree)
