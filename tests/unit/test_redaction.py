"""Secrets go, ordinary text stays."""

import base64
import json
import time
from urllib.parse import quote

import pytest

from nanobot.redaction import REDACTED, Redactor

SECRET = 'p@ss wörd/+"x"\\9'
KEY_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj"
# Put together at run time, so that no scanner takes this file for a leak
SHAPES = [
    "sk-" + "a1B2" * 8,
    "sk-ant-" + "api03-" + "a1B2_" * 8,
    "123456789:" + "AA" + "h3_-" * 8 + "x",
    "AKIA" + "ABCDEFGHIJKLMN23",
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2" * 9,
    "glpat-" + "a1B2" * 5,
    "xoxb-" + "12345-abcde",
    "AIza" + "a1B2_" * 7,
    "hf_" + "a1B2" * 8,
    "sk_" + "live_" + "a1B2" * 6,
    "rk_" + "live_" + "a1B2" * 6,
    "whsec_" + "a1B2" * 8,
    "npm_" + "a1B2" * 9,
    "pypi-" + "AgEIcHlwaS5vcmc" + "a1B2" * 12,
    ".".join(("eyJ" + "hbGciOiJIUzI1NiJ9", "eyJ" + "zdWIiOiIxMjM0In0", "a1B2-_" * 7)),
    "xapp-" + "1-A0123456789-1234567890-" + "a1b2" * 16,
    "SG." + "a1B2-_" * 3 + "abcd" + "." + "a1B2-_" * 7 + "a",
    "SK" + "0a1b" * 8,
    "MT" + "Aa1B" * 6 + ".GaBcDe." + "a1B2-_" * 6,
    "abc" + "8Q~" + "a1B2" * 8,
    "GOCSPX" + "-" + "a1B2" * 7,
    "ya29." + "a1B2" * 10,
    "gsk_" + "a1B2" * 10,
]


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET, safe=""),
        json.dumps(SECRET)[1:-1],
        *(base64.b64encode((user + ":" + SECRET + "!").encode()).decode() for user in ("a", "ab", "abc")),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
    ],
)
def test_g05_known_secrets_go_in_every_usual_form(form: str) -> None:
    """A configured value is replaced plain, percent-encoded, inside JSON, and inside base64 at any offset."""
    found = Redactor([SECRET])(f"before {form} after")

    assert REDACTED in found
    assert form not in found
    assert found.startswith("before ")
    assert found.endswith(" after")
    assert base64.b64encode(SECRET.encode()).decode()[4:12] not in found


@pytest.mark.parametrize("key", SHAPES)
def test_well_known_shapes_go_without_being_known(key: str) -> None:
    """Keys that a tool finds on its own are recognized by their shape."""
    assert Redactor()(f"KEY={key}\n") == f"KEY={REDACTED}\n"
    assert Redactor()(f'{{"k": "{key}"}}') == f'{{"k": "{REDACTED}"}}'


PASSWORD = "s3cr3t!pw"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"postgresql+asyncpg://app:{PASSWORD}@db:5432/x", f"postgresql+asyncpg://app:{REDACTED}@db:5432/x"),
        (f"redis://:{PASSWORD}@cache/0", f"redis://:{REDACTED}@cache/0"),
        (f"mongodb://u:{PASSWORD}@h1,h2/db", f"mongodb://u:{REDACTED}@h1,h2/db"),
        ("AccountName=a;AccountKey=" + "a1B2" * 21 + "a1==;", f"AccountName=a;AccountKey={REDACTED};"),
        (
            "https://hooks.slack.com/services/" + "T0A1/B0A1/" + "a1B2" * 6,
            f"https://hooks.slack.com/services/{REDACTED}",
        ),
        (
            "https://discord.com/api/webhooks/" + "1" * 18 + "/" + "a1B2" * 17,
            f"https://discord.com/api/webhooks/{REDACTED}",
        ),
    ],
)
def test_what_stands_around_a_secret_stays(text: str, left: str) -> None:
    """An address shows where it leads, and not how to get in."""
    assert Redactor()(text) == left


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        ("Bearer correct-horse-77", "the token correct-horse-77 is bad"),
        ("http://user:correct-horse-77@proxy:8080", "proxy user 'user', password 'correct-horse-77'"),
        ("http://user:correct%2Dhorse-77@proxy:8080", "correct-horse-77"),
    ],
)
def test_what_is_secret_in_a_secret_goes_by_itself_too(secret: str, shown: str) -> None:
    """A header's key without its scheme, and a proxy's password without its address, are as secret as the whole."""
    assert "correct-horse-77" not in Redactor([secret])(shown)


