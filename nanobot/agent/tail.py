"""What else is cut where the prefix changes anyway, and which rows need not be loaded any more."""

from contextlib import suppress

from nanobot.agent.passes import Boundaries
from nanobot.agent.plan import CannotFit, compacted, plan_messages
from nanobot.agent.snip import kept_before
from nanobot.agent.tokens import estimate_message
from nanobot.session.entries import Cut
from nanobot.session.log import number
from nanobot.session.manager import Session

_TAIL_SHARE = 0.6  # of the budget that the prompt after a summary may take at most


def shorten_tail(session: Session, at: Boundaries, *, budget: int) -> None:
    """Make every other cut that is due soon along with a summary: the prefix changes here anyway."""
    better = compacted(session.messages, at)
    with suppress(CannotFit):  # one message is longer than that; the check before the next request has the last word
        better = plan_messages(session.messages, better, budget=int(budget * _TAIL_SHARE))
    known = at.as_cuts()
    for name, where in better.as_cuts().items():
        if known.get(name) != where:
            session.append(
                Cut(id=session.log.new_id(), pass_name=name, at=f"e{where}", why="made along with a summary")
            )


def trim(session: Session, *, most_hidden: int) -> None:
    """Let go of rows that a snip leaves out and no summary will need: a reader of the log may stop behind them.

    If they were left out for the newest Turn, which may be taken back, they stay, as long as they take no more than ``most_hidden``
    tokens.
    """
    state = session.log
    snip, bare = state.cuts.get("snip"), state.cuts.get("bare")
    if snip is None or state.open is not None:
        return
    messages = state.messages
    before = number(snip.at)
    kept = kept_before(messages, before=before, bare_before=number(bare.at) if bare else 0)
    first = kept[0] if kept else next((i for i, m in enumerate(messages) if number(m.entry) >= before), None)
    newest = next((row for row in state.rows if row.turn == state.rows[-1].turn), None)
    is_for_newest = newest is not None and before >= number(newest.entry)
    if not first or (is_for_newest and sum(map(estimate_message, messages[:first])) <= most_hidden):
        return
    floor = state.floor(messages[first].entry)
    if floor:
        why, at = "left out of every prompt from here on", messages[first].entry
        session.append(Cut(id=state.new_id(), pass_name="trim", at=at, why=why, floor=floor, carry=state.carry()))
