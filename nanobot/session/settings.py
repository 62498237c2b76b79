"""How session logs are kept: the ``session`` part of the config."""

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

SyncMode: TypeAlias = Literal["always", "turn", "off"]


class SessionSettings(BaseModel):
    """Settings of the session store.

    ``sync`` says what waits for the disk itself (fsync), which matters for power loss only: ``always`` every entry, ``turn`` the
    three barriers of a Turn (message in, before an effect, before the answer goes out), ``off`` nothing.  A killed
    process loses nothing in any mode.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sync: SyncMode = "turn"
    retry_s: float = Field(default=5.0, gt=0, le=5.0)  # how often a refusing disk is asked again
    close_timeout_s: float = Field(default=5.0, gt=0)  # how long a shutdown waits for the disk
    unsaved_max_bytes: int = Field(default=64 * 1024 * 1024, gt=0)  # kept in memory while the disk refuses
    result_days: float = Field(default=30.0, gt=0)  # how long full texts of cut results are kept
    result_max_bytes: int = Field(default=256 * 1024 * 1024, ge=0)  # of them in one session; the oldest go first
