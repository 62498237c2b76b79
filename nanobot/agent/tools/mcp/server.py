"""One MCP server's owner task: starts it, notices its end, starts it again; and the one way to ask it something.

The connection lives in a task of its own below the owner, so that whatever happens to it ends there: no Turn and no other server
notices more than an error.  A request is a task, too: it ends with its caller's patience, or with the connection.  A request that
surely did not reach the server (it was restarted, say) is sent once more over a new connection; one that may have reached it is
repeated only if repeating does no harm.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from nanobot.agent.tools.mcp.life import Backoff, Condition, Session, told
from nanobot.agent.tools.mcp.remote import Connection, Declined, Listing, Lost, Serve
from nanobot.agent.tools.mcp.settings import McpServerSettings

log = logging.getLogger(__name__)

UP_WAIT_S = 20.0  # how long a call waits for its server at most
END_S = 8.0  # how long a connection may take to end
_PING_S = 5.0
_LAST_WORD_S = 2.0  # for a connection to say itself why it broke
_SETTLE_S = 0.3  # changes that come this close together are one

_Answer = TypeVar("_Answer")
Ask = Callable[[Connection], Awaitable[_Answer]]


class NotUp(Exception):
    """The server cannot be asked now; the text says how it is."""


class TimedOut(Exception):
    """The server did not answer in time."""


class Server:
    """One server.

    Args:
        name: as configured.
        settings: the server's.
        serve: makes a connection and runs a body with it.
        listed: told each new list of what it offers.
        redact: takes secrets out of what servers say of themselves.
        clock: monotonic seconds.
        backoff: how patiently it is started again.
    """

    def __init__(
        self,
        name: str,
        settings: McpServerSettings,
        serve: Serve,
        *,
        listed: Callable[[Listing], None],
        redact: Callable[[str], str] = lambda text: text,
        clock: Callable[[], float] = time.monotonic,
        backoff: Backoff = Backoff(),  # noqa: B008  # frozen
    ) -> None:
        self.name = name
        self.settings = settings
        self.listing: Listing | None = None
        self.condition = Condition(word="starting", since=clock())
        self.settled = asyncio.Event()
        self._serve = serve
        self._listed = listed
        self._redact = redact
        self._clock = clock
        self._backoff = backoff
        self._session: Session | None = None
        self._wake = asyncio.Event()
        self._begun = self._ended = 0  # connections
        self._news = asyncio.Event()  # of the next change; a new one after each
        self._owner: asyncio.Task[None] | None = None
        self._errands: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to start it; nobody waits."""
        self._owner = asyncio.create_task(self._own(), name=f"mcp {self.name}")

    async def close(self) -> None:
        """End it, with whatever it started."""
        tasks = {task for task in (self._owner, *self._errands) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=END_S + 1.0)

    # -- asking ----------------------------------------------------------------------------------------------------------------

    async def request(self, ask: Ask[_Answer], *, repeatable: bool, timeout_s: float | None = None) -> _Answer:
        """Ask it something, over a new connection where the old one is gone.

        Args:
            ask: what to do with the connection.
            repeatable: asking twice does no harm.
            timeout_s: how long to wait for the answer; the server's setting when None.

        Raises:
            NotUp: it cannot be asked now.
            TimedOut: it did not answer in time.
            Lost: the connection broke, and nobody knows what became of the request.
            Declined: it said no.
        """
        timeout_s = self.settings.timeout_s if timeout_s is None else timeout_s
        try:
            return await self._ask(ask, timeout_s)
        except Lost as lost:
            if lost.reached and not repeatable:
                raise
        return await self._ask(ask, timeout_s)

    async def _ask(self, ask: Ask[_Answer], timeout_s: float) -> _Answer:
        session = await self._up()
        connection = session.up.result()

        async def answered() -> _Answer:
            return await ask(connection)

        request = asyncio.create_task(answered(), name=f"mcp {self.name} request")
        try:
            await asyncio.wait({request, session.over}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            request.cancel()
            request.add_done_callback(_forgotten)
        if request.done() and not request.cancelled():
            try:
                return request.result()
            except Lost as lost:
                raise await self._why(session, lost) from None
        if session.over.done():
            raise session.over.result()
        self._errand(self._check(session))
        raise TimedOut(f"it did not answer within {timeout_s:g} s")

    async def _up(self) -> Session:
        """Return the running connection, or the one that is started now, or next: one try is waited for."""
        last = self._begun if self._begun > self._ended else self._begun + 1
        try:
            async with asyncio.timeout(min(UP_WAIT_S, self.settings.start_timeout_s)):
                while self._session is None and self._ended < last:
                    self._wake.set()
                    await self._news.wait()
        except TimeoutError:
            pass
        if self._session is None:
            raise NotUp(self.told())
        return self._session

    async def _why(self, session: Session, lost: Lost) -> Lost:
        """Return why a connection broke: it may know better than the request that noticed."""
        if lost.reached:
            await asyncio.wait({session.over}, timeout=_LAST_WORD_S)
        self._lose(session, lost)
        return session.over.result() if session.over.done() else lost

    async def _check(self, session: Session) -> None:
        """See whether a server that did not answer a call answers anything; one that does not is started again."""
        try:
            async with asyncio.timeout(min(_PING_S, self.settings.timeout_s)):
                await session.up.result().ping()
        except (TimeoutError, Lost):
            self._lose(session, Lost("it answers nothing any more"))
        except Declined:
            pass

    def _lose(self, session: Session, lost: Lost) -> None:
        """Have a connection ended that is of no use; no request gets it from now on."""
        session.lose(lost)
        self._retire(session)

    def _retire(self, session: Session) -> None:
        if not session.is_retired:
            session.is_retired = True
            self._session = None
            self._ended += 1

    def _errand(self, work: "Awaitable[None]") -> None:
        async def run() -> None:
            await work

        task = asyncio.create_task(run(), name=f"mcp {self.name} errand")
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    # -- owning ----------------------------------------------------------------------------------------------------------------

    async def _own(self) -> None:
        failures = 0
        while True:
            began = self._clock()
            self._wake.clear()
            lost = await self._live()
            was_steady = self.condition.word == "up" and self._clock() - self.condition.since >= self._backoff.steady_s
            failures = 1 if was_steady else failures + 1
            delay_s = self._backoff.cap_s if lost.lasting else self._backoff.delay_s(failures)
            self._went_down(lost, delay_s, is_news=failures == 1)
            await asyncio.sleep(max(0.0, began + self._backoff.least_s - self._clock()))  # not in a tight circle
            try:
                async with asyncio.timeout(delay_s):
                    await self._wake.wait()
            except TimeoutError:
                pass
            if self.condition.word == "down":
                self.condition = Condition(word="starting", since=self._clock(), why=self.condition.why)

    async def _live(self) -> Lost:
        """Run one connection to its end; return why it ended."""
        session = Session()
        self._begun += 1

        async def connected() -> None:
            await self._serve(lambda connection: self._attend(session, connection))

        task = asyncio.create_task(connected(), name=f"mcp {self.name} connection")
        start_s = self.settings.start_timeout_s
        try:
            first: set[asyncio.Future[Any]] = {task, session.up}  # Any: two kinds of results, neither looked at
            await asyncio.wait(first, timeout=start_s, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and not session.up.done():
                session.lose(Lost(f"it did not start within {start_s:g} s", reached=False))
            either: set[asyncio.Future[Any]] = {task, session.broken}  # Any: as above
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._retire(session)
            lost = session.broken.result() if session.broken.done() else _ended_as(task)
            session.over.set_result(lost)
            task.cancel()
            _, late = await asyncio.wait({task}, timeout=END_S)
            task.add_done_callback(_forgotten)
            if late:
                log.error("mcp %s: its connection does not end; it is left behind", self.name)
        return lost

    async def _attend(self, session: Session, connection: Connection) -> None:
        """Stay with a connection until the other side is gone."""
        listing = await connection.listing()
        self._take(listing)
        self.condition = Condition(word="up", since=self._clock())
        session.up.set_result(connection)
        self._session = session
        self._changed()
        log.info("%s", self.line())
        watching = asyncio.create_task(self._watch(connection), name=f"mcp {self.name} changes")
        try:
            await connection.ended()
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    async def _watch(self, connection: Connection) -> None:
        while True:
            await connection.changed()
            await asyncio.sleep(_SETTLE_S)  # several changes in a row are one
            try:
                async with asyncio.timeout(self.settings.timeout_s):
                    self._take(await connection.listing())
            except (TimeoutError, Lost, Declined) as error:
                log.warning(
                    "mcp %s: its new list of tools cannot be had: %s",
                    self.name,
                    self._redact(str(error) or "no answer"),
                )
            else:
                log.info("%s", self.line())

    def _changed(self) -> None:
        self.settled.set()
        self._news.set()
        self._news = asyncio.Event()

    def _take(self, listing: Listing) -> None:
        self.listing = listing
        self._listed(listing)

    def _went_down(self, lost: Lost, delay_s: float, *, is_news: bool) -> None:
        now = self._clock()
        why = self._redact(str(lost))
        is_news = is_news or why != self.condition.why
        since = self.condition.since if self.condition.word == "down" else now
        self.condition = Condition(word="down", since=since, why=why, next_at=now + delay_s)
        self._changed()
        log.log(logging.WARNING if is_news else logging.DEBUG, "%s", self.line())

    # -- telling ---------------------------------------------------------------------------------------------------------------

    def told(self) -> str:
        """Say how it is."""
        return self._redact(told(self.condition, now=self._clock()))

    def line(self) -> str:
        """Return its line of a status."""
        offers = ""
        if self.condition.word == "up" and self.listing is not None:
            offers = f", {len(self.listing.tools)} tools" + (f" ({self.listing.server})" if self.listing.server else "")
        out: Mapping[str, str] = self.listing.left_out if self.listing is not None else {}
        left = f"; left out: {', '.join(f'{name} ({why})' for name, why in list(out.items())[:5])}" if out else ""
        return self._redact(f"mcp {self.name}: {self.told()}{offers}{left}{', …' if len(out) > 5 else ''}")


def _ended_as(task: "asyncio.Task[None]") -> Lost:
    """Return why a connection's task ended by itself."""
    if not task.done():
        return Lost("it was closed")
    if task.cancelled():
        return Lost("the connection broke")
    error = task.exception()
    if isinstance(error, Lost):
        return error
    if isinstance(error, Declined):
        return Lost(f"it does not say what it offers: {error}")
    return Lost(f"{type(error).__name__}: {error}" if error else "it closed the connection")


def _forgotten(task: "asyncio.Task[Any]") -> None:
    """Take note of an outcome that nobody waits for any more."""
    if not task.cancelled():
        task.exception()
