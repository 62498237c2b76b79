"""What a tool is: a pydantic model of its arguments, a ``run``, and a few facts the runner plans by.

A tool answers with text for the model, and pictures if it has some, or raises ``ToolError`` with text for the model.  It never cuts
its own output to the budget (``results`` does), never logs, and never sees the conversation.  Whatever it starts, it ends when it
is cancelled.

Effect classes, for what happens to a call that has no recorded result after a crash:

``pure``        changes nothing: it is simply run again
``idempotent``  running it twice is running it once: it is run again
``verifiable``  ``plan`` says what the world looks like before and after; ``probe`` then decides
``opaque``      nobody can know: answered "interrupted; outcome unknown"
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel

from nanobot.agent.tools.threads import InThread, in_thread
from nanobot.bus.events import Media, Role, SessionKey
from nanobot.messages import JsonObject
from nanobot.session.entries import Effect
from nanobot.values import frozen

CutPolicy = Literal["head", "middle", "tail"]
"""Which part of a too long text is left out: ``tail`` keeps the beginning, ``head`` keeps the end, ``middle`` keeps both."""

ArgumentsT = TypeVar("ArgumentsT", bound=BaseModel)

Result: TypeAlias = "str | Sourced | Sends | Shown"
"""What a run may give: a text, somebody else's words, a text and a file for the chat, a text and pictures for the model."""

MAX_SHOWN = 8

_SUMMARY_CHARS = 120
_NAME_CHARS = 60


@frozen
class Sourced:
    """An observation in somebody else's words: data to the model, never instructions.

    ``origin`` says whose: ``web https://example.org/page``, ``mcp github``, ``file /etc/motd``.
    """

    text: str
    origin: str


@frozen
class Shown:
    """An observation with pictures for the model to see, kept already (see ``showing``); ``origin`` as in ``Sourced``.

    At most ``MAX_SHOWN`` of them are shown; the text should name them, for models that see none.
    """

    text: str
    images: tuple[Media, ...]
    origin: str = ""


@frozen
class Standing:
    """What a conversation holds at the moment: words of others (``untrusted``) and ``secrets``, each named.

    ``said`` tells whether an owner or a user wrote a word themselves.
    """

    untrusted: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    said: Callable[[str], bool] = lambda word: False


@frozen(kw_only=True)
class ToolContext:
    """What one call may know about where it runs.

    ``full_result`` returns the full text of an earlier result of this session by its entry id (``KeyError`` if there is none),
    ``Sourced`` where that one was.  ``standing`` returns what the conversation holds now.
    ``scratch`` is a private directory of this call, for files that must outlive a crash; ``session_files`` is one of the whole
    session, for what tools remember between calls (None: nothing is remembered).  They may not exist yet.
    ``in_thread`` is where a tool does its blocking work, most of it at least: other looks at the disk join it there.
    ``media`` is where files of chats are kept (None: nowhere); ``max_file_bytes`` is the largest one that the Turn's chat takes
    (None: any).
    """

    session_key: SessionKey
    turn: str
    call_id: str
    role: Role
    workspace: Path
    scratch: Path
    full_result: Callable[[str], Awaitable[str | Sourced]]
    standing: Callable[[], Standing] = Standing
    media: Path | None = None
    max_file_bytes: int | None = None
    session_files: Path | None = None
    in_thread: InThread = in_thread


@frozen
class Sends:
    """An observation that promises a file, kept already, to the Turn's own chat.

    The promise is the line in the log that holds the observation; the outbox keeps it, with the Turn's answer.  A tool that gives
    one has no effect but that, and may be run again.
    """

    text: str
    media: Media


@frozen
class Planned:
    """What a call will do to the world, logged as its intent before it starts."""

    before: JsonObject | None = None
    after: JsonObject | None = None


@frozen
class Probed:
    """What a probe found: the call is ``done`` (``text`` is its observation), ``not_done`` (run it), or ``unknown``."""

    outcome: Literal["done", "not_done", "unknown"]
    text: str = ""


class Tool(Protocol[ArgumentsT]):
    """The contract; ``BaseTool`` has the defaults."""

    name: str
    description: str
    arguments: type[ArgumentsT]
    schema: JsonObject | None  # what the model is told of the arguments, where their class does not say it
    effect: Effect
    concurrent: bool  # may run beside other concurrent calls of the same iteration
    chatty: bool  # old results may become one-line placeholders
    timeout_s: float | None  # None: the tool bounds itself
    max_observation_chars: int | None  # None: the agent-wide default
    cut: CutPolicy
    keeps_result: bool  # a result that was cut is stored for read_result
    says_unchanged: bool  # a result that the model still has before its eyes becomes one line
    outward: bool  # what it is given can leave this machine or reach another chat
    reads_unnamed: bool  # can read files that its arguments do not name

    def summary(self, arguments: ArgumentsT) -> str:
        """Return one short line for people: what this call does."""
        ...

    async def plan(self, arguments: ArgumentsT, context: ToolContext) -> Planned:
        """Say what will change.  Called before the intent of a verifiable or opaque call is logged."""
        ...

    async def run(self, arguments: ArgumentsT, context: ToolContext) -> Result:
        """Do it and return the observation.

        Raises:
            ToolError: it could not be done; the text is written for the model.
        """
        ...

    async def probe(self, arguments: ArgumentsT, context: ToolContext, planned: Planned) -> Probed:
        """Find out, after a crash, whether the planned change happened."""
        ...


class BaseTool(Generic[ArgumentsT]):
    """The defaults of a careful tool: opaque, alone, not chatty, a minute, cut in the middle."""

    name: str
    description: str
    arguments: type[ArgumentsT]
    schema: JsonObject | None = None
    effect: Effect = "opaque"
    concurrent: bool = False
    chatty: bool = False
    timeout_s: float | None = 60.0
    max_observation_chars: int | None = None
    cut: CutPolicy = "middle"
    keeps_result: bool = True
    says_unchanged: bool = False
    outward: bool = False
    reads_unnamed: bool = False

    summary_fields: ClassVar[tuple[str, ...]] = ()

    def summary(self, arguments: ArgumentsT) -> str:
        """Return the tool's name and the arguments named in ``summary_fields``, on one line."""
        values = (str(getattr(arguments, field)) for field in self.summary_fields)
        return one_line(" ".join((self.name, *values)))

    async def plan(self, arguments: ArgumentsT, context: ToolContext) -> Planned:
        """Promise nothing."""
        return Planned()

    async def run(self, arguments: ArgumentsT, context: ToolContext) -> Result:
        """Do it: the one thing that every tool says for itself."""
        raise NotImplementedError(f"the tool {self.name!r} has no run")

    async def probe(self, arguments: ArgumentsT, context: ToolContext, planned: Planned) -> Probed:
        """Know nothing."""
        return Probed("unknown")


def short_name(name: str) -> str:
    """Return a tool's name as people see it: a model may call what does not exist by a name of any length."""
    return one_line(name if len(name) <= _NAME_CHARS else name[: _NAME_CHARS - 1] + "…")


def one_line(text: str) -> str:
    """Return a summary as people see it: on one line, and not a long one."""
    line = text.replace("\n", " ⏎ ")
    return line if len(line) <= _SUMMARY_CHARS else line[: _SUMMARY_CHARS - 1] + "…"
