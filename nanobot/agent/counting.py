"""Exact token counts, where the extra ``tokens`` is installed: an offline copy of OpenAI's vocabularies.

Nothing is downloaded.  The vocabulary takes a tenth of a second and 65 MB, so it is loaded only when settings ask for it, once, and
only for models that use it.
"""

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import TypeAlias, cast

from nanobot.providers.models import bare_name

Counter: TypeAlias = Callable[[str], int]
_OLDER = ("gpt-3.5", "gpt-4-", "gpt-4")
_NEWER = ("gpt-4o", "gpt-4.1", "gpt-5", "gpt-6", "o1", "o3", "o4")


def counter_for(model: str) -> Counter | None:
    """Return what counts this model's tokens; None if nothing here can."""
    name = bare_name(model)
    if name.startswith(_NEWER):
        return _load("o200k_base")
    return _load("cl100k_base") if name.startswith(_OLDER) else None


@lru_cache(maxsize=2)
def _load(vocabulary: str) -> Counter | None:
    try:
        module = import_module("rs_bpe.bpe").openai
    except ImportError:
        return None
    return cast("Counter", getattr(module, vocabulary)().count)
