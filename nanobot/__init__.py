"""nanobot: a self-hosted personal agent that lives in chat.

``Nanobot`` is the facade for scripts; it is loaded when it is first asked for, so that importing this package costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nanobot.app import Nanobot

    __version__: str

__all__ = ["Nanobot", "__version__"]


def __getattr__(name: str) -> Any:  # Any: PEP 562
    if name == "Nanobot":
        from nanobot.app import Nanobot  # lazily: scripts want it, ``nanobot --help`` does not

        return Nanobot
    if name == "__version__":
        from importlib.metadata import version  # lazily: it takes longer than the rest of a start

        return version("nanobot")
    raise AttributeError(f"module 'nanobot' has no attribute {name!r}")
