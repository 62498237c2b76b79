"""Files that a Turn promises to its chat: owed by the very line that tells the model so, whatever happens after it."""

from pathlib import Path

import pytest

from nanobot.agent.settings import AgentSettings
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.files.send_file import SendFile
from nanobot.bus.events import OutboundMessage, Route
from nanobot.messages import AssistantMessage, ToolMessage
from nanobot.providers.base import Emit, LLMRequest, LLMResponse
from nanobot.session.codec import from_line, to_line
from nanobot.session.entries import Finished, Step
from tests.fakes.agent import KEY, MAX_FILE_BYTES, Agent, Blocker
from tests.fakes.provider import calls, says
from tests.fakes.store import World

RECORDS = 13


def model(request: LLMRequest, emit: Emit) -> LLMResponse:
    """Send two files, then one that is not there, then answer; the same history always gets the same answer."""
    match sum(isinstance(message, AssistantMessage) for message in request.messages):
        case 0:
            return calls(
                ("send_file", {"path": "plot.png", "caption": "The **plot**"}), ("send_file", {"path": "a/data.csv"})
            )
        case 1:
            return calls(("send_file", {"path": "gone.txt"}))
        case _:
            return says("There they are.")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    found = tmp_path / "ws"
    (found / "a").mkdir(parents=True)
    (found / "plot.png").write_bytes(b"a picture")
    (found / "a" / "data.csv").write_bytes(b"1,2,3")
    return found


def agent_in(workspace: Path, world: World | None = None) -> Agent:
    return Agent([model] * 30, tools=[SendFile(PathRules())], workspace=workspace, world=world)


def owed(messages: list[OutboundMessage]) -> list[tuple[str, str, str]]:
    """Return out, name and text of each."""
    return [(one.out, one.media.name if one.media else "", one.text) for one in messages]


WHOLE = [("t1.1", "plot.png", "The **plot**"), ("t1.2", "data.csv", ""), ("t1.0", "", "There they are.")]


async def test_files_are_owed_before_the_answer_in_the_order_of_the_calls(workspace: Path) -> None:
    """Each by itself; only the first is a reply, and the text knows that it stands below them."""
    agent = agent_in(workspace)
    async with agent:
        await agent.send("send me both")
        await agent.quiet()
        outbound = agent.outbound

    assert owed(outbound) == WHOLE
    assert [one.anew for one in outbound] == [False, False, True]
    assert [one.parts for one in outbound] == [((0, 12),), ((0, 0),), ((0, 15),)]
    rows = (await agent.log()).rows
    assert [row.message.text for row in rows if isinstance(row.message, ToolMessage)] == [
        "plot.png (9 bytes) will be sent with your answer, before its text.",
        "a/data.csv (5 bytes) will be sent with your answer, before its text.",
        "Error while running send_file: 'gone.txt' does not exist.",
    ]


async def test_what_is_sent_is_what_was_there_when_it_was_promised(workspace: Path) -> None:
    """The kept copy is the content of that moment, whatever the workspace holds later."""
    agent = agent_in(workspace)
    async with agent:
        await agent.send("go")
        await agent.quiet()
        media = agent.outbound[0].media
        (workspace / "plot.png").write_bytes(b"another")

    assert media is not None
    assert Path(media.path).read_bytes() == b"a picture"
    assert Path(media.path).is_relative_to(workspace.parent / "media")
    assert media.ref == str(workspace / "plot.png")


@pytest.mark.parametrize("records", range(1, RECORDS + 1))
async def test_a_kill_after_any_record_neither_loses_nor_doubles_a_file(workspace: Path, records: int) -> None:
    """What the next process owes is what the undisturbed one owed."""
    before = agent_in(workspace)
    async with before:
        await before.send("go")
        await before.quiet()
        await before.deliver_all()
    log = before.store.world.logs[KEY]
    assert len(log.lines) == RECORDS
    del log.lines[records:]
    log.holder = log.claim = None
    log.open = True

    agent = agent_in(workspace, before.store.world)
    async with agent:
        await agent.loop.recover()
        await agent.quiet()
        delivered = agent.outbound
        await agent.deliver_all()

    settled = max(0, records - (RECORDS - 3))
    assert owed(delivered) == WHOLE[settled:]
    assert (await agent.log()).settled()


async def test_a_stopped_turn_sends_what_it_promised(workspace: Path) -> None:
    """The model was told that it will be sent, and so will everybody who reads on."""
    block = Blocker()
    steps = [calls(("send_file", {"path": "plot.png"}), ("block", {}))]
    agent = Agent(steps, tools=[SendFile(PathRules()), block], workspace=workspace)
    async with agent:
        await agent.send("go")
        await block.entered.wait()
        await agent.send("/stop")
        await agent.quiet()
        names = [one.media.name for one in agent.outbound if one.media]

    assert names == ["plot.png"]


async def test_a_direct_turn_returns_its_files(workspace: Path) -> None:
    """A script gets them in the result, and again when it asks again; nothing is owed to anybody."""
    agent = agent_in(workspace)
    async with agent:
        result = await agent.ask("go", key="script:1", message_id="m")
        again = await agent.ask("go", key="script:1", message_id="m")

    assert [media.name for media in result.files] == ["plot.png", "data.csv"]
    assert again.files == result.files
    assert agent.outbound == []


async def test_an_undone_turn_owes_its_files_no_more(workspace: Path) -> None:
    """What has not gone out yet is taken back with the rest; what may have gone is named."""
    agent = agent_in(workspace)
    async with agent:
        await agent.send("go")
        await agent.quiet()
        await agent.send("/undo")
        await agent.quiet()
        said = agent.answers[-1]

    assert "Files that were sent already stay" in said
    assert list((await agent.log()).owed) == [agent.outbound[-1].out]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("empty", "is empty"),
        ("large", "has 2 kB; at most 1 kB can be sent"),
        ("a", "is a directory"),
        ("/etc/passwd", "outside the workspace"),
    ],
)
async def test_what_cannot_be_sent_is_refused_before_anything_is_owed(workspace: Path, path: str, said: str) -> None:
    """The model is told why, and no promise is made."""
    (workspace / "empty").touch()
    (workspace / "large").write_bytes(b"x" * (MAX_FILE_BYTES + 600))
    steps = [calls(("send_file", {"path": path})), says("No.")]
    agent = Agent(steps, tools=[SendFile(PathRules())], workspace=workspace, settings=AgentSettings())
    async with agent:
        await agent.send("go")
        await agent.quiet()
        outbound = agent.outbound

    assert owed(outbound) == [("t1.0", "", "No.")]
    (row,) = [row for row in (await agent.log()).rows if isinstance(row.message, ToolMessage)]
    assert said in row.message.text


async def test_promises_and_debts_survive_the_disk(workspace: Path) -> None:
    """The lines say everything: written and read again, they are equal."""
    agent = agent_in(workspace)
    async with agent:
        await agent.send("go")
        await agent.quiet()
    entries = [entry for entry in await agent.entries() if isinstance(entry, Step | Finished)]

    assert [from_line(to_line(entry), key=KEY) for entry in entries] == entries
    (finished,) = [entry for entry in entries if isinstance(entry, Finished)]
    assert [one.route for one in finished.owed] == [Route("test", "1")] * 3
