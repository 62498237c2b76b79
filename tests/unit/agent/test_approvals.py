"""Calls that a person must allow: asked once, decided once, remembered, and never in anybody's way."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from nanobot.agent.gates import Allow, Ask, Verdict
from nanobot.agent.settings import AgentSettings
from nanobot.agent.tools.base import ToolContext
from nanobot.bus.events import Role
from nanobot.bus.runtime_events import Decided, Waiting
from nanobot.messages import ToolCall, ToolMessage
from nanobot.session.entries import Answer, Question
from tests.fakes.agent import KEY, Agent, Echo
from tests.fakes.provider import Step, calls, says


class Asking:
    """A gate that has a person asked about ``echo``."""

    async def review(self, call: ToolCall, arguments: Any, context: ToolContext) -> Verdict:  # Any: as a Gate's
        return Ask("May echo run?") if call.name == "echo" else Allow()


def _agent(*steps: Step, approval_s: float = 600.0, concurrency: int = 8) -> tuple[Agent, Echo]:
    echo = Echo()
    agent = Agent(
        steps,
        tools=[echo],
        gates=[Asking()],
        approval_s=approval_s,
        settings=AgentSettings(concurrency=concurrency),
    )
    return agent, echo


async def _asked(agent: Agent, times: int = 1) -> list[Waiting]:
    async with asyncio.timeout(5):
        while len(found := [e for e in agent.events if isinstance(e, Waiting)]) < times:  # noqa: ASYNC110  # no event for it
            await asyncio.sleep(0.001)
    return found


def _seen(agent: Agent) -> str:
    return next(m.text for m in agent.provider.requests[-1].messages[::-1] if isinstance(m, ToolMessage))


@pytest.mark.parametrize(
    ("reply", "ran", "told"),
    [("/approve", ["hi"], "hi"), ("/deny", [], "Not allowed: the person said no.")],
)
async def test_l01_a_call_waits_for_an_owner(reply: str, ran: list[str], told: str) -> None:
    """Nothing runs before the answer; the model is told what was decided."""
    agent, echo = _agent(calls(("echo", {"text": "hi"})), says("done"))
    async with agent:
        await agent.send("go")
        (question,) = await _asked(agent)
        assert echo.said == []
        await agent.send(reply)
        await agent.quiet()

        assert "echo" in question.question
        assert "/approve" in question.in_full
        assert echo.said == ran
        assert _seen(agent) == told


async def test_always_holds_for_this_conversation_and_over_restarts() -> None:
    """The question is not asked again here, but in other conversations."""
    again = [calls(("echo", {"text": "2"})), says("done")]
    agent, echo = _agent(calls(("echo", {"text": "1"})), says("done"), *again)
    async with agent:
        await agent.send("go")
        await _asked(agent)
        await agent.send("/approve always")
        await agent.quiet()
        await agent.send("again", after_s=60)
        await agent.quiet()
        assert echo.said == ["1", "2"]
    later = agent.after_restart([*again, *again])
    async with later:
        await later.send("and again", after_s=120)
        await later.quiet()
        await later.send("elsewhere", chat="2")
        await _asked(later)

        assert echo.said == ["1", "2", "2"]


async def test_nobodys_answer_is_a_no() -> None:
    """A question expires, and the Turn goes on."""
    agent, echo = _agent(calls(("echo", {"text": "hi"})), says("done"), approval_s=0.02)
    async with agent:
        await agent.send("go")
        await agent.quiet()
        late = await agent.ask("/approve")

        assert echo.said == []
        assert "did not answer in time" in _seen(agent)
        assert late.content == "Nothing waits for approval."


async def test_a_second_answer_hears_that_it_was_decided() -> None:
    """Two people press at once: the first counts."""
    agent, _ = _agent(calls(("echo", {"text": "hi"})), says("done"))
    async with agent:
        await agent.send("go")
        (question,) = await _asked(agent)
        session = agent.sessions.loaded(KEY)
        assert session is not None
        approvals = agent.approvals
        first = approvals.decide(session, "once", by="1", question=question.question_id)
        second = approvals.decide(session, "deny", by="2", question=question.question_id)
        await agent.quiet()

        assert first.text == "echo may run now."
        assert second.text == "That was decided already, or is not asked any more."
        answers = [entry for entry in await agent.entries() if isinstance(entry, Answer)]
        assert [(entry.by, entry.decision) for entry in answers] == [("1", "once")]


@pytest.mark.parametrize(("approval_s", "decision", "by"), [(600.0, "once", "42"), (0.02, "expired", "")])
async def test_whoever_shows_questions_is_told_how_they_ended(approval_s: float, decision: str, by: str) -> None:
    """Each ``Waiting`` is followed by one ``Decided`` that names the question and who decided."""
    agent, _ = _agent(calls(("echo", {"text": "hi"})), says("done"), approval_s=approval_s)
    async with agent:
        await agent.send("go")
        (question,) = await _asked(agent)
        session = agent.sessions.loaded(KEY)
        assert session is not None
        if by:
            agent.approvals.decide(session, "once", by=by)
        await agent.quiet()
        told = [event for event in agent.events if isinstance(event, Decided)]

    assert [(event.question_id, event.decision, event.by) for event in told] == [(question.question_id, decision, by)]


async def test_only_owners_decide() -> None:
    """Somebody with fewer rights is told so, and the question stays."""
    agent, echo = _agent(calls(("echo", {"text": "hi"})), says("done"))
    async with agent:
        await agent.send("go")
        await _asked(agent)
        await agent.send("/approve", role="user")
        await asyncio.sleep(0.01)
        assert agent.answers == ["Only an owner may decide this."]
        assert echo.said == []
        await agent.send("/approve")
        await agent.quiet()

        assert echo.said == ["hi"]


async def test_d40_a_waiting_turn_is_in_nobodys_way() -> None:
    """It gives its slot back: with one slot in all, another session's Turn runs meanwhile."""
    agent, echo = _agent(calls(("echo", {"text": "hi"})), says("other"), says("done"), concurrency=1)
    async with agent:
        await agent.send("go")
        await _asked(agent)
        other = await agent.ask("hello", key="test:2")
        await agent.send("/approve")
        await agent.quiet()

        assert other.content == "other"
        assert echo.said == ["hi"]


