"""What a scripted MCP server answers, whatever carries it.  Speaks the 2025-11-25 protocol; no SDK, so that it can be wrong."""

from dataclasses import dataclass, field
from typing import Any

OBJECT: dict[str, Any] = {"type": "object", "properties": {}}


def tool(name: str, schema: object = OBJECT, description: str = "Does it.") -> dict[str, Any]:
    """Return an entry of ``tools/list``."""
    return {"name": name, "description": description, "inputSchema": schema}


TOOLS = [
    tool("echo", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}),
    tool("count"),
    tool("huge", {"type": "object", "properties": {"chars": {"type": "integer"}}}),
    tool("fail"),
    tool("secret"),
    tool("picture"),
    tool("more"),
    tool("die"),
    tool("hang"),
]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
LATER = tool("later")


@dataclass
class Script:
    """What it offers, and how often it was asked what."""

    tools: list[dict[str, Any]] = field(default_factory=lambda: list(TOOLS))
    secret: str = ""
    calls: list[str] = field(default_factory=list[str])

    def answer(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """Return what is said to one message, the answer last; nothing to a notification."""
        if "id" not in message:
            return []
        method: str = message["method"]
        params: dict[str, Any] = message.get("params") or {}
        result: dict[str, Any]
        match method:
            case "initialize":
                capabilities = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
                info = {"name": "scripted", "version": "1"}
                result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
            case "tools/list":
                result = {"tools": self.tools}
            case "tools/call":
                return self._called(message["id"], params["name"], params.get("arguments") or dict[str, Any]())
            case "resources/list":
                result = {"resources": [{"uri": "memo:///one", "name": "one", "mimeType": "text/plain"}]}
            case "resources/templates/list":
                result = {"resourceTemplates": [{"uriTemplate": "memo:///{name}", "name": "memo"}]}
            case "resources/read":
                result = {"contents": [{"uri": params["uri"], "text": f"This is {params['uri']}."}]}
            case "prompts/list":
                result = {"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": True}]}]}
            case "prompts/get":
                text = f"Greet {params['arguments']['who']}."
                result = {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
            case "ping":
                result = {}
            case _:
                return [{"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}}]
        return [_result(message["id"], result)]

    def _called(self, call: object, name: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        self.calls.append(name)
        before: list[dict[str, Any]] = []
        match name:
            case "echo":
                content = _text(f"{arguments['text']}")
            case "count":
                content = _text(str(len(self.calls)))
            case "huge":
                content = _text("x" * int(arguments["chars"]))
            case "secret":
                content = _text(f"the key is {self.secret}")
            case "picture":
                content = [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]
            case "more":
                self.tools = [*self.tools, LATER]
                before = [{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}]
                content = _text("there is more now")
            case _:
                return [_result(call, {"content": _text(f"cannot {name}; {self.secret}"), "isError": True})]
        return [*before, _result(call, {"content": content})]


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def _result(call: object, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": call, "result": result}
