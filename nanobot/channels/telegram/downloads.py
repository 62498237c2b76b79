"""Files that people sent, from Telegram to the disk.

Downloads have connections of their own: however slow they are, answers and updates do not wait behind them.  They are streamed, so
that a large file takes no memory, and counted while they come, whatever size was announced.
"""

import asyncio
import hashlib
import logging
import os
import re
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import mkstemp
from typing import BinaryIO

import httpx
from telegram import Bot
from telegram.request import HTTPXRequest

from nanobot.bus.events import Media
from nanobot.channels.telegram.client import RAISED, httpx_kwargs
from nanobot.channels.telegram.errors import from_telegram
from nanobot.channels.telegram.files import sync_directory
from nanobot.channels.telegram.settings import TELEGRAM_URL, TelegramSettings
from nanobot.errors import FileUnavailable, SendFailed, SendRejected

log = logging.getLogger(__name__)

AT_ONCE = 4
TRIES = 5
LONGEST_WAIT_S = 10.0
SILENCE_S = 30.0  # between two pieces of a file
BLOCK_BYTES = 256 * 1024
GONE = "Telegram does not have it any more"
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,10}\Z")


class Downloads:
    """The downloads of one bot.  Usable from the start; ``close`` it at the end."""

    def __init__(
        self,
        name: str,
        settings: TelegramSettings,
        directory: Path,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._name = name
        self._most_mb = settings.max_download_mb
        self._directory = directory
        self._sleep = sleep
        self._gate = asyncio.Semaphore(AT_ONCE)
        kwargs = httpx_kwargs(settings)
        self._request = HTTPXRequest(
            connection_pool_size=AT_ONCE, read_timeout=20, connect_timeout=10, httpx_kwargs=kwargs
        )
        self._bot = Bot(
            settings.token.get_secret_value(),
            base_url=settings.base_url,
            base_file_url=settings.file_url,
            request=self._request,
            get_updates_request=self._request,
        )
        self._files = httpx.AsyncClient(timeout=SILENCE_S, limits=httpx.Limits(max_connections=AT_ONCE), **kwargs)
        self._is_public = settings.base_url == TELEGRAM_URL

    async def fetch(self, media: Media) -> Media:
        """Keep a file under its content's name, durably; return the media with path and digest.

        Raises:
            FileUnavailable: it is too large, gone, or cannot be reached.
        """
        if media.size_bytes is not None and media.size_bytes > self._most_bytes:
            raise FileUnavailable(self._too_large)
        for tried in range(1, TRIES + 1):
            try:
                async with self._gate:
                    return await self._fetch(media)
            except SendFailed as error:
                log.warning("channel %s: a file could not be fetched (try %d): %s", self._name, tried, error)
                if tried == TRIES:
                    raise FileUnavailable(f"it could not be fetched ({error})") from None
                await self._sleep(error.retry_after_s or min(2.0 ** (tried - 1), LONGEST_WAIT_S))
            except SendRejected as error:
                raise FileUnavailable(self._too_large if "too big" in str(error) else GONE) from None
            except OSError as error:
                log.warning("channel %s: a file could not be kept: %s", self._name, error)
                raise FileUnavailable(f"the disk did not take it ({error.strerror or error})") from None
        raise AssertionError("the last try returns or raises")

    async def close(self) -> None:
        """Close the connections."""
        await self._request.shutdown()
        await self._files.aclose()

    @property
    def _most_bytes(self) -> int:
        return self._most_mb * 1024 * 1024

    @property
    def _too_large(self) -> str:
        return f"it is larger than the {self._most_mb} MB that can be fetched"

    async def _fetch(self, media: Media) -> Media:
        path = await self._path_of(media.ref)
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        number, name = mkstemp(dir=self._directory, suffix=".partial")
        with os.fdopen(number, "w+b") as partial:
            try:
                digest, size = await self._receive(path, partial)
                suffix = _SUFFIX.search(media.name)
                target = self._directory / f"{digest}{suffix.group().lower() if suffix else ''}"
                await asyncio.to_thread(_keep, partial, Path(name), target)
            except BaseException:
                with suppress(OSError):
                    os.unlink(name)
                raise
        return replace(media, path=str(target), sha256=digest, size_bytes=size)

    async def _path_of(self, ref: str) -> str:
        """Return where Telegram has the file: a path under its file address, or on this machine for a local server."""
        try:
            found = await self._bot.get_file(ref)
        except RAISED as error:
            raise from_telegram(error) from None
        if found.file_size is not None and found.file_size > self._most_bytes:
            raise FileUnavailable(self._too_large)
        if not found.file_path:
            raise FileUnavailable(GONE)
        return found.file_path

    async def _receive(self, path: str, into: BinaryIO) -> tuple[str, int]:
        if Path(path).is_absolute() and not self._is_public:  # no other machine may name our files
            return await asyncio.to_thread(self._copy, Path(path), into)
        try:
            async with self._files.stream("GET", path) as answer:
                _check(answer.status_code)
                return await self._pour(answer, into)
        except httpx.HTTPError as error:  # its text may hold the address, and so the token
            raise SendFailed(f"the connection to Telegram broke: {type(error).__name__}") from None

    async def _pour(self, answer: httpx.Response, into: BinaryIO) -> tuple[str, int]:
        digest, size = hashlib.sha256(), 0
        async for block in answer.aiter_bytes(BLOCK_BYTES):
            size += len(block)
            if size > self._most_bytes:
                raise FileUnavailable(self._too_large)
            digest.update(block)
            await asyncio.to_thread(into.write, block)
        return digest.hexdigest(), size

    def _copy(self, path: Path, into: BinaryIO) -> tuple[str, int]:
        """Take a file over from a Bot API server on this machine, which names it by its path."""
        if path.stat().st_size > self._most_bytes:
            raise FileUnavailable(self._too_large)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            shutil.copyfileobj(file, into)
        return digest, into.tell()


def _check(status: int) -> None:
    if status in (400, 401, 403, 404, 410):
        raise SendRejected(GONE)
    if status != 200:
        raise SendFailed(f"Telegram answers with status {status}", retry_after_s=5.0 if status == 429 else None)


def _keep(partial: BinaryIO, path: Path, target: Path) -> None:
    """Give a file its name when all of it is on the disk."""
    partial.flush()
    os.fsync(partial.fileno())
    path.replace(target)
    sync_directory(target.parent)
