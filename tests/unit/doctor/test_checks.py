"""What the doctor finds, each with what mends it."""

import errno
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanobot.cli.doctor import line_of, service_findings
from nanobot.cli.service import Service
from nanobot.gateway.status import LOCK_NAME
from nanobot.session.locks import hold
from nanobot.setup.checks import Finding, Surroundings, examine
from nanobot.setup.web import Answer, Unreachable
from tests.fakes.mcp.rig import PROGRAM

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
TOKEN = "123:s3cret"
CONFIG = f"""\
workspace: work
data_dir: data
channels:
  telegram: {{token: '{TOKEN}', allow_from: [1], base_url: http://bots/bot}}
"""


class Telegram:
    """Answers of the Bot API by method; without one it is not there."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = {
            "getMe": Answer(status=200, body={"ok": True, "result": {"id": 123, "username": "my_bot"}}, date=NOW),
            "getWebhookInfo": Answer(status=200, body={"ok": True, "result": {"url": ""}}, date=NOW),
            "getUpdates": Answer(status=200, body={"ok": True, "result": []}, date=NOW),
            **answers,
        }
        self.asked: list[tuple[str, Mapping[str, object] | None]] = []

    def __call__(self, url: str, *, data: Mapping[str, object] | None = None, timeout_s: float = 10.0) -> Answer:
        method = url.rpartition("/")[2]
        self.asked.append((method, data))
        if method not in self.answers:
            raise Unreachable("nothing listens there")
        return self.answers[method]


def around(tmp_path: Path, config: str = CONFIG, **more: object) -> Surroundings:
    path = tmp_path / "config.yaml"
    path.write_text(config)
    path.chmod(0o600)
    base = Surroundings(
        environ={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, config=path, fetch=Telegram(), now=lambda: NOW
    )
    return replace(base, **more)


def found(around: Surroundings) -> dict[str, Finding]:
    return {finding.name: finding for finding in examine(around) if finding.level != "ok"}


def test_all_is_well(tmp_path: Path) -> None:
    """A sound installation has nothing broken, and nothing of Telegram is acknowledged by looking."""
    telegram = Telegram()
    findings = list(examine(around(tmp_path, fetch=telegram)))

    assert [one for one in findings if one.level == "bad"] == []
    assert Finding("channel telegram", "ok", "@my_bot") in findings
    assert all("offset" not in (data or {}) for _, data in telegram.asked)
    assert not (tmp_path / "data").exists(), "looking makes nothing"


def test_a_bad_config_is_the_only_finding(tmp_path: Path) -> None:
    """Each wrong key is named with its line; nothing else can be judged then."""
    findings = list(examine(around(tmp_path, "agnet: {}\nlog: {level: loud}\n")))

    assert [(one.name, one.level) for one in findings] == [("config", "bad")] * 2
    assert "did you mean 'agent'" in findings[0].text


def test_a_readable_config_is_told(tmp_path: Path) -> None:
    """Keys that others on the machine can read."""
    here = around(tmp_path)
    (tmp_path / "config.yaml").chmod(0o644)

    assert found(here)["config"].fix == f"chmod 600 {tmp_path}/config.yaml"


def test_a_data_directory_that_others_can_look_into_is_told(tmp_path: Path) -> None:
    """It holds conversations and logins."""
    (tmp_path / "data").mkdir(mode=0o755)
    finding = found(around(tmp_path))["data"]

    assert (finding.level, finding.fix) == ("careful", f"chmod 700 {tmp_path}/data")


def test_mcp_servers_are_looked_at(tmp_path: Path) -> None:
    """A server that does not come up is told with its reason, and one that does is fine."""
    servers = f"""\
tools:
  mcp:
    servers:
      good: {{command: {sys.executable}, args: ['{PROGRAM}', '{tmp_path}', good]}}
      bad: {{command: no-such-program}}
