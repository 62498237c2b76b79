"""What a run needs around it when there is no session: for scripts and benchmarks that use ``AgentRunner`` alone."""

from pathlib import Path
from tempfile import gettempdir
from uuid import uuid4

from nanobot.agent.govern import Decided
from nanobot.agent.tools.base import Planned, ToolContext
from nanobot.bus.events import Media
from nanobot.bus.runtime_events import TurnEvent
from nanobot.messages import AssistantMessage, Message, ToolMessage, UserMessage
from nanobot.providers.base import LLMResponse
from nanobot.session.entries import BlobId, Effect, EntryId


class MemoryCheckpoint:
    """A ``Checkpoint`` that keeps a run's messages in memory.  What is cut from a result is not kept, and the cut says so."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._last_id = 0

    def new_id(self) -> EntryId:
        """Return e1, e2, and so on."""
        self._last_id += 1
        return f"e{self._last_id}"

    def answer(self, message: AssistantMessage, response: LLMResponse) -> None:
        """Keep the answer."""
        self.messages.append(message)

    def result(
        self,
        message: ToolMessage,
        *,
        blob: BlobId | None,
        duration_ms: float,
        media: tuple[Media, ...] = (),
        secret: str = "",
    ) -> None:
        """Keep the result."""
        self.messages.append(message)

    async def written(self) -> bool:
        """Return True: nothing outlives this run, so nothing is waited for."""
        return True

    def runtime(self, message: UserMessage) -> None:
        """Keep the message."""
        self.messages.append(message)

    def cut(self, cut: Decided) -> None:
        """Do nothing: the run remembers its boundaries itself."""

    async def intent(self, call: str, effect: Effect, planned: Planned) -> None:
        """Do nothing: no later process goes on with this run."""

    async def keep(self, text: str) -> BlobId | None:
        """Return None: it is not kept."""
        return None


def bare_context() -> ToolContext:
    """Return what tools may know: the current directory is the workspace, and nothing earlier can be read again."""
    return ToolContext(
        session_key="",
        turn="t1",
        call_id="",
        role="owner",
        workspace=Path.cwd(),
        scratch=Path(gettempdir()) / f"nanobot-{uuid4().hex}",
        full_result=_nothing_kept,
    )


def unheard(event: TurnEvent) -> None:
    """Tell nobody."""


async def unsteered() -> tuple[UserMessage, ...]:
    """Return nothing: nobody can say anything to this run."""
    return ()


async def _nothing_kept(entry: EntryId) -> str:
    raise KeyError(entry)
