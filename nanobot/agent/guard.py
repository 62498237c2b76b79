"""The rule against leaks: what could send something out of a conversation that holds both strangers' words and secrets.  Pure.

A model that reads a stranger's words may do what they say.  That costs a secret only when three things meet: such words, a secret,
and a call that reaches outside.  Where they meet, the call is not trusted, whatever it looks like.  What cannot carry anything is
left alone, so that the question stays rare:

- an address that an owner or user wrote themselves, as it stands
- a command of plain words whose program sends nothing and runs nobody's code
"""

from collections.abc import Mapping
from typing import Literal

from nanobot.agent.gates import Allow, Ask, Deny, Verdict
from nanobot.agent.rules import Facts, is_plain
from nanobot.messages import ToolCall

Outward = Literal["ask", "allow", "deny"]

# Not git, whose hooks and settings run programs, nor anything else that a file of the workspace can make run one.
_QUIET = frozenset(
    (
        *("basename", "cat", "cd", "chmod", "cksum", "clear", "cmp", "cp", "cut", "date", "df", "diff", "dirname"),
        *("du", "echo", "false", "file", "fold", "free", "grep", "head", "hostname", "id", "jq", "ls", "md5sum"),
        *("mkdir", "mv", "nl", "nproc", "od", "pgrep", "ps", "pwd", "readlink", "realpath", "rm", "rmdir"),
        *("sha256sum", "sleep", "sort", "stat", "tail", "touch", "tr", "tree", "true", "uname", "uniq", "uptime"),
        *("wc", "which", "who", "whoami"),
    )
)


def guard(setting: Outward, call: ToolCall, arguments: Mapping[str, object], facts: Facts, *, is_said: bool) -> Verdict:
    """Judge an outward call of a conversation; ``is_said``: its address was written by an owner or a user."""
    if setting == "allow" or not (facts.outward and facts.untrusted and facts.secrets):
        return Allow()
    if is_said or sends_nothing(call.name, arguments):
        return Allow()
    why = (
        f"this conversation holds words of others ({_some(facts.untrusted)}) and secrets ({_some(facts.secrets)}), "
        "and this call could send them out"
    )
    return Deny(why) if setting == "deny" else Ask(f"May {call.name} run?", why=why, is_guard=True)


def sends_nothing(tool: str, arguments: Mapping[str, object]) -> bool:
    """Say whether a call is a command that can neither send anything nor run code that it did not bring.

    Only of ``exec`` is it known what ``command`` is: other tools take arguments that mean nothing to them.
    """
    command = arguments.get("command") if tool == "exec" else None
    if not isinstance(command, str) or not is_plain(command) or arguments.get("env"):
        return False  # variables such as PATH, BASH_ENV and LD_PRELOAD make any program run another
    words = command.split()
    if words[:1] == ["sort"] and any(word.startswith("--c") for word in words):
        return False  # --compress-program, by any of its short forms
    return bool(words) and words[0] in _QUIET


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[-2:]) + more
