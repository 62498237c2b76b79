"""How many tokens a request will take: measured where the provider said so, estimated for what is new.

The estimate weighs characters by kind (text that tokenizers know well, digits and punctuation, everything beyond ASCII) and leans
to the high side; ``agent.govern`` corrects it by what the provider reported.
"""

import math
import re
from collections.abc import Sequence

from nanobot.messages import AssistantMessage, ImagePart, Message, TextPart, UserMessage
from nanobot.providers.base import ToolSpec

IMAGE_TOKENS = 1_600  # what both big vendors charge at most for one image after their own scaling
MESSAGE_TOKENS = 6  # role, separators, ids
_LETTERS_PER_TOKEN = 3.2
_OTHER_PER_TOKEN = 1.5
_BEYOND_ASCII_PER_TOKEN = 0.8
_LETTERS = re.compile(r"[A-Za-z ]")


def estimate_text(text: str) -> int:
    """Estimate the tokens of a text."""
    if text.isascii():
        beyond = 0
        letters = len(_LETTERS.findall(text))
    else:
        ascii_part = text.encode("ascii", "ignore").decode()
        beyond = len(text) - len(ascii_part)
        letters = len(_LETTERS.findall(ascii_part))
    other = len(text) - beyond - letters
    return math.ceil(letters / _LETTERS_PER_TOKEN + other / _OTHER_PER_TOKEN + beyond / _BEYOND_ASCII_PER_TOKEN)


def estimate_message(message: Message) -> int:
    """Estimate the tokens of a message; kept with the message, so it costs once."""
    known = message.encoded.get("tokens")
    if known is None:
        known = message.encoded["tokens"] = MESSAGE_TOKENS + _estimate(message)
    return int(known)


def estimate_tools(tools: Sequence[ToolSpec]) -> int:
    """Estimate the tokens of tool definitions, from their serialized form whatever their schemas hold."""
    return sum(estimate_text(f"{tool.name}{tool.description}{tool.parameters}") + MESSAGE_TOKENS for tool in tools)


def _estimate(message: Message) -> int:
    match message:
        case UserMessage():
            texts = sum(estimate_text(part.text) for part in message.parts if isinstance(part, TextPart))
            return texts + IMAGE_TOKENS * sum(isinstance(part, ImagePart) for part in message.parts)
        case AssistantMessage():
            calls = sum(estimate_text(f"{call.name}{call.arguments}") + MESSAGE_TOKENS for call in message.tool_calls)
            extra = estimate_text(message.extra.data) if message.extra else 0
            return estimate_text(message.text) + calls + extra
        case _:
            return estimate_text(message.text) + MESSAGE_TOKENS
