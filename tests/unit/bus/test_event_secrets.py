"""What observers see of tools, servers and channels holds no secrets; what people and models say is left as it is."""

import pytest

from nanobot.bus.runtime_bus import RuntimeEventBus
from nanobot.bus.runtime_events import (
    ChannelStatus,
    ProviderSwitched,
    Retrying,
    RuntimeEvent,
    TextDelta,
    ToolStarted,
    TurnFinished,
)
from nanobot.redaction import Redactor

SECRET = "correct-horse-battery-77"


@pytest.mark.parametrize(
    "event",
    [
        ToolStarted(call_id="e1.0", name="exec", summary=f"exec curl -H {SECRET}"),
        Retrying(why=f"bad key {SECRET}", attempt=1, delay_s=1.0),
        ProviderSwitched(from_model="a", to_model="b", why=SECRET),
        ChannelStatus(channel="telegram", state="down", detail=f"token {SECRET}"),
        TurnFinished(stop_reason="error", content="", error=f"refused {SECRET}"),
    ],
)
def test_texts_of_ours_are_redacted(event: RuntimeEvent) -> None:
    """Summaries, reasons, details and errors are published without secrets."""
    seen: list[RuntimeEvent] = []
    bus = RuntimeEventBus(Redactor([SECRET]))
    bus.observe(seen.append)
    with bus.subscribe() as subscription:
        bus.publish(event)
        subscription.close()

    assert SECRET in repr(event)
    assert SECRET not in repr(seen)
    assert "[redacted]" in repr(seen)


def test_what_the_model_says_is_published_as_it_is() -> None:
    """The pieces of an answer add up to the answer."""
    seen: list[RuntimeEvent] = []
    bus = RuntimeEventBus(Redactor([SECRET]))
    bus.observe(seen.append)
    bus.publish(TextDelta(text=SECRET))

    assert seen == [TextDelta(text=SECRET)]
