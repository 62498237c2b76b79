"""The operator's log."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanobot.bus.runtime_events import ChannelStatus, Delivered, TextDelta, TurnFinished
from nanobot.config.settings import LogSettings
from nanobot.errors import ConfigError
from nanobot.gateway.logs import QUIET, set_up
from nanobot.gateway.report import describe
from nanobot.redaction import Redactor

TOKEN = "123456:AAAA-secret-token"


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Put the process's logging back."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in QUIET}
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, was in levels.items():
        logging.getLogger(name).setLevel(was)
    logging.captureWarnings(False)


def lines(settings: LogSettings, environ: dict[str, str] | None = None) -> list[str]:
    """Log a few things and return what came out."""
    stream = io.StringIO()
    set_up(settings, Redactor([TOKEN]), environ=environ or {}, stream=stream)
    log = logging.getLogger("nanobot.test")
    log.info("polling %s", f"https://api.telegram.org/bot{TOKEN}/getMe")
    log.debug("not wanted")
    logging.getLogger("httpx").info("POST %s", TOKEN)
    try:
        raise ValueError(f"bad\n{TOKEN}")
    except ValueError:
        log.exception("it broke")
    log.warning("%d", "no number")
    return stream.getvalue().splitlines()


def test_one_line_an_event_without_secrets() -> None:
    """Text lines hold time, level, logger and message; tracebacks are in their line; keys and tokens are not."""
    found = lines(LogSettings())

    assert len(found) == 3
    assert found[0].endswith("INFO    nanobot.test: polling https://api.telegram.org/bot[redacted]/getMe")
    assert "it broke | Traceback" in found[1]
    assert TOKEN not in "".join(found)
    assert "\x1b" not in "".join(found)


def test_json_lines_are_objects() -> None:
    """With format json every line is one object, tracebacks included."""
    found = [json.loads(line) for line in lines(LogSettings(format="json"))]

    assert [one["level"] for one in found] == ["info", "error", "warning"]
    assert found[0]["logger"] == "nanobot.test"
    assert "Traceback" in found[1]["message"]
    assert TOKEN not in json.dumps(found)


def test_under_systemd_lines_begin_with_their_priority() -> None:
    """The journal knows the time; it takes the priority from the line's beginning."""
    found = lines(LogSettings(), {"JOURNAL_STREAM": "8:123"})

    assert [line[:3] for line in found] == ["<6>", "<3>", "<4>"]


def test_f08_the_file_is_bounded_and_private(tmp_path: Path) -> None:
    """A log file is rotated at its size, so many are kept, and only its owner can read it."""
    file = tmp_path / "deep" / "nanobot.log"
    set_up(LogSettings(file=file, file_max_bytes=10_000, file_count=3), Redactor([]), environ={}, stream=io.StringIO())
    for number in range(1_000):
        logging.getLogger("nanobot.test").info("line %d %s", number, "x" * 50)
    found = sorted(path.name for path in file.parent.iterdir())

    assert found == ["nanobot.log", "nanobot.log.1", "nanobot.log.2"]
    assert all(path.stat().st_size <= 10_000 for path in file.parent.iterdir())
    assert file.stat().st_mode & 0o777 == 0o600
    assert "line 999" in file.read_text()


def test_a_log_file_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    """A wrong place is a ConfigError that names the key."""
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match=r"log\.file: .* cannot be written"):
        set_up(LogSettings(file=tmp_path / "file" / "x.log"), Redactor([]), environ={}, stream=io.StringIO())


def test_events_become_lines_without_anybodys_text() -> None:
    """Turns and channels are worth a line, deltas are none, and what people and models wrote stays out."""
    turn = TurnFinished(turn="t1", session_key="telegram:1", stop_reason="completed", content="secret")
    failed = TurnFinished(turn="t2", session_key="telegram:1", stop_reason="error", content="", error="no money")

    assert describe(turn) == (
        logging.INFO,
        "turn t1 of telegram:1 ended (completed), 0 model calls, 0 tools, 0 tokens in, 0 out",
    )
    assert describe(failed) == (
        logging.WARNING,
        "turn t2 of telegram:1 ended (error), 0 model calls, 0 tools, 0 tokens in, 0 out: no money",
    )
    assert describe(ChannelStatus("telegram", "down", "no route")) == (
        logging.WARNING,
        "channel telegram is down: no route",
    )
    assert describe(Delivered("telegram:1", "o1", 0, "sent")) == (logging.DEBUG, "delivered part 0 of o1 of telegram:1")
    assert describe(TextDelta(text="secret")) is None
