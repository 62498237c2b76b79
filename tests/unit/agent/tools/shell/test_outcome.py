"""What the model reads of a command's output, piece by piece."""

from hypothesis import given
from hypothesis import strategies as st

from nanobot.agent.tools.shell.outcome import piece_since
from nanobot.supervisor.ring import Captured


def captured(data: bytes) -> Captured:
    """Return an output of which nothing is lost."""
    return Captured(len(data), data, len(data), b"")


@given(
    st.lists(st.sampled_from(["a", "é", "→", "🙂", "\n", "\x1b[31m", "\x1b]0;title\x07", "\x1b(B"]), max_size=40),
    st.data(),
)
def test_pieces_are_the_whole(parts: list[str], data: st.DataObject) -> None:
    """However a growing output is read, no character is torn, no escape shows, and nothing is shown twice."""
    whole = "".join(parts).encode()
    looks = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    shown, since = "", 0
    for size in (*looks, len(whole)):
        piece = piece_since(captured(whole[:size]), since, over=size == len(whole))
        shown, since = shown + piece.text, piece.next

    assert since == len(whole)
    assert shown == "".join(part for part in parts if not part.startswith("\x1b"))


def test_h05_utf16_is_seen_at_the_beginning_and_kept() -> None:
    """A later piece has no mark of its own and may begin in the middle of a character."""
    data = "\ufeffhello\nwörld".encode("utf-16-le")

    assert piece_since(captured(data), 0, over=True).text == "hello\nwörld"
    assert piece_since(captured(data), 14, over=True).text == "wörld"
    assert piece_since(captured(data), 15, over=True).text == "örld"


def test_h04_what_is_lost_is_counted() -> None:
    """What the ring no longer holds is said in bytes, up to a line's beginning."""
    output = Captured(1000, b"head\n", 900, b"torn line\nlast line\n")

    assert piece_since(output, 5, over=False).text == (
        "[… 905 bytes of output left out here; redirect to a file to keep all …]\nlast line\n"
    )
