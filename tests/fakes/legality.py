"""What every provider wants of a request, checked on our own values: the strict servers check it again on the wire."""

from nanobot.messages import AssistantMessage, ToolMessage
from nanobot.providers.base import LLMRequest


def illegal(request: LLMRequest) -> str | None:
    """Return what is wrong with the request, or None."""
    messages = request.messages
    if not messages:
        return "no messages"
    if isinstance(messages[-1], AssistantMessage):
        return "ends with an assistant message"
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if not waiting or message.call_id != waiting.pop(0):
                return f"message {index} answers {message.call_id!r} out of order"
            continue
        if waiting:
            return f"calls {waiting} are not answered before message {index}"
        if isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.tool_calls]
            if len(set(waiting)) != len(waiting):
                return f"message {index} has a call id twice"
            if not waiting and not message.text.strip():
                return f"message {index} is empty"
    return f"calls {waiting} are not answered" if waiting else None
