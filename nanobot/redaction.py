"""Take secrets out of texts before they are stored, shown or sent.

Two kinds are replaced by ``[redacted]``: the values that this installation knows to be secret, also as base64, percent-encoded or
inside JSON; and strings in the well-known shapes of keys.  The shapes are narrow on purpose: a result that loses ordinary text is
worse than one that keeps an unknown kind of key.  Time is linear in the text, and a thread that redacts a long one lets others run.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote, urlsplit

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
            _BEFORE + r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
            _BEFORE + r"whsec_[A-Za-z0-9+/]{32,}=*",
            _BEFORE + r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])",
            _BEFORE + r"pypi-AgE[A-Za-z0-9_-]{50,}",
            _BEFORE + r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}",  # signed JSON Web Tokens
            _BEFORE + r"xapp-\d-[A-Z0-9]{8,}-\d{6,}-[a-f0-9]{32,}",  # Slack apps
            r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9/_-]{20,}",
            _BEFORE + r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])",  # SendGrid
            _BEFORE + r"SK[0-9a-f]{32}(?![A-Za-z0-9_-])",  # Twilio
            _BEFORE + r"MT[A-Za-z0-9]{22,26}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}(?![A-Za-z0-9_-])",  # Discord bots
            r"(?<=/api/webhooks/)\d{15,20}/[A-Za-z0-9_-]{60,}",
            r"(?<=AccountKey=)[A-Za-z0-9+/]{86}==",  # Azure storage
            r"(?<![A-Za-z0-9_.~-])[A-Za-z0-9_.~-]{3}8Q~[A-Za-z0-9_.~-]{31,34}(?![A-Za-z0-9_.~-])",  # Azure applications
            _BEFORE + r"GOCSPX-[A-Za-z0-9_-]{28}(?![A-Za-z0-9_-])",  # Google's OAuth clients
            _BEFORE + r"ya29\.[A-Za-z0-9_-]{30,}",
            _BEFORE + r"(?:gsk_|dop_v1_|shpat_|dckr_pat_|lin_api_|tvly-|pplx-|xai-)[A-Za-z0-9_-]{24,}",
            # A database's address with a password that is no placeholder: only the password goes
            _BEFORE
            + r"(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql)(?:\+[a-z0-9]{1,20})?://[^\s:@/'\"<>]{0,64}:"
            r"(?!(?:password|passwd|pass|pwd|secret|changeme|example|postgres|root|user|test|guest|[x*.]{1,20})@|[<{$%\[])"
            r"(?P<secret>[^\s@/'\"<>]{3,200})@",
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
    *("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_", "npm_", "pypi-AgE", "eyJ", "xapp-", "hooks.slack.com"),
    *("SG.", "/api/webhooks/", "AccountKey=", "8Q~", "GOCSPX-", "ya29.", "gsk_", "dop_v1_", "shpat_", "dckr_pat_"),
    *("lin_api_", "tvly-", "pplx-", "xai-", "postgres", "mysql", "mariadb", "mongodb", "redis", "amqp", "mssql"),
)
# Or is found by one of these, whose beginnings alone are too common to be a sign.
_LOOKS = (re.compile(r"SK[0-9a-f]{8}"), re.compile(r"MT[A-Za-z0-9]{22,26}\."))
_SCHEME = re.compile(r"(?:Bearer|Basic|Token|Bot|ApiKey) +(\S+)", re.IGNORECASE)  # before a key in a header
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
        parts = {part for secret in secrets for part in parts_of(secret) if len(part) >= MIN_SECRET_CHARS}
        forms = {form for part in parts for form in _forms(part)}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._forms = tuple(longest_first)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, text: str) -> str:
        """Return the text with each secret replaced.  Applying it twice changes nothing more."""
        if self._known is not None:
            text = _replaced(self._known, self._forms, text)
        return _replaced(_SHAPES, _SIGNS, text, _LOOKS)


def _replaced(
    pattern: re.Pattern[str], signs: tuple[str, ...], text: str, looks: tuple[re.Pattern[str], ...] = ()
) -> str:
    """Return the text with each match replaced; where none of ``signs`` stands and no look finds anything, there is none.

    In windows, because a search holds the interpreter's lock to its end: 50 MB at once would stop the event loop for seconds, even
    from a thread.
    """
    kept: list[str] = []
    done = at = 0
    overlap = max(_OVERLAP_CHARS, *map(len, signs))
    while at < len(text):
        border, end = at + _WINDOW_CHARS, at + _WINDOW_CHARS + overlap
        start = max(0, at - _BEFORE_CHARS)
        if any(text.find(sign, start, end) >= 0 for sign in signs) or any(
            look.search(text, start, end) for look in looks
        ):
            for found in pattern.finditer(text, at, end):
                if found.start() >= border:
                    break
                whole = found if found.end() <= border else pattern.match(text, found.start()) or found
                first, last = whole.span("secret" if whole.lastgroup else 0)
                kept += (text[done:first], REDACTED)
                done = last
        at = max(border, done)
    return "".join((*kept, text[done:])) if kept else text


def parts_of(secret: str) -> Iterator[str]:
    """Yield a secret, and what is secret about it by itself: the password in an address, the key after ``Bearer``."""
    yield secret
    if "://" in secret:
        yield from password_in(secret)
    if found := _SCHEME.fullmatch(secret):
        yield found[1]


def password_in(url: str) -> Iterator[str]:
    """Yield the password of an address, as it stands there and as it is."""
    try:
        password = urlsplit(url).password
    except ValueError:
        return
    if password:
        yield password
        yield unquote(password)


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
