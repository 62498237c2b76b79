"""kill -9 at every record of a Turn, and in the middle of every record: the end is that of the undisturbed run.

The real gateway between the strict Bot API server and the strict model server; what counts is counted there and in the world.
"""

import asyncio
import difflib
import json
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from nanobot.session.entries import Delivery, Entry
from tests.crash import scripted
from tests.crash.forge import STARTED, Forge, Gateway, Moment, Order, forge
from tests.fakes.llm_server import LLMServer
from tests.fakes.telegram_server import TelegramServer

KEY = "tg:1"
TOKEN = "42:TEST"
REPEAT = "(may be a repeat)"
MOST_CALLS = 400
PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended.  ``left`` is what was on disk when it was killed, ``asked_again`` the model's requests after that."""

    was_killed: bool
    left: Sequence[Entry]
    asked_again: int
    transcript: Sequence[str]
    effects: dict[str, object]
    answers: Sequence[str]
    faults: Sequence[str]
    records: int


def write_config(home: Path, model: LLMServer, telegram: TelegramServer, *, drafts: bool) -> None:
    settings = {
        "workspace": str(home / "work"),
        "data_dir": str(home / "data"),
        "providers": {"local": {"type": "openai", "api_key": "k", "base_url": f"{model.url}/v1"}},
        "agent": {"model": "local/test-model", "join_within_s": 0},
        "gateway": {"shutdown_grace_s": 0},
        "channels": {
            "tg": {
                "type": "telegram",
                "token": TOKEN,
                "base_url": telegram.base_url,
                "allow_from": [1],
                "edit_interval_s": 0.05,
                "stream_drafts": drafts,
            }
        },
    }
    (home / "config.yaml").write_text(json.dumps(settings))


async def run(one: Forge, order: Order, *, drafts: bool) -> Ending:
    """Run the Turn in a gateway that is killed as ordered, then go on in a second one until all is settled."""
    home = Path(order.home)
    home.mkdir()
    scripted.prepare(home / "work")
    script = scripted.Script(gate=asyncio.Event())
    async with LLMServer() as model, TelegramServer(TOKEN) as telegram:
        model.responder = script
        write_config(home, model, telegram, drafts=drafts)
        talk = asyncio.create_task(_talk(home, telegram, script))
        try:
            gateway = await one.start(order)
            code = await _until_over(gateway, home, talk)
            left, before = scripted.entries(home / "data", KEY), sum(script.asked.values())
            was_killed = code == -signal.SIGKILL
            if was_killed:
                gateway = await one.start(Order(str(home)))
                code = await _until_over(gateway, home, talk)
            assert code == 0, (home / "gateway.log").read_text()
            await talk
        finally:
            talk.cancel()
        faults = [*model.refusals, *_calls_gone_wrong(telegram)]
        found, log = scripted.entries(home / "data", KEY), scripted.folded(home / "data", KEY)
        return Ending(
            was_killed=was_killed,
            left=left,
            asked_again=sum(script.asked.values()) - before,
            transcript=scripted.transcript(log),
            effects=scripted.effects(home / "work"),
            answers=telegram.chat(1).answers,
            faults=[*faults, *scripted.log_faults(found, log)],
            records=len(found) + 1,  # and the header
        )


async def _talk(home: Path, telegram: TelegramServer, script: scripted.Script) -> None:
    """Be the person, over any number of gateways: ask, steer while the command runs, let things go on once that is accepted."""
    telegram.push_text(1, scripted.ASKED)
    await _until(lambda: (home / "work" / "counter").exists() or script.asked[2] > 0)
    telegram.push_text(1, scripted.STEERED)
    await _until(lambda: not telegram.updates.waiting)  # acknowledged: in the log, and known to the Turn
    (home / "work" / "go").touch()
    script.gate.set()


async def _until_over(gateway: Gateway, home: Path, talk: "asyncio.Task[None]") -> int:
    """Wait until the gateway dies, or is up and has nothing left to do, then end it; return its exit code."""

    def is_settled() -> bool:
        if gateway.ended.done():
            return True
        is_up = "ready: tg up" in (home / "gateway.log").read_text().rpartition(STARTED)[2]
        log = scripted.folded(home / "data", KEY)
        return is_up and talk.done() and log.settled() and bool(log.rows)

    try:
        await _until(is_settled)
    except TimeoutError:
        await gateway.stop(signal.SIGKILL)
        log = (home / "gateway.log").read_text()
        raise AssertionError(f"it never settled:\n{scripted.entries(home / 'data', KEY)}\n{log}") from None
    return await gateway.stop()


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110  # other processes have no events
            await asyncio.sleep(0.01)


