"""A Bot API server that costs as little as it can, in the process that measures: what a bot says, and how soon.

It checks nothing (the strict fake in ``tests/fakes`` does).  ``ask`` delivers a message and waits until the chat shows the sentence
that every answer of ``bench.server`` holds.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from time import perf_counter, time
from urllib.parse import parse_qs

from bench.server import SENTENCE

TOKEN = "42:BENCH"
_ME = {"id": 42, "is_bot": True, "first_name": "Bench", "username": "bench_bot"}
_LONGEST_POLL_S = 10.0


class BotApi:
    """The server and the people who write to its bot."""

    def __init__(self) -> None:
        self.url = ""
        self.polled = asyncio.Event()
        self.edits: list[float] = []
        self._updates: list[dict[str, object]] = []
        self._arrived = asyncio.Event()
        self._next_id = 1
        self._waiting: dict[
            str, tuple[int, asyncio.Future[float]]
        ] = {}  # by chat: what came after this id is the answer

    async def ask(self, chat: int, text: str) -> float:
        """Send the bot a message and return how long its answer took, in ms."""
        future = asyncio.get_running_loop().create_future()
        self._next_id += 1
        self._waiting[str(chat)] = (self._next_id, future)
        person = {"id": chat, "is_bot": False, "first_name": "Ann"}
        message = {"message_id": self._next_id, "date": int(time()), "text": text, "from": person}
        chat_fields = {"id": chat, "type": "private", "first_name": "Ann"}
        self._updates.append({"update_id": self._next_id, "message": {**message, "chat": chat_fields}})
        self._arrived.set()
        began = perf_counter()
        async with asyncio.timeout(30):
            return (await future - began) * 1000

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until it closes."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                length = next((int(x[15:]) for x in lines if x.lower().startswith("content-length:")), 0)
                fields = parse_qs((await reader.readexactly(length)).decode()) if length else {}
                method = lines[0].split()[1].rpartition("/")[2]
                result = await self._result(method, {name: values[0] for name, values in fields.items()})
                body = json.dumps({"ok": True, "result": result}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ")
                writer.write(b"%d\r\n\r\n%s" % (len(body), body))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the bot went, or the measurement is over
        finally:
            writer.close()

    async def _result(self, method: str, fields: Mapping[str, str]) -> object:
        match method:
            case "getMe":
                return _ME
            case "getUpdates":
                return await self._poll(int(fields.get("offset", "0")), float(fields.get("timeout", "0")))
            case "sendMessage" | "editMessageText":
                return self._shown(method, fields)
            case _:
                return True

    async def _poll(self, offset: int, timeout_s: float) -> object:
        self.polled.set()
        self._updates = [one for one in self._updates if int(str(one["update_id"])) >= offset]
        if not self._updates:
            self._arrived.clear()
            try:
                async with asyncio.timeout(min(timeout_s, _LONGEST_POLL_S)):
                    await self._arrived.wait()
            except TimeoutError:
                pass
        return self._updates

    def _shown(self, method: str, fields: Mapping[str, str]) -> object:
        now, chat, text = perf_counter(), fields["chat_id"], fields["text"]
        if method == "editMessageText":
            self.edits.append(now)
        self._next_id += 1
        number = int(fields.get("message_id", self._next_id))
        asked, future = self._waiting[chat]
        if SENTENCE in text and number > asked and not future.done():
            future.set_result(now)
        chat_fields = {"id": int(chat), "type": "private", "first_name": "Ann"}
        return {"message_id": number, "date": int(time()), "chat": chat_fields, "from": _ME, "text": text}


@asynccontextmanager
async def bot_api() -> AsyncGenerator[BotApi]:
    """Serve one on a free port of this machine."""
    api = BotApi()
    server = await asyncio.start_server(api.serve, "127.0.0.1", 0, backlog=1024)
    api.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/bot"
    try:
        yield api
    finally:
        server.close()
