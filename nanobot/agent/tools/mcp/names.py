"""A remote tool's name as a model calls it: ``mcp_<server>_<tool>``, in the characters and the length that both wires accept.

Pure.  A name depends on the server's and the tool's own name alone, never on what else there is or came first: so it is the same
after every restart.  Where the tool's name had to be changed, a short hash keeps names apart that were different.
"""

import hashlib
import re

FAMILY = "mcp_"
CHATTY = "mcp_*"
"""How the whole family is written among the chatty tools, whose old results may become one line."""

MAX_CHARS = 64
_HASH_CHARS = 6
_UNUSABLE = re.compile(r"[^A-Za-z0-9_-]+")


def label_of(server: str) -> str:
    """Return a server's part of the names of its tools; it holds no ``_``, so that it can be told from the rest."""
    return server.replace("_", "-")


def server_label(name: str) -> str:
    """Return the server's part of a tool's name; empty if it has none."""
    return name.removeprefix(FAMILY).partition("_")[0] if name.startswith(FAMILY) else ""


def tool_name(server: str, tool: str) -> str:
    """Return the name under which models call this tool of this server."""
    prefix = f"{FAMILY}{label_of(server)}_"
    clean = _UNUSABLE.sub("_", tool)
    if clean == tool and tool and len(prefix) + len(tool) <= MAX_CHARS:
        return prefix + tool
    digest = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    room = MAX_CHARS - len(prefix) - _HASH_CHARS - 1
    return f"{prefix}{clean[:room]}_{digest}"
