"""Which files hold secrets, told by their names.

A name is all there is to go by before a file is read, so this is a list and no proof: a password in ``notes.md`` is not seen, and
``tools.secret_paths`` is where an owner adds what they know.  Patterns are globs for a file's name, or, with a slash, for the end
of its path; a ``!`` before one makes an exception, and the last pattern that fits counts.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase, translate
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import cast

from nanobot.agent.tools.files.opening import open_regular
from nanobot.errors import ToolError

DEFAULT = (
    *(".env", ".env.*", "*.env", ".envrc", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist"),
    *(
        "*.pem",
        "*.key",
        "*.p12",
        "*.pfx",
        "*.jks",
        "*.kdbx",
        "*.keystore",
        "id_rsa*",
        "id_dsa*",
        "id_ecdsa*",
        "id_ed25519*",
        "!*.pub",
    ),
    *(
        "credentials",
        "credentials.*",
        "*credentials*.json",
        "secret.*",
        "secrets.*",
        "secrets",
        "passwords*",
        "*.password",
    ),
    *(".netrc", ".pgpass", ".my.cnf", ".git-credentials", ".npmrc", ".pypirc", ".htpasswd", "*.tfstate", "*.tfvars"),
    *(".ssh/*", ".aws/*", ".gnupg/*", ".kube/config", ".docker/config.json", "etc/shadow", "proc/*/environ"),
)
MOST_FILES = 20_000
_SKIPPED = frozenset(
    {".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", "site-packages", "target", "dist"}
)
_BETWEEN = re.compile(r"""[\s;&|<>$`"'(){}=,@:]+""")
_MOST_CHARS = 20_000
_MOST_WORDS = 500
_MOST_PATH_CHARS = 4_096  # longer ones no system opens
_MOST_READ = 50  # secret files that are read for their values
_MOST_READ_BYTES = 64 << 10
_MOST_VALUES = 2_000
_LONG_CHARS = 20
_VALUE = re.compile(r"""[^\s=:,;@"'`<>()\[\]{}|]{8,}""")
_WEB = ("http://", "https://")  # others, file:// and the like, may be a path


class SecretPaths:
    """Names of secret files.  Matching is a matter of the name alone; ``within``, ``named_through`` and ``values`` look at a disk.

    Args:
        patterns: as ``tools.secret_paths`` has them.
    """

    def __init__(self, patterns: Iterable[str] = DEFAULT) -> None:
        named = [(one.removeprefix("!").lower(), not one.startswith("!")) for one in patterns]
        self._patterns = tuple((pattern, pattern.count("/") + 1, counts) for pattern, counts in named)

    @cached_property
    def _any(self) -> tuple[tuple[int, re.Pattern[str]], ...]:
        """All patterns of a depth in one: most paths fit none, and looking for each takes five times as long."""
        depths = sorted({depth for _, depth, _ in self._patterns})
        fitting = ([translate(pattern) for pattern, at, _ in self._patterns if at == depth] for depth in depths)
        return tuple((depth, re.compile("|".join(each))) for depth, each in zip(depths, fitting, strict=True))

    def is_secret(self, path: str) -> bool:
        """Say whether a file of this name or path holds secrets."""
        parts = PurePosixPath(path.replace("\\", "/").lower()).parts
        ends = {depth: "/".join(parts[-depth:]) for depth, _ in self._any if len(parts) >= depth}
        if not any(depth in ends and pattern.match(ends[depth]) for depth, pattern in self._any):
            return False
        found = False
        for pattern, depth, counts in self._patterns:
            if depth in ends and fnmatchcase(ends[depth], pattern):
                found = counts
        return found

    def named_in(self, arguments: Mapping[str, object]) -> str:
        """Return the secret file that a call's arguments name; empty if they name none.

        The words of a command are looked at one by one; of other arguments those that may be a path as a whole.  A command that is
        too long to be looked through counts as naming one.
        """
        for name, text in _texts(arguments):
            if name in ("command", "input"):
                if len(text) > _MOST_CHARS:
                    return f"in a {name} of {len(text):,} characters"
                words: Iterable[str] = _BETWEEN.split(text)
            elif len(text) <= _MOST_PATH_CHARS and "\n" not in text and not text.startswith(_WEB):
                words = (text,)
            else:
                continue
            if found := next((word for word in words if self.is_secret(word)), ""):
                return found
        return ""

    def named_through(self, arguments: Mapping[str, object], workspace: Path) -> str:
        """Return what ``named_in`` does, or a link that leads to a secret file.  Looks at the disk: call it off the event loop."""
        if named := self.named_in(arguments):
            return named
        base = os.path.realpath(workspace)
        for name, text in _texts(arguments):
            words = _BETWEEN.split(text)[:_MOST_WORDS] if name in ("command", "input") else [text]
            if found := next((word for word in words if self._leads_to_secret(word, base)), ""):
                return found
        return ""

    def _leads_to_secret(self, word: str, base: str) -> bool:
        if not word or len(word) > _MOST_PATH_CHARS or "\n" in word or word.startswith(_WEB):
            return False
        try:
            named = os.path.join(base, os.path.expanduser(word))
            real = os.path.realpath(named)
        except (OSError, ValueError):  # no name that a disk takes
            return False
        return real != os.path.normpath(named) and self.is_secret(real)

    def named_before_colon(self, text: str) -> str:
        """Return the secret file whose lines a search has found; empty if there is none."""
        lines = (line.split(":", 1)[0].strip() for line in text[:_MOST_CHARS].splitlines())
        return next((one for one in lines if one and self.is_secret(one)), "")

    def within(self, directory: Path) -> str:
        """Return a secret file in a directory, or empty.  Reads directories, up to a limit: call it off the event loop."""
        return next(self._all_within(directory), "")

    def values(self, directory: Path) -> frozenset[str]:
        """Return what stands in the secret files of a directory and looks like a secret.  Reads files: as ``within``."""
        found: set[str] = set()
        for name in islice(self._all_within(directory), _MOST_READ):
            try:
                with open_regular(Path(os.path.realpath(directory)) / name, name) as file:
                    text = file.read(_MOST_READ_BYTES).decode("utf-8", "replace")
            except ToolError:
                continue  # gone, a link, or the word that there are too many
            found.update(word for word in _VALUE.findall(text) if _looks_secret(word))
            if len(found) > _MOST_VALUES:
                break
        return frozenset(found)

    def _all_within(self, directory: Path) -> Iterator[str]:
        seen = 0
        for folder, folders, files in os.walk(directory):
            folders[:] = sorted(one for one in folders if one not in _SKIPPED)
            relative = Path(folder).relative_to(directory)
            for name in files:
                if self.is_secret(str(relative / name)):
                    yield str(relative / name)
            seen += len(files) + len(folders)
            if seen > MOST_FILES:
                yield f"more than {MOST_FILES:,} files"  # not looked at to the end: it may be there
                return


def _looks_secret(word: str) -> bool:
    """Say whether a word of a secret file may be the secret in it: letters and digits, or long enough to be a passphrase."""
    has_digit = any(char.isdigit() for char in word)
    return (has_digit and any(char.isalpha() for char in word)) or len(word) >= _LONG_CHARS


def _texts(arguments: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in arguments.items():
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, Mapping):
            yield from _texts(cast("Mapping[str, object]", value))
        elif isinstance(value, list | tuple):
            for item in cast("list[object]", value):
                yield from _texts(cast("Mapping[str, object]", item) if isinstance(item, Mapping) else {name: item})
