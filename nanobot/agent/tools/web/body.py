"""Take a body in, within a limit, whatever it is packed as.

We ask for gzip and deflate only.  Both are undone here and piece by piece, so that a few kilobytes cannot become gigabytes in one
step; what was not asked for is refused.
"""

import zlib

from nanobot.errors import ToolError

ASK_FOR = "gzip, deflate"


class Body:
    """Bytes that arrive; ``data`` is what they unpack to, at most ``max_bytes``.

    Args:
        encoding: the Content-Encoding header.
        max_bytes: most bytes of the wire, and most bytes unpacked.

    Raises:
        ToolError: an encoding that was not asked for.
    """

    def __init__(self, encoding: str, *, max_bytes: int) -> None:
        name = encoding.strip().lower()
        if name not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ToolError(f"the server packed its answer as {name!r:.40}, which was not asked for and is not read.")
        self.data = bytearray()
        self.received = 0
        self.is_cut = False
        self._max_bytes = max_bytes
        self._is_packed = name not in ("", "identity")
        self._unpack: zlib._Decompress | None = None  # pyright: ignore[reportPrivateUsage]  # zlib has no public name for it

    def add(self, piece: bytes) -> bool:
        """Take the next piece; False when there is no room for more.

        Raises:
            ToolError: it cannot be unpacked.
        """
        self.received += len(piece)
        room = self._max_bytes - len(self.data) + 1  # one more shows that there is more
        self.data += self._unpacked(piece, room) if self._is_packed else piece[:room]
        self.is_cut = len(self.data) > self._max_bytes or self.received > self._max_bytes
        del self.data[self._max_bytes :]
        return not self.is_cut

    def _unpacked(self, piece: bytes, room: int) -> bytes:
        if self._unpack is None and piece:
            self._unpack = zlib.decompressobj(_window_bits(piece[0]))
        try:
            return self._unpack.decompress(piece, room) if self._unpack else b""
        except zlib.error:
            raise ToolError("the server's answer cannot be unpacked: its compressed data is damaged.") from None


def _window_bits(first: int) -> int:
    """Tell gzip and zlib data (recognised by zlib itself) from bare deflate, which some servers send, by the first byte."""
    is_wrapped = first == 0x1F or (first & 0x0F == 8 and first >> 4 <= 7)
    return zlib.MAX_WBITS | 32 if is_wrapped else -zlib.MAX_WBITS
