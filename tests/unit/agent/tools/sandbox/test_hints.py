"""One line on what the sandbox refused, where that can be told."""

import pytest

from nanobot.agent.tools.sandbox.hints import View, hint
from nanobot.agent.tools.sandbox.policy import Network

HIDDEN = "/home/me/.nvm/versions/node/bin/node"


def said(output: str, *, network: Network = "on", own_tmp: bool = True) -> str:
    """Return the hint about an output, for a workspace /ws."""
    view = View(
        ("/ws", *(("/tmp", "/home/agent") if own_tmp else ())), ("/usr", "/bin", "/proc", "/dev"), network, own_tmp
    )
    return hint(output, view, elsewhere={"node": HIDDEN}.get)


@pytest.mark.parametrize(
    ("output", "part"),
    [
        ("cat: /home/me/.ssh/id: No such file or directory", "/home/me/.ssh/id is not visible in here"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/srv/a b'", "/srv/a is not visible"),
        ("touch: cannot touch '/usr/x': Read-only file system", "/usr/x can only be read; tools.sandbox.write"),
        ("bash: /etc/x: Permission denied", "tools.sandbox.read or write"),
        ("bash: line 1: node: command not found", f"node lies at {HIDDEN}, outside; tools.sandbox.read"),
        ("unshare: unshare failed: Operation not permitted", "no further sandbox"),
        ("MemoryError", "tools.sandbox.memory_mb"),
        ("bash: fork: retry: Resource temporarily unavailable", "tools.sandbox.processes"),
    ],
)
def test_a_refusal_names_its_rule(output: str, part: str) -> None:
    """What was refused, and the key that opens it."""
    assert part in said(f"before\n{output}\n")


def test_without_a_network_a_name_that_is_not_found_has_its_reason() -> None:
    """The model need not try it thrice."""
    failed = "curl: (6) Could not resolve host: example.org"

    assert "tools.sandbox.network: off" in said(failed, network="off")
    assert "those that tools.sandbox.network lists" in said(failed, network=("pypi.org",))
    assert said(failed) == ""


def test_landlock_points_to_the_place_for_temporary_files() -> None:
    """Where /tmp is out of reach, $TMPDIR is named."""
    assert "use $TMPDIR" in said("bash: /tmp/x: Permission denied", own_tmp=False)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "all is well",
        "cat: notes.md: No such file or directory",
        "cat: /ws/none: No such file or directory",
        "/bin/bash: line 1: nope: command not found",
        "ls: cannot access '/usr/share/none': No such file or directory",
        "cat: /proc/1/environ: Permission denied",
        "see http://example.org/a: Permission denied",
        "grep: a/b/c: Permission denied",
        "/usr/bin/bash: line 1: f.txt: Read-only file system",
        "/bin/sh: 1: cannot create f.txt: Permission denied",
    ],
)
def test_an_ordinary_failure_is_not_blamed_on_the_sandbox(output: str) -> None:
    """No hint where the sandbox has nothing to do with it."""
    assert said(output) == ""
