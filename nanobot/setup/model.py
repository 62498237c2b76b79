"""Try a model: does it answer, and does it call a tool when it is asked to?"""

from collections.abc import Mapping
from typing import Literal

from nanobot.errors import ProviderError
from nanobot.messages import user_text
from nanobot.providers.base import LLMRequest, ToolSpec
from nanobot.providers.factory import build_one
from nanobot.providers.settings import ProviderSettings
from nanobot.values import frozen

_TOOL = ToolSpec(
    "get_time",
    "Return the current time.",
    {"type": "object", "properties": {"zone": {"type": "string", "description": "such as UTC"}}, "required": ["zone"]},
)
_PROMPT = "What time is it in UTC? Call the tool get_time to find out; do not guess."
_ROOM_TOKENS = 512  # models that think first need some


@frozen
class Tried:
    """What came of it.  ``text`` is one sentence, for ``no_tools`` and ``failed``."""

    verdict: Literal["works", "no_tools", "failed"]
    text: str = ""
    error: ProviderError | None = None


async def try_model(name: str, settings: ProviderSettings, model: str, *, environ: Mapping[str, str]) -> Tried:
    """Make one small request that asks for a tool call.

    Raises:
        ConfigError: the settings cannot be used.
    """
    provider = build_one(name, settings, environ=environ)
    request = LLMRequest(
        model=model, system="", messages=(user_text(_PROMPT),), tools=(_TOOL,), max_tokens=_ROOM_TOKENS
    )
    try:
        response = await provider.stream(request, lambda event: None)
    except ProviderError as error:
        return Tried("failed", str(error), error)
    finally:
        await provider.close()
    if any(call.name == _TOOL.name and isinstance(call.arguments, dict) for call in response.tool_calls):
        return Tried("works")
    return Tried(
        "no_tools",
        f"{name}/{model} answers, but did not call a tool when asked to: it can chat, and do nothing. "
        "Choose a model that is made for tool calls",
    )
