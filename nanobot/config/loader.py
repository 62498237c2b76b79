"""Read a YAML file into plain values that remember their lines, with ``${NAME}`` expanded.

Promises: a key that stands twice is refused; an unset variable is refused; every error is a ``ConfigError`` that names file and
line and quotes no value, because any value may be a secret.  What keys mean is ``settings``' business.

``${NAME}`` is the variable's value, ``${NAME:-default}`` falls back when it is unset or empty, and ``$${`` is a plain ``${``.
"""

import re
import stat
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, TypeAlias, cast

import yaml
from yaml.constructor import SafeConstructor

from nanobot.errors import ConfigError
from nanobot.messages import clean_text
from nanobot.redaction import Redactor
from nanobot.values import frozen

KeyPath: TypeAlias = tuple[str | int, ...]

MAX_BYTES = 4_000_000
MAX_NODES = 100_000

_REFERENCE = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(:-([^{}]*))?\})?")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_QUOTED = re.compile(r"'[^'<]{2,}'")


@frozen
class Document:
    """A configuration file's values, and the line (from 1) on which each key stands.  ``path`` is None when there is no file."""

    data: dict[str, object] = field(default_factory=dict[str, object])
    lines: Mapping[KeyPath, int] = field(default_factory=dict[KeyPath, int])
    path: Path | None = None

    def place(self, key: KeyPath) -> str:
        """Return ``file:line: key`` for an error, with the line of the nearest parent that has one."""
        name = dotted(key)
        if self.path is None:
            return name
        while key and key not in self.lines:
            key = key[:-1]
        line = f":{self.lines[key]}" if key else ""
        return f"{self.path}{line}: {name}" if name else f"{self.path}{line}"


def dotted(key: KeyPath) -> str:
    """Return a key path as people write it: ``providers.local.headers``, ``agent.model[1]``.  A secret as a key is redacted."""
    out = ""
    for part in key:
        out += f"[{part}]" if isinstance(part, int) else f".{shown(part)}" if out else shown(part)
    return out


def shown(name: str) -> str:
    """Return a name out of a file as an error may show it: no secret that stands in the wrong place, no control character."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), Redactor()(name))


def read(path: Path, environ: Mapping[str, str]) -> Document:
    """Read one file.

    Raises:
        ConfigError: the file cannot be read, is no YAML mapping of keys, or names a variable that is not set.
    """
    return parse(_read_text(path), path, environ)


def parse(text: str, path: Path, environ: Mapping[str, str]) -> Document:
    """Read one file's text; ``path`` is only for errors.  Raises as ``read``."""
    if text.lstrip().startswith("{"):
        text = text.replace("\t", " ")  # JSON may indent with tabs, which YAML refuses; JSON strings cannot hold any
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, path) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{path}:{line}: a character that YAML does not allow ({error.character:#06x})") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    if root is None:
        return Document(path=path)
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{path}:{_line(root)}: expected keys with values, such as 'workspace: ~/notes'")
    reader = _Reader(path, environ)
    return Document(cast("dict[str, object]", reader.value(root, ())), reader.lines, path)


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Return the text with its ``${NAME}`` references replaced.

    Raises:
        KeyError: a variable is not set; its argument is the name.
        ValueError: a ``${`` begins no valid reference.
    """

    def one(match: re.Match[str]) -> str:
        name, fallback = match[1], match[3]
        if match[0] == "$${":
            return "${"
        if name is None:
            raise ValueError("this ${ begins no ${NAME} or ${NAME:-default}; write $${ for a plain ${")
        if match[2] is not None:
            return environ.get(name) or fallback
        return environ[name]

    return _REFERENCE.sub(one, text)


class _Reader:
    """One walk over the nodes of one file."""

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._path = path
        self._environ = environ
        self._open: set[int] = set()
        self._seen = 0
        self._scalars = SafeConstructor()

    def value(self, node: yaml.Node, key: KeyPath) -> object:
        self._seen += 1
        if id(node) in self._open or self._seen > MAX_NODES:
            raise self._error(node, key, "aliases (*) grow without end")
        self._open.add(id(node))
        if isinstance(node, yaml.MappingNode):
            out = self._mapping(node, key)
        elif isinstance(node, yaml.SequenceNode):
            out = self._sequence(node, key)
        else:
            out = self._scalar(node, key)
        self._open.discard(id(node))
        return out

    def _mapping(self, node: yaml.MappingNode, key: KeyPath) -> dict[str, object]:
        out: dict[str, object] = {}
        for name_node, value_node in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            if not isinstance(name_node, yaml.ScalarNode):
                raise self._error(name_node, key, "a key must be plain text")
            name = str(name_node.value)
            inner = (*key, name)
            if name in out:
                raise self._error(name_node, inner, f"this key stands here twice (first on line {self.lines[inner]})")
            self.lines[inner] = _line(name_node)
            out[name] = self.value(value_node, inner)
        return out

    def _sequence(self, node: yaml.SequenceNode, key: KeyPath) -> list[object]:
        out: list[object] = []
        for index, item in enumerate(cast("list[yaml.Node]", node.value)):
            self.lines[(*key, index)] = _line(item)
            out.append(self.value(item, (*key, index)))
        return out

    def _scalar(self, node: yaml.Node, key: KeyPath) -> object:
        try:
            value = cast("object", self._scalars.construct_object(node))  # pyright: ignore[reportUnknownMemberType] # stub
        except (yaml.MarkedYAMLError, ValueError, OverflowError):
            raise self._error(node, key, "this value cannot be read; put it in quotes if it is text") from None
        if not isinstance(value, str):
            return value
        try:
            return clean_text(expand(value, self._environ))
        except KeyError as error:
            fix = f"set it, or write ${{{error.args[0]}:-default}}"
            raise self._error(node, key, f"the environment variable {error.args[0]} is not set; {fix}") from None
        except ValueError as error:
            raise self._error(node, key, str(error)) from None

    def _error(self, node: yaml.Node, key: KeyPath, text: str) -> ConfigError:
        name = f"{dotted(key)}: " if key else ""
        return ConfigError(f"{self._path}:{_line(node)}: {name}{text}")


def _read_text(path: Path) -> str:
    try:
        kind = path.stat().st_mode  # first: opening a pipe would wait for its writer
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            raise ConfigError(f"{path}: no regular file; copy the configuration into one")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or type(error).__name__}") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{path}: longer than {MAX_BYTES} bytes: this is no configuration file")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8; save the file as UTF-8") from None


def _syntax_error(error: yaml.MarkedYAMLError, path: Path) -> ConfigError:
    """Say what is wrong and where, without YAML's own snippet and without quoted text: either may hold a secret."""
    mark = error.problem_mark or error.context_mark
    where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
    problem = _QUOTED.sub("'…'", error.problem or error.context or "it cannot be read")
    return ConfigError(f"{path}{where}: not valid YAML: {problem} ({_hint(error.problem or '')})")


def _hint(problem: str) -> str:
    if "'\\t'" in problem:
        return "indent with spaces, not tabs"
    if problem.endswith("got '{'"):
        return 'inside {…} and […] put variables in quotes: "${NAME}"'
    return "put values that begin with * & ! % @ ` in quotes"


def _line(node: yaml.Node) -> int:
    mark = cast("Any", node.start_mark)  # Any: the stub leaves marks untyped
    return int(mark.line) + 1 if mark else 1
