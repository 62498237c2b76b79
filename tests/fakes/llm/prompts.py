"""Reading a request as a model would: what was said last, and which tools there are."""

from tests.fakes.llm.shapes import Object, arr, obj, objs


def flat_text(content: object) -> str:
    """Return the text in a message's content, blocks joined by newlines."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block["text"]) for block in objs(content) if block.get("type") == "text" and "text" in block)


def last_user_text(body: Object) -> str:
    """Return what a person said last; tool results are not."""
    for message in reversed(objs(body.get("messages"))):
        if message.get("role") == "user" and (text := flat_text(message.get("content"))):
            return text
    return ""


def last_results(body: Object) -> list[str]:
    """Return the tool results at the end of the conversation, in order; none when something else came last."""
    out: list[str] = []
    for message in reversed(objs(body.get("messages"))):
        blocks = objs(message.get("content"))
        if message.get("role") == "tool":
            out.insert(0, flat_text(message.get("content")))
        elif message.get("role") == "user" and any(block.get("type") == "tool_result" for block in blocks):
            out = [flat_text(block.get("content")) for block in blocks if block.get("type") == "tool_result"]
            break
        else:
            break
    return out


def tool_arguments(body: Object) -> dict[str, list[str]]:
    """Return the tools of a request by name, each with its argument names, required ones first."""
    out: dict[str, list[str]] = {}
    for tool in objs(body.get("tools")):
        inner = obj(tool.get("function")) or tool
        schema = obj(inner.get("parameters") or inner.get("input_schema")) or {}
        required = [name for name in arr(schema.get("required")) or [] if isinstance(name, str)]
        names = list(obj(schema.get("properties")) or {})
        out[str(inner.get("name"))] = [*required, *(name for name in names if name not in required)]
    return out
