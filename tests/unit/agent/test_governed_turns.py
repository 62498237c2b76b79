"""Governance as a Turn meets it: every request fits, what was cut is in the log, and a restart changes nothing."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from nanobot.agent.govern import prompt_budget
from nanobot.agent.settings import AgentSettings, CompactionSettings
from nanobot.agent.tokens import estimate_message, estimate_text, estimate_tools
from nanobot.agent.tools.base import MAX_SHOWN, BaseTool, Shown, Tool, ToolContext
from nanobot.agent.tools.read_result import ReadResult
from nanobot.bus.events import Media
from nanobot.errors import ContextOverflow
from nanobot.messages import AssistantMessage, JsonObject, ToolCall, ToolMessage, images_of, user_text
from nanobot.providers.base import Emit, LLMRequest, LLMResponse
from nanobot.session.entries import Cut, Finished, Started
from nanobot.session.entries import Step as Said
from nanobot.session.manager import Session
from tests.fakes.agent import KEY, Agent, Echo, EchoArguments
from tests.fakes.legality import illegal
from tests.fakes.provider import ScriptedProvider, Step, calls, says

SETTINGS = AgentSettings(max_tokens=1_000, compaction=CompactionSettings(enabled=False))
PAGE = "lorem ipsum dolor sit amet, consectetur\n" * 2_000


class Page(Echo):
    """Gives a big page, different for each text."""

    name = "page"

    async def run(self, arguments: EchoArguments, context: ToolContext) -> str:
        return f"{arguments.text}\n{PAGE}"


class Plot(BaseTool[EchoArguments]):
    """Gives more pictures than are shown at once."""

    name = "plot"
    description = "Plots."
    arguments = EchoArguments
    chatty = True

    async def run(self, arguments: EchoArguments, context: ToolContext) -> Shown:
        image = Media("image", name="cpu.png", media_type="image/png", path="/media/ab.png", sha256="ab")
        return Shown(arguments.text, (image,) * (MAX_SHOWN + 2), "mcp plotter")


class Wordy(BaseTool[EchoArguments]):
    """A tool whose schema takes room."""

    description = "Does something. " + "It has a long description. " * 40
    arguments = EchoArguments

    def __init__(self, number: int) -> None:
        self.name = f"wordy_{number}"


def size(request: LLMRequest) -> int:
    return estimate_text(request.system) + estimate_tools(request.tools) + sum(map(estimate_message, request.messages))


def pages(count: int, *, each: int = 1) -> list[LLMResponse]:
    """Return answers that ask for pages, and a last one that does not."""
    return [*(calls(*(page(f"{i}-{j}") for j in range(each))) for i in range(count)), says("done")]


def page(text: str) -> tuple[str, JsonObject | str]:
    return "page", {"text": text}


def results(request: LLMRequest) -> list[ToolMessage]:
    return [message for message in request.messages if isinstance(message, ToolMessage)]


async def cuts(agent: Agent) -> list[Cut]:
    return [entry for entry in await agent.entries() if isinstance(entry, Cut)]


async def test_b02_b17_every_request_of_a_turn_is_within_the_window() -> None:
    """B02, B17: fifteen big reads in one Turn; each request fits, and what the log holds is what the model saw."""
    async with Agent(pages(15), tools=[Page(), ReadResult()], settings=SETTINGS, window=16_000) as agent:
        result = await agent.ask("read them all")

        assert result.stop_reason == "completed"
        assert [fault for request in agent.provider.requests if (fault := illegal(request))] == []
        assert all(size(request) <= prompt_budget(16_000, 1_000) for request in agent.provider.requests)
        assert {cut.pass_name for cut in await cuts(agent)} >= {"microcompact"}


async def test_b04_schemas_are_part_of_the_budget() -> None:
    """B04: with fifty wordy tools, the room for messages is what they leave."""
    tools: list[Tool[EchoArguments]] = [*(Wordy(i) for i in range(50)), Page()]
    async with Agent(pages(12), tools=tools, settings=SETTINGS, window=24_000) as agent:
        await agent.ask("read them all")

        assert estimate_tools(agent.provider.requests[0].tools) > 9_000
        assert all(size(request) <= prompt_budget(24_000, 1_000) for request in agent.provider.requests)


async def test_ten_parallel_reads_share_their_budget() -> None:
    """Ten results of one answer are bounded together when they are logged, and each is whole by its id."""
    async with Agent(pages(1, each=10), tools=[Page()], settings=SETTINGS, window=64_000) as agent:
        await agent.ask("read ten")

        shown = results(agent.provider.requests[1])
        assert len(shown) == 10
        assert sum(len(message.text) for message in shown) <= 64_000
        assert all(f'read_result("{message.entry}"' in message.text for message in shown)
        session = agent.sessions.loaded(KEY)
        assert session is not None
        assert [await session.full_result(message.entry) for message in shown] == [f"0-{j}\n{PAGE}" for j in range(10)]


async def test_a16_a_placeholder_says_that_the_call_worked() -> None:
    """A16: it names the tool, says that it was completed and how large the result was, and how to see it again."""
    async with Agent(pages(14), tools=[Page()], settings=SETTINGS, window=32_000) as agent:
        await agent.ask("read them all")

        old = next(m for m in results(agent.provider.requests[-1]) if "left out afterwards" in m.text)
        assert old.text.startswith("[page was completed; its result of ")
        assert "characters" in old.text
        assert f'read_result("{old.entry}")' in old.text


async def test_a17_what_was_left_out_may_be_asked_for_again() -> None:
    """A17: a call whose result was compacted runs again; the guard against repeats looks at neighbouring rounds only."""
    steps = [*pages(14)[:-1], calls(("page", {"text": "0-0"})), says("done")]
    async with Agent(steps, tools=[Page()], settings=SETTINGS, window=32_000) as agent:
        result = await agent.ask("read them all")

        assert result.stop_reason == "completed"
        assert results(agent.provider.requests[-1])[-1].text.startswith("0-0\nlorem")


async def test_a05_an_orphan_result_costs_nothing_else() -> None:
    """A05: an orphan at the end of imported history is dropped; the question before it is answered."""
    async with Agent([says("first"), says("second")]) as agent:
        await agent.ask("q1")
        async with agent.sessions.open(KEY) as session:
            orphan = ToolMessage("nobody", "page", "lost", entry=session.log.new_id())
            session.append(Said(id=orphan.entry, turn="t1", message=orphan))
        await agent.ask("q2")

        assert [type(m).__name__ for m in agent.provider.requests[-1].messages] == [
            "UserMessage",
            "AssistantMessage",
            "UserMessage",
        ]


async def test_a01_repeated_imported_call_ids_are_made_unique() -> None:
    """A01: one id for two calls, in one answer and in two, comes out as ids that occur once, each result with its call."""
    async with Agent([says("ok")]) as agent:
        async with agent.sessions.open(KEY) as session:
            await session.restore()
            await import_twice(session)
        await agent.ask("and now?")

        request = agent.provider.requests[-1]
        ids = [call.id for m in request.messages if isinstance(m, AssistantMessage) for call in m.tool_calls]
        assert illegal(request) is None
        assert len(ids) == len(set(ids)) == 4
        assert [message.text for message in results(request)] == ["one", "two", "one", "two"]


async def import_twice(session: Session) -> None:
    """Write a Turn as another program would have: the same id everywhere."""
    new_id = session.log.new_id
    first = new_id()
    session.append(Started(id=first, turn="t1", inbound=(), message=user_text("x", entry=first)))
    for _ in range(2):
        entry = new_id()
        twins = (ToolCall("t", "echo", {"text": "1"}), ToolCall("t", "echo", {"text": "2"}))
        session.append(Said(id=entry, turn="t1", message=AssistantMessage("", twins, entry=entry), finish="tool_calls"))
        for text in ("one", "two"):
            answer = new_id()
            session.append(Said(id=answer, turn="t1", message=ToolMessage("t", "echo", text, entry=answer)))
    session.append(Finished(id=new_id(), turn="t1", stop_reason="completed", content="fine"))


def refusing_above(tokens: int, *, says_limit: bool) -> list[Step]:
    """Return a model whose window is smaller than is known."""

    def answer(request: LLMRequest, emit: Emit) -> LLMResponse:
        if size(request) + request.max_tokens > tokens:
            raise ContextOverflow("too long", limit_tokens=tokens if says_limit else None)
        return says("yes")

    return [answer] * 200


@pytest.mark.parametrize("says_limit", [True, False])
async def test_a_refusal_as_too_long_is_cut_harder_once_and_the_window_is_learned(says_limit: bool) -> None:
    """One harder cut, one retry; the window is in the log, so neither the next Turn nor the next process is refused."""
    steps = refusing_above(12_000, says_limit=says_limit)
    async with Agent(steps, settings=SETTINGS, window=64_000) as agent:
        answers = [await agent.ask(f"{i} " + "word " * 900) for i in range(14)]
        refused = sum(1 for request in agent.provider.requests if size(request) + request.max_tokens > 12_000)

        assert [answer.stop_reason for answer in answers] == ["completed"] * 14
        assert refused <= 2
        assert [cut for cut in await cuts(agent) if cut.pass_name == "window:model"]
    again = agent.after_restart(refusing_above(12_000, says_limit=says_limit))
    async with again:
        await again.ask("word " * 900)

        assert len(again.provider.requests) == 1


async def test_one_giant_message_ends_its_turn_with_one_sentence() -> None:
    """The person is told which message does not fit; the next one is answered."""
    async with Agent([says("hello")], settings=SETTINGS, window=8_000) as agent:
        refused = await agent.ask("word " * 20_000)
        answered = await agent.ask("hi")

        assert refused.stop_reason == "error"
        assert "your message (e" in (refused.error or "")
        assert answered.content == "hello"
        assert len(agent.provider.requests) == 1


async def test_b01_long_workspace_files_leave_room_for_the_conversation(tmp_path: Path) -> None:
    """B01: in a small window the workspace's files get their share and no more, so that /new always works."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    for name in ("AGENTS.md", "SOUL.md", "USER.md"):
        (workspace / name).write_text("A rule of the house. " * 20_000)
    async with Agent([says("hello")], settings=SETTINGS, window=8_000, workspace=workspace) as agent:
        await agent.ask("/new")
        result = await agent.ask("hi")

        assert result.content == "hello"
        assert "is longer; only its first" in agent.provider.requests[0].system


