"""What we know about models by name: the one place where ids and windows are written down.  Pure.

Windows are those the vendors publish; a model nobody listed counts as 128,000 tokens, and settings can say otherwise.
"""

import re

DEFAULT_ANTHROPIC_MODEL = "claude-sonnet-5-5"
DEFAULT_OPENAI_MODEL = "gpt-5.4-mini"
OFFLINE_MODEL = "phrases"

DEFAULT_WINDOW = 128_000

# The longest matching prefix counts; a vendor path before the name ("anthropic/claude-…") and case do not.
_WINDOWS = {
    "claude-": 200_000,
    "gpt-3.5": 16_385,
    "gpt-4": 8_192,
    "gpt-4-32k": 32_768,
    "gpt-4-turbo": 128_000,
    "gpt-4-0125": 128_000,
    "gpt-4-1106": 128_000,
    "gpt-4o": 128_000,
    "gpt-4.1": 1_047_576,
    "gpt-5": 400_000,
    "gpt-6": 400_000,
    "o1": 200_000,
    "o1-mini": 128_000,
    "o1-preview": 128_000,
    "o3": 200_000,
    "o4-mini": 200_000,
    "gemini-": 1_048_576,
    "deepseek-": 128_000,
    "kimi-": 131_072,
    "mistral-": 128_000,
    "phrases": 1_000_000,
}

_REASONING_AT_OPENAI = re.compile(r"^(o\d|gpt-[5-9](?!.*chat))", re.ASCII)
# Models before adaptive thinking: they want a token budget instead.
_BUDGET_THINKING = re.compile(r"^claude-(3|(opus|sonnet|haiku)-4(-[0-5])?(-\d{8})?(@\d+)?$)", re.ASCII)


def context_window(model: str) -> int:
    """Return how many tokens the model's window holds, prompt and answer together."""
    name = bare_name(model)
    known = max((prefix for prefix in _WINDOWS if name.startswith(prefix)), key=len, default="")
    return _WINDOWS.get(known, DEFAULT_WINDOW)


def bare_name(model: str) -> str:
    """Return the model's own name, without a vendor's path before it, in lower case."""
    return model.rsplit("/", 1)[-1].lower()


def is_openai_reasoning(model: str) -> bool:
    """Say whether this OpenAI model refuses ``max_tokens`` and ``temperature``."""
    return bool(_REASONING_AT_OPENAI.match(bare_name(model)))


def thinks_adaptively(model: str) -> bool:
    """Say whether this Anthropic model chooses itself how long it thinks (``thinking: adaptive``)."""
    name = bare_name(model)
    return name.startswith("claude-") and not _BUDGET_THINKING.match(name)
