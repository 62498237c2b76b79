"""Reading unified diffs: what ``diff -u`` and ``git diff`` print, and what models write in their stead.  Pure.

Counts in hunk headers are often wrong and therefore only believed where they fit; line numbers may be missing.  What cannot be
applied as text (binary patches, copies, changes of mode alone) is refused.
"""

import re
from typing import Literal

from nanobot.errors import ToolError
from nanobot.values import frozen

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NO_NEWLINE = "\\ "
_REFUSED = {
    "GIT binary patch": "it holds a binary patch",
    "Binary files ": "it is about binary files",
    "copy from ": "it copies a file; write the copy with write_file",
    "*** Begin Patch": "it is not a unified diff; write ---, +++ and @@ lines",
}


@frozen
class PatchLine:
    """A line of a hunk; ``newline`` is false where the diff says that the file ends without one."""

    kind: Literal[" ", "-", "+"]
    text: str
    newline: bool = True


@frozen
class Hunk:
    """Lines that are there, go and come.  ``start`` is the old file's line (from 1) where they begin, if the diff says so."""

    start: int | None
    lines: tuple[PatchLine, ...]


@frozen
class FilePatch:
    """What happens to one file: ``old`` is None for a new one, ``new`` for one that goes; two names are a rename."""

    old: str | None
    new: str | None
    hunks: tuple[Hunk, ...]
    executable: bool = False  # of a new file


def parse_patch(text: str) -> list[FilePatch]:
    """Return the files of a diff, in its order.

    Raises:
        ToolError: it is no unified diff, or one that cannot be applied.
    """
    reader = _Reader([line.removesuffix("\r") for line in text.split("\n")])
    while not reader.at_end:
        reader.step()
    files = reader.finish()
    if not files:
        raise ToolError("the patch holds no file: a unified diff has --- and +++ lines, then @@ and the changed lines.")
    return files


class _Reader:
    """Goes through the lines once."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self._files: list[FilePatch] = []
        self._start()

    def _start(self) -> None:
        self._old: str | None = None
        self._new: str | None = None
        self._git: str | None = None  # both names, where no --- and +++ follow
        self._hunks: list[Hunk] = []
        self._flags: set[str] = set()

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._lines)

    def step(self) -> None:
        """Read one line, or a whole hunk."""
        line = self._lines[self._at]
        if why := next((why for word, why in _REFUSED.items() if line.startswith(word)), None):
            raise ToolError(f"the patch cannot be applied: {why}. Nothing was changed.")
        self._at += 1
        if line.startswith("diff --git "):
            self._end_file()
            self._git = line.removeprefix("diff --git ")
        elif line.startswith("--- ") and not self.at_end and self._lines[self._at].startswith("+++ "):
            self._names(line)
        elif line.startswith("@@"):
            self._hunks.append(self._hunk(line))
        else:
            self._header(line)

    def finish(self) -> list[FilePatch]:
        self._end_file()
        return self._files

    def _names(self, line: str) -> None:
        if "dashes" in self._flags or self._hunks:
            self._end_file()
        self._flags |= {"named", "dashes"}
        self._old, self._new = _name(line[4:]), _name(self._lines[self._at][4:])
        self._at += 1
        if self._old is None and self._new is None:
            raise ToolError("the patch has a file with /dev/null on both sides. Nothing was changed.")

    def _header(self, line: str) -> None:
        for word in ("rename from ", "rename to "):
            if line.startswith(word):
                self._flags.add("named")
                name = _unquoted(line.removeprefix(word))
                self._old, self._new = (name, self._new) if word == "rename from " else (self._old, name)
        for word in ("new file mode", "deleted file mode", "new mode"):
            if line.startswith(word):
                self._flags.add(word)
                self._flags |= {"executable"} if line.endswith("755") else set()

    def _end_file(self) -> None:
        old, new, flags = self._old, self._new, self._flags
        if "named" not in flags and self._git is not None:  # an empty file that comes or goes
            old, new = _git_names(self._git)
        old = None if "new file mode" in flags else old
        new = None if "deleted file mode" in flags else new
        if old is not None and new is not None and plain_name(old) == plain_name(new) and not self._hunks:
            why = "only its mode changes; use exec with chmod" if "new mode" in flags else "it has no @@ lines"
            raise ToolError(f"the patch does nothing to {plain_name(old)!r}: {why}. Nothing was changed.")
        if old is not None or new is not None:
            self._files.append(FilePatch(old, new, tuple(self._hunks), "executable" in flags))
        elif self._hunks:
            raise ToolError("the patch has @@ lines before any --- and +++ lines. Nothing was changed.")
        self._start()

    def _hunk(self, header: str) -> Hunk:
        """Read the lines of a hunk: as many as its header says, more or less where it is wrong."""
        match = _HUNK.match(header)
        start = int(match.group(1)) if match else None
        old = int(match.group(2) or 1) if match else -1
        new = int(match.group(3) or 1) if match else -1
        lines: list[PatchLine] = []
        bare = 0  # empty lines at the end, which may be context that lost its blank, or nothing
        while not self.at_end:
            line = self._lines[self._at]
            is_short = old > 0 or new > 0
            if line.startswith(_NO_NEWLINE) and lines:
                lines[-1] = PatchLine(lines[-1].kind, lines[-1].text, newline=False)
            elif not self._goes_on(line, is_short=is_short or not match):
                break
            else:
                kind = line[:1] or " "
                lines.append(PatchLine(" " if kind == " " else "-" if kind == "-" else "+", line[1:]))
                old, new = old - (kind != "+"), new - (kind != "-")
                bare = 0 if line else bare + 1
            self._at += 1
        is_off = not match or old != 0 or new != 0
        return Hunk(start, tuple(lines[: len(lines) - bare] if is_off else lines))

    def _goes_on(self, line: str, *, is_short: bool) -> bool:
        following = self._lines[self._at + 1] if self._at + 1 < len(self._lines) else ""
        if line.startswith("--- ") and following.startswith("+++ "):
            return False
        if not is_short:
            return line[:1] in (" ", "+", "-") and line != "" and line not in ("-- ", "--")
        return line == "" or line[0] in " +-"


def plain_name(name: str) -> str:
    """Return the name without git's a/ or b/."""
    return name[2:] if name.startswith(("a/", "b/")) else name


def _name(raw: str) -> str | None:
    """Return the file's name in a ``---`` or ``+++`` line, without what stands behind a tab."""
    name = _unquoted(raw.split("\t")[0].rstrip())
    if name == "/dev/null":
        return None
    if not name:
        raise ToolError("the patch has a --- or +++ line without a name. Nothing was changed.")
    return name


def _unquoted(name: str) -> str:
    """Undo git's quoting of names that are not plain."""
    if len(name) < 2 or name[0] != '"' or name[-1] != '"':
        return name
    plain = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
    octal = re.compile(r"\\([0-7]{3}|.)")
    raw = octal.sub(
        lambda m: chr(int(m.group(1), 8) & 255) if len(m.group(1)) == 3 else plain.get(m.group(1), m.group(1)),
        name[1:-1].encode().decode("latin-1"),
    )
    return raw.encode("latin-1").decode("utf-8", "replace")


def _git_names(names: str) -> tuple[str, str]:
    """Return both names of a ``diff --git`` line; they are equal but for a/ and b/."""
    half = (len(names) - 1) // 2
    return _unquoted(names[:half]), _unquoted(names[half + 1 :])
