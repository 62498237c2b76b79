"""Commands in the sandbox as a whole: listed hosts, limits, endings, received files."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nanobot.agent.bare import bare_context
from nanobot.agent.gates import Allow
from nanobot.agent.tools.sandbox.cgroups import make_groups
from nanobot.agent.tools.sandbox.policy import Limits
from nanobot.agent.tools.sandbox.settings import Mode, SandboxSettings
from nanobot.agent.tools.shell.command import Launch
from nanobot.agent.unsandboxed import AskUnsandboxed
from nanobot.errors import ToolError
from nanobot.messages import ToolCall
from tests.fakes.cell import CANARY, Cell, telling

KINDS: list[Mode] = ["bwrap", "landlock"]


def working(cell: Cell) -> Cell:
    """Return the cell if its kind of sandbox works here."""
    state = cell.sandbox.state(cell.workspace)
    if state.kind != cell.settings.mode:
        pytest.skip(state.text)
    return cell


def test_listed_hosts_are_reached_and_no_others(tmp_path: Path) -> None:
    """With a list, its hosts answer; everything else is refused by name of the rule, and there is no way around the proxy."""
    with (
        telling(("127.0.0.1", 0), family=socket.AF_INET) as listed,
        telling(("127.0.0.1", 0), family=socket.AF_INET) as other,
    ):
        allowed, refused = (f"127.0.0.1:{server.getsockname()[1]}" for server in (listed, other))
        cell = working(Cell(tmp_path, SandboxSettings(mode="bwrap", network=(allowed,))))
        good = cell.run(f"python3 -c 'import urllib.request as u; print(u.urlopen(\"http://{allowed}/\").read())'")
        bad = cell.run(
            f"python3 -c 'import urllib.request as u; print(u.urlopen(\"http://{refused}/\").read())'; "
            f"env -u http_proxy -u HTTP_PROXY python3 -c 'import urllib.request as u; print(u.urlopen(\"http://{allowed}/\").read())'"
        )

    assert CANARY in good.stdout
    assert CANARY not in bad.stdout
    assert f"nanobot sandbox: {refused} is not in tools.sandbox.network" in bad.stdout
    assert "Connection refused" in bad.stdout


def test_a_name_that_leads_home_is_refused(tmp_path: Path) -> None:
    """A listed name that resolves to this machine is no way to its services; the address itself has to be listed."""
    name = socket.gethostname()
    try:
        if not socket.gethostbyname(name).startswith("127."):
            pytest.skip("this machine's name does not lead to its loopback")
    except OSError:
        pytest.skip("this machine's name leads nowhere")
    with telling(("127.0.0.1", 0), family=socket.AF_INET) as server:
        cell = working(Cell(tmp_path, SandboxSettings(mode="bwrap", network=(name,))))
        done = cell.run(f"curl -sS http://{name}:{server.getsockname()[1]}/")

    assert CANARY not in done.stdout
    assert "this machine; list that address itself" in done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_limits_hold(kind: Mode, tmp_path: Path) -> None:
    """Memory, the size of a file and CPU time end where the settings say."""
    cell = working(Cell(tmp_path, SandboxSettings(mode=kind, memory_mb=256, file_mb=1, cpu_s=1)))

    memory = cell.run("python3 -c 'b = bytearray(400 << 20); print(len(b))'")
    size = cell.run("head -c 3000000 /dev/zero > big; echo $?; stat -c %s big")
    cpu = cell.run("while :; do :; done")

    assert "MemoryError" in memory.stdout
    assert size.stdout.splitlines()[-2:] == ["153", "1048576"]
    assert cpu.returncode in (128 + signal.SIGXCPU, -signal.SIGXCPU)


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_processes_is_limited(kind: Mode, tmp_path: Path) -> None:
    """A command that forks without end stops at its limit, also where nanobot is root."""
    cell = working(Cell(tmp_path, SandboxSettings(mode=kind, processes=24)))
    if os.getuid() == 0 and not make_groups(Limits(processes=24)):
        pytest.skip("root, and no cgroups that may be made here")

    done = cell.run(
        "python3 -c 'import os, time\nfor n in range(60):\n    if os.fork() == 0: time.sleep(9); os._exit(0)\n' "
        "2>&1 | tail -1; pkill -P $$ sleep; ls"
    )

    assert "BlockingIOError" in done.stdout or "Resource temporarily unavailable" in done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_may_end_in_order(kind: Mode, tmp_path: Path) -> None:
    """TERM to the command's group reaches the command, and it has the time to clean up."""
    cell = working(Cell(tmp_path, SandboxSettings(mode=kind)))
    launch = cell.sandbox.wrap(
        Launch(
            (
                "/bin/bash",
                "-c",
                "trap 'sleep 0.1; echo cleaned > up; exit 7' TERM; echo up; while :; do sleep 0.02; done",
            ),
            cell.workspace,
            {"PATH": os.environ["PATH"]},
        ),
        cell.workspace,
    )
    process = subprocess.Popen(
        launch.argv, env=dict(launch.env), cwd=launch.cwd, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    process.stdout.readline()

    os.killpg(process.pid, signal.SIGTERM)

    assert process.wait(10) == 7
    assert (cell.workspace / "up").read_text() == "cleaned\n"
    process.stdout.close()


def test_killing_bubblewrap_leaves_nothing(tmp_path: Path) -> None:
    """KILL to the group ends what left it inside, too."""
    cell = working(Cell(tmp_path, SandboxSettings(mode="bwrap", network=("example.org",))))
    marker = f"600.{os.getpid():07}1"
    launch = cell.sandbox.wrap(
        Launch(("/bin/bash", "-c", f"setsid nohup sleep {marker} & echo up; wait"), cell.workspace, dict(os.environ)),
        cell.workspace,
    )
    process = subprocess.Popen(
        launch.argv, env=dict(launch.env), cwd=launch.cwd, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    process.stdout.readline()

    os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
    process.stdout.read()  # ends when nobody is left who could write
    process.stdout.close()

    deadline = time.monotonic() + 3
    while (left := _with(marker)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []


def _with(marker: str) -> list[str]:
    """Return the command lines of processes that hold the marker."""
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in found if marker in line]


@pytest.mark.parametrize("kind", KINDS)
def test_received_files_are_open_to_who_names_them(kind: Mode, tmp_path: Path) -> None:
    """A command reads the received file that it names, can not change it, and sees no others."""
    cell = working(Cell(tmp_path, SandboxSettings(mode=kind)))
    mine, other = (cell.data / "media" / f"{digit * 64}.csv" for digit in "ab")
    mine.parent.mkdir()
    mine.write_text("mine\n")
    other.write_text(f"{CANARY}\n")

    done = cell.run(f"cat {mine}; echo x >> {mine}; ls {mine.parent}; cat {mine.parent}/b*")

    assert done.stdout.startswith("mine\n")
    assert CANARY not in done.stdout
    assert mine.read_text() == "mine\n"


async def test_the_first_command_pays_and_the_loop_does_not(tmp_path: Path) -> None:
    """What works is tried once, off the loop; building a sandbox tries nothing."""
    cell = Cell(tmp_path)
    assert not (cell.data / "sandbox" / "passwd").exists()

    states = await asyncio.gather(*(asyncio.to_thread(cell.sandbox.state, cell.workspace) for _ in range(4)))

    assert all(state is states[0] for state in states)


def test_insisting_on_what_does_not_work_is_said(tmp_path: Path) -> None:
    """A workspace that cannot be kept in has no sandbox, and the reason names what to change."""
    cell = Cell(tmp_path)
    cell.sandbox.secret_files = [cell.workspace / "config.yaml"]

    state = cell.sandbox.state(cell.workspace)

    assert state.kind == "none"
    assert "set `workspace` to a directory of its own" in state.text


@pytest.mark.parametrize("kind", KINDS)
def test_what_vanished_is_made_again(kind: Mode, tmp_path: Path) -> None:
    """A data directory that is cleared while the daemon runs costs no command."""
    cell = working(Cell(tmp_path, SandboxSettings(mode=kind)))
    shutil.rmtree(cell.data / "sandbox")

    assert cell.run("echo fine; touch ~/x").stdout == "fine\n"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_sandbox_that_is_lost_lets_no_command_out(kind: Mode, tmp_path: Path) -> None:
    """What a gate let through because it was kept in is refused when it no longer can be, and not asked for; it mends by itself."""
    cell = working(Cell(tmp_path, SandboxSettings(mode=kind)))
    shutil.rmtree(cell.data / "sandbox")
    (cell.data / "sandbox").write_text("no directory")  # as a disk that is full or read-only

    with pytest.raises(ToolError, match="worked before and does not now"):
        cell.run("echo out")
    verdict = await AskUnsandboxed(cell.sandbox).review(
        ToolCall("e1.0", "exec", {}), None, replace(bare_context(), workspace=cell.workspace)
    )
    (cell.data / "sandbox").unlink()

    assert verdict == Allow()
    assert cell.run("echo in").stdout == "in\n"


def test_what_does_not_work_is_tried_again_after_a_while(tmp_path: Path) -> None:
    """A disk that was full at the first command does not cost questions until the next start."""
    seconds = [0.0]
    cell = Cell(tmp_path)
    cell.sandbox.now = lambda: seconds[0]
    shutil.rmtree(cell.data / "sandbox")
    (cell.data / "sandbox").write_text("no directory")
    first = cell.sandbox.state(cell.workspace).kind
    (cell.data / "sandbox").unlink()
    soon = cell.sandbox.state(cell.workspace).kind
    seconds[0] = 61
    if (later := cell.sandbox.state(cell.workspace)).kind == "none":
        pytest.skip(later.text)

    assert (first, soon) == ("none", "none")


def test_a_list_of_hosts_takes_bubblewrap(tmp_path: Path) -> None:
    """Landlock cannot hold a list: nothing is reached then, and the state says so."""
    with telling(("127.0.0.1", 0), family=socket.AF_INET) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        cell = working(Cell(tmp_path, SandboxSettings(mode="landlock", network=(address,))))
        done = cell.run(f"curl -sS -m 3 http://{address}/")

    assert CANARY not in done.stdout
    assert "the network is off" in cell.sandbox.state(cell.workspace).text


def test_what_cannot_be_opened_is_said(tmp_path: Path) -> None:
    """A directory to write that is not there is named, instead of half a sandbox."""
    cell = Cell(tmp_path, SandboxSettings(write=(str(tmp_path / "none"),)))

    assert "tools.sandbox.write names" in cell.sandbox.state(cell.workspace).text
