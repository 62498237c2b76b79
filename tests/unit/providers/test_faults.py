"""What servers say, and what it means to us."""

from datetime import UTC, datetime

import anthropic
import httpx2
import openai
import pytest

from nanobot.errors import (
    AuthFailed,
    BadRequest,
    ContextOverflow,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    Refused,
    StreamStalled,
    Unavailable,
)
from nanobot.providers import anthropic as anthropic_adapter
from nanobot.providers import openai as openai_adapter
from nanobot.providers.faults import Endpoint, Fault, retry_after_s, to_error, unreachable
from nanobot.providers.openai_stream import fault_of

AT = Endpoint("work", "https://host.example", "OPENAI_API_KEY", ("s3cret-key",))
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

CASES: list[tuple[int | None, str, str, type[ProviderError]]] = [
    (400, "context_length_exceeded", "This model's maximum context length is 128000 tokens.", ContextOverflow),
    (400, "", "prompt is too long: 250000 tokens > 200000 maximum", ContextOverflow),
    (
        400,
        "exceed_context_size_error",
        "the request exceeds the available context size, try increasing it",
        ContextOverflow,
    ),
    (400, "", "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000", ContextOverflow),
    (
        400,
        "",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        ContextOverflow,
    ),
    (500, "", "context size has been exceeded", ContextOverflow),
    (None, "context_length_exceeded", "too long", ContextOverflow),
    (413, "request_too_large", "Request exceeds the maximum size", ContextOverflow),
    (402, "", "Insufficient Balance", QuotaExhausted),
    (
        429,
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
        QuotaExhausted,
    ),
    (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.", QuotaExhausted),
    (
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your quota, check your plan and billing. Please retry in 34.07s.",
        RateLimited,
    ),
    (429, "", "Too many tokens per minute, context window aside", RateLimited),
    (None, "rate_limit_error", "Number of request tokens has exceeded your per-minute rate limit", RateLimited),
    (401, "invalid_api_key", "Incorrect API key provided", AuthFailed),
    (403, "permission_error", "not allowed", AuthFailed),
    (None, "authentication_error", "no", AuthFailed),
    (400, "content_filter", "The response was filtered", Refused),
    (None, "content_filter", "filtered", Refused),
    (400, "invalid_request_error", "messages.1: tool_use ids must be unique", BadRequest),
    (422, "", "Unprocessable", BadRequest),
    (404, "", "404 page not found", BadRequest),
    (None, "invalid_request_error", "no", BadRequest),
    (408, "", "timeout", Unavailable),
    (500, "", "oops", Unavailable),
    (502, "", "<html><head><title>502 Bad Gateway</title></head></html>", Unavailable),
    (529, "overloaded_error", "Overloaded", Unavailable),
    (200, "overloaded_error", "Overloaded", Unavailable),
    (None, "server_error", "", Unavailable),
    (None, "", "", Unavailable),
]


@pytest.mark.parametrize(("status", "kind", "text", "expected"), CASES)
def test_the_table(status: int | None, kind: str, text: str, expected: type[ProviderError]) -> None:
    """Each known answer of a server becomes the error that the right person can act on."""
    assert type(to_error(Fault(text, status, kind), AT)) is expected


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("This model's maximum context length is 128,000 tokens. However, you requested 130000", 128_000),
        ("prompt is too long: 250000 tokens > 200000 maximum", 200_000),
        ("exceeds the maximum number of tokens allowed (1048576).", None),
        ("prompt is too long", None),
        ("invalid params, context window exceeds limit (2013)", None),
        ("input length and `max_tokens` exceed context limit: 197202 + 21333 > 200000", 200_000),
        ("Your request exceeded model token limit: 262144 (requested: 270000)", 262_144),
        ("the prompt is longer than the maximum model length of 4096.", 4_096),
        ("prompt is too long: limit 64", None),
        (f"prompt is too long: limit {'9' * 5_000}", None),
    ],
)
def test_the_stated_limit(text: str, limit: int | None) -> None:
    """When the server names its window, the error carries it; a code or another number beside it is no window."""
    error = to_error(Fault(text, 400), AT)

    assert isinstance(error, ContextOverflow)
    assert error.limit_tokens == limit


