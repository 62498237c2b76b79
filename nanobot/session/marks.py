"""What stands in a conversation besides its own people's words: words of strangers, and secrets.

A mark holds from the entry that brought it until ``/new``, or until that entry is undone.  It outlives summaries and cuts on
purpose: what a model wrote after reading something may carry it on.
"""

from collections.abc import Iterable, Mapping
from typing import cast

from nanobot.messages import JsonObject, JsonValue

KEPT = 50  # different marks of a kind; the oldest say enough


class Marks:
    """Both kinds, each mark with the number of the entry that brought it first."""

    def __init__(self) -> None:
        self._untrusted: dict[str, int] = {}
        self._secrets: dict[str, int] = {}
        self._strangers: set[int] = set()  # messages in the user's role with words that are not their sender's

    @property
    def untrusted(self) -> tuple[str, ...]:
        """Whose words there are."""
        return tuple(self._untrusted)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What there is of secrets."""
        return tuple(self._secrets)

    def is_a_strangers(self, entry: int) -> bool:
        """Say whether a message in the user's role holds words that are not its sender's."""
        return entry in self._strangers

    def note(self, entry: int, *, origins: Iterable[str] = (), secret: str = "", is_said: bool = False) -> None:
        """Take in what an entry brings; ``is_said`` for messages in the user's role."""
        for origin in origins:
            _keep(self._untrusted, origin, entry)
            if is_said:
                self._strangers.add(entry)
        if secret:
            _keep(self._secrets, secret, entry)

    def clear(self) -> None:
        """Forget everything: the conversation begins anew."""
        self._untrusted, self._secrets, self._strangers = {}, {}, set()

    def drop_from(self, entry: int) -> None:
        """Forget what came with this entry and after it: it was undone."""
        self._untrusted = {name: at for name, at in self._untrusted.items() if at < entry}
        self._secrets = {name: at for name, at in self._secrets.items() if at < entry}
        self._strangers = {at for at in self._strangers if at < entry}

    def carry(self) -> JsonObject:
        """Return what must outlive a floor."""
        return {
            "untrusted": cast("JsonValue", dict(self._untrusted)),
            "secrets": cast("JsonValue", dict(self._secrets)),
        }

    def restore(self, carried: Mapping[str, object]) -> None:
        """Take in what was carried."""
        for kept, kind in ((self._untrusted, "untrusted"), (self._secrets, "secrets")):
            named = carried.get(kind)
            if isinstance(named, dict):
                for name, at in cast("dict[str, object]", named).items():
                    _keep(kept, name, at if isinstance(at, int) else 0)


def _keep(kept: dict[str, int], name: str, entry: int) -> None:
    if len(kept) < KEPT:
        kept.setdefault(name, entry)
