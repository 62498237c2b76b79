"""``nanobot doctor``: what is wrong here, and what mends it."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from nanobot.cli.streams import write_out
from nanobot.setup.checks import Finding, Surroundings, examine

if TYPE_CHECKING:
    from nanobot.cli.service import Service

_MARKS = {"ok": "ok     ", "careful": "careful", "bad": "BAD    "}


def doctor(config: Path | None, *, as_json: bool, asks: bool) -> int:
    """Look at everything and print it; return 1 if something is broken."""
    from nanobot.cli.service import Service
    from nanobot.config.environment import environment

    environ = environment()
    found: list[Finding] = []
    around = Surroundings(environ=environ, config=config, asks=asks)
    for finding in chain(examine(around), service_findings(Service(environ=environ), sys.executable)):
        found.append(finding)
        if not as_json:
            write_out(line_of(finding) + "\n")
    if as_json:
        write_out(json.dumps([asdict(finding) for finding in found]) + "\n")
    return 1 if any(finding.level == "bad" for finding in found) else 0


def service_findings(service: "Service", python: str) -> Iterator[Finding]:
    """Yield what is to say of the installed service, if there is one."""
    from nanobot.cli.service import linger_hint

    if not service.unit_path.exists():
        return
    text = service.unit_path.read_text("utf-8", "replace")
    if python not in text:
        why = f"{service.unit_path} starts another nanobot than this one"
        yield Finding("service", "careful", why, "nanobot service install")
    elif hint := linger_hint(service):
        yield Finding("service", "careful", "it ends when you log out", hint.rpartition(": ")[2])
    else:
        yield Finding("service", "ok", str(service.unit_path))


def line_of(finding: Finding) -> str:
    """Return a finding as one line.  Pure."""
    fix = f" -> {finding.fix}" if finding.fix and finding.level != "ok" else ""
    return f"{_MARKS[finding.level]} {finding.name}: {finding.text}{fix}"
