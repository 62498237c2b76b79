"""The daemon as a process: starting, ending, starting over, and knowing how it is."""

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nanobot.gateway.status import LOCK_NAME
from tests.e2e.command import Home
from tests.e2e.daemons import Place, get
from tests.fakes.llm_server import Call, LLMServer, Reply
from tests.fakes.telegram_server import TelegramServer

QUEUE = {"model": "local/test-model", "join_within_s": 0, "busy": "queue"}


async def test_it_answers_and_ends_in_order(tmp_path: Path) -> None:
    """A message is accepted, answered and crossed off; SIGTERM ends with exit code 0, READY before and STOPPING after."""
    async with LLMServer([Reply("hello there")]) as server:
        place = Place(tmp_path, server)
        async with place.gateway() as daemon:
            accepted = await daemon.say("hi", number="1")
            again = await daemon.say("hi", number="1")
            answers = await daemon.answers(1)
            code = await daemon.stop()

    assert (accepted, again) == ("Accepted", "Duplicate")
    assert answers == ["hello there"]
    assert code == 0, daemon.log
    assert [line for line in daemon.listen() if line in ("READY=1", "STOPPING=1")] == ["READY=1", "STOPPING=1"]


async def test_c13_what_runs_or_waits_is_answered_once_after_a_restart(tmp_path: Path) -> None:
    """SIGTERM during a Turn with messages queued behind it: after the next start each is answered, once."""
    never = Reply("too late", gate=asyncio.Event())
    async with LLMServer([never, Reply("one"), Reply("two"), Reply("three")]) as server:
        place = Place(tmp_path, server, gateway={"shutdown_grace_s": 0.1}, agent=QUEUE)
        async with place.gateway() as daemon:
            await daemon.say("first", number="1")
            await daemon.until(lambda: server.chats, "a model call")
            await daemon.say("second", number="2")
            await daemon.say("third", number="3")
            first = await daemon.stop()
        async with place.gateway() as daemon:
            await daemon.answers(3)
            again = await daemon.say("third", number="3")
            second = await daemon.stop()

    assert (first, second) == (0, 0)
    assert place.texts == ["one", "two", "three"]
    assert again == "Duplicate"
    assert len(server.chats) == 4
    assert not server.refusals


async def test_a_turn_that_ends_in_its_grace_time_is_answered_before_the_end(tmp_path: Path) -> None:
    """SIGTERM lets a running Turn end, and its answer goes out, before the process ends."""
    gate = asyncio.Event()
    async with LLMServer([Reply("in time", gate=gate)]) as server:
        place = Place(tmp_path, server)
        async with place.gateway() as daemon:
            await daemon.say("hi", number="1")
            await daemon.until(lambda: server.chats, "a model call")
            daemon.signals(signal.SIGTERM)
            await daemon.tells("STOPPING=1")
            gate.set()
            code = await daemon.ends()

    assert code == 0
    assert place.texts == ["in time"]


async def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    """Whoever asks twice does not wait for Turns; the message is answered after the next start all the same."""
    async with LLMServer([Reply("never", gate=asyncio.Event()), Reply("later")]) as server:
        place = Place(tmp_path, server)
        async with place.gateway() as daemon:
            await daemon.say("hi", number="1")
            await daemon.until(lambda: server.chats, "a model call")
            daemon.signals(signal.SIGTERM)
            await daemon.tells("STOPPING=1")
            daemon.signals(signal.SIGTERM)
            code = await daemon.ends()
        async with place.gateway() as daemon:
            answers = await daemon.answers(1)

    assert code == 128 + signal.SIGTERM
    assert answers == ["later"]


async def test_c11_a_second_gateway_is_refused(tmp_path: Path) -> None:
    """Two gateways cannot share a data directory: the second ends, names the first one's process, and disturbs nothing."""
    async with LLMServer([Reply("still here")]) as server:
        place = Place(tmp_path, server)
        async with place.gateway() as first:
            async with place.gateway(is_ready=False) as second:
                code = await second.ends()
            await first.say("hi", number="1")
            answers = await first.answers(1)

    assert code == 1
    assert f"process {first.process.pid}" in second.log
    assert "another gateway is running" in second.log
    assert answers == ["still here"]