"""
    findings = {one.name: one for one in examine(around(tmp_path, CONFIG + servers)) if one.name.startswith("mcp")}

    assert (findings["mcp good"].level, findings["mcp good"].text) == ("ok", "up, 9 tools (scripted 1)")
    assert findings["mcp bad"].level == "bad"
    assert "'no-such-program' cannot be run" in findings["mcp bad"].text


@pytest.mark.parametrize(("free", "level"), [(100_000_000, "bad"), (500_000_000, "careful")])
def test_a_full_disk_is_told(tmp_path: Path, free: int, level: str) -> None:
    """Scarce room is broken, little room is a warning."""

    def free_bytes(path: Path) -> int:
        return free

    here = around(tmp_path, free_bytes=free_bytes)

    assert found(here)["data"].level == level


@pytest.mark.parametrize(
    ("number", "place", "fix"),
    [
        (errno.EACCES, "mine", "sudo chown -R $USER {}/mine"),
        (errno.EACCES, "/usr/lib", "set data_dir to a directory that you may write to"),
        (errno.ENOTDIR, "mine", "set data_dir to a directory that you may write to"),
        (errno.EROFS, "mine", "set data_dir to a directory on a disk that is not mounted read-only"),
        (errno.ENOSPC, "mine", "make room on that disk"),
    ],
)
def test_advice_fits_why_a_place_cannot_be_written(tmp_path: Path, number: int, place: str, fix: str) -> None:
    """A change of owner is advised only where access is refused, and never for what may be the system's."""
    there = tmp_path / place
    there.mkdir(exist_ok=True)

    def try_writing(path: Path) -> None:
        if path == there:
            raise OSError(number, os.strerror(number))

    config = f"data_dir: {there}\nworkspace: work\n"
    finding = found(around(tmp_path, config, try_writing=try_writing, asks=False))["data"]

    assert finding.fix == fix.format(tmp_path)


@pytest.mark.parametrize(
    ("name", "setting", "told"),
    [
        ("web search", "tools: {web: {search: {provider: ddgs}}}", ("bad", "pip install 'nanobot[web]'")),
        ("exact tokens", "agent: {exact_tokens: true}", ("careful", "pip install 'nanobot[tokens]'")),
    ],
)
def test_a_setting_that_needs_an_extra_is_told(tmp_path: Path, name: str, setting: str, told: tuple[str, str]) -> None:
    """What is asked for and cannot work, because an extra is not there, is said with what adds it."""
    config = f"{CONFIG}{setting}\n"

    def missing(name: str) -> bool:
        return False

    def there(name: str) -> bool:
        return True

    finding = found(around(tmp_path, config, has_module=missing))[name]

    assert name not in found(around(tmp_path, config, has_module=there))
    assert (finding.level, finding.fix) == told


def test_a_package_whose_tools_cannot_be_loaded_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name, and how to go on without it."""
    info = tmp_path / "site" / "broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[nanobot.tools]\nweather = no_such_module:say\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])

    told = found(around(tmp_path))["packages"]

    assert told.text.startswith("tools of the package 'broken' (weather): it cannot be loaded: ModuleNotFoundError")
    assert "tools.disabled" in told.fix


def test_an_unknown_time_zone_is_told(tmp_path: Path) -> None:
    """A zone that this machine does not know."""
    finding = found(around(tmp_path, CONFIG + "agent: {timezone: Mars/Base}\n"))["config"]

    assert finding.level == "bad"
    assert "agent.timezone" in finding.text


@pytest.mark.parametrize(
    ("telegram", "text", "fix"),
    [
        (Telegram(getMe=Answer(status=401, body={"ok": False})), "does not know this token", "channels.telegram.token"),
        (
            Telegram(getUpdates=Answer(status=409, body={"ok": False, "description": "Conflict: other getUpdates"})),
            "another program polls with this token",
            "stop the other one",
        ),
        (
            Telegram(getWebhookInfo=Answer(status=200, body={"ok": True, "result": {"url": "https://x"}})),
            "a webhook is set",
            "deleteWebhook",
        ),
    ],
)
def test_a_bot_that_cannot_work_is_told(tmp_path: Path, telegram: Telegram, text: str, fix: str) -> None:
    """A wrong token, somebody else who polls, a webhook: each with its own cure, none with the token."""
    finding = next(one for one in examine(around(tmp_path, fetch=telegram)) if one.level == "bad")

    assert finding.name == "channel telegram"
    assert text in finding.text
    assert fix in finding.fix
    assert "s3cret" not in line_of(finding)


def test_an_unreachable_telegram_is_told(tmp_path: Path) -> None:
    """No network is told as that."""
    telegram = Telegram()
    telegram.answers.clear()

    assert found(around(tmp_path, fetch=telegram))["channel telegram"].text == (
        "Telegram cannot be reached: nothing listens there"
    )


def test_a_wrong_clock_is_told(tmp_path: Path) -> None:
    """Ten minutes off Telegram's clock."""
    finding = found(around(tmp_path, now=lambda: NOW + timedelta(minutes=10)))["clock"]

    assert finding.text == "this machine's clock is 600 s off"
    assert "set-ntp" in finding.fix


