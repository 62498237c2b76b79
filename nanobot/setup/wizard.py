"""``nanobot init``: few questions, each answered by what is found where that is possible; nothing is written before it works.

Without a person to ask (or with flags that answer everything) it asks nothing, and says which flag is missing.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import date
from pathlib import Path
from typing import Protocol

from nanobot.channels.access import random_code
from nanobot.config.settings import DEFAULT_MODELS, KEY_VARIABLES, Settings
from nanobot.errors import AuthFailed, MisuseError, NanobotError
from nanobot.setup.finding import (
    LOCAL_SERVERS,
    Bot,
    BotIdentity,
    BotRefused,
    LocalServer,
    keys_in,
    local_servers,
)
from nanobot.setup.model import Tried, try_model
from nanobot.setup.web import Fetch, Unreachable, fetch
from nanobot.setup.writing import BotChoice, Choices, ProviderChoice, checked, literal, merged_text, new_text, save
from nanobot.values import frozen

TELEGRAM_URL = "https://api.telegram.org/bot"
TOKEN_VARIABLE = "TELEGRAM_BOT_TOKEN"
PAIRING_S = 300.0
MODELS_SHOWN = 12
HOSTED = {"anthropic": "Anthropic", "openai": "OpenAI"}
NO_PERSON = (
    "init needs a terminal to ask questions, or flags that answer them: --provider NAME "
    "(anthropic, openai, ollama, lmstudio, llamacpp, vllm, offline or a name of yours), --api-key-env VARIABLE, "
    "--base-url URL, --model ID; for a bot --telegram-token TOKEN and --allow-from ID"
)


class Person(Protocol):
    """Somebody at a terminal."""

    def ask(self, question: str, default: str = "") -> str:
        """Return what they answer; the default for nothing."""
        ...

    def secret(self, question: str) -> str:
        """Return what they answer, without showing it."""
        ...


class InitFailed(NanobotError):
    """It cannot be set up like this; the text says why and what to do.  Nothing was written."""


@frozen(kw_only=True)
class Wishes:
    """What the flags say; None where they say nothing.  ``checks`` off writes without asking any server."""

    provider: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    base_url: str | None = None
    telegram_token: str | None = None
    telegram_base_url: str | None = None
    allow_from: tuple[int, ...] = ()
    checks: bool = True


@frozen(kw_only=True)
class World:
    """What the wizard sees and does it with; all of it can be replaced in tests."""

    environ: Mapping[str, str]
    say: Callable[[str], None]
    person: Person | None = None
    ask: Fetch = fetch
    servers: Mapping[str, str] = field(default_factory=lambda: dict(LOCAL_SERVERS))
    new_code: Callable[[], str] = random_code
    patience_s: float = PAIRING_S
    today: Callable[[], date] = date.today
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@frozen
class Done:
    """What was written."""

    path: Path
    settings: Settings
    bot: BotIdentity | None = None


def set_up(path: Path, wishes: Wishes, world: World) -> Done:
    """Find out, ask, check, write.

    Raises:
        ConfigError: the existing file cannot be used; it is left alone.
        MisuseError: something has to be asked, and nobody is there.
        InitFailed: it does not work like this.
    """
    old = path.read_text("utf-8-sig") if path.exists() else None
    if old is not None:
        checked(old, path, world.environ)
        world.say(f"{path} is there: it is kept, with these answers in it, and a copy of it beside it.")
    provider = _provider(wishes, world)
    while True:
        choices = Choices(provider=provider)
        settings = checked(_text(old, choices, world), path, world.environ)
        if not wishes.checks:
            break
        tried = _try(settings, provider, world)
        if tried.verdict != "failed":
            break
        provider = _once_more(provider, tried, world)
    identity, bot = _bot(wishes, world)
    text = _text(old, replace(choices, bot=bot), world)
    settings = checked(text, path, world.environ)
    backup = save(path, text)
    world.say(f"Wrote {path}" + (f"; what was there before is in {backup}" if backup else "") + ".")
    return Done(path, settings, identity)


def _text(old: str | None, choices: Choices, world: World) -> str:
    return new_text(choices, today=world.today()) if old is None else merged_text(old, choices)


# -- who answers -------------------------------------------------------------------------------------------------------------------


def _provider(wishes: Wishes, world: World) -> ProviderChoice:
    if wishes.provider is not None:
        return _named(wishes.provider, wishes, world)
    if wishes.base_url is not None:
        return _named("local", wishes, world)
    keys = [wishes.api_key_env] if wishes.api_key_env else []
    found = [kind for kind in keys_in(world.environ) if not keys or KEY_VARIABLES[kind] in keys]
    servers = local_servers(world.servers, ask=world.ask) if world.servers else []
    if world.person is not None:
        return _asked(world.person, found, servers, wishes, world)
    if found:
        return _named(found[0], wishes, world)
    if servers:
        return _named(servers[0].name, wishes, world)
    raise MisuseError(NO_PERSON)


def _asked(
    person: Person, found: Sequence[str], servers: Sequence[LocalServer], wishes: Wishes, world: World
) -> ProviderChoice:
    """Offer what was found, then what can be typed."""
    offers: list[tuple[str, Callable[[], ProviderChoice]]] = []
    for kind in found:
        offers.append(
            (f"{HOSTED[kind]}, with the key in {KEY_VARIABLES[kind]}", lambda kind=kind: _named(kind, wishes, world))
        )
    for server in servers:
        text = f"{server.name} on this machine ({len(server.models)} models)"
        offers.append((text, lambda server=server: _on_server(server, wishes, person, world)))
    for kind, name in HOSTED.items():
        if kind not in found:
            offers.append((f"{name}, with a key that you paste", lambda kind=kind: _pasted(kind, wishes, person)))
    offers.append(("another server that speaks OpenAI's API", lambda: _elsewhere(wishes, person, world)))
    offers.append(("none yet: a few fixed phrases, to look around", lambda: _named("offline", wishes, world)))
    world.say("Who shall answer?")
    for number, (text, _) in enumerate(offers, 1):
        world.say(f"  {number}  {text}")
    return offers[_number(person, "Number", len(offers), world) - 1][1]()


def _named(name: str, wishes: Wishes, world: World) -> ProviderChoice:
    """Make a choice of a name and flags, asking nobody."""
    if name == "offline":
        return ProviderChoice(name=name, kind="offline", model=DEFAULT_MODELS["offline"])
    kind = name if name in HOSTED else "openai"
    address = wishes.base_url or (world.servers.get(name) if name not in HOSTED else None)
    if kind not in (name,) and address is None:
        raise MisuseError(f"--provider {name} needs its address: --base-url URL")
    variable = wishes.api_key_env or (KEY_VARIABLES[kind] if name in HOSTED and not wishes.base_url else None)
    if variable and not world.environ.get(variable):
        raise MisuseError(f"there is no key in {variable}: set it, or name another variable with --api-key-env")
    model = wishes.model or (None if address else DEFAULT_MODELS[kind])
    if model is None:
        found = local_servers({name: str(address)}, ask=world.ask)
        if not found:
            raise MisuseError(f"{address} lists no models: start the server, or say which one with --model ID")
        model = found[0].models[0]
    return ProviderChoice(
        name=name, kind=kind, model=model, api_key=f"${{{variable}}}" if variable else None, base_url=address
    )


def _on_server(server: LocalServer, wishes: Wishes, person: Person, world: World) -> ProviderChoice:
    model = wishes.model or _picked(server.models, person, world)
    return ProviderChoice(name=server.name, kind="openai", model=model, base_url=server.base_url)


def _picked(models: Sequence[str], person: Person, world: World) -> str:
    if len(models) == 1:
        return models[0]
    for number, model in enumerate(models[:MODELS_SHOWN], 1):
        world.say(f"  {number}  {model}")
    answer = person.ask("Which model (number or name)", "1")
    return models[int(answer) - 1] if answer.isdigit() and 0 < int(answer) <= len(models) else answer


def _pasted(kind: str, wishes: Wishes, person: Person) -> ProviderChoice:
    key = person.secret(f"{HOSTED[kind]} key (it is not shown)").strip()
    if not key:
        raise InitFailed("without a key there is nobody to answer; run `nanobot init` again when you have one")
    model = wishes.model or person.ask("Model", DEFAULT_MODELS[kind])
    return ProviderChoice(name=kind, kind=kind, model=model, api_key=literal(key))


def _elsewhere(wishes: Wishes, person: Person, world: World) -> ProviderChoice:
    address = wishes.base_url or person.ask("Its address, such as http://127.0.0.1:8000/v1").strip().rstrip("/")
    key = person.secret("Its key (nothing if it needs none)").strip()
    model = wishes.model or _model_at(address, key, person, world)
    if not address or not model:
        raise InitFailed("address and model are needed; nothing was written")
    return ProviderChoice(name="local", kind="openai", model=model, api_key=literal(key) or None, base_url=address)


def _model_at(address: str, key: str, person: Person, world: World) -> str:
    """Let a person choose among what the server lists; one that wants a key, or lists nothing, has its model typed."""
    found = [] if key or not address else local_servers({"local": address}, ask=world.ask)
    return _picked(found[0].models, person, world) if found else person.ask("Model (its id on that server)")


def _number(person: Person, question: str, most: int, world: World) -> int:
    for _ in range(5):
        answer = person.ask(question, "1").strip()
        if answer.isdigit() and 1 <= int(answer) <= most:
            return int(answer)
        world.say(f"A number from 1 to {most}, please.")
    raise InitFailed("no choice was made; nothing was written")


# -- does it work ------------------------------------------------------------------------------------------------------------------


def _try(settings: Settings, provider: ProviderChoice, world: World) -> Tried:
    if provider.kind == "offline":
        return Tried("works")
    world.say(f"Asking {provider.name}/{provider.model} ...")
    tried = asyncio.run(
        try_model(provider.name, settings.providers[provider.name], provider.model, environ=world.environ)
    )
    if tried.verdict == "works":
        world.say("It answers and calls tools.")
    elif tried.verdict == "no_tools":
        world.say(f"Careful: {tried.text}.")
    return tried


def _once_more(provider: ProviderChoice, tried: Tried, world: World) -> ProviderChoice:
    """Let a person mend what does not work; without one that is the end."""
    if world.person is None:
        raise InitFailed(f"{tried.text} Nothing was written; --no-check writes without asking.")
    world.say(f"That does not work: {tried.text}")
    if isinstance(tried.error, AuthFailed):
        key = world.person.secret("Another key (nothing: give up)").strip()
        if key:
            return replace(provider, api_key=literal(key))
    else:
        what = "model" if provider.base_url is None else "model or address"
        answer = world.person.ask(f"Another {what}, or the same to try again (nothing: give up)").strip()
        if answer and "://" in answer and provider.base_url is not None:
            return replace(provider, base_url=answer.rstrip("/"))
        if answer:
            return replace(provider, model=answer)
    raise InitFailed("it was given up; nothing was written")


# -- the bot -----------------------------------------------------------------------------------------------------------------------


def _bot(wishes: Wishes, world: World) -> tuple[BotIdentity | None, BotChoice | None]:
    token = wishes.telegram_token or world.environ.get(TOKEN_VARIABLE)
    if token is None and world.person is not None:
        world.say("A Telegram bot: open https://t.me/BotFather, send /newbot, and paste the token it gives you.")
        token = world.person.secret("Token (nothing: later)").strip()
    if not token:
        return None, None
    base_url = wishes.telegram_base_url or TELEGRAM_URL
    is_named = token == world.environ.get(TOKEN_VARIABLE)
    written = f"${{{TOKEN_VARIABLE}}}" if is_named else literal(token)
    choice = BotChoice(token=written, allow_from=wishes.allow_from, base_url=wishes.telegram_base_url)
    if not wishes.checks:
        return None, choice
    bot = Bot(token, base_url, ask=world.ask)
    try:
        identity = bot.identity()
        world.say(f"The bot is @{identity.username}.")
        if not choice.allow_from:
            choice = replace(choice, allow_from=_paired(bot, identity, world))
    except Unreachable as error:
        raise InitFailed(
            f"Telegram cannot be reached: {error}. Nothing was written; --no-check writes all the same."
        ) from None
    except BotRefused as error:
        raise InitFailed(f"The bot: {error}. Nothing was written.") from None
    return identity, choice


def _paired(bot: Bot, identity: BotIdentity, world: World) -> tuple[int, ...]:
    """Let the owner prove who they are by sending a code to the bot."""
    if world.person is None:
        world.say("Nobody may talk to the bot yet: add --allow-from ID, or your id to allow_from in the file.")
        return ()
    code = world.new_code()
    world.say(f"Now open https://t.me/{identity.username}?start={code} and press Start, or send the bot: {code}")
    try:
        sender = bot.wait_for(code, patience_s=world.patience_s, clock=world.clock, sleep=world.sleep)
    except BotRefused as error:
        world.say(f"That cannot be waited for: {error}. If a gateway runs with this bot, stop it first.")
        sender = None
    if sender is None:
        world.say(
            "Nobody sent it. The bot admits nobody until your id is in allow_from; `nanobot init` can do it again."
        )
        return ()
    bot.call("sendMessage", chat_id=sender, text="Hello! I know you now. Start me with: nanobot service install")
    world.say(f"That is you: {sender} may talk to the bot.")
    return (sender,)
