"""What every built-in tool promises."""

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from nanobot.agent.tools.base import Tool, ToolContext
from nanobot.agent.tools.builtin import builtin_tools
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.agent.tools.settings import ToolSettings
from nanobot.agent.tools.shell.command import Launch
from nanobot.agent.tools.shell.jobs import JobNote, Jobs
from nanobot.errors import ToolError
from nanobot.messages import ToolCall

SETTINGS: dict[str, Any] = {"web": {"allow_hosts": ["127.0.0.1"]}}
JOBS = Jobs(Path(mkdtemp()))
TOOLS = builtin_tools(ToolSettings.model_validate(SETTINGS), environ={}, jobs=JOBS)
CALLS: dict[str, dict[str, Any]] = {
    "read_file": {"path": "a.txt"},
    "list_dir": {},
    "write_file": {"path": "new.txt", "content": "x"},
    "edit_file": {"path": "a.txt", "old_text": "one", "new_text": "two"},
    "apply_patch": {"patch": "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-one\n+two\n"},
    "glob": {"pattern": "*"},
    "grep": {"pattern": "one"},
    "read_result": {"id": "e1"},
    "send_file": {"path": "a.txt"},
    "exec": {"command": "echo one"},
    "exec_status": {},
    "exec_output": {"job": "j7"},
    "exec_input": {"job": "j7", "text": "one"},
    "exec_kill": {"job": "j7"},
}
every_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)


class _OnePage(BaseHTTPRequestHandler):
    """Says "one" to everybody."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"one")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module", autouse=True)
def page() -> Iterator[None]:
    """A page for ``web_fetch``."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _OnePage) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        serving.start()
        CALLS["web_fetch"] = {"url": f"http://127.0.0.1:{server.server_port}/"}
        yield
        server.shutdown()
        serving.join()


@pytest.fixture
async def job(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """A job for the tools that need one."""
    if "exec_" in request.node.name:
        note = JobNote("j7", "cat", "/", terminal=False)
        await JOBS.start(Launch(("/bin/cat",), Path("/"), {}), note, "cli:direct", stdin="pipe")
    yield
    await JOBS.close()


@pytest.fixture
def context(job: None, tmp_path: Path) -> ToolContext:
    """A call's context in a workspace with one file and one kept result."""
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "a.txt").write_text("one\n")

    async def full_result(entry: str) -> str:
        await asyncio.sleep(0)
        return {"e1": "one\ntwo"}[entry]

    return ToolContext(
        session_key="cli:direct",
        turn="t1",
        call_id="e1.0",
        role="owner",
        workspace=workspace,
        scratch=tmp_path / "scratch" / "e1_0",
        full_result=full_result,
        media=tmp_path / "media",
    )


@every_tool
async def test_it_runs_through_the_registry(tool: Tool[Any], context: ToolContext) -> None:
    """A plain call is planned, run and answered with text."""
    registry = ToolRegistry([tool])
    prepared = registry.prepare_call(ToolCall("e1.0", tool.name, CALLS[tool.name]))

    await registry.plan(prepared, context)
    observation = await registry.execute(prepared, context)

    assert not observation.is_error, observation.text
    assert observation.text
    assert tool.summary(prepared.arguments).startswith(tool.name)
    assert "\n" not in tool.summary(prepared.arguments)


@every_tool
def test_its_schema_is_plain(tool: Tool[Any]) -> None:
    """An object with named properties, no titles, no references, no unions: what every provider takes."""
    (spec,) = ToolRegistry([tool]).specs()
    text = json.dumps(spec.parameters)

    assert spec.parameters["type"] == "object"
    assert spec.parameters["additionalProperties"] is False
    for word in ('"title"', "$ref", "$defs", "anyOf"):
        assert word not in text
    assert len(spec.description) <= 500
    assert re.fullmatch(r"[a-z_]+", spec.name)


@every_tool
@pytest.mark.parametrize("end", [1, 5, 12])
def test_e04_cut_off_arguments_never_run(tool: Tool[Any], end: int) -> None:
    """A call that was cut off anywhere is refused before anything runs."""
    text = json.dumps({**CALLS[tool.name], "extra": "value of some length"})

    with pytest.raises(ToolError, match="nothing was run"):
        ToolRegistry([tool]).prepare_call(ToolCall("e1.0", tool.name, text[:-end]))


@every_tool
async def test_unknown_arguments_are_refused(tool: Tool[Any]) -> None:
    """A misunderstood option is an error, not ignored."""
    with pytest.raises(ToolError, match="no such argument"):
        ToolRegistry([tool]).prepare_call(ToolCall("e1.0", tool.name, {**CALLS[tool.name], "recursive": True}))


@every_tool
async def test_cancelling_it_at_once_leaves_nothing_behind(tool: Tool[Any], context: ToolContext) -> None:
    """Cancellation comes out, and the same call still works afterwards."""
    registry = ToolRegistry([tool])
    prepared = registry.prepare_call(ToolCall("e1.0", tool.name, CALLS[tool.name]))
    task = asyncio.create_task(registry.execute(prepared, context))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    if tool.effect == "pure":
        assert not (await registry.execute(prepared, context)).is_error


def test_effects_are_what_the_design_says() -> None:
    """Looking is pure and concurrent, file changes can be verified, a command is opaque."""
    effects = {tool.name: tool.effect for tool in TOOLS}

    assert {name for name, effect in effects.items() if effect == "pure"} == {
        "read_file", "list_dir", "glob", "grep", "read_result", "web_fetch", "exec_status",
    }  # fmt: skip
    assert effects["write_file"] == effects["edit_file"] == effects["apply_patch"] == "verifiable"
    assert effects["send_file"] == "idempotent"
    assert effects["exec"] == effects["exec_input"] == "opaque"
    assert effects["exec_output"] == effects["exec_kill"] == "idempotent"
    assert {tool.name for tool in TOOLS if tool.concurrent} == {n for n, effect in effects.items() if effect == "pure"}
    assert {tool.name for tool in TOOLS if tool.chatty} == {
        *(name for name, effect in effects.items() if effect == "pure"), "exec", "exec_output", "exec_input",
    }  # fmt: skip
    assert [tool.name for tool in TOOLS if not tool.keeps_result] == ["read_result"]


def test_the_tools_are_the_same_bytes_at_every_start() -> None:
    """Whatever the hash seed, the prompt begins the same."""
    script = (
        "import json\n"
        "from nanobot.agent.tools.builtin import builtin_tools\n"
        "from nanobot.agent.tools.registry import ToolRegistry\n"
        "from nanobot.agent.tools.settings import ToolSettings\n"
        "specs = ToolRegistry(builtin_tools(ToolSettings(), environ={})).specs()\n"
        "print(json.dumps([(s.name, s.description, s.parameters) for s in specs]))\n"
    )

    one, two = (
        subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    )

    assert one == two
    assert len(one) < 10_000
