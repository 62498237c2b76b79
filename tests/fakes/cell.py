"""A home as attackers like it: keys, a configuration, other people's things; and a workspace in it whose commands are kept in.

What is outside holds ``CANARY``, so that a look at a command's output tells whether it got out; ``outside`` tells whether it
changed anything.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from nanobot.agent.tools.sandbox.sandbox import Sandbox
from nanobot.agent.tools.sandbox.settings import SandboxSettings
from nanobot.agent.tools.shell.command import Launch, child_environment

CANARY = "canary-5f3a9c71"
WORK_S = 30.0


@dataclass
class Cell:
    """One home, one sandbox."""

    root: Path
    settings: SandboxSettings = field(default_factory=SandboxSettings)
    environ: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.home = self.root / "home"
        self.nanobot = self.home / ".nanobot"
        self.data = self.nanobot / "data"
        self.config = self.nanobot / "config.yaml"
        self.workspace = self.nanobot / "workspace"
        self.other = self.nanobot / "other-workspace"
        self.workspace.mkdir(parents=True)
        self.secrets = [
            self.config,
            self.nanobot / "nanobot.env",
            self.home / ".ssh" / "id_ed25519",
            self.home / ".bashrc",
            self.other / "diary.txt",
            self.data / "sessions" / "telegram_1.jsonl",
            self.data / "blobs" / "0f" / "result",
            self.data / "sandbox" / "0123456789abcdef" / "tmp" / "draft",
        ]
        for path in self.secrets:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{CANARY} {path.name}\n")
        self.sandbox = Sandbox(
            self.settings,
            data_dir=self.data,
            secret_files=[self.config],
            home=str(self.home),
            shared=self.data / "media",
        )

    def run(self, command: str, *, stdin: int = subprocess.DEVNULL) -> "subprocess.CompletedProcess[str]":
        """Run a command of the workspace; stdout holds both streams."""
        environ = {
            **os.environ,
            "HOME": str(self.home),
            "OPENAI_API_KEY": CANARY,
            "GITHUB_TOKEN": CANARY,
            **self.environ,
        }
        shell = ("/bin/bash", "--noprofile", "--norc", "-c", command)
        launch = self.sandbox.wrap(Launch(shell, self.workspace, child_environment(environ)), self.workspace)
        return subprocess.run(
            launch.argv,
            env=dict(launch.env),
            cwd=launch.cwd,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=WORK_S,
            check=False,
        )

    def outside(self) -> dict[str, tuple[int, bytes]]:
        """Return mode and content of every file outside the workspace, without the workspace's own home and /tmp."""
        own = self.sandbox_home.parent
        found: dict[str, tuple[int, bytes]] = {}
        for path in sorted(self.root.rglob("*")):
            if path.is_file() and not path.is_relative_to(self.workspace) and not path.is_relative_to(own):
                found[str(path)] = (path.stat().st_mode, path.read_bytes())
        return found

    @property
    def sandbox_home(self) -> Path:
        """The directory that is the commands' home."""
        known = self.data / "sandbox" / "0123456789abcdef"
        return next(path / "home" for path in (self.data / "sandbox").iterdir() if path.is_dir() and path != known)


@contextmanager
def victim(directory: Path) -> Generator[int]:
    """Run a process that holds the canary in its environment and memory; yield its number."""
    code = "import sys, time; secret = sys.argv[1]; print('up', flush=True); time.sleep(600)"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "argument"],
        env={**os.environ, "SECRET": CANARY},
        cwd=directory,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process.pid
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


@contextmanager
def telling(address: str | tuple[str, int], *, family: int = socket.AF_UNIX) -> Generator[socket.socket]:
    """Serve the canary, over HTTP, to whoever connects to an address."""
    with socket.socket(family) as server:
        server.bind(address)
        server.listen()
        answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(CANARY)}\r\nConnection: close\r\n\r\n{CANARY}".encode()

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(2)
                    if family != socket.AF_UNIX:
                        connection.recv(65536)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
