"""The command line starts quickly and refuses clearly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("pydantic", "anthropic", "openai", "telegram", "rich", "prompt_toolkit", "yaml", "httpx2", "nanobot.app")


def run(*arguments: str, home: Path, stdin: bytes = b"", **environ: str) -> subprocess.CompletedProcess[bytes]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), **environ}
    return subprocess.run(
        [sys.executable, "-m", "nanobot", *arguments],
        input=stdin,
        capture_output=True,
        env=env,
        timeout=30,
        check=False,
    )


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    """--help is answered before settings, SDKs or terminal libraries are loaded."""
    code = f"import sys, nanobot.cli.app; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)

    assert done.stdout == "[]\n"


def test_help_names_the_commands(tmp_path: Path) -> None:
    """It is for people who have nothing yet, not even a configuration."""
    done = run("--help", home=tmp_path)

    assert done.returncode == 0
    assert b"agent" in done.stdout
    assert b"gateway" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("agnt",), b"No such command 'agnt'"),
        (("agent", "-m", "x", "--confg", "y"), b"No such option: --confg"),
        (
            ("agent", "-m", "x", "--config", "/none.yaml"),
            b"nanobot: /none.yaml: cannot be read: No such file or directory\n",
        ),
        (("agent",), b"nothing to ask"),
        (("agent", "-m", " "), b"nothing to ask"),
        (("agent", "-m", "x", "--session", ""), b"--session must name a conversation"),
        (("agent", "-m", "x", "--config", ""), b"no configuration file is named: --config wants a path"),
        (("agent", "-m", "x", "--session", "a\tb\x1b"), b"--session holds a control character: a\\tb\\x1b;"),
        (("sessions", "fork", "a", "--at", "1", "--as", "b\nc"), b"--as holds a control character: b\\nc;"),
        (("sessions", "export", "cli:none"), b"there is no session 'cli:none'"),
    ],
)
def test_bad_usage_exits_with_2_and_says_what_to_do(arguments: tuple[str, ...], said: bytes, tmp_path: Path) -> None:
    """Nothing on stdout, one sentence on stderr, no traceback."""
    done = run(*arguments, home=tmp_path)

    assert done.returncode == 2
    assert done.stdout == b""
    assert said in done.stderr
    assert b"Traceback" not in done.stderr


def test_f01_a_bad_config_exits_with_2(tmp_path: Path) -> None:
    """The default file is not skipped when it is wrong."""
    (tmp_path / ".nanobot").mkdir()
    (tmp_path / ".nanobot" / "config.yaml").write_text("agent:\n  max_iteration: 3\n")
    done = run("agent", "-m", "x", home=tmp_path)

    assert done.returncode == 2
    assert b"config.yaml:2: agent.max_iteration: unknown key; did you mean 'max_iterations'?" in done.stderr


def test_version_is_printed(tmp_path: Path) -> None:
    """A bug report can name it."""
    for spelled in ("version", "--version"):
        done = run(spelled, home=tmp_path)
        assert done.returncode == 0
        assert done.stdout.startswith(b"nanobot 0.")


@pytest.mark.parametrize("arguments", ["--help", "version", "doctor --no-ask", "agent -m hi"])
@pytest.mark.parametrize("to", [">/dev/full", ">&-"])
def test_an_unusable_output_is_one_sentence(arguments: str, to: str, tmp_path: Path) -> None:
    """A full disk or a closed descriptor behind stdout gives a sentence and exit code 1, no traceback."""
    if (arguments, to) == ("--help", ">&-"):
        pytest.skip("nobody reads it, and the library says nothing")
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -m nanobot {arguments} {to}', sys.executable],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert done.stderr.startswith(b"nanobot: standard output ")
    assert not (to == ">&-" and list(tmp_path.rglob("*.jsonl")))  # nothing was asked in vain
