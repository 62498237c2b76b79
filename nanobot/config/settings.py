"""The whole configuration as one value, and how it is found.

Each package owns its settings; this joins them.  What is wrong stops the start with file, line, key and fix: nothing is ever
replaced by a default in silence.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from nanobot.agent.settings import AgentSettings
from nanobot.agent.tools.mcp.names import label_of, server_label
from nanobot.agent.tools.packages import Packaged, packaged_tools
from nanobot.agent.tools.settings import BUILTIN_TOOLS, ToolSettings
from nanobot.channels.settings import ChannelSettings
from nanobot.config.explain import closest, explain, refuse_booleans
from nanobot.config.gateway import GatewaySettings
from nanobot.config.loader import Document, KeyPath, read, shown
from nanobot.config.places import directory_fault, file_fault, overlap_fault
from nanobot.errors import ConfigError
from nanobot.providers.models import DEFAULT_ANTHROPIC_MODEL, DEFAULT_OPENAI_MODEL, OFFLINE_MODEL
from nanobot.providers.settings import OfflineSettings, ProviderSettings
from nanobot.session.settings import SessionSettings

CONFIG_VARIABLE = "NANOBOT_CONFIG"
KEY_VARIABLES = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
URL_VARIABLES = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL"}
DEFAULT_MODELS = {"anthropic": DEFAULT_ANTHROPIC_MODEL, "openai": DEFAULT_OPENAI_MODEL, "offline": OFFLINE_MODEL}


class LogSettings(BaseModel):
    """What the gateway's log looks like."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"
    file: Path | None = Field(default=None, description="also written there, beside stderr")
    file_max_bytes: int = Field(default=5_000_000, ge=10_000, description="then a new file is begun")
    file_count: int = Field(default=5, ge=2, le=1_000, description="files kept, the current one included")


class Settings(BaseModel):
    """Everything that can be configured.  ``Settings()`` is a working offline agent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workspace: Path = Field(default_factory=lambda: home(os.environ) / "workspace", description="where tools work")
    data_dir: Path = Field(
        default_factory=lambda: home(os.environ) / "data", description="session logs and other state"
    )
    providers: dict[str, ProviderSettings] = Field(
        default_factory=lambda: dict[str, ProviderSettings](offline=OfflineSettings()), min_length=1
    )
    agent: AgentSettings = AgentSettings()
    tools: ToolSettings = ToolSettings()
    session: SessionSettings = SessionSettings()
    channels: dict[str, ChannelSettings] = Field(default_factory=dict[str, ChannelSettings])
    gateway: GatewaySettings = GatewaySettings()
    log: LogSettings = LogSettings()

    @field_validator("providers")
    @classmethod
    def _names_hold_no_slash(cls, value: dict[str, ProviderSettings]) -> dict[str, ProviderSettings]:
        if any("/" in name or not name for name in value):
            raise ValueError("a provider's name is not empty and holds no '/'")
        return value

    @field_validator("channels")
    @classmethod
    def _names_are_plain(cls, value: dict[str, ChannelSettings]) -> dict[str, ChannelSettings]:
        if any(":" in name or not name for name in value):
            raise ValueError("a channel's name is not empty and holds no ':'")
        if "cli" in value:
            raise ValueError("the name 'cli' is the terminal's, which needs no entry")
        return value

    @property
    def models(self) -> tuple[str, ...]:
        """The ``<provider>/<model>`` references to try, in order; the first provider's usual model when none is configured.

        Raises:
            ConfigError: the first provider has no usual model.
        """
        chosen = self.agent.model
        if chosen:
            return (chosen,) if isinstance(chosen, str) else tuple(chosen)
        name, provider = next(iter(self.providers.items()))
        if provider.type == "openai" and provider.base_url:
            raise ConfigError(f"say which model of provider {name!r} to use: '{name}/<model>'")
        return (f"{name}/{DEFAULT_MODELS[provider.type]}",)


def home(environ: Mapping[str, str]) -> Path:
    """Return ``~/.nanobot``.

    Raises:
        ConfigError: this user has no home directory.
    """
    try:
        return Path(environ.get("HOME") or Path.home()) / ".nanobot"
    except RuntimeError:
        raise ConfigError(
            "this user has no home directory: set HOME, or workspace and data_dir in a --config file"
        ) from None


def find(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the file to read: the given one, else ``NANOBOT_CONFIG``, else ``~/.nanobot/config.yaml`` if there, else None.

    Raises:
        ConfigError: the given path is empty, or this user has no home directory.
    """
    if path == Path():
        raise ConfigError("no configuration file is named: --config wants a path, such as ~/.nanobot/config.yaml")
    if path is not None:
        return path
    if environ.get(CONFIG_VARIABLE):
        return _expand_home(environ[CONFIG_VARIABLE], environ)
    usual = home(environ) / "config.yaml"
    return usual if os.path.lexists(usual) else None


