"""The joined settings: where they come from, what they default to, and how they refuse."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast, get_args

import pytest
from pydantic import BaseModel

from nanobot.agent.tools.mcp.settings import McpServerSettings, McpSettings
from nanobot.app import Nanobot
from nanobot.channels.telegram.settings import TelegramSettings
from nanobot.config.loader import parse
from nanobot.config.secrets import secrets_in
from nanobot.config.settings import Settings, build, find, load
from nanobot.errors import ConfigError
from nanobot.providers.models import DEFAULT_ANTHROPIC_MODEL, DEFAULT_OPENAI_MODEL
from nanobot.providers.settings import AnthropicSettings, OfflineSettings, OpenAISettings

ROOT = Path(__file__).parents[3]
HOME = {"HOME": "/home/somebody"}


def built(text: str, **environ: str) -> Settings:
    return build(parse(text, Path("/etc/c.yaml"), environ), {**HOME, **environ})


def refusal(text: str, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        built(text, **environ)
    return str(caught.value)


def home_with(tmp_path: Path, text: str) -> dict[str, str]:
    (tmp_path / ".nanobot").mkdir()
    (tmp_path / ".nanobot" / "config.yaml").write_text(text)
    return {"HOME": str(tmp_path)}


def test_nothing_at_all_is_a_working_offline_agent() -> None:
    """No file and no key: the embedded provider, and directories under the home."""
    settings = load(None, HOME)

    assert settings.providers == {"offline": OfflineSettings()}
    assert settings.models == ("offline/phrases",)
    assert settings.workspace == Path("/home/somebody/.nanobot/workspace")
    assert settings.data_dir == Path("/home/somebody/.nanobot/data")


@pytest.mark.parametrize(
    ("variable", "name", "model"),
    [
        ("ANTHROPIC_API_KEY", "anthropic", DEFAULT_ANTHROPIC_MODEL),
        ("OPENAI_API_KEY", "openai", DEFAULT_OPENAI_MODEL),
    ],
)
def test_a_key_in_the_environment_is_enough(variable: str, name: str, model: str) -> None:
    """A vendor's usual variable chooses that vendor and its usual model."""
    settings = load(None, {**HOME, variable: "k"})

    assert settings.models == (f"{name}/{model}",)
    provider = settings.providers[name]
    assert not isinstance(provider, OfflineSettings)
    assert provider.api_key is not None
    assert provider.api_key.get_secret_value() == "k"


def test_a_key_in_the_file_is_enough() -> None:
    """A provider named after its type needs nothing but its key."""
    settings = built("providers:\n  anthropic:\n    api_key: ${K}\n", K="k")

    assert isinstance(settings.providers["anthropic"], AnthropicSettings)
    assert settings.models == (f"anthropic/{DEFAULT_ANTHROPIC_MODEL}",)


def test_the_vendors_key_is_never_given_to_another_server() -> None:
    """A provider with its own address gets no key out of the environment."""
    text = "providers:\n  openai:\n    base_url: http://127.0.0.1:1/v1\nagent: {model: openai/x}\n"
    provider = built(text, OPENAI_API_KEY="k").providers["openai"]

    assert isinstance(provider, OpenAISettings)
    assert provider.api_key is None


def test_the_vendors_address_in_the_environment_goes_with_its_key() -> None:
    """OPENAI_BASE_URL counts where OPENAI_API_KEY does, and then the model must be named."""
    environ = {**HOME, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}

    with pytest.raises(ConfigError, match=r"agent\.model: say which model of provider 'openai'"):
        load(None, environ)


def test_the_search_order_is_argument_variable_home(tmp_path: Path) -> None:
    """--config wins over NANOBOT_CONFIG, which wins over the home's file."""
    environ = home_with(tmp_path, "agent: {max_iterations: 1}")
    (tmp_path / "two.yaml").write_text("agent: {max_iterations: 2}")
    (tmp_path / "three.yaml").write_text("agent: {max_iterations: 3}")

    assert load(None, environ).agent.max_iterations == 1
    assert load(None, {**environ, "NANOBOT_CONFIG": "~/two.yaml"}).agent.max_iterations == 2
    assert load(tmp_path / "three.yaml", {**environ, "NANOBOT_CONFIG": "~/two.yaml"}).agent.max_iterations == 3