@pytest.mark.parametrize(
    "text",
    [
        "InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Invalid request: Your request exceeded model token limit: 262144",
        "prompt token count of 130211 exceeds the limit of 128000",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "Trying to keep the first 6000 tokens when context the overflows.",
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        "`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens",
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000.",
        "tokens in request more than max tokens allowed: 8192",
        "Input tokens exceed the configured limit of 272000 tokens.",
        "Prompt is too large",
        "Prompt 超长",
        "输入长度超过模型最大限制",
        "输入内容过长，超出模型上下文长度限制",
        "コンテキスト長が上限を超えています",
        "Превышена максимальная длина контекста",
        "La longitud del contexto excede el máximo permitido",
    ],
)
def test_an_overflow_is_known_in_any_vendors_words(text: str) -> None:
    """However a server says "too long", the conversation is shortened and goes on."""
    assert type(to_error(Fault(text, 400), AT)) is ContextOverflow


@pytest.mark.parametrize(
    ("status", "text", "is_elsewhere"),
    [
        (404, "The model `gpt-9` does not exist or you do not have access to it.", True),
        (400, "The model `llama2-70b` has been decommissioned and is no longer supported.", True),
        (400, "Invalid model name passed in model=x", True),
        (400, "x/y is not a valid model ID", True),
        (400, "Unsupported parameter: 'temperature' is not supported with this model.", False),
        (400, "messages.3: tool_use ids must be unique", False),
    ],
)
def test_a_model_that_is_gone_is_told_from_a_bad_request(status: int, text: str, is_elsewhere: bool) -> None:
    """What only this model refuses may be taken by the next one of a chain."""
    error = to_error(Fault(text, status), AT)

    assert isinstance(error, BadRequest)
    assert error.is_elsewhere is is_elsewhere


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens is too large: 100000. This model supports at most 4096 completion tokens",
        "messages: text content blocks must be non-empty",
        "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64",
        "metadata.user_id: String should have at most 256 characters",
    ],
)
def test_other_limits_are_no_overflow(text: str) -> None:
    """What a shorter conversation cannot cure costs none of it."""
    assert type(to_error(Fault(text, 400), AT)) is BadRequest


@pytest.mark.parametrize(
    ("headers", "text", "expected"),
    [
        ({"retry-after": "7"}, "", 7),
        ({"retry-after": "7", "retry-after-ms": "1500"}, "", 1.5),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:30 GMT"}, "", 30),
        ({"retry-after": "Mon, 30 Nov 2026 11:00:00 GMT"}, "", 0),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "-3"}, "", None),
        ({"retry-after": "inf"}, "", None),
        ({}, "Please try again in 1.2s.", 1.2),
        ({}, "try again in 350ms", 0.35),
        ({}, "Please try again in 6m30s.", 390),
        ({}, "Please retry in 34.07s", 34.07),
        ({}, "slow down", None),
        ({}, f"try again in {'9' * 5_000}m1s", None),
    ],
)
def test_retry_after(headers: dict[str, str], text: str, expected: float | None) -> None:
    """Seconds, dates, milliseconds and plain words all say when to come back."""
    found = retry_after_s(headers, text, now=NOW)

    assert found == (None if expected is None else pytest.approx(expected))


def test_e22_a_missing_v1_is_hinted() -> None:
    """The commonest mistake with local servers is named with its fix."""
    local = Endpoint("local", "http://localhost:11434", "OPENAI_API_KEY")

    assert "base_url: http://localhost:11434/v1" in str(to_error(Fault("404 page not found", 404), local))
    assert "did you mean" not in str(to_error(Fault("no model", 404), Endpoint("o", "http://h/v1", "OPENAI_API_KEY")))


