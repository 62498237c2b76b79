"""A channel for tests, and a gateway program around it: people talk through a socket, answers land in a file.

``python -m tests.fakes.loopback --config FILE`` is the gateway with one channel called ``loop``.  It lives in the directory
that ``LOOPBACK`` names: ``in`` is the socket (a JSON object a line: ``text``, ``id``, ``chat``; each is answered by a line, how
it was accepted), ``answers`` holds a JSON line a part sent.  The texts ``!block SECONDS`` (hold the event loop up), ``!fail``
(listening fails), ``!deaf`` (no more rounds) and ``!wedge`` (no more rounds, and no way to cancel it) are for the channel itself.
With ``PATIENT`` set, nobody starts a silent channel anew; it counts as dead after half a second.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from nanobot.bus.events import InboundMessage, Route, session_key
from nanobot.channels.base import Accept, Capabilities, Channel, OutboundPart
from nanobot.channels.registry import ChannelPorts
from nanobot.channels.supervisor import Progress, Restarts
from nanobot.config.settings import Settings
from nanobot.errors import ConfigError, SendFailed
from nanobot.gateway.daemon import Gateway, Ports
from nanobot.gateway.health import Limits
from nanobot.gateway.process import run_gateway

ROUND_S = 0.05
QUICK = Restarts(base_s=0.05, stop_s=0.2, stall_s=0.5, look_s=0.05)


class LoopbackChannel:
    """One person, or many, in a directory."""

    name = "loop"
    capabilities = Capabilities()

    def __init__(self, place: Path, progress: Progress) -> None:
        self._place = place
        self._progress = progress
        self._accept: Accept | None = None
        self._trouble: asyncio.Queue[str] = asyncio.Queue()

    async def listen(self, accept: Accept) -> None:
        self._accept = accept
        address = self._place / "in"
        address.unlink(missing_ok=True)
        writers: set[asyncio.StreamWriter] = set()
        try:
            async with asyncio.TaskGroup() as group:

                def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                    writers.add(writer)
                    group.create_task(self._serve(reader, writer), name="loopback connection")

                async with await asyncio.start_unix_server(connected, address):
                    await self._rounds()
        finally:
            for writer in writers:  # also of those whose task had not begun
                writer.close()

    async def _rounds(self) -> None:
        while True:
            self._progress()
            try:
                async with asyncio.timeout(ROUND_S):
                    trouble = await self._trouble.get()
            except TimeoutError:
                continue
            await _get_into(trouble)

    async def send(self, part: OutboundPart) -> str | None:
        if (self._place / "refuse").exists():
            raise SendFailed("the file 'refuse' is there")
        line = {"out": part.out, "chat": part.route.chat, "text": part.text, "may_be_repeat": part.may_be_repeat}
        with (self._place / "answers").open("a") as file:
            file.write(json.dumps(line) + "\n")
        return part.out

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            said = json.loads(line)
            writer.write((await self._hear(said) + "\n").encode())
            await writer.drain()
        writer.close()

    async def _hear(self, said: dict[str, str]) -> str:
        text = said["text"]
        if not text.strip():
            return "nothing"
        if text.startswith("!"):
            await self._trouble.put(text)
            return "trouble"
        assert self._accept is not None
        route = Route("loop", said.get("chat", "1"))
        message = InboundMessage(
            id=f"loop:{route.chat}:{said['id']}",
            session_key=session_key(route),
            sender="1",
            text=text,
            at=datetime.now(UTC),
            route=route,
        )
        return type(await self._accept(message)).__name__


async def _get_into(trouble: str) -> None:
    if trouble.startswith("!block "):
        time.sleep(float(trouble.split()[1]))  # noqa: ASYNC251  # the trouble is that it blocks
    elif trouble == "!deaf":
        await asyncio.Event().wait()
    elif trouble == "!wedge":
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue
    else:
        raise RuntimeError("the loopback broke")


def main() -> None:
    """Run the gateway."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    options = parser.parse_args()
    environ = dict(os.environ)
    place = Path(environ["LOOPBACK"])

    def channels(settings: Settings, ports: Ports) -> Sequence[Channel]:
        one: ChannelPorts = ports("loop")
        return [LoopbackChannel(place, one.progress)]

    def build(settings: Settings, path: Path | None) -> Gateway:
        patient = "PATIENT" in environ
        return Gateway(
            settings,
            config_path=path,
            environ=environ,
            make_channels=channels,
            restarts=replace(QUICK, stall_s=60.0) if patient else QUICK,
            limits=Limits(silent_s=0.5),
        )

    try:
        code = run_gateway(options.config, environ=environ, build=build)
    except ConfigError as error:  # as the command line does
        sys.stderr.write(f"nanobot: {error}\n")
        code = 2
    raise SystemExit(code)


if __name__ == "__main__":
    main()
