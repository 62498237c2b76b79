"""The agent's settings."""

from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, field_validator

from nanobot.providers.settings import RetrySettings


class CompactionSettings(BaseModel):
    """When and how older messages become a summary."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = True
    model: str | None = Field(default=None, description="<provider>/<model> for summaries; the agent's own when unset")
    trigger: float = Field(default=0.8, gt=0.1, lt=1.0, description="share of the budget at which a summary is begun")
    keep_tokens: int = Field(default=8_000, ge=500, description="newest messages that stay verbatim, in tokens")
    timeout_s: float = Field(default=120.0, gt=0)


class AgentSettings(BaseModel):
    """How Turns are run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | list[str] | None = Field(default=None, description="<provider>/<model>, or a list to fall back along")
    system_prompt: str = Field(default="", description="added to the built-in identity")
    max_iterations: int = Field(default=40, ge=1, le=1_000)
    max_tokens: int = Field(default=8_192, ge=16, description="room for one answer")
    context_window: int | None = Field(default=None, ge=2_000, description="overrides what is known of the model")
    temperature: float | None = None
    reasoning_effort: Literal["low", "medium", "high"] | None = None
    max_tool_result_chars: int = Field(default=16_000, ge=500)
    exact_tokens: bool = Field(
        default=False,
        description="count exactly where it matters: OpenAI models with the extra nanobot[tokens], Anthropic's by asking",
    )
    turn_timeout_s: float = Field(default=1_800.0, gt=0)
    fetch_timeout_s: float = Field(default=120.0, gt=0, description="how long a Turn waits for a file of a message")
    concurrency: int = Field(default=8, ge=1, description="Turns that run at once, over all sessions")
    busy: Literal["steer", "queue", "replace"] = "steer"
    join_within_s: float = Field(default=1.0, ge=0, description="messages sent this close together join one Turn")
    join_waited_s: float = Field(
        default=900.0, ge=0, description="messages that waited longer, as after downtime, join one Turn too"
    )
    timezone: str | None = Field(default=None, description="IANA name; the system's when unset")
    session_ttl_minutes: int | None = Field(default=None, ge=1, description="compact sessions idle for this long")
    retry: RetrySettings = RetrySettings()
    compaction: CompactionSettings = CompactionSettings()

    @field_validator("model")
    @classmethod
    def _names_one(cls, value: str | list[str] | None) -> str | list[str] | None:
        if value == []:
            raise ValueError("an empty list names no model: name one, or leave the key out")
        return value

    @field_validator("timezone")
    @classmethod
    def _is_a_zone(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                ZoneInfo(value)
            except (ZoneInfoNotFoundError, ValueError, OSError):
                raise ValueError("expected an IANA time zone such as Europe/Berlin") from None
        return value
