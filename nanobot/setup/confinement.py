"""Trying the sandbox of commands as the doctor does: with the installation's own places, where they are there already."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from nanobot.agent.tools.sandbox.sandbox import Sandbox
from nanobot.agent.tools.sandbox.state import State
from nanobot.config.settings import Settings


def try_sandbox(settings: Settings, config: Path | None, environ: Mapping[str, str]) -> State:
    """Return what would keep commands in.  Places that are not there yet are not made; others stand in for them."""
    with tempfile.TemporaryDirectory() as spare:
        data, workspace = (
            path if path.is_dir() else Path(tempfile.mkdtemp(dir=spare))
            for path in (settings.data_dir, settings.workspace)
        )
        sandbox = Sandbox(
            settings.tools.sandbox,
            data_dir=data,
            secret_files=[config] if config else [],
            home=environ.get("HOME"),
        )
        return sandbox.state(workspace)