def test_a_bearer_token_goes_and_the_header_stays() -> None:
    """What the header was is still readable."""
    assert Redactor()("Authorization: Bearer " + "abc.DEF-" * 5) == f"Authorization: Bearer {REDACTED}"


@pytest.mark.parametrize(
    "block",
    [
        f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_BODY}\n{KEY_BODY}==\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\r\n{KEY_BODY}\r\n-----END PRIVATE KEY-----",
        f"1\t-----BEGIN OPENSSH PRIVATE KEY-----\n2\t{KEY_BODY}\n3\t{KEY_BODY}\n4\t-----END OPENSSH PRIVATE KEY-----",
        f'"-----BEGIN EC PRIVATE KEY-----\\n{KEY_BODY}\\n-----END EC PRIVATE KEY-----\\n"',
        f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{KEY_BODY}\n[cut",
    ],
)
def test_private_keys_go_with_numbered_or_escaped_lines_too(block: str) -> None:
    """No line of a key is left, however a tool shows it."""
    found = Redactor()(f"text\n{block}\nmore text")

    assert KEY_BODY not in found
    assert found.startswith("text\n")
    assert found.endswith("more text")


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn and task-force and risk-free-lunch-for-everyone-here",
        "commit 3f2cdd2e0b1c4a5d6e7f8091a2b3c4d5e6f70819",
        "at 12:30:45 the Bearer of news, 1234567890:80 is a port",
        "postgres://user:password@localhost/db and mysql://root:${DB_PASSWORD}@db/x and redis://:<password>@h",
        "see https://example.com/a:b@c, SKU0a1b0a1b, SG.1.2, Mjolnir.x.y, eyJ is how a token begins; npm_config_cache=/x",
        "x = 'AKIA' + suffix; ghp_short; -----BEGIN CERTIFICATE-----",
        base64.b64encode(bytes(range(200))).decode(),
        "The words PRIVATE KEY in prose, and a----- line",
    ],
)
def test_ordinary_text_is_kept(text: str) -> None:
    """Words, hashes, ports and base64 are no keys."""
    assert Redactor(["correct horse battery"])(text) == text


def test_short_secrets_are_not_looked_for() -> None:
    """A secret of a few characters would take ordinary words away."""
    assert Redactor(["the", ""])("the cat") == "the cat"


def test_redacting_twice_changes_nothing() -> None:
    """What is redacted once stays as it is."""
    redact = Redactor([SECRET, "redacted"])
    once = Redactor([SECRET])(f"{SECRET} {SHAPES[0]}")

    assert Redactor([SECRET])(once) == once
    assert SECRET not in redact(once)


@pytest.mark.parametrize(
    "unit",
    ["sk-", "-----BEGIN PRIVATE KEY-----\n", "Bearer aaaa", "a", "\n1\tAAAA", "1234567890:A", "-----BEGIN RSA " * 2],
)
def test_time_is_linear_in_the_text(unit: str) -> None:
    """Ten times the text takes about ten times as long, also for text made of key beginnings."""
    redact = Redactor([SECRET, "another secret value"])

    def seconds(size: int) -> float:
        text = (unit * (size // len(unit) + 1))[:size]
        return min(_timed(redact, text) for _ in range(3))

    assert seconds(400_000) < 10 * 4 * seconds(40_000) + 0.05


def _timed(redact: Redactor, text: str) -> float:
    start = time.perf_counter()
    redact(text)
    return time.perf_counter() - start


@pytest.mark.parametrize("secret", [SECRET, *SHAPES, "k" * 20_000])
def test_a_secret_anywhere_in_a_long_text_is_found(secret: str) -> None:
    """Long texts are looked through piece by piece; a secret on a border is found all the same."""
    redact = Redactor([SECRET, "k" * 20_000])

    for before in range(65_536 - len(secret[:200]) - 20, 65_536 + 20, 7):
        text = f"{'x ' * (before // 2)}{secret} and {secret}."
        assert redact(text).count("[redacted]") == 2
