"""``nanobot tools`` says from the configuration alone who may have what run."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.test_cli_help import run

CONFIG = """
tools:
  sandbox: {network: "off"}
  rules:
    - {tool: exec, argument: {command: "git push*"}, action: ask}
    - {tool: "mcp_*", role: user, action: deny}
  ask_before: [write_file]
  disabled: [glob]
  mcp:
    servers:
      things: {command: /no/such/program, effect: pure}
"""


def test_tools_are_listed_with_what_rules_say(tmp_path: Path) -> None:
    """For people: a line for roles to which the same applies, with the rule; nothing is started or written."""
    (tmp_path / "c.yaml").write_text(CONFIG)
    done = run("tools", "--config", str(tmp_path / "c.yaml"), home=tmp_path)
    said = done.stdout.decode()

    assert done.returncode == 0, done.stderr
    assert (
        "exec (opaque)\n"
        "  owner, user: ask if command is like git push* (tools.rules[0]); else allow\n"
        "  member: ask if command is like git push* (tools.rules[0]); else deny (the default for members of groups)\n"
    ) in said
    assert "write_file (verifiable)\n  owner, user, member: ask (tools.ask_before)\n" in said
    assert "mcp_things_* (pure, can send out, from MCP server things)\n  owner: allow\n  user: deny" in said
    assert "glob" not in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.yaml"]


def test_tools_are_listed_for_programs(tmp_path: Path) -> None:
    """One JSON object; without a configuration, what holds without one."""
    done = run("tools", "--json", home=tmp_path)
    found: dict[str, Any] = json.loads(done.stdout)
    tools: dict[str, Any] = {one["name"]: one for one in found["tools"]}

    assert found["outward"] == "ask"
    assert tools["web_fetch"]["outward"] is True
    assert tools["read_file"]["effect"] == "pure"
    assert tools["exec"]["roles"]["owner"] == {"action": "allow", "rule": "no rule", "before": []}
    assert tools["exec"]["roles"]["member"]["action"] == "deny"
