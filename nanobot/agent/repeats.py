"""A result that the model has before its eyes already is not said twice.  Pure.

Only where the earlier result stood verbatim in the last request, and among its newest results, so that the next cut does not
reach it: a line that points at what was left out would send the model in circles.  It names the entry, so even much later
``read_result`` finds the text.
"""

from collections.abc import Sequence

from nanobot.messages import Message, ToolMessage

_NEAR = 5  # newest results looked at; cuts leave twice as many verbatim
_WORTH_CHARS = 400


def unchanged(name: str, text: str, sent: Sequence[Message]) -> str | None:
    """Return what to say instead of ``text``, a new result of the tool ``name``; None if it has to be said."""
    if len(text) < _WORTH_CHARS:
        return None
    newest = [message for message in sent if isinstance(message, ToolMessage)][-_NEAR:]
    for message in reversed(newest):
        if message.name == name and message.text == text and message.entry and not message.is_error:
            return f"[unchanged: the same as result {message.entry} above]"
    return None
