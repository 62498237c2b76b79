"""No stranger gets in, and everything that comes in is judged the same way."""

import pytest

from nanobot.channels.access import (
    CODE_LIFE_S,
    MAX_OPEN_CODES,
    Access,
    Admitted,
    NotMeant,
    Origin,
    Pairing,
    Refused,
    checked_ids,
    random_code,
)


def access(*allowed: str, owners: tuple[str, ...] = (), policy: str = "reply") -> Access:
    return Access.of(allow_from=allowed, owners=owners, group_policy=policy)  # pyright: ignore[reportArgumentType]  # the test's own literals


def test_an_empty_list_admits_nobody() -> None:
    """Forgetting to configure somebody opens nothing."""
    assert isinstance(access().admit(Origin(sender="1", chat="1")), Refused)


def test_g10_everything_gets_the_same_verdict() -> None:
    """The decision knows ids and chats only, so a command, a button or an edit cannot be judged otherwise."""
    mine = access("111")

    assert mine.admit(Origin(sender="111", chat="111")) == Admitted("owner")
    assert isinstance(mine.admit(Origin(sender="112", chat="112")), Refused)


def test_g11_names_do_not_count() -> None:
    """Somebody with an allowed person's name is a stranger."""
    assert isinstance(access("111").admit(Origin(sender="999", chat="999", name="Person 111")), Refused)


@pytest.mark.parametrize("value", ["@alice", "alice", "111|alice", ["1", "bob"], True, "1.5"])
def test_g11_names_are_refused_in_the_config(value: object) -> None:
    """A config with a user name says what to write instead."""
    with pytest.raises(ValueError, match="numeric id"):
        checked_ids(value)


def test_ids_may_be_numbers_or_text() -> None:
    """YAML makes numbers of ids; both ways are the same."""
    assert checked_ids([111, "-100222", " 7 "]) == ("111", "-100222", "7")


def test_g14_the_first_person_owns_the_bot_unless_owners_are_named() -> None:
    """Roles follow the config; a group's id admits everybody in it as a member."""
    both = access("1", "2", "-5")
    named = access("1", "2", owners=("2",))

    assert [both.admit(Origin(sender=s, chat=s)) for s in "12"] == [Admitted("owner"), Admitted("user")]
    assert [named.admit(Origin(sender=s, chat=s)) for s in "12"] == [Admitted("user"), Admitted("owner")]
    assert both.admit(Origin(sender="9", chat="-5", is_group=True), mentions_me=True) == Admitted("member")
    assert isinstance(both.admit(Origin(sender="9", chat="-6", is_group=True), mentions_me=True), Refused)


@pytest.mark.parametrize(
    ("policy", "meant"),
    [("mention", (True, False, False)), ("reply", (True, True, False)), ("all", (True, True, True))],
)
def test_groups_follow_their_policy(policy: str, meant: tuple[bool, bool, bool]) -> None:
    """A mention, a reply, or anything."""
    group = access("1", policy=policy)
    origin = Origin(sender="1", chat="-5", is_group=True)
    verdicts = (
        group.admit(origin, mentions_me=True),
        group.admit(origin, answers_me=True),
        group.admit(origin),
    )

    assert tuple(isinstance(verdict, Admitted) for verdict in verdicts) == meant
    assert all(isinstance(verdict, Admitted | NotMeant) for verdict in verdicts)


def test_strangers_who_talk_among_themselves_are_no_matter() -> None:
    """Only who means us is refused; the rest of a group's talk is not even looked at."""
    stranger = Origin(sender="9", chat="-6", is_group=True)

    assert isinstance(access("1").admit(stranger), NotMeant)
    assert isinstance(access("1").admit(stranger, mentions_me=True), Refused)


def test_bots_are_refused() -> None:
    """Two bots cannot talk each other into a loop."""
    assert isinstance(access("1").admit(Origin(sender="1", chat="1", is_bot=True)), Refused)


def test_a_code_lets_one_person_in_once() -> None:
    """A code works once, for whoever asked, and survives a typing error."""
    pairing, code = Pairing().ask("7", now=0.0)
    assert code is not None
    pairing, nobody = pairing.approve("WRONG", now=1.0)
    pairing, somebody = pairing.approve(f" {code.lower()} ", now=2.0)
    again = pairing.approve(code, now=3.0)[1]

    assert (nobody, somebody, again) == (None, "7", None)
    assert access("1").with_paired(pairing.approved).admit(Origin(sender="7", chat="7")) == Admitted("user")


def test_codes_expire_and_are_rationed() -> None:
    """Codes end after an hour, one person gets one a minute, and strangers cannot fill the list."""
    pairing, code = Pairing().ask("7", now=0.0)
    assert code is not None
    assert pairing.ask("7", now=30.0)[1] is None
    assert pairing.approve(code, now=CODE_LIFE_S + 1)[1] is None
    for number in range(MAX_OPEN_CODES + 5):
        pairing, code = pairing.ask(f"s{number}", now=100.0)

    assert code is None
    assert len(pairing.open) == MAX_OPEN_CODES


def test_guessing_voids_the_codes() -> None:
    """Five wrong tries, and a right one comes too late."""
    pairing, code = Pairing().ask("7", now=0.0)
    assert code is not None
    for _ in range(5):
        pairing, _ = pairing.approve("AAAAAAAA", now=1.0)

    assert pairing.approve(code, now=2.0)[1] is None
    assert random_code() != random_code()