async def test_status_shows_the_context_after_a_cut() -> None:
    """/status counts what the next prompt holds, not what an old report said."""
    async with Agent(pages(14), tools=[Page()], settings=SETTINGS, window=32_000) as agent:
        await agent.ask("read them all")
        status = (await agent.ask("/status")).content

        line = next(line for line in status.splitlines() if line.startswith("Context: "))
        assert "of 32000 tokens (" in line


async def test_undo_of_a_turn_shows_again_what_was_left_out_for_it() -> None:
    """A Turn that crowded out the conversation is taken back, and the conversation is there again."""
    steps = [says("Nice to meet you."), *pages(30), says("Ann.")]
    async with Agent(steps, tools=[Page()], settings=SETTINGS, window=8_000) as agent:
        await agent.ask("My name is Ann.")
        await agent.ask("read them all")
        crowded = [m.text for m in agent.provider.requests[-1].messages]
        await agent.ask("/undo")
        await agent.ask("What is my name?")

        assert any("were left out here" in text for text in crowded)
        assert any("My name is Ann." in m.text for m in agent.provider.requests[-1].messages)
        assert not any("were left out here" in m.text for m in agent.provider.requests[-1].messages)


class Counting(ScriptedProvider):
    """A provider that counts requests by asking, with a rule of its own."""

    def __init__(self, tokens: Callable[[LLMRequest], int | None], steps: Iterable[Step]) -> None:
        super().__init__(steps)
        self._tokens = tokens
        self.asked = 0

    async def count_tokens(self, request: LLMRequest) -> int | None:
        self.asked += 1
        return self._tokens(request)


