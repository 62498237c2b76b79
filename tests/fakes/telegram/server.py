"""The server: connections, the long poll, faults, and what tests push and look at."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

from tests.fakes.llm.http import Connection, Request
from tests.fakes.telegram.chats import ChatRoom, Seen
from tests.fakes.telegram.faults import Fault
from tests.fakes.telegram.methods import METHODS
from tests.fakes.telegram.params import Params, read_params
from tests.fakes.telegram.rules import Refusal
from tests.fakes.telegram.updates import UpdateQueue, message_update

MAX_BODY_BYTES = 60 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Call:
    """One request: ``error`` is the description of a refusal, ``result`` what was answered otherwise."""

    method: str
    params: Params
    at: float
    result: Any = None  # Any: the method's own JSON
    error: str | None = None


class TelegramServer:
    """A Bot API server on 127.0.0.1 for one bot.

    Args:
        token: the bot's token; any other gets 401.
        port: 0 takes a free one.
        message_gap_s: how far apart messages to one chat must be; closer ones get 429.
        edit_gap_s: the same for edits.
        clock: seconds, for limits and recorded times.
    """

    def __init__(
        self,
        token: str = "42:TEST",
        *,
        port: int = 0,
        username: str = "test_bot",
        message_gap_s: float | None = None,
        edit_gap_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.token = token
        self.username = username
        self.rooms: dict[int, ChatRoom] = {}
        self.callbacks: dict[str, float] = {}
        self.answered: dict[str, str] = {}
        self.alerts: list[str] = []
        self.files: dict[str, tuple[str, bytes, int]] = {}
        self.commands: list[dict[str, Any]] = []
        self.message_gap_s = message_gap_s
        self.edit_gap_s = edit_gap_s
        self.calls: list[Call] = []
        self.observer: Callable[[Call], None] = lambda call: None
        self.updates = UpdateQueue()
        self._clock = clock
        self._port = port
        self._faults: list[Fault] = []
        self._last_message_id = 0
        self._poll: asyncio.Event | None = None
        self._arrived = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._live: set[Connection] = set()

    # -- running ---------------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self._serve, MAX_BODY_BYTES, self._live), "127.0.0.1", self._port
        )
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        tasks = [connection.task for connection in self._live if connection.task]
        for connection in tuple(self._live):
            connection.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def serve_forever(self) -> None:
        """Serve until cancelled."""
        assert self._server is not None
        await self._server.serve_forever()

    @property
    def base_url(self) -> str:
        """What ``base_url`` in a bot's settings must be."""
        return f"http://127.0.0.1:{self._port}/bot"

    # -- what tests do ---------------------------------------------------------------------------------------------------------

    def chat(self, chat_id: int) -> ChatRoom:
        """Return a chat, which exists from now on."""
        return self.rooms.setdefault(chat_id, ChatRoom(chat_id))

    def push_text(self, chat: int, text: str | None, *, from_id: int | None = None, **extras: Any) -> dict[str, Any]:
        """Let a person say something; ``extras`` are fields of the message.  Return the update."""
        room = self.chat(chat)
        sender_id = from_id if from_id is not None else abs(chat)
        sender = {"id": sender_id, "is_bot": False, "first_name": f"Person {sender_id}"}
        message_id = self.next_message_id()
        message = message_update(room, message_id, text=text, sender=sender, extras=extras)
        room.messages[message["message_id"]] = Seen(
            message["message_id"], text or message.get("caption", ""), by_bot=False
        )
        return self.push_update({"message": message})

    def push_callback(self, chat: int, data: str, *, from_id: int, message_id: int) -> str:
        """Let a person press a button; return the query's id."""
        query = f"q{self.next_message_id()}"
        self.callbacks[query] = self.clock()
        message = {"message_id": message_id, "date": 1_700_000_000, "chat": self.chat(chat).as_json()}
        shown = self.chat(chat).messages.get(message_id)
        if shown is not None and shown.thread is not None:
            message |= {"message_thread_id": shown.thread, "is_topic_message": True}
        sender = {"id": from_id, "is_bot": False, "first_name": "Person"}
        body = {"id": query, "from": sender, "chat_instance": "1", "data": data, "message": message}
        self.push_update({"callback_query": body})
        return query

    def push_update(self, update: dict[str, Any]) -> dict[str, Any]:
        """Queue any update; one that has an id keeps it (a re-delivery)."""
        update = self.updates.add(update)
        self._arrived.set()
        return update

    def add_file(
        self, file_id: str, data: bytes, *, path: str = "documents/file_1.bin", size: int | None = None
    ) -> None:
        """Offer a file for download; ``size`` may claim more than there is."""
        self.files[file_id] = (path, data, len(data) if size is None else size)

    def fail(self, method: str, *, times: int = 1, **how: Any) -> None:
        """Let the next calls of a method (``file``: a download) go wrong; see ``Fault``."""
        self._faults.append(Fault(method.lower() if method != "*" else method, times, **how))

    def has_fault(self, method: str) -> bool:
        """Say whether a fault of this method is still to come."""
        return any(fault.times > 0 and fault.method == method.lower() for fault in self._faults)

    def heal(self) -> None:
        """Forget all faults that were asked for."""
        self._faults.clear()

    def sent(self, method: str) -> list[Call]:
        """Return the calls of one method."""
        return [call for call in self.calls if call.method.lower() == method.lower()]

    # -- the world that methods see --------------------------------------------------------------------------------------------

    def clock(self) -> float:
        """Return the time in seconds."""
        return self._clock()

    def next_message_id(self) -> int:
        """Return a new message id."""
        self._last_message_id += 1
        return self._last_message_id

    def me(self) -> dict[str, Any]:
        """Return the bot as a user."""
        return {
            "id": int(self.token.partition(":")[0]),
            "is_bot": True,
            "first_name": "Test",
            "username": self.username,
        }

    # -- answering -------------------------------------------------------------------------------------------------------------

    async def _serve(self, connection: Connection, request: Request) -> None:
        root, _, rest = unquote(request.path).lstrip("/").partition("/")
        if root == "file":
            fault = self._fault("file", Params())
            if fault is not None:
                await self._go_wrong(connection, "file", Params(), fault)
            else:
                self._download(connection, rest)
            return
        token, method = root.removeprefix("bot"), rest.lower()
        params = Params()
        fault: Fault | None = None
        try:
            if token != self.token or not root.startswith("bot"):
                raise Refusal(401, "Unauthorized")
            params = read_params(request.headers, request.body)
            fault = self._fault(method, params)
            if fault is not None and not fault.after_processing:
                await self._go_wrong(connection, method, params, fault)
                return
            result = await self._get_updates(params) if method == "getupdates" else self._call(method, params)
            self._note(Call(rest, params, self.clock(), result))
            if fault is not None:
                await self._go_wrong(connection, method, params, fault)
                return
            _answer(connection, 200, {"ok": True, "result": result})
        except Refusal as refusal:
            self._note(Call(rest, params, self.clock(), error=refusal.description))
            _refuse(connection, refusal)

    def _call(self, method: str, params: Params) -> Any:  # Any: the method's own JSON
        found = METHODS.get(method)
        if found is None:
            raise Refusal(404, "Not Found")
        return found(self, params)

    def _fault(self, method: str, params: Params) -> Fault | None:
        chat = params.values.get("chat_id")
        number = int(chat) if chat is not None and str(chat).lstrip("-").isdigit() else None
        fault = next((one for one in self._faults if one.concerns(method, number)), None)
        if fault is not None:
            fault.times -= 1
        return fault

    async def _go_wrong(self, connection: Connection, method: str, params: Params, fault: Fault) -> None:
        self._note(Call(method, params, self.clock(), error=f"fault: {fault.description}"))
        if fault.cut:
            connection.abort()
        elif fault.hang:
            await asyncio.Event().wait()
        elif fault.html:
            connection.send_whole(fault.status, {"content-type": "text/html"}, b"<html><h1>Bad Gateway</h1></html>")
        else:
            _refuse(connection, Refusal(fault.status, fault.description, **fault.extra))

    async def _get_updates(self, params: Params) -> list[dict[str, Any]]:
        """Wait for updates as the public server does: a newer poll ends an older one."""
        if self._poll is not None:
            self._poll.set()
        ended = self._poll = asyncio.Event()
        offset = params.number("offset", 0) or 0
        limit = min(params.number("limit", 100) or 100, 100)
        deadline = self.clock() + (params.number("timeout", 0) or 0)
        try:
            while not (found := self.updates.take(offset, limit, params.parsed("allowed_updates"))):
                left = deadline - self.clock()
                if left <= 0:
                    break
                self._arrived.clear()
                await _first_of(self._arrived, ended, timeout=left)
                if ended.is_set():
                    raise Refusal(
                        409,
                        "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
                    )
            return found
        finally:
            if self._poll is ended:
                self._poll = None

    def _download(self, connection: Connection, rest: str) -> None:
        root, _, path = rest.partition("/")
        found = next((data for name, data, _ in self.files.values() if name == path), None)
        if root != f"bot{self.token}" or found is None:
            _answer(connection, 404, {"ok": False, "error_code": 404, "description": "Not Found"})
            return
        connection.send_whole(200, {"content-type": "application/octet-stream"}, found)

    def _note(self, call: Call) -> None:
        self.calls.append(call)
        self.observer(call)


async def _first_of(*events: asyncio.Event, timeout: float) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _refuse(connection: Connection, refusal: Refusal) -> None:
    body: dict[str, Any] = {"ok": False, "error_code": refusal.code, "description": refusal.description}
    if refusal.parameters:
        body["parameters"] = refusal.parameters
    _answer(connection, refusal.code, body)


def _answer(connection: Connection, status: int, body: dict[str, Any]) -> None:
    connection.send_whole(status, {"content-type": "application/json"}, json.dumps(body).encode())