def test_f04_a_wrong_key_names_where_to_put_the_right_one() -> None:
    """The advice names the config key and the variable."""
    text = str(to_error(Fault("Incorrect API key provided: s3cret-key", 401), AT))

    assert "providers.work.api_key" in text
    assert "OPENAI_API_KEY" in text
    assert "s3cret-key" not in text


@pytest.mark.parametrize("secret", ["s3cret-key", "sk-abc123def456", "Bearer abcdefgh", "AIzaSyA1234567890abcdef"])
def test_keys_are_cut_out(secret: str) -> None:
    """A server that repeats a key does not spread it, be it ours or anybody's."""
    assert secret not in str(to_error(Fault(f"bad key {secret} given", 400), AT))


def test_a_password_in_an_address_is_not_shown() -> None:
    """The address of a server that cannot be reached is named without what it holds of secrets."""
    at = Endpoint("o", "http://user:pass@host.example/v1", "OPENAI_API_KEY")

    text = str(unreachable(OSError("refused"), at))

    assert "http://host.example/v1" in text
    assert "pass" not in text


def test_a_connection_that_broke_was_there() -> None:
    """Nobody is told to look for a server that had begun to answer."""
    inner = type("RemoteProtocolError", (Exception,), {})("peer closed connection")
    outer = OSError("Connection error.")
    outer.__cause__ = inner

    assert "broke before the answer was complete: RemoteProtocolError peer closed" in str(unreachable(outer, AT))
    assert "cannot be reached" in str(unreachable(OSError("refused"), AT))


def test_a_web_page_becomes_one_line() -> None:
    """A gateway's HTML page is told by its title."""
    page = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head>" + "<p>x</p>" * 1000

    text = str(to_error(Fault(page, 502), AT))

    assert "502 Bad Gateway" in text
    assert "<" not in text


@pytest.mark.parametrize(
    ("error", "text", "status"),
    [
        ({"message": "m", "code": 502, "metadata": {"raw": "vendor said"}}, "m vendor said", 502),
        ({"error": {"message": "m", "code": "x"}}, "m", None),
        ("plain", "plain", None),
        ({"detail": "d"}, "d", None),
        ({"odd": 1}, '{"odd":1}', None),
        (None, "", None),
    ],
)
def test_error_objects_of_compatible_servers(error: object, text: str, status: int | None) -> None:
    """The words are found wherever a server puts them."""
    fault = fault_of(error)

    assert (fault.text, fault.status) == (text, status)


REQUEST = httpx2.Request("POST", "https://host.example")


@pytest.mark.parametrize("adapter", [openai_adapter, anthropic_adapter], ids=["openai", "anthropic"])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (openai.APIConnectionError(request=REQUEST), Unavailable),
        (anthropic.APIConnectionError(request=REQUEST), Unavailable),
        (openai.APITimeoutError(REQUEST), Unavailable),
        (httpx2.RemoteProtocolError("cut"), Unavailable),
        (httpx2.ReadTimeout("slow"), Unavailable),
        (ConnectionResetError("reset"), Unavailable),
        (ValueError("json"), Unavailable),
        (TypeError("shape"), Unavailable),
        (StreamStalled("silent"), StreamStalled),
        (RateLimited("x"), RateLimited),
    ],
)
def test_the_mapping_is_total(adapter: object, error: Exception, expected: type[ProviderError]) -> None:
    """Whatever SDK, HTTP client or fold raise, one of our errors comes out."""
    mapped = getattr(adapter, "map_error")(error, AT)  # noqa: B009  # two modules, one promise

    assert type(mapped) is expected


def test_a_redirect_says_where_to_and_what_to_change() -> None:
    """It is no outage: another address helps, and another provider may answer meanwhile."""
    error = to_error(Fault("", 307, headers={"location": "https://me:pw@portal.example/login"}), AT)

    assert isinstance(error, BadRequest)
    assert "redirect to https://portal.example/login" in str(error)
    assert "providers.work.base_url" in str(error)
    assert error.is_elsewhere
