"""Faults a test asks for: which call fails, how, and whether it was carried out all the same."""

from dataclasses import dataclass


@dataclass(slots=True)
class Fault:
    """The next ``times`` calls of ``method`` (or ``*``), optionally of one chat, go wrong.

    ``status`` is the answer's; ``cut`` closes the connection instead, ``hang`` never answers, ``html`` answers as a proxy would.
    ``after_processing`` says that the call takes effect first.
    """

    method: str
    times: int
    status: int = 500
    description: str = "Internal Server Error"
    retry_after: int | None = None
    parameters: dict[str, int] | None = None
    chat: int | None = None
    after_processing: bool = False
    cut: bool = False
    hang: bool = False
    html: bool = False

    def concerns(self, method: str, chat: int | None) -> bool:
        """Say whether this call is to fail."""
        return self.times > 0 and self.method in (method, "*") and self.chat in (None, chat)

    @property
    def extra(self) -> dict[str, int]:
        """Return the error's parameters."""
        known = dict(self.parameters or {})
        return known | ({"retry_after": self.retry_after} if self.retry_after is not None else {})
