"""Write docs/performance.md and its plots from the figures of a run: ``python -m bench.report bench/results.json``."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import plot
from bench.contest import ROOT

_TITLES = {
    "size": "Installed",
    "cold": "From nothing",
    "gateway": "The daemon with a Telegram bot",
    "text": "A Turn of text",
    "tools": "A Turn of ten tool calls",
    "growth": "Long sessions",
    "many": "Many sessions at once",
    "idle": "Idle sessions",
    "stream": "Streaming",
    "restore": "After a restart",
    "durable": "Durability",
    "context": "A long tool session in a 32k window",
    "build": "Governance",
    "beside": "A summary that hangs",
}
_HEAD = """\
# Performance

What nanobot costs, with the model's time taken out. Written by `python -m bench.report` from runs of `make bench-peers`; how it
is measured, and how to repeat it, stands in [bench/README.md](../bench/README.md). Budgets that CI enforces: `tests/budgets`.

Measured {at} on {cores} cores, Python {python}, {system}. `floor` is the same work without
nanobot in the same run (a Turn's: the same requests through the bare SDK; `http`: through its HTTP client alone). ± is half of the
distance between the quartiles.
"""

Found = Mapping[str, Any]  # Any: JSON


def main() -> None:
    """Write the page and the plots."""
    found: Found = json.loads(Path(sys.argv[1]).read_text())
    docs = ROOT / "docs"
    (docs / "performance").mkdir(exist_ok=True)
    lines = [_HEAD.format(**found["machine"])]
    for name, title in _TITLES.items():
        if name in found["parts"]:
            lines += [f"\n## {title}\n", *_table(found["parts"][name])]
            lines += [f"\n![{picture.stem}](performance/{picture.name})" for picture in _plots(name, found, docs)]
    missed = [row for rows in found["parts"].values() for row in rows if row["missed"]]
    lines += ["\n## Not reached\n", *(_missed(missed) or ["Every target was reached."])]
    lines += ["", Path(__file__).with_name("where.md").read_text().rstrip()]
    (docs / "performance.md").write_text("\n".join(lines) + "\n")


def _table(rows: Sequence[Found]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows for name in row["beside"]))
    head = ["", "nanobot", "±", "floor", *names, "target"]
    out = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        what = row["what"] if not row["what"].startswith("  ") else f"· {row['what'].strip()}"
        others = [_number(row["beside"].get(name)) for name in names]
        target = f"{'missed' if row['missed'] else 'ok'}: {row['target']}" if row["target"] else ""
        values = [f"{_number(row['value'])} {row['unit']}", _number(row["spread"] or None), _number(row["floor"])]
        out.append(f"| {what} | {' | '.join([*values, *others, target])} |")
    return out


def _missed(rows: Sequence[Found]) -> list[str]:
    return [f"- {row['what'].strip()}: {_number(row['value'])} {row['unit']} ({row['target']})" for row in rows]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def _plots(name: str, found: Found, docs: Path) -> list[Path]:
    rows = found["parts"][name]
    place = docs / "performance"
    match name:
        case "text" | "cold":
            row = rows[0]
            bars = {"nanobot": row["value"], "floor": row["floor"], **row["beside"]}
            return [plot.bars(place / f"{name}.svg", f"{row['what']} ({row['unit']})", bars)]
        case "growth":
            points = [(_count(row["what"]), row["value"]) for row in rows if row["what"].startswith("Turn after")]
            floors = [(_count(row["what"]), row["floor"]) for row in rows if row["what"].startswith("Turn after")]
            lines = {"nanobot": points, "floor": floors}
            return [plot.lines(place / "growth.svg", "CPU of a Turn (ms) by messages in its session", lines)]
        case "many":
            points = [(_count(row["what"]), row["value"]) for row in rows if "Turns a second" in row["what"]]
            floors = [(_count(row["what"]), row["floor"]) for row in rows if "Turns a second" in row["what"]]
            lines = {"nanobot": points, "floor": floors}
            return [plot.lines(place / "many.svg", "Turns a second by sessions in flight", lines)]
        case _:
            return []


def _count(what: str) -> float:
    return float("".join(c for c in what if c.isdigit()))


if __name__ == "__main__":
    main()
