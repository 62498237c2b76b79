"""What is there already: keys in the environment, model servers on this machine, a bot behind a token."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from nanobot.config.settings import KEY_VARIABLES
from nanobot.messages import JsonValue
from nanobot.setup.web import Fetch, Unreachable, fetch
from nanobot.values import frozen

LOCAL_SERVERS = {
    "ollama": "http://127.0.0.1:11434/v1",
    "lmstudio": "http://127.0.0.1:1234/v1",
    "llamacpp": "http://127.0.0.1:8080/v1",
    "vllm": "http://127.0.0.1:8000/v1",
}
PROBE_S = 0.5
LOOK_S = 1.0
NO_CHAT = ("embed", "whisper", "rerank", "tts")


@frozen
class LocalServer:
    """A model server that answered, with its models; those that are no chat models are left out."""

    name: str
    base_url: str
    models: tuple[str, ...]


@frozen
class BotIdentity:
    """Who a bot is.  ``username`` has no @."""

    id: int
    username: str


class BotRefused(Exception):
    """Telegram (or what stands in for it) does not take the token, or refuses what was asked; the text says why."""


def keys_in(environ: Mapping[str, str]) -> list[str]:
    """Return the kinds of providers for which there is a key."""
    return [kind for kind, variable in KEY_VARIABLES.items() if environ.get(variable)]


def local_servers(addresses: Mapping[str, str] = LOCAL_SERVERS, *, ask: Fetch = fetch) -> list[LocalServer]:
    """Return the servers that list models, asking all at once."""
    with ThreadPoolExecutor(max_workers=max(1, len(addresses))) as pool:
        found = [pool.submit(_probe, name, address, ask) for name, address in addresses.items()]
    return [server for one in found if (server := one.result()) is not None]


def _probe(name: str, base_url: str, ask: Fetch) -> LocalServer | None:
    try:
        answer = ask(f"{base_url}/models", timeout_s=PROBE_S)
    except Unreachable:
        return None
    models = tuple(_model_ids(answer.body.get("data"))) if answer.status == 200 else ()
    return LocalServer(name, base_url, models) if models else None


def _model_ids(listed: JsonValue) -> Iterator[str]:
    for item in listed if isinstance(listed, list) else ():
        name = item.get("id") if isinstance(item, dict) else None
        if isinstance(name, str) and not any(word in name.lower() for word in NO_CHAT):
            yield name


class Bot:
    """A Telegram bot, as far as setting up needs it.

    Args:
        token: its token.
        base_url: the Bot API's address, ending in ``/bot``.
        ask: how it is asked.
    """

    def __init__(self, token: str, base_url: str, *, ask: Fetch = fetch) -> None:
        self._address = f"{base_url}{token}"
        self._ask = ask

    def call(self, method: str, **parameters: object) -> JsonValue:
        """Call a method and return its result.

        Raises:
            BotRefused: an error of the Bot API.
            Unreachable: there was no answer.
        """
        answer = self._ask(f"{self._address}/{method}", data=parameters)
        if answer.body.get("ok") is True:
            return answer.body.get("result")
        if answer.status in (401, 404):
            raise BotRefused("Telegram does not know this token; @BotFather shows the right one (/token)")
        said = answer.body.get("description")
        raise BotRefused(
            str(said) if isinstance(said, str) else f"an error that is no answer of Telegram ({answer.status})"
        )

    def identity(self) -> BotIdentity:
        """Return who it is.  Raises as ``call``."""
        me = self.call("getMe")
        if not isinstance(me, dict) or not isinstance(me.get("id"), int):
            raise BotRefused("this address answers, but not as Telegram does")
        return BotIdentity(cast("int", me["id"]), str(me.get("username") or ""))

    def wait_for(
        self,
        code: str,
        *,
        patience_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> int | None:
        """Return the id of who sends the code in a private chat; None if nobody does in time.  Raises as ``call``.

        What else arrives is not acknowledged before the code comes, and everything before it is then.
        """
        deadline = clock() + patience_s
        while clock() < deadline:
            for update in _updates(self.call("getUpdates", timeout=0)):
                sender = sender_of(update, code)
                if sender is not None:
                    self.call("getUpdates", offset=cast("int", update["update_id"]) + 1, timeout=0, limit=1)
                    return sender
            sleep(LOOK_S)
        return None


def sender_of(update: Mapping[str, JsonValue], code: str) -> int | None:
    """Return who sent the code, as it is or after ``/start``, in a private chat; None for any other update.  Pure."""
    message = update.get("message")
    if not isinstance(message, dict):
        return None
    chat, sender, text = message.get("chat"), message.get("from"), message.get("text")
    if not isinstance(chat, dict) or chat.get("type") != "private" or not isinstance(sender, dict):
        return None
    said = str(text or "").removeprefix("/start").strip().upper()
    who = sender.get("id")
    return who if said == code.upper() and isinstance(who, int) and not sender.get("is_bot") else None


def _updates(found: JsonValue) -> Sequence[Mapping[str, JsonValue]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
