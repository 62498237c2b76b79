"""What a docstring says to a model: the description, and each parameter's line of an ``Args:`` section (Google's form).  Pure."""

import re
from collections.abc import Collection

from nanobot.values import frozen

_SECTION = re.compile(r"(Args|Arguments|Parameters|Raises|Yields|Examples?|Notes?|Attributes|Returns):\s*")
_PARAMETER = re.compile(r"\*{0,2}(\w+)\s*(?:\([^()]*\))?:\s*(.*)")
_FOR_PROGRAMMERS = frozenset(("Raises", "Attributes"))


@frozen
class Described:
    """``text`` without its parameters' section and what is for programmers only; ``parameters`` by name."""

    text: str
    parameters: dict[str, str]


def read_docstring(docstring: str, names: Collection[str]) -> Described:
    """Take a cleaned docstring apart.  A section of arguments counts only where it names one of ``names``."""
    kept: list[str] = []
    parameters: dict[str, str] = {}
    for title, lines in _sections(docstring.splitlines()):
        found = _parameters(lines[1:], names) if title in ("Args", "Arguments", "Parameters") else {}
        parameters |= found
        if not found and title not in _FOR_PROGRAMMERS:
            kept += lines
    return Described("\n".join(kept).strip(), parameters)


def _sections(lines: list[str]) -> list[tuple[str, list[str]]]:
    """Return the parts of a docstring with their titles; a part ends where its indentation does."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    for line in lines:
        if match := _SECTION.fullmatch(line):
            parts.append((match.group(1), [line]))
        elif parts[-1][0] and line.strip() and not line[0].isspace():
            parts.append(("", [line]))
        else:
            parts[-1][1].append(line)
    return parts


def _parameters(lines: list[str], names: Collection[str]) -> dict[str, str]:
    """Return what is said of each parameter, on one line."""
    found: dict[str, list[str]] = {}
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    current: list[str] = []
    for line in lines:
        match = (
            _PARAMETER.fullmatch(line.strip())
            if line[:margin].isspace() and line[margin : margin + 1].strip()
            else None
        )
        if match:
            current = found.setdefault(match.group(1), [])
            current.append(match.group(2))
        else:
            current.append(line.strip())
    return {name: " ".join(" ".join(words).split()) for name, words in found.items() if name in names}
