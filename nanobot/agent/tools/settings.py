"""The tools' part of the configuration."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from nanobot.agent.tools.mcp.settings import McpSettings
from nanobot.agent.tools.rules import Rule
from nanobot.agent.tools.sandbox.settings import SandboxSettings
from nanobot.agent.tools.secret_paths import DEFAULT
from nanobot.agent.tools.shell.command import SECRET_NAME
from nanobot.agent.tools.web.settings import WebSettings

BUILTIN_TOOLS = (
    "apply_patch",
    "edit_file",
    "exec",
    "exec_input",
    "exec_kill",
    "exec_output",
    "exec_status",
    "glob",
    "grep",
    "list_dir",
    "read_file",
    "read_result",
    "send_file",
    "web_fetch",
    "web_search",
    "write_file",
)
"""What ``builtin.builtin_tools`` can give; here, so that names are checked without building any."""


class ExecSettings(BaseModel):
    """How ``exec`` behaves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(default=True, description="Offer the exec tool")
    timeout_s: float = Field(
        default=120, gt=0, le=600, description="Stop a command after this many seconds, unless the call says otherwise"
    )
    max_jobs: int = Field(
        default=8, ge=0, description="Most background jobs at once in one conversation; 0 allows none"
    )
    max_jobs_in_all: int = Field(default=32, ge=0, description="Most background jobs at once")
    env_pass: tuple[str, ...] = Field(
        default=(), description="Names of environment variables that commands get, beside PATH, HOME and the like"
    )

    @field_validator("env_pass")
    @classmethod
    def _no_secrets(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if secret := next((name for name in names if SECRET_NAME.search(name)), None):
            raise ValueError(
                f"{secret} looks like a secret; commands must not get it. Put it into a file that the command reads."
            )
        return names


class ToolSettings(BaseModel):
    """Which tools there are and what they may do."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    restrict_to_workspace: bool = Field(
        default=True, description="Keep file tools inside the workspace; commands have the sandbox"
    )
    exec: ExecSettings = ExecSettings()
    web: WebSettings = WebSettings()
    sandbox: SandboxSettings = SandboxSettings()
    limits: dict[str, Annotated[int, Field(ge=200)]] = Field(
        default_factory=dict[str, int], description="Most characters of a result that the model sees, by tool name"
    )
    disabled: tuple[str, ...] = Field(default=(), description="Names of tools not to offer")
    outward: Literal["ask", "allow", "deny"] = Field(
        default="ask",
        description="What may send something out while the conversation holds strangers' words and secrets",
    )
    secret_paths: tuple[str, ...] = Field(
        default=DEFAULT, description="Globs for names of files that hold secrets; !GLOB makes an exception"
    )
    rules: tuple[Rule, ...] = Field(
        default=(), description="What calls may run: the first rule that is like a call decides"
    )
    ask_before: tuple[str, ...] = Field(default=(), description="Names of tools that run only when an owner allows it")
    approval_timeout_s: float = Field(default=600, gt=0, description="How long a call waits to be allowed")
    mcp: McpSettings = McpSettings()
