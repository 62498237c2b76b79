"""What the gateway writes in the operator's log about runtime events.  Names and numbers, never what people wrote."""

import logging

from nanobot.bus.runtime_events import (
    ChannelStatus,
    Compacted,
    Delivered,
    ProviderSwitched,
    Retrying,
    RuntimeEvent,
    TurnFinished,
    TurnStarted,
)

log = logging.getLogger("nanobot.events")


def report(event: RuntimeEvent) -> None:
    """Log an event; fits ``RuntimeEventBus.observe``."""
    line = describe(event)
    if line is not None:
        log.log(*line)


def describe(event: RuntimeEvent) -> tuple[int, str] | None:
    """Return the level and the line for an event, or None for those that are not worth one.  Pure."""
    match event:
        case ChannelStatus():
            level = logging.WARNING if event.state == "down" else logging.INFO
            return level, f"channel {event.channel} is {event.state}" + (f": {event.detail}" if event.detail else "")
        case TurnStarted(resumed=True):
            return logging.INFO, f"turn {event.turn} of {event.session_key} goes on"
        case TurnFinished():
            return _turn_line(event)
        case Retrying():
            return (
                logging.WARNING,
                f"model call of {event.session_key} failed, again in {event.delay_s:.1f} s: {event.why}",
            )
        case ProviderSwitched():
            return logging.WARNING, f"{event.to_model} takes over from {event.from_model}: {event.why}"
        case Compacted():
            return logging.INFO, f"compacted {event.session_key}: {event.tokens_before} to {event.tokens_after} tokens"
        case Delivered(state="sent"):
            return logging.DEBUG, f"delivered part {event.part} of {event.out} of {event.session_key}"
        case Delivered():
            return logging.WARNING, f"part {event.part} of {event.out} of {event.session_key} was {event.state}"
        case _:
            return None


def _turn_line(event: TurnFinished) -> tuple[int, str]:
    usage = event.usage
    failed = f": {event.error}" if event.error else ""
    text = (
        f"turn {event.turn} of {event.session_key} ended ({event.stop_reason}), {event.iterations} model calls, "
        f"{len(event.tools_used)} tools, {usage.input_tokens} tokens in, {usage.output_tokens} out{failed}"
    )
    return (logging.WARNING if event.error and event.stop_reason != "shutdown" else logging.INFO), text
