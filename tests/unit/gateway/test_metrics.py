"""Numbers, in the form that Prometheus reads."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from nanobot.bus.runtime_events import ChannelStatus, Delivered, StageFinished, ToolFinished, TurnFinished, Usage
from nanobot.channels.supervisor import ChannelFacts
from nanobot.errors import RateLimited
from nanobot.gateway.health import Facts, OutboxFacts, judge
from nanobot.gateway.measured import Measured
from nanobot.gateway.metrics import SERIES_MAX, Metrics
from nanobot.gateway.prices import Prices
from nanobot.messages import user_text
from nanobot.providers.base import LLMRequest
from nanobot.providers.settings import AnthropicSettings, OfflineSettings, OpenAISettings
from tests.fakes.provider import ScriptedProvider, says

FACTS = Facts(
    now=100.0,
    channels={"telegram": ChannelFacts(state="up", progress_at=97.0, restarts=2)},
    outboxes={"telegram": OutboxFacts(owed=3, oldest_s=12.5)},
    running=1,
    pending=4,
)
_LINE = re.compile(r'^(# (HELP|TYPE) \w+ .+|\w+(\{\w+="(\\.|[^"\\])*"(,\w+="(\\.|[^"\\])*")*\})? -?[0-9.e+-]+)$')


def rendered(metrics: Metrics) -> list[str]:
    return metrics.render(FACTS, judge(FACTS), uptime_s=5.0).splitlines()


def test_events_are_counted() -> None:
    """Turns by how they ended, tokens by kind, tools, stages and deliveries."""
    metrics = Metrics()
    usage = Usage(input_tokens=100, cached_tokens=80, output_tokens=7)
    for event in (
        TurnFinished(stop_reason="completed", content="secret", usage=usage),
        TurnFinished(stop_reason="error", content="", error="it broke"),
        StageFinished(stage="run", duration_ms=70.0),
        ToolFinished(call_id="e1.0", name="exec", is_error=True, duration_ms=20.0, result_chars=3),
        Delivered("telegram:1", "o1", 0, "sent"),
        ChannelStatus("telegram", "up"),
    ):
        metrics.observe(event)
    lines = rendered(metrics)

    assert 'nanobot_turns_total{stop_reason="completed"} 1' in lines
    assert 'nanobot_turns_total{stop_reason="error"} 1' in lines
    assert 'nanobot_tokens_total{kind="cached"} 80' in lines
    assert 'nanobot_tool_calls_total{failed="true",tool="exec"} 1' in lines
    assert 'nanobot_deliveries_total{state="sent"} 1' in lines
    assert 'nanobot_stage_seconds_bucket{stage="run",le="0.025"} 0' in lines
    assert 'nanobot_stage_seconds_bucket{stage="run",le="0.1"} 1' in lines
    assert 'nanobot_stage_seconds_bucket{stage="run",le="+Inf"} 1' in lines
    assert 'nanobot_stage_seconds_sum{stage="run"} 0.07' in lines
    assert not any("secret" in line or "it broke" in line for line in lines)


def test_what_is_true_now_is_shown() -> None:
    """Gauges come from the facts of the moment."""
    lines = rendered(Metrics())

    assert "nanobot_alive 1" in lines
    assert "nanobot_turns_running 1" in lines
    assert "nanobot_pending_messages 4" in lines
    assert 'nanobot_inbound_age_seconds{channel="telegram"} 3' in lines
    assert 'nanobot_outbox_owed{channel="telegram"} 3' in lines
    assert 'nanobot_outbox_oldest_seconds{channel="telegram"} 12.5' in lines
    assert 'nanobot_channel_restarts{channel="telegram"} 2' in lines


def test_every_line_is_well_formed_and_every_family_is_announced_once() -> None:
    """Whatever a model calls its tools, the text stays readable for Prometheus."""
    metrics = Metrics()
    for name in ('a"b', "new\nline", "back\\slash", "naïve"):
        metrics.observe(ToolFinished(call_id="x", name=name, is_error=False, duration_ms=1.0, result_chars=0))
    lines = rendered(metrics)
    types = [line.split()[2] for line in lines if line.startswith("# TYPE")]

    assert [line for line in lines if not _LINE.match(line)] == []
    assert len(types) == len(set(types))


def test_labels_are_bounded() -> None:
    """A model that invents tools does not fill our memory."""
    metrics = Metrics()
    for number in range(SERIES_MAX + 50):
        metrics.count("nanobot_tool_calls_total", tool=f"t{number}", failed="true")
    lines = [line for line in rendered(metrics) if line.startswith("nanobot_tool_calls_total")]

    assert len(lines) == SERIES_MAX + 1
    assert 'nanobot_tool_calls_total{failed="other",tool="other"} 50' in lines


async def test_model_calls_are_measured() -> None:
    """Durations and kinds of errors by the provider that answered; errors pass through as they are."""
    times = iter([0.0, 2.0, 5.0, 5.5])
    metrics = Metrics()
    inner = ScriptedProvider([says("hello"), RateLimited("slow down", provider="vendor")], name="local")
    measured = Measured(inner, metrics, clock=lambda: next(times))
    request = LLMRequest(model="m", system="", messages=(user_text("hi"),))

    await measured.stream(request, lambda event: None)
    with pytest.raises(RateLimited):
        await measured.stream(request, lambda event: None)
    lines = rendered(metrics)

    assert any(re.match(r'nanobot_model_seconds_sum\{provider="\w+"\} 5$', line) for line in lines), lines
    assert 'nanobot_model_errors_total{error="RateLimited",provider="vendor"} 1' in lines


def test_the_documented_metrics_are_the_metrics() -> None:
    """docs/operations.md names every metric there is, and none that is not."""
    root = Path(__file__).resolve().parents[3]
    documented = set(re.findall(r"nanobot_[a-z_]+", (root / "docs/operations.md").read_text()))
    shown = {line.split()[2] for line in rendered(Metrics()) if line.startswith("# TYPE")}
    source = (root / "nanobot/gateway/metrics.py").read_text()
    counted = set(re.findall(r'"(nanobot_[a-z_]+)": "', source))

    assert shown | counted == documented


async def test_calls_of_vendors_have_a_price() -> None:
    """A known model of a vendor costs what its tokens do; a server of one's own, and an unknown model, cost nothing known."""
    prices = Prices(
        {
            "anthropic": AnthropicSettings(),
            "gate": OpenAISettings(base_url="http://127.0.0.1:1/v1"),
            "offline": OfflineSettings(),
        }
    )
    usage = Usage(input_tokens=1_000_000, cached_tokens=900_000, output_tokens=1_000)
    before = prices.usd("anthropic", "claude-sonnet-4-5", usage)
    await prices.load()
    priced = prices.usd("anthropic", "claude-sonnet-4-5", usage)
    metrics = Metrics()
    response = replace(says("hello", usage=usage), provider="anthropic", model="claude-sonnet-4-5")
    measured = Measured(ScriptedProvider([response], name="anthropic"), metrics, prices=prices)
    request = LLMRequest(model="m", system="", messages=(user_text("hi"),))
    answer = await measured.stream(request, lambda event: None)

    assert before is None
    assert priced is not None
    assert 0.1 < priced < 2.0
    assert prices.usd("anthropic", "no-such-model", usage) is None
    assert prices.usd("gate", "claude-sonnet-4-5", usage) is None
    assert answer.provider == "anthropic", answer
    assert any(line.startswith('nanobot_cost_usd_total{provider="anthropic"} ') for line in rendered(metrics))
