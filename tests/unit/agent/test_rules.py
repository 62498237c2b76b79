"""Rules about calls: the first that is like the call decides; nobody talks a call into being allowed."""

import time
from pathlib import Path

import pytest

from nanobot.agent.gates import Allow, Ask, Deny, Verdict
from nanobot.agent.guard import sends_nothing
from nanobot.agent.rules import Facts, Placed, concerns, decide, is_plain, normal_path, placed
from nanobot.agent.tools.rules import Rule
from nanobot.bus.events import Role
from nanobot.messages import JsonValue, ToolCall

WORK = Path("/home/me/desk")


def facts(role: Role = "owner", *, channel: str = "telegram", **more: bool) -> Facts:
    named = {name: ("some",) for name in ("untrusted", "secrets") if more.get(name)}
    return Facts(role=role, channel=channel, workspace=WORK, outward=more.get("outward", False), **named)


def judged(rules: list[Placed] | tuple[Placed, ...], tool: str, given: Facts, **arguments: JsonValue) -> Verdict:
    return decide(rules, ToolCall("e1.0", tool, arguments), arguments, given)


def one(**rule: object) -> list[Placed]:
    return [Placed("tools.rules[0]", Rule.model_validate(rule))]


def holds(verdict: Verdict) -> bool:
    """Say whether the one rule, which denies or asks, was like the call."""
    return not isinstance(verdict, Allow)


def test_the_first_rule_that_is_like_the_call_decides() -> None:
    """Later rules are exceptions to nothing."""
    rules = [
        *one(tool="exec", argument={"command": "git push*"}, action="ask", why="it is published"),
        *one(tool="exec", argument={"command": "git *"}, action="allow"),
        *one(tool="exec", action="deny"),
    ]

    assert judged(rules, "exec", facts(), command="git push origin") == Ask("May exec run?", why="it is published")
    assert judged(rules, "exec", facts(), command="git status") == Allow()
    assert judged(rules, "exec", facts(), command="make") == Deny("tools.rules[0] does not let exec run")
    assert judged(rules, "read_file", facts(), path="a") == Allow()


def test_variables_talk_no_command_into_being_allowed() -> None:
    """A rule that allows a command allows it without variables, unless it names those."""
    rules = [*one(tool="exec", argument={"command": "git *"}, action="allow"), *one(tool="exec", action="deny")]
    named = one(tool="exec", argument={"command": "make", "env": '{"A": "1"}'}, action="allow")
    named += one(tool="exec", action="deny")

    assert judged(rules, "exec", facts(), command="git status", env={}) == Allow()
    assert isinstance(judged(rules, "exec", facts(), command="git status", env={"BASH_ENV": "evil.sh"}), Deny)
    assert judged(named, "exec", facts(), command="make", env={"A": "1"}) == Allow()
    assert isinstance(judged(named, "exec", facts(), command="make", env={"PATH": "evil"}), Deny)


@pytest.mark.parametrize(
    ("arguments", "is_quiet"),
    [
        ({"command": "sort bookkeeping.csv"}, True),
        ({"command": "cat notes.md", "env": {}}, True),
        ({"command": "cat notes.md", "env": {"BASH_ENV": "evil.sh"}}, False),
        ({"command": "ls", "env": {"PATH": "evil"}}, False),
        ({"command": "sort -S 1 --compress-program=./evil.sh big.csv"}, False),
        ({"command": "sort -S 1 --comp ./evil.sh big.csv"}, False),
        ({"command": "cat\u2003/../evil.sh"}, False),
        ({"command": "cat\u00a0x"}, False),
    ],
)
def test_what_runs_somebodys_code_is_not_quiet(arguments: dict[str, JsonValue], is_quiet: bool) -> None:
    """A command that is let through in a conversation that could leak runs nothing but its own program."""
    assert sends_nothing("exec", arguments) is is_quiet
    assert not sends_nothing("mcp_mail_send", arguments)


Calling = tuple[str, Facts, dict[str, JsonValue]]
CONDITIONS: list[tuple[dict[str, object], Calling, Calling]] = [
    ({"tool": ["write_file", "mcp_*"]}, ("mcp_git_push", facts(), {}), ("edit_file", facts(), {})),
    ({"channel": "tele*"}, ("exec", facts(), {}), ("exec", facts(channel="cli"), {})),
    ({"role": "user"}, ("exec", facts("user"), {}), ("exec", facts("owner"), {})),
    ({"outward": True}, ("exec", facts(outward=True), {}), ("exec", facts(), {})),
    ({"untrusted": True}, ("exec", facts(untrusted=True), {}), ("exec", facts(), {})),
    ({"secrets": False}, ("exec", facts(), {}), ("exec", facts(secrets=True), {})),
    ({"argument": {"n": "5*"}}, ("exec", facts(), {"n": 53}), ("exec", facts(), {"m": 53})),
    ({"argument": {"path": "secret/*"}}, ("f", facts(), {"path": "a/../secret/x"}), ("f", facts(), {"path": "x"})),
    (
        {"argument": {"path": "/etc/*"}},
        ("f", facts(), {"path": "../../../etc/x"}),
        ("f", facts(), {"path": "etc/x"}),
    ),
    (
        {"argument": {"url": "https://*.example.org/*"}},
        ("w", facts(), {"url": "HTTPS://a.EXAMPLE.org/x"}),
        ("w", facts(), {"url": "https://evil.test/?.example.org/x"}),
    ),
]


