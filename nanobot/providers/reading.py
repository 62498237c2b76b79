"""Read one streamed answer into a fold, within limits that keep-alives cannot defeat.

A ``Fold`` is the pure half of an adapter: it takes the wire's events one by one, and says which deltas to show.  Only events that
moved the answer on (``progress``) push the limit away: pings, comments and empty chunks do not.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, cast

from nanobot.bus.runtime_events import ModelEvent, ReasoningDelta, TextDelta
from nanobot.errors import ProviderError, StreamStalled
from nanobot.providers.base import Emit
from nanobot.providers.faults import Fault, ServerFault
from nanobot.values import frozen

_CHARS_PER_TOKEN = 24  # on the average of a whole answer; real ones have 1 to 6
_PAGE_CHARS = 20_000  # of a web page, for its title
AFTER_END_S = 5.0  # for what may follow the end of an answer, such as the usage


class Fold(Protocol):
    """An answer that grows with each event of its wire."""

    @property
    def progress(self) -> int:
        """A number that rises when an event carried something real."""
        ...

    @property
    def thinks(self) -> bool:
        """Whether the model may still be thinking unseen, so that silence is no bad sign yet."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the event that ends an answer was seen."""
        ...

    def feed(self, event: object) -> Sequence[ModelEvent]:
        """Take one event; return the deltas to show."""
        ...

    def feed_whole(self, answer: object) -> Sequence[ModelEvent]:
        """Take a whole answer, from a server that does not stream."""
        ...


class SdkResponse(Protocol):
    """The part of an HTTP response read here."""

    @property
    def headers(self) -> "Headers": ...
    async def aread(self) -> bytes: ...


class Headers(Protocol):
    """The part of HTTP headers read here."""

    def get(self, key: str, default: str) -> str: ...


class SdkStream(Protocol):
    """The part of both SDKs' ``AsyncStream`` read here."""

    @property
    def response(self) -> SdkResponse: ...
    async def __anext__(self) -> object: ...
    async def close(self) -> None: ...


@frozen
class Limits:
    """How long to wait, in seconds; ``key`` is the settings' name of these limits, for texts."""

    first_token_s: float
    idle_s: float
    total_s: float
    key: str


def most_chars(max_tokens: int) -> int:
    """Return how many characters an answer of so many tokens can have, generously: more is a server that does not stop."""
    return 20_000 + max_tokens * _CHARS_PER_TOKEN


async def read_answer(
    open_stream: Callable[[], Awaitable[SdkStream]], fold: Fold, emit: Emit, limits: Limits, *, max_chars: int
) -> None:
    """Open a stream, feed its events to ``fold`` and its deltas to ``emit``; always close it.

    Raises:
        StreamStalled: a limit passed before the answer was complete, or the stream ended without its last event.
        ProviderError: the answer has more than ``max_chars`` characters.
        ServerFault: a web page came, or what came says that it is an error.
        Exception: whatever the SDK raises.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + limits.total_s
    limit = asyncio.timeout_at(min(now() + limits.first_token_s, deadline))
    try:
        async with limit:
            stream = await open_stream()
            try:

                def moved() -> None:
                    limit.reschedule(min(now() + _patience(fold, limits), deadline))
                    if (
                        fold.progress > max_chars
                    ):  # each step is a character at least, also of calls, which are not shown
                        raise _endless(max_chars)

                await _drain(stream, fold, _counting(emit, max_chars), moved)
            finally:
                await stream.close()
    except TimeoutError:
        if not limit.expired():
            raise
        if not fold.complete:
            raise StreamStalled(_silence(fold, limits, late=now() >= deadline)) from None
    if not fold.complete:
        raise StreamStalled("The connection ended in the middle of the answer.")


async def _drain(stream: SdkStream, fold: Fold, emit: Emit, moved: Callable[[], None]) -> None:
    kind = stream.response.headers.get("content-type", "")
    if kind.startswith("application/json"):
        _show(fold.feed_whole(cast("object", json.loads(await stream.response.aread()))), emit)
        return
    if kind.startswith("text/html"):  # a proxy's login, or the site of a server whose address lacks its path
        raise ServerFault(Fault((await stream.response.aread()).decode("utf-8", "replace")[:_PAGE_CHARS] or "<html>"))
    while True:
        try:
            event = await stream.__anext__()
        except StopAsyncIteration:
            return
        before = fold.progress
        _show(fold.feed(event), emit)
        if fold.progress != before:
            moved()


def _counting(emit: Emit, max_chars: int) -> Emit:
    """Return an ``emit`` that raises once more came than was asked for: what streams without end would fill memory and disk."""
    chars = 0

    def counted(event: ModelEvent) -> None:
        nonlocal chars
        if isinstance(event, TextDelta | ReasoningDelta):
            chars += len(event.text)
        if chars > max_chars:
            raise _endless(max_chars)
        emit(event)

    return counted


def _endless(max_chars: int) -> ProviderError:
    return ProviderError(f"The model's answer did not end: more than {max_chars:,} characters came.")


def _show(deltas: Sequence[ModelEvent], emit: Emit) -> None:
    for delta in deltas:
        emit(delta)


def _patience(fold: Fold, limits: Limits) -> float:
    if fold.complete:
        return min(limits.idle_s, AFTER_END_S)
    return limits.first_token_s if fold.thinks else limits.idle_s


def _silence(fold: Fold, limits: Limits, *, late: bool) -> str:
    if late:
        return f"The model did not finish its answer within {limits.total_s:g} s ({limits.key}.total_s)."
    if fold.progress == 0:
        return f"The model sent nothing for {limits.first_token_s:g} s ({limits.key}.first_token_s)."
    waited, name = (limits.first_token_s, "first_token_s") if fold.thinks else (limits.idle_s, "idle_s")
    return f"The model went silent for {waited:g} s in the middle of its answer ({limits.key}.{name})."