async def test_stop_ends_a_waiting_turn_at_once() -> None:
    """Also when every slot is taken by others."""
    agent, echo = _agent(calls(("echo", {"text": "hi"})))
    async with agent:
        await agent.send("go")
        await _asked(agent)
        await agent.send("/stop")
        await agent.quiet()

        assert echo.said == []
        assert (await agent.log()).open is None


async def test_a_question_survives_a_restart() -> None:
    """The same question waits in the next process, and is asked once in the log."""
    agent, echo = _agent(calls(("echo", {"text": "hi"})))
    async with agent:
        await agent.send("go")
        (before,) = await _asked(agent)
    later = agent.after_restart([says("done")])
    async with later:
        await later.loop.recover()
        (after,) = await _asked(later)
        await later.send("/approve")
        await later.quiet()

        assert after.question_id == before.question_id
        assert echo.said == ["hi"]
        assert len([e for e in await later.entries() if isinstance(e, Question)]) == 1


async def test_an_answer_given_before_a_crash_is_not_asked_for_again() -> None:
    """What was decided stands."""
    agent, echo = _agent(calls(("echo", {"text": "hi"})))
    async with agent:
        await agent.send("go")
        (question,) = await _asked(agent)
    async with agent.after_restart() as between, between.sessions.open(KEY) as session:
        await session.restore()
        answer = Answer(id=session.log.new_id(), question=question.question_id, by="42", decision="once")
        await session.append(answer)
    later = agent.after_restart([says("done")])
    async with later:
        await later.loop.recover()
        await later.quiet()

        assert echo.said == ["hi"]
        assert not [e for e in later.events if isinstance(e, Waiting)]


