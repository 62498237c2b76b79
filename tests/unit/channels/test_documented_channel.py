"""The channel that docs/channels.md shows."""

import re
from pathlib import Path
from typing import Any

from nanobot.bus.events import Acceptance, Accepted, InboundMessage, Route
from nanobot.channels.base import OutboundPart

IMPORTS = """
from datetime import UTC, datetime
from nanobot.bus.events import InboundMessage, Route, session_key
from nanobot.channels.base import Accept, Capabilities, OutboundPart
from nanobot.channels.supervisor import Progress
"""


async def test_the_documented_channel_is_one() -> None:
    """What the page shows hands messages in, tells of its rounds and sends."""
    page = Path(__file__).resolve().parents[3] / "docs/channels.md"
    shown = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}  # Any: what the page defines
    exec(IMPORTS + shown[0], names)
    rounds: list[str | None] = []
    heard: list[str] = []

    async def accept(message: InboundMessage) -> Acceptance:
        heard.append(message.id)
        return Accepted()

    def progress(error: str | None = None) -> None:
        rounds.append(error)

    channel = names["Echo"](["one", "two"], progress)
    await channel.listen(accept)
    part = OutboundPart(out="o1", session_key="echo:1", route=Route("echo", "1"), index=0, count=1, text="hi")
    ref = await channel.send(part)

    assert heard == ["echo:1:0", "echo:1:1"]
    assert rounds == [None, None]
    assert (ref, channel.sent) == ("1", ["hi"])