def test_a_named_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    """Only the default file may be absent; a named one is never replaced by defaults."""
    for path, environ in ((tmp_path / "no.yaml", {}), (None, {"NANOBOT_CONFIG": str(tmp_path / "no.yaml")})):
        with pytest.raises(ConfigError, match=r"no\.yaml: cannot be read"):
            load(path, {**HOME, **environ})


def test_f01_a_default_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """A broken link where the default file should be is an error, not a silent default."""
    (tmp_path / ".nanobot").mkdir()
    (tmp_path / ".nanobot" / "config.yaml").symlink_to(tmp_path / "gone")

    with pytest.raises(ConfigError, match="cannot be read"):
        load(None, {"HOME": str(tmp_path)})


def test_relative_paths_count_from_the_file() -> None:
    """A config file means the same from every directory."""
    settings = built("workspace: work\ndata_dir: ~/d\n")

    assert settings.workspace == Path("/etc/work")
    assert settings.data_dir == Path("/home/somebody/d")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tools:\n  rules:\n    - {tool: exec}", "/etc/c.yaml:3: tools.rules[0].action: this key is required"),
        ("tools:\n  rules:\n    - {action: no}", "/etc/c.yaml:3: tools.rules[0].action: expected"),
        ("tools:\n  rules: [{action: ask, rolle: user}]", "/etc/c.yaml:2: tools.rules[0].rolle: unknown key; did you"),
        ("tools:\n  rules: [{action: ask, role: boss}]", "/etc/c.yaml:2: tools.rules[0].role: expected"),
        (
            "tools:\n  rules: [{action: ask, argument: {a: /^b/}}]",
            "/etc/c.yaml:2: tools.rules[0]: '/^b/' looks like a re",
        ),
        ("agnet: {}", "/etc/c.yaml:1: agnet: unknown key; did you mean 'agent'?"),
        ("foo:", "/etc/c.yaml:1: foo: unknown key; known here: agent, channels, data_dir"),
        (
            "agent:\n  maxIterations: 3",
            "/etc/c.yaml:2: agent.maxIterations: unknown key; did you mean 'max_iterations'?",
        ),
        (
            "providers:\n  a:\n    type: openai\n    timeouts: {idle: 3}",
            "/etc/c.yaml:4: providers.a.timeouts.idle: unknown key; did you mean 'idle_s'?",
        ),
        (
            "providers:\n  a:\n    type: anthropic\n    send_resoning: true",
            "/etc/c.yaml:4: providers.a.send_resoning: unknown key; known here: api_key",
        ),
        ("agent:\n  max_iterations: s3cret", "/etc/c.yaml:2: agent.max_iterations: expected a whole number, got text"),
        ("agent:\n  max_iterations: 0", "/etc/c.yaml:2: agent.max_iterations: expected a number of at least 1"),
        (
            "tools:\n  web:\n    search: {provider: brave}",
            "/etc/c.yaml:3: tools.web.search: api_key is missing: brave answers nobody without one",
        ),
        ("agent:\n  busy: s3cret", "/etc/c.yaml:2: agent.busy: expected one of 'steer', 'queue' or 'replace'"),
        ("agent: s3cret", "/etc/c.yaml:1: agent: expected keys with values, got text"),
        ("agent:\n  model: 5", "/etc/c.yaml:2: agent.model: expected text (put it in quotes) or a list, got a number"),
        ("agent:\n  compaction: {enabled: s3cret}", "/etc/c.yaml:2: agent.compaction.enabled: expected true or false"),
        (
            "providers:\n  a:\n    api_key: s3cret",
            "/etc/c.yaml:2: providers.a: 'type' is missing; one of anthropic, offline, openai",
        ),
        (
            "providers:\n  a: {type: s3cret}",
            "/etc/c.yaml:2: providers.a.type: expected one of 'anthropic', 'openai', 'offline'",
        ),
        (
            "providers:\n  openai:\n    api_key: 12345",
            "/etc/c.yaml:3: providers.openai.api_key: expected text (put it in quotes), got a num",
        ),
        ("providers:\n  openai: s3cret", "/etc/c.yaml:2: providers.openai: expected keys with values"),
        ("providers: []", "/etc/c.yaml:1: providers: expected keys with values, got a list"),
        (
            "providers: {a/b: {type: offline}}",
            "/etc/c.yaml:1: providers: a provider's name is not empty and holds no '/'",
        ),
        ("channels: {telegram: {}}", "/etc/c.yaml:1: channels.telegram.token: this key is required"),
        (
            "agent: {timezone: Mars/Base}",
            "/etc/c.yaml:1: agent.timezone: expected an IANA time zone such as Europe/Berlin",
        ),
        (
            "channels: {'a:b': {token: '1:x'}}",
            "/etc/c.yaml:1: channels: a channel's name is not empty and holds no ':'",
        ),
        ("channels: {cli: {token: '1:x'}}", "/etc/c.yaml:1: channels: the name 'cli' is the terminal's"),
        ("workspace: [s3cret]", "/etc/c.yaml:1: workspace: expected a path"),
        ("log:\n  level: true", "/etc/c.yaml:2: log.level: expected one of 'debug', 'info', 'warning' or 'error'"),
    ],
)
def test_f01_what_is_wrong_is_named_with_file_line_key_and_fix(text: str, said: str) -> None:
    """A wrong key or type stops the start; the sentence quotes no value."""
    full = refusal(text)

    assert full.startswith(said)
    assert "s3cret" not in full


