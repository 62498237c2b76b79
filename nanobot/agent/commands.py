"""What people type with a slash: a table of small functions.

A command sees a ``CommandContext`` and returns an ``Outcome``: a text for the person, what it does to the session, or that a Turn
should follow.  Urgent ones are carried out while a Turn runs, without waiting for it.
"""

from collections.abc import Awaitable, Callable, Sequence
from difflib import get_close_matches
from inspect import isawaitable
from typing import TypeAlias

from nanobot.agent.approvals import Decision
from nanobot.agent.patterns import from_json
from nanobot.bus.events import Role
from nanobot.bus.runtime_events import Usage
from nanobot.errors import NotUndone
from nanobot.messages import JsonObject, ToolMessage, UserMessage
from nanobot.session.manager import Session
from nanobot.values import frozen

Restart: TypeAlias = Callable[[], "str | None"]
"""Begins to end the daemon in order, to start it over; or returns why it is not done."""


@frozen(kw_only=True)
class CommandContext:
    """What a command may know and use.

    ``stop`` stops the session's running Turn and returns what was running (None if nothing was).  ``compact`` carries ``/compact``
    out and returns a sentence.  ``take_back_files`` puts back the files that a Turn wrote and returns their names, or raises
    ``NotUndone``.  ``decide`` answers a question that waits (the oldest one, unless it is named) and returns a sentence.  ``role``
    is that of whoever typed it; ``restart`` is None where there is no daemon.
    ``stop`` stops the session's running Turn and returns what was running (None if nothing was).  ``jobs`` names the
    background jobs that run.  ``compact`` carries ``/compact`` out and returns a sentence.  ``take_back_files`` puts back the files
    that a Turn wrote and returns their names, or raises ``NotUndone``.  ``decide`` answers a question that waits (the oldest one,
    unless it is named) and returns a sentence.
    """

    session: Session
    model: str
    models: Sequence[str]
    providers: Sequence[str]
    status: Callable[[], str]
    stop: Callable[[], str | None]
    jobs: Callable[[], Sequence[str]]
    compact: Callable[[str], Awaitable[str]]
    take_back_files: Callable[[str], Awaitable[Sequence[str]]]
    decide: Callable[[Decision, str], str]
    role: Role = "owner"
    restart: Restart | None = None


@frozen(kw_only=True)
class Outcome:
    """What came of a command: ``text`` is the answer; ``retries`` names a Turn to run again instead of answering."""

    text: str = ""
    effect: JsonObject | None = None
    retries: str | None = None


Run: TypeAlias = Callable[[CommandContext, str], "Outcome | Awaitable[Outcome]"]


@frozen
class Command:
    """One command: its name, a line of help, and what it does with the rest of the line."""

    name: str
    help: str
    run: Run
    urgent: bool = False  # carried out at once, without the session's lock
    ends_turn: bool = False  # stops the running Turn before it is taken up in its order
    for_members: bool = False  # anybody in an admitted group may use it
    for_owners: bool = False  # only owners may


def is_command(text: str) -> bool:
    """Say whether a message is meant as a command: a slash and a letter at its very beginning (a path is not)."""
    word = text.split(None, 1)[0] if text.startswith("/") else ""
    return len(word) > 1 and word[1].isalpha() and "/" not in word[1:]


def parse(text: str) -> tuple[str, str]:
    """Return the command's name, in lower case and without ``@bot``, and the rest of the text."""
    word, *rest = text.split(None, 1)
    return word[1:].partition("@")[0].lower(), "".join(rest).strip()


def find(text: str) -> Command | None:
    """Return the command that a message is; None for an unknown one and for any other message."""
    return COMMANDS.get(parse(text)[0]) if is_command(text) else None


def refusal(text: str, *, sender: str, role: Role, starter: str | None) -> str | None:
    """Return why somebody may not use this command; None if they may, or if there is no such command.

    Args:
        text: the command.
        sender: who sent it.
        role: with which rights.
        starter: who started the Turn that runs now; None when none does.
    """
    command = find(text)
    if command is None or role == "owner":
        return None
    if role == "member" and not command.for_members:
        return f"Only owners and people admitted by name may use /{command.name}."
    if command.for_owners:
        return f"Only an owner may use /{command.name}."
    if command.name == "stop" and not may_stop(sender=sender, role=role, starter=starter):
        return "Only an owner may stop what somebody else started."
    return None


