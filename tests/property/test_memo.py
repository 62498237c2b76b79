"""A memo changes what governance costs, and nothing else."""

from hypothesis import given, settings
from hypothesis import strategies as st

from nanobot.agent.memo import Memo
from nanobot.agent.passes import Boundaries, govern
from nanobot.agent.tokens import estimate_message
from nanobot.messages import Message, user_text
from tests.property.histories import BOUNDARIES, any_history, logged


def _agrees(memo: Memo, messages: list[Message], boundaries: Boundaries) -> bool:
    out = memo.govern(messages, boundaries)
    return out == govern(messages, boundaries) and memo.estimate(out) == sum(map(estimate_message, out))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.one_of(logged(), any_history()), BOUNDARIES)
def test_a_growing_history_is_governed_as_if_from_the_beginning(history: list[Message], boundaries: Boundaries) -> None:
    """Each request of a conversation gets what it would get without a memo."""
    memo = Memo()

    assert all(_agrees(memo, history[:length], boundaries) for length in range(len(history) + 1))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(logged(), st.lists(BOUNDARIES, min_size=2, max_size=4), st.data())
def test_cuts_undo_and_other_conversations_void_the_memo(
    history: list[Message], cuts: list[Boundaries], data: st.DataObject
) -> None:
    """Whatever is asked in whatever order, the memo never answers for something else."""
    memo = Memo()
    for boundaries in cuts:
        end = data.draw(st.integers(0, len(history)))
        start = data.draw(st.sampled_from([0, 0, end // 2]))
        other = [*history[start:end], user_text("other", entry="e900")]

        assert _agrees(memo, history[start:end], boundaries)
        assert _agrees(memo, other, boundaries)


def test_only_what_is_new_is_governed() -> None:
    """The closed part comes out as the same objects, without being looked at."""
    history: list[Message] = [user_text(f"q{n}", entry=f"e{n}") for n in range(1, 50)]
    memo = Memo()
    memo.govern(history, Boundaries())
    looked_at = _CountingList([*history, user_text("new", entry="e60")])

    memo.govern(looked_at, Boundaries())

    assert looked_at.longest_slice <= 2


class _CountingList(list[Message]):
    longest_slice = 0

    def __getitem__(self, index: object) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]  # counts slices
        found = super().__getitem__(index)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]
        if isinstance(index, slice):
            self.longest_slice = max(self.longest_slice, len(found))  # pyright: ignore[reportUnknownArgumentType]
        return found  # pyright: ignore[reportUnknownVariableType]
