"""The unit, as systemd reads it."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from nanobot.gateway.unit import UnitFacts, captured, environment_text, quoted, read_environment, unit_text

FACTS = UnitFacts(
    python="/bin/sh",
    config="/home/ada/my bot/100% $new.yaml",
    env_file="/home/ada/.nanobot/nanobot.env",
    home="/",
    stop_s=70.0,
)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("run_as", [None, "root"])
def test_systemd_finds_nothing_to_complain_of(tmp_path: Path, run_as: str | None) -> None:
    """``systemd-analyze verify`` says nothing at all, for a user's unit and for the machine's; it exits 0 even on unknown keys."""
    unit = tmp_path / "nanobot.service"
    unit.write_text(unit_text(replace(FACTS, run_as=run_as)))
    kind = "--system" if run_as else "--user"
    done = subprocess.run(
        ["systemd-analyze", kind, "--man=no", "verify", str(unit)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)},
    )

    assert (done.returncode, _about(done.stderr, unit)) == (0, [])


def _about(stderr: str, unit: Path) -> list[str]:
    """Return the complaints about this unit: other units of the machine may have faults of their own."""
    return [line for line in stderr.splitlines() if unit.name in line or str(unit) in line]


def test_the_watchdog_and_the_grace_time_are_in_it() -> None:
    """systemd waits longer than ending in order takes, and ends what shows no sign of life."""
    lines = unit_text(FACTS).splitlines()

    assert {"Type=notify", "WatchdogSec=90", "TimeoutStopSec=75", "Restart=always"} <= set(lines)
    assert "WantedBy=default.target" in lines


def test_nothing_breaks_the_tools() -> None:
    """What hides /tmp or homes from commands, or forbids their sandbox, is not in it."""
    keys = {line.partition("=")[0] for line in unit_text(replace(FACTS, run_as="ada")).splitlines()}

    assert not keys & {
        "PrivateTmp",
        "ProtectHome",
        "ProtectProc",
        "ProtectKernelTunables",
        "RestrictNamespaces",
        "SystemCallFilter",
        "MemoryDenyWriteExecute",
        "PrivateUsers",
    }
    assert "NoNewPrivileges" in keys


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("/usr/bin/python3", "/usr/bin/python3"),
        ("/a b", '"/a b"'),
        ("50%", "50%%"),
        ("$HOME", "$$HOME"),
        ('say "x\\y"', '"say \\"x\\\\y\\""'),
    ],
)
def test_words_are_quoted(word: str, written: str) -> None:
    """A path with spaces, percent or dollar signs is still that path."""
    assert quoted(word) == written


def test_f05_path_keys_and_named_variables_are_captured() -> None:
    """PATH, provider keys and whatever the config names go into the service's environment, and nothing else does."""
    environ = {"PATH": "/a:/b", "OPENAI_API_KEY": "k", "MY_TOKEN": "t", "OTHER": "x", "PLAIN": "p", "EMPTY": ""}
    config = "token: ${MY_TOKEN}\nproxy: ${EMPTY:-none}\nliteral: $${PLAIN}\n"

    found = captured(environ, config, ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"])

    assert found == {"PATH": "/a:/b", "OPENAI_API_KEY": "k", "MY_TOKEN": "t"}


def test_the_environment_file_reads_back() -> None:
    """Quotes, backslashes and dollar signs survive; a value cannot bring in a line of its own."""
    variables = {"A": 'x "y" \\ $z `w`', "B": "one\nC=evil", "PATH": "/usr/bin:/opt/my tools"}

    assert read_environment(environment_text(variables)) == {**variables, "B": "one C=evil"}
