"""2. One core: bus and direct entry meet in ``AgentLoop._process_message``; a surface is a transport, never another agent."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import nanobot
from nanobot.bus.events import InboundMessage
from nanobot.session.entries import Entry, Finished, Started, Step
from tests.fakes.agent import Agent, Echo
from tests.fakes.provider import calls, says


def _shape(entries: list[Entry]) -> list[object]:
    """Return the log without what the way in decides (ids, the route, what is owed along it) and how long a tool took."""
    shape: list[object] = []
    for entry in entries:
        match entry:
            case InboundMessage():
                shape.append(("inbound", entry.text))
            case Started():
                shape.append(("started", entry.message.text))
            case Finished():
                shape.append(("finished", entry.stop_reason, entry.usage, entry.iterations, entry.answer))
            case Step():
                shape.append(replace(entry, duration_ms=None))
            case _:
                shape.append(entry)
    return shape


async def test_a_message_is_worked_on_alike_whoever_brought_it() -> None:
    """The model gets the same requests and the log the same lines, from a channel and from a script."""
    steps = [calls(("echo", {"text": "a"})), says("ok"), says("more")]
    async with Agent(steps, tools=[Echo()]) as by_bus, Agent(steps, tools=[Echo()]) as by_call:
        for text in ("hi", "/status", "and?"):
            await by_bus.send(text)
            await by_bus.quiet()
            await by_call.ask(text)

        assert by_bus.provider.requests == by_call.provider.requests
        assert _shape(await by_bus.entries()) == _shape(await by_call.entries())


def _calls_in_package() -> Iterator[tuple[str, str]]:
    root = Path(nanobot.__file__).parent
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                yield str(name), path.relative_to(root).as_posix()


def test_there_is_one_place_where_a_turn_is_driven_and_one_where_it_is_run() -> None:
    """Nobody else takes messages from RESTORE to DONE, and nobody else runs the runner."""
    found = list(_calls_in_package())

    assert [path for name, path in found if name == "drive"] == ["agent/loop.py"]
    assert [path for name, path in found if name == "_process_message"] == ["agent/loop.py"]
    assert [path for name, path in found if name == "AgentRunner"] == ["agent/run_stage.py"]
