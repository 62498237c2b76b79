"""The system calls that a command is refused, as a program for the kernel.  Pure.

A second wall: it closes doors that no everyday command uses (mounting, kernel keyrings, other namespaces, typing into a
terminal, setuid files), and, where there are no namespaces, the sockets that Landlock does not see.

Source: seccomp(2); the kernel's syscall tables
"""

import struct
from collections.abc import Sequence
from typing import Literal

from nanobot.values import frozen

_LD, _JEQ, _JSET, _JGE, _AND, _RET = 0x20, 0x15, 0x45, 0x35, 0x54, 0x06
_ALLOW, _EPERM, _EACCES, _ENOSYS = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 13, 0x00050000 | 38
_NUMBER, _ARCH, _ARGUMENT_0 = 0, 4, 16

_NEW_NAMESPACES = 0x7E020080  # CLONE_NEW*: time, mount, cgroup, uts, ipc, user, pid, net
_SETUID = 0o4000
_DGRAM = 2
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16

Instruction = tuple[int, int, int, int]


@frozen
class _Calls:
    """The numbers of one architecture."""

    arch: int
    refused: tuple[int, ...]
    unshare: int
    clone: int
    clone3: int
    ioctl: int
    socket: int
    socketpair: int
    modes: tuple[tuple[int, int], ...]  # calls that give a file its mode, and which argument that is
    opens: tuple[tuple[int, int], ...]  # calls that open, and which argument the flags are; the mode follows
    kills: tuple[int, ...]
    tkill: int
    others: tuple[tuple[int, int], ...]  # calls that change a process, and which argument it is; 0: itself
    x32: bool = False


_COMMON = (*range(425, 434), 442)  # io_uring, open_tree .. fspick, mount_setattr: the same everywhere
_OPENAT2, _PIDFD_SEND_SIGNAL = 437, 424
_MAY_CREATE = 0o100 | 0x400000  # O_CREAT, O_TMPFILE: only then does open look at its mode

# fmt: off
_BY_MACHINE = {
    "x86_64": _Calls(
        arch=0xC000003E,
        refused=(*_COMMON, 155, 165, 166, 163, 167, 168, 169, 172, 173, 175, 176, 179, 246, 248, 249, 250, 298, 304, 308, 313,
                 320, 321, 323),
        unshare=272, clone=56, clone3=435, ioctl=16, socket=41, socketpair=53,
        modes=((90, 1), (91, 1), (268, 2), (452, 2), (85, 1), (133, 1), (259, 2)), opens=((2, 1), (257, 2)),
        kills=(62, 129, 234, 297), tkill=200, others=((141, 1), (302, 0)), x32=True,
    ),
    "aarch64": _Calls(
        arch=0xC00000B7,
        refused=(*_COMMON, 39, 40, 41, 60, 89, 104, 105, 106, 142, 217, 218, 219, 224, 225, 241, 265, 268, 273, 280, 282, 294),
        unshare=97, clone=220, clone3=435, ioctl=29, socket=198, socketpair=199,
        modes=((52, 1), (53, 2), (452, 2), (33, 2)), opens=((56, 2),),
        kills=(129, 131, 138, 240), tkill=130, others=((140, 1), (261, 0)),
    ),
}
# fmt: on


def program(
    machine: str,
    *,
    sockets: Literal["all", "internet", "none"] = "all",
    spared: Sequence[int] = (),
) -> bytes | None:
    """Return the filter for an architecture, None for one that is not known here.

    Args:
        machine: as ``os.uname`` says it.
        sockets: ``all`` that stay in a network namespace; ``internet`` only (no sockets in the file system); or none.
        spared: process ids that may not be signalled, where nothing else protects them.
    """
    calls = _BY_MACHINE.get(machine)
    if calls is None:
        return None
    code: list[Instruction] = [
        (_LD, 0, 0, _ARCH),
        (_JEQ, 1, 0, calls.arch),
        (_RET, 0, 0, _ENOSYS),
        (_LD, 0, 0, _NUMBER),
    ]
    if calls.x32:
        code += [(_JGE, 0, 1, 0x40000000), (_RET, 0, 0, _ENOSYS)]
    for number in (*calls.refused, *((_PIDFD_SEND_SIGNAL, calls.tkill) if spared else ())):
        code += [(_JEQ, 0, 1, number), (_RET, 0, 0, _EPERM)]
    for number in (
        calls.clone3,
        _OPENAT2,
    ):  # what they do stands in memory, where a filter cannot look: the older calls are taken then
        code += [(_JEQ, 0, 1, number), (_RET, 0, 0, _ENOSYS)]
    for number in (calls.unshare, calls.clone):
        code += _when(
            number, 0, [(_JSET, 0, 1, _NEW_NAMESPACES & ~(0x80 if number == calls.clone else 0)), (_RET, 0, 0, _EPERM)]
        )
    code += _when(
        calls.ioctl, 1, [(_JEQ, 1, 0, 0x5412), (_JEQ, 0, 1, 0x541C), (_RET, 0, 0, _EPERM)]
    )  # TIOCSTI, TIOCLINUX
    for number, argument in calls.modes:
        code += _when(number, argument, [(_JSET, 0, 1, _SETUID), (_RET, 0, 0, _EPERM)])
    for number, flags in calls.opens:
        mode = [(_LD, 0, 0, _ARGUMENT_0 + 8 * (flags + 1)), (_JSET, 0, 1, _SETUID), (_RET, 0, 0, _EPERM)]
        code += _when(number, flags, [(_JSET, 0, len(mode), _MAY_CREATE), *mode])
    code += _sockets(calls, sockets)
    for number in calls.kills if spared else ():
        code += _when(
            number, 0, _among([value & 0xFFFFFFFF for pid in spared for value in (pid, -pid)] + [0xFFFFFFFF], _EPERM)
        )
    for number, argument in calls.others if spared else ():
        code += _when(number, argument, [(_JEQ, 1, 0, 0), (_RET, 0, 0, _EPERM)])
    code += [(_RET, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *one) for one in code)


def _sockets(calls: _Calls, kind: Literal["all", "internet", "none"]) -> list[Instruction]:
    allowed = {
        "all": [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK],
        "internet": [AF_INET, AF_INET6, AF_NETLINK],
        "none": [],
    }[kind]
    body: list[Instruction] = [(_JEQ, len(allowed) - at, 0, family) for at, family in enumerate(allowed)]
    code = _when(calls.socket, 0, [*body, (_RET, 0, 0, _EACCES)])
    if kind != "all":  # a datagram socket of a pair can be sent elsewhere
        code += _when(calls.socketpair, 1, [(_AND, 0, 0, 0xF), (_JEQ, 0, 1, _DGRAM), (_RET, 0, 0, _EACCES)])
    return code


def _among(values: Sequence[int], verdict: int) -> list[Instruction]:
    return [one for value in values for one in ((_JEQ, 0, 1, value), (_RET, 0, 0, verdict))]


def _when(number: int, argument: int, body: Sequence[Instruction]) -> list[Instruction]:
    """Look at an argument (its low half) of one call; what falls through the body goes on with the call's number loaded."""
    return [
        (_JEQ, 0, len(body) + 2, number),
        (_LD, 0, 0, _ARGUMENT_0 + 8 * argument),
        *body,
        (_LD, 0, 0, _NUMBER),
    ]
