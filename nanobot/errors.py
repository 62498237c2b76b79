"""The one error tree.

::

    NanobotError
    ├─ ConfigError                  the configuration cannot be used; names file and key, never the value
    ├─ MisuseError                  a script used the API in a way that cannot work
    ├─ ProviderError                a model call failed; ``retryable`` says whether the same call may work later
    │  ├─ RateLimited               retry after ``retry_after_s``
    │  ├─ Unavailable               5xx, connection refused or lost, overloaded
    │  ├─ StreamStalled             the stream went silent, or ended without its last event
    │  ├─ AuthFailed                the key is missing or wrong
    │  ├─ QuotaExhausted            the account has no money or allowance left
    │  ├─ ContextOverflow           the request is longer than the model's window
    │  ├─ BadRequest                the provider refuses this request as malformed
    │  └─ Refused                   a safety system declined to answer
    ├─ ToolError                    written for the model; becomes an error observation
    ├─ SessionError
    │  ├─ SessionBusy               another process holds this session
    │  ├─ SessionCorrupt            a log cannot be read at all
    │  ├─ StaleClaim                a newer claim took this session over
    │  └─ DiskRefused               the disk does not take the write
    ├─ ChannelError
    │  ├─ SendFailed                may work later
    │  ├─ SendRejected              never will
    │  └─ FileUnavailable           a file that came with a message cannot be had
    ├─ NotUndone                    files of a Turn cannot be taken back; says which and why
    └─ TurnStopped                  why a running Turn was stopped
"""

from pathlib import Path
from typing import Literal

StopCause = Literal["user_stop", "replaced", "limit", "shutdown"]


class NanobotError(Exception):
    """Base of every error raised on purpose.  ``str(error)`` is one plain sentence for the person who can act."""


class ConfigError(NanobotError):
    """The configuration cannot be used.  The text names file and key and says what to do; never a secret's value."""


class MisuseError(NanobotError):
    """A script called the API in a way that cannot work, such as a Turn that calls its own session."""


class ProviderError(NanobotError):
    """A model call failed.

    Args:
        message: one sentence for the user, with the provider's own words where they help.
        provider: the configured name of the provider.
        status: the HTTP status, where there was one.
    """

    retryable = False

    def __init__(self, message: str, *, provider: str = "", status: int | None = None) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status


class RateLimited(ProviderError):
    """The provider asks to wait.  ``retry_after_s`` is its own word, or None."""

    retryable = True

    def __init__(
        self, message: str, *, provider: str = "", status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, provider=provider, status=status)
        self.retry_after_s = retry_after_s


class Unavailable(ProviderError):
    """The provider cannot be reached or answers with a server error.  ``retry_after_s`` as in ``RateLimited``."""

    retryable = True

    def __init__(
        self, message: str, *, provider: str = "", status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, provider=provider, status=status)
        self.retry_after_s = retry_after_s


class StreamStalled(ProviderError):
    """The stream went silent, or ended without the event that closes it."""

    retryable = True


class AuthFailed(ProviderError):
    """The key is missing, wrong or not allowed to use this model."""


class QuotaExhausted(ProviderError):
    """The account's money or allowance is used up: waiting seconds does not help."""


class ContextOverflow(ProviderError):
    """The request is longer than the window.  ``limit_tokens`` is the window as the provider stated it, or None."""

    def __init__(
        self, message: str, *, provider: str = "", status: int | None = None, limit_tokens: int | None = None
    ) -> None:
        super().__init__(message, provider=provider, status=status)
        self.limit_tokens = limit_tokens


class BadRequest(ProviderError):
    """The provider refuses this request as malformed: the same bytes will be refused again.

    ``is_elsewhere`` says that what it refuses is the address or the model, so that another model may take the request.
    """

    def __init__(
        self, message: str, *, provider: str = "", status: int | None = None, is_elsewhere: bool = False
    ) -> None:
        super().__init__(message, provider=provider, status=status)
        self.is_elsewhere = is_elsewhere


class Refused(ProviderError):
    """A safety system declined to answer."""


class ToolError(NanobotError):
    """A tool could not do what was asked.  The text is written for the model: what was wrong, what could be tried.

    ``origin`` says whose words the text is, where it is not ours (see ``tools.base.Sourced``).
    """

    def __init__(self, text: str, *, origin: str = "") -> None:
        super().__init__(text)
        self.origin = origin


class SessionError(NanobotError):
    """A session's log cannot be used as asked."""


class SessionBusy(SessionError):
    """Another process holds this session; ``owner`` says which."""

    def __init__(self, message: str, *, owner: str) -> None:
        super().__init__(message)
        self.owner = owner


class SessionCorrupt(SessionError):
    """A log cannot be read at all; ``path`` and ``line`` (from 1) say where."""

    def __init__(self, message: str, *, path: Path, line: int) -> None:
        super().__init__(message)
        self.path = path
        self.line = line


class StaleClaim(SessionError):
    """A newer claim took this session over; this one may not write any more."""


class DiskRefused(SessionError):
    """The disk does not take the write (full, read-only, gone, I/O error)."""


class ChannelError(NanobotError):
    """A channel could not do what was asked."""


class SendFailed(ChannelError):
    """A send failed and may work later, after ``retry_after_s`` if the platform said so.

    ``maybe_sent`` is true when the platform may have taken the message although we saw an error.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None, maybe_sent: bool = False) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.maybe_sent = maybe_sent


class SendRejected(ChannelError):
    """The platform refuses this message for good."""


class FileUnavailable(ChannelError):
    """A file that came with a message cannot be had.  The text is written for the model: a few words that say why."""


class NotUndone(NanobotError):
    """The files of a Turn cannot be taken back; the text says which and why."""


class TurnStopped(NanobotError):
    """Why a running Turn was stopped."""

    def __init__(self, cause: StopCause) -> None:
        super().__init__(f"The Turn was stopped ({cause}).")
        self.cause: StopCause = cause
