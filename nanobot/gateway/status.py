"""How a running gateway answers ``nanobot status``: a socket in the data directory that gives one JSON object to whoever connects.

The socket is for this user only.  It needs no protocol: connect, read to the end.
"""

import asyncio
import fcntl
import json
import os
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from nanobot.messages import JsonObject

SOCKET_NAME = "gateway.sock"
LOCK_NAME = "gateway.lock"
ASK_S = 3.0
_NOBODY = 2**31 - 1  # no process has this number
_PATH_MAX_BYTES = 100  # of a socket's address; Linux takes 107


class StatusServer:
    """Answers every connection with the snapshot of that moment."""

    def __init__(self, data_dir: Path, snapshot: Callable[[], JsonObject]) -> None:
        self._data_dir = data_dir
        self._snapshot = snapshot
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Begin to answer.  Whoever holds the gateway's lock may call it: an old socket is removed.

        Raises:
            OSError: there can be no socket here.
        """
        self._server = await asyncio.start_unix_server(self._serve, sock=_bound(self._data_dir))

    async def close(self) -> None:
        """Stop answering."""
        if self._server is None:
            return
        self._server.close()
        await self._server.wait_closed()
        with suppress(OSError):
            (self._data_dir / SOCKET_NAME).unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ASK_S):
                writer.write(json.dumps(self._snapshot()).encode())
                await writer.drain()
        except (OSError, TimeoutError):
            pass  # whoever asked is gone
        finally:
            writer.close()


def ask(data_dir: Path, *, timeout_s: float = ASK_S) -> JsonObject | None:
    """Return what the gateway of this data directory says of itself; None if none answers."""
    chunks: list[bytes] = []
    try:
        with socket.socket(socket.AF_UNIX) as asking, _address(data_dir) as address:
            asking.settimeout(timeout_s)
            asking.connect(address)
            while chunk := asking.recv(65_536):
                chunks.append(chunk)
        found: Any = json.loads(b"".join(chunks))  # Any: checked below
    except (OSError, ValueError):
        return None
    return cast("JsonObject", found) if isinstance(found, dict) else None


def _bound(data_dir: Path) -> socket.socket:
    with suppress(FileNotFoundError):
        (data_dir / SOCKET_NAME).unlink()
    bound = socket.socket(socket.AF_UNIX)
    try:
        with _address(data_dir) as address:
            bound.bind(address)
        (data_dir / SOCKET_NAME).chmod(0o600)  # before anybody can connect: it does not listen yet
    except OSError:
        bound.close()
        raise
    return bound


@contextmanager
def _address(data_dir: Path) -> Generator[str]:
    """Yield an address of the socket that is short enough, however long the directory's name is."""
    path = str(data_dir / SOCKET_NAME)
    if len(os.fsencode(path)) <= _PATH_MAX_BYTES:
        yield path
        return
    descriptor = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)


def holder(data_dir: Path) -> int | None:
    """Return the process that holds the gateway's lock; None if nobody does."""
    path = data_dir / LOCK_NAME
    pid = _noted_pid(path)
    try:
        os.kill(
            pid, 0
        )  # the lock is tried only where the note may be true: trying could refuse a gateway that starts now
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # given back when the file is closed
    except (BlockingIOError, PermissionError):
        return pid
    except OSError:
        pass
    return None


def _noted_pid(path: Path) -> int:
    try:
        found: Any = json.loads(path.read_text("utf-8", "replace"))  # Any: checked below
        return max(0, int(found["pid"])) or _NOBODY
    except (OSError, ValueError, KeyError, TypeError):
        return _NOBODY
