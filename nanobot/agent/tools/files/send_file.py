"""Sending a file to the person: ``send_file``.

The tool sends nothing.  It keeps the file as it is now, and its result, once it is a line in the log, owes it to the Turn's chat;
the outbox delivers it with the answer.  A crash before that line means that nothing was promised and the call runs again; after it,
the file is neither lost nor sent twice.
"""

import os
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from nanobot.agent.media import keep
from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, Sends, ToolContext
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.threads import in_thread
from nanobot.bus.events import Media, size_text
from nanobot.errors import ToolError
from nanobot.messages import clean_text
from nanobot.session.entries import Effect

MAX_BYTES = 200_000_000  # where the chat itself sets no limit


class SendFileArguments(ToolArguments):
    path: str = Field(description="File to send, relative to the workspace")
    caption: str = Field(default="", description="Text under it (Markdown)")


class SendFile(BaseTool[SendFileArguments]):
    """Any file that the file tools may read."""

    name = "send_file"
    description = (
        "Send a file to the chat you are in: a picture as a photo, anything else as a document. It goes out as it is now, with "
        "your answer and before its text. Links and images in your answer's Markdown send nothing; this does."
    )
    arguments = SendFileArguments
    effect: Effect = "idempotent"  # the promise is the result's own line in the log
    summary_fields = ("path",)

    def __init__(self, rules: PathRules) -> None:
        self._rules = rules

    async def run(self, arguments: SendFileArguments, context: ToolContext) -> Sends:
        """Keep it and promise it."""
        media = await in_thread(self._keep, arguments, context)
        said = f"{arguments.path} ({size_text(media.size_bytes or 0)}) will be sent with your answer, before its text."
        return Sends(said, media)

    def _keep(self, arguments: SendFileArguments, context: ToolContext) -> Media:
        if context.media is None:
            raise ToolError("nothing can be sent from here: this run belongs to no conversation.")
        path, file = self._rules.open(arguments.path, context.workspace)
        limit = MAX_BYTES if context.max_file_bytes is None else context.max_file_bytes
        with file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                raise ToolError(f"{arguments.path!r} is empty; an empty file cannot be sent.")
            if size > limit:
                raise ToolError(
                    f"{arguments.path!r} has {size_text(size)}; at most {size_text(limit)} can be sent. "
                    "Make it smaller (compress it, or send a part), or say where it lies."
                )
            try:
                media = keep(file, clean_text(Path(arguments.path).name), context.media, max_bytes=limit)
            except OSError as error:
                raise ToolError(f"{arguments.path!r} cannot be kept for sending: {error.strerror or error}.") from None
        return replace(media, ref=str(path), caption=arguments.caption)
