"""The agent loop: one Turn at a time per session, nothing lost, nothing done twice, every way in the same way."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from nanobot.agent.settings import AgentSettings
from nanobot.agent.tools.function import function_tool
from nanobot.agent.turn import TurnResult
from nanobot.bus.events import InboundMessage, Route, SessionKey, session_key
from nanobot.errors import Unavailable
from nanobot.messages import AssistantMessage, ToolMessage, UserMessage
from nanobot.providers.base import Emit, LLMRequest, LLMResponse
from nanobot.session.entries import Finished, Started, Step
from nanobot.session.store import Claim
from tests.fakes.agent import EPOCH, KEY, Agent, Blocker, Echo
from tests.fakes.provider import calls, says
from tests.fakes.store import MemoryStore


class Counter:
    """A model that takes a while and counts how many requests it serves at once."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0

    async def __call__(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1
        return says("done")


async def test_a_message_becomes_an_answer_and_both_are_logged() -> None:
    """The log holds the message, the Turn's beginning, the answer and the end, in this order."""
    async with Agent([says("Hello!")]) as agent:
        result = await agent.ask("hi")

        assert (result.content, result.stop_reason, result.error) == ("Hello!", "completed", None)
        kinds = [type(entry).__name__ for entry in await agent.entries()]
        assert kinds == ["InboundMessage", "Head", "Started", "Step", "Finished"]


async def test_c28_the_user_row_is_on_disk_before_the_first_model_call() -> None:
    """A process that dies in its first model call has lost nothing."""
    seen: list[type] = []

    async def look(request: LLMRequest, emit: Emit) -> LLMResponse:
        seen.extend(type(entry) for entry in await agent.entries())
        return says("ok")

    async with Agent([look]) as agent:
        await agent.ask("hi")

    assert Started in seen


async def test_tools_run_and_their_results_reach_the_model() -> None:
    """A call is run, logged and answered before the model is asked again."""
    echo = Echo()
    async with Agent([calls(("echo", {"text": "a"}), ("echo", {"text": "b"})), says("ok")], tools=[echo]) as agent:
        result = await agent.ask("go")

        assert result.tools_used == ("echo", "echo")
        results = [m.text for m in agent.provider.requests[1].messages if isinstance(m, ToolMessage)]
        assert results == ["a", "b"]


async def test_c01_direct_and_bus_turns_of_one_session_never_overlap() -> None:
    """Every entry point takes the same lock."""
    counter = Counter()
    async with Agent([counter] * 6) as agent:
        direct = [asyncio.create_task(agent.ask(f"d{i}")) for i in range(3)]
        for i in range(3):
            await agent.send(f"b{i}")
            await asyncio.sleep(0)
        await asyncio.gather(*direct)
        await agent.quiet()

        assert counter.most == 1


async def test_different_sessions_run_side_by_side_up_to_the_limit() -> None:
    """Keys do not wait for each other, but for slots."""
    counter = Counter()
    async with Agent([counter] * 6, settings=AgentSettings(concurrency=2)) as agent:
        await asyncio.gather(*(agent.ask("hi", key=f"test:{i}") for i in range(6)))

        assert counter.most == 2


async def test_c02_messages_keep_their_order_and_none_is_lost() -> None:
    """What arrives during a Turn is taken up in the order of arrival."""
    block = Blocker()
    settings = AgentSettings(busy="queue", join_within_s=0)
    steps = [calls(("block", {})), says("1"), says("2"), says("3"), says("4")]
    async with Agent(steps, tools=[block], settings=settings) as agent:
        for i in range(1, 5):
            await agent.send(f"m{i}", after_s=i)
        await block.entered.wait()
        block.gate.set()
        await agent.quiet()

        began = [e.message.text.split("\n")[0] for e in await agent.entries() if isinstance(e, Started)]
        assert began == ["m1", "m2", "m3", "m4"]
        assert agent.answers == ["1", "2", "3", "4"]


async def test_steering_reaches_the_running_turn() -> None:
    """By default a message that arrives during a Turn is seen by the model at the next iteration."""
    block = Blocker()
    async with Agent([calls(("block", {})), says("both")], tools=[block]) as agent:
        await agent.send("first")
        await block.entered.wait()
        await agent.send("second")
        block.gate.set()
        await agent.quiet()

        last = agent.provider.requests[1].messages[-1]
        assert isinstance(last, UserMessage)
        assert last.text.startswith("second")
        assert agent.answers == ["both"]
        assert not (await agent.log()).pending


async def test_steering_stops_at_a_command() -> None:
    """A command waits for the Turn's end, and so does what was sent after it."""
    block = Blocker()
    steps = [calls(("block", {})), says("one"), says("two")]
    async with Agent(steps, tools=[block]) as agent:
        await agent.send("first")
        await block.entered.wait()
        await agent.send("/model fake/other")
        await agent.send("second")
        block.gate.set()
        await agent.quiet()

        assert [a.split()[0] for a in agent.answers] == ["one", "This", "two"]
        assert agent.provider.requests[2].model == "other"


async def test_another_role_does_not_steer() -> None:
    """A Turn runs with the rights of who began it; a message with other rights is another Turn."""
    block = Blocker()
    async with Agent([calls(("block", {})), says("owner's"), says("user's")], tools=[block]) as agent:
        await agent.send("first")
        await block.entered.wait()
        await agent.send("second", role="user")
        block.gate.set()
        await agent.quiet()

        roles = [entry.role for entry in await agent.entries() if isinstance(entry, Started)]
        assert roles == ["owner", "user"]


async def test_replace_stops_the_turn_and_runs_the_new_message() -> None:
    """With busy: replace, the newest message wins."""
    block = Blocker()
    settings = AgentSettings(busy="replace", join_within_s=0)
    async with Agent([calls(("block", {})), says("new")], tools=[block], settings=settings) as agent:
        await agent.send("old")
        await block.entered.wait()
        await agent.send("new", after_s=5)
        await agent.quiet()

        assert agent.answers == ["new"]
        stops = [entry.stop_reason for entry in await agent.entries() if isinstance(entry, Finished)]
        assert stops == ["replaced", "completed"]


async def test_stop_acts_at_once_and_leaves_a_legal_log() -> None:
    """/stop ends the running tool, says what was stopped, and every call has a result."""
    block = Blocker()
    async with Agent([calls(("block", {})), says("later")], tools=[block]) as agent:
        await agent.send("go")
        await block.entered.wait()
        await agent.send("/stop")
        await agent.quiet()
        await agent.send("and now?", after_s=5)
        await agent.quiet()

        assert agent.answers == ["Stopped: block.", "later"]
        results = [m for m in agent.provider.requests[1].messages if isinstance(m, ToolMessage)]
        assert "stopped by the user" in results[0].text


@pytest.mark.parametrize(("words", "told"), [("/stop", "Stopped."), ("/new", "Started a new conversation.")])
async def test_a_stop_that_waited_for_a_restart_comes_first(words: str, told: str) -> None:
    """The Turn that it was meant for does not go on; the model is not asked again."""
    block = Blocker()
    async with Agent([calls(("block", {}))], tools=[block]) as agent:
        inbound = await agent.send("go")
        await block.entered.wait()
        async with agent.sessions.open(KEY) as session:
            await session.accept(replace(inbound, id="test:1:99", text=words))
    later = agent.after_restart()
    async with later:
        await later.loop.recover()
        await later.quiet()

        assert later.answers == [told]
        assert later.provider.requests == []
        assert (await later.log()).open is None


async def test_stop_with_nothing_running_says_so() -> None:
    """A stop that finds no run changes nothing."""
    async with Agent() as agent:
        result = await agent.ask("/stop")

        assert result.content == "Nothing is running."


async def test_stop_during_a_command_stops_nothing_and_says_so() -> None:
    """Only a run can be stopped: a summary that is being made goes on."""
    summary = asyncio.Event()

    async def slow(request: LLMRequest, emit: Emit) -> LLMResponse:
        await summary.wait()
        return says("")

    async with Agent([says("x" * 9_000)] * 3 + [slow] * 3) as agent:
        for text in ("a", "b", "c"):
            await agent.ask(text)
        compacting = asyncio.create_task(agent.ask("/compact"))
        while len(agent.provider.requests) < 4:  # noqa: ASYNC110  # the script has no event for it
            await asyncio.sleep(0.001)
        stopped = await agent.ask("/stop")
        summary.set()

        assert stopped.content == "Nothing is running."
        assert (await compacting).stop_reason == "command"


async def test_b10_new_answers_at_once_and_what_follows_begins_empty() -> None:
    """/new stops the running Turn, resets, and the next message sees none of the old conversation."""
    block = Blocker()
    async with Agent([says("old answer"), calls(("block", {})), says("fresh")], tools=[block]) as agent:
        await agent.send("old question")
        await agent.quiet()
        await agent.send("long work", after_s=5)
        await block.entered.wait()
        await agent.send("/new", after_s=6)
        await agent.send("/new", after_s=6)
        await agent.send("hello", after_s=7)
        await agent.quiet()

        texts = [m.text for m in agent.provider.requests[-1].messages]
        assert len(texts) == 1
        assert texts[0].startswith("hello")
        assert agent.answers[-1] == "fresh"


async def test_j04_a_cancelled_caller_leaves_a_legal_annotated_log() -> None:
    """Cancelling process_direct stops its Turn; the next call sees the text, the call and that it was interrupted."""
    block = Blocker()
    async with Agent([calls(("block", {})), says("ok")], tools=[block]) as agent:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await agent.ask("first")
        result = await agent.ask("second")

        assert result.content == "ok"
        sent = agent.provider.requests[1].messages
        assert sent[0].text.startswith("first")
        assert isinstance(sent[1], AssistantMessage)
        assert isinstance(sent[2], ToolMessage)
        assert "stopped" in sent[2].text


async def test_a_cancelled_caller_that_still_waits_takes_its_message_back() -> None:
    """A message that no Turn has taken up is withdrawn with its caller."""
    block = Blocker()
    async with Agent([calls(("block", {})), says("first done")], tools=[block]) as agent:
        first = asyncio.create_task(agent.ask("first"))
        await block.entered.wait()
        second = asyncio.create_task(agent.ask("second"))
        await asyncio.sleep(0.01)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        block.gate.set()

        assert (await first).content == "first done"
        await agent.quiet()
        assert not (await agent.log()).pending


async def test_a_repeated_direct_message_returns_the_recorded_result() -> None:
    """A message id is worked on once; asking again costs no model call, also after a restart."""
    async with Agent([says("once")]) as agent:
        first = await agent.ask("hi", message_id="mine")
        again = await agent.ask("hi", message_id="mine")

        assert again == first
        assert len(agent.provider.requests) == 1
    async with agent.after_restart() as later:
        assert (await later.ask("hi", message_id="mine")).content == "once"


async def test_the_same_direct_message_twice_at_once_runs_once() -> None:
    """Two callers with one message id get one Turn's result."""
    async with Agent([says("once")]) as agent:
        both = await asyncio.gather(agent.ask("hi", message_id="m"), agent.ask("hi", message_id="m"))

        assert [result.content for result in both] == ["once", "once"]
        assert len(agent.provider.requests) == 1


async def test_c25_a_message_delivered_twice_is_one_turn() -> None:
    """The platform's id makes a re-delivered update recognisable, also while its Turn runs and after a restart."""
    block = Blocker()
    async with Agent([calls(("block", {})), says("once")], tools=[block]) as agent:
        await agent.send("hi", message_id="test:1:7")
        await block.entered.wait()
        await agent.send("hi", message_id="test:1:7")
        block.gate.set()
        await agent.quiet()
        await agent.send("hi", message_id="test:1:7")
        await agent.quiet()

        assert agent.answers == ["once"]
    async with agent.after_restart() as later:
        await later.send("hi", message_id="test:1:7")
        await later.quiet()

        assert later.provider.requests == []


async def test_a_tool_that_calls_its_own_session_is_told_so() -> None:
    """Waiting for oneself would be for ever; it is an error the model sees, and the Turn goes on."""

    async def recurse() -> str:
        """Ask again."""
        return (await agent.loop.process_direct("inner", session_key=KEY)).content

    async with Agent([calls(("recurse", {})), says("ok")], tools=[function_tool(recurse)]) as agent:
        result = await agent.ask("go")

        assert result.content == "ok"
        told = agent.provider.requests[1].messages[-1].text
        assert "its own session" in told


async def test_a_child_turn_uses_its_parents_slot() -> None:
    """A tool may run a Turn of another session although every slot is taken by its own."""

    async def ask_other() -> str:
        """Ask another session."""
        return (await agent.loop.process_direct("inner", session_key="test:2")).content

    steps = [calls(("ask_other", {})), says("inner answer"), says("outer answer")]
    async with Agent(steps, tools=[function_tool(ask_other)], settings=AgentSettings(concurrency=1)) as agent:
        result = await agent.ask("go")

        assert result.content == "outer answer"
        assert agent.provider.requests[2].messages[-1].text == "inner answer"


async def test_e01_a_failed_model_call_is_told_and_never_becomes_speech() -> None:
    """The error reaches the person, not the transcript, and the next Turn works."""
    async with Agent([Unavailable("The provider is down."), says("back")]) as agent:
        failed = await agent.ask("hi")
        result = await agent.ask("again")

        assert (failed.stop_reason, failed.error, failed.content) == ("error", "The provider is down.", "")
        assert result.content == "back"
        assert not [m for m in agent.provider.requests[1].messages if isinstance(m, AssistantMessage)]


async def test_a_fault_in_a_stage_closes_the_turn_and_the_session_goes_on() -> None:
    """Whatever breaks inside a Turn ends in one sentence; the next message is answered."""

    def broken(request: LLMRequest, emit: Emit) -> LLMResponse:
        raise ZeroDivisionError

    async with Agent([broken, says("fine")]) as agent:
        failed = await agent.ask("hi")
        result = await agent.ask("again")

        assert failed.stop_reason == "error"
        assert "inside nanobot" in (failed.error or "")
        assert result.content == "fine"


async def test_the_time_limit_stops_a_turn_and_says_so() -> None:
    """A Turn that takes too long ends with a sentence, and its calls have results."""
    block = Blocker()
    async with Agent([calls(("block", {}))], tools=[block], settings=AgentSettings(turn_timeout_s=0.05)) as agent:
        await agent.send("go")
        await agent.quiet()

        assert "longer than the limit" in agent.answers[0]
        assert (await agent.log()).open is None


async def test_text_people_saw_is_kept_when_a_turn_is_stopped() -> None:
    """What was streamed stays in the conversation, marked as cut off."""
    from nanobot.bus.runtime_events import TextDelta

    async def trickle(request: LLMRequest, emit: Emit) -> LLMResponse:
        emit(TextDelta("The answer is"))
        await asyncio.sleep(60)
        raise AssertionError

    async with Agent([trickle, says("ok")]) as agent:
        first = asyncio.create_task(agent.ask("q"))
        await asyncio.sleep(0.02)
        await agent.ask("/stop")
        stopped = await first
        await agent.ask("go on")

        assert (stopped.content, stopped.stop_reason) == ("The answer is", "user_stop")
        kept = [m for m in agent.provider.requests[1].messages if isinstance(m, AssistantMessage)]
        assert [(m.text, m.cut_off) for m in kept] == [("The answer is", True)]


async def test_shutdown_leaves_the_turn_open_and_the_next_process_ends_it() -> None:
    """A restart in mid-Turn asks for no answer twice and runs no recorded call again."""
    block, echo = Blocker("idempotent"), Echo()
    agent = Agent([calls(("echo", {"text": "done"}), ("block", {}))], tools=[echo, block])
    async with agent:
        await agent.send("go")
        await block.entered.wait()
    assert (await agent.log()).open is not None

    block.gate.set()
    async with agent.after_restart([says("finished")]) as later:
        await later.loop.recover()
        await later.quiet()

        assert later.answers == ["finished"]
        assert (echo.said, block.runs) == (["done"], 2)
        assert len([e for e in await later.entries() if isinstance(e, Step) and e.finish == "tool_calls"]) == 1


async def test_c22_an_opaque_call_cut_by_a_crash_is_answered_as_unknown() -> None:
    """Nobody knows whether it happened: the model is told to check, and it does not run again."""
    block = Blocker("opaque")
    agent = Agent([calls(("block", {}))], tools=[block])
    async with agent:
        await agent.send("go")
        await block.entered.wait()

    async with agent.after_restart([says("I will check")]) as later:
        await later.loop.recover()
        await later.quiet()

        assert block.runs == 1
        assert "outcome unknown" in later.provider.requests[0].messages[-1].text


async def test_a_turn_interrupted_too_often_ends_with_one_sentence() -> None:
    """After three resumes the person is told, and nothing runs for ever."""
    block = Blocker("idempotent")
    agent = Agent([calls(("block", {}))], tools=[block])
    async with agent:
        await agent.send("go")
        await block.entered.wait()
    for _ in range(4):
        block.entered.clear()
        agent = agent.after_restart()
        async with agent:
            await agent.loop.recover()
            waiting = asyncio.create_task(block.entered.wait())
            await asyncio.wait({waiting, asyncio.create_task(agent.quiet())}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if agent.answers:
                break

    assert "interrupted by 4 restarts" in agent.answers[0]
    assert (await agent.log()).open is None


async def test_an_unfinished_direct_turn_is_closed_as_interrupted() -> None:
    """Nobody waits for it any more, so nothing runs and nothing is owed."""
    block = Blocker()
    agent = Agent([calls(("block", {}))], tools=[block])
    async with agent:
        waiting = asyncio.create_task(agent.ask("go"))
        await block.entered.wait()
    assert (await waiting).stop_reason == "shutdown"

    async with agent.after_restart([says("next")]) as later:
        await later.loop.recover()
        await later.quiet()
        result = await later.ask("hello")

        assert result.content == "next"
        assert block.runs == 1


async def test_pending_messages_survive_a_restart_and_are_answered_once() -> None:
    """C13: what was queued behind a Turn when the process ended is answered by the next one."""
    block = Blocker()
    settings = AgentSettings(busy="queue")
    agent = Agent([calls(("block", {}))], tools=[block], settings=settings)
    async with agent:
        await agent.send("long")
        await block.entered.wait()
        await agent.send("second", after_s=0.1)
        await agent.send("third", after_s=0.2)

    async with agent.after_restart([says("long done"), says("both")]) as later:
        await later.loop.recover()
        await later.quiet()

        assert later.answers == ["long done", "both"]
        texts = [e.message.text for e in await later.entries() if isinstance(e, Started)]
        assert "second" in texts[-1]
        assert "third" in texts[-1]


async def test_what_was_sent_during_downtime_gets_one_answer() -> None:
    """The first of ten messages that come late waits a moment for the others, however quick the model is."""
    async with Agent([says("all of them"), says("fresh")]) as agent:
        for number in range(10):
            await agent.send(f"m{number}", after_s=-3_600 + number)
            await asyncio.sleep(0.005)
        await agent.quiet()
        await agent.send("now")
        await agent.quiet()

        assert agent.answers == ["all of them", "fresh"]
        assert all(f"m{number}" in agent.provider.requests[0].messages[0].text for number in range(10))


async def test_an_owed_answer_is_published_again_after_a_restart() -> None:
    """An answer that no platform confirmed is still owed."""
    agent = Agent([says("owed")])
    async with agent:
        await agent.send("hi")
        await agent.quiet()
        assert agent.answers == ["owed"]

    async with agent.after_restart() as later:
        await later.loop.recover()
        assert later.answers == ["owed"]
        await later.deliver_all()
    async with agent.after_restart() as last:
        await last.loop.recover()
        assert last.answers == []


async def test_while_the_disk_refuses_messages_are_answered_from_memory_and_told() -> None:
    """The named exception: acknowledged and run, and the answer says first that it is not kept."""
    async with Agent([says("hello"), says("again")]) as agent:
        agent.store.world.refuses = "No space left on device"
        await agent.send("hi")
        await agent.quiet()
        agent.store.world.refuses = None
        await agent.send("better?", after_s=5)
        await agent.quiet()

        first, second = agent.answers
        assert first.startswith("⚠ This conversation cannot be kept at the moment: No space left on device")
        assert first.endswith("hello")
        assert second == "again"
        assert (await agent.log()).open is None


@pytest.mark.parametrize("text", ["/help", "/status", "/model", "/undo", "/retry", "/compact", "/stop", "/new", "/nwe"])
async def test_every_command_answers_in_an_empty_session(text: str) -> None:
    """No command needs a conversation to be there."""
    async with Agent() as agent:
        result: TurnResult = await agent.ask(text)

        assert result.stop_reason == "command"
        assert result.content


async def test_an_unknown_command_names_the_closest() -> None:
    """A typing mistake costs no model call."""
    async with Agent() as agent:
        result = await agent.ask("/hlep")

        assert "Did you mean /help?" in result.content


async def test_a_path_is_no_command() -> None:
    """Text that only begins with a slash goes to the model."""
    async with Agent([says("a file")]) as agent:
        result = await agent.ask("/etc/hosts what is it?")

        assert result.content == "a file"


async def test_undo_takes_the_last_turn_back_and_retry_runs_it_again() -> None:
    """Memory and disk agree, before and after a restart."""
    async with Agent([says("one"), says("two"), says("two again")]) as agent:
        await agent.ask("first")
        await agent.ask("second")
        retried = await agent.ask("/retry")
        undone = await agent.ask("/undo")

        assert retried.content == "two again"
        assert [m.text.split("\n")[0] for m in agent.provider.requests[2].messages] == ["first", "one", "second"]
        assert undone.content.startswith("Took back: second")
        assert [row.message.text.split("\n")[0] for row in (await agent.log()).rows] == ["first", "one"]


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("other", "fake/other"),
        ("fake/other", "fake/other"),
        ("local/qwen3:8b", "local/qwen3:8b"),
        ("othr", None),
        ("x/y", None),
    ],
)
async def test_l04_a_model_is_named_as_people_name_it(name: str, chosen: str | None) -> None:
    """By its reference, by its id alone, or as any model of a configured provider; a mistake lists the choices."""
    async with Agent() as agent:
        result = await agent.ask(f"/model {name}")

        assert (await agent.log()).settings.get("model") == chosen
        assert chosen or "local/…" in result.content


