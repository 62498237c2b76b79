"""Whether the daemon does its work, judged from facts.  Pure.

A process that is there and does nothing is dead.  What a new process would mend is fatal: systemd's watchdog ends us then, and
``/healthz`` says 503.  What it would not mend (a platform that is away, a full disk whose messages are in our memory) is told,
and no more.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field

from nanobot.channels.supervisor import ChannelFacts
from nanobot.values import frozen


@frozen(kw_only=True)
class Limits:
    """From when on something is wrong, in seconds."""

    lag_s: float = 10.0
    lag_share: float = 0.5  # of a minute
    silent_s: float = 300.0  # more than the supervisor takes to restart a silent channel
    down_s: float = 60.0
    owed_s: float = 300.0
    sending_s: float = 600.0
    pending_s: float = 3_600.0


@frozen(kw_only=True)
class OutboxFacts:
    """One channel's owed answers.  Ages in seconds; ``sending_s`` is how long the longest send is under way."""

    owed: int = 0
    oldest_s: float = 0.0
    sending_s: float = 0.0


@frozen(kw_only=True)
class Facts:
    """What was seen at one time, ``now``, on the clock of the channels' facts."""

    now: float
    lag_s: float = 0.0  # the worst of the last minute
    lag_share: float = 0.0  # of that minute
    channels: Mapping[str, ChannelFacts] = field(default_factory=dict[str, ChannelFacts])
    outboxes: Mapping[str, OutboxFacts] = field(default_factory=dict[str, OutboxFacts])
    pending: int = 0
    oldest_pending_s: float = 0.0
    running: int = 0
    tasks: int = 0
    refusing: str | None = None


@frozen
class Problem:
    """Something wrong, in one sentence; ``is_fatal`` says that a new process would mend it."""

    name: str
    text: str
    is_fatal: bool = False


@frozen
class Health:
    """The verdict."""

    problems: tuple[Problem, ...] = ()

    @property
    def alive(self) -> bool:
        """Whether the daemon does its work as far as it can."""
        return not any(problem.is_fatal for problem in self.problems)

    @property
    def summary(self) -> str:
        """One line for people."""
        return "; ".join(problem.text for problem in self.problems) or "well"


def judge(facts: Facts, limits: Limits = Limits()) -> Health:  # noqa: B008  # frozen
    """Return what is wrong, the fatal first."""
    problems = [*_loop(facts, limits), *_channels(facts, limits), *_outboxes(facts, limits), *_store(facts, limits)]
    return Health(tuple(sorted(problems, key=lambda problem: not problem.is_fatal)))


def _loop(facts: Facts, limits: Limits) -> Iterator[Problem]:
    if facts.lag_s > limits.lag_s or facts.lag_share > limits.lag_share:
        text = f"the event loop was held up for {facts.lag_s:.0f} s, {facts.lag_share:.0%} of the last minute"
        yield Problem("loop", text, is_fatal=facts.lag_share > limits.lag_share)


def _channels(facts: Facts, limits: Limits) -> Iterator[Problem]:
    for name, channel in facts.channels.items():
        if channel.state == "stopped":
            yield Problem(f"channel:{name}", f"{name} has ended")
        elif channel.state != "down" and (silent_s := _silent_s(facts, channel)) > limits.silent_s:
            yield Problem(f"channel:{name}", f"{name} made no progress for {silent_s:.0f} s", is_fatal=True)
        elif channel.state != "up" and facts.now - channel.since > limits.down_s:
            detail = f": {channel.detail}" if channel.detail else ""
            yield Problem(f"channel:{name}", f"{name} is {channel.state} for {facts.now - channel.since:.0f} s{detail}")


def _silent_s(facts: Facts, channel: ChannelFacts) -> float:
    return 0.0 if channel.progress_at is None else facts.now - channel.progress_at


def _outboxes(facts: Facts, limits: Limits) -> Iterator[Problem]:
    for name, outbox in facts.outboxes.items():
        if outbox.sending_s > limits.sending_s:
            yield Problem(f"outbox:{name}", f"a send to {name} hangs for {outbox.sending_s:.0f} s", is_fatal=True)
        elif outbox.owed and outbox.oldest_s > limits.owed_s:
            text = f"{outbox.owed} answers are owed to {name}, the oldest for {outbox.oldest_s:.0f} s"
            yield Problem(f"outbox:{name}", text)


def _store(facts: Facts, limits: Limits) -> Iterator[Problem]:
    if facts.refusing is not None:
        yield Problem("disk", f"the disk refuses writes: {facts.refusing}")
    if facts.pending and facts.oldest_pending_s > limits.pending_s:
        yield Problem("pending", f"a message waits for {facts.oldest_pending_s:.0f} s")
