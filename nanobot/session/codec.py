"""Entries as lines of JSON, and back.  Pure.

Defaults are left out of a line; fields that this version does not know are ignored; a type that it does not know is kept as
``Unknown``.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields
from datetime import datetime
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

from nanobot.bus.events import InboundMessage, Media, Route, SessionKey
from nanobot.bus.runtime_events import Usage
from nanobot.messages import JsonObject, JsonValue, as_dict, from_dict
from nanobot.session.entries import (
    VERSION,
    Answer,
    Cut,
    Delivery,
    Entry,
    Finished,
    Head,
    Header,
    Intent,
    Moved,
    Owed,
    Question,
    Repaired,
    Reset,
    Resumed,
    Started,
    Step,
    Summary,
    Undo,
    Unknown,
)

_TYPES: dict[str, type[Any]] = {
    "session": Header,
    "inbound": InboundMessage,
    "started": Started,
    "message": Step,
    "intent": Intent,
    "finished": Finished,
    "resumed": Resumed,
    "question": Question,
    "answer": Answer,
    "delivery": Delivery,
    "head": Head,
    "cut": Cut,
    "summary": Summary,
    "reset": Reset,
    "undo": Undo,
    "moved": Moved,
    "repaired": Repaired,
}
_NAMES: dict[type[Any], str] = {cls: name for name, cls in _TYPES.items()}
_ON_DISK = {"pass_name": "pass", "old": "from", "new": "to"}  # Python keywords and clearer names inside
_ALWAYS = {"version", "stop_reason", "role"}  # worth a look in the raw file, so written although they are defaults
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class BadLine(ValueError):
    """A line that holds no entry; the text says why."""


class NewerVersion(BadLine):
    """The header was written by a newer nanobot: this log may be read but not written."""


def to_line(entry: Entry | Header) -> bytes:
    """Return the entry as one line of JSON in UTF-8, with its newline.  A lone surrogate becomes ``?``."""
    return _encode(_as_json(entry)).encode("utf-8", "replace") + b"\n"


def from_line(line: bytes, *, key: SessionKey) -> Entry | Header:
    """Read one line back; ``key`` is the session's, which inbound lines do not repeat.

    Raises:
        NewerVersion: a header of a version above ours.
        BadLine: not JSON, no object, or a field of a known type is missing or has the wrong shape.
    """
    try:
        raw = json.loads(line.decode("utf-8", "surrogatepass"))  # bytes would be guessed at: NULs look like UTF-16
    except (ValueError, RecursionError) as error:
        raise BadLine(f"not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise BadLine("not a JSON object")
    data = cast("dict[str, Any]", raw)
    try:
        return _from_json(data, key)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, BadLine):
            raise
        raise BadLine(f"a {data.get('type')!r} entry with a bad field: {error}") from error


def _as_json(entry: Entry | Header) -> JsonObject:
    if isinstance(entry, Unknown):
        return entry.raw
    cls = type(entry)
    out: JsonObject = {"type": _NAMES[cls]}
    for name, default, write in _writers(cls):
        value = cast("object", getattr(entry, name))
        if value != default or name in _ALWAYS:
            out[_ON_DISK.get(name, name)] = write(value)
    if isinstance(entry, InboundMessage):
        out["content"] = out.pop("text", "")
        del out["session_key"]
    return out


def _from_json(data: dict[str, Any], key: SessionKey) -> Entry | Header:
    cls = _TYPES.get(str(data["type"]))
    if cls is None:
        return Unknown(id=str(data.get("id", "")), type=str(data["type"]), raw=data)
    if cls is Header and _int(data["version"]) > VERSION:
        raise NewerVersion(f"written by a newer nanobot (version {data['version']}, this one reads {VERSION})")
    if cls is InboundMessage:
        data = {**data, "text": data.get("content", ""), "session_key": key}
    values: dict[str, Any] = {}
    for name, required, read in _readers(cls):
        disk = _ON_DISK.get(name, name)
        if disk in data:
            values[name] = read(data[disk])
        elif required:
            raise KeyError(disk)
    if cls is Step or cls is Started:
        values["message"] = from_dict(data["message"], entry=values["id"])
    if cls is Finished and "closes" in data:
        values["closes"] = tuple(from_dict(raw, entry=values["id"]) for raw in data["closes"])
    return cls(**values)


# -- one writer and one reader a field, by its name or else by its type: the fold may rely on what it gets -------------------------


def _same(value: Any) -> Any:
    return value


def _int(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"expected a whole number, found {value!r:.40}")
    return value


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {value!r:.40}")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"expected a number, found {value!r:.40}")
    return value


def _object(value: Any) -> JsonObject:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, found {value!r:.40}")
    return cast("JsonObject", value)


def _by_type(kind: Any) -> Callable[[Any], Any]:  # Any: a field's annotation
    """Return the reader of a field that has none by its name."""
    parts = get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        inner = [part for part in parts if part is not type(None)]
        read = _by_type(inner[0]) if len(inner) == 1 else _same
        return _optional(read) if len(inner) < len(parts) else read
    if get_origin(kind) is dict:
        return _object
    if get_origin(kind) is Literal:
        return _str
    return _PLAIN.get(kind, _same)


def _optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


_PLAIN: dict[Any, Callable[[Any], Any]] = {str: _str, int: _int, float: _number, bool: lambda value: value is True}


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(_str(item) for item in value)


def _usage_out(usage: Usage | None) -> JsonValue:
    if usage is None:
        return None
    pairs = ((f.name, cast("int", getattr(usage, f.name))) for f in fields(Usage))
    return {name: count for name, count in pairs if count}


def _usage_in(raw: Any) -> Usage:
    return Usage(**{f.name: _int(raw[f.name]) for f in fields(Usage) if f.name in raw})


def _route_out(route: Route | None) -> JsonValue:
    if route is None:
        return None
    out: JsonObject = {"channel": route.channel, "chat": route.chat}
    if route.topic is not None:
        out["topic"] = route.topic
    if route.reply_to is not None:
        out["reply_to"] = route.reply_to
    return out


def _route_in(raw: Any) -> Route:
    return Route(_str(raw["channel"]), _str(raw["chat"]), raw.get("topic"), raw.get("reply_to"))


def _media_out(media: Iterable[Media]) -> JsonValue:
    out: list[JsonValue] = []
    for item in media:
        pairs = ((f.name, cast("JsonValue", getattr(item, f.name))) for f in fields(Media))
        out.append({name: value for name, value in pairs if value not in ("", None)})
    return out


def _media_in(raw: Any) -> tuple[Media, ...]:
    known = {f.name for f in fields(Media)}
    return tuple(Media(**{name: value for name, value in item.items() if name in known}) for item in raw)


def _owed_out(owed: Iterable[Owed]) -> JsonValue:
    out: list[JsonValue] = []
    for one in owed:
        raw: JsonObject = {
            "out": one.out,
            "route": _route_out(one.route),
            "parts": [list(part) for part in one.parts],
        }
        if one.media is not None:
            raw["media"] = _media_out([one.media])
        out.append(raw | {"anew": True} if one.anew else raw)
    return out


def _owed_in(raw: Any) -> tuple[Owed, ...]:
    return tuple(
        Owed(
            out=_str(item["out"]),
            route=_route_in(item["route"]),
            parts=tuple((_int(start), _int(end)) for start, end in item["parts"]),
            media=next(iter(_media_in(item.get("media", ()))), None),
            anew=item.get("anew") is True,
        )
        for item in raw
    )


_WRITE: dict[str, Callable[[Any], JsonValue]] = {
    "created_at": datetime.isoformat,
    "inbound": list,
    "message": as_dict,
    "usage": _usage_out,
    "route": _route_out,
    "media": _media_out,
    "owed": _owed_out,
    "closes": lambda closes: [as_dict(message) for message in closes],
    "lines": list,
    "sources": list,
    "origins": list,
}
_READ: dict[str, Callable[[Any], Any]] = {
    "id": _str,
    "version": _int,
    "created_at": datetime.fromisoformat,
    "inbound": _strings,
    "message": _same,  # read with its entry's id
    "closes": _same,
    "usage": _optional(_usage_in),
    "route": _optional(_route_in),
    "media": _media_in,
    "owed": _owed_in,
    "sources": _strings,
    "lines": lambda raw: tuple(_int(item) for item in raw),
    "origins": _strings,
    "secret": _str,
    "text": _str,
    "turn": _optional(_str),
    "n": _int,
    "part": _int,
    "floor": _optional(_str),
}


def _at_out(value: object) -> JsonValue:
    return value.isoformat() if isinstance(value, datetime) else cast("JsonValue", value)


def _writers(cls: type[Any]) -> list[tuple[str, object, Callable[[Any], JsonValue]]]:
    found = _WRITERS.get(cls)
    if found is None:
        found = [(f.name, _default(f), _at_out if f.name == "at" else _WRITE.get(f.name, _same)) for f in fields(cls)]
        _WRITERS[cls] = found
    return found


def _readers(cls: type[Any]) -> list[tuple[str, bool, Callable[[Any], Any]]]:
    found = _READERS.get(cls)
    if found is None:
        at: Callable[[Any], Any] = datetime.fromisoformat if cls is InboundMessage else _str
        read = _READ | {"at": at}
        found = [(f.name, _default(f) is MISSING, read.get(f.name) or _by_type(f.type)) for f in fields(cls)]
        _READERS[cls] = found
    return found


def _default(f: Any) -> object:
    return f.default if f.default_factory is MISSING else f.default_factory()


_WRITERS: dict[type[Any], list[tuple[str, object, Callable[[Any], JsonValue]]]] = {}
_READERS: dict[type[Any], list[tuple[str, bool, Callable[[Any], Any]]]] = {}
