"""``nanobot service``: the gateway under systemd, as one's own service or as the machine's."""

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from nanobot.cli.streams import write_err, write_out
from nanobot.errors import MisuseError
from nanobot.values import frozen

SYSTEM_UNITS = Path("/etc/systemd/system")
PLAIN_WAYS = "docs/operations.md shows other ways to keep `nanobot gateway` running"

Run = Callable[[Sequence[str]], int]


def _run(command: Sequence[str]) -> int:
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode


@frozen(kw_only=True)
class Service:
    """Which service is meant, and how this machine is spoken to."""

    environ: Mapping[str, str]
    name: str = "nanobot"
    is_system: bool = False
    run_as: str | None = None
    run: Run = field(default=_run)

    @property
    def unit(self) -> str:
        """The unit's file name."""
        return f"{self.name}.service"

    @property
    def user(self) -> pwd.struct_passwd:
        """Whose service it is."""
        name = self.run_as or (self.environ.get("SUDO_USER") if self.is_system else None)
        try:
            return pwd.getpwnam(name) if name else pwd.getpwuid(os.getuid())
        except KeyError:
            raise MisuseError(f"there is no user {name!r} on this machine") from None

    @property
    def home(self) -> Path:
        """The home directory of the service's user."""
        return Path(self.user.pw_dir if self.is_system else self.environ.get("HOME") or self.user.pw_dir)

    @property
    def unit_path(self) -> Path:
        """Where the unit's file lies."""
        if self.is_system:
            return SYSTEM_UNITS / self.unit
        base = Path(self.environ.get("XDG_CONFIG_HOME") or self.home / ".config")
        return base / "systemd" / "user" / self.unit

    @property
    def env_file(self) -> Path:
        """Where its environment lies."""
        return self.home / ".nanobot" / f"{self.name}.env"

    def must_have_systemd(self) -> None:
        """Raise ``MisuseError`` if there is no systemd here."""
        if shutil.which("systemctl", path=self.environ.get("PATH")) is None:
            raise MisuseError(f"this machine has no systemd; {PLAIN_WAYS}")

    def systemctl(self, *words: str) -> int:
        """Tell the service's manager something; return its exit code.

        Raises:
            MisuseError: there is no systemd here, or it is not ours to command.
        """
        self.must_have_systemd()
        return self.run(["systemctl", *([] if self.is_system else ["--user"]), *words])


def install(service: Service, config: Path | None, *, starts: bool = True) -> int:
    """Write the unit and its environment, enable and start it; return the exit code.

    Raises:
        ConfigError: the configuration cannot be used.
        MisuseError: it cannot be installed from here.
    """
    from nanobot.config.settings import KEY_VARIABLES, URL_VARIABLES, find, load
    from nanobot.gateway.daemon import ending_s
    from nanobot.gateway.unit import UnitFacts, captured, environment_text, read_environment, unit_text

    _check_rights(service)
    service.must_have_systemd()  # before anything is written
    environ = {**service.environ, "HOME": str(service.home)}
    path = find(config, environ)
    if path is None:
        raise MisuseError("there is no configuration yet: `nanobot init` writes one")
    settings = load(path, environ)
    facts = UnitFacts(
        python=sys.executable,
        config=str(path.absolute()),
        env_file=str(service.env_file),
        home=str(service.home),
        stop_s=ending_s(settings),
        run_as=service.user.pw_name if service.is_system else None,
    )
    keys = [*KEY_VARIABLES.values(), *URL_VARIABLES.values()]
    before = read_environment(service.env_file.read_text("utf-8", "replace")) if service.env_file.exists() else {}
    variables = {**before, **captured(service.environ, path.read_text("utf-8", "replace"), keys)}
    write_private(service.env_file, environment_text(variables))
    write_private(service.unit_path, unit_text(facts), mode=0o644)
    write_out(f"Wrote {service.unit_path} and {service.env_file}\n")
    code = service.systemctl("daemon-reload") or service.systemctl("enable", service.unit)
    if not code and starts:
        code = service.systemctl("restart", service.unit)
    if code:
        write_err(f"nanobot: systemctl failed; {_bus_hint(service)}\n")
        return 1
    hint = linger_hint(service)
    write_out((hint + "\n" if hint else "") + "`nanobot service status` and `nanobot service logs` show how it is.\n")
    return 0


def uninstall(service: Service) -> int:
    """Stop, disable and remove the unit; its environment file stays, as it may hold keys."""
    _check_rights(service)
    if not service.unit_path.exists():
        write_out(f"{service.unit_path} is not there: nothing to do\n")
        return 0
    service.systemctl("disable", "--now", service.unit)
    service.unit_path.unlink()
    service.systemctl("daemon-reload")
    write_out(f"Removed {service.unit_path}; {service.env_file} is kept\n")
    return 0


def control(service: Service, verb: str) -> int:
    """Start, stop, restart or show the installed service; return systemctl's exit code."""
    if not service.unit_path.exists():
        raise MisuseError(f"{service.unit_path} is not there: `nanobot service install` writes it")
    extra = ["--no-pager"] if verb == "status" else []
    return service.systemctl(verb, *extra, service.unit)


def logs(service: Service, *, lines: int, follows: bool) -> int:
    """Show the service's log; return the exit code."""
    if shutil.which("journalctl", path=service.environ.get("PATH")) is None:
        raise MisuseError("this machine has no journal; set log.file in the configuration")
    which = ["--unit"] if service.is_system else ["--user-unit"]
    return service.run(
        ["journalctl", *which, service.unit, "--lines", str(lines), *(["--follow"] if follows else ["--no-pager"])]
    )


def linger_hint(service: Service) -> str | None:
    """Return what to do so that a user's service outlives the login, or None if nothing."""
    name = service.user.pw_name
    if service.is_system or Path(f"/var/lib/systemd/linger/{name}").exists():
        return None
    return f"It ends when you log out, and does not start with the machine, until you run: sudo loginctl enable-linger {name}"


def write_private(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file as a whole or not at all, with these rights from its first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _check_rights(service: Service) -> None:
    if service.is_system and os.geteuid() != 0:
        raise MisuseError("--system needs root: sudo, with the whole path of nanobot")


def _bus_hint(service: Service) -> str:
    if not service.is_system and not service.environ.get("XDG_RUNTIME_DIR"):
        return "there is no user session here (XDG_RUNTIME_DIR is not set): log in as that user, not through su or sudo"
    return PLAIN_WAYS