async def test_l04_a_sessions_model_is_its_own_and_survives_a_restart_and_new() -> None:
    """/model changes one conversation only."""
    async with Agent([says("a"), says("b")]) as agent:
        await agent.ask("/model fake/other")
        await agent.ask("hi")
        await agent.ask("hi", key="test:2")

        assert [request.model for request in agent.provider.requests] == ["other", "model"]
    async with agent.after_restart([says("c")]) as later:
        await later.ask("/new")
        await later.ask("hi")

        assert later.provider.requests[0].model == "other"


class Faulty(MemoryStore):
    """A store in which one session is beyond reading, for a reason nobody foresaw."""

    async def claim(self, key: SessionKey, owner: str) -> Claim:
        if key == "test:bad":
            raise RuntimeError("nobody foresaw this")
        return await super().claim(key, owner)


async def test_one_sessions_fault_keeps_no_other_from_being_recovered() -> None:
    """A start goes through all sessions with unfinished work, whatever is wrong with one."""
    async with Agent() as agent:
        for chat in ("bad", "good"):
            async with agent.sessions.open(f"test:{chat}") as session:
                await session.accept(inbound_of(chat))
    later = agent.after_restart([says("here")], store=Faulty)
    async with later:
        await later.loop.recover()
        await later.quiet()

        assert later.answers == ["here"]