def may_stop(*, sender: str, role: Role, starter: str | None) -> bool:
    """Say whether somebody may stop the running Turn: their own, or, for owners, any."""
    return role == "owner" or starter in (None, sender)


async def run(text: str, context: CommandContext) -> Outcome:
    """Carry a command out; an unknown one is answered with the closest known."""
    name, rest = parse(text)
    command = COMMANDS.get(name)
    if command is None:
        return unknown(name)
    outcome = command.run(context, rest)
    return await outcome if isawaitable(outcome) else outcome


def unknown(name: str) -> Outcome:
    """Return the answer to a command that does not exist."""
    close = get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
    hint = f" Did you mean /{close[0]}?" if close else ""
    return Outcome(text=f"There is no command /{name}.{hint} /help lists them.")


def _help(context: CommandContext, rest: str) -> Outcome:
    return Outcome(text="\n".join(f"/{command.name} - {command.help}" for command in COMMANDS.values()))


def _new(context: CommandContext, rest: str) -> Outcome:
    return Outcome(text="Started a new conversation.", effect={"type": "reset"})


def _stop(context: CommandContext, rest: str) -> Outcome:
    stopped = context.stop()
    text = "Nothing is running." if stopped is None else f"Stopped{stopped and ': ' + stopped}."
    return Outcome(text="\n".join([text, *_in_background(context)]))


def _in_background(context: CommandContext) -> list[str]:
    jobs = context.jobs()
    return [f"In the background goes on: {', '.join(jobs)}."] if jobs else []


def _status(context: CommandContext, rest: str) -> Outcome:
    return Outcome(text="\n".join([context.status(), *_in_background(context)]))


def _model(context: CommandContext, rest: str) -> Outcome:
    if not rest:
        return Outcome(text=f"This conversation uses {context.model}. {_choices(context)} /model NAME changes it.")
    if rest in ("default", "reset"):
        again = "This conversation uses the configured model again."
        return Outcome(text=again, effect={"type": "settings", "model": None})
    chosen = _chosen_model(context, rest)
    if chosen is None:
        close = get_close_matches(rest, context.models, n=1, cutoff=0.4)
        hint = f" Did you mean {close[0]}?" if close else ""
        return Outcome(text=f"There is no model {rest!r}.{hint} {_choices(context)}")
    return Outcome(text=f"This conversation uses {chosen} from now on.", effect={"type": "settings", "model": chosen})


def _chosen_model(context: CommandContext, name: str) -> str | None:
    """Return the reference meant: a configured one, also without its provider, or any model of a configured provider."""
    provider, slash, model = name.partition("/")
    if slash and model and provider in context.providers:
        return name
    return next((ref for ref in context.models if ref.partition("/")[2] == name), None)


def _choices(context: CommandContext) -> str:
    others = ", ".join(f"{provider}/…" for provider in context.providers)
    return f"Configured: {', '.join(context.models)}; any model of a provider can be named ({others})."


def _retry(context: CommandContext, rest: str) -> Outcome:
    turn = _last_turn(context.session)
    return Outcome(text="There is nothing to retry.") if turn is None else Outcome(retries=turn)


def _approve(context: CommandContext, rest: str) -> Outcome:
    words = rest.split()
    decision: Decision = "always" if words[:1] == ["always"] else "once"
    return Outcome(text=context.decide(decision, " ".join(words[1:] if decision == "always" else words)))


def _deny(context: CommandContext, rest: str) -> Outcome:
    return Outcome(text=context.decide("deny", rest))


def _restart(context: CommandContext, rest: str) -> Outcome:
    if context.role != "owner":
        return Outcome(text="Only an owner may restart me.")
    if context.restart is None:
        return Outcome(text="There is no daemon here to be restarted.")
    if context.session.refusing:  # the message would come again, and nobody would know that it was done
        return Outcome(text=f"I was not restarted: the disk cannot keep that it was done ({context.session.refusing}).")
    refusal = context.restart()
    if refusal is not None:
        return Outcome(text=f"I was not restarted: {refusal}")
    return Outcome(text="Restarting. I will say when I am back.", effect={"type": "restart"})


