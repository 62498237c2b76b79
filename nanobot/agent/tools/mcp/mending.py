"""A server's list of tools, mended so that one bad tool costs no other.

Pure.  The SDK refuses a whole list for one wrong field; so what it would stumble over is taken away before it looks.  Schemas of
results go too: checking a result of megabytes against one would hold up the event loop, and the model reads it anyway.
"""

from typing import cast

from nanobot.messages import JsonObject, clean_text

MAX_TOOLS = 256
_MAX_NAME_CHARS = 256
_MAX_DESCRIPTION_CHARS = 4_000


def mended(result: JsonObject) -> tuple[JsonObject, dict[str, str]]:
    """Return a result of ``tools/list`` that is well-formed, and why each tool that is missing was left out."""
    kept: list[JsonObject] = []
    left_out: dict[str, str] = {}
    for index, entry in enumerate(cast("list[object]", result["tools"])):
        tool = cast("JsonObject", entry) if isinstance(entry, dict) else {}
        name = tool.get("name")
        if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME_CHARS:
            left_out[f"tool {index + 1}"] = "it has no usable name"
        elif any(name == one["name"] for one in kept):
            left_out[name] = "it is listed twice; the first one counts"
        elif not isinstance(tool.get("inputSchema", {}), dict):
            left_out[name] = "its schema is no object"
        elif len(kept) == MAX_TOOLS:
            left_out[f"{name} and those after it"] = f"there are more than {MAX_TOOLS}"
            break
        else:
            kept.append(_plain(tool))
    return {**result, "tools": kept}, left_out  # pyright: ignore[reportReturnType]  # lists are invariant


def is_listing(result: object) -> bool:
    """Whether a result is one of ``tools/list``."""
    return isinstance(result, dict) and isinstance(cast("JsonObject", result).get("tools"), list)


def _plain(tool: JsonObject) -> JsonObject:
    schema = cast("JsonObject", tool.get("inputSchema", {}))
    description = tool.get("description")
    text = clean_text(description) if isinstance(description, str) else ""
    if len(text) > _MAX_DESCRIPTION_CHARS:
        text = f"{text[:_MAX_DESCRIPTION_CHARS]}\n[… {len(text) - _MAX_DESCRIPTION_CHARS:,} characters left out …]"
    return {"name": tool["name"], "description": text, "inputSchema": {**schema, "type": "object"}}
