"""Numbers for operators: a fold over runtime events and model calls, as Prometheus text.

Nothing here is about one person or chat: labels are stages, models, kinds of errors and names of channels, so they are few.

Source of the format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from nanobot.bus.runtime_events import (
    ChannelStatus,
    Compacted,
    Delivered,
    ProviderSwitched,
    Retrying,
    RuntimeEvent,
    StageFinished,
    ToolFinished,
    TurnFinished,
    TurnStarted,
    Usage,
)
from nanobot.gateway.health import Facts, Health

Labels: TypeAlias = tuple[tuple[str, str], ...]

BUCKETS_S = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0)
SERIES_MAX = 1_000  # of one name; what a model calls its tools must not fill our memory

_HELP = {
    "nanobot_turns_total": "Turns that ended, by stop reason.",
    "nanobot_turns_resumed_total": "Turns that went on after a restart.",
    "nanobot_stage_seconds": "Duration of each stage of a Turn.",
    "nanobot_tokens_total": "Tokens of all Turns, by kind.",
    "nanobot_tool_calls_total": "Tool calls that ended, by tool and whether they failed.",
    "nanobot_tool_seconds": "Duration of tool calls.",
    "nanobot_model_seconds": "Duration of model calls, retries included.",
    "nanobot_model_first_seconds": "Time until the first piece of an answer.",
    "nanobot_model_errors_total": "Model calls that failed for good, by kind of error.",
    "nanobot_cost_usd_total": "What model calls cost, in US dollars, where the price is known.",
    "nanobot_model_retries_total": "Model calls that were tried again.",
    "nanobot_model_switches_total": "Times another model took over.",
    "nanobot_deliveries_total": "Parts of answers that were settled, by state.",
    "nanobot_compactions_total": "Summaries that took the place of older messages.",
    "nanobot_channel_changes_total": "Changes of a channel's state.",
}


@dataclass(slots=True)
class _Histogram:
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0

    def add(self, value_s: float) -> None:
        self.counts[bisect_left(BUCKETS_S, value_s)] += 1
        self.total_s += value_s


class Metrics:
    """Counts what it is told.  ``observe`` fits ``RuntimeEventBus.observe``."""

    def __init__(self) -> None:
        self._counters: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, _Histogram]] = {}

    def observe(self, event: RuntimeEvent) -> None:
        """Take a runtime event into account."""
        match event:
            case TurnStarted(resumed=True):
                self.count("nanobot_turns_resumed_total")
            case TurnFinished():
                self.count("nanobot_turns_total", stop_reason=event.stop_reason)
                self._tokens(event.usage)
            case StageFinished():
                self.time("nanobot_stage_seconds", event.duration_ms / 1_000, stage=event.stage)
            case ToolFinished():
                failed = "true" if event.is_error else "false"
                self.count("nanobot_tool_calls_total", tool=event.name, failed=failed)
                self.time("nanobot_tool_seconds", event.duration_ms / 1_000, tool=event.name)
            case Retrying():
                self.count("nanobot_model_retries_total")
            case ProviderSwitched():
                self.count("nanobot_model_switches_total", to=event.to_model)
            case Delivered():
                self.count("nanobot_deliveries_total", state=event.state)
            case Compacted():
                self.count("nanobot_compactions_total")
            case ChannelStatus():
                self.count("nanobot_channel_changes_total", channel=event.channel, state=event.state)
            case _:
                pass

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Add to a counter."""
        series = self._counters.setdefault(name, {})
        key = _bounded(series, labels)
        series[key] = series.get(key, 0) + by

    def time(self, name: str, value_s: float, **labels: str) -> None:
        """Add a duration to a histogram."""
        series = self._histograms.setdefault(name, {})
        series.setdefault(_bounded(series, labels), _Histogram()).add(value_s)

    def _tokens(self, usage: Usage) -> None:
        kinds = {
            "input": usage.input_tokens,
            "cached": usage.cached_tokens,
            "cache_write": usage.cache_write_tokens,
            "output": usage.output_tokens,
            "reasoning": usage.reasoning_tokens,
        }
        for kind, tokens in kinds.items():
            if tokens:
                self.count("nanobot_tokens_total", tokens, kind=kind)

    def render(self, facts: Facts, health: Health, *, uptime_s: float) -> str:
        """Return all of it, with what is true now, as Prometheus reads it."""
        lines: list[str] = []
        for name, series in sorted(self._counters.items()):
            lines += _family(name, "counter", ((labels, value) for labels, value in sorted(series.items())))
        for name, histograms in sorted(self._histograms.items()):
            lines += _histogram_lines(name, histograms)
        for name, text, values in _gauges(facts, health, uptime_s):
            lines += _family(name, "gauge", values, text)
        return "\n".join(lines) + "\n"