def test_every_wrong_key_is_named_at_once() -> None:
    """One run shows all that must be fixed, in the file's order."""
    lines = refusal("log: 1\nagent:\n  busy: x\n  modl: y\n").splitlines()

    assert [line.split(": ")[1] for line in lines] == ["log", "agent.busy", "agent.modl"]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("opeani/gpt", "agent.model: no provider is called 'opeani'; did you mean 'openai'?"),
        ("zzz/gpt", "agent.model: no provider is called 'zzz'; there are: openai, offline"),
        ("gpt", "agent.model: expected <provider>/<model>, such as 'openai/"),
        ("openai/", "agent.model: expected <provider>/<model>"),
    ],
)
def test_a_model_must_belong_to_a_configured_provider(model: str, said: str) -> None:
    """A reference that leads nowhere stops the start, with the closest name."""
    providers = "providers:\n  openai: {api_key: k}\n  offline: {}\n"

    assert refusal(f"{providers}agent: {{model: {model}}}").startswith(f"/etc/c.yaml:4: {said}")
    assert refusal(f"{providers}agent: {{model: [offline/x, {model}]}}").startswith(f"/etc/c.yaml:4: {said}")
    assert "agent.compaction.model" in refusal(f"{providers}agent: {{compaction: {{model: {model}}}}}")


def test_f04_a_vendor_without_a_key_is_refused_with_advice() -> None:
    """Whoever forgot the key reads which provider wants it and where to put it, not a 401."""
    said = refusal("providers:\n  mine: {type: anthropic}\n  offline: {}\n")

    assert (
        said == "/etc/c.yaml:2: providers.mine.api_key: provider 'mine' has no key; set it here or as ANTHROPIC_API_KEY"
    )
    assert "has no key" in refusal("providers:\n  mine: {type: anthropic, api_key: '${E}'}\n", E="")
    assert built("providers:\n  mine: {type: anthropic}\n  offline: {}\nagent: {model: offline/x}").models == (
        "offline/x",
    )


def test_a_model_of_a_missing_provider_names_its_variable() -> None:
    """Without any provider configured, the vendor's variable is part of the advice."""
    assert "or set OPENAI_API_KEY" in refusal("agent: {model: openai/gpt}")


def test_a_section_without_keys_is_the_default() -> None:
    """Commenting out every key of a section leaves a valid file."""
    assert built("agent:\nproviders:\ntools:\n") == load(None, HOME)


