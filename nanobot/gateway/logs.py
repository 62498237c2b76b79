"""The operator's log: one line an event, on stderr and in a file if wanted, without secrets.

Text for people, JSON for machines; under systemd each text line begins with its priority instead of the time, which the journal
knows.  Never colour: lines are read from files.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

from nanobot.config.settings import LogSettings
from nanobot.errors import ConfigError

QUIET = ("httpx", "httpx2", "httpcore", "telegram", "telegram.ext", "openai", "anthropic", "asyncio", "urllib3")
_PRIORITIES = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


class LineFormatter(logging.Formatter):
    """One record, one line, redacted as a whole: also what libraries say, also tracebacks."""

    def __init__(self, redact: Callable[[str], str], *, as_json: bool, journal: bool = False) -> None:
        super().__init__()
        self._redact = redact
        self._as_json = as_json
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        text = self._redact(_message(record))
        if self._as_json:
            at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
            level = record.levelname.lower()
            line = {"at": at, "level": level, "logger": record.name, "message": text}
            return json.dumps(line, ensure_ascii=False).encode("utf-8", "replace").decode()
        text = " | ".join(text.splitlines())
        if self._journal:
            return f"<{_PRIORITIES.get(record.levelno, 6)}>{record.name}: {text}"
        at = datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")
        return f"{at} {record.levelname:<7} {record.name}: {text}"


def set_up(
    settings: LogSettings,
    redact: Callable[[str], str],
    *,
    environ: Mapping[str, str],
    stream: TextIO | None = None,
    default_level: str = "info",
) -> None:
    """Send everything that is logged where the settings say.  What was set up before is replaced.

    Raises:
        ConfigError: the log file cannot be written.
    """
    as_json = settings.format == "json"
    err = logging.StreamHandler(stream or sys.stderr)
    err.setFormatter(LineFormatter(redact, as_json=as_json, journal="JOURNAL_STREAM" in environ))
    handlers: list[logging.Handler] = [err]
    if settings.file is not None:
        file = _file_handler(settings, settings.file)
        file.setFormatter(LineFormatter(redact, as_json=as_json))
        handlers.append(file)
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel((settings.level or default_level).upper())
    for name in QUIET:  # at INFO they write down addresses, and a bot's address holds its token
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)


class PrivateFile(RotatingFileHandler):
    """A rotating file, each of which only its owner can read."""

    def _open(self) -> TextIOWrapper:
        def private(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        return open(self.baseFilename, "a", encoding="utf-8", errors="replace", opener=private)


def _file_handler(settings: LogSettings, path: Path) -> logging.Handler:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return PrivateFile(path, maxBytes=settings.file_max_bytes, backupCount=settings.file_count - 1)
    except OSError as error:
        raise ConfigError(f"log.file: {path} cannot be written: {error.strerror or type(error).__name__}") from None


def _message(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except (TypeError, ValueError):  # a library's faulty call must not cost the line
        text = str(record.msg)
    if record.exc_info and not record.exc_text:
        record.exc_text = logging.Formatter().formatException(record.exc_info)
    return f"{text}\n{record.exc_text}" if record.exc_text else text
