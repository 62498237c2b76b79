"""Make configured channels.  The only place that knows all kinds; importing it imports no SDK, building one imports its own."""

import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeAlias

from nanobot.bus.events import Route, SessionKey
from nanobot.bus.runtime_bus import RuntimeEventBus
from nanobot.channels.base import Channel, Decide, Move, Record
from nanobot.channels.settings import ChannelSettings
from nanobot.channels.supervisor import Progress
from nanobot.values import frozen

# What python-telegram-bot and its HTTP client import when they find it, and nobody here uses: a command line with rich and
# pygments, and the keys of Telegram Passport.  13 MB and 130 ms.
_UNUSED = ("httpx._main", "cryptography")


@frozen(kw_only=True)
class ChannelPorts:
    """What a channel may use of the rest.

    ``events`` is where Turns are watched; ``record`` is where states of deliveries are written; ``stop`` stops a session's
    running Turn (false if there was none); ``decide`` answers a question that waits; ``moved`` notes that a chat has a new id;
    ``progress`` is called after each round with the platform; ``commands`` maps the names of commands to a line of help; what a
    channel keeps on disk lies under ``data_dir``, shared with everybody else.
    """

    events: RuntimeEventBus
    record: Record
    stop: Callable[[SessionKey], Awaitable[bool]]
    decide: Decide
    moved: Move
    progress: Progress
    data_dir: Path
    commands: Mapping[str, str]


def build_channel(name: str, settings: ChannelSettings, ports: ChannelPorts) -> Channel:
    """Return the channel for these settings."""
    with _leaving_out(_UNUSED):
        from nanobot.channels.telegram.channel import TelegramChannel  # lazily: only what the config uses

    return TelegramChannel(
        name,
        settings,
        events=ports.events,
        record=ports.record,
        decide=ports.decide,
        moved=ports.moved,
        data_dir=ports.data_dir,
        progress=ports.progress,
        commands=ports.commands,
    )


Parts: TypeAlias = tuple[tuple[int, int], ...]


class Splitter(Protocol):
    """Cuts a text into the parts that its channel can send."""

    def __call__(self, route: Route, text: str, *, is_caption: bool = False) -> Parts:
        """Return the parts; of a file's caption, the first is what goes with the file (and may be empty)."""
        ...


def answer_splitter(channels: Mapping[str, ChannelSettings]) -> Splitter:
    """Return how answers are cut into parts: as their channel can show them, or not at all where there is no such channel."""

    def split(route: Route, text: str, *, is_caption: bool = False) -> Parts:
        if route.channel not in channels:
            return ((0, len(text)),)
        from nanobot.channels.telegram.code import split_with_files  # lazily: loaded by then, as its channel is
        from nanobot.channels.telegram.format import split_answer, split_caption

        if is_caption:
            return split_caption(text)
        return split_with_files(text) if channels[route.channel].long_code_as_file else split_answer(text)

    return split


def file_limits(channels: Mapping[str, ChannelSettings]) -> Callable[[Route], int | None]:
    """Return how large a file each chat takes, in bytes; None where there is no such channel."""
    limits = {name: settings.max_upload_mb * 1_000_000 for name, settings in channels.items()}
    return lambda route: limits.get(route.channel)


@contextmanager
def _leaving_out(names: tuple[str, ...]) -> Generator[None]:
    """Have imports of these fail, as where they are not installed, unless somebody has imported them already."""
    absent = [name for name in names if name not in sys.modules]
    try:
        for name in absent:
            sys.modules[name] = None  # pyright: ignore[reportArgumentType]  # how the import system is told "there is none"
        yield
    finally:
        for name in absent:
            del sys.modules[name]
