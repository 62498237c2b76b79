"""How many tokens a text or a message takes, estimated: no vocabulary, no download, any script.

The estimate cuts text where the vendors' tokenizers cut it (words, runs of digits, punctuation, line ends) and weighs each piece by
its kind and length; beyond ASCII it weighs characters by their script.  The weights were fitted so that it stays above 90 % of the
count of both OpenAI vocabularies on code, prose, CJK and other scripts, emoji, base64, JSON and listings (``bench/tokens.py`` shows
by how much).  What is left of the error is learned per model by ``agent.meter``.
"""

import json
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from nanobot.messages import AssistantMessage, Message, Part, TextPart, UserMessage
from nanobot.providers.base import ToolSpec

IMAGE_TOKENS = 1_600  # what both big vendors charge at most for one image after their own scaling
MESSAGE_TOKENS = 6  # role, separators, ids

_PIECES = re.compile(
    r"[A-Za-z0-9+/]{48,}={0,2}"  # perhaps base64
    r"|([!-/:-@\[-^`{-~])\1{3,}"  # rulers
    r"|[A-Z]?[a-z]+|[A-Z]+"
    r"|[ ]?[0-9]+"  # no vocabulary joins a space to a number
    r"|_+|\n\s*|[ \t\r\f\v]{2,}|[!-/:-@\[-^`{-~]+",
    re.ASCII,
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[+/=]+")
# From this code point on, a character takes so many tokens (of the vocabulary that knows the script least).
_SCRIPTS = (
    (0x80, 0.95),  # accented Latin
    (0x250, 1.6),
    (0x370, 0.62),  # Greek, Cyrillic
    (0x590, 0.95),  # Hebrew, Arabic
    (0x900, 1.3),  # Indic
    (0xE00, 1.05),  # Thai, Lao
    (0xE80, 1.6),
    (0x2000, 1.3),  # dashes, quotes, arrows, symbols
    (0x3040, 1.1),  # kana
    (0x3100, 1.2),  # ideographs
    (0xAC00, 1.2),  # Hangul
    (0xD7B0, 1.6),
    (0xF900, 1.3),
    (0xFE00, 1.6),
    (0x10000, 3.0),  # emoji
)
_SHORT = 24
_STARTS = [start for start, _ in _SCRIPTS]


def estimate_text(text: str) -> int:
    """Estimate the tokens of a text."""
    total = 0.0
    if not text.isascii():
        total += sum(_of_char(char) * count for char, count in Counter(text).items() if char > "\x7f")
    pieces = Counter(match.group() for match in _PIECES.finditer(text))
    return math.ceil(total + sum(_of_piece(piece) * count for piece, count in pieces.items()))


@lru_cache(maxsize=64)
def estimate_fixed(text: str) -> int:
    """Estimate a text that is sent again and again, once."""
    return estimate_text(text)


def estimate_message(message: Message) -> int:
    """Estimate the tokens of a message; kept with the message, so it costs once."""
    known = message.encoded.get("tokens")
    if known is None:
        known = message.encoded["tokens"] = MESSAGE_TOKENS + _estimate(message)
    return int(known)


def estimate_messages(messages: Iterable[Message]) -> int:
    """Estimate the tokens of several messages."""
    return sum([message.encoded.get("tokens") or estimate_message(message) for message in messages])


def estimate_tools(tools: Sequence[ToolSpec]) -> int:
    """Estimate the tokens of tool definitions, from their serialized form whatever their schemas hold."""
    return sum(map(_of_tool, tools))


def _of_tool(tool: ToolSpec) -> int:
    known = tool.encoded.get("tokens")
    if known is None:
        schema = json.dumps(tool.parameters, ensure_ascii=False, default=str)
        known = tool.encoded["tokens"] = estimate_text(f"{tool.name} {tool.description} {schema}") + 2 * MESSAGE_TOKENS
    return int(known)


def _estimate(message: Message) -> int:
    match message:
        case UserMessage():
            return _of_parts(message.parts)
        case AssistantMessage():
            calls = sum(estimate_text(_written(call.name, call.arguments)) for call in message.tool_calls)
            extra = estimate_text(message.extra.data) if message.extra else 0
            return estimate_text(message.text) + calls + extra + 2 * MESSAGE_TOKENS * len(message.tool_calls)
        case _:
            return estimate_text(message.text) + MESSAGE_TOKENS + _of_parts(message.shown)


def _of_parts(parts: Iterable[Part]) -> int:
    return sum(estimate_text(part.text) if isinstance(part, TextPart) else IMAGE_TOKENS for part in parts)


def _written(name: str, arguments: object) -> str:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return f"{name} {text}"


def _of_char(char: str) -> float:
    return _SCRIPTS[bisect_right(_STARTS, ord(char)) - 1][1]


def _of_piece(piece: str) -> float:
    return _of_short_piece(piece) if len(piece) <= _SHORT else _of_any_piece(piece)


@lru_cache(maxsize=4096)
def _of_short_piece(piece: str) -> float:
    """Estimate a word as texts are full of; they come again and again."""
    return _of_any_piece(piece)


def _of_any_piece(piece: str) -> float:
    first, size = piece[0], len(piece)
    if size >= 48 and first.isalnum() and not piece.isalpha() and not piece.isdigit():
        return size / 1.38 if _is_random(piece) else sum(map(_of_piece, _WORDS.findall(piece)))
    if piece[-1].isdigit() and (first == " " or first.isdigit()):
        return -(-len(piece.strip()) // 3) + (first == " ")
    if first.isspace():
        return 1.5 + size // 16 if first != "\n" else 1 + size // 16
    if first == "_":
        return 0.7
    if first.isupper() and (size == 1 or piece[-1].isupper()):
        return max(1.0, size / 1.7)
    if first.isalpha():
        return 1.0 if size <= 5 else 1 + (size - 5) * 0.27 if size <= 16 else size / 1.85
    if size > 3 and piece.count(first) == size:
        return 1 + size // 40
    return 1.0 if size == 1 else 1 + (size - 2) * 0.45


def _is_random(piece: str) -> bool:
    """Say whether a long run of letters and digits is encoded bytes rather than a path."""
    digits = sum(char.isdigit() for char in piece)
    upper = sum(char.isupper() for char in piece)
    return digits * 30 > len(piece) and upper * 5 > len(piece)
