"""The systemd unit of the gateway, and the file with its environment, as texts.  Pure.

The unit protects what can be protected without taking anything from the agent's tools: commands still see the real ``/tmp`` and
``/proc``, and may make namespaces (a sandbox needs them).

Source: systemd.service(5), systemd.exec(5)
"""

import re
from collections.abc import Collection, Iterable, Mapping

from nanobot.values import frozen

WATCHDOG_S = 90
START_S = 120
STOP_MARGIN_S = 5
_ALWAYS = (
    "PATH",
    "LANG",
    "TZ",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "all_proxy",
    "no_proxy",
)
_REFERENCE = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)")
_LINE = re.compile(r'^([A-Za-z_][A-Za-z0-9_]*)="((?:\\.|[^"\\])*)"$')


@frozen(kw_only=True)
class UnitFacts:
    """What the unit depends on.

    ``run_as`` is the user of a system service, None for a user's own; ``stop_s`` is how long ending in order takes at most.
    """

    python: str
    config: str
    env_file: str
    home: str
    stop_s: float
    run_as: str | None = None


def unit_text(facts: UnitFacts) -> str:
    """Return the unit file."""
    command = " ".join(quoted(word) for word in (facts.python, "-m", "nanobot", "gateway", "--config", facts.config))
    return "\n".join(
        [
            "# Written by `nanobot service install`, which overwrites it.  Your changes belong into a drop-in: `systemctl edit`.",
            "[Unit]",
            "Description=nanobot, a personal agent",
            *(["Wants=network-online.target", "After=network-online.target"] if facts.run_as else []),
            "StartLimitIntervalSec=600",
            "StartLimitBurst=20",
            "",
            "[Service]",
            "Type=notify",
            f"ExecStart={command}",
            "ExecReload=kill -HUP $MAINPID",
            f"EnvironmentFile=-{_specifiers(facts.env_file)}",
            f"WorkingDirectory={_specifiers(facts.home)}",
            *([f"User={facts.run_as}"] if facts.run_as else []),
            "Restart=always",
            "RestartSec=5",
            "# 2: the configuration cannot be used; trying again does not mend it",
            "RestartPreventExitStatus=2",
            f"WatchdogSec={WATCHDOG_S}",
            f"TimeoutStartSec={START_S}",
            f"TimeoutStopSec={int(facts.stop_s) + STOP_MARGIN_S}",
            "# the gateway ends its own children in order; systemd kills what is left",
            "KillMode=mixed",
            "# a command of the agent that takes all memory must not end the agent",
            "OOMPolicy=continue",
            "UMask=0077",
            "",
            *_hardening(is_system=facts.run_as is not None),
            "",
            "[Install]",
            f"WantedBy={'multi-user.target' if facts.run_as else 'default.target'}",
            "",
        ]
    )


def _hardening(*, is_system: bool) -> Iterable[str]:
    yield "# No root for anybody in here, through sudo neither."
    yield "NoNewPrivileges=yes"
    yield "LockPersonality=yes"
    yield "RestrictRealtime=yes"
    if is_system:  # a user's manager may be unable to mount anything, and the unit would not start
        yield "ProtectSystem=full"
        yield "ProtectKernelModules=yes"
        yield "ProtectClock=yes"
    yield "# On purpose not: PrivateTmp, ProtectHome, ProtectProc, ProtectKernelTunables, RestrictNamespaces."
    yield "# They break commands or their sandbox."


def captured(environ: Mapping[str, str], config_text: str, keys: Collection[str]) -> dict[str, str]:
    """Return what the service needs of this shell: PATH and the like, the providers' ``keys``, and what the config names."""
    wanted = dict.fromkeys([*_ALWAYS, *keys, *_REFERENCE.findall(config_text)])
    return {name: environ[name] for name in wanted if environ.get(name)}


def environment_text(variables: Mapping[str, str]) -> str:
    """Return an EnvironmentFile.  Line breaks in values become spaces."""
    lines = ["# Written by `nanobot service install`; keys may be in here.  After a change: `nanobot service restart`."]
    lines += [f'{name}="{_escaped(" ".join(value.splitlines()))}"' for name, value in variables.items()]
    return "\n".join(lines) + "\n"


def read_environment(text: str) -> dict[str, str]:
    """Return the variables of a file that ``environment_text`` wrote; other lines are passed over."""
    found = (_LINE.match(line) for line in text.splitlines())
    return {match[1]: re.sub(r"\\(.)", r"\1", match[2]) for match in found if match}


def quoted(word: str) -> str:
    """Return a word of a command line as systemd reads it back."""
    word = _specifiers(word).replace("$", "$$")
    return (
        word if re.fullmatch(r"[\w@%+=:,./$-]+", word) else '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
    )


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _escaped(value: str) -> str:
    return re.sub(r'(["\\$`])', r"\\\1", value)
