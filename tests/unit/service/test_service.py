"""The commands that talk to systemd, with a manager that only takes notes."""

import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nanobot.cli.service import Service, control, install, linger_hint, logs, uninstall
from nanobot.errors import ConfigError, MisuseError


@dataclass
class Manager:
    """Notes what it is told, and answers as it should."""

    code: int = 0
    told: list[list[str]] = field(default_factory=list[list[str]])

    def __call__(self, command: Sequence[str]) -> int:
        self.told.append(list(command))
        return self.code


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("systemctl", "journalctl"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    (tmp_path / ".nanobot").mkdir()
    (tmp_path / ".nanobot" / "config.yaml").write_text(
        "providers: {x: {type: openai, api_key: '${X_KEY}', base_url: 'http://127.0.0.1:1/v1'}}\nagent: {model: x/m}\n"
    )
    return tmp_path


def service(home: Path, manager: Manager, **environ: str) -> Service:
    return Service(
        environ={"HOME": str(home), "PATH": f"{home}/bin", "X_KEY": "s3cret", "XDG_RUNTIME_DIR": "/run/x", **environ},
        run=manager,
    )


def test_install_writes_enables_and_starts(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The unit and its private environment are written, the manager is told, and the person what to do next."""
    manager = Manager()
    code = install(service(home, manager), None)
    unit = home / ".config/systemd/user/nanobot.service"
    env_file = home / ".nanobot/nanobot.env"
    said = capfd.readouterr().out

    assert code == 0
    assert f"--config {home}/.nanobot/config.yaml" in unit.read_text()
    assert f'PATH="{home}/bin"' in env_file.read_text()
    assert 'X_KEY="s3cret"' in env_file.read_text()
    assert stat.S_IMODE(env_file.stat().st_mode) == 0o600
    assert "s3cret" not in unit.read_text() + said
    assert [told[2:] for told in manager.told] == [
        ["daemon-reload"],
        ["enable", "nanobot.service"],
        ["restart", "nanobot.service"],
    ]
    assert "loginctl enable-linger" in said


def test_installing_again_keeps_keys_of_an_earlier_shell(home: Path) -> None:
    """A key that this shell does not have is not lost by installing anew from it."""
    install(service(home, Manager(), OPENAI_API_KEY="older"), None, starts=False)
    install(service(home, Manager(), X_KEY="newer"), None, starts=False)
    text = (home / ".nanobot/nanobot.env").read_text()

    assert 'OPENAI_API_KEY="older"' in text
    assert 'X_KEY="newer"' in text


def test_a_bad_config_is_not_installed(home: Path) -> None:
    """What would not start is refused before anything is written."""
    (home / ".nanobot/config.yaml").write_text("agnet: {}")
    manager = Manager()

    with pytest.raises(ConfigError, match="did you mean 'agent'"):
        install(service(home, manager), None)
    assert not (home / ".config").exists()
    assert manager.told == []


def test_without_a_config_init_is_named(home: Path) -> None:
    """Somebody who begins with the service is sent to the beginning."""
    (home / ".nanobot/config.yaml").unlink()

    with pytest.raises(MisuseError, match="nanobot init"):
        install(service(home, Manager()), None)


def test_a_failing_manager_is_an_error_with_advice(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Through su there is no user session: systemctl fails, and the reason is named."""
    code = install(service(home, Manager(code=1), XDG_RUNTIME_DIR=""), None)

    assert code == 1
    assert "log in as that user" in capfd.readouterr().err


def test_without_systemd_other_ways_are_named(home: Path) -> None:
    """A machine without systemd is told what else there is."""
    (home / "bin/systemctl").unlink()
    install_dir = home / ".config/systemd/user"
    install_dir.mkdir(parents=True)
    (install_dir / "nanobot.service").touch()

    with pytest.raises(MisuseError, match=r"no systemd; docs/operations.md"):
        control(service(home, Manager()), "start")


def test_without_systemd_nothing_is_written(home: Path) -> None:
    """What cannot be installed leaves no files behind."""
    (home / "bin/systemctl").unlink()
    before = sorted(home.rglob("*"))

    with pytest.raises(MisuseError, match="no systemd"):
        install(service(home, Manager()), None)

    assert sorted(home.rglob("*")) == before


def test_control_and_logs_are_passed_on(home: Path) -> None:
    """Verbs reach the right manager, for the right unit."""
    install(service(home, Manager()), None)
    manager = Manager()
    control(service(home, manager), "status")
    logs(service(home, manager), lines=5, follows=True)

    assert manager.told == [
        ["systemctl", "--user", "status", "--no-pager", "nanobot.service"],
        ["journalctl", "--user-unit", "nanobot.service", "--lines", "5", "--follow"],
    ]


def test_what_is_not_installed_cannot_be_started(home: Path) -> None:
    """The way to install it is named."""
    with pytest.raises(MisuseError, match="nanobot service install"):
        control(service(home, Manager()), "start")


def test_uninstall_keeps_the_keys(home: Path) -> None:
    """The unit goes, the environment file with its keys stays; doing it twice is harmless."""
    install(service(home, Manager()), None)
    manager = Manager()
    codes = [uninstall(service(home, manager)) for _ in range(2)]

    assert codes == [0, 0]
    assert [told[2] for told in manager.told] == ["disable", "daemon-reload"]
    assert not (home / ".config/systemd/user/nanobot.service").exists()
    assert (home / ".nanobot/nanobot.env").exists()


def test_no_linger_hint_for_the_machines_service(home: Path) -> None:
    """A system service does not end with a login."""
    assert linger_hint(Service(environ={"HOME": str(home)}, is_system=True)) is None
