"""Read one streamed answer into a fold, within limits that keep-alives cannot defeat.

A ``Fold`` is the pure half of an adapter: it takes the wire's events one by one, and says which deltas to show.  Only events that
moved the answer on (``progress``) push the limit away: pings, comments and empty chunks do not.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from nanobot.bus.runtime_events import ModelEvent
from nanobot.errors import StreamStalled
from nanobot.providers.base import Emit

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


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait, in seconds; ``key`` is the settings' name of these limits, for texts."""

    first_token_s: float
    idle_s: float
    total_s: float
    key: str


async def read_answer(open_stream: Callable[[], Awaitable[SdkStream]], fold: Fold, emit: Emit, limits: Limits) -> None:
    """Open a stream, feed its events to ``fold`` and its deltas to ``emit``; always close it.

    Raises:
        StreamStalled: a limit passed before the answer was complete, or the stream ended without its last event.
        Exception: whatever the SDK raises.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + limits.total_s
    limit = asyncio.timeout_at(min(now() + limits.first_token_s, deadline))
    try:
        async with limit:
            stream = await open_stream()
            try:
                await _drain(
                    stream, fold, emit, lambda: limit.reschedule(min(now() + _patience(fold, limits), deadline))
                )
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
    if stream.response.headers.get("content-type", "").startswith("application/json"):
        _show(fold.feed_whole(cast("object", json.loads(await stream.response.aread()))), emit)
        return
    while True:
        try:
            event = await stream.__anext__()
        except StopAsyncIteration:
            return
        before = fold.progress
        _show(fold.feed(event), emit)
        if fold.progress != before:
            moved()


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
