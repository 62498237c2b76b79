"""Take secrets out of texts before they are stored, shown or sent.

Two kinds are replaced by ``[redacted]``: the values that this installation knows to be secret, also as base64, percent-encoded or
inside JSON; and strings in the well-known shapes of keys.  The shapes are narrow on purpose: a result that loses ordinary text is
worse than one that keeps an unknown kind of key.  Time is linear in the text, and a thread that redacts a long one lets others run.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

REDACTED = "[redacted]"
MIN_SECRET_CHARS = 6

_BEFORE = r"(?<![A-Za-z0-9_-])"
# Each alternative begins with fixed characters and has no nested repetition over the same characters, so matching is linear.
_SHAPES = re.compile(
    "|".join(
        (
            _BEFORE + r"sk-[A-Za-z0-9_-]{20,}",  # OpenAI, Anthropic, OpenRouter and those who copied them
            _BEFORE + r"\d{8,10}:A[A-Za-z0-9_-]{34}(?![A-Za-z0-9_-])",  # Telegram bots
            _BEFORE + r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])",  # AWS
            _BEFORE + r"gh[pousr]_[A-Za-z0-9]{36,}",  # GitHub
            _BEFORE + r"github_pat_[A-Za-z0-9_]{22,}",
            _BEFORE + r"glpat-[A-Za-z0-9_-]{20,}",  # GitLab
            _BEFORE + r"xox[abeprs]-[A-Za-z0-9-]{10,}",  # Slack
            _BEFORE + r"AIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])",  # Google
            _BEFORE + r"hf_[A-Za-z0-9]{30,}",  # Hugging Face
            r"(?<=Bearer )[A-Za-z0-9._~+/-]{20,}=*",
            # A private key, also with numbered or escaped lines, also without its end
            r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:(?:\r?\n|\\r\\n|\\n)[ \d]{0,9}[\t|:]?(?:[A-Za-z-]{1,30}: [^\n]{0,200}|[A-Za-z0-9+/=]*))*"
            r"(?:-----END [A-Z0-9 ]{1,60}-----)?",
        )
    )
)


# Every match of a shape holds one of these.
_SIGNS = (
    *("sk-", ":A", "AKIA", "ASIA", "glpat-", "xox", "AIza", "hf_", "Bearer ", "PRIVATE KEY"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
)
_WINDOW_CHARS = 64 * 1024
_OVERLAP_CHARS = 8 * 1024  # more than the shortest match of anything
_BEFORE_CHARS = 16  # more than what must stand before a match


class Redactor:
    """Callable text → text.

    Args:
        secrets: values that must never show; shorter ones than ``MIN_SECRET_CHARS`` are not looked for, as they would match
            ordinary text.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets if len(secret) >= MIN_SECRET_CHARS for form in _forms(secret)}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._forms = tuple(longest_first)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, text: str) -> str:
        """Return the text with each secret replaced.  Applying it twice changes nothing more."""
        if self._known is not None:
            text = _replaced(self._known, self._forms, text)
        return _replaced(_SHAPES, _SIGNS, text)


def _replaced(pattern: re.Pattern[str], signs: tuple[str, ...], text: str) -> str:
    """Return the text with each match replaced; where none of ``signs`` stands, there is none.

    In windows, because a search holds the interpreter's lock to its end: 50 MB at once would stop the event loop for seconds, even
    from a thread.
    """
    kept: list[str] = []
    done = at = 0
    overlap = max(_OVERLAP_CHARS, *map(len, signs))
    while at < len(text):
        border, end = at + _WINDOW_CHARS, at + _WINDOW_CHARS + overlap
        if any(text.find(sign, max(0, at - _BEFORE_CHARS), end) >= 0 for sign in signs):
            for found in pattern.finditer(text, at, end):
                if found.start() >= border:
                    break
                whole = found if found.end() <= border else pattern.match(text, found.start()) or found
                kept += (text[done : whole.start()], REDACTED)
                done = whole.end()
        at = max(border, done)
    return "".join((*kept, text[done:])) if kept else text


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield from _base64_forms(secret.encode("utf-8", "replace"))


def _base64_forms(data: bytes) -> Iterator[str]:
    """The characters that base64 gives these bytes at each of the three places they can have in a longer text."""
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + data).decode()
        start = (shift * 8 + 5) // 6  # characters that also hold bits of what stands before
        end = (shift + len(data)) * 8 // 6  # and after
        if end - start >= MIN_SECRET_CHARS + 2:
            yield encoded[start:end]
            yield encoded[start:end].replace("+", "-").replace("/", "_")
