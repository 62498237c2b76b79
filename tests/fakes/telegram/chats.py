"""What people would see in each chat."""

from dataclasses import dataclass, field
from typing import Any

from tests.fakes.telegram.params import Upload


@dataclass(slots=True)
class Seen:
    """One message as it looks now.  ``by_bot`` tells ours from people's; ``edits`` counts what was changed since."""

    message_id: int
    text: str
    by_bot: bool
    entities: list[dict[str, Any]] = field(
        default_factory=list[dict[str, Any]]
    )  # Any: entities as they are on the wire
    kind: str = "text"  # or photo, document
    file: Upload | None = None
    markup: dict[str, Any] | None = None
    reply_to: int | None = None
    thread: int | None = None
    edits: int = 0
    is_deleted: bool = False
    fetched: list[str] = field(default_factory=list[str])  # addresses that Telegram looked at for a preview

    def same_as(self, text: str, entities: list[dict[str, Any]], markup: dict[str, Any] | None) -> bool:
        """Say whether an edit to this would change nothing."""
        return (self.text, self.entities, self.markup) == (text, entities, markup)


@dataclass(slots=True)
class ChatRoom:
    """One chat and everything in it."""

    id: int
    title: str = ""
    is_forum: bool = False
    topics: set[int] = field(default_factory=set[int])
    messages: dict[int, Seen] = field(default_factory=dict[int, Seen])
    is_blocked: bool = False
    absent: set[int] = field(default_factory=set[int])  # who is no member of this group
    migrated_to: int | None = None
    actions: list[tuple[float, str, int | None]] = field(default_factory=list[tuple[float, str, int | None]])
    last_sent_at: float | None = None
    last_edited_at: float | None = None

    @property
    def kind(self) -> str:
        """Return the Bot API's chat type."""
        return "private" if self.id > 0 else "supergroup"

    @property
    def visible(self) -> list[Seen]:
        """Return all messages as a person sees them now, oldest first."""
        return [message for _, message in sorted(self.messages.items()) if not message.is_deleted]

    @property
    def answers(self) -> list[str]:
        """Return the texts of the bot's visible messages, oldest first."""
        return [message.text for message in self.visible if message.by_bot]

    def as_json(self) -> dict[str, Any]:
        """Return the chat as the Bot API describes it."""
        if self.kind == "private":
            return {"id": self.id, "type": "private", "first_name": self.title or "Person"}
        return {"id": self.id, "type": self.kind, "title": self.title or "Group"} | (
            {"is_forum": True} if self.is_forum else {}
        )
