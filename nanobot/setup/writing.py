"""Put choices into a configuration file: a new one with comments, or an existing one that keeps what else it holds.

An existing file is changed section by section: what is not touched stays as it was to the last comment.  Within a section that is
touched, values stay and comments go; the backup has them.
"""

import json
import os
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, TypeAlias, cast

import yaml

from nanobot.config.loader import parse
from nanobot.config.settings import Settings, build
from nanobot.values import frozen

Section: TypeAlias = dict[str, Any]  # Any: YAML values


@frozen(kw_only=True)
class ProviderChoice:
    """Who answers.  ``api_key`` is as it shall stand in the file: a ``${NAME}``, or the key itself."""

    name: str
    kind: str
    model: str
    api_key: str | None = None
    base_url: str | None = None

    @property
    def section(self) -> Section:
        """Its settings, without what needs no saying."""
        found: Section = {} if self.name == self.kind else {"type": self.kind}
        if self.api_key:
            found["api_key"] = self.api_key
        if self.base_url:
            found["base_url"] = self.base_url
        return found


@frozen(kw_only=True)
class BotChoice:
    """A Telegram bot.  ``base_url`` is None for Telegram's own."""

    token: str
    allow_from: tuple[int, ...] = ()
    base_url: str | None = None
    name: str = "telegram"

    @property
    def section(self) -> Section:
        """Its settings, without what needs no saying."""
        found: Section = {"type": "telegram", "token": self.token}
        if self.allow_from:
            found["allow_from"] = list(self.allow_from)
        if self.base_url:
            found["base_url"] = self.base_url
        return found


@frozen(kw_only=True)
class Choices:
    """All that was chosen."""

    provider: ProviderChoice
    bot: BotChoice | None = None


def new_text(choices: Choices, *, today: date) -> str:
    """Return a whole configuration, with comments.  Pure."""
    provider, bot = choices.provider, choices.bot
    lines = [
        f"# nanobot's configuration, written by `nanobot init` on {today.isoformat()}.",
        "# What is left out has its default; docs/configuration.md lists all keys.",
        "# ${NAME} is an environment variable. After a change: `nanobot service restart`, and `nanobot doctor` to check.",
        "",
        "# Who answers.",
        "providers:",
        f"  {_scalar(provider.name)}:" + ("" if provider.section else " {}"),
        *_entries(provider.section, "    "),
        "",
        "agent:",
        "  # <provider>/<model id>; of a list, the next is asked when one fails.",
        f"  model: {_scalar(f'{provider.name}/{provider.model}')}",
        "",
    ]
    if bot is None:
        return "\n".join(
            [
                *lines,
                "# Where people meet the agent, beside the terminal. `nanobot init` adds a bot.",
                "channels: {}",
                "",
            ]
        )
    return "\n".join(
        [
            *lines,
            "# Where people meet the agent, beside the terminal.",
            "channels:",
            f"  {_scalar(bot.name)}:",
            *_entries({key: value for key, value in bot.section.items() if key != "allow_from"}, "    "),
            "    # Numeric ids of who may talk to it; the first is the owner. Empty admits nobody.",
            f"    allow_from: {json.dumps(list(bot.allow_from))}",
            "",
        ]
    )


def merged_text(text: str, choices: Choices) -> str:
    """Return an existing configuration with the choices in it.  Pure."""
    raw = cast("Section", yaml.safe_load(text) or {})
    provider = choices.provider
    wanted: dict[str, Section] = {
        "providers": _with(raw.get("providers"), provider.name, provider.section),
        "agent": {**_mapping(raw.get("agent")), "model": f"{provider.name}/{provider.model}"},
    }
    if choices.bot is not None:
        wanted["channels"] = _with(raw.get("channels"), choices.bot.name, choices.bot.section)
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        return _dumped({**raw, **wanted})
    for name, section in wanted.items():
        text = _replaced(text, name, _dumped({name: section}))
    return text


def checked(text: str, path: Path, environ: Mapping[str, str]) -> Settings:
    """Return the settings that a text stands for.

    Raises:
        ConfigError: it cannot be used.
    """
    return build(parse(text, path, environ), environ)


def save(path: Path, text: str) -> Path | None:
    """Write the file, whole or not at all and for its owner only; return where the old one was kept, if there was one."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    backup = _backup(path) if path.exists() else None
    target = path.resolve()  # a link stays a link
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        _write(temporary, text.encode())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return backup


def literal(value: str) -> str:
    """Return a value as the file must say it, so that ``${`` in it is no reference."""
    return value.replace("${", "$${")


def _backup(path: Path) -> Path:
    number = 1
    while (backup := path.with_name(f"{path.name}.bak{number}")).exists():
        number += 1
    _write(backup, path.read_bytes())
    return backup


def _write(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _replaced(text: str, name: str, block: str) -> str:
    """Put a block in the place of a top-level key, or at the end; comments before the next key stay."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        return f"{text.rstrip()}\n\n{block}" if text.strip() else block
    lines = text.splitlines(keepends=True)
    for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", root.value):
        if str(key.value) != name:
            continue
        start, end = _line(key.start_mark), _line(value.end_mark, is_end=True)
        while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
            end -= 1
        return "".join([*lines[:start], block, *lines[end:]])
    return f"{text.rstrip()}\n\n{block}"


def _line(mark: Any, *, is_end: bool = False) -> int:  # Any: the stub leaves marks untyped
    """Return a mark's line from 0; an end inside a line counts as the next one."""
    return int(mark.line) + (1 if is_end and int(mark.column) > 0 else 0)


def _with(section: object, name: str, values: Section) -> Section:
    known = _mapping(section)
    return {**known, name: {**_mapping(known.get(name)), **values}}


def _mapping(value: object) -> Section:
    return dict(cast("Section", value)) if isinstance(value, dict) else {}


def _dumped(data: Section) -> str:
    return _yaml(data, width=120)


def _entries(section: Section, indent: str) -> list[str]:
    return [f"{indent}{key}: {_scalar(value)}" for key, value in section.items()]


def _scalar(value: object) -> str:
    """Return a value on one line, in quotes only where it needs them."""
    return _yaml(value, width=10_000, default_flow_style=True).removesuffix("\n...\n").strip()


def _yaml(value: object, **how: Any) -> str:  # Any: the stub leaves the options partly untyped
    dump = cast("Callable[..., str]", yaml.safe_dump)
    return dump(value, allow_unicode=True, sort_keys=False, **how)