def _calls_gone_wrong(telegram: TelegramServer) -> list[str]:
    return [
        f"{call.method}: {call.error}" for call in telegram.calls if call.error and "not modified" not in call.error
    ]


# -- the comparison ------------------------------------------------------------------------------------------------------------


def differences(ending: Ending, undisturbed: Ending) -> list[str]:
    """Return what is not as in the undisturbed run and may not differ."""
    wrong = [*ending.faults]
    wrong += difflib.unified_diff(_comparable(undisturbed), _comparable(ending), lineterm="", n=0)
    steered = sum(scripted.STEERED in said for said in ending.transcript)
    if steered != 1:
        wrong.append(f"the steering message stands {steered} times")
    is_unknown = any("outcome unknown" in said for said in ending.transcript)
    in_other_words = sum(said.startswith(other) for said in ending.transcript for _, other in _AFTER_A_RESTART)
    if in_other_words > 1:
        wrong.append(f"{in_other_words} calls were taken for interrupted")
    if ending.effects["commands"] != 1 and not (is_unknown and ending.effects["commands"] == 0):
        wrong.append(f"the command ran {ending.effects['commands']} times")
    if {**ending.effects, "commands": 1} != undisturbed.effects:
        wrong.append(f"the effects are {ending.effects}")
    if ending.was_killed and ending.asked_again != scripted.REQUESTS - scripted.answers_on_disk(ending.left):
        wrong.append(f"asked {ending.asked_again} times with {scripted.answers_on_disk(ending.left)} answers on disk")
    return wrong + _delivery_differences(ending, undisturbed)


# What a call's result may say after a restart instead: the command's end was not seen, or the change was found done.
_AFTER_A_RESTART = (
    ("ToolMessage counted", "ToolMessage Interrupted by a restart; outcome unknown"),
    ("ToolMessage Created note.txt", "ToolMessage Done: note.txt has its new content"),
    ("ToolMessage Changed journal", "ToolMessage Done: journal has its new content"),
)


def _comparable(ending: Ending) -> list[str]:
    """Return the transcript without what may differ: when the steering came, and how the result of the killed call is put."""
    kept: list[str] = []
    for said in ending.transcript:
        same = [one for one, other in _AFTER_A_RESTART if said.startswith((one, other))]
        kept += same or ([] if scripted.STEERED in said else [said])
    return kept


def _delivery_differences(ending: Ending, undisturbed: Ending) -> list[str]:
    """Return what is wrong with what the person sees; only a part that was under way may be there twice, and says so."""
    last = {one.part: one.state for one in ending.left if isinstance(one, Delivery)}
    in_doubt = sum(state in ("sending", "reserving") for state in last.values())
    repeats = [text for text in ending.answers if text.startswith(REPEAT)]
    wrong = [] if len(repeats) <= in_doubt else [f"{len(repeats)} marked repeats"]
    seen = Counter(text.removeprefix(REPEAT).strip() for text in ending.answers)
    expected = Counter(text.strip() for text in undisturbed.answers)
    missing, more = expected - seen, seen - expected
    if missing:
        wrong.append(f"{missing.total()} parts of the answer are missing: {ending.answers}")
    if more.total() > in_doubt:
        wrong.append(f"{more.total()} messages too many: {[text[:80] for text in ending.answers]}")
    return wrong


@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    ("moment", "drafts"),
    [("after", True), ("after", False), ("inside", True), ("inside", False), ("call", True)],
)
async def test_a_kill_at_any_moment_ends_like_the_undisturbed_run(tmp_path: Path, moment: Moment, drafts: bool) -> None:
    """After or inside each record, before each system call: transcript, requests, effects and chat are as if nothing had been."""
    async with forge() as one, forge() as two:
        undisturbed = await run(one, Order(str(tmp_path / "undisturbed")), drafts=drafts)
        assert undisturbed.faults == []
        assert len(undisturbed.answers) == 2
        last = MOST_CALLS if moment == "call" else undisturbed.records
        todo = list(range(last, 0, -1))
        wrong: list[str] = []

        async def work(mine: Forge) -> None:
            while todo:
                at = todo.pop()
                ending = await run(mine, Order(str(tmp_path / str(at)), at, moment), drafts=drafts)
                wrong.extend(f"{moment} {at}: {line}" for line in differences(ending, undisturbed))
                if not ending.was_killed:
                    todo.clear()

        async with asyncio.TaskGroup() as group:
            for mine in (one, two):
                group.create_task(work(mine))

    assert not wrong, "\n".join(wrong)