async def test_sighup_starts_over_with_a_good_config(tmp_path: Path) -> None:
    """SIGHUP takes a changed configuration without another process id; what was running goes on and is answered once."""
    async with LLMServer([Reply("never", gate=asyncio.Event()), Reply("after")]) as server:
        place = Place(tmp_path, server, gateway={"shutdown_grace_s": 0.1})
        async with place.gateway() as daemon:
            await daemon.say("hi", number="1")
            await daemon.until(lambda: server.chats, "a model call")
            place.write(gateway={"health_port": 0})
            daemon.signals(signal.SIGHUP)
            await daemon.tells("READY=1", times=2)
            answers = await daemon.answers(1)
            status = await daemon.status()
            code = await daemon.stop()

    assert answers == ["after"]
    assert status["pid"] == daemon.process.pid
    assert status["health_url"] is not None
    assert code == 0, daemon.log
    assert any(line.startswith("RELOADING=1") for line in daemon.listen())


async def test_sighup_refuses_a_bad_config(tmp_path: Path) -> None:
    """A bad configuration is named in the log and changes nothing: the old gateway goes on."""
    async with LLMServer([Reply("still here")]) as server:
        place = Place(tmp_path, server)
        async with place.gateway() as daemon:
            place.write(agnet={})
            daemon.signals(signal.SIGHUP)
            await daemon.logs("did you mean 'agent'?")
            await daemon.say("hi", number="1")
            answers = await daemon.answers(1)
            code = await daemon.stop()

    assert answers == ["still here"]
    assert daemon.listen().count("READY=1") == 1
    assert code == 0


async def test_f11_only_what_is_bound_is_printed(tmp_path: Path) -> None:
    """Without a health port no address is named; with one, the address named answers."""
    place = Place(tmp_path)
    async with place.gateway() as daemon:
        await daemon.stop()
    quiet = daemon.log
    place.write(gateway={"health_port": 0})
    async with place.gateway() as daemon:
        url = str((await daemon.status())["health_url"])
        health = await get(f"{url}/healthz")
        metrics = await get(f"{url}/metrics")
        other = await get(f"{url}/else")

    assert "127.0.0.1" not in quiet
    assert url in daemon.log
    assert health == (200, "alive: well\n")
    assert metrics[0] == 200
    assert 'nanobot_channel_up{channel="loop"} 1' in metrics[1]
    assert other[0] == 404


async def test_metrics_tell_of_turns_and_model_calls(tmp_path: Path) -> None:
    """What was done can be counted: Turns, tokens, stages, calls and deliveries, and no one's text is in it."""
    async with LLMServer([Reply("s3cret answer")]) as server:
        place = Place(tmp_path, server, gateway={"health_port": 0})
        async with place.gateway() as daemon:
            await daemon.say("s3cret question", number="1")
            await daemon.answers(1)
            url = str((await daemon.status())["health_url"])
            _, text = await get(f"{url}/metrics")

    assert 'nanobot_turns_total{stop_reason="completed"} 1' in text
    assert 'nanobot_model_seconds_count{provider="local"} 1' in text
    assert 'nanobot_stage_seconds_count{stage="run"} 1' in text
    assert 'nanobot_tokens_total{kind="output"}' in text
    assert "s3cret" not in text
    assert "s3cret" not in daemon.log


async def test_c34_a_failed_turn_is_counted_and_told(tmp_path: Path) -> None:
    """A Turn whose model fails is an error in the numbers and in the log, and the person is told once."""
    async with LLMServer([Reply(status=401)]) as server:
        place = Place(tmp_path, server, gateway={"health_port": 0})
        async with place.gateway() as daemon:
            await daemon.say("hi", number="1")
            answers = await daemon.answers(1)
            url = str((await daemon.status())["health_url"])
            _, text = await get(f"{url}/metrics")

    assert len(answers) == 1
    assert 'nanobot_turns_total{stop_reason="error"} 1' in text
    assert 'nanobot_model_errors_total{error="AuthFailed",provider="local"} 1' in text
    assert "ended (error)" in daemon.log


async def test_a_hung_event_loop_stops_the_watchdog(tmp_path: Path) -> None:
    """WATCHDOG comes while the daemon works, and not while its event loop is held up: systemd would end it."""
    place = Place(tmp_path)
    async with place.gateway(WATCHDOG_USEC="150000") as daemon:
        await daemon.tells("WATCHDOG=1", times=3)
        await daemon.say("!block 1.5", number="1")
        await asyncio.sleep(0.3)
        before = daemon.listen().count("WATCHDOG=1")
        await asyncio.sleep(0.5)
        during = daemon.listen().count("WATCHDOG=1")
        await daemon.tells("WATCHDOG=1", times=before + 2)

    assert during - before <= 1


