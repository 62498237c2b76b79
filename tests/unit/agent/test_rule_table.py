"""What the rules say of a tool can be read without calling it."""

from nanobot.agent.rule_table import NO_RULE, ForSome, Standing, standings
from nanobot.agent.rules import FOR_MEMBERS, Placed, placed
from nanobot.agent.tools.rules import Rule


def _rules(*rules: dict[str, object], ask_before: tuple[str, ...] = ()) -> tuple[Placed, ...]:
    return placed([Rule.model_validate(rule) for rule in rules], ask_before=ask_before)


def test_without_rules_members_get_the_narrow_set() -> None:
    """Owners and users may, members may not; reading is theirs."""
    shell = standings(_rules(), "exec", outward=True, arguments=("command",))
    reading = standings(_rules(), "read_file", outward=False, arguments=("path",))

    assert shell == {
        "owner": Standing("allow", NO_RULE),
        "user": Standing("allow", NO_RULE),
        "member": Standing("deny", FOR_MEMBERS),
    }
    assert reading["member"] == Standing("allow", FOR_MEMBERS)


def test_a_rule_for_some_calls_stands_before_the_one_that_decides() -> None:
    """With its condition in words; what comes after the deciding rule is not said, because it never decides."""
    rules = _rules(
        {"tool": "exec", "argument": {"command": ["git push*", "npm publish*"]}, "action": "deny"},
        {"tool": "exec", "channel": "tg", "untrusted": True, "secrets": False, "action": "ask"},
        {"tool": "exec", "action": "ask"},
        {"tool": "exec", "channel": "cli", "action": "allow"},
    )
    found = standings(rules, "exec", outward=True, arguments=("command",))["owner"]

    assert (found.action, found.rule) == ("ask", "tools.rules[2]")
    assert found.before == (
        ForSome("deny", "tools.rules[0]", "command is like git push* or npm publish*"),
        ForSome(
            "ask",
            "tools.rules[1]",
            "it comes by tg and the conversation holds strangers' words and the conversation holds no secrets",
        ),
    )


def test_a_rule_is_said_of_whom_it_concerns_only() -> None:
    """By role, by what the tool can do, and by the arguments it has."""
    rules = _rules(
        {"tool": "*", "role": "user", "outward": True, "action": "ask"},
        {"tool": "*", "argument": {"url": "*"}, "action": "deny"},
        ask_before=("exec",),
    )
    shell = standings(rules, "exec", outward=True, arguments=("command",))
    quiet = standings(rules, "list_dir", outward=False, arguments=("path",))

    assert [shell[role].rule for role in ("owner", "user")] == ["tools.ask_before", "tools.rules[0]"]
    assert quiet["user"] == Standing("allow", NO_RULE)


def test_an_allow_without_a_role_gives_members_nothing() -> None:
    """As when a call is judged."""
    rules = _rules({"tool": "exec", "action": "allow"})

    assert standings(rules, "exec", outward=True, arguments=("command",))["member"] == Standing("deny", FOR_MEMBERS)
