"""One connection to a server, made with the SDK.

Import it in a thread, and only where a server is configured: the SDK takes a second and brings a web server along.  Run a
connection in a task of its own: when a server behind an address dies, the SDK cancels the task that holds the connection, and
that task must be nobody's Turn.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from nanobot.agent.tools.mcp.content import reply_of
from nanobot.agent.tools.mcp.faults import fault_of
from nanobot.agent.tools.mcp.http import MAX_EVENT_BYTES, http_client
from nanobot.agent.tools.mcp.mending import is_listing, mended
from nanobot.agent.tools.mcp.oauth import Logins
from nanobot.agent.tools.mcp.remote import Body, Listing, Lost, RemoteTool, Reply
from nanobot.agent.tools.mcp.settings import McpServerSettings
from nanobot.agent.tools.mcp.stdio import Program, StdioTransport
from nanobot.messages import JsonObject

_MAX_PAGES = 50
_MAX_LISTED_CHARS = 20_000
_MAX_ASKED = 64  # requests of a server that are not answered yet; before more are taken in, they wait
_ANSWER_S = 10.0  # and so long at most: who asks on without reading answers is done with
_Answer = TypeVar("_Answer")
_Transport = AbstractAsyncContextManager[Any]  # Any: two streams, whose types the SDK has no public names for

log = logging.getLogger(__name__)
logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it logs a traceback for what we tell in one line


async def serve(
    name: str, settings: McpServerSettings, body: Body, *, place: Path, media: Path, logins: Logins
) -> None:
    """Connect to the server ``name``, run ``body`` with the connection, and leave nothing behind.

    Args:
        name: as configured.
        settings: the server's.
        body: what to do with the connection; its end is the connection's.
        place: where a command runs that names no other directory; it is made.  What lies in it may be run: it is nobody else's.
        media: where files are kept that a server sends.
        logins: what is known of OAuth logins.

    Raises:
        Lost: the connection could not be made, or broke.
    """
    stdio: StdioTransport | None = None
    try:
        async with AsyncExitStack() as stack:
            if settings.url is None:
                stdio = StdioTransport(await asyncio.to_thread(_program, name, settings, place))
                transport: _Transport = stdio
            else:
                transport = await _remote(stack, name, settings, logins)
            mending = _Mending(transport)
            events = _Events()
            client = await stack.enter_async_context(Client(mending, message_handler=events, cache=None))
            stack.push_async_callback(events.close)
            events.listen(client)
            await body(SdkConnection(client, mending, events, media))
    except Exception as error:  # whatever the SDK or a transport raises, also in groups: the connection is gone
        if isinstance(error, Lost):
            raise
        raise _lost(error, stdio) from None
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise
        raise _lost(None, stdio) from None  # the SDK's own scope: the connection broke
    if stdio is not None and stdio.ended.is_set():
        raise _lost(None, stdio)


def _lost(error: Exception | None, stdio: StdioTransport | None) -> Lost:
    if stdio is None:
        fault = fault_of(error) if error is not None else None
        return fault if isinstance(fault, Lost) else Lost(str(fault or "the connection broke"))
    words = f"; it said: {stdio.last_words}" if stdio.last_words else ""
    if stdio.ended.is_set() or error is None:
        return Lost(f"{stdio.failure}{words}")
    return Lost(f"{fault_of(error)}{words}")


def _program(name: str, settings: McpServerSettings, place: Path) -> Program:
    assert settings.command is not None
    if settings.cwd is None:
        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise Lost(f"its directory {place} cannot be made: {error.strerror}", reached=False) from None
    given = {key: value.get_secret_value() for key, value in settings.env.items()}
    return Program(
        name=name,
        command=settings.command,
        args=settings.args,
        env={**get_default_environment(), **given},
        cwd=settings.cwd or place,
    )


async def _remote(stack: AsyncExitStack, name: str, settings: McpServerSettings, logins: Logins) -> _Transport:
    assert settings.url is not None
    headers = {key: value.get_secret_value() for key, value in settings.headers.items()}
    if settings.oauth and not logins.usable(name):
        raise Lost(f"it wants a login: nanobot mcp login {name}", reached=False, lasting=True)
    auth = logins.auth(name, settings) if settings.oauth else None
    if settings.transport == "sse":
        return sse_client(settings.url, headers, httpx_client_factory=http_client, auth=auth)
    client = await stack.enter_async_context(await asyncio.to_thread(http_client, headers, auth=auth))
    return streamable_http_client(settings.url, http_client=client, max_sse_event_size=MAX_EVENT_BYTES)


class SdkConnection:
    """A ``remote.Connection`` over the SDK's client."""

    def __init__(self, client: Client, mending: "_Mending", events: "_Events", media: Path) -> None:
        self._client = client
        self._mending = mending
        self._events = events
        self._media = media

    async def listing(self) -> Listing:
        """Ask for all tools, page by page."""
        client, tools = self._client, list[RemoteTool]()
        capabilities, info = client.server_capabilities, client.server_info
        self._mending.left_out.clear()
        cursor = None
        for _ in range(_MAX_PAGES if capabilities.tools is not None else 0):
            page = await _asked(client.list_tools(cursor=cursor))
            tools += [RemoteTool(tool.name, tool.description or "", tool.input_schema) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        return Listing(
            server=f"{info.name} {info.version}"[:80] if info else "",
            tools=tuple(tools),
            left_out=dict(self._mending.left_out),
            has_resources=capabilities.resources is not None,
            has_prompts=capabilities.prompts is not None,
        )

    async def call(self, tool: str, arguments: JsonObject) -> Reply:
        """Call a tool."""
        result = await _asked(self._client.call_tool(tool, arguments))
        return await asyncio.to_thread(
            reply_of, result.content, result.structured_content, media=self._media, is_error=result.is_error
        )

    async def resources(self) -> str:
        """List resources and templates, a line each."""
        found = await _asked(self._client.list_resources())
        lines = [_entry(one.uri, one.name, one.mime_type, one.description) for one in found.resources]
        templates = await _asked(self._client.list_resource_templates())
        lines += [
            _entry(one.uri_template, one.name, one.mime_type, one.description) for one in templates.resource_templates
        ]
        more = found.next_cursor or templates.next_cursor
        return _listed(lines, "There are no resources.") + ("\n[… there are more …]" if more else "")

    async def read_resource(self, uri: str) -> Reply:
        """Read a resource."""
        result = await _asked(self._client.read_resource(uri))
        return await asyncio.to_thread(reply_of, result.contents, None, media=self._media)

    async def prompts(self) -> str:
        """List prompts with their arguments, a line each."""
        found = await _asked(self._client.list_prompts())
        lines = [
            _entry(f"{one.name}({_arguments(one.arguments)})", one.title, None, one.description)
            for one in found.prompts
        ]
        return _listed(lines, "There are no prompts.") + ("\n[… there are more …]" if found.next_cursor else "")

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Reply:
        """Have a prompt filled in; its messages one after the other."""
        result = await _asked(self._client.get_prompt(name, dict(arguments)))
        blocks = [message.content for message in result.messages]
        said = [await asyncio.to_thread(reply_of, [block], None, media=self._media) for block in blocks]
        text = "\n\n".join(f"{m.role}: {one.text}" for m, one in zip(result.messages, said, strict=True))
        return Reply(text, images=tuple(image for one in said for image in one.images))

    async def ping(self) -> None:
        """Ask for something small: newer servers have no ping."""
        if self._client.server_capabilities.tools is not None:
            await _asked(self._client.list_tools())

    async def changed(self) -> None:
        """Wait for the next change; several that came meanwhile are one."""
        await self._events.changed.wait()
        self._events.changed.clear()

    async def ended(self) -> None:
        """Wait for the end of what the server sends."""
        await self._mending.ended.wait()


async def _asked(answer: Awaitable[_Answer]) -> _Answer:
    """Wait for an answer; whatever goes wrong is ``Lost`` or ``Declined``."""
    try:
        return await answer
    except Exception as error:  # noqa: BLE001  # the SDK has no one error of its own; the mapping is total
        raise fault_of(error) from None
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise
        raise Lost("the connection broke") from None


def _arguments(arguments: list[types.PromptArgument] | None) -> str:
    return ", ".join(f"{one.name}{'' if one.required else '?'}" for one in arguments or ())


def _entry(what: str, name: str | None, media_type: str | None, description: str | None) -> str:
    about = " - ".join(" ".join(part.split()) for part in (name, media_type, description) if part)
    return f"{what}: {about}" if about else what


def _listed(lines: list[str], nothing: str) -> str:
    text = "\n".join(lines) or nothing
    return text if len(text) <= _MAX_LISTED_CHARS else f"{text[:_MAX_LISTED_CHARS]}\n[… the list goes on …]"


class _Events:
    """Notices when a server says that its tools are others now, in either way of the protocol."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None

    async def __call__(self, message: types.ServerNotification | Exception) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.changed.set()

    def listen(self, client: Client) -> None:
        """Subscribe, where servers do not tell unasked."""
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS and client.server_capabilities.tools is not None:
            self._listening = asyncio.create_task(self._listen(client), name="mcp subscription")

    async def _listen(self, client: Client) -> None:
        try:
            async with client.listen(tools_list_changed=True) as subscription:
                async for _ in subscription:
                    self.changed.set()
        except Exception:  # noqa: BLE001  # a server that tells of no changes is a good server all the same
            return

    async def close(self) -> None:
        """Stop listening."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})


class _Mending:
    """Another transport, whose lists of tools are mended on their way in, and whose end is noticed.

    What a server asks of us is answered by tasks of the SDK, as many as it likes: so only so many are let in at once.
    """

    def __init__(self, inner: _Transport) -> None:
        self.left_out: dict[str, str] = {}
        self.ended = asyncio.Event()
        self.asked = asyncio.BoundedSemaphore(_MAX_ASKED)
        self._inner = inner

    async def __aenter__(self) -> tuple[Any, Any]:  # Any: as ``_Transport``
        read, write = await self._inner.__aenter__()
        return _MendedStream(read, self), _Answers(write, self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, traceback)

    def mend(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        """Return the message as the SDK will take it."""
        if isinstance(item, SessionMessage) and isinstance(item.message, types.JSONRPCResponse):
            result: Any = item.message.result  # Any: JSON
            if is_listing(result):
                item.message.result, left_out = mended(result)
                self.left_out.update(left_out)
        return item


class _End:
    """One end of the transport, closed with the one inside it."""

    def __init__(self, inner: Any, mending: _Mending) -> None:  # Any: as ``_Transport``
        self._inner = inner
        self._mending = mending

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class _MendedStream(_End):
    @property
    def last_context(self) -> Any:  # Any: a contextvars.Context, where the transport has one
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            item = await self._inner.receive()
            await self._let_in(item)
            return self._mending.mend(item)
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._mending.ended.set()
            raise

    async def _let_in(self, item: SessionMessage | Exception) -> None:
        if not isinstance(item, SessionMessage) or not isinstance(item.message, types.JSONRPCRequest):
            return
        try:
            async with asyncio.timeout(_ANSWER_S):
                await self._mending.asked.acquire()
        except TimeoutError:
            log.warning("an MCP server asks without end and does not take the answers; its connection is given up")
            raise anyio.EndOfStream from None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class _Answers(_End):
    """Where the SDK writes; it is noticed when a request of the server was answered."""

    async def send(self, item: SessionMessage) -> None:
        await self._inner.send(item)
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            with contextlib.suppress(ValueError):  # one that nobody asked for
                self._mending.asked.release()
