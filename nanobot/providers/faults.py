"""One total mapping from what a server said to our error tree, shared by both wires.

Pure, but for the clock when ``now`` is not given.

Compatible servers mix statuses, codes and texts freely, so the most telling sign is looked at first: the text of an overflow or an
empty account counts more than the status it came with.  No text here ever holds a key: it is cut out.
"""

import re
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypedDict

from nanobot.errors import (
    AuthFailed,
    BadRequest,
    ContextOverflow,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    Refused,
    Unavailable,
)
from nanobot.values import frozen

MAX_TEXT_CHARS = 400


@frozen
class Endpoint:
    """Who was asked, as far as an error text needs it.

    ``key_variable`` is the usual environment variable of the key; ``secrets`` are cut out of every text.
    """

    provider: str
    base_url: str
    key_variable: str
    secrets: tuple[str, ...] = field(default=(), repr=False)


@frozen
class Fault:
    """What a server said: ``status`` is None in the middle of a stream; ``kind`` joins its error type and code."""

    text: str
    status: int | None = None
    kind: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class ServerFault(Exception):
    """A server's error inside an answer that began well; the adapter maps ``fault``."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


class _Who(TypedDict):
    provider: str
    status: int | None


_OVERFLOW = re.compile(
    r"context_length_exceeded|prompt is too long|maximum context length|context size has been exceeded|context[ _]window"
    r"|exceeds? the (available|maximum|model'?s?) (context|input|prompt|allowed|number of)"
    r"|exceed(s|ed)? .{0,20}context (limit|length)"
    r"|input (is )?too long|too many (input )?tokens in|reduce the length of the (messages|prompt|input)"
    r"|input token count .{0,40}exceeds|exceed context limit|prompt (is )?too (long|large)"
    r"|(longer|greater) than the (model'?s )?(maximum )?(model|context)|context the overflows"
    r"|maximum (prompt|input) length|range of input length|max_model_len"
    r"|prompt token count .{0,40}exceeds|(input|prompt) tokens exceed|total number of tokens .{0,60}exceed"
    r"|exceed(s|ed)? .{0,20}token limit|too many tokens: |tokens in request more than|`inputs` tokens",
    re.IGNORECASE,
)
# The same in the words of vendors that speak other languages: what it is about, and that it is too much.
_OVERFLOW_ABROAD = re.compile(
    r"(上下文|输入|提示词|prompt|tokens?\b).{0,20}(过长|超长|超过|超出)|(超过|超出).{0,20}(上下文|输入长度)"
    r"|(コンテキスト|入力|トークン).{0,20}(超え|超過|長すぎ)|(컨텍스트|입력|토큰).{0,20}(초과|너무)"
    r"|(контекст|токен).{0,30}(превы|слишком)|(превы|слишком).{0,40}(контекст|токен)"
    r"|(contexto|contexte|kontext|tokens).{0,40}(excede|excède|dépass|supera|überschr|überschritten)"
    r"|(excede|excède|dépass|supera|überschr).{0,40}(contexto|contexte|kontext|tokens)",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient[_ ](quota|balance|credits?|funds)|credit balance|billing|exceeded your current quota|payment required"
    r"|out of credits|requires more credits|quota exhausted|spend(ing)? limit",
    re.IGNORECASE,
)
_FILTER = re.compile(
    r"content[_ ]?(filter|policy|management)|safety system|data_inspection_failed|moderation", re.IGNORECASE
)
_OVERLOADED = re.compile(
    r"overloaded|server_error|api_error|internal|unavailable|timeout|try again later", re.IGNORECASE
)
_RATE = re.compile(r"rate[_ ]?limit|too many requests|resource_exhausted", re.IGNORECASE)
_AUTH = re.compile(
    r"authentication_error|invalid_api_key|permission_error|unauthorized|api key not valid", re.IGNORECASE
)
_NO_MODEL = re.compile(
    r"model_not_found|decommissioned|unknown model|invalid model|not a valid model"
    r"|\bmodel\b[^.]{0,80}(does not exist|not found|no longer (available|supported)|has been (retired|removed))",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"(?:(?:maximum |model'?s )?(?:context|prompt|model) length (?:is|of)|maximum of|context window of"
    r"|token limit:|limit(?: of| is)?|>|<=|n_ctx:?|context size(?: of)?(?: \()?)"
    r"\s*(\d[\d,_]{2,11})(?!\d|\.\d)",
    re.IGNORECASE,
)
_LEAST_WINDOW = 1_000  # what claims to be smaller is the number of something else
_AGAIN = re.compile(
    r"(?:try|retry)(?: again)? (?:in|after) (?:(\d{1,9})m(?!s)\s?)?(\d{1,9}(?:\.\d+)?)\s?(ms|s|sec|seconds?)\b",
    re.IGNORECASE,
)
_BROKEN = frozenset(
    {"ReadError", "RemoteProtocolError", "ConnectionResetError"}
)  # by name: the HTTP client is loaded lazily
_HTML = re.compile(r"^\s*(<!doctype|<html|<\?xml)", re.IGNORECASE)
_TITLE = re.compile(r"<(?:title|h1)[^>]*>([^<]{1,200})<", re.IGNORECASE)
_KEY_SHAPE = re.compile(r"\b(?:sk|pk|rk|key|xai|gsk|AIza)[-_][A-Za-z0-9_*.-]{6,}|\bAIza[\w-]{10,}|(?i:bearer)\s+\S+")


def to_error(fault: Fault, at: Endpoint, *, now: datetime | None = None) -> ProviderError:
    """Return the error of our tree for what the server said.  ``now`` is for a Retry-After that is a date."""
    said = readable(fault.text, at)
    signs = f"{fault.kind} {fault.text}"
    status = fault.status if fault.status != 200 else None
    who = _Who(provider=at.provider, status=fault.status)
    if _says_too_long(signs) and status not in (401, 403, 429):
        return ContextOverflow(
            f"The conversation is longer than the model's window: {said}", limit_tokens=stated_limit(fault.text), **who
        )
    wait_s = retry_after_s(fault.headers, fault.text, now=now)
    if status == 402 or (
        _QUOTA.search(signs) and (status is None or 400 <= status < 500) and not _only_waits(signs, wait_s)
    ):
        return QuotaExhausted(f"The account at {at.provider!r} has no allowance left: {said}", **who)
    if status is not None and 300 <= status < 400:
        return _redirected(fault, at)
    if status == 413:
        return ContextOverflow(f"The request is too large for {at.provider!r}: {said}", **who)
    if status in (401, 403) or (status is None and _AUTH.search(signs)):
        return AuthFailed(_auth_advice(status, said, at), **who)
    if status == 429 or (status is None and _RATE.search(signs)):
        return RateLimited(f"{at.provider!r} asks us to slow down: {said}", retry_after_s=wait_s, **who)
    if status is not None and 400 <= status < 500 and status not in (408, 409, 425):
        return _client_error(status, said, signs, at)
    if status is None and _FILTER.search(signs) and not _OVERLOADED.search(signs):
        return Refused(f"A safety filter of {at.provider!r} stopped the answer: {said}", **who)
    if status is None and "invalid_request" in fault.kind:
        return BadRequest(f"{at.provider!r} refuses the request: {said}", **who)
    hint = _path_hint(at) if _HTML.match(fault.text) else ""
    return Unavailable(
        f"{at.provider!r} has trouble{f' (status {status})' if status else ''}: {said}{hint}",
        retry_after_s=wait_s,
        **who,
    )


def unreachable(error: Exception, at: Endpoint) -> Unavailable:
    """Return the error for a connection that could not be made, or broke."""
    inner = error.__cause__ or error
    name = type(inner).__name__
    why = readable(f"{name} {inner}", at)
    if name in _BROKEN:
        text = f"The connection to {at.provider!r} at {_shown(at.base_url)} broke before the answer was complete: {why}"
        return Unavailable(text, provider=at.provider)
    return Unavailable(f"{at.provider!r} cannot be reached at {_shown(at.base_url)}: {why}", provider=at.provider)


def retry_after_s(headers: Mapping[str, str], text: str, *, now: datetime | None = None) -> float | None:
    """Return how many seconds the server asks us to wait, from its headers (ms first: it is the finest) or its text.

    Source: RFC 9110, section 10.2.3.
    """
    millis = _number(headers.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000
    header = headers.get("retry-after")
    seconds = _number(header)
    if seconds is not None:
        return seconds
    if header:
        try:
            date = parsedate_to_datetime(header)
        except ValueError:
            return None
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max(0.0, (date - (now or datetime.now(UTC))).total_seconds())
    match = _AGAIN.search(text)
    if not match:
        return None
    wait = float(match[2]) / (1000 if match[3].lower() == "ms" else 1)
    return wait + 60 * int(match[1] or 0)


def stated_limit(text: str) -> int | None:
    """Return the window a server named in its text about an overflow."""
    limits = (int(re.sub(r"[,_]", "", found)) for found in _LIMIT.findall(text))
    return next((limit for limit in limits if limit >= _LEAST_WINDOW), None)


def _says_too_long(signs: str) -> bool:
    return bool(_OVERFLOW.search(signs) or _OVERFLOW_ABROAD.search(signs))


def readable(text: str, at: Endpoint) -> str:
    """Return a server's text as one short line: an HTML page becomes its title, keys are cut out."""
    if _HTML.match(text):
        title = _TITLE.search(text)
        text = (
            f"a web page answered instead of the model ({title[1].strip()!r})"
            if title
            else "a web page answered instead of the model"
        )
    for secret in at.secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    text = " ".join(_KEY_SHAPE.sub("***", text).split())
    if len(text) > MAX_TEXT_CHARS:
        text = f"{text[:MAX_TEXT_CHARS]}… ({len(text) - MAX_TEXT_CHARS} more characters)"
    return text or "no reason given"


