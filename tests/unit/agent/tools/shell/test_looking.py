"""What a job said last is told with its end, whenever that comes."""

from pathlib import Path

from nanobot.agent.tools.shell.jobs import Job, JobNote, Jobs
from nanobot.agent.tools.shell.looking import new_output
from nanobot.agent.tools.shell.supervised import Ended
from nanobot.supervisor.ring import RingWriter


class EndsWhileLookedAt(Job):
    """A job that is found running, and after its output was read has said its last word and ended."""

    def __init__(self, directory: Path) -> None:
        super().__init__(JobNote("j1", "x", "/", terminal=False), directory)
        self._output = RingWriter(str(directory / "output"))
        self._output.add(b"Name: Ada\n")
        self._looks = 0

    @property
    def runs(self) -> bool:
        self._looks += 1
        if self._looks == 3:  # the first before it is read, the second while it is
            self._output.add(b"the last word\n")
            self.ended = Ended("exited", 0, None, 0, 0.4, 24)
        return self._looks < 3


async def test_a_job_that_ends_while_it_is_read_is_told_whole(tmp_path: Path) -> None:
    """Nobody hears "exit 0" without what was printed before it."""
    job = EndsWhileLookedAt(tmp_path)

    text = await new_output(Jobs(tmp_path), job, "e1.0")

    assert text.startswith("Name: Ada\nthe last word\n[j1 exit 0 ")
    assert job.told