async def test_a_deaf_channel_is_no_sign_of_life(tmp_path: Path) -> None:
    """A channel that stopped making rounds while the process is fine: /healthz says dead, and WATCHDOG comes no more."""
    place = Place(tmp_path, gateway={"health_port": 0})
    async with place.gateway(WATCHDOG_USEC="150000", PATIENT="1") as daemon:
        url = str((await daemon.status())["health_url"])
        await daemon.tells("WATCHDOG=1", times=3)
        before = await get(f"{url}/healthz")
        await daemon.say("!deaf", number="1")
        await daemon.logs("health: loop made no progress")
        told = daemon.listen().count("WATCHDOG=1")
        await asyncio.sleep(0.4)
        after = await get(f"{url}/healthz")
        silent = daemon.listen().count("WATCHDOG=1") == told
        status = await daemon.status()

    assert before[0] == 200
    assert (after[0], after[1].startswith("dead: loop made no progress")) == (503, True)
    assert silent
    assert not status["alive"]


async def test_a_failing_channel_is_started_again(tmp_path: Path) -> None:
    """A channel whose listening breaks comes back by itself; status tells how often."""
    async with LLMServer([Reply("back again")]) as server:
        place = Place(tmp_path, server)
        async with place.gateway() as daemon:
            await daemon.say("!fail", number="1")
            await daemon.logs("channel loop is up", times=2)
            await daemon.say("hi", number="2")
            answers = await daemon.answers(1)
            status = await daemon.status()

    assert answers == ["back again"]
    assert status["channels"][0]["restarts"] == 1
    assert "the loopback broke" in daemon.log


async def test_d10_a_wedged_channel_is_abandoned_and_replaced(tmp_path: Path) -> None:
    """A listener that makes no progress and cannot be stopped is left behind; a new one answers, and the process still ends."""
    async with LLMServer([Reply("fresh")]) as server:
        place = Place(tmp_path, server)
        async with place.gateway() as daemon:
            await daemon.say("!wedge", number="1")
            await daemon.logs("was abandoned")
            await daemon.logs("channel loop is up", times=2)
            await daemon.say("hi", number="2")
            answers = await daemon.answers(1)
            code = await daemon.stop()

    assert answers == ["fresh"]
    assert code == 0


async def test_d10_a_channel_that_wedges_again_and_again_ends_the_process(tmp_path: Path) -> None:
    """After three listeners that could not be stopped only a new process helps: exit code 1, for the service manager."""
    place = Place(tmp_path)
    async with place.gateway() as daemon:
        for count in (1, 2, 3):
            await daemon.logs("channel loop is up", times=count)
            await daemon.say("!wedge", number=str(count))
        code = await daemon.ends()

    assert code == 1
    assert "only a new process gets rid of them" in daemon.log


async def test_c35_a_tool_that_ends_the_daemon_is_not_repeated(tmp_path: Path) -> None:
    """A command that kills the daemon it runs in: after the restart it counts as interrupted and is not run again."""
    async with LLMServer() as server:
        place = Place(tmp_path, server, gateway={"shutdown_grace_s": 0}, tools={"sandbox": {"mode": "off"}})
        async with place.gateway() as daemon:
            (tmp_path / "victim").write_text(str(daemon.process.pid))
            kill = f"cd {tmp_path}; echo once >> ran; kill -KILL $(cat victim); sleep 60"
            server.queue(Reply(tool_calls=[Call("exec", {"command": kill})]), Reply("I was interrupted"))
            await daemon.say("restart yourself", number="1")
            code = await daemon.ends()
        async with place.gateway() as daemon:
            answers = await daemon.answers(1)

    assert code == -signal.SIGKILL
    assert answers == ["I was interrupted"]
    assert (tmp_path / "ran").read_text() == "once\n"
    assert not server.refusals