def test_an_empty_allow_list_is_told(tmp_path: Path) -> None:
    """A bot that admits nobody answers nobody."""
    finding = next(one for one in examine(around(tmp_path, CONFIG.replace("[1]", "[]"))) if "allow_from" in one.text)

    assert finding.level == "careful"


def test_a_gateway_that_does_not_answer_is_told(tmp_path: Path) -> None:
    """The lock is held and nobody answers: hung, and not polled beside."""
    telegram = Telegram()
    with hold(tmp_path / "data" / LOCK_NAME, "me", what="it"):
        finding = found(around(tmp_path, fetch=telegram))["gateway"]

    assert finding.level == "bad"
    assert "does not answer" in finding.text
    assert "getUpdates" not in [method for method, _ in telegram.asked]


def test_servers_are_left_alone_when_asked_to(tmp_path: Path) -> None:
    """--no-ask looks at this machine only."""
    telegram = Telegram()
    list(examine(around(tmp_path, fetch=telegram, asks=False)))

    assert telegram.asked == []


def test_a_stale_service_is_told(tmp_path: Path) -> None:
    """A unit that starts another installation than this one."""
    service = Service(environ={"HOME": str(tmp_path)})
    none = list(service_findings(service, "/new/python"))
    service.unit_path.parent.mkdir(parents=True)
    service.unit_path.write_text("ExecStart=/old/python -m nanobot gateway")
    stale = list(service_findings(service, "/new/python"))

    assert none == []
    assert [one.fix for one in stale] == ["nanobot service install"]


def test_lines_read_well() -> None:
    """What is wrong comes first, then what mends it; what is well needs no cure."""
    assert line_of(Finding("clock", "bad", "it is off", "set it")) == "BAD     clock: it is off -> set it"
    assert line_of(Finding("clock", "ok", "it is right", "set it")) == "ok      clock: it is right"


def test_a_sandbox_that_cannot_keep_the_workspace_in_is_told(tmp_path: Path) -> None:
    """A workspace right beside the configuration has no sandbox; the finding names the key, and nothing is made."""
    config = tmp_path / "config.yaml"
    config.write_text("workspace: .\ndata_dir: data\n")

    found = [one for one in examine(Surroundings(environ={}, config=config, asks=False)) if one.name == "sandbox"]

    assert [(one.level, one.fix) for one in found] == [("bad", "change the key that is named")]
    assert "set `workspace` to a directory of its own" in found[0].text
    assert not (tmp_path / "data").exists()


def test_a_sandbox_turned_off_is_mentioned(tmp_path: Path) -> None:
    """Knowingly is knowingly, but the doctor says it."""
    config = tmp_path / "config.yaml"
    config.write_text("workspace: work\ndata_dir: data\ntools: {sandbox: {mode: off}}\n")

    found = [one for one in examine(Surroundings(environ={}, config=config, asks=False)) if one.name == "sandbox"]

    assert [(one.level, one.fix) for one in found] == [("careful", "tools.sandbox.mode: auto")]
