"""The wizard with a scripted person and scripted servers: what is found, asked, refused and written."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from nanobot.cli.init import next_steps
from nanobot.errors import ConfigError, MisuseError
from nanobot.setup.finding import Bot as Telegram
from nanobot.setup.finding import BotRefused, local_servers, sender_of
from nanobot.setup.web import Answer, Unreachable
from nanobot.setup.wizard import InitFailed, Wishes, World, set_up

TOKEN = "123:secret"


@dataclass
class Servers:
    """Answers by address; whoever is not in it does not answer."""

    answers: dict[str, Answer | list[Answer]] = field(default_factory=dict[str, "Answer | list[Answer]"])
    asked: list[tuple[str, Mapping[str, object] | None]] = field(
        default_factory=list[tuple[str, "Mapping[str, object] | None"]]
    )

    def __call__(self, url: str, *, data: Mapping[str, object] | None = None, timeout_s: float = 10.0) -> Answer:
        self.asked.append((url, data))
        answer = self.answers.get(url)
        if isinstance(answer, list):
            return answer.pop(0) if len(answer) > 1 else answer[0]
        if answer is None:
            raise Unreachable("nothing listens there")
        return answer


@dataclass
class Scripted:
    """A person who answers in order."""

    answers: list[str]
    asked: list[str] = field(default_factory=list[str])

    def ask(self, question: str, default: str = "") -> str:
        self.asked.append(question)
        return self.answers.pop(0) or default

    def secret(self, question: str) -> str:
        return self.ask(question)


@dataclass
class Time:
    """A clock that moves when somebody sleeps."""

    now: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def listing(*models: str) -> Answer:
    return Answer(status=200, body={"data": [{"id": model} for model in models]})


def bot_says(result: Any) -> Answer:  # Any: JSON
    return Answer(status=200, body={"ok": True, "result": result})


def world(tmp_path: Path, servers: Servers, *answers: str, environ: Mapping[str, str] | None = None) -> World:
    time = Time()
    return World(
        environ={"HOME": str(tmp_path), **(environ or {})},
        say=lambda text: None,
        person=Scripted(list(answers)) if answers else None,
        ask=servers,
        servers={"ollama": "http://ollama/v1", "vllm": "http://vllm/v1"},
        new_code=lambda: "CODE1234",
        today=lambda: date(2026, 11, 30),
        clock=lambda: time.now,
        sleep=time.sleep,
    )


UNCHECKED = Wishes(checks=False)


def test_without_person_and_flags_nothing_is_guessed(tmp_path: Path) -> None:
    """J07: nobody to ask, nothing found: the flags are named, nothing is written."""
    with pytest.raises(MisuseError, match="--provider NAME"):
        set_up(tmp_path / "c.yaml", UNCHECKED, world(tmp_path, Servers()))

    assert not (tmp_path / "c.yaml").exists()


def test_a_key_in_the_environment_is_found(tmp_path: Path) -> None:
    """One key there is enough to set up without a question; the file names the variable, not the key."""
    done = set_up(tmp_path / "c.yaml", UNCHECKED, world(tmp_path, Servers(), environ={"OPENAI_API_KEY": "s3cret"}))
    text = done.path.read_text()

    assert done.settings.models[0].startswith("openai/")
    assert "${OPENAI_API_KEY}" in text
    assert "s3cret" not in text


def test_a_local_server_is_found(tmp_path: Path) -> None:
    """A server on this machine that lists chat models is taken, with its first one; embeddings do not chat."""
    servers = Servers({"http://ollama/v1/models": listing("nomic-embed-text", "qwen3:8b", "llama3")})
    done = set_up(tmp_path / "c.yaml", UNCHECKED, world(tmp_path, servers))

    assert done.settings.models == ("ollama/qwen3:8b",)


def test_servers_that_are_no_model_servers_are_passed_over() -> None:
    """Whatever else listens on such a port is not mistaken for one."""
    servers = Servers(
        {"http://a/models": Answer(status=404), "http://b/models": Answer(status=200, body={"data": "no"})}
    )

    assert local_servers({"a": "http://a", "b": "http://b", "c": "http://c"}, ask=servers) == []


def test_a_person_is_offered_what_was_found_and_picks(tmp_path: Path) -> None:
    """The third offer is the server on this machine, its second model is picked, and no bot is wanted."""
    servers = Servers({"http://vllm/v1/models": listing("big", "small")})
    here = world(tmp_path, servers, "9", "2", "2", "", environ={"ANTHROPIC_API_KEY": "k"})
    done = set_up(tmp_path / "c.yaml", UNCHECKED, here)

    assert done.settings.models == ("vllm/small",)
    assert done.settings.channels == {}


def test_models_of_a_server_elsewhere_are_offered(tmp_path: Path) -> None:
    """A server whose address was typed and which lists its models is not asked about by heart."""
    servers = Servers({"http://box:9/v1/models": listing("small", "large")})
    done = set_up(tmp_path / "c.yaml", UNCHECKED, world(tmp_path, servers, "3", "http://box:9/v1/", "", "2", ""))

    assert done.settings.models == ("local/large",)


def test_an_address_that_was_wrong_can_be_typed_anew(tmp_path: Path) -> None:
    """A server that does not answer is no reason to begin again: another address may stand where a model is asked for."""
    wrong, right = "http://127.0.0.1:9/v1", "http://127.0.0.1:9/v2"
    said = list[str]()
    there = replace(world(tmp_path, Servers(), "3", wrong, "", "some-model", right, ""), say=said.append)

    with pytest.raises(InitFailed, match="given up"):
        set_up(tmp_path / "c.yaml", Wishes(), there)

    tried = [text for text in said if text.startswith("That does not work")]
    assert [address in text for address, text in zip([wrong, right], tried, strict=True)] == [True, True]


def test_a_pasted_key_stands_in_the_file(tmp_path: Path) -> None:
    """Somebody who has no variable pastes the key; the file is theirs alone to read."""
    here = world(tmp_path, Servers(), "1", "sk-pasted", "claude-x", "")
    done = set_up(tmp_path / "c.yaml", UNCHECKED, here)

    assert done.settings.models == ("anthropic/claude-x",)
    assert "sk-pasted" in done.path.read_text()
    assert done.path.stat().st_mode & 0o777 == 0o600


def test_a_broken_file_is_left_alone(tmp_path: Path) -> None:
    """F02: a file that does not load is named and not overwritten."""
    path = tmp_path / "c.yaml"
    path.write_text("agnet: {}\n")

    with pytest.raises(ConfigError, match="did you mean 'agent'"):
        set_up(path, Wishes(provider="offline", checks=False), world(tmp_path, Servers()))
    assert path.read_text() == "agnet: {}\n"


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        (Wishes(provider="anthropic"), "there is no key in ANTHROPIC_API_KEY"),
        (Wishes(provider="openai", api_key_env="NOPE"), "there is no key in NOPE"),
        (Wishes(provider="mine"), "needs its address: --base-url"),
        (Wishes(provider="ollama"), "lists no models: start the server"),
    ],
)
def test_flags_that_cannot_work_say_what_is_missing(tmp_path: Path, wishes: Wishes, said: str) -> None:
    """Each flag that needs another one names it."""
    with pytest.raises(MisuseError, match=said):
        set_up(tmp_path / "c.yaml", wishes, world(tmp_path, Servers()))


# -- the bot -----------------------------------------------------------------------------------------------------------------------

OFFLINE = Wishes(provider="offline", telegram_token=TOKEN, telegram_base_url="http://bots/bot")


def bots(**answers: Any) -> Servers:  # Any: JSON
    return Servers({f"http://bots/bot{TOKEN}/{method}": answer for method, answer in answers.items()})


def update(number: int, text: str, *, sender: int = 7, kind: str = "private") -> dict[str, Any]:
    message = {"chat": {"id": sender, "type": kind}, "from": {"id": sender, "is_bot": False}, "text": text}
    return {"update_id": number, "message": message}


ME = bot_says({"id": 123, "username": "my_bot"})


def test_the_owner_is_paired_by_a_code(tmp_path: Path) -> None:
    """Who sends the code in a private chat may talk to the bot; what others say meanwhile changes nothing."""
    others = [update(1, "hello", sender=5), update(2, "CODE1234", sender=6, kind="group")]
    servers = bots(
        getMe=ME,
        getUpdates=[bot_says(others), bot_says([*others, update(3, "/start code1234")]), bot_says([])],
        sendMessage=bot_says({}),
    )
    done = set_up(tmp_path / "c.yaml", OFFLINE, world(tmp_path, servers, "unused"))
    offsets = [data.get("offset") for url, data in servers.asked if data is not None and url.endswith("getUpdates")]

    assert done.settings.channels["telegram"].allow_from == ("7",)
    assert done.bot is not None
    assert done.bot.username == "my_bot"
    assert offsets[-1] == 4
    assert set(offsets[:-1]) == {None}, "nothing is acknowledged before the code is there"


def test_without_the_code_nobody_is_admitted(tmp_path: Path) -> None:
    """An owner who does not send it in time has a bot that admits nobody, and no stranger."""
    servers = bots(getMe=ME, getUpdates=bot_says([update(1, "WRONG")]))
    done = set_up(tmp_path / "c.yaml", OFFLINE, world(tmp_path, servers, "unused"))

    assert done.settings.channels["telegram"].allow_from == ()


def test_a_wrong_token_writes_nothing(tmp_path: Path) -> None:
    """A token that Telegram does not know is told at once, without the token."""
    servers = bots(getMe=Answer(status=401, body={"ok": False, "description": "Unauthorized"}))

    with pytest.raises(InitFailed, match="does not know this token") as refused:
        set_up(tmp_path / "c.yaml", OFFLINE, world(tmp_path, servers))
    assert "secret" not in str(refused.value)
    assert not (tmp_path / "c.yaml").exists()


def test_the_token_in_the_environment_is_named_not_copied(tmp_path: Path) -> None:
    """TELEGRAM_BOT_TOKEN is used, and the file refers to it."""
    wishes = Wishes(provider="offline", checks=False, allow_from=(9,))
    done = set_up(tmp_path / "c.yaml", wishes, world(tmp_path, Servers(), environ={"TELEGRAM_BOT_TOKEN": TOKEN}))

    assert done.settings.channels["telegram"].token.get_secret_value() == TOKEN
    assert TOKEN not in done.path.read_text()


def test_only_private_messages_of_people_carry_a_code() -> None:
    """Groups, bots, edits and other texts are not the owner."""
    bot = update(1, "CODE")
    bot["message"]["from"]["is_bot"] = True

    assert sender_of(update(1, "code "), "CODE") == 7
    assert [
        sender_of(one, "CODE")
        for one in (update(1, "CODE5"), update(1, "CODE", kind="supergroup"), bot, {"update_id": 1})
    ] == [None] * 4


def test_another_poller_is_named() -> None:
    """A conflict comes through in Telegram's own words."""
    said = "Conflict: terminated by other getUpdates request"
    bot = Telegram(TOKEN, "http://bots/bot", ask=bots(getUpdates=Answer(status=409, body={"description": said})))

    with pytest.raises(BotRefused, match="Conflict"):
        bot.wait_for("CODE", patience_s=1.0)


def test_next_steps_name_a_file_that_lies_elsewhere(tmp_path: Path) -> None:
    """What is said to be done next works as it stands, also for a configuration of another name."""
    done = set_up(tmp_path / "c.yaml", UNCHECKED, world(tmp_path, Servers(), environ={"OPENAI_API_KEY": "s3cret"}))

    assert "  nanobot doctor --config c.yaml   see" in next_steps(done, " --config c.yaml")
    assert "  nanobot doctor   see" in next_steps(done)