async def test_owed_answers_go_out_after_a_restart(tmp_path: Path) -> None:
    """An answer that its channel would not take is owed, told in status, and goes out after the next start."""
    async with LLMServer([Reply("at last")]) as server:
        place = Place(tmp_path, server, gateway={"flush_s": 0.1})
        (place.loopback / "refuse").touch()
        async with place.gateway() as daemon:
            await daemon.say("hi", number="1")
            await daemon.logs("ended (completed)")
            owed = (await daemon.status())["channels"][0]["owed"]
            code = await daemon.stop()
        (place.loopback / "refuse").unlink()
        async with place.gateway() as daemon:
            answers = await daemon.answers(1)

    assert owed == 1
    assert code == 0
    assert answers == ["at last"]


async def test_f01_a_bad_config_stops_the_start(tmp_path: Path) -> None:
    """A wrong key ends the start with exit code 2 and its place, before anything is begun."""
    place = Place(tmp_path, gateway={"helth_port": 1})
    async with place.gateway(is_ready=False) as daemon:
        code = await daemon.ends()

    assert code == 2
    assert "gateway.helth_port: unknown key; did you mean 'health_port'?" in daemon.log
    assert "READY=1" not in daemon.listen()
    assert not place.data.exists()


async def test_f11_a_taken_port_stops_the_start(tmp_path: Path) -> None:
    """A port that somebody else has is an error that names the key, not a line in the log that nobody reads."""
    async with LLMServer() as server:
        port = int(server.url.rpartition(":")[2])
        place = Place(tmp_path, gateway={"health_port": port})
        async with place.gateway(is_ready=False) as daemon:
            code = await daemon.ends()

    assert code == 2
    assert f"gateway.health_port: port {port} cannot be used" in daemon.log


async def test_c11_two_gateways_cannot_share_a_bots_token(tmp_path: Path) -> None:
    """Another data directory does not help: the second gateway with the same bot ends and names the first one."""
    async with TelegramServer("42:TEST") as telegram:
        channel = {"token": "42:TEST", "base_url": telegram.base_url, "allow_from": [7]}
        first_home, second_home = (
            Home(tmp_path, json.dumps({"data_dir": str(tmp_path / name), "channels": {"telegram": channel}}))
            for name in ("one", "two")
        )
        config = tmp_path / "one.yaml"
        config.write_text(json.dumps({"data_dir": str(tmp_path / "one"), "channels": {"telegram": channel}}))
        first = await first_home.start("gateway", "--config", str(config))
        try:
            async with asyncio.timeout(20):
                while not telegram.sent("getMe"):  # noqa: ASYNC110  # the server has no event for it
                    await asyncio.sleep(0.02)
            second = await second_home.run("gateway", "--log-format", "json")
        finally:
            first.terminate()
            _, log = await first.communicate()
    said = [json.loads(line)["message"] for line in second.err.decode().splitlines()]

    assert second.code == 1
    assert any(f"process {first.pid}" in line and "bot token of channel 'telegram'" in line for line in said)
    assert "42:TEST" not in second.err.decode()
    assert first.returncode == 0, log.decode()


async def test_c14_what_is_said_while_it_ends_waits_on_its_platform(tmp_path: Path) -> None:
    """Messages sent during the grace time bring no notice and are not lost: they are answered, once, after the next start."""
    gate = asyncio.Event()
    async with LLMServer([Reply("the first", gate=gate)]) as model, TelegramServer("42:TEST") as telegram:
        home = Home(tmp_path / "home", json.dumps(telegram_config(model, telegram)))
        gateway = await home.start("gateway")
        try:
            telegram.push_text(7, "one")
            await until(lambda: model.chats)
            gateway.terminate()
            await asyncio.sleep(0.3)
            for number in range(5):
                telegram.push_text(7, f"later {number}")
            gate.set()
        finally:
            await gateway.communicate()
        ended = said(telegram)
        again = await home.start("gateway")
        try:
            await until(lambda: "later 4" in "".join(said(telegram)))
        finally:
            again.terminate()
            await again.communicate()

    assert ended == ["the first"]
    assert all(text.startswith("echo: later") for text in said(telegram)[1:]), "answers, and no notices"
    assert ["".join(said(telegram)).count(f"later {number}") for number in range(5)] == [1] * 5
    assert not model.refusals


