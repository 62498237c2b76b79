"""What keeps the commands of a workspace in, in words for people."""

from typing import Literal, TypeAlias

from nanobot.values import frozen

Kind: TypeAlias = Literal["bwrap", "landlock", "none", "off"]


@frozen
class State:
    """What keeps commands in: ``bwrap``, ``landlock``, ``none`` (nothing works) or ``off`` (nobody wants it).

    ``why`` says what was tried and failed, a reason a line; ``bwrap`` is the program that works.  ``is_lost``: nothing works, but
    something did before in this process.
    """

    kind: Kind
    why: tuple[str, ...] = ()
    bwrap: str = ""
    is_lost: bool = False

    @property
    def text(self) -> str:
        """One line for people."""
        match self.kind:
            case "bwrap":
                return f"bubblewrap ({self.bwrap})"
            case "landlock":
                return f"Landlock, without namespaces ({'; '.join(self.why)})" if self.why else "Landlock"
            case "off":
                return "off, by tools.sandbox.mode: commands run with your rights"
            case "none" if self.is_lost:
                return f"none works any more ({'; '.join(self.why)}): commands are refused until one does"
            case "none":
                return f"none works here ({'; '.join(self.why)}): each command is asked for"
