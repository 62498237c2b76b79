"""Tell systemd how we are (``sd_notify``), without a library.

Source: https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
"""

import socket
import time
from collections.abc import Mapping
from contextlib import suppress


class Notifier:
    """Sends states to the socket that systemd names; without one, to nobody.

    Args:
        environ: where ``NOTIFY_SOCKET`` and ``WATCHDOG_USEC`` are looked for.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        path = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        self.watchdog_s = _watchdog_s(environ)
        self._status = ""

    def ready(self) -> None:
        """Say that we do our work from here on."""
        self._send("READY=1")

    def stopping(self) -> None:
        """Say that we are on the way out."""
        self._send("STOPPING=1")

    def reloading(self) -> None:
        """Say that we start over with a new configuration; ``ready`` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000}")

    def alive(self) -> None:
        """Say that we are well: without it for ``watchdog_s``, systemd ends us and starts anew."""
        self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """Show one line in ``systemctl status``; the same again is not sent."""
        if text != self._status:
            self._status = text
            self._send(f"STATUS={' '.join(text.split())}")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)  # a manager that does not read must not hold us up
            sender.sendto(text.encode(), self._address)


def _watchdog_s(environ: Mapping[str, str]) -> float | None:
    try:
        return int(environ.get("WATCHDOG_USEC", "")) / 1e6 or None
    except ValueError:
        return None