async def test_a_decision_counts_before_the_question_is_asked_again() -> None:
    """After a crash the Turn may not go on yet: what is pressed is on disk on return, and holds after another crash."""
    agent, echo = _agent(calls(("echo", {"text": "hi"})))
    async with agent:
        await agent.send("go")
        (question,) = await _asked(agent)
    between = agent.after_restart()
    async with between:
        told = await between.loop.decide(KEY, "always", by="42", role="owner", question=question.question_id)
        twice = await between.loop.decide(KEY, "deny", by="42", role="owner", question=question.question_id)
    later = agent.after_restart([says("done")])
    async with later:
        await later.loop.recover()
        await later.quiet()

        assert told.startswith("From now on in this conversation: echo, whatever it is given.")
        assert twice == "That was decided already, or is not asked any more."
        assert echo.said == ["hi"]
        assert [e for e in later.events if isinstance(e, Waiting)] == []
        assert [(e.question_id, e.decision, e.by) for e in later.events if isinstance(e, Decided)] == [
            (question.question_id, "always", "42")
        ]


async def test_words_that_waited_for_a_restart_decide() -> None:
    """An /approve that was accepted and not carried out is carried out beside the Turn that waits for it."""
    agent, echo = _agent(calls(("echo", {"text": "hi"})))
    async with agent:
        inbound = await agent.send("go")
        await _asked(agent)
        async with agent.sessions.open(KEY) as session:
            await session.accept(replace(inbound, id="test:1:99", text="/approve"))
    later = agent.after_restart([says("done")])
    async with later:
        await later.loop.recover()
        await later.quiet()

        assert echo.said == ["hi"]


async def test_where_nobody_can_be_asked_the_call_is_refused() -> None:
    """Scripts and one-off questions never hang on a question."""
    agent, echo = _agent(calls(("echo", {"text": "hi"})), says("ok"))
    async with agent:
        result = await agent.ask("go")

        assert result.content == "ok"
        assert echo.said == []
        assert "nobody can be asked here" in _seen(agent)


async def test_the_question_shows_all_of_the_call() -> None:
    """Nobody is asked to allow what they cannot see, however long it is."""
    text = "x" * 50_000 + " && rm -rf ~"
    agent, _ = _agent(calls(("echo", {"text": text})), says("done"))
    async with agent:
        await agent.send("go")
        (question,) = await _asked(agent)
        await agent.send("/deny")
        await agent.quiet()

        assert text in question.details
        assert question.always == "echo, whatever it is given"


async def test_what_is_always_allowed_can_be_seen_and_taken_back() -> None:
    """/approvals lists it; after /approvals clear the question is asked again."""
    again = [calls(("echo", {"text": "2"})), says("done")]
    agent, echo = _agent(calls(("echo", {"text": "1"})), says("done"), *again)
    async with agent:
        await agent.send("go")
        await _asked(agent)
        await agent.send("/approve always")
        await agent.quiet()
        listed = (await agent.ask("/approvals")).content
        wrong = (await agent.ask("/approvals clear 7")).content
        cleared = (await agent.ask("/approvals clear 1")).content
        await agent.send("again", after_s=60)
        await _asked(agent, 2)
        await agent.send("/deny")
        await agent.quiet()

        assert "1. echo, whatever it is given" in listed
        assert wrong == "There is no number 7; /approvals shows them."
        assert cleared == "Taken back: echo, whatever it is given."
        assert echo.said == ["1"]


@pytest.mark.parametrize("role", ["user", "member"])
async def test_only_owners_look_after_what_is_allowed(role: Role) -> None:
    """It is their word."""
    agent, _ = _agent()
    async with agent:
        await agent.send("/approvals clear", role=role)
        await agent.quiet()

        assert "may use /approvals" in agent.answers[0]


async def test_a_script_that_says_so_answers_itself() -> None:
    """Its Turns wait for ``decide`` instead of being refused."""
    echo = Echo()
    steps = [calls(("echo", {"text": "hi"})), says("done")]
    agent = Agent(steps, tools=[echo], gates=[Asking()], scripts_decide=True)
    async with agent:
        running = asyncio.create_task(agent.ask("go"))
        (question,) = await _asked(agent)
        await agent.loop.decide(KEY, "once", by="script", role="owner", question=question.question_id)
        result = await running

        assert (result.content, echo.said) == ("done", ["hi"])
