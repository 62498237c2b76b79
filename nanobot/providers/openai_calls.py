"""Put tool calls together from the fragments of a Chat Completions stream.  Pure.

The wire says: fragments carry an index; the first has id and name, the others more arguments.  Servers in the field leave the index
out, give every call index 0, repeat or lose ids, repeat names, send arguments as an object, or null where nothing is new.  So a
fragment is put where index, then id, then position say, and starts a new call when the call there is already whole.
"""

from dataclasses import dataclass, field
from typing import cast

from nanobot.messages import JsonObject, JsonValue
from nanobot.providers.base import ToolCallRequest
from nanobot.providers.wire import (
    as_json,
    as_list,
    as_object,
    as_text,
    is_blank,
    is_complete_json,
    parse_arguments,
)


@dataclass(slots=True)
class CallDraft:
    """One call while its fragments arrive."""

    index: int | None = None
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    ready: JsonObject | None = None  # arguments that came as an object
    extra: JsonValue = None  # what the vendor wants back with this call

    def is_whole(self) -> bool:
        """Say whether the arguments are one whole object already."""
        if self.ready is not None:
            return True
        return bool(self.pieces) and self.pieces[-1].rstrip().endswith("}") and is_complete_json("".join(self.pieces))

    def take(self, fragment: dict[str, object]) -> bool:
        """Add a fragment; say whether it carried anything."""
        function = as_object(fragment.get("function")) or fragment
        name, arguments = as_text(function.get("name")), function.get("arguments")
        extra = fragment.get("extra_content")
        self.id = self.id or as_text(fragment.get("id"))
        if name and not self.pieces and self.ready is None:
            self.name = name if name.startswith(self.name) else self.name + name
        elif name and not self.name:
            self.name = name
        if isinstance(arguments, dict):
            self.ready = as_json(as_object(cast("object", arguments)))
        elif isinstance(arguments, str) and arguments:
            self.pieces.append(arguments)
        if extra is not None:
            self.extra = as_json({"v": extra})["v"]
        return bool(name) or arguments not in (None, "") or extra is not None

    def finished(self, *, cut_off: bool) -> ToolCallRequest:
        """Return the call.  Cut off before its first argument it is broken, not empty."""
        if self.ready is not None:
            return ToolCallRequest(self.name, self.ready)
        text = "".join(self.pieces)
        if cut_off and is_blank(text):
            return ToolCallRequest(self.name, "")
        return ToolCallRequest(self.name, parse_arguments(text))


class CallDrafts:
    """All calls of one answer, in the order they began."""

    def __init__(self) -> None:
        self.drafts: list[CallDraft] = []

    def take(self, fragments: object) -> bool:
        """Add the fragments of one chunk (a list, or the single object some servers send); say whether they carried anything."""
        items = [as_object(item) for item in (as_list(fragments) or [fragments])]
        used: list[CallDraft] = []
        moved = False
        for position, item in enumerate(item for item in items if item):
            draft = self._place(item, position, len(items), used)
            used.append(draft)
            moved = draft.take(item) or moved
        return moved

    def finished(self, *, cut_off: bool) -> tuple[ToolCallRequest, ...]:
        """Return the calls; a draft without name and arguments was none."""
        last = len(self.drafts) - 1
        return tuple(
            d.finished(cut_off=cut_off and i == last)
            for i, d in enumerate(self.drafts)
            if d.name or d.pieces or d.ready
        )

    def _place(self, item: dict[str, object], position: int, count: int, used: list[CallDraft]) -> CallDraft:
        index = item.get("index")
        call_id = as_text(item.get("id"))
        at = index if isinstance(index, int) and not isinstance(index, bool) else None
        if at is not None:
            found = next((d for d in reversed(self.drafts) if d.index == at), None)
        elif call_id:
            found = next((d for d in reversed(self.drafts) if d.id == call_id), None)
            last = self.drafts[-1] if self.drafts else None
            if found is None and last is not None and not last.id and not last.name:
                found = last  # its arguments came first
        else:
            found = self._by_position(position, count)
        if found is None or self._begins(item, found, found in used):
            found = CallDraft(index=at)
            self.drafts.append(found)
        return found

    def _by_position(self, position: int, count: int) -> CallDraft | None:
        if count > 1:
            return self.drafts[-count:][position] if len(self.drafts) >= count else None
        return self.drafts[-1] if self.drafts else None

    def _begins(self, item: dict[str, object], found: CallDraft, used: bool) -> bool:
        """Say whether a fragment that points at ``found`` is really the next call."""
        function = as_object(item.get("function")) or item
        name, call_id = as_text(function.get("name")), as_text(item.get("id"))
        if not name or not found.name:
            return False
        if call_id and found.id:
            return call_id != found.id or (found.is_whole() and bool(function.get("arguments")))
        if item.get("index") is None and call_id != found.id and call_id:
            return True
        if used or (found.is_whole() and bool(function.get("arguments"))):
            return True
        return name != found.name and bool(found.pieces or found.ready)
