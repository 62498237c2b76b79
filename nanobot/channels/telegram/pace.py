"""How often one chat may be edited: learned from what Telegram says.  Pure."""

from dataclasses import replace

from nanobot.values import frozen

SLOWEST_S = 30.0
GROUP_S = 3.0  # groups take about twenty messages a minute


@frozen
class Pace:
    """The least time between two edits, and when the next one may go; in seconds on one clock."""

    least_s: float
    gap_s: float = 0.0
    free_at: float = 0.0

    def wait_s(self, now: float) -> float:
        """Return how long to wait before the next edit."""
        return max(self.free_at - now, 0.0)

    def went(self, now: float) -> "Pace":
        """Return the pace after an edit that was taken: a little faster again."""
        gap = max(self.gap_s * 0.9, self.least_s)
        return replace(self, gap_s=gap, free_at=now + gap)

    def flooded(self, now: float, retry_after_s: float) -> "Pace":
        """Return the pace after an edit that was too much: twice as slow, and not before it is allowed."""
        gap = min(max(self.gap_s, self.least_s, 0.5) * 2, SLOWEST_S)
        return replace(self, gap_s=gap, free_at=now + max(retry_after_s, gap))


def pace_for(*, is_group: bool, least_s: float) -> Pace:
    """Return the pace to begin with."""
    return Pace(max(least_s, GROUP_S) if is_group and least_s else least_s)
