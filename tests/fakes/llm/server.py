"""The server: records each request, refuses what the vendor refuses, answers the rest from its script.

Promises: every request is in ``requests`` before its answer begins; a refused one takes nothing from the script; leaving the
``async with`` ends every connection and raises what a responder raised.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Self, TypeAlias

from tests.fakes.llm import anthropic_rules, openai_rules
from tests.fakes.llm.answers import error_body, model_list, prepare, whole_answer
from tests.fakes.llm.body import Body, NotJson, read_body
from tests.fakes.llm.delivery import Answer, Delivery
from tests.fakes.llm.http import Connection, Request
from tests.fakes.llm.meter import CacheMeter, Reading, tokens_of
from tests.fakes.llm.prompts import last_user_text
from tests.fakes.llm.recorded import ANTHROPIC_CHAT, ANTHROPIC_COUNT, OPENAI_CHAT, Recorded, Wire
from tests.fakes.llm.script import Reply
from tests.fakes.llm.shapes import Policy, Refused

Responder: TypeAlias = Callable[[Recorded], Reply]


class LLMServer:
    """A model server on 127.0.0.1 for one test; use it as an async context manager.

    Args:
        replies: the script; when it is empty, the last user text comes back after ``echo: ``.
        window_tokens: prompts that do not fit are refused.
        api_key: what clients must show; None admits all.
        strict_roles: refuse what chat templates of local models (and earlier Messages servers) refuse.
        strict_thinking: with thinking on, a tool call under way must begin with its thinking.
        lenient_fields: names of further fields to take, as vendors of compatible servers do.
        max_body_bytes: larger bodies get 413.
        models: what ``GET /v1/models`` lists.
        port: 0 takes a free one.
    """

    def __init__(
        self,
        replies: Iterable[Reply] = (),
        *,
        window_tokens: int | None = None,
        api_key: str | None = None,
        strict_roles: bool = False,
        strict_thinking: bool = False,
        lenient_fields: Collection[str] = (),
        max_body_bytes: int = 32 * 1024 * 1024,
        models: Collection[str] = ("test-model",),
        port: int = 0,
    ):
        policy = Policy(window_tokens, strict_roles, strict_thinking, frozenset(lenient_fields))
        self._policies: dict[Wire, Policy] = {"openai": policy, "anthropic": replace(policy, known=set())}
        self._script = deque(replies)
        self._api_key = api_key
        self._max_body_bytes = max_body_bytes
        self._models = list(models)
        self._port = port
        self._server: asyncio.Server | None = None
        self._live: set[Connection] = set()
        self._meter = CacheMeter()
        self._ids = itertools.count(1)
        self._in_flight = 0
        self._failures: list[Exception] = []
        self.responder: Responder | None = None
        self.observer: Callable[[Recorded], None] | None = None
        self.requests: list[Recorded] = []
        self.max_concurrent = 0

    @property
    def url(self) -> str:
        """The address; the base URL of Anthropic clients as it is, of OpenAI clients with ``/v1``."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def refusals(self) -> list[str]:
        """Why requests were refused, in order; tests of legal clients assert that this is empty."""
        return [request.refusal for request in self.requests if request.refusal is not None]

    @property
    def in_flight(self) -> int:
        """How many requests are being answered."""
        return self._in_flight

    @property
    def chats(self) -> list[Recorded]:
        """The requests that asked a model."""
        return [request for request in self.requests if request.is_chat]

    def queue(self, *replies: Reply) -> None:
        """Append to the script."""
        self._script.extend(replies)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._handle, self._max_body_bytes, self._live), "127.0.0.1", self._port, backlog=1024
        )
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server
        self._server.close()
        tasks = [connection.task for connection in self._live if connection.task]
        for connection in list(self._live):
            connection.abort()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()
        await asyncio.sleep(0)
        if self._failures and error is None:
            raise self._failures[0]

    async def serve_forever(self) -> None:
        """Answer until cancelled."""
        assert self._server
        await self._server.serve_forever()

    async def _handle(self, connection: Connection, request: Request) -> None:
        self._in_flight += 1
        self.max_concurrent = max(self.max_concurrent, self._in_flight)
        recorded = self._recorded(request)
        try:
            reply, answer = self._decide(recorded)
            recorded.status = answer.status
            recorded.parsed = None
            if self.observer:
                self.observer(recorded)
            await Delivery(connection, reply, answer).run()
        except Exception as error:  # noqa: BLE001  # our own fault or a reply that makes no sense: raised when the server closes
            self._failures.append(error)
            connection.abort()
        finally:
            recorded.is_gone = connection.is_gone
            self._in_flight -= 1

    def _recorded(self, request: Request) -> Recorded:
        is_anthropic = "anthropic-version" in request.headers and not request.path.endswith("/chat/completions")
        is_anthropic = is_anthropic or request.path.startswith("/v1/messages")
        wire: Wire = "anthropic" if is_anthropic else "openai"
        recorded = Recorded(
            wire, request.method, request.path, dict(request.headers), request.body, in_flight=self._in_flight
        )
        self.requests.append(recorded)
        return recorded

    def _decide(self, recorded: Recorded) -> tuple[Reply, Answer]:
        """Return what to send and how."""
        request_id = f"req_{next(self._ids):012d}"
        try:
            self._authorize(recorded)
            if recorded.method == "GET" and recorded.path == "/v1/models":
                return Reply(), whole_answer(request_id, 200, model_list(recorded.wire, self._models))
            reading = self._judge(recorded)
        except Refused as refused:
            recorded.refusal = refused.message
            body = error_body(recorded.wire, refused.status, request_id, refused)
            return Reply(), whole_answer(request_id, refused.status, body)
        if recorded.path == ANTHROPIC_COUNT:
            return Reply(), whole_answer(request_id, 200, {"input_tokens": reading.prompt})
        reply = self._next_reply(recorded)
        return reply, prepare(recorded, reply, reading, request_id)

    def _judge(self, recorded: Recorded) -> Reading:
        """Check a request by its vendor's rules and measure it.

        Raises:
            Refused: the vendor would not take it.
        """
        if recorded.path not in (OPENAI_CHAT, ANTHROPIC_CHAT, ANTHROPIC_COUNT) or recorded.method != "POST":
            message = f"Invalid URL ({recorded.method} {recorded.path})" if recorded.wire == "openai" else "Not Found"
            raise Refused(message, status=404)
        try:
            body = read_body(recorded.raw)
        except NotJson as error:
            prefix = (
                "We could not parse the JSON body of your request"
                if recorded.wire == "openai"
                else "The request body is not valid JSON"
            )
            raise Refused(f"{prefix}: {error}") from error
        recorded.parsed = body
        self._check(recorded, body)
        key = (recorded.wire, recorded.model)
        if recorded.path == ANTHROPIC_COUNT:
            return Reading(prompt=tokens_of(sum(element.size for element in body.elements)))
        reading = self._meter.read(key, body.elements, by_marks=recorded.wire == "anthropic")
        recorded.prompt_tokens, recorded.cached_tokens = reading.prompt, reading.shared
        return reading

    def _check(self, recorded: Recorded, body: Body) -> None:
        policy = self._policies[recorded.wire]
        if recorded.wire == "openai":
            openai_rules.check(body, policy)
        else:
            version = recorded.headers.get("anthropic-version")
            anthropic_rules.check(body, policy, version=version, counts_only=recorded.path == ANTHROPIC_COUNT)

    def _authorize(self, recorded: Recorded) -> None:
        if self._api_key is None:
            return
        if recorded.wire == "anthropic":
            shown = recorded.headers.get("x-api-key")
            missing, wrong = "x-api-key header is required", "invalid x-api-key"
        else:
            shown = recorded.headers.get("authorization", "").removeprefix("Bearer ") or None
            missing, wrong = "You didn't provide an API key.", "Incorrect API key provided."
        if shown != self._api_key:
            kind = "authentication_error" if recorded.wire == "anthropic" else ""
            code = "invalid_api_key" if recorded.wire == "openai" and shown else None
            raise Refused(wrong if shown else missing, status=401, kind=kind, code=code)

    def _next_reply(self, recorded: Recorded) -> Reply:
        try:
            if self.responder:
                return self.responder(recorded)
        except Exception as error:  # noqa: BLE001  # a test's own code: its error is raised again when the server closes
            self._failures.append(error)
            return Reply(status=500)
        return self._script.popleft() if self._script else Reply(f"echo: {last_user_text(recorded.body)}")
