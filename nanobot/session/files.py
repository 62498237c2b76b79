"""Where a session's files lie.  Pure.

A name shows the key's first characters to a person; the hash makes it unique, also where case is ignored, and short for any key.
"""

import hashlib
import re
from pathlib import Path

from nanobot.bus.events import SessionKey
from nanobot.values import frozen

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_SHOWN_CHARS = 40
_HASH_DIGITS = 16


def stem(key: SessionKey) -> str:
    """Return the name, without suffix, that all files of this session share: at most 57 ASCII characters."""
    shown = _UNSAFE.sub("_", key[:_SHOWN_CHARS]).lstrip("-") or "_"
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{shown}-{digest[:_HASH_DIGITS]}"


@frozen
class Layout:
    """The folders under the data directory, and each session's place in them."""

    data_dir: Path

    @property
    def sessions(self) -> Path:
        """One log for each session."""
        return self.data_dir / "sessions"

    @property
    def markers(self) -> Path:
        """One small file for each session that may hold unsettled work.  Derived, never truth."""
        return self.data_dir / "open"

    @property
    def locks(self) -> Path:
        """One lock file for each session; they stay, because they count the claims."""
        return self.data_dir / "locks"

    @property
    def quarantine(self) -> Path:
        """Bytes that no log entry could be made of."""
        return self.data_dir / "quarantine"

    @property
    def blobs(self) -> Path:
        """One folder for each session that has blobs."""
        return self.data_dir / "blobs"

    def log(self, key: SessionKey) -> Path:
        """Return the session's log."""
        return self.sessions / f"{stem(key)}.jsonl"

    def marker(self, key: SessionKey) -> Path:
        """Return the session's marker in ``open``."""
        return self.markers / stem(key)

    def lock(self, key: SessionKey) -> Path:
        """Return the session's lock file."""
        return self.locks / f"{stem(key)}.lock"

    def blob_dir(self, key: SessionKey) -> Path:
        """Return the folder of the session's blobs."""
        return self.blobs / stem(key)
