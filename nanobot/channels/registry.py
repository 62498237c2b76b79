"""Make configured channels.  The only place that knows all kinds; importing it imports no SDK, and neither does building."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nanobot.bus.events import SessionKey
from nanobot.bus.runtime_bus import RuntimeEventBus
from nanobot.channels.base import Channel
from nanobot.channels.settings import ChannelSettings
from nanobot.channels.supervisor import Progress
from nanobot.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPorts:
    """What a channel may use of the rest.

    ``events`` is where Turns are watched; ``stop`` stops a session's running Turn (false if there was none); ``progress`` is called
    after each round with the platform; ``commands`` maps the names of commands to a line of help; what a channel keeps on disk
    lies under ``data_dir``, shared with everybody else.
    """

    events: RuntimeEventBus
    stop: Callable[[SessionKey], Awaitable[bool]]
    progress: Progress
    data_dir: Path
    commands: Mapping[str, str]


def build_channel(name: str, settings: ChannelSettings, ports: ChannelPorts) -> Channel:
    """Return the channel for these settings.

    Raises:
        ConfigError: the settings cannot be used.
    """
    raise ConfigError(f"channels.{name}: channels of type {settings.type!r} are not in this version yet")
