"""The sandbox of commands: what works on this machine (``trying`` finds it out), and how a command line is wrapped into it.

``Sandbox.wrap`` is the one seam: it takes what would be run and returns what is to be run instead.  What works is tried, not
guessed: the first command of a workspace pays some tens of milliseconds for a trial, and the verdict is kept.

Where nothing works, ``state`` says so and why, and ``wrap`` changes nothing: whether a command may then run is a gate's business.
What worked once is not done without: a command that was let through because it is kept in never runs outside.
"""

import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nanobot.agent.tools.sandbox.settings import SandboxSettings
from nanobot.agent.tools.sandbox.state import State
from nanobot.agent.tools.shell.command import Launch
from nanobot.errors import ToolError

if TYPE_CHECKING:
    from nanobot.agent.tools.sandbox.policy import Network
    from nanobot.agent.tools.sandbox.ready import Ready

_TRY_AGAIN_S = 60.0


@dataclass(slots=True)
class Sandbox:
    """The sandbox, as configured.

    Args:
        settings: ``tools.sandbox``.
        data_dir: where homes of workspaces are kept; closed to commands otherwise.
        secret_files: the configuration; what else lies in its directory is kept closed with it.
        home: the daemon's user's home, whose keys are kept closed also when it is the workspace.
        path: the daemon's own search path, to tell where programs lie that commands do not see.
        now: a clock; where nothing works, that is tried again after a while: a full disk is not for ever.
        shared: a directory of received files; a command may read those that it names by their whole path, and sees no others.
    """

    settings: SandboxSettings
    data_dir: Path
    secret_files: Sequence[Path] = ()
    home: str | None = None
    shared: Path | None = None
    path: str | None = None
    now: Callable[[], float] = time.monotonic
    _tried: dict[str, float] = field(default_factory=dict[str, float])
    _worked: set[str] = field(default_factory=set[str])
    _ready: dict[str, "State | Ready"] = field(default_factory=dict[str, "State | Ready"])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def network(self) -> "Network":
        """What commands reach, as configured."""
        return self.settings.network

    @property
    def reaches_out(self) -> bool:
        """Whether what a command is given can leave this machine."""
        return self.settings.mode == "off" or self.settings.network != "off"

    @property
    def words(self) -> str:
        """What the model is told of it, from the settings alone: what works here may change, the prompt may not."""
        if self.settings.mode == "off":
            return ""
        network = (
            self.network if isinstance(self.network, str) else f"only {', '.join(self.network)}, through HTTPS_PROXY"
        )
        return (
            " Commands are sandboxed: they may change the workspace, ~ and /tmp (or $TMPDIR), read the system's directories, and "
            f"see nothing else. Network: {network}."
        )

    def hint(self, output: str, workspace: Path) -> str:
        """Return one line on what the sandbox may have refused a command that failed, or nothing.  Blocks as ``state``."""
        ready = self._get_ready(workspace)
        if isinstance(ready, State):
            return ""
        from nanobot.agent.tools.sandbox.hints import View, hint  # lazily: for calls

        view = View.of(ready.policy, is_landlock=ready.state.kind == "landlock")
        return hint(output, view, elsewhere=lambda name: shutil.which(name, path=self.path))

    def state(self, workspace: Path) -> State:
        """Return what keeps commands of this workspace in.  Blocks for a trial when it is asked first."""
        ready = self._get_ready(workspace)
        return ready if isinstance(ready, State) else ready.state

    def wrap(self, launch: Launch, workspace: Path) -> Launch:
        """Return what to start so that ``launch`` runs inside.  Blocks as ``state``.

        Raises:
            ToolError: what is opened was replaced by a link meanwhile, or the sandbox does not work any more.
        """
        ready = self._get_ready(workspace)
        if isinstance(ready, State):
            if ready.is_lost:
                raise ToolError(
                    f"the sandbox of commands worked before and does not now ({'; '.join(ready.why)}); nothing was run. "
                    "Commands run again as soon as it works; `nanobot doctor` says more."
                )
            return launch
        ready.must_be_unmoved()
        return ready.wrap(launch, ready.own(self._named(launch.argv[-1])))

    def _get_ready(self, workspace: Path) -> "State | Ready":
        if self.settings.mode == "off":
            return State("off")
        key = os.path.realpath(workspace)
        with self._lock:
            known = self._ready.get(key)
            if known is None or not self._stands(key, known):
                known = self._ready[key] = self._tried_now(key)
            return known

    def _stands(self, key: str, known: "State | Ready") -> bool:
        if isinstance(known, State):
            return not known.is_lost and self.now() - self._tried[key] < _TRY_AGAIN_S
        return known.is_whole()

    def _tried_now(self, key: str) -> "State | Ready":
        from nanobot.agent.tools.sandbox.trying import try_out  # lazily: for calls

        found = try_out(
            self.settings, Path(key), data_dir=self.data_dir, secret_files=self.secret_files, home=self.home
        )
        self._tried[key] = self.now()
        if isinstance(found, State):
            return replace(found, is_lost=key in self._worked)
        self._worked.add(key)
        return found

    def _named(self, command: str) -> list[str]:
        """Return the received files that a command line names: their names are secrets of who was told them."""
        if self.shared is None:
            return []
        return list(dict.fromkeys(re.findall(re.escape(f"{self.shared}/") + r"[0-9a-f]{64}(?:\.\w+)*", command)))
