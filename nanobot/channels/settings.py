"""What a configuration can say about a channel, of whatever kind; ``type`` tells them apart."""

from typing import TypeAlias

from nanobot.channels.telegram.settings import TelegramSettings

ChannelSettings: TypeAlias = TelegramSettings
