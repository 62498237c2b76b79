"""exec: real commands, always ended."""

import asyncio
import contextlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from nanobot.agent.tools.base import Planned
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.settings import ExecSettings
from nanobot.agent.tools.shell.command import Launcher, Wanted, child_environment
from nanobot.agent.tools.shell.exec import Exec
from nanobot.agent.tools.shell.jobs import Jobs
from nanobot.errors import ToolError
from nanobot.supervisor import SCRIPT
from nanobot.supervisor.ring import read_ring
from tests.unit.agent.tools.conftest import Bench

SLEEP = f"sleep 600.{os.getpid():07}"  # no other test run's processes are taken for ours
JOBS = Jobs(Path("/nonexistent"))
EXEC = Exec(Launcher(PathRules(), child_environment(os.environ)), JOBS)


def processes(marker: str) -> list[str]:
    """Return the command lines of living processes that hold ``marker``."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                if marker in line:
                    found.append(line)
    return found


def zombies() -> int:
    """Return how many children of ours ended and were not reaped."""
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                count += fields[0] == "Z" and int(fields[1]) == os.getpid()
    return count


async def until(true: Callable[[], bool]) -> None:
    """Wait until something holds; fail after some seconds."""
    for _ in range(300):
        if true():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it never came true")


async def test_output_exit_status_and_duration_are_told(bench: Bench) -> None:
    """Both streams in their order, then how it ended."""
    text = await bench.text(EXEC, command="echo one; echo two >&2; exit 3")

    assert text.startswith("one\ntwo\n[exit 3 after 0.")


async def test_it_runs_in_the_workspace_without_input(bench: Bench) -> None:
    """A command that asks gets end of file, not a hang."""
    (bench.workspace / "d").mkdir()

    assert str(bench.workspace / "d") in await bench.text(EXEC, command="pwd; cat; read x; echo done", cwd="d")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("echo 'remove rm -rf note'", "remove rm -rf note"),
        ("cat > f <<EOF\nformat C: ; mkfs ; dd if=/dev/zero\nEOF\ncat f", "mkfs"),
        ("echo https://x.test/dev/sda > /dev/stderr", "x.test/dev/sda"),
        ("echo ZWNobyB3ZWxs | base64 -d | sh", "well"),
        ("echo shutdown reboot poweroff", "poweroff"),
        ("printf ':(){ :|:& };:'", ":(){"),
    ],
)
async def test_g07_no_command_is_refused_for_how_it_looks(bench: Bench, command: str, shown: str) -> None:
    """A list of patterns keeps nobody in and is in everybody's way: the sandbox is the wall."""
    assert shown in await bench.text(EXEC, command=command)


async def test_a_signal_is_named(bench: Bench) -> None:
    """A crash is no exit status."""
    assert "killed by SIGSEGV" in await bench.text(EXEC, command="kill -SEGV $$")


async def test_h01_twenty_timeouts_leave_no_zombie_and_no_descriptor(bench: Bench) -> None:
    """Processes and descriptors are back where they were."""
    await bench.text(EXEC, command="true")
    before = len(os.listdir("/proc/self/fd"))

    await asyncio.gather(*(bench.text(EXEC, command=SLEEP, timeout_s=0.05) for _ in range(20)))

    await until(lambda: len(os.listdir("/proc/self/fd")) <= before)
    assert zombies() == 0
    assert processes(SLEEP) == []


@pytest.mark.parametrize(
    "command",
    [
        f"bash -c '{SLEEP} & {SLEEP}'",
        f"setsid {SLEEP} & {SLEEP}",
        f"(setsid bash -c 'nohup {SLEEP} & {SLEEP}' &) ; {SLEEP}",
        f"trap '' TERM HUP; {SLEEP}; {SLEEP}",
    ],
)
async def test_h02_a_timeout_ends_the_whole_tree(bench: Bench, command: str) -> None:
    """Grandchildren, those that left the session, and those that ignore TERM."""
    text = await bench.text(EXEC, command=command, timeout_s=0.2)

    assert "timed out" in text
    assert processes(SLEEP) == []


async def test_h02_a_stop_ends_the_whole_tree(bench: Bench) -> None:
    """Cancelling the call leaves nothing running when it comes back."""
    task = asyncio.create_task(bench.call(EXEC, command=f"bash -c '{SLEEP} & {SLEEP}'"))
    await until(lambda: len(processes(SLEEP)) >= 3)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes(SLEEP) == []
    assert zombies() == 0


