"""One measured figure beside its floor and its peers, and how figures are printed and kept."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median, quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """``value`` and all it is compared with, in ``unit``.

    Args:
        spread: half of the distance between the quartiles of the repeats.
        floor: the same work without us, in the same run.
        beside: other figures of the same run, by name: a second floor, peers.
        most_over, most_times: targets for the difference to the floor, and the ratio.
        most, least: targets for the value.
    """

    what: str
    unit: str
    value: float
    spread: float = 0.0
    floor: float | None = None
    beside: Mapping[str, float] = field(default_factory=dict[str, float])
    most_over: float | None = None
    most_times: float | None = None
    most: float | None = None
    least: float | None = None

    @property
    def target(self) -> str:
        """The targets in words; empty if there are none."""
        named = {
            "over the floor at most": self.most_over,
            "times the floor at most": self.most_times,
            "at most": self.most,
            "at least": self.least,
        }
        return ", ".join(f"{words} {value:g}" for words, value in named.items() if value is not None)

    @property
    def missed(self) -> bool:
        """Whether a target was set and not reached."""
        floor = self.floor or 0.0
        return (
            (self.most_over is not None and self.value - floor > self.most_over)
            or (self.most_times is not None and self.value > self.most_times * floor)
            or (self.most is not None and self.value > self.most)
            or (self.least is not None and self.value < self.least)
        )


def middle(values: Sequence[float]) -> float:
    """Return the median; 0 of nothing."""
    return median(values) if values else 0.0


def spread(values: Sequence[float]) -> float:
    """Return half of the distance between the quartiles; 0 of fewer than two."""
    if len(values) < 2:
        return 0.0
    low, _, high = quantiles(values, n=4, method="inclusive")
    return (high - low) / 2


def rendered(rows: Sequence[Row]) -> str:
    """Return the rows as lines of text."""
    return "".join(f"{_line(row)}\n" for row in rows)


def as_json(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Return the rows as JSON objects, with what became of their targets."""
    return [{**asdict(row), "target": row.target, "missed": row.missed} for row in rows]


def _line(row: Row) -> str:
    line = f"{row.what:<58}{row.value:>10.2f} {row.unit:<8}"
    if row.spread:
        line += f" ±{row.spread:<7.2f}"
    if row.floor is not None:
        line += (
            f" floor {row.floor:>9.2f}   over {row.value - row.floor:>9.2f}   x{row.value / (row.floor or 1e-9):.2f}"
        )
    if row.target:
        line += f"   {'MISSED' if row.missed else 'ok'} ({row.target})"
    if row.beside:
        line += "   " + ", ".join(f"{name} {value:.2f}" for name, value in row.beside.items())
    return line.rstrip()
