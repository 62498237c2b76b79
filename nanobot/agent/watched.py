"""A run's events on their way out, and what a stop would leave unfinished."""

from nanobot.agent.recorder import TurnRecorder
from nanobot.agent.turn import Running
from nanobot.bus.runtime_bus import RuntimeEventPublisher
from nanobot.bus.runtime_events import TextDelta, TextReset, ToolFinished, ToolStarted, TurnEvent


class WatchedEmit:
    """Passes events on; remembers the text of an answer that is not logged yet, and which calls run."""

    def __init__(self, publisher: RuntimeEventPublisher, recorder: TurnRecorder, running: Running) -> None:
        self._publisher = publisher
        self._recorder = recorder
        self._running = running
        self._text = ""
        self._answers = 0
        self._closed = False

    def close(self) -> None:
        """Publish nothing any more: the Turn ends without its run."""
        self._closed = True

    @property
    def partial(self) -> str:
        """What people saw of an answer that has not ended."""
        return self._text if self._recorder.answers == self._answers else ""

    def emit(self, event: TurnEvent) -> None:
        """Publish the event."""
        if self._closed:
            return
        match event:
            case TextDelta(text=text):
                self._text = self.partial + text
                self._answers = self._recorder.answers
            case TextReset():
                self._text = ""
            case ToolStarted(call_id=call_id, summary=summary):
                self._running.tools[call_id] = summary
            case ToolFinished(call_id=call_id):
                self._running.tools.pop(call_id, None)
            case _:
                pass
        self._publisher.emit(event)
