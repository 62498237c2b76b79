"""What a command leaves behind: the line that closes it, and what ``/status`` says.  Nothing is written here."""

from collections.abc import Sequence

from nanobot.agent.closing import Split, owed_to
from nanobot.agent.commands import Outcome, status_text
from nanobot.agent.meter import known_window, prompt_tokens
from nanobot.agent.models import Model
from nanobot.agent.tokens import estimate_messages
from nanobot.bus.events import InboundMessage, Route
from nanobot.messages import Message
from nanobot.session.entries import EntryId, Finished
from nanobot.session.log import SessionLog
from nanobot.session.manager import Session


def command_line(
    log: SessionLog, message: InboundMessage, outcome: Outcome, split: Split, *, superseded: tuple[str, ...] = ()
) -> Finished:
    """Return the line that says what a command did and what answer it owes; a reset is a floor."""
    entry = log.new_id()
    inbound = (*superseded, message.id)
    floor: EntryId | None = None
    if outcome.effect and outcome.effect.get("type") == "reset":
        floor = log.floor(None, without_summary=True, taken=inbound) or entry
    return Finished(
        id=entry,
        inbound=inbound,
        stop_reason="command",
        content=outcome.text,
        owed=owed_to(entry, message.route, outcome.text, (), split),
        effect=outcome.effect,
        floor=floor,
        carry=log.carry() if floor else None,
    )


def back_line(log: SessionLog, route: Route, split: Split) -> Finished:
    """Return the line that owes the chat which asked for a restart the word that it was done."""
    entry, text = log.new_id(), "I am back."
    return Finished(
        id=entry,
        stop_reason="command",
        content=text,
        owed=owed_to(entry, route, text, (), split),
        effect={"type": "restarted"},
    )


def status_of(
    session: Session,
    model: Model,
    *,
    view: Sequence[Message],
    running: str | None,
    waiting: Sequence[str],
    notes: Sequence[str],
) -> str:
    """Return what ``/status`` says; ``view`` is what the model would be shown now."""
    log = session.log
    used = prompt_tokens(log, estimated=estimate_messages(view))
    window = known_window(log, model)
    kept = " after a summary" if log.summary else ""
    return status_text(
        model=model.ref,
        context_line=f"{used} of {window} tokens ({used * 100 // window} %), {len(log.rows)} messages{kept}",
        usage=log.usage,
        running=running,
        disk=session.refusing,
        waiting=waiting,
        notes=notes,
    )
