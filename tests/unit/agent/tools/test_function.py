"""Tools from functions."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from nanobot.agent.tools.base import Sourced, ToolContext
from nanobot.agent.tools.function import function_tool
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.errors import MisuseError, ToolError
from tests.unit.agent.tools.conftest import Bench


def weather(city: Annotated[str, Field(description="Where")], days: int = 1, unit: Literal["C", "F"] = "C") -> str:
    """Say what the weather will be."""
    return f"{city} {days} {unit} {threading.current_thread() is threading.main_thread()}"


async def lookup(key: str, context: ToolContext) -> dict[str, str]:
    """Look something up."""
    await asyncio.sleep(0)
    return {"key": key, "session": context.session_key}


@dataclass
class Point:
    x: int
    y: int


async def test_a_plain_function_runs_in_a_thread_with_validated_arguments(bench: Bench) -> None:
    """It may block without stopping anybody."""
    assert await bench.text(function_tool(weather), city="Rome", days="3") == "Rome 3 C False"


async def test_an_async_function_gets_the_context_and_returns_json(bench: Bench) -> None:
    """The context is no argument of the model."""
    tool = function_tool(lookup, effect="pure", concurrent=True)

    assert await bench.text(tool, key="k") == '{"key": "k", "session": "cli:direct"}'
    assert list(tool.arguments.model_fields) == ["key"]
    assert (tool.effect, tool.concurrent) == ("pure", True)


def test_signature_and_docstring_are_what_the_model_sees() -> None:
    """Names, types, defaults and descriptions."""
    (spec,) = ToolRegistry([function_tool(weather, name="forecast")]).specs()

    assert (spec.name, spec.description) == ("forecast", "Say what the weather will be.")
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "city": {"description": "Where", "type": "string"},
            "days": {"default": 1, "type": "integer"},
            "unit": {"default": "C", "enum": ["C", "F"], "type": "string"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_the_args_section_describes_the_parameters() -> None:
    """And goes from the description; what stands in the annotation wins."""

    def send(to: str, text: Annotated[str, Field(description="Plain text")], soon: bool = False) -> str:
        """Send it.

        Args:
            to: who gets it
            text: something else
            soon: before the others
        """
        return to + text + str(soon)

    (spec,) = ToolRegistry([function_tool(send)]).specs()

    assert spec.description == "Send it."
    assert spec.parameters["properties"] == {
        "to": {"description": "who gets it", "type": "string"},
        "text": {"description": "Plain text", "type": "string"},
        "soon": {"default": False, "description": "before the others", "type": "boolean"},
    }


async def test_a_function_may_say_whose_words_its_result_is(bench: Bench) -> None:
    """So that they are marked for the model, as those of a page are."""

    def post() -> Sourced:
        """Read the post."""
        return Sourced("dear sir", origin="post")

    observation = await bench.call(function_tool(post, outward=True))

    assert (observation.text, observation.origin) == ("dear sir", "post")
    assert function_tool(post, outward=True).outward


def test_a_default_may_be_a_field() -> None:
    """As pydantic has it."""

    def roll(sides: int = Field(default=6, ge=2, description="of the die")) -> int:
        """Roll a die."""
        return sides

    (spec,) = ToolRegistry([function_tool(roll)]).specs()

    assert spec.parameters["properties"] == {
        "sides": {"default": 6, "description": "of the die", "minimum": 2, "type": "integer"}
    }


async def test_values_become_text(bench: Bench) -> None:
    """None, numbers and dataclasses."""

    def give(what: str) -> object:
        """Give it."""
        return {"none": None, "number": 3, "point": Point(1, 2), "set": {1}}[what]

    tool = function_tool(give)

    assert await bench.text(tool, what="none") == "Done."
    assert await bench.text(tool, what="number") == "3"
    assert await bench.text(tool, what="point") == '{"x": 1, "y": 2}'
    assert await bench.text(tool, what="set") == '"{1}"'


async def test_a_tool_error_reaches_the_model_as_written(bench: Bench) -> None:
    """A script's function may say what was wrong."""

    def fail() -> str:
        """Fail."""
        raise ToolError("the moon is down.")

    assert (await bench.error(function_tool(fail))).endswith("the moon is down.")


def untyped(a: str) -> str:
    """Have no type."""
    return a


untyped.__annotations__.clear()


def starred(*args: str) -> str:
    """Take any."""
    return str(args)


def positional(a: str, /) -> str:
    """Take it by place."""
    return a


def strange(a: threading.Lock) -> str:
    """Take what no model can give."""
    return str(a)


def undocumented(a: str) -> str:
    return a


nameless: Callable[[], str] = lambda: "x"  # noqa: E731  # it must have no name


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (untyped, "no type annotation"),
        (starred, "by name"),
        (positional, "by name"),
        (strange, "cannot fill"),
        (undocumented, "docstring"),
        (nameless, "name"),
    ],
)
def test_a_function_that_cannot_work_is_a_misuse(function: Callable[..., Any], why: str) -> None:
    """At registration, with the parameter's name, and not in the middle of a Turn."""
    with pytest.raises(MisuseError, match=why):
        function_tool(function)


async def test_functions_that_hang_hold_up_nobody_else(bench: Bench) -> None:
    """Their threads are not the event loop's own, which are few and everybody's."""
    end = threading.Event()

    def hang() -> str:
        """Hang."""
        end.wait(30)
        return "late"

    tool = function_tool(hang, timeout_s=0.05)
    try:
        texts = await asyncio.gather(*(bench.call(tool) for _ in range(12)))
        other = await asyncio.wait_for(asyncio.to_thread(str.upper, "ok"), 5)
    finally:
        end.set()

    assert all("it took longer than" in observation.text for observation in texts)
    assert other == "OK"


def test_a_function_that_hangs_for_ever_lets_the_script_end() -> None:
    """A Turn ends at the tool's timeout; so does the process, with a thread in it that never will."""
    script = """
import asyncio, threading
from pathlib import Path
from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.function import function_tool
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.messages import ToolCall

def hang() -> str:
    "Hang."
    threading.Event().wait()

async def main():
    registry = ToolRegistry([function_tool(hang, timeout_s=0.1)])
    context = ToolContext(session_key="cli:x", turn="t1", call_id="e1.0", role="owner", workspace=Path("."),
                          scratch=Path("."), full_result=None)
    print((await registry.execute(registry.prepare_call(ToolCall("e1.0", "hang", {})), context)).text)

asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)

    assert "it took longer than 0.1 s" in ended.stdout
