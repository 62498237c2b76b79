"""11. No stranger gets in: an empty allow list admits nobody, and names open no door.

More: tests/unit/channels/test_access.py, and each channel's own tests of every kind of update.
"""

from itertools import product

import pytest

from nanobot.channels.access import Access, Admitted, GroupPolicy, Origin, Pairing, checked_ids

ORIGINS = [
    Origin(sender=sender, chat=chat, is_group=is_group, name=name)
    for sender, chat, is_group, name in product(
        ("42", "", "0", "-1"), ("42", "-100", ""), (False, True), ("", "owner", "42")
    )
]
POLICIES: list[GroupPolicy] = ["mention", "reply", "all"]


@pytest.mark.parametrize("policy", POLICIES)
def test_an_empty_allow_list_admits_nobody(policy: GroupPolicy) -> None:
    """Whoever asks, wherever, and however they address the agent."""
    access = Access.of(allow_from=(), owners=(), group_policy=policy)

    verdicts = [
        access.admit(origin, mentions_me=mentions, answers_me=answers)
        for origin in ORIGINS
        for mentions in (False, True)
        for answers in (False, True)
    ]
    assert [verdict for verdict in verdicts if isinstance(verdict, Admitted)] == []


def test_only_the_numeric_id_counts() -> None:
    """A name can be taken over: one that looks like an allowed id, or like an owner, changes nothing."""
    access = Access.of(allow_from=("42",), owners=(), group_policy="all")

    assert access.admit(Origin(sender="42", chat="42")) == Admitted("owner")
    assert not isinstance(access.admit(Origin(sender="43", chat="43", name="42")), Admitted)
    with pytest.raises(ValueError, match="numeric id"):
        checked_ids(["@owner"])


def test_a_code_admits_nobody_until_it_is_approved() -> None:
    """A stranger who was given a code is a stranger still, and guesses open nothing."""
    pairing, code = Pairing().ask("666", now=0)
    assert code is not None

    pairing, guessed = pairing.approve("AAAAAAAA", now=1)
    access = Access.of(allow_from=(), owners=(), group_policy="all").with_paired(pairing.approved)

    assert guessed is None
    assert not isinstance(access.admit(Origin(sender="666", chat="666")), Admitted)
