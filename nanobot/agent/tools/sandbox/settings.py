"""The sandbox's part of the configuration: ``tools.sandbox``."""

import re
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

if TYPE_CHECKING:
    from nanobot.agent.tools.sandbox.policy import Network

Mode = Literal["auto", "bwrap", "landlock", "off"]

_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_.-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")


class SandboxSettings(BaseModel):
    """What a command may touch."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Mode = Field(
        default="auto",
        description="auto takes what works here and has a person asked before each command where nothing does; "
        "bwrap and landlock insist on one; off runs commands with your rights",
    )
    network: Literal["on", "off"] | tuple[str, ...] = Field(
        default="on", description="on, off, or a list of the hosts that commands reach"
    )
    read: tuple[str, ...] = Field(
        default=(), description="Directories and files that commands may read, beside the system's"
    )
    write: tuple[str, ...] = Field(default=(), description="Directories that commands may change, beside the workspace")
    memory_mb: Annotated[int, Field(ge=64)] | None = Field(default=4096, description="Memory of one command")
    processes: Annotated[int, Field(ge=8)] | None = Field(
        default=512, description="Processes and threads of one command"
    )
    file_mb: Annotated[int, Field(ge=1)] | None = Field(
        default=8192, description="Size of a file that a command writes"
    )
    cpu_s: Annotated[int, Field(ge=1)] | None = Field(default=None, description="CPU time of one process, in seconds")

    @field_validator("mode", "network", mode="before")
    @classmethod
    def _word(cls, value: object) -> object:
        """Take YAML's ``on`` and ``off``, which are booleans there, as the words they were meant to be."""
        return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value

    @field_validator("network")
    @classmethod
    def _hosts(cls, value: "Network") -> "Network":
        for host in () if isinstance(value, str) else value:
            if not _HOST.fullmatch(host):
                raise ValueError(f"{host!r} is no host; write example.org, *.example.org or example.org:8080")
        return value

    @field_validator("read", "write")
    @classmethod
    def _absolute(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        for path in paths:
            if not path.startswith(("/", "~/")) or "\0" in path:
                raise ValueError(f"{path!r} must begin with / or ~/")
            if path.rstrip("/") == "":
                raise ValueError(
                    "the whole machine cannot be opened here; tools.sandbox.mode: off runs without a sandbox"
                )
        return paths
