"""What context governance is worth: reused prefix and cost beside a naive window, and what it costs itself.

A scripted session of 300 Turns with big reads, parallel calls and long shell output goes through a 32k window, against the strict
server.  The same conversation is then priced as a naive sliding window would have sent it (results but the newest ten left out,
oldest messages dropped until it fits, both decided anew for every request).  A token is four bytes on both sides.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.table import Row
from nanobot.agent import summary
from nanobot.agent.context import ContextBuilder
from nanobot.agent.govern import Fitted, Governor, prompt_budget
from nanobot.agent.inspect import views
from nanobot.agent.meter import Gauge, Ratios, last_reported
from nanobot.agent.passes import Boundaries, at_cuts, microcompact
from nanobot.agent.repair import repair
from nanobot.agent.tools.function import function_tool
from nanobot.app import Nanobot
from nanobot.config.settings import Settings
from nanobot.messages import AssistantMessage, Message, ToolMessage, as_dict, user_text
from nanobot.providers.base import Emit, LLMRequest, LLMResponse
from nanobot.session.entries import Cut, Entry, EntryId, Finished, Head, Started, Step, Summary
from nanobot.session.jsonl import JsonlStore
from nanobot.session.manager import Session, SessionManager
from nanobot.session.settings import SessionSettings
from tests.fakes.llm_server import LLMServer
from tests.fakes.long_session import SUMMARY_MARK, Model, chapter, facts, sayings

KEY = "bench:context"
WINDOW = 32_000
MAX_TOKENS = 2_000
TURNS = 300
CACHED_PRICE = 0.1  # of a fresh token's
CHATTY = frozenset({"read_chapter", "exec", "read_result"})


async def long_session() -> Sequence[Row]:
    """Run the session and price it, ours beside the naive window."""
    model = Model()
    with tempfile.TemporaryDirectory() as folder:
        async with LLMServer(window_tokens=WINDOW) as server:
            server.responder = model.respond
            async with _bot(server.url, Path(folder)) as bot:
                for saying in sayings(TURNS):
                    await bot.process_direct(saying, session_key=KEY)
                async with bot.sessions.open(KEY) as session:
                    await session.restore()
                    entries = list(reversed(await session.read(limit=1_000_000)))
    talk = [chat for chat in server.chats if SUMMARY_MARK.encode() not in chat.raw]
    sent = sum(chat.prompt_tokens for chat in talk)
    cached = sum(chat.cached_tokens for chat in talk)
    summaries = sum(chat.prompt_tokens for chat in server.chats) - sent
    naive_sent, naive_cached = _naive(entries, head=_head_size(talk[0].raw))
    right = sum(model.answers.get(name) == value for name, value in facts(TURNS).items())
    return [
        Row(what=f"{TURNS} Turns in {WINDOW} tokens: refused requests", unit="", value=len(server.refusals), most=0),
        Row(what="  planted facts not answered at the end", unit="", value=len(facts(TURNS)) - right, most=0),
        Row(what="  cuts", unit="", value=sum(isinstance(entry, Cut | Summary | Head) for entry in entries)),
        Row(what="  prompt tokens, floor: naive window", unit="k", value=sent / 1e3, floor=naive_sent / 1e3),
        Row(
            what="  fresh share of them",
            unit="%",
            value=100 - 100 * cached / sent,
            most=10,
            floor=100 - 100 * naive_cached / naive_sent,
        ),
        Row(
            what="  cost in fresh tokens, summaries included",
            unit="k",
            value=(_price(sent, cached) + summaries) / 1e3,
            floor=_price(naive_sent, naive_cached) / 1e3,
        ),
    ]


async def build_cost() -> Sequence[Row]:
    """Compare BUILD and governance after 100,000 logged messages with those after 100."""
    small = await _build_ms(100)
    large = await _build_ms(100_000)
    return [
        Row(
            what="BUILD and governance after 100,000 messages, floor: 100",
            unit="ms",
            value=large,
            floor=small,
            most=1.5 * small,
        )
    ]


async def summaries_beside() -> Sequence[Row]:
    """Measure what a hanging summarizer delays a Turn by."""
    without, beside = await _turn_ms(enabled=False), await _turn_ms(enabled=True)
    return [
        Row(
            what="p99 of a Turn beside a hanging summary, floor: none",
            unit="ms",
            value=beside,
            floor=without,
            most_over=50,
        )
    ]


# -- the session -------------------------------------------------------------------------------------------------------------------


def _bot(url: str, folder: Path) -> Nanobot:
    def read_chapter(number: int) -> str:
        """Read a chapter of the manual."""
        return chapter(number)

    settings = _settings(folder, {"type": "openai", "api_key": "k", "base_url": f"{url}/v1"})
    return Nanobot(
        settings, tools=[function_tool(read_chapter, effect="pure", concurrent=True, chatty=True)], environ={}
    )


def _settings(folder: Path, provider: dict[str, str], **compaction: object) -> Settings:
    return Settings.model_validate(
        {
            "workspace": folder / "workspace",
            "data_dir": folder / "data",
            "providers": {"local": provider},
            "agent": {
                "model": "local/test-model",
                "context_window": WINDOW,
                "max_tokens": MAX_TOKENS,
                "compaction": compaction,
            },
            "session": {"sync": "off"},
        }
    )


def _price(sent: int, cached: int) -> float:
    return (sent - cached) + cached * CACHED_PRICE


def _head_size(raw: bytes) -> int:
    body = json.loads(raw)
    return (len(json.dumps(body["tools"])) + len(json.dumps(body["messages"][0]))) // 4


def _naive(entries: Sequence[Entry], *, head: int) -> tuple[int, int]:
    """Return tokens sent, and of these in the prefix of the request before, by the naive window."""
    sent = cached = 0
    before: list[Message] = []
    for view in views(entries, Boundaries(chatty=CHATTY)):
        now = _sliding(repair(view.session), room=WINDOW - MAX_TOKENS - head)
        sent += head + sum(map(_size, now))
        shared = next(
            (i for i, (one, two) in enumerate(zip(before, now, strict=False)) if one != two), min(len(before), len(now))
        )
        cached += (head if before else 0) + sum(map(_size, now[:shared]))
        before = now
    return sent, cached


def _sliding(messages: list[Message], *, room: int) -> list[Message]:
    results = [m for m in messages if isinstance(m, ToolMessage) and m.name in CHATTY]
    before = int(results[-10].entry[1:]) if len(results) > 10 else 0
    out = microcompact(messages, before=before, chatty=CHATTY)
    left = sum(map(_size, out))
    start = 0
    while left > room and start < len(out) - 1:
        left -= _size(out[start])
        start += 1
    return repair(out[start:])


def _size(message: Message) -> int:
    known = message.encoded.get("bench size")
    if known is None:
        known = message.encoded["bench size"] = len(json.dumps(as_dict(message))) // 4
    return int(known)


# -- BUILD -------------------------------------------------------------------------------------------------------------------------


async def _build_ms(messages: int) -> float:
    """Return what it takes to go from a loaded session to messages that fit, best of many."""
    with tempfile.TemporaryDirectory() as folder:
        store = JsonlStore(Path(folder), settings=SessionSettings(sync="off"), owner="benchmark")
        manager = SessionManager(store, owner="benchmark")
        async with manager.open(KEY) as session:
            await session.restore()
            written: list[Awaitable[None]] = []
            for count, entry in enumerate(_history(messages)):
                written = [session.append(entry)]
                if count % 3 == 2 and len(session.log.rows) % 20 == 0:
                    written += _cut(session)
            await asyncio.gather(*written)
        await manager.close()
        manager = SessionManager(store, owner="benchmark")
        builder = ContextBuilder(Path(folder))
        async with manager.open(KEY) as session:
            await session.restore()
            times: list[float] = []
            for i in range(40):
                started = time.perf_counter()
                current = user_text(f"And now {i}?", entry=session.log.new_id())
                history = builder.build_messages(session.get_history(), current)
                last_reported(session.log)
                cuts = _governed(session.log.cuts, history).cuts
                times.append((time.perf_counter() - started) * 1000)
                if cuts:
                    await asyncio.gather(*_cut(session))
        await manager.close()
        await store.close()
    return min(times)


def _cut(session: Session) -> list[Awaitable[None]]:
    """Log the cuts that the next request would need, and let go of rows as the end of a Turn does."""
    log, written = session.log, list[Awaitable[None]]()
    for cut in _governed(log.cuts, session.messages).cuts:
        at = f"e{cut.at}"
        written.append(session.append(Cut(id=log.new_id(), pass_name=cut.pass_name, at=at)))
        if cut.pass_name == "snip":
            floor = log.floor(at) or at
            written.append(
                session.append(Cut(id=log.new_id(), pass_name="trim", at=at, floor=floor, carry=log.carry()))
            )
    return written


def _governed(cuts: dict[str, Cut], messages: Sequence[Message]) -> Fitted:
    governor = Governor(
        budget_tokens=prompt_budget(WINDOW, MAX_TOKENS),
        boundaries=at_cuts(Boundaries(chatty=CHATTY), cuts),
        gauge=Gauge(model="m", ratios=Ratios(), overhead=1_000),
    )
    return governor.fit(messages)


def _history(messages: int) -> Iterator[Entry]:
    """Yield Turns of three entries; two of them are messages of about 250 tokens, so that a hundred fill most of the window."""
    count = 0

    def entry() -> EntryId:
        nonlocal count
        count += 1
        return f"e{10 * count}"

    for turn in range(messages // 2):
        asked, said, end = entry(), entry(), entry()
        question = user_text(f"Question {turn}: " + "what do you make of all this? " * 30, entry=asked)
        answer = AssistantMessage(
            f"About {turn} I would say: " + "it is what it is, all things considered. " * 25, entry=said
        )
        at = datetime.now(UTC).isoformat()
        yield Started(id=asked, turn=f"t{turn + 1}", inbound=(f"direct:{turn}",), message=question, at=at)
        yield Step(id=said, turn=f"t{turn + 1}", message=answer, finish="stop")
        yield Finished(id=end, turn=f"t{turn + 1}", iterations=1, answer=said)


# -- a hanging summarizer ----------------------------------------------------------------------------------------------------------


class _Hanging:
    """Answers at once, but never with a summary."""

    name = "hanging"

    async def stream(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        if request.system == summary.SYSTEM:
            await asyncio.Event().wait()
        return LLMResponse(text="I would say that it depends. " * 8, provider=self.name, model=request.model)

    async def encoded(self, request: LLMRequest) -> list[bytes]:
        return []

    async def close(self) -> None:
        """Nothing to close."""


async def _turn_ms(*, enabled: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        settings = _settings(Path(folder), {"type": "offline"}, enabled=enabled)
        async with Nanobot(settings, provider=_Hanging(), environ={}) as bot:
            times: list[float] = []
            for i in range(200):
                started = time.perf_counter()
                await bot.process_direct(f"{i} " + "words about /etc/app.conf and more " * 60, session_key=KEY)
                times.append((time.perf_counter() - started) * 1000)
    return sorted(times)[int(len(times) * 0.99) - 1]
