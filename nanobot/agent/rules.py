"""Rules about calls: the first one that is like the call decides.  Pure.

Patterns are globs, matched in time that is linear in the text.  An ``allow`` is read narrowly and everything else widely, so that
a call cannot be dressed up to be allowed:

- a command with shell operators, quotes or expansions is allowed only by a pattern that is that command, character by character
- a command that sets variables is allowed only by a rule that speaks of them: ``PATH`` and ``BASH_ENV`` make any command another
- a path counts as it is after ``..`` and the like are worked out, relative to the workspace inside it and absolute outside
- an address's scheme and host are matched apart from the rest, so ``*`` in a host cannot reach over its end
- an ``allow`` that names no role is for owners and users; members of a group get what a rule gives to them by name
"""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from nanobot.agent.gates import Allow, Ask, Deny, Verdict
from nanobot.agent.tools.rules import Rule
from nanobot.bus.events import Role
from nanobot.messages import ToolCall
from nanobot.values import frozen

READING = ("glob", "grep", "list_dir", "read_file", "read_result")
LOOKING_UP = ("web_fetch", "web_search")
MEMBERS_GET = (
    "members of a group can have files of the workspace read and things looked up, no more;"
    " an owner can allow more with tools.rules"
)
FOR_MEMBERS = "the default for members of groups"
_SHELL = re.compile(r"""[;&|<>$`"'\\(){}\[\]*?~#!^\n\r]""")


@frozen
class Placed:
    """A rule and where it stands, in words for people."""

    place: str
    rule: Rule


@frozen(kw_only=True)
class Facts:
    """What a rule may look at besides the call.

    ``untrusted`` names whose words the conversation holds besides those of owners and users, ``secrets`` what it holds of secrets.
    """

    role: Role
    channel: str
    workspace: Path
    outward: bool = False
    untrusted: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


def placed(rules: Iterable[Rule], *, ask_before: Iterable[str] = (), is_confined: bool = True) -> tuple[Placed, ...]:
    """Return the configured rules with those that follow them by default.

    Args:
        rules: as configured.
        ask_before: tools that were named there: short for a rule each.
        is_confined: whether file tools stay inside the workspace by themselves.
    """
    members = [
        *([] if is_confined else [_rule("member", READING, "deny", {"path": ("/*",)}, MEMBERS_GET)]),
        _rule("member", (*READING, *LOOKING_UP), "allow"),
        _rule("member", ("*",), "deny", why=MEMBERS_GET),
    ]
    return (
        *(Placed(f"tools.rules[{at}]", rule) for at, rule in enumerate(rules)),
        *(Placed("tools.ask_before", Rule(tool=(name,), action="ask")) for name in ask_before),
        *(Placed(FOR_MEMBERS, rule) for rule in members),
    )


def decide(rules: Sequence[Placed], call: ToolCall, arguments: Mapping[str, object], facts: Facts) -> Verdict:
    """Return what the first rule that is like the call says; without one, the call is allowed."""
    return verdict(deciding(rules, call, arguments, facts), call)


def verdict(found: Placed | None, call: ToolCall) -> Verdict:
    """Return what a rule says about a call that it is like."""
    if found is None:
        return Allow()
    match found.rule.action:
        case "allow":
            return Allow()
        case "ask":
            return Ask(f"May {call.name} run?", why=found.rule.why)
        case "deny":
            return Deny(found.rule.why or f"{found.place} does not let {call.name} run")


def deciding(rules: Sequence[Placed], call: ToolCall, arguments: Mapping[str, object], facts: Facts) -> Placed | None:
    """Return the first rule that is like the call."""
    return next((one for one in rules if is_like(one.rule, call, arguments, facts)), None)


def is_like(rule: Rule, call: ToolCall, arguments: Mapping[str, object], facts: Facts) -> bool:
    """Say whether every condition of the rule holds."""
    if rule.action == "allow" and "command" in rule.argument and arguments.get("env") and "env" not in rule.argument:
        return False
    return concerns(rule, call.name, facts) and all(
        name in arguments and _fits(name, globs, arguments[name], facts.workspace, narrowly=rule.action == "allow")
        for name, globs in rule.argument.items()
    )


def concerns(rule: Rule, tool: str, facts: Facts) -> bool:
    """Say whether a rule is about calls of this tool at all, whatever their arguments are."""
    if rule.action == "allow" and rule.role is None and facts.role == "member":
        return False
    names = (tool, "exec") if tool == "exec_input" and rule.action != "allow" else (tool,)  # a shell may be listening
    return (
        any(fnmatchcase(name, glob) for name in names for glob in rule.tool)
        and (rule.channel is None or fnmatchcase(facts.channel, rule.channel))
        and rule.role in (None, facts.role)
        and rule.outward in (None, facts.outward)
        and rule.untrusted in (None, bool(facts.untrusted))
        and rule.secrets in (None, bool(facts.secrets))
    )


def is_plain(command: str) -> bool:
    """Say whether a command is words and nothing else: no operators, quotes, expansions, second lines or blanks that are none.

    What Python takes for a blank and the shell does not (a no-break space) would make other words of it than we see.
    """
    return not _SHELL.search(command) and all(char in " \t" for char in command if char.isspace())


def normal_path(path: str, workspace: Path) -> str:
    """Return a path as rules see it: ``..`` worked out, relative to the workspace inside it, absolute outside.

    The path is the model's own, whatever it holds: it never raises, and a home that is nobody's is a name.
    """
    with contextlib.suppress(ValueError):  # a user's name that holds what no name can
        path = os.path.expanduser(path)
    whole = os.path.normpath(workspace / path)
    inside = os.path.relpath(whole, workspace)
    return whole if inside == ".." or inside.startswith("../") else inside


def _fits(name: str, globs: Iterable[str], value: object, workspace: Path, *, narrowly: bool) -> bool:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if name == "path":
        text = normal_path(text, workspace)
    elif name == "command":
        text = text.strip()
        if narrowly and not is_plain(text):
            return text in globs
    return any(_fits_address(text, glob) if "://" in glob else fnmatchcase(text, glob) for glob in globs)


def _fits_address(text: str, glob: str) -> bool:
    """Match scheme and host apart from what follows them."""
    text = text if "://" in text else f"https://{text}"
    scheme, _, rest = glob.partition("://")
    host, slash, path = rest.partition("/")
    try:
        parts = urlsplit(text)
        found = parts.hostname or ""
        if parts.port is not None:
            found += f":{parts.port}"
    except ValueError:
        return False
    wanted = path if slash else "*"
    after = text.partition("://")[2].partition("/")[2]
    return (
        "@" not in parts.netloc
        and fnmatchcase(parts.scheme.lower(), scheme.lower())
        and fnmatchcase(found, host.lower())
        and fnmatchcase(after, wanted)
    )


def _rule(
    role: Role, tools: tuple[str, ...], action: str, argument: dict[str, tuple[str, ...]] | None = None, why: str = ""
) -> Rule:
    return Rule.model_validate({"role": role, "tool": tools, "action": action, "argument": argument or {}, "why": why})
