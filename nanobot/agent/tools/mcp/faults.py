"""What the SDK and what is under it raise, as our two errors: one total function."""

from collections.abc import Iterator
from typing import cast

import httpx2
from mcp import MCPError
from mcp.client.auth import OAuthFlowError
from mcp_types import CONNECTION_CLOSED
from pydantic import ValidationError

from nanobot.agent.tools.mcp.http import TooLarge
from nanobot.agent.tools.mcp.remote import Declined, Lost

_MAX_CHARS = 500


def fault_of(error: Exception) -> Lost | Declined:
    """Return what an error means for a connection; of a group, its most telling member."""
    faults = [_one(leaf) for leaf in _leaves(error)]
    telling = [fault for fault in faults if isinstance(fault, Lost) and str(fault) != _BROKE]
    return (telling or faults)[0]


_BROKE = "the connection broke"


def _one(error: BaseException) -> Lost | Declined:
    match error:
        case Lost() | Declined():
            return error
        case MCPError(code=code, message=message) if code == CONNECTION_CLOSED and message == "Connection closed":
            return Lost(_BROKE)
        case MCPError(message="Session terminated"):
            return Lost("it has forgotten us, as after a restart", reached=False)
        case MCPError(message=message):
            return Declined(message[:_MAX_CHARS] or "an error without a text")
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            return Lost(f"it cannot be reached: {_line(error)}", reached=False)
        case httpx2.HTTPStatusError():
            return _status(error.response.status_code)
        case OAuthFlowError():
            return Lost(f"the login does not work: {_line(error)}; `nanobot mcp login` does it anew", lasting=True)
        case TooLarge():
            return Declined(_line(error))
        case httpx2.HTTPError():
            return Lost(f"{_BROKE}: {_line(error)}")
        case ValidationError():
            return Declined(f"its answer is not what the protocol wants ({error.error_count()} faults)")
        case _:
            return Lost(_line(error))


def _status(code: int) -> Lost:
    if code in (401, 403):
        text = f"it refuses us ({code}): check its headers, or set oauth and run `nanobot mcp login`"
        return Lost(text, reached=False, lasting=True)
    return Lost(f"it answers with status {code}", reached=code >= 500)


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text[:_MAX_CHARS] or type(error).__name__


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(one)
    else:
        yield error
