"""``nanobot inspect`` against what a real server received."""

from pathlib import Path

from tests.e2e.command import Home, config_for
from tests.fakes.llm_server import Call, LLMServer, Reply


async def test_inspect_shows_what_the_server_got(tmp_path: Path) -> None:
    """Every text of the last request is in the output, and as many messages."""
    replies = [Reply("One."), Reply(tool_calls=[Call("read_file", {"path": "notes.md"})]), Reply("Milk.")]
    async with LLMServer(replies) as server:
        home = Home(tmp_path, config_for(server.url))
        (home.workspace / "notes.md").write_text("buy milk\n")
        await home.run("agent", "-m", "hello")
        await home.run("agent", "-m", "read notes.md")
        shown = (await home.run("inspect", "cli:direct")).out.decode()
        history = (await home.run("inspect", "cli:direct", "--turn", "2", "--list", "history")).out.decode()
        missing = await home.run("inspect", "cli:direct", "--turn", "7")

    system, *messages = server.requests[-1].body["messages"]
    last = shown.split("=== ")[-1]
    assert f"iteration 2 · {len(messages)} messages" in last
    assert system["content"] in last
    for text in (message["content"] for message in messages if message["content"]):
        assert (text if isinstance(text, str) else text[0]["text"]) in last
    assert "hello" in history
    assert "read notes.md" not in history
    assert missing.code == 2
    assert b"there are t1, t2" in missing.err