async def test_f10_an_idle_gateway_is_small(tmp_path: Path) -> None:
    """A gateway that waits on Telegram and has a vendor's client loaded takes less memory than a browser tab."""
    async with LLMServer() as model, TelegramServer("42:TEST") as telegram:
        home = Home(tmp_path / "home", json.dumps(telegram_config(model, telegram)))
        gateway = await home.start("gateway")
        try:
            telegram.push_text(7, "one")
            await until(lambda: said(telegram))
            status = Path(f"/proc/{gateway.pid}/status").read_text()
        finally:
            gateway.terminate()
            await gateway.communicate()
    resident_kb = int(status.partition("VmRSS:")[2].split()[0])

    assert resident_kb < 130_000


async def test_f14_any_locale_will_do(tmp_path: Path) -> None:
    """Where the system speaks ASCII, what people and models write is still what they wrote."""
    async with LLMServer([Reply("çok güzel 🎈")]) as server:
        place = Place(tmp_path / "home", server, log={"file": "gateway.log", "level": "debug"})
        async with place.gateway(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0") as daemon:
            await daemon.say("naïve ½ 🎈", number="1")
            answers = await daemon.answers(1)
            code = await daemon.stop()

    assert answers == ["çok güzel 🎈"]
    assert code == 0
    assert "ended (completed)" in (place.home / "gateway.log").read_text("utf-8")


async def test_a_closed_terminal_ends_it(tmp_path: Path) -> None:
    """SIGHUP on a terminal is no wish for a new configuration: nothing is left running behind it."""
    home = Home(tmp_path / "home")
    async with home.at_terminal("gateway") as person:
        await person.sees("ready")
        person.signals(signal.SIGHUP)
        code = await person.ended()

    assert code == 0


async def test_f07_chats_are_told_of_starts_and_ends(tmp_path: Path) -> None:
    """A chat that wants to know hears "up" once the channel is connected, and of the end; a reload is no end."""
    place = Place(tmp_path, gateway={"announce": ["loop:9"]})
    async with place.gateway() as daemon:
        await daemon.answers(1)
        daemon.signals(signal.SIGHUP)
        await daemon.answers(2)
        await daemon.stop()

    assert [(answer["chat"], answer["text"].split(".")[0]) for answer in place.answers] == [
        ("9", "I am up"),
        ("9", "I am up"),
        ("9", "I am going down"),
    ]
    assert daemon.log.index("channel loop is up") < daemon.log.index("ready")


async def test_f07_an_unknown_chat_stops_the_start(tmp_path: Path) -> None:
    """A chat on a channel that is not there is a mistake in the configuration."""
    place = Place(tmp_path, gateway={"announce": ["telegrm:9"]})
    async with place.gateway(is_ready=False) as daemon:
        code = await daemon.ends()

    assert code == 2
    assert "gateway.announce: 'telegrm:9' is no <channel>:<chat>; enabled channels: loop" in daemon.log


async def test_a_data_directory_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    """A place that takes no files is named, with exit code 2: trying again would not mend it."""
    (tmp_path / "file").touch()
    place = Place(tmp_path / "home", data_dir=str(tmp_path / "file" / "data"))
    async with place.gateway(is_ready=False) as daemon:
        code = await daemon.ends()

    assert code == 2
    assert "data_dir: this is a file, or lies below one; name a directory" in daemon.log
    assert "Traceback" not in daemon.log


async def test_a_data_directory_that_refuses_the_lock_is_named_by_its_key(tmp_path: Path) -> None:
    """What only shows when the daemon takes its lock is a sentence too."""
    (tmp_path / "data" / LOCK_NAME).mkdir(parents=True)
    place = Place(tmp_path / "home", data_dir=str(tmp_path / "data"))
    async with place.gateway(is_ready=False) as daemon:
        code = await daemon.ends()

    assert code == 2
    assert f"data_dir '{tmp_path}/data' cannot be used" in daemon.log
    assert "Traceback" not in daemon.log


def telegram_config(model: LLMServer, telegram: TelegramServer) -> dict[str, Any]:
    """Return a configuration with both servers."""
    return {
        "providers": {"local": {"type": "openai", "api_key": "k", "base_url": f"{model.url}/v1"}},
        "agent": {"model": "local/test-model"},
        "channels": {"telegram": {"token": "42:TEST", "base_url": telegram.base_url, "allow_from": [7]}},
    }


def said(telegram: TelegramServer) -> list[str]:
    """Return what the bot has said in chat 7."""
    return [seen.text for seen in telegram.chat(7).messages.values() if seen.by_bot]


async def until(holds: Callable[[], object]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110  # another process has no event to wait for
            await asyncio.sleep(0.02)
