"""Ask the extractor, and end it when it takes too long: no page can hold the daemon up, and none reaches its memory."""

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from nanobot.agent.tools.child import run_child
from nanobot.errors import ToolError
from nanobot.values import frozen

Kind = Literal["html", "plain", "pdf"]

_SCRIPT = Path(__file__).with_name("extractor.py")
_PASSED = ("PATH", "HOME", "PYTHONPATH", "LANG", "LC_ALL", "TMPDIR")
_MAX_ANSWER_BYTES = 16_000_000
_AT_ONCE = 3  # each takes up to a processor and a hundred megabytes


@frozen
class Extracted:
    """A document's title (or nothing) and text, in its author's words."""

    title: str
    text: str


class Extractor:
    """Starts a process for each document.

    Args:
        environ: our environment; the process gets what Python needs of it, and no keys.
        limit_s: how long one may take.
        script: the program; tests give worse ones.
    """

    def __init__(self, environ: Mapping[str, str], *, limit_s: float = 15.0, script: Path = _SCRIPT) -> None:
        self._environ = {name: environ[name] for name in _PASSED if name in environ}
        self._limit_s = limit_s
        self._script = script
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def extract(self, kind: Kind, data: bytes) -> Extracted:
        """Return the text; a page that is too much for the good way is read in the plain one.

        Raises:
            ToolError: it cannot be read; says why.
        """
        async with self._slots:
            answer = await self._run(kind, data)
            if answer is None and kind == "html":
                answer = await self._run("plain", data)
        if answer is None:
            raise ToolError(
                f"the document could not be read within {self._limit_s:g} s and the memory there is for it."
            )
        if fault := answer.get("fault"):
            raise ToolError(f"{fault}.")
        return Extracted(answer.get("title", ""), answer.get("text", ""))

    async def _run(self, kind: Kind, data: bytes) -> dict[str, str] | None:
        found = await run_child(
            (sys.executable, "-P", "-B", str(self._script), kind),
            timeout_s=self._limit_s,
            max_bytes=_MAX_ANSWER_BYTES,
            stdin=data,
            environ=self._environ,
        )
        return None if found.stopped else _answer(found.output)


def _answer(output: bytes) -> dict[str, str] | None:
    try:
        return {str(name): str(value) for name, value in json.loads(output).items()}
    except (ValueError, AttributeError):
        return None
