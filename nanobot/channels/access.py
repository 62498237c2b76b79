"""Who may talk to the agent: one decision for messages, commands, edits and button presses.

People are known by their platform's numeric id only.  Names can be changed and taken over, so they are refused in the config and
never compared.  An empty list admits nobody.

``Pairing`` gives strangers a one-time code, which means nothing until somebody with the right to do so approves it.
"""

import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Literal, TypeAlias, cast

from nanobot.bus.events import Role
from nanobot.values import frozen

GroupPolicy = Literal["mention", "reply", "all"]

CODE_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without what is easily confused
CODE_LENGTH = 8
CODE_LIFE_S = 3_600.0
MAX_OPEN_CODES = 20
ASK_AGAIN_S = 60.0
MAX_WRONG_TRIES = 5


@frozen(kw_only=True)
class Origin:
    """Where something comes from.  ``is_group`` says that several people can read the chat."""

    sender: str
    chat: str
    is_group: bool = False
    is_bot: bool = False
    name: str = ""


@frozen
class Admitted:
    """Come in, with these rights."""

    role: Role


@frozen
class Refused:
    """Stay out; ``why`` is for the operator."""

    why: str


@frozen
class NotMeant:
    """A message in a group that is not for the agent; ``role`` is what its sender may do, if they may come in at all."""

    role: Role | None = None


Verdict: TypeAlias = Admitted | Refused | NotMeant


def checked_ids(value: object) -> tuple[str, ...]:
    """Return configured ids as text.

    Raises:
        ValueError: there is something else than whole numbers among them.
    """
    items = cast("list[object]", list(value)) if isinstance(value, list | tuple) else [value]  # pyright: ignore[reportUnknownArgumentType]  # checked one by one below
    return tuple(_checked_id(item) for item in items)


def _checked_id(item: object) -> str:
    text = str(item).strip()
    if isinstance(item, bool) or not text.removeprefix("-").isdigit():
        raise ValueError(
            f"{text!r} is not a numeric id; user names can be taken over, so only ids are accepted."
            " The bot's log names the id of everybody it turns away"
        )
    return str(int(text))


@frozen(kw_only=True)
class Access:
    """Who may come in.  ``roles`` is by id; the id of a group admits everybody in it as a member."""

    roles: Mapping[str, Role] = field(default_factory=dict[str, Role])
    group_policy: GroupPolicy = "reply"

    @classmethod
    def of(cls, *, allow_from: Collection[str], owners: Collection[str], group_policy: GroupPolicy) -> "Access":
        """Build it from settings: without named owners, the first person allowed is the owner."""
        people = [one for one in allow_from if not one.startswith("-")]
        named = set(owners) or set(people[:1])
        roles: dict[str, Role] = {one: "owner" if one in named else "user" for one in (*allow_from, *owners)}
        return cls(roles=roles, group_policy=group_policy)

    def with_paired(self, paired: Mapping[str, Role]) -> "Access":
        """Return the same with people who were approved; the config's word wins."""
        return Access(roles={**paired, **self.roles}, group_policy=self.group_policy)

    def admit(self, origin: Origin, *, mentions_me: bool = False, answers_me: bool = False) -> Verdict:
        """Decide about a message, command, edit or button press.

        Args:
            origin: whose it is.
            mentions_me: whether a group message names the agent, or is a command for it (or its own button).
            answers_me: whether it replies to one of the agent's messages.
        """
        if origin.is_bot:
            return Refused("it comes from a bot")
        role = None if origin.sender.startswith("-") else self.roles.get(origin.sender)  # no group is a person
        if role is None and origin.is_group and origin.chat in self.roles:
            role = "member"
        if origin.is_group and not self._is_meant(mentions_me, answers_me):
            return NotMeant(role)
        if role is None:
            return Refused(f"sender {origin.sender} is not in allow_from")
        return Admitted(role)

    def _is_meant(self, mentions_me: bool, answers_me: bool) -> bool:
        match self.group_policy:
            case "all":
                return True
            case "reply":
                return mentions_me or answers_me
            case "mention":
                return mentions_me


@frozen
class OpenCode:
    """A code somebody was given; ``at`` on the clock on the wall, in seconds."""

    code: str
    sender: str
    at: float


@frozen(kw_only=True)
class Pairing:
    """Codes that are open, and people who were approved.  A value: each step returns the next one."""

    open: tuple[OpenCode, ...] = ()
    approved: Mapping[str, Role] = field(default_factory=dict[str, Role])
    wrong_tries: int = 0

    def ask(
        self, sender: str, *, now: float, new_code: Callable[[], str] = lambda: random_code()
    ) -> tuple["Pairing", str | None]:
        """Return the next state and the code for a stranger; None when they must wait, or too many codes are open."""
        open_codes = tuple(one for one in self.open if now - one.at < CODE_LIFE_S)
        mine = next((one for one in open_codes if one.sender == sender), None)
        if mine is not None and now - mine.at < ASK_AGAIN_S:
            return self._with(open_codes), None
        others = tuple(one for one in open_codes if one.sender != sender)
        if len(others) >= MAX_OPEN_CODES:
            return self._with(open_codes), None
        code = new_code()
        return self._with((*others, OpenCode(code, sender, now))), code

    def approve(self, code: str, *, now: float, role: Role = "user") -> tuple["Pairing", str | None]:
        """Return the next state and who was let in; None for a wrong or old code.  Five wrong tries void all codes."""
        wanted = code.strip().upper()
        open_codes = tuple(one for one in self.open if now - one.at < CODE_LIFE_S)
        found = next((one for one in open_codes if secrets.compare_digest(one.code.encode(), wanted.encode())), None)
        if found is None:
            tries = self.wrong_tries + 1
            left = () if tries >= MAX_WRONG_TRIES else open_codes
            return Pairing(open=left, approved=self.approved, wrong_tries=tries % MAX_WRONG_TRIES), None
        left = tuple(one for one in open_codes if one is not found)
        return Pairing(open=left, approved={**self.approved, found.sender: role}), found.sender

    def _with(self, open_codes: tuple[OpenCode, ...]) -> "Pairing":
        return Pairing(open=open_codes, approved=self.approved, wrong_tries=self.wrong_tries)


def random_code() -> str:
    """Return a code nobody can guess."""
    return "".join(secrets.choice(CODE_ALPHABET) for _ in range(CODE_LENGTH))
