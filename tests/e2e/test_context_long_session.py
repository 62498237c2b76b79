"""Three hundred Turns through a 32k window, against a server that refuses what does not fit or is not legal."""

from pathlib import Path

import pytest

from nanobot.agent.inspect import views
from nanobot.agent.passes import Boundaries
from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.function import function_tool
from nanobot.agent.tools.read_result import ReadResult, ReadResultArguments
from nanobot.app import Nanobot
from nanobot.config.settings import Settings
from nanobot.messages import AssistantMessage, ToolMessage
from nanobot.session.entries import Cut, Entry, Head, Step, Summary
from nanobot.session.manager import Session
from tests.fakes.llm_server import LLMServer, Recorded
from tests.fakes.long_session import SUMMARY_MARK, Model, chapter, facts, sayings

KEY = "script:long"
WINDOW = 32_000


def bot_for(server: LLMServer, folder: Path, wire: str) -> Nanobot:
    def read_chapter(number: int) -> str:
        """Read a chapter of the manual."""
        return chapter(number)

    base_url = f"{server.url}/v1" if wire == "openai" else server.url
    settings = Settings.model_validate(
        {
            "workspace": folder / "workspace",
            "data_dir": folder / "data",
            "providers": {"local": {"type": wire, "api_key": "k", "base_url": base_url}},
            "agent": {"model": "local/test-model", "context_window": WINDOW, "max_tokens": 2_000},
            "session": {"sync": "off"},
        }
    )
    tool = function_tool(read_chapter, effect="pure", concurrent=True, chatty=True)
    return Nanobot(settings, tools=[tool], environ={})


async def converse(bot: Nanobot, turns: int) -> None:
    for saying in sayings(turns):
        result = await bot.process_direct(saying, session_key=KEY)
        assert result.error is None, result.error


async def logged(bot: Nanobot) -> list[Entry]:
    async with bot.sessions.open(KEY) as session:
        await session.restore()
        return list(reversed(await session.read(limit=1_000_000)))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("wire", "turns"), [("openai", 300), ("anthropic", 80)])
async def test_a_long_session_never_overflows_and_never_forgets_what_matters(
    wire: str, turns: int, tmp_path: Path
) -> None:
    """No refusal, every planted fact answered from what was sent, every result whole by its id, the prefix reused."""
    model = Model()
    async with LLMServer(window_tokens=WINDOW) as server:
        server.responder = model.respond
        async with bot_for(server, tmp_path, wire) as bot:
            await converse(bot, turns)
            entries = await logged(bot)
            async with bot.sessions.open(KEY) as session:
                whole = await _every_result_is_whole(session, entries)

        assert server.refusals == []
    assert model.answers == facts(turns)
    assert model.summaries > 0
    assert whole > turns // 10
    assert reused(server.chats) > 0.9
    if wire == "openai":
        _replays(server.chats, entries)


def reused(chats: list[Recorded]) -> float:
    """Return the share of all prompt tokens that the request before began with."""
    talk = [chat for chat in chats if SUMMARY_MARK.encode() not in chat.raw]
    return sum(chat.cached_tokens for chat in talk) / sum(chat.prompt_tokens for chat in talk)


async def _every_result_is_whole(session: Session, entries: list[Entry]) -> int:
    """Read each result by its id, page by page, and compare it with what the tool gave; return how many there were."""
    calls = {
        call.id: call
        for entry in entries
        if isinstance(entry, Step) and isinstance(entry.message, AssistantMessage)
        for call in entry.message.tool_calls
    }
    count = 0
    for entry in entries:
        if not isinstance(entry, Step) or not isinstance(entry.message, ToolMessage):
            continue
        text = await session.full_result(entry.id)
        match calls[entry.message.call_id].arguments:
            case {"number": int(number)}:
                assert text == chapter(number)
            case _:
                assert text.startswith("1\n2\n3\n")
        assert await _paged(session, entry.id, len(text)) == text
        count += 1
    return count


async def _paged(session: Session, entry: str, size: int) -> str:
    tool = ReadResult()
    out = ""
    context = ToolContext(
        session_key=KEY,
        turn="t",
        call_id="c",
        role="owner",
        workspace=Path(),
        scratch=Path(),
        full_result=session.full_result,
    )
    while len(out) < size:
        page = await tool.run(ReadResultArguments(id=entry, offset=len(out)), context)
        assert isinstance(page, str)
        out += page.rpartition("\n[")[0]
    return out


def _replays(chats: list[Recorded], entries: list[Entry]) -> None:
    """What was sent is a function of the log: replaying it gives as many messages, and each extends the one before but at cuts."""
    sent = [chat for chat in chats if SUMMARY_MARK.encode() not in chat.raw]
    at = Boundaries(chatty=frozenset({"read_chapter", "exec", "read_result"}))
    replayed = list(views(entries, at))
    assert len(replayed) == len(sent)
    cuts = {entry.id for entry in entries if isinstance(entry, Cut | Summary | Head)}
    positions = {entry.id: i for i, entry in enumerate(entries)}
    for before, after, one, two in zip(replayed, replayed[1:], sent, sent[1:], strict=False):
        between = entries[positions[before.answer] : positions[after.answer]]
        was_cut = any(entry.id in cuts for entry in between)
        assert was_cut or list(after.model[: len(before.model)]) == list(before.model)
        assert was_cut or two.elements[: len(one.elements)] == one.elements
