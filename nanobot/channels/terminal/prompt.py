"""Talk to a person at a real terminal: an input line that is always there, with what is moving drawn above it.

prompt_toolkit is the only owner of the screen: finished text is printed above the input line and stays in the scrollback; the live
part is drawn as the beginning of the prompt, cropped to the screen.  So a person can type while a Turn runs, and the terminal is
restored however this ends.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.shortcuts import CompleteStyle

from nanobot.channels.terminal.markdown import Ink
from nanobot.channels.terminal.screen import Segments, draw_live, draw_segment
from nanobot.channels.terminal.view import Live, Segment
from nanobot.messages import clean_text

PROMPT = "\n› "


class PromptTerminal:
    """One person at one terminal.

    Args:
        history: a file for what was typed; private, and created when needed.
        commands: what can be completed after a slash, with a line of help each.
        live: asked at each frame for what is moving.
        interrupt: told of Ctrl-C with an empty input line, or while something runs; it answers with a hint, or None.
        colour: False keeps colours out, as NO_COLOR asks for.
    """

    def __init__(
        self,
        *,
        history: Path,
        commands: Mapping[str, str],
        live: Callable[[], Live],
        interrupt: Callable[[], str | None],
        colour: bool = True,
    ) -> None:
        self._ink = Ink(colour=colour)
        self._live = live
        self._interrupt = interrupt
        self._segments = Segments()
        self._session: PromptSession[str] = PromptSession(
            message=self._message,
            history=_History(history),
            completer=_Commands(commands),
            complete_style=CompleteStyle.READLINE_LIKE,
            complete_while_typing=False,
            multiline=True,
            prompt_continuation="  ",
            key_bindings=self._keys(),
            reserve_space_for_menu=0,
        )
        self._session.app.ttimeoutlen = 0.05  # a lone Esc is rare here; waiting for its sequence is what people notice

    async def read(self) -> str | None:
        """Return what the person enters next, or None when they leave (Ctrl-D)."""
        try:
            return clean_text(await self._session.prompt_async(handle_sigint=False))
        except EOFError:
            return None

    async def show(self, segments: Iterable[Segment]) -> None:
        """Print segments above the input line, where they stay."""
        columns = self._columns()
        text = "".join(self._segments.spaced(one, draw_segment(self._ink, one, columns)) for one in segments)
        if text:
            self._write(text)

    def refresh(self) -> None:
        """Draw the live part anew, soon."""
        self._session.app.invalidate()

    def on_interrupt(self) -> None:
        """Do what Ctrl-C does; also called for a SIGINT from outside."""
        buffer = self._session.default_buffer
        if buffer.text and not self._live().status:
            buffer.reset()
            return
        hint = self._interrupt()
        if hint:
            self._write(self._ink.line(hint, "dim", self._columns()))

    def _write(self, text: str) -> None:
        """Print above the input line.

        ``run_in_terminal`` would leave raw mode meanwhile, and the terminal would then eat a Ctrl-D or echo what is typed.
        """
        app = self._session.app
        if app.is_running:
            app.renderer.erase()
        app.output.write_raw(text.replace("\n", "\r\n"))
        app.output.flush()
        app.invalidate()

    def _message(self) -> ANSI:
        app = self._session.app
        if app.is_done:  # the entered line stays in the scrollback: without what was moving
            return ANSI(PROMPT)
        size = app.output.get_size()
        drawn = draw_live(self._ink, self._live(), rows=size.rows - 5, columns=size.columns)
        return ANSI(f"\n{drawn}{PROMPT}" if drawn else PROMPT)

    def _columns(self) -> int:
        return self._session.app.output.get_size().columns

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            if event.current_buffer.text.strip():
                event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            self.on_interrupt()

        return keys


class _Commands(Completer):
    """Completes the first word after a slash."""

    def __init__(self, commands: Mapping[str, str]) -> None:
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if text.startswith("/") and not any(char.isspace() for char in text):
            for name, meaning in self._commands.items():
                if name.startswith(text):
                    yield Completion(name, start_position=-len(text), display_meta=meaning)


class _History(FileHistory):
    """A private file; a disk that refuses costs the history, not the chat."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        try:
            return list(super().load_history_strings())
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600))
            super().store_string(clean_text(string))
        except OSError:
            return
