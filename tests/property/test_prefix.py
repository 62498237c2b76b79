"""The prompt prefix is stable: each request extends the one before, element for element, except at cuts that the log records."""

import asyncio
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from nanobot.agent import summary
from nanobot.agent.inspect import views
from nanobot.agent.passes import Boundaries
from nanobot.agent.settings import AgentSettings, CompactionSettings
from nanobot.messages import AssistantMessage, JsonObject
from nanobot.providers.base import Emit, LLMProvider, LLMRequest, LLMResponse
from nanobot.providers.factory import build
from nanobot.providers.settings import AnthropicSettings, OpenAISettings
from nanobot.session.entries import Cut, Entry, Finished, Head, Started, Step, Summary
from tests.fakes.agent import Agent, Echo
from tests.fakes.legality import illegal
from tests.fakes.provider import calls, says

WINDOW = 9_000
SHOWS = ("microcompact", "images", "extras", "snip", "bare", "limit")
SIZES = st.sampled_from([10, 400, 3_000, 9_000])
ACTIONS = st.one_of(
    st.tuples(st.just("say"), SIZES, st.just(1)),
    st.tuples(st.just("call"), SIZES, st.integers(1, 4)),
    st.tuples(st.just("call"), SIZES, st.integers(1, 4)),
    st.tuples(st.just("steer"), SIZES, st.integers(1, 2)),
)
SAYINGS = st.lists(
    st.sampled_from(
        ["hello", "more " * 100, "much more " * 700, "/undo", "/retry", "/compact", "/model fake/other", "*new file*"]
    ),
    min_size=5,
    max_size=14,
)


class Talk:
    """A conversation whose model does what was drawn, and then only talks."""

    def __init__(self, actions: Sequence[tuple[str, int, int]], workspace: Path) -> None:
        self._actions = list(actions)
        self._workspace = workspace
        self.agent = Agent(
            [self._answer] * 1_000,
            tools=[Echo()],
            settings=AgentSettings(max_tokens=500, compaction=CompactionSettings(keep_tokens=1_000)),
            window=WINDOW,
            workspace=workspace,
        )

    async def run(self, sayings: Sequence[str]) -> None:
        async with self.agent as agent:
            for number, saying in enumerate(sayings):
                if saying == "*new file*":
                    (self._workspace / "AGENTS.md").write_text(f"Version {number}.")
                    saying = "I changed the file."
                await agent.send(saying)
                await agent.quiet()

    async def _answer(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        if request.system == summary.SYSTEM:
            return says("Goal: to talk.")
        if not self._actions or request.tool_choice == "none":
            return says("yes")
        kind, size, count = self._actions.pop(0)
        if kind == "say":
            return says("word " * (size // 5))
        if kind == "steer":
            await self.agent.send(f"and also this, {len(self._actions)}")
        text = f"{len(self._actions)} " + "text " * (size // 5)
        wanted: list[tuple[str, JsonObject | str]] = [("echo", {"text": f"{i} {text}"}) for i in range(count)]
        return calls(*wanted)

    @property
    def requests(self) -> list[LLMRequest]:
        return [request for request in self.agent.provider.requests if request.system != summary.SYSTEM]


def changes_the_prefix(entry: Entry) -> bool:
    """Say whether an entry is a recorded cut."""
    match entry:
        case Cut(pass_name=name):
            return name.partition(":")[0] in SHOWS
        case Summary() | Head():
            return True
        case Finished(effect=effect):
            return effect is not None and effect.get("type") in ("reset", "undo", "uncompact")
        case Started(undoes=undone):
            return undone is not None
        case _:
            return False


def between_answers(entries: Sequence[Entry]) -> list[bool]:
    """Return, for each answer but the first, whether a cut was recorded since the one before."""
    out: list[bool] = []
    was_cut = False
    for entry in entries:
        if isinstance(entry, Step) and isinstance(entry.message, AssistantMessage):
            out.append(was_cut)
            was_cut = False
        was_cut = was_cut or changes_the_prefix(entry)
    return out[1:]


def providers() -> list[LLMProvider]:
    return [
        build({"p": OpenAISettings(type="openai")}, "p/m", environ={"OPENAI_API_KEY": "k"})[0],
        build({"p": AnthropicSettings(type="anthropic")}, "p/m", environ={"ANTHROPIC_API_KEY": "k"})[0],
    ]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SAYINGS, st.lists(ACTIONS, min_size=6, max_size=30))
def test_each_request_extends_the_one_before_but_at_recorded_cuts(
    sayings: list[str], actions: list[tuple[str, int, int]]
) -> None:
    """On both wires, whatever is said, called, steered, taken back or changed in the workspace meanwhile."""

    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            workspace = Path(folder) / "workspace"
            workspace.mkdir()
            talk = Talk(actions, workspace)
            await talk.run(sayings)
            entries = await talk.agent.entries()
        requests, cuts = talk.requests, between_answers(entries)
        assert len(cuts) == max(0, len(requests) - 1)
        assert [fault for request in requests if (fault := illegal(request))] == []
        for provider in providers():
            encoded = [await provider.encoded(request) for request in requests]
            for (before, after), was_cut in zip(pairwise(encoded), cuts, strict=True):
                assert was_cut or after[: len(before)] == before
        replayed = list(views(entries, Boundaries(chatty=frozenset({"echo"}))))
        assert [view.model for view in replayed] == [list(request.messages) for request in requests]

    asyncio.run(run())
