"""What all commands share: where the configuration is, and with which exit code they leave."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from nanobot.cli.streams import write_err
from nanobot.errors import ConfigError, MisuseError, NanobotError

FAILED = 1
MISUSED = 2
INTERRUPTED = 130


Config: TypeAlias = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Configuration file instead of ~/.nanobot/config.yaml.")
]


def exit_with(work: Callable[[], int]) -> None:
    """Leave with the work's exit code, or with the one its error stands for."""
    try:
        code = work()
    except (ConfigError, MisuseError) as error:
        write_err(f"nanobot: {error}\n")
        code = MISUSED
    except NanobotError as error:
        write_err(f"nanobot: {error}\n")
        code = FAILED
    except KeyboardInterrupt:
        code = INTERRUPTED
    raise typer.Exit(code)
