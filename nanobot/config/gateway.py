"""What a configuration says about the daemon."""

from pydantic import BaseModel, ConfigDict, Field


class GatewaySettings(BaseModel):
    """How ``nanobot gateway`` runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shutdown_grace_s: float = Field(
        default=20.0, ge=0, le=3_600, description="what running Turns get when it is stopped"
    )
    flush_s: float = Field(default=10.0, ge=0, le=600, description="what owed answers get after that")
    announce: tuple[str, ...] = Field(default=(), description="<channel>:<chat>s that are told of starts and ends")
    health_port: int | None = Field(default=None, ge=0, le=65_535, description="/healthz and /metrics on 127.0.0.1")
