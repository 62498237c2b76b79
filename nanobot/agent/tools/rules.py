"""The shape of a rule about calls, as the configuration holds it.

What a rule means is in ``nanobot.agent.rules``.  Patterns are globs: a regular expression over a text that the model chose could
hold the agent up for as long as the model likes.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from nanobot.bus.events import Role

Action = Literal["allow", "ask", "deny"]


def _several(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Globs = Annotated[tuple[str, ...], BeforeValidator(_several), Field(min_length=1)]


class Rule(BaseModel):
    """What to do with calls that are like this.  A condition that is not given holds for every call."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: Globs = Field(default=("*",), description="The tool's name, or a glob such as mcp_*, or several")
    argument: dict[str, Globs] = Field(
        default_factory=dict[str, Globs], description="By argument: a glob for its value, or several"
    )
    channel: str | None = Field(default=None, description="The channel's name, or a glob")
    role: Role | None = Field(
        default=None, description="Who asks: owner, user (named in allow_from) or member (of a group)"
    )
    outward: bool | None = Field(default=None, description="Whether the tool can send something out")
    untrusted: bool | None = Field(default=None, description="Whether the conversation holds words of strangers")
    secrets: bool | None = Field(default=None, description="Whether the conversation holds secrets")
    action: Action = Field(description="allow, ask (an owner) or deny")
    why: str = Field(default="", description="Told to the model and to whoever is asked")

    @model_validator(mode="after")
    def _no_regular_expressions(self) -> Self:
        """Refuse regular expressions by name: a pattern that looks like one would match nothing."""
        for glob in (glob for globs in self.argument.values() for glob in globs):
            if glob.startswith("/^") and glob.endswith("/"):
                raise ValueError(f"{glob!r} looks like a regular expression; rules take globs, such as 'git *'")
        return self
