"""Stand between a command and the network: ``python -I -S proxy.py FD HOSTS COMMAND...`` becomes COMMAND, with a proxy beside it.

A script of its own, stdlib only, never imported by the daemon.  COMMAND makes a network namespace in which nothing but loopback
exists, listens there, and hands the listening socket out through descriptor FD.  The proxy answers on it and connects for the
command, from outside, to the hosts that HOSTS (JSON) names: ``example.org``, ``*.example.org``, each also with ``:port``.

It promises that no other host is reached through it, and that it is gone when COMMAND is.  It reads no more of a connection than
the first request: inside an allowed TLS tunnel it sees nothing.

Source: RFC 9110, section 9.3.6 (CONNECT)
"""

import contextlib
import ctypes
import ipaddress
import json
import os
import signal
import socket
import sys
import threading
from typing import NamedTuple

HEAD_BYTES = 64 << 10
HEAD_S = 30.0
CONNECT_S = 20.0
MOST = 256  # connections at once
_BY_RULE = "tools.sandbox.network"


class Target(NamedTuple):
    """Where a request wants to go, and what is sent there first."""

    host: str
    port: int
    first: bytes  # empty for a tunnel


class Refused(Exception):
    """The request is answered with an error; ``status`` is its code."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def main(fd: int, hosts: list[str], command: list[str]) -> None:
    """Fork: the child is the proxy, this process becomes the command."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    parent = os.getpid()
    if os.fork() == 0:
        theirs.close()
        _serve(ours, hosts, parent)
        os._exit(0)
    ours.close()
    if theirs.fileno() != fd:
        os.dup2(theirs.fileno(), fd, inheritable=True)
    os.set_inheritable(fd, True)
    os.execv(command[0], command)


def _serve(control: socket.socket, hosts: list[str], parent: int) -> None:
    os.setsid()  # not of the command's group, which is ended first and looked at afterwards
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)  # stderr stays the command's: what is refused is told there
    _, fds, _, _ = socket.recv_fds(control, 1, 1)
    control.close()
    if not fds:
        return  # the command never came to listen
    listener = socket.socket(fileno=fds[0])
    room = threading.BoundedSemaphore(MOST)
    while True:
        connection, _ = listener.accept()
        room.acquire()
        threading.Thread(target=_one, args=(connection, hosts, room), daemon=True).start()


def _one(connection: socket.socket, hosts: list[str], room: threading.BoundedSemaphore) -> None:
    with connection:
        try:
            _relay(connection, hosts)
        except Refused as refusal:
            _tell(f"nanobot sandbox: {refusal}\n")
            body = f"{refusal}\n".encode()
            head = f"HTTP/1.1 {refusal.status} {refusal}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            _send(connection, head.encode() + body)
        except OSError:
            pass  # one of the two ends is gone
        finally:
            room.release()


def _relay(connection: socket.socket, hosts: list[str]) -> None:
    connection.settimeout(HEAD_S)
    head, rest = _head(connection)
    target = target_of(head)
    if not allowed(target, hosts):
        raise Refused(
            403, f"{target.host}:{target.port} is not in {_BY_RULE}, the hosts that the owner lets commands reach"
        )
    with _connect(target) as far:
        if target.first:
            far.sendall(target.first + rest)
        else:
            connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            far.sendall(rest)
        connection.settimeout(None)
        back = threading.Thread(target=_pump, args=(far, connection), daemon=True)
        back.start()
        _pump(connection, far)
        back.join()


def _head(connection: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(8192)
        if not piece or len(data) > HEAD_BYTES:
            raise Refused(400, "this is no request for a proxy")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def target_of(head: bytes) -> Target:
    """Return where the head of a request wants to go.  Pure.

    A plain request is sent on as its own host's: with the Host of its address, and as the only one of its connection.
    """
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3:
        raise Refused(400, "this is no request for a proxy")
    method, address, version = words
    if method == "CONNECT":
        host, port = _host_port(address, None)
        return Target(host, port, b"")
    scheme, found, rest = address.partition("://")
    if scheme.lower() != "http" or not found:
        raise Refused(400, "this proxy takes CONNECT, and http:// addresses")
    place, slash, path = rest.partition("/")
    host, port = _host_port(place.rpartition("@")[2], 80)
    dropped = ("host:", "connection:", "proxy-connection:", "proxy-authorization:", "keep-alive:", "upgrade:")
    kept = [line for line in lines[1:] if not line.lower().startswith(dropped)]
    first = [
        f"{method} /{path if slash else ''} {version}",
        f"Host: {place.rpartition('@')[2]}",
        *kept,
        "Connection: close",
    ]
    return Target(host, port, "\r\n".join(first).encode("latin-1") + b"\r\n\r\n")


def _host_port(place: str, default: int | None) -> tuple[str, int]:
    host, colon, port = place.rpartition(":")
    if place.endswith("]") or not colon:
        host, port = place, ""
    if not host or (not port and default is None) or (port and not port.isascii()) or (port and not port.isdigit()):
        raise Refused(400, "the address has no host or port")
    number = int(port) if port else default or 0
    if not 0 < number < 65536:
        raise Refused(400, "there is no such port")
    return host.strip("[]").rstrip(".").lower(), number


def allowed(target: Target, hosts: list[str]) -> bool:
    """Whether a rule of the list lets the target be reached.  Pure."""
    for rule in hosts:
        name, port = rule.lower(), ""
        if not name.endswith("]") and name.rpartition(":")[1]:
            name, _, port = name.rpartition(":")
        name = name.strip("[]")
        fits = target.host.endswith(name[1:]) if name.startswith("*.") else target.host == name
        if fits and (not port or int(port) == target.port):
            return True
    return False


def _connect(target: Target) -> socket.socket:
    """Connect to the target.  A name of somewhere else must not lead to this machine itself: only localhost and addresses do."""
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Refused(502, f"{target.host} could not be found: {error.strerror or error}") from None
    last: OSError | None = None
    for family, kind, number, _, address in found:
        if not _is_plain(target.host) and _is_ours(str(address[0])):
            raise Refused(
                403, f"{target.host} leads to {address[0]}, this machine; list that address itself in {_BY_RULE}"
            )
        far = socket.socket(family, kind, number)
        far.settimeout(CONNECT_S)
        try:
            far.connect(address)
        except OSError as error:
            far.close()
            last = error
        else:
            far.settimeout(None)
            return far
    raise Refused(502, f"{target.host} does not answer: {last.strerror or last if last else 'no address'}")


def _is_plain(host: str) -> bool:
    """Whether who wrote the rule saw where it leads: an address, or this machine's own name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def _is_ours(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(ip, "ipv4_mapped", None) or ip
    return mapped.is_loopback or mapped.is_link_local or mapped.is_unspecified


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Copy until the source ends; then tell the target so."""
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _send(connection: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(data)


def _tell(line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, line.encode("utf-8", "replace"))


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:])
