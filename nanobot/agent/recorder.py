"""A Turn's facts, on their way into the session log."""

from collections.abc import Awaitable
from contextlib import suppress

from nanobot.agent.govern import Decided
from nanobot.agent.tools.base import Planned
from nanobot.bus.events import Media
from nanobot.errors import DiskRefused, SessionError, StopCause, TurnStopped
from nanobot.messages import AssistantMessage, ToolMessage, UserMessage
from nanobot.providers.base import LLMResponse
from nanobot.session.entries import BlobId, Cut, Effect, EntryId, Intent, Step
from nanobot.session.manager import Session


class TurnRecorder:
    """The runner's ``Checkpoint`` over a session.  While the disk refuses, facts stay in memory and the Turn goes on."""

    def __init__(self, session: Session, *, turn: str, head: EntryId) -> None:
        self._session = session
        self._turn = turn
        self._head = head
        self.answers = 0
        self._closed: StopCause | None = None
        self._result: Awaitable[None] | None = None  # the newest one's way to the disk

    def close(self, cause: StopCause) -> None:
        """Take no facts any more: the Turn ends without its run, which ends at the first fact it brings."""
        self._closed = cause

    def new_id(self) -> EntryId:
        """Return the id of the next message to be logged.

        Raises:
            TurnStopped: the Turn did not wait for this run.
        """
        if self._closed is not None:
            raise TurnStopped(self._closed)
        return self._session.log.new_id()

    def answer(self, message: AssistantMessage, response: LLMResponse) -> None:
        """Log a model's answer with what it cost and who gave it."""
        self.answers += 1
        model = f"{response.provider}/{response.model}" if response.model else None
        self._session.append(
            Step(
                id=message.entry,
                turn=self._turn,
                message=message,
                finish=response.finish,
                usage=response.usage,
                model=model,
                head=self._head,
            )
        )

    def result(
        self,
        message: ToolMessage,
        *,
        blob: BlobId | None,
        duration_ms: float,
        media: tuple[Media, ...] = (),
        secret: str = "",
    ) -> None:
        """Log a call's result, and with it what is owed from then on."""
        step = Step(
            id=message.entry,
            turn=self._turn,
            message=message,
            blob=blob,
            duration_ms=round(duration_ms, 1),
            media=media,
            secret=secret,
        )
        self._result = self._session.append(step)

    async def written(self) -> bool:
        """Wait until the newest result is written; it need not be synced, as what stands in for it is not either."""
        try:
            if self._result is not None:
                await self._result
        except SessionError:
            return False
        return True

    def runtime(self, message: UserMessage) -> None:
        """Log a message that the runner adds itself."""
        self._session.append(Step(id=message.entry, turn=self._turn, message=message))

    def steered(
        self, message: UserMessage, inbound: tuple[str, ...], *, origins: tuple[str, ...] = (), secret: str = ""
    ) -> None:
        """Log a user message that came in while the Turn ran."""
        step = Step(id=message.entry, turn=self._turn, message=message, inbound=inbound, origins=origins, secret=secret)
        self._session.append(step)

    def cut_off(self, text: str) -> EntryId:
        """Log what people saw of an answer that did not end; return its entry."""
        message = AssistantMessage(text, cut_off=True, entry=self.new_id())
        self._session.append(Step(id=message.entry, turn=self._turn, message=message, finish="cut_off"))
        return message.entry

    def cut(self, cut: Decided) -> None:
        """Log that a boundary moved."""
        self._session.append(Cut(id=self.new_id(), pass_name=cut.pass_name, at=f"e{cut.at}", why=cut.why))

    async def intent(self, call: str, effect: Effect, planned: Planned) -> None:
        """Log what is about to happen; durable on return, unless the disk refuses."""
        entry = Intent(
            id=self.new_id(), turn=self._turn, call=call, effect=effect, before=planned.before, after=planned.after
        )
        with suppress(DiskRefused):  # kept in memory then; the answer will say so
            await self._session.append(entry, sync=True)

    async def keep(self, text: str) -> BlobId | None:
        """Keep the full text of a result that will be cut; None while the disk refuses."""
        try:
            return await self._session.put_blob(text.encode("utf-8", "replace"))
        except DiskRefused:
            return None
