"""``nanobot gateway``: the daemon."""

from pathlib import Path
from typing import Literal


def start_gateway(config: Path | None, log_format: Literal["text", "json"] | None) -> int:
    """Run until ended; return the exit code."""
    from nanobot.config.environment import environment
    from nanobot.gateway.process import run_gateway

    return run_gateway(config, environ=environment(), log_format=log_format)
