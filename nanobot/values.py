"""``@frozen``: a dataclass that cannot be changed, with slots, which costs next to nothing until it is used.

``@dataclass(frozen=True, slots=True)`` compiles six methods for each class when its module is imported, in 260 µs: a seventh of a
start's CPU time, for 150 classes of which a run uses some.  Here it is 19 µs: ``__init__`` is compiled when the first value is made
(and makes it in two thirds of the time), and the other methods are the same few functions for all.

Promised is what the standard one promises: ``fields``, ``replace``, ``asdict``, ``match``, ``copy``, ``pickle``, defaults,
``kw_only``, ``__post_init__``, methods of the class's own, and ``FrozenInstanceError`` for whoever changes a value.  Type checkers
see a dataclass.  What is mutable, ordered or without slots stays with the standard one; neither kind inherits from the other.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, NoReturn, TypeVar, cast, dataclass_transform, overload

T = TypeVar("T")


@overload
def frozen(cls: type[T], /) -> type[T]: ...


@overload
def frozen(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(Field, field))
def frozen(cls: type[T] | None = None, /, *, kw_only: bool = False) -> type[T] | Callable[[type[T]], type[T]]:
    """Make a class a value: ``@frozen`` or ``@frozen(kw_only=True)``."""

    def made(given: type[T]) -> type[T]:
        slotted = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(given)
        for method in (*_shared(slotted), _init_later(slotted)):
            if slotted.__dict__.get(method.__name__) is None:  # else the class has its own
                setattr(slotted, method.__name__, method)
        return slotted

    return made if cls is None else made(cls)


def _shared(cls: type) -> tuple[Callable[..., object], ...]:
    names = [one.name for one in fields(cls) if one.compare]
    compared: Callable[[object], object] = attrgetter(*names) if names else type

    def __eq__(self: object, other: object) -> bool:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: object) -> int:
        return hash(compared(self))

    return __eq__, __hash__, __repr__, __setattr__, __delattr__, __getstate__, __setstate__


def __repr__(self: object) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in _fields(self) if one.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def __setattr__(self: object, name: str, new: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def __delattr__(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def __getstate__(self: object) -> list[object]:
    return [getattr(self, one.name) for one in _fields(self)]


def __setstate__(self: object, state: list[object]) -> None:
    for one, kept in zip(_fields(self), state, strict=True):
        object.__setattr__(self, one.name, kept)


def _fields(self: object) -> tuple[Field[Any], ...]:  # Any: of any type
    return fields(cast("Any", self))  # Any: a value, which no protocol names


def _init_later(cls: type) -> Callable[..., None]:
    def __init__(self: object, *args: object, **kwargs: object) -> None:
        made = _init(cls)
        cast("Any", cls).__init__ = made  # Any: so that a method may be set
        made(self, *args, **kwargs)

    return __init__


def _init(cls: type) -> Callable[..., None]:
    """Compile what the standard dataclass would: a parameter a field, each kept through its slot."""
    names: dict[str, Any] = {"_default": _Default()}  # Any: what the code below uses
    positional: list[str] = []
    named: list[str] = []
    body: list[str] = []
    for one in fields(cls):
        names[f"_set_{one.name}"] = getattr(cls, one.name).__set__
        given = one.name
        if one.default_factory is not MISSING:
            names[f"_make_{one.name}"] = one.default_factory
            given = (
                f"_make_{one.name}() if {one.name} is _default else {one.name}" if one.init else f"_make_{one.name}()"
            )
        elif one.default is not MISSING:
            names[f"_of_{one.name}"] = one.default
            given = one.name if one.init else f"_of_{one.name}"
        if one.init:
            (named if one.kw_only else positional).append(_parameter(one))
        body.append(f"_set_{one.name}(self, {given})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    exec(f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), names)  # of field names alone
    made = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _parameter(one: Field[Any]) -> str:
    if one.default_factory is not MISSING:
        return f"{one.name}=_default"
    return one.name if one.default is MISSING else f"{one.name}=_of_{one.name}"


class _Default:
    """Stands for a default that is made for each value."""

    def __repr__(self) -> str:
        return "<made for each>"
