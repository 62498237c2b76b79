"""A small terminal in memory: enough of one to know what a person sees, scrollback included."""

import re

from wcwidth import wcwidth

_TOKEN = re.compile(
    r"\x1b\[([0-?]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()].|\x1b[=>78]|(.)", re.DOTALL
)
_INCOMPLETE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*|[()])?$")


class Screen:
    """Feed it what a program writes; ``text`` is what stands there, from the first line on."""

    def __init__(self, rows: int = 24, columns: int = 80) -> None:
        self._rows = rows
        self._columns = columns
        self._lines: list[list[str]] = [[]]
        self._top = 0  # first line of the screen; those above are scrollback
        self._row = 0  # in self._lines
        self._column = 0
        self._rest = ""

    @property
    def text(self) -> str:
        return "\n".join("".join(line).rstrip() for line in self._lines)

    def feed(self, data: str) -> None:
        data = self._rest + data
        cut = _INCOMPLETE.search(data)
        self._rest = data[cut.start() :] if cut else ""
        for match in _TOKEN.finditer(data[: cut.start()] if cut else data):
            if match[3] is not None:
                self._put(match[3])
            elif match[2]:
                self._obey(match[1], match[2])

    def _put(self, char: str) -> None:
        if char == "\r":
            self._column = 0
        elif char == "\b":
            self._column = max(0, self._column - 1)
        elif char == "\n":
            self._down(1)
        elif ord(char) >= 32:
            width = max(wcwidth(char), 0)
            if self._column + width > self._columns:
                self._down(1)
                self._column = 0
            line = self._lines[self._row]
            line.extend(" " * (self._column + max(width, 1) - len(line)))
            line[self._column : self._column + max(width, 1)] = [char, *[""] * (width - 1)]
            self._column += width

    def _down(self, count: int) -> None:
        self._row += count
        self._lines.extend([] for _ in range(self._row + 1 - len(self._lines)))
        self._top = max(self._top, self._row + 1 - self._rows)

    def _obey(self, arguments: str, command: str) -> None:
        count = int(arguments) if arguments.isdigit() and arguments != "0" else 1
        match command:
            case "A":
                self._row = max(self._top, self._row - count)
            case "B":
                self._down(min(count, self._top + self._rows - 1 - self._row))
            case "C":
                self._column += count
            case "D":
                self._column = max(0, self._column - count)
            case "K":
                del self._lines[self._row][self._column :]
            case "J":
                del self._lines[self._row][self._column :]
                del self._lines[self._row + 1 :]
            case _:
                return  # colours, modes: nothing that moves text