def inbound_of(chat: str) -> InboundMessage:
    route = Route("test", chat)
    return InboundMessage(
        id=f"test:{chat}:1", session_key=session_key(route), sender="42", text="hi", route=route, at=EPOCH
    )


async def test_a_command_that_fails_is_answered_and_stops_nothing() -> None:
    """A fault of ours in an urgent command is one sentence; the loop goes on, and the command does not come again."""

    def notes() -> Sequence[str]:
        raise RuntimeError("nobody foresaw this")

    async with Agent([says("here")], notes=notes) as agent:
        await agent.send("/status")
        await agent.send("hello")
        await agent.quiet()

        assert "Something went wrong inside nanobot (RuntimeError)" in agent.answers[0]
        assert agent.answers[1:] == ["here"]


async def test_nobody_is_restarted_who_could_not_know_of_it_afterwards() -> None:
    """While the disk refuses, a restart would find its own command unanswered, again and again."""
    restarts: list[str] = []
    async with Agent(restart=lambda: restarts.append("now")) as agent:
        agent.store.world.refuses = "disk full"
        await agent.send("/restart")
        await agent.quiet()
        refused = agent.answers[-1]
        agent.store.world.refuses = None
        await agent.send("/restart")
        await agent.quiet()

        assert "I was not restarted: the disk cannot keep" in refused
        assert restarts == ["now"]
