"""A value is a frozen dataclass in every way that can be seen."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any

import pytest

from nanobot.values import frozen


@frozen
class Ours:
    a: int
    b: str = "b"
    c: list[int] = field(default_factory=list[int])
    seen: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Theirs:
    a: int
    b: str = "b"
    c: list[int] = field(default_factory=list[int])
    seen: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False, repr=False)


@frozen(kw_only=True)
class Named:
    one: int
    two: int = 2
    three: tuple[int, ...] = field(default_factory=tuple)


@frozen
class Nothing:
    pass


@frozen
class More(Nothing):
    a: int

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError("negative")

    def __repr__(self) -> str:
        return f"more {self.a}"


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_it_is_made_shown_and_changed_like_the_standard_one(kind: Callable[..., Any]) -> None:
    """Whatever one asserts here holds for both."""
    one: Any = kind(1, c=[3])
    one.seen["x"] = 1

    assert repr(one) == f"{kind.__name__}(a=1, b='b', c=[3])"
    assert one == kind(a=1, b="b", c=[3])
    assert one != kind(2, c=[3])
    assert one != (1, "b", [3])
    assert kind(1).c is not kind(1).c
    assert replace(one, a=5) == kind(5, "b", [3])
    assert asdict(one) == {"a": 1, "b": "b", "c": [3], "seen": {"x": 1}}
    assert [field.name for field in fields(one)] == ["a", "b", "c", "seen"]
    assert is_dataclass(one)
    assert not hasattr(one, "__dict__")
    again: Any  # as ``one``
    for again in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert again == one
        assert again.seen == {"x": 1}


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_it_cannot_be_changed(kind: Callable[..., Any]) -> None:
    """Neither a field nor anything new."""
    one = kind(1)

    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'a'"):
        one.a = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'a'"):
        del one.a
    assert one == kind(1)


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_wrong_arguments_are_named(kind: Callable[..., Any]) -> None:
    """By the class and the field, the first time as well as later."""
    for _ in range(2):
        with pytest.raises(
            TypeError, match=rf"{kind.__name__}.__init__\(\) missing 1 required positional argument: 'a'"
        ):
            kind()
        with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
            kind(1, z=1)


def test_fields_can_be_for_names_only() -> None:
    """In any order, with defaults before what has none."""
    assert Named(two=1, one=3) == Named(one=3, two=1, three=())
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        Named(1)  # pyright: ignore[reportCallIssue]  # that is the point


def test_equal_values_are_one_key() -> None:
    """Of their compared fields, and of the class: two kinds with the same fields differ."""
    assert {Named(one=1): "x"}[Named(one=1, two=2)] == "x"
    assert hash(Nothing()) == hash(Nothing())
    assert Nothing() == Nothing()
    assert Nothing() != More(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Ours(1))


def test_a_class_keeps_its_own_methods() -> None:
    """What it says itself is not replaced."""
    assert repr(More(1)) == "more 1"
    with pytest.raises(ValueError, match="negative"):
        More(-1)


def test_it_matches_by_position() -> None:
    """As dataclasses do."""
    match Ours(1, "x"):
        case Ours(1, word):
            assert word == "x"
        case _:
            pytest.fail("no match")