def test_f13_loading_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Reading a configuration prints no notices, however often it happens."""
    for _ in range(3):
        built("agent: {max_iterations: 3}")

    assert capfd.readouterr() == ("", "")


def test_secrets_are_not_in_the_settings_text() -> None:
    """Printing the settings shows no key."""
    settings = built("providers:\n  openai: {api_key: s3cret, headers: {x: s3cret}}\n")

    assert "s3cret" not in f"{settings!r} {settings}"


def test_the_example_loads_as_it_is() -> None:
    """The example is a valid file, and apart from its providers it holds the defaults."""
    settings = load(ROOT / "config.example.yaml", HOME)

    assert settings.model_copy(
        update={
            "providers": Settings().providers,
            "agent": settings.agent.model_copy(update={"model": None}),
            "channels": {},
            "tools": settings.tools.model_copy(update={"mcp": McpSettings()}),
        }
    ) == (load(None, HOME))
    assert not any(channel.enabled for channel in settings.channels.values())
    assert not any(server.enabled for server in settings.tools.mcp.servers.values())


def test_the_example_holds_every_key() -> None:
    """No setting exists that the example does not show."""
    data = parse((ROOT / "config.example.yaml").read_text("utf-8"), Path("x"), {}).data
    providers = cast("Mapping[str, Mapping[str, Any]]", data["providers"])

    tools = cast("Mapping[str, Any]", data["tools"])
    servers = tools["mcp"]["servers"]

    without = {**data, "channels": None, "tools": {**tools, "mcp": {**tools["mcp"], "servers": None}}}
    assert not list(_missing(Settings, without, ""))
    for model in (AnthropicSettings, OpenAISettings, OfflineSettings):
        kind = model.model_fields["type"].default
        shown = next(one for one in providers.values() if one["type"] == kind)
        assert not list(_missing(model, shown, f"providers.<{kind}>."))
    channels = cast("Mapping[str, Mapping[str, Any]]", data["channels"])
    assert not list(_missing(TelegramSettings, channels["telegram"], "channels.<telegram>."))
    assert not list(_missing(McpServerSettings, servers["files"] | servers["tracker"], "tools.mcp.servers.<name>."))


def _missing(model: type[BaseModel], data: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if name not in data:
            yield prefix + name
            continue
        kinds = (field.annotation, *get_args(field.annotation))
        if isinstance(data[name], list):  # the keys of its items can only be shown in the comment above it
            text = (ROOT / "config.example.yaml").read_text("utf-8")
            data = {**data, name: dict.fromkeys(re.findall(r"\b([a-z_]+):", text), ...)}
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel) and data[name] is not None:
                yield from _missing(kind, data[name], f"{prefix}{name}.")


def test_an_unknown_key_that_looks_like_a_secret_is_not_shown() -> None:
    """Neither a key nor a provider's name brings one onto the screen."""
    secret = "sk-" + "a1" * 16

    assert refusal(f"{secret}: x").startswith("/etc/c.yaml:1: [redacted]: unknown key")
    assert "a1a1" not in refusal(f"agent: {{model: {secret}/x}}")


def test_an_empty_path_names_no_file() -> None:
    """``--config ''`` is told from a folder that cannot be read."""
    with pytest.raises(ConfigError, match="no configuration file is named"):
        find(Path(), {})


