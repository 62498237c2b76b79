"""Background jobs: started, read, fed, ended; and each session sees its own alone."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nanobot.agent.tools.base import Planned, ToolContext
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.shell.command import Launcher, child_environment
from nanobot.agent.tools.shell.exec import Exec
from nanobot.agent.tools.shell.job_tools import ExecInput, ExecKill, ExecOutput, ExecStatus
from nanobot.agent.tools.shell.jobs import Jobs, job_id
from tests.unit.agent.tools.conftest import Bench
from tests.unit.agent.tools.shell.test_exec import processes, until

SLEEP = f"sleep 700.{os.getpid():07}"


class Shell:
    """The five tools over one set of jobs."""

    def __init__(self, bench: Bench, jobs: Jobs) -> None:
        self.bench = bench
        self.jobs = jobs
        self.exec = Exec(Launcher(PathRules(), child_environment(os.environ)), jobs)
        self.status = ExecStatus(jobs)
        self.output = ExecOutput(jobs)
        self.input = ExecInput(jobs)
        self.kill = ExecKill(jobs)

    async def start(self, command: str, **arguments: Any) -> tuple[str, str]:
        """Start a job; return its id and what the model is told."""
        registry, prepared = self.bench.prepare(self.exec, command=command, background=True, **arguments)
        context = self.bench.context()
        observation = await registry.execute(prepared, context)
        assert not observation.is_error, observation.text
        return job_id(context.call_id), observation.text

    async def read(self, job: str, **arguments: Any) -> str:
        """Return what ``exec_output`` shows."""
        return await self.bench.text(self.output, job=job, **arguments)


@pytest.fixture
async def shell(bench: Bench) -> AsyncIterator[Shell]:
    """Tools and jobs that are ended."""
    jobs = Jobs(bench.root / "jobs", per_session=3, in_all=4)
    yield Shell(bench, jobs)
    await jobs.close()
    assert processes(SLEEP) == []


async def test_a_job_goes_on_after_its_call(shell: Shell) -> None:
    """The id comes at once; the status says what runs where; killing it leaves nothing."""
    job, text = await shell.start(f"echo up; setsid {SLEEP} & {SLEEP}")

    assert text.startswith(f"Started {job} in {shell.bench.workspace}.\nup\n[{job} runs for ")
    assert f"in {shell.bench.workspace} · echo up" in await shell.bench.text(shell.status)
    assert "ended by exec_kill" in await shell.bench.text(shell.kill, job=job)
    assert processes(SLEEP) == []
    assert "ended by exec_kill" in await shell.bench.text(shell.kill, job=job)


async def test_what_fails_at_once_is_told_at_once(shell: Shell) -> None:
    """No second call is needed to learn of a typing error."""
    _, text = await shell.start("no-such-program-here")

    assert "not found" in text
    assert "exit 127" in text


async def test_output_is_shown_once_and_again_on_demand(shell: Shell) -> None:
    """Each look shows what is new; ``since`` goes back; the same call, run again after a crash, shows the same again."""
    job, text = await shell.start("echo one; read x; echo two; read x; echo three")
    assert "one" in text
    assert await shell.read(job) != text
    assert "(no new output)" in await shell.read(job)
    await shell.bench.text(shell.input, job=job, text="")
    context = shell.bench.context()
    registry, prepared = shell.bench.prepare(shell.output, job=job)
    await shell.bench.text(shell.input, job=job, text="")

    first = (await registry.execute(prepared, context)).text
    again = (await registry.execute(prepared, context)).text
    whole = await shell.read(job, since=0)

    assert first == again
    assert whole.startswith("one\ntwo\nthree\n[")
    assert "exit 0" in whole


async def test_waiting_for_the_end_ends_with_it(shell: Shell) -> None:
    """Instead of asking again and again."""
    job, _ = await shell.start("sleep 0.7; echo done")

    text = await shell.read(job, wait_s=20)

    assert text.startswith("done\n")
    assert "exit 0" in text


async def test_h04_endless_output_of_a_job_is_bounded_and_counted(shell: Shell) -> None:
    """On disk as in what is shown; what is left out is said."""
    job, _ = await shell.start("yes")
    text = ""
    for _ in range(100):  # on a busy machine it takes a while to say that much
        if "bytes of output left out here" in (text := await shell.read(job, since=0, wait_s=0.1)):
            break

    assert "bytes of output left out here" in text
    assert len(text) < 300_000
    size = sum(file.stat().st_size for file in shell.jobs.place("cli:direct", job).iterdir())
    assert size < 340_000


@pytest.mark.parametrize("pty", [False, True])
async def test_a_question_is_seen_and_answered(shell: Shell, pty: bool) -> None:
    """By what the process does, not by what it printed."""
    job, text = await shell.start("read -p 'Name' name; echo hello $name", pty=pty)
    if "for input" not in text:  # on a busy machine it comes there later than the call ends
        text = await shell.read(job, wait_s=20)

    assert f"it waits for input: answer with exec_input('{job}', ...)" in text
    reply = await shell.bench.text(shell.input, job=job, text="Ada")
    assert "hello Ada" in reply
    assert "exit 0" in reply
    assert "is over and takes no input" in await shell.bench.error(shell.input, job=job, text="x")


async def test_a_foreground_question_becomes_a_job(shell: Shell) -> None:
    """A password prompt on a terminal neither hangs nor is lost: it can be answered; nothing of the answer is echoed."""
    command = "stty -echo; printf 'Password: '; read secret; stty echo; echo; echo got ${#secret}"
    text = await shell.bench.text(shell.exec, command=command, pty=True, timeout_s=20)

    job = text.partition("[")[2].split()[0]
    assert text.startswith("Password:")
    assert "waits for input" in text
    reply = await shell.bench.text(shell.input, job=job, text="hunter2")
    assert "got 7" in reply
    assert "hunter2" not in reply


async def test_a_prompt_of_a_program_that_polls_is_seen(shell: Shell) -> None:
    """A prompt-like line and a sleeping process are enough, and said less surely."""
    program = "import select, sys; print('>>> ', end='', flush=True); select.select([0], [], []); print(input())"
    text = await shell.bench.text(shell.exec, command=f'python3 -c "{program}"', pty=True, timeout_s=20)

    job = text.partition("[")[2].split()[0]
    assert "seems to wait for input" in text
    assert "42" in await shell.bench.text(shell.input, job=job, text="42")


async def test_a_terminal_is_one(shell: Shell) -> None:
    """With a size and a name, without a pager, and what it draws comes out as text."""
    command = (
        r"test -t 0 && test -t 1 && stty size; tty <&0; echo $TERM $PAGER; printf '\033[31mred\033[0m\r\n10%%\r99%%\n'"
    )
    text = await shell.bench.text(shell.exec, command=command, pty=True)

    assert text.startswith("40 120\n/dev/pts/")
    assert "xterm-256color cat\nred\n99%\n[exit 0" in text


async def test_end_of_input_and_control_c(shell: Shell) -> None:
    """Both ways to say that there is no more."""
    counting, _ = await shell.start("wc -c")
    asleep, _ = await shell.start("trap 'echo interrupted; exit 5' INT; while :; do sleep 0.1; done", pty=True)

    assert "4" in await shell.bench.text(shell.input, job=counting, text="abc", eof=True)
    await shell.bench.text(shell.input, job=asleep, text="\x03", enter=False)
    text = await shell.read(asleep, since=0, wait_s=10)
    assert "interrupted" in text
    assert "exit 5" in text


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (r"h\0i\0 \0t\0h\0e\0r\0e\0", "hi there"),
        (r"\xff\xfeh\0i\0", "hi"),
        (r"caf\xe9 au lait", "café au lait"),
        (r"\x7fELF\x01\x02\x80\x81\x00\x00\x01", "binary output"),
        (r"na\303\257ve", "naïve"),
    ],
)
async def test_h05_any_output_of_a_job_becomes_clean_text(shell: Shell, printed: str, shown: str) -> None:
    """As that of a foreground command."""
    job, _ = await shell.start(f"printf '{printed}'")

    text = await shell.read(job, since=0, wait_s=10)

    assert shown in text
    assert "\0" not in text
    assert json.dumps(text).encode("ascii")


async def test_another_session_sees_nothing(shell: Shell) -> None:
    """It can neither list, read, feed nor end the job, and is not told that it exists."""
    job, _ = await shell.start(SLEEP)
    stranger: ToolContext = replace(shell.bench.context(), session_key="telegram:666")

    for tool, arguments in ((shell.output, {}), (shell.input, {"text": "x"}), (shell.kill, {}), (shell.status, {})):
        registry, prepared = shell.bench.prepare(tool, job=job, **arguments)
        observation = await registry.execute(prepared, stranger)
        assert observation.is_error
        assert "this conversation has none" in observation.text
    registry, prepared = shell.bench.prepare(shell.status)
    assert "There are no background jobs" in (await registry.execute(prepared, stranger)).text
    assert shell.jobs.count == 1


async def test_there_is_a_bound_for_each_session_and_for_all(shell: Shell) -> None:
    """The error says what to do; a question then ends instead of becoming a job."""
    for _ in range(3):
        await shell.start(SLEEP)

    error = await shell.bench.error(shell.exec, command=SLEEP, background=True)
    assert "3 background jobs run already (j" in error
    assert "exec_kill" in error
    assert "run already" in await shell.bench.error(shell.exec, command="read x", pty=True)

    registry, prepared = shell.bench.prepare(shell.exec, command=SLEEP, background=True)
    other = [replace(shell.bench.context(), session_key="cli:other") for _ in range(2)]
    assert not (await registry.execute(prepared, other[0])).is_error
    assert "too many background jobs" in (await registry.execute(prepared, other[1])).text


async def test_the_end_of_a_job_is_told_once_in_a_turn(shell: Shell) -> None:
    """What runs is told each time; what is over once, unless it was seen."""
    job, _ = await shell.start("sleep 0.8")
    running = shell.jobs.news("cli:direct")
    await until(lambda: not shell.jobs.running("cli:direct"))
    await asyncio.sleep(0.05)

    assert running == f"{job} (sleep 0.8) runs for 1 s"
    assert f"{job} (sleep 0.8) is over: exit 0" in shell.jobs.news("cli:direct")
    assert shell.jobs.news("cli:direct") == ""


async def test_a_restart_ends_jobs_and_their_records_say_so(shell: Shell) -> None:
    """Another process over the same records: what a job said is there, and a call that had started it is known to have done so."""
    job, _ = await shell.start(f"echo working; {SLEEP}")
    await shell.jobs.close()
    after = Shell(shell.bench, Jobs(shell.bench.root / "jobs"))

    text = await after.read(job)
    registry, prepared = shell.bench.prepare(after.exec, command="echo working", background=True)
    context = replace(shell.bench.context(), call_id=f"e{job[1:]}.0")
    probed = await registry.probe(prepared, context, Planned())
    never = await registry.probe(prepared, shell.bench.context(), Planned())

    assert "ended with the restart of nanobot" in text
    assert "working" in await after.read(job, since=0)
    assert probed.outcome == "done"
    assert "ended with the restart of nanobot" in probed.text
    assert never.outcome == "not_done"
    assert "is over and takes no input" in await shell.bench.error(after.input, job=job, text="x")


async def test_records_do_not_pile_up(shell: Shell) -> None:
    """The newest ten of a session are kept."""
    for _ in range(12):
        job, _ = await shell.start("true")
        await shell.read(job, wait_s=10)

    records = list((shell.bench.root / "jobs").glob("*/j*"))
    assert len(records) == 10
    assert all(oct(record.stat().st_mode)[-3:] == "700" for record in records)


async def test_nothing_but_an_id_is_an_id(shell: Shell) -> None:
    """A path or a file name leads nowhere."""
    for name in ("../x", "", "j1/../..", str(Path.home())):
        assert "there is no job" in await shell.bench.error(shell.output, job=name)


async def test_a_terminal_s_last_words_are_kept(shell: Shell) -> None:
    """What a command on a terminal says last is kept, however much it said just before it ended."""
    command = "head -c 30000 /dev/zero | tr '\\0' x | fold -w 100; echo; echo THE-END"
    for _ in range(4):
        texts = await asyncio.gather(
            *(shell.bench.text(shell.exec, command=command, pty=True, timeout_s=20) for _ in range(8))
        )
        assert [text for text in texts if "THE-END" not in text] == []