@pytest.mark.parametrize(("rule", "met", "missed"), CONDITIONS)
def test_every_condition_counts(
    rule: dict[str, object],
    met: Calling,
    missed: Calling,
) -> None:
    """A rule is like a call only when all that it says holds."""
    rules = one(**rule, action="deny")

    assert holds(judged(rules, met[0], met[1], **met[2]))
    assert not holds(judged(rules, missed[0], missed[1], **missed[2]))


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf ~",
        "git status && curl evil.test",
        "git status | sh",
        "git status `id`",
        "git status $(id)",
        "git status\nrm x",
        "git status > /etc/passwd",
        "git status 'x'",
        "git status *",
    ],
)
def test_a_command_cannot_be_dressed_up_to_be_allowed(command: str) -> None:
    """A pattern allows plain words only; a whole command with operators can be allowed as it is."""
    rest = one(action="deny")

    assert holds(
        judged(
            [*one(tool="exec", argument={"command": "git status*"}, action="allow"), *rest],
            "exec",
            facts(),
            command=command,
        )
    )
    assert (
        judged([*one(argument={"command": [command]}, action="allow"), *rest], "exec", facts(), command=command)
        == Allow()
    )
    assert holds(judged(one(argument={"command": "git status*"}, action="ask"), "exec", facts(), command=command))
    assert not is_plain(command)


@pytest.mark.parametrize(
    "url",
    [
        "https://docs.example@evil.test/x",
        "https://evil.test/docs.example/x",
        "https://docs.example.evil.test/",
        "https://docs.example:99999/x",
    ],
)
def test_an_address_cannot_be_dressed_up_to_be_allowed(url: str) -> None:
    """The host is the host, whatever stands before or after it."""
    rules = [*one(argument={"url": "https://docs.example/*"}, action="allow"), *one(action="deny")]

    assert holds(judged(rules, "web_fetch", facts(), url=url))
    assert judged(rules, "web_fetch", facts(), url="docs.example/x") == Allow()


def test_members_of_groups_read_and_look_up_and_no_more() -> None:
    """Without a rule of their own they get the narrow set, and an allow without a role is not theirs."""
    rules = placed([Rule(tool=("exec",), action="allow"), Rule(tool=("calendar",), role="member", action="allow")])
    member = facts("member")

    allowed = [
        name for name in ("read_file", "grep", "web_fetch", "calendar") if judged(rules, name, member) == Allow()
    ]
    refused = [
        name for name in ("exec", "write_file", "send_file", "mcp_x_y", "later") if holds(judged(rules, name, member))
    ]
    assert allowed == ["read_file", "grep", "web_fetch", "calendar"]
    assert refused == ["exec", "write_file", "send_file", "mcp_x_y", "later"]
    assert judged(rules, "exec", facts("user")) == judged(rules, "exec", facts()) == Allow()


def test_members_stay_in_the_workspace_when_file_tools_do_not() -> None:
    """With restrict_to_workspace off, what lies outside is for those who were admitted by name."""
    rules = placed([], is_confined=False)

    assert holds(judged(rules, "read_file", facts("member"), path="/etc/passwd"))
    assert judged(rules, "read_file", facts("member"), path="notes.md") == Allow()
    assert judged(rules, "read_file", facts("user"), path="/etc/passwd") == Allow()


def test_ask_before_is_short_for_rules() -> None:
    """It comes after the rules, which may make exceptions."""
    rules = placed([Rule(argument={"command": ("make",)}, action="allow")], ask_before=["exec"])

    assert isinstance(judged(rules, "exec", facts(), command="id"), Ask)
    assert judged(rules, "exec", facts(), command="make") == Allow()


def test_a_pattern_takes_no_long_time() -> None:
    """A command chosen by a model cannot hold the agent up."""
    rules = one(argument={"command": "*a*a*a*a*a*a*a*a*b"}, action="deny")
    began = time.perf_counter()

    assert not holds(judged(rules, "exec", facts(), command="a" * 100_000))
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        (".", "."),
        ("a//b/../c", "a/c"),
        ("/home/me/desk/x", "x"),
        ("..", "/home/me"),
        ("../desktop", "/home/me/desktop"),
    ],
)
def test_paths_are_seen_from_the_workspace(path: str, seen: str) -> None:
    """Whatever way a path is written, rules see one."""
    assert normal_path(path, WORK) == seen


@pytest.mark.parametrize(("action", "is_about"), [("ask", True), ("deny", True), ("allow", False)])
def test_what_is_typed_into_a_shell_is_a_command(action: str, is_about: bool) -> None:
    """A rule that asks about or denies exec holds for exec_input too; one that allows exec does not open it."""
    rule = Rule.model_validate({"tool": ["exec"], "action": action})

    assert concerns(rule, "exec_input", facts()) is is_about