def refuses_images(error: BadRequest | ContextOverflow) -> bool:
    """Say whether a refusal may be gone once the images are: it speaks of them, or the body was too large."""
    text = str(error).lower()
    return error.status == 413 or any(word in text for word in ("image", "multimodal", "vision"))


def refuses_extras(error: BadRequest | ContextOverflow) -> bool:
    """Say whether a refusal speaks of what a vendor wants back with its own answers: signed or encrypted thinking, reasoning.

    Where something of it is missing, leaving out the rest would not help.
    """
    text = str(error).lower()
    return (
        isinstance(error, BadRequest)
        and not wants_reasoning(error)
        and any(word in text for word in ("signature", "thinking", "reasoning", "encrypted content", "extra_content"))
    )


def wants_reasoning(error: ProviderError) -> bool:
    """Say whether a refusal is about an answer in the history that came without reasoning, as those of other models do."""
    text = str(error).lower()
    lacks = any(word in text for word in ("missing", "passed back", "required"))
    return isinstance(error, BadRequest) and "reasoning_content" in text and lacks


def _only_waits(signs: str, wait_s: float | None) -> bool:
    """Say whether a "quota" is one that refills in a moment: Gemini's per-minute limits speak of plan and billing too."""
    return wait_s is not None and wait_s < 3600 and "insufficient" not in signs.lower()


