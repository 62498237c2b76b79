"""Telegram: a channel on the Bot API."""