@pytest.mark.parametrize("exact", [True, False])
async def test_exact_counts_are_asked_for_only_where_they_matter(exact: bool) -> None:
    """A request far from the window is sent as it is; one that comes near is counted first, if the settings want that."""
    provider = Counting(lambda _: 9_000, [says("small"), says("large")])
    agent = Agent(window=20_000, settings=SETTINGS.model_copy(update={"exact_tokens": exact}), provider=provider)
    async with agent:
        await agent.ask("hi")
        asked_for_small = provider.asked
        await agent.ask("word " * 14_000)

    assert asked_for_small == 0
    assert provider.asked == (1 if exact else 0)


async def test_a_request_that_is_counted_as_too_long_is_cut_before_it_is_sent() -> None:
    """What the provider counts decides, and the cut is logged like any other."""
    size = {1: 50_000}

    def tokens(request: LLMRequest) -> int:
        return size.pop(1, 9_000)

    old = [says("x" * 3_000) for _ in range(12)]
    provider = Counting(tokens, [*old, says("fits")])
    agent = Agent(window=24_000, settings=SETTINGS.model_copy(update={"exact_tokens": True}), provider=provider)
    async with agent:
        for number in range(12):
            await agent.ask(f"{number} " + "word " * 1_000)
        await agent.ask("and now?")

    cuts = [entry.pass_name for entry in await agent.entries() if isinstance(entry, Cut)]
    assert provider.asked >= 1
    assert cuts


async def test_pictures_of_tools_are_bounded_counted_and_make_room_by_logged_cuts() -> None:
    """Eight of one result at most; in a window for few of them every request fits, old ones go first, and each leaves its path."""
    plots = [calls(("plot", {"text": f"plot {i}"})) for i in range(6)]
    async with Agent([*plots, says("done")], tools=[Plot()], settings=SETTINGS, window=40_000) as agent:
        result = await agent.ask("plot it")
        cuts = [entry for entry in await agent.entries() if isinstance(entry, Cut)]

    assert (result.content, result.error) == ("done", None)
    assert all(size(request) <= prompt_budget(40_000, 1_000) for request in agent.provider.requests)
    assert {len(images_of(message)) for message in results(agent.provider.requests[-1])} == {0, MAX_SHOWN}
    assert images_of(results(agent.provider.requests[-1])[-1])
    assert "[2 more not shown" in repr(results(agent.provider.requests[1])[0].shown[-1])
    assert "/media/ab.png" in results(agent.provider.requests[-1])[0].text
    assert cuts
