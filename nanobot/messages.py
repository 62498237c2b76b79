"""Conversation values: what was said, by whom, with which calls.

Frozen inside; OpenAI-form dicts exist only at the rim (``as_dicts`` and ``from_dict``, log lines, wires).  A message knows the id
of the log entry that holds it (``entry``), because that is the name the model uses to read a result again.

``encoded`` is a scratch cache on each message (key: the wire's own, value: the wire's own): an unchanged message is encoded once
in its life.  It takes no part in equality.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias, cast

from nanobot.values import frozen

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = dict[str, "JsonValue"]

Origin = Literal["user", "runtime", "summary"]


def _cache() -> dict[Any, Any]:  # Any: each wire keeps its own kind of value under its own kind of key
    return {}


@frozen
class TextPart:
    """A run of text."""

    text: str


@frozen
class ImagePart:
    """An image by reference: the bytes lie in ``path`` and hash to ``sha256`` (hex).  Never base64 in a log.

    ``name`` is what it is called where it came from; empty: nothing else than ``path``.
    """

    path: str
    media_type: str
    sha256: str
    name: str = ""


Part: TypeAlias = TextPart | ImagePart


@frozen
class ToolCall:
    """One call the model asked for.

    Args:
        id: ours, ``<entry>.<index>``; adapters map it to their wire.
        name: as the model wrote it; it may name no tool at all.
        arguments: the parsed JSON object, or the model's text as it was when that was no JSON object.
    """

    id: str
    name: str
    arguments: JsonObject | str


@frozen
class ProviderExtra:
    """What a provider wants back verbatim (signed thinking, ``reasoning_content``): opaque, and sent back only there."""

    provider: str  # the wire and its vendor's name, as the adapter chose it
    model: str
    data: str  # the adapter's own encoding


@frozen
class UserMessage:
    """What a person said, or what the runtime or a summary says in the user's role (``origin``)."""

    parts: tuple[Part, ...]
    origin: Origin = "user"
    entry: str = ""
    encoded: dict[Any, Any] = field(default_factory=_cache, init=False, compare=False, repr=False)

    @property
    def text(self) -> str:
        """All text parts, joined by newlines."""
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))