def load(
    path: Path | None = None, environ: Mapping[str, str] | None = None, *, own_tools: Collection[str] = ()
) -> Settings:
    """Read the configuration that ``find`` finds; without one, live on the environment's keys, or offline.

    ``own_tools`` are names of tools that a script brings: the configuration may speak of them too.

    Raises:
        ConfigError: with file, line, key and what to do, one wrong key on a line.
    """
    environ = os.environ if environ is None else environ
    found = find(path, environ)
    document = read(found, environ) if found else Document()
    return build(document, environ, own_tools=own_tools)


def build(document: Document, environ: Mapping[str, str], *, own_tools: Collection[str] = ()) -> Settings:
    """Check a read document, with what the environment adds to it.  Raises as ``load``."""
    data = _with_providers(_with_paths(document, environ), environ)
    filled = Document(data, document.lines, document.path)
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        raise explain(error, Settings, filled) from None
    refuse_booleans(Settings, filled)
    _check_places(settings, document)
    _check_tools(settings.tools, document, own_tools)
    _check_models(settings, document)
    _check_keys(settings, document)
    return settings


def _with_paths(document: Document, environ: Mapping[str, str]) -> dict[str, object]:
    """Fill and expand the two directories; a relative one counts from the file's own directory."""
    sections = Settings.model_fields  # a section whose keys are all commented out reads as null: that is no section
    data = {key: value for key, value in document.data.items() if value is not None or key not in sections}
    base = document.path.absolute().parent if document.path else Path.cwd()
    for key in ("workspace", "data_dir"):
        value = data.get(key)
        if isinstance(value, str) and value:
            data[key] = base / _expand_home(value, environ)
        elif key not in data:
            data[key] = home(environ) / key.removesuffix("_dir")
        else:
            raise ConfigError(f"{document.place((key,))}: expected a path")
    log = data.get("log")
    if isinstance(log, dict):
        section = cast("dict[str, object]", log)
        if isinstance(file := section.get("file"), str) and file:
            data["log"] = section | {"file": base / _expand_home(file, environ)}
    for server in _mcp_servers(data):
        if isinstance(cwd := server.get("cwd"), str) and cwd:
            server["cwd"] = base / _expand_home(cwd, environ)
    return data


def _section(data: dict[str, object], key: str) -> dict[str, object]:
    found = data.get(key)
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}


def _mcp_servers(data: dict[str, object]) -> list[dict[str, object]]:
    """Return the sections of MCP servers, as far as they are any."""
    servers = _section(_section(_section(data, "tools"), "mcp"), "servers").values()
    return [cast("dict[str, object]", one) for one in servers if isinstance(one, dict)]


def _expand_home(text: str, environ: Mapping[str, str]) -> Path:
    return home(environ).parent / text[2:] if text.startswith("~/") or text == "~" else Path(text)


def _with_providers(data: dict[str, object], environ: Mapping[str, str]) -> dict[str, object]:
    """Name the type of a provider that is called like one, take keys from the environment, and be offline as the last resort."""
    given = data.get("providers")
    if not given and given in (None, {}):
        names = [name for name, variable in KEY_VARIABLES.items() if environ.get(variable)]
        given = {name: cast("object", {}) for name in names or ["offline"]}
    if not isinstance(given, dict):
        return data
    providers = cast("dict[str, object]", given)
    return data | {"providers": {name: _provider(name, value, environ) for name, value in providers.items()}}


def _provider(name: str, value: object, environ: Mapping[str, str]) -> object:
    if value is None:
        value = {}
    if not isinstance(value, dict):
        return value
    provider = cast("dict[str, object]", value)
    if "type" not in provider and name in DEFAULT_MODELS:
        provider = {"type": name} | provider
    kind = provider.get("type")
    key_variable = KEY_VARIABLES.get(kind) if isinstance(kind, str) else None
    if not key_variable or provider.get("api_key") or provider.get("base_url") or not environ.get(key_variable):
        return provider
    url = environ.get(URL_VARIABLES[str(kind)])
    return provider | {"api_key": environ[key_variable]} | ({"base_url": url} if url else {})


def _check_places(settings: Settings, document: Document) -> None:
    """Refuse directories that cannot be any, and a workspace that tools could not use."""
    faults: list[tuple[KeyPath, str | None]] = [
        (("workspace",), directory_fault(settings.workspace)),
        (("data_dir",), directory_fault(settings.data_dir)),
        (("log", "file"), file_fault(settings.log.file) if settings.log.file else None),
    ]
    if not any(fault for _, fault in faults):
        faults.append((("workspace",), overlap_fault(settings.workspace, settings.data_dir)))
    if said := [f"{document.place(key)}: {fault}" for key, fault in faults if fault]:
        raise ConfigError("\n".join(said))


