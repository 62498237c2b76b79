"""Full texts of cut results, on a real disk: read back while they are kept, and said to be gone after that."""

import os
from pathlib import Path

from nanobot.app import Nanobot
from nanobot.config.settings import Settings
from nanobot.messages import ToolMessage
from tests.fakes.provider import ScriptedProvider, calls, says

TEXT = "line\n" * 10_000


def _bot(tmp_path: Path, provider: ScriptedProvider) -> Nanobot:
    settings = Settings(workspace=tmp_path / "workspace", data_dir=tmp_path / "data")
    return Nanobot(settings, provider=provider)


async def test_a_result_that_is_kept_no_more_says_so(tmp_path: Path) -> None:
    """After its time the full text goes with the session's next rest, and read_result says that only what was shown is left."""
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "big.txt").write_text(TEXT)
    async with _bot(tmp_path, ScriptedProvider([calls(("exec", {"command": "cat big.txt"})), says("ok")])) as bot:
        await bot.process_direct("read")
    for blob in (tmp_path / "data" / "blobs").rglob("*"):
        os.utime(blob, (1_000, 1_000))
    async with _bot(tmp_path, ScriptedProvider([says("hi")])) as bot:  # opens the session and gives it back
        await bot.process_direct("hi")
        session = bot.sessions.loaded("script:default")
        assert session is not None
        result = next(row for row in session.log.rows if isinstance(row.message, ToolMessage))

    provider = ScriptedProvider([calls(("read_result", {"id": result.entry, "offset": 0})), says("ok")])
    async with _bot(tmp_path, provider) as bot:
        done = await bot.process_direct("show it again")

    told = provider.requests[1].messages[-1]
    assert done.error is None
    assert isinstance(told, ToolMessage)
    assert "not kept any more" in told.text
