"""Signatures for thinking blocks: made from the text, so that altered text is found out.

The key is fixed: a conversation outlives the server that began it.
"""

import base64
import hashlib
import hmac

_KEY = b"a test server's signature key"


def sign(text: str) -> str:
    """Return the signature of a thinking text."""
    return base64.b64encode(hmac.digest(_KEY, text.encode("utf-8", "surrogatepass"), hashlib.sha256)).decode()


def is_signed(text: str, signature: str) -> bool:
    """Tell whether a server of this kind gave ``signature`` to ``text``."""
    return hmac.compare_digest(sign(text).encode(), signature.encode("utf-8", "surrogatepass"))


def redact(text: str) -> str:
    """Return opaque data for a redacted thinking block."""
    return base64.b64encode(sign(text).encode() + b"." + text.encode("utf-8", "surrogatepass")).decode()


def is_redacted(data: str) -> bool:
    """Tell whether ``data`` came from ``redact``."""
    try:
        signature, _, text = base64.b64decode(data, validate=True).decode("utf-8", "surrogatepass").partition(".")
    except ValueError:
        return False
    return is_signed(text, signature)
