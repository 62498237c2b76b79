"""One measured figure beside its floor, and how figures are printed."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """``value`` and ``floor`` in ``unit``; ``most_over`` and ``most`` are targets for their difference and for the value."""

    what: str
    unit: str
    value: float
    floor: float | None = None
    most_over: float | None = None
    most: float | None = None

    @property
    def missed(self) -> bool:
        """Whether a target was set and not reached."""
        over = self.value - (self.floor or 0.0)
        return (self.most_over is not None and over > self.most_over) or (
            self.most is not None and self.value > self.most
        )


def rendered(rows: Sequence[Row]) -> str:
    """Return the rows as lines of text."""
    return "".join(f"{_line(row)}\n" for row in rows)


def _line(row: Row) -> str:
    line = f"{row.what:<58}{row.value:>10.2f} {row.unit:<8}"
    if row.floor is not None:
        line += f"floor {row.floor:>9.2f}   over {row.value - row.floor:>9.2f}   x{row.value / (row.floor or 1e-9):.2f}"
    if row.most_over is not None or row.most is not None:
        target = f"over at most {row.most_over:g}" if row.most_over is not None else f"at most {row.most:g}"
        line += f"   {'MISSED' if row.missed else 'ok'} ({target})"
    return line.rstrip()
