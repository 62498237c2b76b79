"""What the rules say of a tool before anything is called: by role, the rule that decides, and those for some calls.  Pure."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import get_args

from nanobot.agent.rules import Facts, Placed, concerns, deciding
from nanobot.agent.tools.rules import Action, Rule
from nanobot.bus.events import Role
from nanobot.messages import ToolCall
from nanobot.values import frozen

ROLES: tuple[Role, ...] = get_args(Role)
NO_RULE = "no rule"


@frozen
class ForSome:
    """A rule that decides when something more holds, which ``when`` says in words for people."""

    action: Action
    rule: str
    when: str


@frozen
class Standing:
    """What becomes of calls: ``rule`` decides, unless one of ``before`` does, in their order."""

    action: Action
    rule: str
    before: tuple[ForSome, ...] = ()


def standings(
    rules: Sequence[Placed], tool: str, *, outward: bool, arguments: Collection[str] | None
) -> Mapping[Role, Standing]:
    """Return what the rules say of calls of a tool, by role.

    Args:
        rules: as ``rules.placed`` returns them.
        tool: its name.
        outward: whether it can send something out.
        arguments: the names of its arguments; None where they are not known.
    """
    return {
        role: _standing(rules, tool, Facts(role=role, channel="", workspace=Path(), outward=outward), arguments)
        for role in ROLES
    }


def _standing(rules: Sequence[Placed], tool: str, facts: Facts, arguments: Collection[str] | None) -> Standing:
    about = [one for one in rules if concerns(_anywhere(one.rule), tool, facts)]
    always = [one for one in about if not _when(one.rule)]
    found = deciding(always, ToolCall("", tool, {}), {}, facts)
    before = about if found is None else about[: about.index(found)]
    return Standing(
        found.rule.action if found else "allow",
        found.place if found else NO_RULE,
        tuple(
            ForSome(one.rule.action, one.place, _when(one.rule))
            for one in before
            if arguments is None or set(one.rule.argument) <= set(arguments)
        ),
    )


def _anywhere(rule: Rule) -> Rule:
    """Return the rule without what is known only when a call comes."""
    return rule.model_copy(update={"channel": None, "untrusted": None, "secrets": None})


def _when(rule: Rule) -> str:
    """Return what else has to hold; empty for a rule that decides about every call."""
    return " and ".join(
        [
            *(f"{name} is like {' or '.join(globs)}" for name, globs in rule.argument.items()),
            *([f"it comes by {rule.channel}"] if rule.channel is not None else []),
            *_holds(rule.untrusted, "strangers' words"),
            *_holds(rule.secrets, "secrets"),
        ]
    )


def _holds(wanted: bool | None, what: str) -> list[str]:
    return [] if wanted is None else [f"the conversation holds {what if wanted else f'no {what}'}"]
