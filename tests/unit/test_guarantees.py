"""docs/guarantees.md promises nothing that no test proves."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def _rows() -> list[str]:
    text = (ROOT / "docs" / "guarantees.md").read_text()
    return [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| promise")]


def test_every_guarantee_names_its_test() -> None:
    """Each row ends with a test (or points at the row above it)."""
    unproven = [row for row in _rows() if not NAMED.search(row) and "the same" not in row and "make bench" not in row]

    assert len(_rows()) > 20
    assert unproven == []


def test_every_named_test_exists() -> None:
    """A renamed test takes its guarantee with it."""
    named = [found for row in _rows() for found in NAMED.findall(row)]
    missing = [(path, name) for path, name in named if f"def {name}" not in (ROOT / path).read_text()]

    assert missing == []