LOCAL = "agent: {model: l/x}\nproviders:\n  l:\n    type: openai\n    base_url: http://h/v1\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agent:\n  max_iterations: true", "/etc/c.yaml:2: agent.max_iterations: expected a number, got true or false"),
        ("agent:\n  temperature: false", "/etc/c.yaml:2: agent.temperature: expected a number, got true or false"),
        ("agent:\n  retry:\n    attempts: true", "/etc/c.yaml:3: agent.retry.attempts: expected a number"),
        (LOCAL + "    context_window: true", "/etc/c.yaml:6: providers.l.context_window: expected a number"),
        ("agent:\n  model: []", "/etc/c.yaml:2: agent.model: an empty list names no model"),
        (LOCAL + "    api_key: s3cret-é", "/etc/c.yaml:6: providers.l.api_key: it holds a character that no key has"),
        (LOCAL + '    api_key: "s3cret\\n"', "/etc/c.yaml:6: providers.l.api_key: it holds a character that no key"),
        (
            LOCAL + "    headers: {X-A: s3crét}",
            "/etc/c.yaml:6: providers.l.headers.X-A: it holds a character that no h",
        ),
        (LOCAL + '    headers: {X: "a\\r\\nb"}', "/etc/c.yaml:6: providers.l.headers.X: it holds a character that no"),
        (LOCAL + "    headers: {X A: s3cret}", "/etc/c.yaml:6: providers.l.headers.X A: a header's name is made of"),
    ],
)
def test_a_value_that_would_fail_at_the_first_call_is_named_at_load(text: str, said: str) -> None:
    """The start is the time to say so, not the first message, and not by a traceback."""
    full = refusal(text)

    assert full.startswith(said)
    assert "s3cr" not in full


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://[::1/v1", "names no host that can be read"),
        ("http://[::zz]/v1", "names no host that can be read"),
        ("http://:80/v1", "names no host that can be read"),
        ("http://127.0.0.1:99999/v1", "the port of this address"),
        ("http://h:port/v1", "the port of this address"),
        ("ftp://h/v1", "begins with http:// or https://"),
        ("h:8080/v1", "begins with http:// or https://"),
        ("http:///v1", "begins with http:// or https://"),
        ("http://h /v1", "no blanks"),
    ],
)
def test_an_address_is_read_at_load(url: str, said: str) -> None:
    """One clear sentence with the key; no pattern, and not the address, which may hold a password."""
    full = refusal(LOCAL.replace("http://h/v1", f"'{url}'"))

    assert full.startswith("/etc/c.yaml:5: providers.l.base_url: ")
    assert said in full
    assert url not in full


@pytest.mark.parametrize(
    "url", ["http://[::1]:8080/v1", "https://user:pw@h.example:443/a?b=c", "http://bücher.example"]
)
def test_ordinary_addresses_are_taken_as_they_are(url: str) -> None:
    """Ports, IPv6, names and passwords, and other alphabets."""
    provider = built(LOCAL.replace("http://h/v1", url)).providers["l"]

    assert isinstance(provider, OpenAISettings)
    assert provider.base_url == url


def test_booleans_where_anything_goes_stay() -> None:
    """A provider's own fields may be true."""
    assert built(LOCAL + "    extra_body: {think: false, n: [true]}\n    send_reasoning: false")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tools:\n  disabled: [exce]", "/etc/c.yaml:2: tools.disabled[0]: no tool is called so; did you mean 'exec'?"),
        (
            "tools:\n  ask_before:\n    - exec\n    - zzz",
            "/etc/c.yaml:4: tools.ask_before[1]: no tool is called so; there",
        ),
        (
            "tools:\n  limits: {readfile: 900}",
            "/etc/c.yaml:2: tools.limits.readfile: no tool is called so; did you mean",
        ),
        (
            "tools:\n  rules:\n    - {tool: exce, action: deny}",
            "/etc/c.yaml:3: tools.rules[0].tool: no tool is called so; did you mean 'exec'?",
        ),
    ],
)
def test_a_name_of_no_tool_is_refused(text: str, said: str) -> None:
    """A slip must not leave a tool on, or let it run unasked."""
    assert refusal(text).startswith(said)


def test_a_script_may_configure_its_own_tools(tmp_path: Path) -> None:
    """The names of the tools that it brings count as known."""

    def weather(town: str) -> str:
        """Say what the weather is."""
        return town

    path = tmp_path / "c.yaml"
    path.write_text("workspace: w\ndata_dir: d\ntools: {ask_before: [weather], limits: {weather: 300}}\n")
    bot = Nanobot.from_config(path, tools=(one for one in [weather]))

    assert "weather" in bot.settings.tools.ask_before
    with pytest.raises(ConfigError, match="ask_before"):
        Nanobot.from_config(path)


def test_a_placeholder_for_a_key_is_no_secret() -> None:
    """Local servers are given "ollama" for a key; results that speak of it stay as they are."""
    local = {"type": "openai", "base_url": "http://localhost:11434/v1"}
    providers = {
        "a": {**local, "api_key": "ollama"},
        "b": {**local, "api_key": "Not-Needed"},
        "c": {**local, "api_key": "0llama-x"},
    }
    settings = Settings.model_validate({"providers": providers})

    assert secrets_in(settings) == ["0llama-x"]