def _gauges(facts: Facts, health: Health, uptime_s: float) -> Iterator[tuple[str, str, list[tuple[Labels, float]]]]:
    alive: list[tuple[Labels, float]] = [((), float(health.alive))]
    yield "nanobot_alive", "1 while the daemon does its work.", alive
    yield "nanobot_uptime_seconds", "Time since the start.", [((), uptime_s)]
    yield "nanobot_loop_lag_seconds", "How late the event loop was, at worst in the last minute.", [((), facts.lag_s)]
    yield "nanobot_tasks", "Tasks of the event loop.", [((), facts.tasks)]
    yield "nanobot_turns_running", "Turns that run now.", [((), facts.running)]
    yield "nanobot_pending_messages", "Messages that nothing has taken up yet.", [((), facts.pending)]
    yield "nanobot_pending_oldest_seconds", "Age of the oldest of them.", [((), facts.oldest_pending_s)]
    yield "nanobot_disk_refusing", "1 while the disk refuses writes.", [((), float(facts.refusing is not None))]
    channels = facts.channels.items()
    ups = [(_label("channel", name), float(one.state == "up")) for name, one in channels]
    yield "nanobot_channel_up", "1 while a channel reaches its platform.", ups
    restarts = [(_label("channel", name), float(one.restarts)) for name, one in channels]
    yield "nanobot_channel_restarts", "Times a channel was started again.", restarts
    ages = [
        (_label("channel", name), facts.now - one.progress_at) for name, one in channels if one.progress_at is not None
    ]
    yield "nanobot_inbound_age_seconds", "Time since a channel's last round with its platform.", ages
    owed = [(_label("channel", name), float(one.owed)) for name, one in facts.outboxes.items()]
    yield "nanobot_outbox_owed", "Answers that are owed.", owed
    oldest = [(_label("channel", name), one.oldest_s) for name, one in facts.outboxes.items()]
    yield "nanobot_outbox_oldest_seconds", "Age of the oldest of them.", oldest


def _family(name: str, kind: str, values: Iterable[tuple[Labels, float]], text: str = "") -> list[str]:
    lines = [f"{name}{_braces(labels)} {_number(value)}" for labels, value in values]
    return [f"# HELP {name} {text or _HELP[name]}", f"# TYPE {name} {kind}", *lines] if lines else []


def _histogram_lines(name: str, series: Mapping[Labels, _Histogram]) -> list[str]:
    lines = [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} histogram"]
    for labels, histogram in sorted(series.items()):
        so_far = 0
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), histogram.counts, strict=True):
            so_far += count
            lines.append(f"{name}_bucket{_braces((*labels, ('le', bound)))} {so_far}")
        lines.append(f"{name}_sum{_braces(labels)} {_number(histogram.total_s)}")
        lines.append(f"{name}_count{_braces(labels)} {so_far}")
    return lines


def _bounded(series: Mapping[Labels, object], labels: Mapping[str, str]) -> Labels:
    key = tuple(sorted(labels.items()))
    return key if key in series or len(series) < SERIES_MAX else tuple((name, "other") for name, _ in key)


def _label(name: str, value: str) -> Labels:
    return ((name, value),)


def _braces(labels: Labels) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.6g}"