def _approvals(context: CommandContext, rest: str) -> Outcome:
    allowed = list(context.session.log.allowed)
    word, _, which = rest.partition(" ")
    if word != "clear":
        lines = [f"{at}. {from_json(one)}" for at, one in enumerate(allowed, 1)]
        how = "/approvals clear takes all of it back, /approvals clear 1 one."
        return Outcome(
            text="\n".join(["Allowed in this conversation:", *lines, how]) if lines else "Nothing is allowed always."
        )
    if not which:
        return Outcome(text="Nothing is allowed always any more.", effect={"type": "settings", "allowed": []})
    if not which.isdigit() or not 0 < int(which) <= len(allowed):
        return Outcome(text=f"There is no number {which}; /approvals shows them.")
    gone = allowed.pop(int(which) - 1)
    return Outcome(text=f"Taken back: {from_json(gone)}.", effect={"type": "settings", "allowed": allowed})


async def _undo(context: CommandContext, rest: str) -> Outcome:
    turn = _last_turn(context.session)
    if turn is None:
        summary = (
            " Older messages are a summary; /compact undo brings them back." if context.session.log.summary else ""
        )
        return Outcome(text=f"There is nothing to undo.{summary}")
    rows = context.session.log.turn_rows(turn)
    said = next((row.message.text for row in rows if isinstance(row.message, UserMessage)), "")
    said = said.rpartition("\n\n[")[0]  # without the runtime block
    used = {row.message.name for row in rows if isinstance(row.message, ToolMessage)}
    notes: list[str] = []
    if rest != "chat":
        try:
            files = await context.take_back_files(turn)
        except NotUndone as error:
            return Outcome(text=f"Nothing was undone: {error}. /undo chat takes back the conversation only.")
        notes += [f"Files put back: {', '.join(files)}."] if files else []
    elif used & _WRITES:
        notes.append("Files were left as they are.")
    if "exec" in used:
        notes.append("Not undone: what commands did.")
    if "send_file" in used:
        notes.append("Files that were sent already stay in the chat.")
    return Outcome(text="\n".join([f"Took back: {_short(said)}", *notes]), effect={"type": "undo", "target": turn})


async def _compact(context: CommandContext, rest: str) -> Outcome:
    return Outcome(text=await context.compact(rest))


_WAITING_SHOWN = 5
_WRITES = frozenset({"write_file", "edit_file", "apply_patch"})

COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command("help", "what you can type", _help, for_members=True),
        Command("new", "start a new conversation", _new, ends_turn=True),
        Command("stop", "stop what is running", _stop, urgent=True, for_members=True),
        Command("status", "model, context use and state", _status, urgent=True, for_members=True),
        Command(
            "approve", "let a call run that waits for it; /approve always: calls like it, too", _approve, urgent=True
        ),
        Command("deny", "do not let it run", _deny, urgent=True),
        Command("restart", "start me over; what runs goes on afterwards (owners only)", _restart, urgent=True),
        Command(
            "approvals", "what is always allowed here; /approvals clear [N] takes it back", _approvals, for_owners=True
        ),
        Command("model", "show or change this conversation's model", _model),
        Command("retry", "run the last message again", _retry),
        Command("undo", "take the last message back, with its answer and the files it wrote", _undo),
        Command("compact", "summarize older messages now; /compact undo takes the summary back", _compact),
    )
}


def status_text(
    *,
    model: str,
    context_line: str,
    usage: Usage,
    running: str | None,
    disk: str | None,
    waiting: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> str:
    """Return what /status says, a fact a line.  ``waiting`` are tools that the conversation does not know yet."""
    lines = [
        f"Model: {model}",
        f"Context: {context_line}",
        f"Tokens so far: {usage.input_tokens} in ({usage.cached_tokens} cached), {usage.output_tokens} out",
        f"Running: {running if running is not None else 'nothing'}",
    ]
    if disk:
        lines.append(f"Disk: cannot keep this conversation now ({disk})")
    lines += notes
    if waiting:
        names = ", ".join(waiting[:_WAITING_SHOWN]) + (", …" if len(waiting) > _WAITING_SHOWN else "")
        lines.append(f"New tools wait for the next cut; /new or /compact brings them: {names}")
    return "\n".join(lines)


def _last_turn(session: Session) -> str | None:
    rows = session.log.rows
    return rows[-1].turn if rows and rows[-1].turn else None


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:79] + "…"