def _redirected(fault: Fault, at: Endpoint) -> BadRequest:
    """Return what to say of an answer that sends us elsewhere: keys and conversation do not follow."""
    target = fault.headers.get("location", "")
    to = f" to {_shown(readable(target, at))}" if target else ""
    advice = f"set providers.{at.provider}.base_url to the server itself"
    text = f"{at.provider!r} answers with a redirect{to}, which is not followed: {advice}."
    return BadRequest(text, provider=at.provider, status=fault.status, is_elsewhere=True)


def _client_error(status: int, said: str, signs: str, at: Endpoint) -> ProviderError:
    if _FILTER.search(signs):
        return Refused(
            f"A safety filter of {at.provider!r} refuses the request: {said}", provider=at.provider, status=status
        )
    if status == 404:
        return BadRequest(
            f"{at.provider!r} does not know this address or model: {said}{_path_hint(at)}",
            provider=at.provider,
            status=404,
            is_elsewhere=True,
        )
    no_model = bool(_NO_MODEL.search(signs))
    text = f"{at.provider!r} refuses the request: {said}"
    return BadRequest(text, provider=at.provider, status=status, is_elsewhere=no_model)


def _path_hint(at: Endpoint) -> str:
    base = _shown(at.base_url).rstrip("/")
    if at.key_variable != "OPENAI_API_KEY" or re.search(r"/v\d|/openai", base):
        return ""
    return f" (did you mean base_url: {base}/v1 in providers.{at.provider}?)"


def _auth_advice(status: int | None, said: str, at: Endpoint) -> str:
    what = "does not allow this" if status == 403 else "does not accept the key"
    return f"{at.provider!r} {what}: check providers.{at.provider}.api_key or {at.key_variable} ({said})."


def _shown(base_url: str) -> str:
    """Return an address without a user and password in it."""
    return re.sub(r"//[^/@]*@", "//", base_url)


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
