"""What systemd is told."""

import socket
from pathlib import Path

from nanobot.gateway.notify import Notifier


def told(notifier_of: str, address: str, receiver: socket.socket) -> list[str]:
    notifier = Notifier({"NOTIFY_SOCKET": notifier_of, "WATCHDOG_USEC": "3000000"})
    receiver.bind(address)
    receiver.setblocking(False)
    notifier.ready()
    notifier.status("polling\nand well")
    notifier.status("polling\nand well")
    notifier.alive()
    notifier.stopping()
    lines: list[str] = []
    try:
        while True:
            lines.append(receiver.recv(4_096).decode())
    except BlockingIOError:
        return lines


def test_states_arrive(tmp_path: Path) -> None:
    """Each state is one datagram; a repeated status is not sent again, and holds no line break."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        lines = told(str(tmp_path / "notify"), str(tmp_path / "notify"), receiver)

    assert lines == ["READY=1", "STATUS=polling and well", "WATCHDOG=1", "STOPPING=1"]


def test_an_abstract_socket_works(tmp_path: Path) -> None:
    """systemd may name a socket that is no file, with an @."""
    name = f"nanobot-test-{tmp_path.name}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        lines = told(f"@{name}", f"\0{name}", receiver)

    assert lines[0] == "READY=1"


def test_nobody_listens(tmp_path: Path) -> None:
    """Without systemd, or with a socket that is gone, nothing happens."""
    Notifier({}).ready()
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone"), "WATCHDOG_USEC": "x"}).alive()

    assert Notifier({}).watchdog_s is None


def test_the_watchdogs_time_is_in_seconds() -> None:
    """WATCHDOG_USEC counts microseconds."""
    assert Notifier({"WATCHDOG_USEC": "60000000"}).watchdog_s == 60.0