@frozen
class AssistantMessage:
    """What the model said and asked for.  ``cut_off`` marks text that a stop or a broken stream ended early."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    extra: ProviderExtra | None = None
    cut_off: bool = False
    entry: str = ""
    encoded: dict[Any, Any] = field(default_factory=_cache, init=False, compare=False, repr=False)


@frozen
class ToolMessage:
    """A tool's result as the model sees it (an observation).  ``origin`` says whose words it is; empty: ours.

    ``shown`` is what the model is to see besides the text: pictures, and lines in place of pictures.  How they are sent is up to
    the wire; in the list of messages they are part of the result.
    """

    call_id: str
    name: str
    text: str
    is_error: bool = False
    entry: str = ""
    origin: str = ""
    shown: tuple[Part, ...] = ()
    encoded: dict[Any, Any] = field(default_factory=_cache, init=False, compare=False, repr=False)


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


def user_text(text: str, *, origin: Origin = "user", entry: str = "") -> UserMessage:
    """Return a user message of one text part."""
    return UserMessage((TextPart(text),), origin=origin, entry=entry)


def images_of(message: Message) -> tuple[ImagePart, ...]:
    """Return the images that a message shows."""
    match message:
        case UserMessage(parts=parts) | ToolMessage(shown=parts):
            return tuple(part for part in parts if isinstance(part, ImagePart))
        case AssistantMessage():
            return ()


def as_dict(message: Message) -> JsonObject:
    """Return the message in OpenAI form, as the log holds it; ``from_dict`` reads it back equal (but for ``entry``)."""
    match message:
        case UserMessage():
            out: JsonObject = {"role": "user", "content": _content(message.parts)}
            if message.origin != "user":
                out["origin"] = message.origin
        case AssistantMessage():
            out = {"role": "assistant", "content": message.text}
            if message.tool_calls:
                out["tool_calls"] = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.tool_calls]
            if message.extra:
                extra = message.extra
                out["extra"] = {"provider": extra.provider, "model": extra.model, "data": extra.data}
            if message.cut_off:
                out["cut_off"] = True
        case ToolMessage():
            content = _content((TextPart(message.text), *message.shown))
            out = {"role": "tool", "tool_call_id": message.call_id, "name": message.name, "content": content}
            if message.is_error:
                out["is_error"] = True
            if message.origin:
                out["origin"] = message.origin
    return out


def as_dicts(messages: Iterable[Message]) -> list[JsonObject]:
    """Return the messages in OpenAI form."""
    return [as_dict(message) for message in messages]


def from_dict(raw: Mapping[str, Any], *, entry: str = "") -> Message:
    """Read one message in OpenAI form: ours, or as other programs write it.

    Null content becomes empty text, non-text content is flattened, ``function`` wrappers around calls are opened.

    Raises:
        ValueError: the role is none of user, assistant, tool (or system, which reads as a user row of origin runtime).
    """
    role = raw.get("role")
    if role == "assistant":
        calls = cast("list[object]", raw.get("tool_calls") or [])
        return AssistantMessage(
            text=_flat(raw.get("content")),
            tool_calls=tuple(
                _call(cast("dict[str, Any]", call), entry, i) for i, call in enumerate(calls) if isinstance(call, dict)
            ),
            extra=_extra(raw.get("extra")),
            cut_off=bool(raw.get("cut_off", False)),
            entry=entry,
        )
    if role == "tool":
        text, shown = _result(raw.get("content"))
        return ToolMessage(
            call_id=str(raw.get("tool_call_id") or ""),
            name=str(raw.get("name") or ""),
            text=text,
            is_error=bool(raw.get("is_error", False)),
            entry=entry,
            origin=str(raw.get("origin") or ""),
            shown=shown,
        )
    if role in ("user", "system"):
        origin = "runtime" if role == "system" else raw.get("origin", "user")
        if origin not in ("user", "runtime", "summary"):
            origin = "user"
        return UserMessage(_parts(raw.get("content")), origin=origin, entry=entry)
    raise ValueError(f"a message's role must be user, assistant or tool, not {role!r}")


def _content(parts: tuple[Part, ...]) -> JsonValue:
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    out: list[JsonValue] = []
    for part in parts:
        if isinstance(part, TextPart):
            out.append({"type": "text", "text": part.text})
        else:
            image: JsonObject = {
                "type": "image",
                "path": part.path,
                "media_type": part.media_type,
                "sha256": part.sha256,
            }
            out.append({**image, "name": part.name} if part.name else image)
    return out


def _parts(content: object) -> tuple[Part, ...]:
    if not isinstance(content, list):
        return (TextPart(_flat(content)),)
    parts: list[Part] = []
    for item in cast("list[Any]", content):
        if _is_image(item):
            image = cast("JsonObject", item)
            rest = (str(image.get(key, "")) for key in ("media_type", "sha256", "name"))
            parts.append(ImagePart(str(image["path"]), *rest))
        else:
            parts.append(TextPart(_flat(cast("object", item))))
    return tuple(parts) or (TextPart(""),)


def _is_image(item: object) -> bool:
    return isinstance(item, dict) and cast("JsonObject", item).get("type") == "image" and "path" in item


def _result(content: object) -> tuple[str, tuple[Part, ...]]:
    """Return a result's text and what is shown with it: images of ours come after the text, and nobody else's are read."""
    if not isinstance(content, list) or not any(map(_is_image, cast("list[object]", content))):
        return _flat(cast("object", content)), ()
    first, *rest = _parts(cast("list[object]", content))
    return (first.text, tuple(rest)) if isinstance(first, TextPart) else ("", (first, *rest))


def _flat(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, (_flat(item) for item in cast("list[object]", content))))
    if isinstance(content, dict):
        block = cast("dict[str, object]", content)
        for key in ("text", "content"):
            if key in block:
                return _flat(block[key])
        return f"[{block.get('type', 'unreadable')} part left out]"
    return str(content)


def _call(raw: Mapping[str, Any], entry: str, index: int) -> ToolCall:
    inner = cast("Mapping[str, Any]", raw.get("function") if isinstance(raw.get("function"), dict) else raw)
    arguments = cast("object", inner.get("arguments", {}))
    if not isinstance(arguments, dict | str):
        arguments = "" if arguments is None else str(arguments)
    return ToolCall(
        id=str(raw.get("id") or f"{entry or 'x'}.{index}"),
        name=str(inner.get("name") or ""),
        arguments=cast("JsonObject | str", arguments),
    )


def _extra(raw: object) -> ProviderExtra | None:
    if not isinstance(raw, dict):
        return None
    extra = cast("dict[str, object]", raw)
    return ProviderExtra(str(extra.get("provider", "")), str(extra.get("model", "")), str(extra.get("data", "")))


def clean_text(text: str) -> str:
    """Return the text without NULs and with each lone surrogate as U+FFFD: what every wire, file and terminal takes."""
    if text.isascii():
        return text.replace("\0", "") if "\0" in text else text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "")