def _check_tools(tools: ToolSettings, document: Document, own: Collection[str]) -> None:
    """Refuse names of no tool: a slip would leave a tool on, or unasked for."""
    known = {*BUILTIN_TOOLS, *own}
    servers = {label_of(name) for name in tools.mcp.servers}
    spoken = {*tools.disabled, *tools.ask_before, *tools.limits, *(name for rule in tools.rules for name in rule.tool)}
    brought = Packaged()
    if spoken - known:  # only then: this imports them
        brought = packaged_tools(disabled=tools.disabled, taken=BUILTIN_TOOLS)
    packaged = brought.names
    known |= packaged
    named: list[tuple[KeyPath, str, Collection[str]]] = [
        *((("tools", "disabled", at), name, {*BUILTIN_TOOLS, *packaged}) for at, name in enumerate(tools.disabled)),
        *((("tools", "ask_before", at), name, known) for at, name in enumerate(tools.ask_before)),
        *((("tools", "limits", name), name, known) for name in tools.limits),
        *(
            (("tools", "rules", at, "tool"), name, known)
            for at, rule in enumerate(tools.rules)
            for name in rule.tool
            if not _is_glob(name)
        ),
    ]
    said = _argument_faults(tools, document, own, brought)
    for key, name, there in named:
        if name not in there and server_label(name) not in servers:
            guess = closest(name, there)
            hint = f"did you mean {guess!r}?" if guess else f"there are: {', '.join(sorted(there))}"
            said.append(f"{document.place(key)}: no tool is called so; {hint}")
    if said:
        raise ConfigError("\n".join(said))


def _argument_faults(tools: ToolSettings, document: Document, own: Collection[str], brought: Packaged) -> list[str]:
    """Return what is wrong with the names of arguments in rules."""
    if not any(rule.argument for rule in tools.rules):
        return []
    from nanobot.config.rule_arguments import argument_faults, known_arguments  # imports all tools: seldom needed here

    known = known_arguments(brought.tools)
    unknown = {*own, *(brought.names - set(known))}
    faults = argument_faults(tools.rules, known, unknown=unknown, has_servers=bool(tools.mcp.servers))
    return [f"{document.place(('tools', 'rules', at, 'argument', name))}: {said}" for at, name, said in faults]


def _is_glob(name: str) -> bool:
    """Say whether a name stands for tools that may be there: those of other servers are not known before they run."""
    return any(sign in name for sign in "*?[") or name.startswith("mcp_")


def _check_models(settings: Settings, document: Document) -> None:
    """Refuse references to providers that are not there, in the agent's model and the compaction's."""
    compaction: KeyPath = ("agent", "compaction", "model")
    try:
        wanted: list[tuple[KeyPath, str]] = [(("agent", "model"), model) for model in settings.models]
    except ConfigError as error:
        raise ConfigError(f"{document.place(('agent', 'model'))}: {error}") from None
    if settings.agent.compaction.model:
        wanted.append((compaction, settings.agent.compaction.model))
    for key, reference in wanted:
        name, slash, model = reference.partition("/")
        if not slash or not name or not model:
            raise ConfigError(f"{document.place(key)}: expected <provider>/<model>, such as {_example(settings)!r}")
        if name not in settings.providers:
            guess = closest(name, settings.providers)
            hint = f"did you mean {guess!r}?" if guess else f"there are: {', '.join(settings.providers)}"
            variable = KEY_VARIABLES.get(name)
            hint += f" (or set {variable})" if variable and not document.data.get("providers") else ""
            raise ConfigError(f"{document.place(key)}: no provider is called {shown(name)!r}; {hint}")


def _example(settings: Settings) -> str:
    """Return a model reference that would be right."""
    name, provider = next(iter(settings.providers.items()))
    return f"{name}/{DEFAULT_MODELS[provider.type]}"


def _check_keys(settings: Settings, document: Document) -> None:
    """Refuse to start with a vendor that will answer 401 for want of a key.  A server of one's own may need none."""
    for name in dict.fromkeys(reference.partition("/")[0] for reference in settings.models):
        provider = settings.providers[name]
        if provider.type == "offline" or provider.base_url:
            continue
        if provider.api_key is None or not provider.api_key.get_secret_value().strip():
            place = document.place(("providers", name, "api_key"))
            raise ConfigError(
                f"{place}: provider {name!r} has no key; set it here or as {KEY_VARIABLES[provider.type]}"
            )
