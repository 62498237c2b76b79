"""A strict local Bot API server; see ``tests.fakes.telegram_server``."""
