"""What can be configured of a Telegram channel.  Imports nothing of Telegram, so that reading a config stays quick."""

import re
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from nanobot.addresses import checked_url
from nanobot.channels.access import Access, GroupPolicy, checked_ids

TELEGRAM_URL = "https://api.telegram.org/bot"
MAX_UPLOAD_MB = 50  # and lets them send
_TOKEN = re.compile(r"[0-9]+:[A-Za-z0-9_-]+")
MAX_DOWNLOAD_MB = 20  # what Telegram lets bots fetch; a local Bot API server allows more


class TelegramSettings(BaseModel):
    """One bot."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["telegram"] = "telegram"
    enabled: bool = True
    token: SecretStr = Field(description="as BotFather gave it")
    allow_from: tuple[str, ...] = Field(
        default=(), description="numeric ids of people (or negative ones of groups) who may talk to it; empty: nobody"
    )
    owners: tuple[str, ...] = Field(
        default=(), description="ids with the owner's rights; the first of allow_from if empty"
    )
    pairing: bool = Field(default=False, description="give strangers a code that an owner may approve with /pair CODE")
    group_policy: GroupPolicy = Field(default="reply", description="which messages of a group are meant for it")
    listen: bool = Field(
        default=False, description="keep what is said in groups to others, as context for the next answer"
    )
    edits: Literal["ignore", "rerun"] = Field(default="ignore", description="what an edited message does")
    stream_drafts: bool = Field(default=True, description="show answers while they are written")
    edit_interval_s: float = Field(default=1.0, ge=0.0, description="least time between two edits of one draft")
    ring_after_s: float | None = Field(
        default=None, ge=0.0, description="send answers that took longer than this anew, so that the phone rings"
    )
    long_code_as_file: bool = Field(
        default=True, description="send a block of code that would fill more than three messages as a file"
    )
    link_previews: bool = Field(
        default=False, description="let Telegram fetch the addresses in answers to show a preview of them"
    )
    base_url: str = Field(default=TELEGRAM_URL, description="the Bot API's address, ending in /bot")
    poll_timeout_s: int = Field(default=30, ge=0, le=50)
    max_download_mb: int = Field(default=MAX_DOWNLOAD_MB, ge=0, le=2_000)
    max_upload_mb: int = Field(default=MAX_UPLOAD_MB, ge=1, le=2_000)
    max_connections: int = Field(default=16, ge=1, le=64)

    @field_validator("allow_from", "owners", mode="before")
    @classmethod
    def _ids(cls, value: object) -> object:
        return checked_ids(value)

    @field_validator("token")
    @classmethod
    def _is_token(cls, value: SecretStr) -> SecretStr:
        token = value.get_secret_value().strip()
        if not _TOKEN.fullmatch(token):  # it becomes part of every address
            raise ValueError(
                "a bot's token looks like 123456:ABC-DEF, of letters, digits, '-' and '_'; copy it anew from @BotFather"
            )
        return SecretStr(token)

    @field_validator("base_url")
    @classmethod
    def _ends_in_bot(cls, value: str) -> str:
        url = checked_url(value).rstrip("/")
        parts = urlsplit(url)
        if not parts.path.endswith("/bot") or parts.query or parts.fragment:
            raise ValueError("must be an http(s) address that ends in /bot, such as http://127.0.0.1:8081/bot")
        return url

    @property
    def file_url(self) -> str:
        """The address of files, derived from ``base_url``."""
        return f"{self.base_url.removesuffix('/bot')}/file/bot"

    @property
    def access(self) -> Access:
        """Who may come in, as configured."""
        return Access.of(allow_from=self.allow_from, owners=self.owners, group_policy=self.group_policy)
