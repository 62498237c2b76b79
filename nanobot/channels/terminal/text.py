"""Text that is safe to put on a terminal, and where streamed Markdown can be cut.  Pure."""

import re

from nanobot.values import frozen

_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS and the like: titles, clipboard
    r"|\x9b[0-?]*[ -/]*[@-~]"  # CSI as one character
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
)
# What is left of control characters, and the marks that reorder text: a command must be shown in the order in which it runs.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def printable(text: str) -> str:
    """Return the text without anything that a terminal would obey: escape sequences, control characters, bidi overrides."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("", _SEQUENCES.sub("", text))


def one_line(text: str) -> str:
    """Return printable text with its line breaks and tabs made visible or plain."""
    return printable(text).replace("\n", " ⏎ ").replace("\t", " ")


@frozen
class Scan:
    """How far streamed Markdown was read, line by line.

    Args:
        position: where the first line begins that is not complete yet.
        done: how many characters at the beginning are finished blocks; what follows may still change its meaning.
        fence: the line that opened the code block in which the text ends, or empty.
        after_blank: the line before ``position`` is blank.
        in_list: the open block is a list.
    """

    position: int = 0
    done: int = 0
    fence: str = ""
    after_blank: bool = False
    in_list: bool = False


def scan(state: Scan, text: str) -> Scan:
    """Read on to the last complete line; ``text`` is what was read before and more.

    A block is finished by a blank line outside a code fence.  A list stays open over blank lines, because the next item would
    otherwise start a list of its own.
    """
    while (end := text.find("\n", state.position) + 1) > 0:
        state = _next_line(state, text[state.position : end], end)
    return state


def _next_line(state: Scan, line: str, end: int) -> Scan:
    done, fence, in_list = state.done, state.fence, state.in_list
    mark = _FENCE.match(line)
    is_blank = not line.strip()
    if fence:
        fence = "" if mark and _closes(fence, mark) else fence
    else:
        if state.after_blank and not is_blank and not (in_list and (line[0] in " \t" or _is_item(line))):
            done, in_list = state.position, False
        in_list = in_list or _is_item(line)
        fence = line if mark and _opens(mark) else ""
        done = end if is_blank and not in_list else done
    return Scan(end, done, fence, is_blank, in_list)


def _opens(mark: re.Match[str]) -> bool:
    return mark[1][0] == "~" or "`" not in mark[2]


def _closes(fence: str, mark: re.Match[str]) -> bool:
    opened = fence.strip()
    marks = len(opened) - len(opened.lstrip(opened[0]))
    return mark[1][0] == opened[0] and len(mark[1]) >= marks and not mark[2].strip()


def _is_item(line: str) -> bool:
    return re.match(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)", line) is not None


def tail(text: str, *, fence: str, rows: int, columns: int) -> str:
    """Return the end of an open block that can fill a screen, still inside its code fence if there is one."""
    cut = text[-rows * columns :]
    lines = cut.splitlines(keepends=True)[-rows:]
    short = "".join(lines)
    if len(short) == len(text):
        return text
    return fence.rstrip("\n") + "\n" + short if fence and not short.startswith(fence) else short
