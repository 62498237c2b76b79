"""What a conversation holds of strangers' words and secrets: until /new, and over restarts, summaries and cuts."""

from nanobot.session.marks import KEPT, Marks


def marked() -> Marks:
    marks = Marks()
    marks.note(2, origins=["web a"])
    marks.note(4, origins=["member Eve"], is_said=True)
    marks.note(6, origins=["web a"], secret="read_file .env")
    return marks


def test_marks_are_named_once() -> None:
    """The same origin twice is one mark, which came with the first."""
    marks = marked()

    assert marks.untrusted == ("web a", "member Eve")
    assert marks.secrets == ("read_file .env",)
    assert [marks.is_a_strangers(entry) for entry in (2, 4, 6)] == [False, True, False]


def test_undo_takes_the_marks_of_what_it_takes_back() -> None:
    """What came before stays."""
    marks = marked()
    marks.drop_from(3)

    assert (marks.untrusted, marks.secrets) == (("web a",), ())
    assert not marks.is_a_strangers(4)


def test_what_is_carried_comes_back() -> None:
    """A reader that begins after the entries knows the same."""
    later = Marks()
    later.restore(marked().carry())

    assert (later.untrusted, later.secrets) == (("web a", "member Eve"), ("read_file .env",))
    later.restore({"untrusted": "broken"})
    later.clear()
    assert (later.untrusted, later.secrets) == ((), ())


def test_marks_are_bounded() -> None:
    """A hundred thousand pages do not make the log's lines long."""
    marks = Marks()
    for entry in range(100_000):
        marks.note(entry, origins=[f"web {entry}"])

    assert len(marks.untrusted) == KEPT
