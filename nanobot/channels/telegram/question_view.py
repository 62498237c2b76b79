"""How a question looks, and what its buttons carry.  Pure.

A button's data is all that a press brings back.  Where a question is asked in another chat than the one it comes from, the data
names that one, so that it cannot be mistaken for a question of the chat with the button.
"""

from dataclasses import replace
from typing import get_args

from nanobot.bus.events import Decision, Route
from nanobot.bus.runtime_events import Waiting
from nanobot.channels.telegram.format import Button, Entity, Rendered, plain, utf16_units
from nanobot.values import frozen

PREFIX = "ap:"
MAX_DETAILS_UNITS = 2_500
LONG = "[… the call is too long for this message; it stands in full above …]"
_BUTTONS: dict[Decision, str] = {"once": "Allow once", "always": "Always", "deny": "Deny"}


@frozen
class Choice:
    """What a button stands for; ``chat`` is empty for a question of the chat that the button is in."""

    question: str
    decision: Decision
    chat: str = ""
    topic: str | None = None


@frozen
class Wording:
    """A question's text; ``code_at`` is where the call begins in it, ``long`` the whole call if it is too long for a message."""

    text: str
    code_at: int | None = None
    long: str = ""


def wording(event: Waiting, described: str = "") -> Wording:
    """Return how a question is put in the chat that asks, or, with who asks where ``described``, in an owner's."""
    lead = event.in_full
    if described:
        always = f" Always: {event.always}" if event.always else ""
        lead = f"{described}: {event.question}{always}"
    is_long = utf16_units(event.details) > MAX_DETAILS_UNITS
    shown = LONG if is_long else event.details
    text = lead + (f"\n\n{shown}" if shown else "")
    return Wording(text, len(lead) + 2 if shown and not is_long else None, event.details if is_long else "")


def told(event: Waiting, *, is_reached: bool) -> str:
    """Return what the chat that asks is told when the question is asked elsewhere."""
    if is_reached:
        return f"{event.question} I asked my owner, whose word decides."
    return (
        f"{event.question} Only my owner may decide this, and could not be reached: an owner has to write to me in a private"
        " chat once, so that I can ask there."
    )


def view(asked: Wording, buttons: tuple[Button, ...]) -> Rendered:
    """Return a question with its call in code, as it is."""
    seen = replace(plain(f"❓ {asked.text}"), buttons=buttons)
    if asked.code_at is None or len(seen.text) < len(asked.text):
        return seen
    before = utf16_units(seen.text[: asked.code_at + 2])
    length = utf16_units(seen.text) - before
    return replace(seen, entities=(Entity("pre", before, length),)) if length else seen


def buttons(question: str, asks_for: Route | None = None) -> tuple[Button, ...]:
    """Return the buttons; ``asks_for`` is the chat that asks, where it is another one."""
    place = ""
    if asks_for is not None:
        place = f"@{asks_for.chat}" + (f"/{asks_for.topic}" if asks_for.topic else "")
    return tuple(Button(text, f"{PREFIX}{question}{place}:{decision}") for decision, text in _BUTTONS.items())


def parse(data: str) -> Choice | None:
    """Return what a button stands for; None if it is none of ours."""
    named, _, word = data.removeprefix(PREFIX).rpartition(":")
    decision = next((one for one in get_args(Decision) if one == word), None)
    question, _, place = named.partition("@")
    if not data.startswith(PREFIX) or not question or decision is None:
        return None
    chat, _, topic = place.partition("/")
    return Choice(question, decision, chat, topic or None)
