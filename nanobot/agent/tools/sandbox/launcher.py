"""Confine this process for good, then become the command: ``python -I -S launcher.py ORDERS [--read PATH]... COMMAND...``.

A script of its own, stdlib only, never imported by the daemon.  It runs inside bubblewrap's namespaces, or alone where there are
none.  ORDERS (a file, JSON) says what to do, in this order: ``signals`` back to their defaults; ``limits`` of the system;
``listen`` for the proxy outside, in this network namespace; then capabilities go, and ``landlock`` and ``seccomp`` come.

It promises that the command runs confined or not at all: whatever cannot be done ends it with status 126 and a reason.

Source: landlock(7), capabilities(7), seccomp(2)
"""

import binascii
import ctypes
import json
import os
import resource
import signal
import struct
import sys
from typing import Any

_PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 22, 24, 38, 47, 4
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_LOOK = 1 << 2 | 1 << 3  # read files, list directories
_READ = _LOOK | 1 << 0  # and execute
_DEVICE = 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # write, read, truncate, ioctl
_WRITE = (1 << 16) - 1 & ~(1 << 6 | 1 << 11)  # everything but making devices
_RIGHTS = {"look": _LOOK, "read": _READ, "shared": _READ, "device": _DEVICE, "write": _WRITE}
_OF_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # rights that mean something for what is no directory

_MIN_ABI = 3  # before, a file outside could be truncated

_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> int:
    """Do what the orders say and become the command; return only if something failed."""
    with open(arguments[0], encoding="utf-8") as file:
        orders: dict[str, Any] = json.load(file)
    command = arguments[1:]
    shared: list[str] = []
    while command[0] == "--read":
        shared.append(command[1])
        command = command[2:]
    for number in (*orders["signals"], signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores the last two
        signal.signal(number, signal.SIG_DFL)
    _limit(orders["limits"])
    if "listen" in orders:
        _listen(**orders["listen"])
    _drop_capabilities()
    _called(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    grants = orders["landlock"]
    _restrict({**grants, "shared": shared} if grants else {})
    if orders["seccomp"]:
        _filter(binascii.a2b_base64(orders["seccomp"]))
    os.execvp(command[0], command)
    return 126


def _limit(limits: dict[str, int]) -> None:
    """Set limits of the system, none above the one there is.  ``more_processes`` counts on top of what this user runs."""
    for name, value in limits.items():
        if name == "more_processes":
            name, value = "RLIMIT_NPROC", value + _running()
        number = getattr(resource, name)
        hard = resource.getrlimit(number)[1]
        most = value + (name == "RLIMIT_CPU")  # a second between the signal that can be told and the end
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(number, (min(value, most), most))


def _running() -> int:
    """Return how many threads this user has: where there is no namespace, the limit counts them all."""
    count, uid = 0, os.getuid()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == uid:
                    count += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue
    return count


def _listen(*, fd: int, port: int) -> None:
    """Hand a listening socket of this network namespace to the proxy outside, which answers on it."""
    import array  # here: loading these two takes as long as everything else does, and only a list of hosts needs them
    import socket

    with socket.socket() as listener, socket.socket(fileno=fd) as outside:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(64)
        outside.sendmsg([b"1"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener.fileno()]))])


def _drop_capabilities() -> None:
    """Give up every capability, and the right to get one back."""
    for number in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break  # beyond the last one, or not ours to drop: then none can be gained either (no_new_privs)
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("Ii", 0x20080522, 0)
    _called(_libc.capset(header, b"\0" * 24), "dropping capabilities")


def _restrict(grants: dict[str, list[str]]) -> None:
    """Let Landlock allow these paths and no others; without any it keeps signals and abstract sockets inside, where it can."""
    version = _abi()
    handled = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1 if grants else 0
    scope = 3 if version >= 6 else 0
    if grants and version < _MIN_ABI:
        raise OSError(0, f"the kernel's Landlock is too old ({version}; it takes {_MIN_ABI})")
    if not (handled or scope):
        return
    attributes = struct.pack("QQQ", handled, 0, scope)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = _called(
        _call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0)), "landlock"
    )
    for kind, paths in grants.items():
        for path in paths:
            _grant(ruleset, path, _RIGHTS[kind] & handled)
    _called(_call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)), "landlock")
    os.close(ruleset)


def _grant(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not there, or not ours to see: nothing to allow
    if not os.path.isdir(f"/proc/self/fd/{fd}"):
        rights &= _OF_FILES
    rule = struct.pack("=Qi", rights, fd)
    _called(_call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint32(0)), f"landlock for {path}")
    os.close(fd)


def _abi() -> int:
    return max(0, _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1)))


def _filter(program: bytes) -> None:
    """Install a seccomp filter."""
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP" if struct.calcsize("P") == 8 else "HxxP", len(program) // 8, ctypes.addressof(code))
    _called(_libc.prctl(_PR_SET_SECCOMP, 2, header, 0, 0), "seccomp")


def _call(number: int, *arguments: object) -> int:
    return _libc.syscall(ctypes.c_long(number), *arguments)


def _called(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except FileNotFoundError as error:
        sys.stderr.write(f"{error.filename}: not found in the sandbox\n")
        sys.exit(127)
    except OSError as error:
        sys.stderr.write(f"the command was not run, because the sandbox could not be made: {error.strerror}\n")
        sys.exit(126)