async def test_h04_endless_output_costs_bounded_memory_and_disk(bench: Bench) -> None:
    """Head and tail are kept, all of it is counted."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    registry, prepared = bench.prepare(EXEC, command="echo start; yes", timeout_s=0.6)
    context = bench.context()

    text = (await registry.execute(prepared, context)).text

    assert text.startswith("start\ny\n")
    assert "bytes of output left out here" in text
    assert text.endswith(f"killed with all its children, in {bench.workspace}]")
    assert len(text) < 270_000
    assert sum(file.stat().st_size for file in context.scratch.iterdir()) < 330_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # kB


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (r"printf '\xff\xfe\x00'", ""),
        ("head -c 1000 /dev/urandom", "binary"),
        (r"printf 'h\0i\0 \0t\0h\0e\0r\0e\0'", "hi there"),
        (r"printf 'caf\xe9 au lait'", "caf\xe9"),
        (r"printf '\033[31mred\033[0m'", "red\n"),
    ],
)
async def test_h05_any_output_becomes_clean_text(bench: Bench, command: str, shown: str) -> None:
    """Decoded or summarised, and always storable."""
    text = await bench.text(EXEC, command=command)

    assert shown in text
    assert "\0" not in text
    assert json.dumps(text).encode("ascii")
    assert text.encode("utf-8")


async def test_what_a_command_leaves_running_is_ended_with_it(bench: Bench) -> None:
    """Also what left its session and holds the pipe: the call returns at once, and says so."""
    start = time.monotonic()
    text = await bench.text(EXEC, command=f"{SLEEP} & setsid {SLEEP} & (trap '' TERM; {SLEEP}) & sleep 0.1; echo done")

    assert time.monotonic() - start < 5
    assert text.startswith("done\n[exit 0")
    assert "that it had left running were ended too" in text
    assert processes(SLEEP) == []


async def test_g05_no_secret_is_in_the_environment(bench: Bench, tmp_path: Path) -> None:
    """An allow-list decides, also against the operator; start-up files of a login shell are not read."""
    (tmp_path / ".bash_profile").write_text("export FROM_PROFILE=leak\n")
    (tmp_path / ".bashrc").write_text("export FROM_RC=leak\n")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "LC_TIME": "C",
        "ANTHROPIC_API_KEY": "leak",
        "MY_TOKEN": "leak",
        "LC_SECRET": "leak",
        "OTHER": "leak",
        "PASSED": "yes",
        "BASH_ENV": str(tmp_path / ".bashrc"),
    }
    tool = Exec(Launcher(PathRules(), child_environment(environ, ["PASSED", "MY_TOKEN"])), JOBS)

    text = await bench.text(tool, command="env; cat /proc/$PPID/environ")

    assert "leak" not in text
    assert "PASSED=yes" in text
    assert "TERM=dumb" in text
    assert "LC_TIME=C" in text


def test_g05_a_secret_cannot_be_configured_into_the_environment() -> None:
    """The start refuses it and says why."""
    with pytest.raises(ValidationError, match="OPENAI_API_KEY looks like a secret"):
        ExecSettings(env_pass=("OPENAI_API_KEY",))


@pytest.mark.parametrize(
    "command",
    [f"kill {os.getpid()}", f"kill -9 1 {os.getpid()}", "pkill -f nanobot", "systemctl --user restart nanobot"],
)
async def test_c35_what_plainly_kills_the_daemon_is_refused(bench: Bench, command: str) -> None:
    """With what to do instead."""
    assert "Ask the user to restart it" in await bench.error(EXEC, command=command)


async def test_c35_killing_the_parent_does_not_reach_us(bench: Bench) -> None:
    """The parent is the supervisor, which ignores TERM; killed hard, it takes the command along and the model is told."""
    assert "still here\n[exit 0" in await bench.text(EXEC, command="kill $PPID; echo still here")

    assert "outcome is unknown" in await bench.error(EXEC, command=f"{SLEEP} & kill -9 $PPID; {SLEEP}")
    await until(lambda: processes(SLEEP) == [])


async def test_a_command_that_ended_is_collected_after_a_restart(bench: Bench) -> None:
    """Its output and exit status are files; a probe needs nothing else."""
    registry, prepared = bench.prepare(EXEC, command="echo kept; exit 4")
    context = bench.context()
    planned = await registry.plan(prepared, context)
    text = (await registry.execute(prepared, context)).text

    probed = await registry.probe(prepared, context, planned)

    assert (probed.outcome, probed.text) == ("done", text)


async def test_a_command_without_a_record_is_unknown(bench: Bench) -> None:
    """Neither "done" nor "not done" is claimed; the model is told to look."""
    registry, prepared = bench.prepare(EXEC, command="true")
    context = bench.context()

    probed = await registry.probe(prepared, context, Planned())

    assert probed.outcome == "unknown"
    assert "Verify before repeating" in probed.text


async def test_a_stopped_command_is_unknown_with_its_output(bench: Bench) -> None:
    """What it said until then helps to find out."""
    registry, prepared = bench.prepare(EXEC, command=f"echo step one; {SLEEP}")
    context = bench.context()
    task = asyncio.create_task(registry.execute(prepared, context))
    await until(lambda: bool(processes(SLEEP)))
    await asyncio.sleep(0.05)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    probed = await registry.probe(prepared, context, Planned())

    assert probed.outcome == "unknown"
    assert "step one" in probed.text


async def test_a_foreground_command_dies_with_the_daemon(bench: Bench) -> None:
    """kill -9 of the daemon ends the command at once, and its supervisor records what it had said."""
    scratch = bench.root / "scratch"
    scratch.mkdir()
    job = {
        "argv": ["/bin/sh", "-c", f"echo step one; {SLEEP}"],
        "cwd": str(bench.workspace),
        "env": {"PATH": os.environ["PATH"]},
        "deadline": None,
        "input": "none",
    }
    daemon = (
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, '-I', '-S', {SCRIPT!r}, {str(scratch)!r}], stdin=subprocess.PIPE)\n"
        f"p.stdin.write({json.dumps(job).encode()!r} + b'\\n'); p.stdin.flush()\n"
        "time.sleep(60)\n"
    )
    script = bench.root / "daemon.py"
    script.write_text(daemon)
    process = await asyncio.create_subprocess_exec(sys.executable, str(script))
    await until(lambda: bool(processes(SLEEP)))
    await asyncio.sleep(0.05)
    process.kill()
    await process.wait()

    await until(lambda: (scratch / "status").exists())
    assert processes(SLEEP) == []
    assert json.loads((scratch / "status").read_text())["reason"] == "stopped"
    captured = read_ring(scratch / "output")
    assert captured is not None
    assert captured.head == b"step one\n"


async def test_what_cannot_start_says_why(bench: Bench) -> None:
    """A missing directory, a too long command, a NUL."""
    assert "is no directory" in await bench.error(EXEC, command="true", cwd="nope")
    assert "script file" in await bench.error(EXEC, command="echo " + "x" * 200_000)
    with pytest.raises(ToolError, match="600"):
        await bench.call(EXEC, command="true", timeout_s=601)


async def test_the_loop_runs_on_while_a_command_floods_us(bench: Bench) -> None:
    """Reading gigabytes is the supervisor's work, not the event loop's."""
    worst = 0.0

    async def tick() -> None:
        nonlocal worst
        while True:
            start = time.perf_counter()
            await asyncio.sleep(0.01)
            worst = max(worst, time.perf_counter() - start)

    ticker = asyncio.create_task(tick())
    try:
        await bench.text(EXEC, command="yes", timeout_s=0.5)
    finally:
        ticker.cancel()

    assert worst < 0.5


async def test_h04_the_supervisor_stays_small_too(bench: Bench) -> None:
    """Whatever flows through it, its own memory is bounded."""
    text = await bench.text(EXEC, command="yes | head -c 300000000; grep VmHWM /proc/$PPID/status")

    peak_kb = int(text.rpartition("VmHWM:")[2].split()[0])
    assert peak_kb < 40_000


async def test_a_torn_record_is_no_record(bench: Bench) -> None:
    """After a power loss the status may be there without its output: then the outcome is unknown."""
    registry, prepared = bench.prepare(EXEC, command="echo all of it")
    context = bench.context()
    await registry.execute(prepared, context)
    (context.scratch / "output").write_bytes(b"")

    assert (await registry.probe(prepared, context, Planned())).outcome == "unknown"


async def test_variables_of_a_call_reach_the_command_alone(bench: Bench) -> None:
    """They are set in front of the shell, so that what wraps a command never runs under them; a bad name is refused."""
    launcher = Launcher(PathRules(), child_environment(os.environ))

    launch = launcher.launch(Wanted("true", env={"LD_PRELOAD": "x.so"}), bench.context())

    assert "LD_PRELOAD" not in launch.env
    assert (await bench.text(EXEC, command="echo $GREETING", env={"GREETING": "a b;c"})).startswith("a b;c\n")
    assert "no name of a variable" in await bench.error(EXEC, command="true", env={"A B": "1"})
    assert "holds a NUL" in await bench.error(EXEC, command="true", env={"A": "x\0"})


async def test_g16_a_command_is_not_refused_for_an_address_in_it(bench: Bench) -> None:
    """No list of patterns pretends to be a wall: what a command may reach is decided where it connects."""
    text = await bench.text(EXEC, command="echo curl http://localhost:9867/health http://169.254.169.254/")

    assert "http://localhost:9867/health http://169.254.169.254/" in text
