"""Files for people: a photo where Telegram can take it as one, a document otherwise.

What is sent is what was kept when it was promised; a file that was changed since is not.  What Telegram refuses in every form is
said in words, so that nobody waits for it.
"""

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path

from nanobot.bus.events import Media, size_text
from nanobot.channels.base import OutboundPart
from nanobot.channels.telegram.errors import ChatGone
from nanobot.channels.telegram.format import MAY_BE_REPEAT, Attachment, render
from nanobot.channels.telegram.outbox import Outbox
from nanobot.errors import SendRejected
from nanobot.pictures import inspect_image

PHOTO_MAX_BYTES = 10_000_000
PHOTO_MAX_SIDES = 10_000  # pixels, width and height together
PHOTO_MAX_RATIO = 20
_PHOTOS = frozenset({"image/jpeg", "image/png", "image/webp"})  # a GIF would stand still
_AT_ONCE = 4  # files that are held in memory


class Uploads:
    """The way of one channel's files into their chats."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def send(self, part: OutboundPart, media: Media) -> str:
        """Send a file with its caption; return the message's id.

        Raises:
            SendFailed: it may work later.
            SendRejected: it never will, and the chat was told so.
        """
        caption = render(part.text)
        notice = MAY_BE_REPEAT if part.may_be_repeat else ""
        try:
            async with self._room:
                file = await asyncio.to_thread(load, media)
                with_file = replace(caption, file=file)
                return await self._outbox.place(part.route, with_file, ref=None, notice=notice, first=not part.index)
        except ChatGone:
            raise
        except SendRejected as error:
            told = render(f"`{media.name}` could not be sent: {error}\n\n{part.text}")
            await self._outbox.place(part.route, told, ref=None, notice=notice, first=not part.index)
            raise


def load(media: Media) -> Attachment:
    """Return a kept file as it is to be sent.  Reads it: call it in a thread.

    Raises:
        SendRejected: it is gone, or not what was promised.
    """
    try:
        data = Path(media.path).read_bytes()
    except OSError as error:
        raise SendRejected(f"the kept copy cannot be read ({error.strerror or error})") from None
    if hashlib.sha256(data).hexdigest() != media.sha256:
        raise SendRejected(f"the kept copy was changed ({size_text(len(data))} now)")
    return Attachment(media.name, data, is_photo=is_photo(data))


def is_photo(data: bytes) -> bool:
    """Say whether Telegram takes these bytes as a photo."""
    media_type, size = inspect_image(data)
    if media_type not in _PHOTOS or size is None or len(data) > PHOTO_MAX_BYTES:
        return False
    return sum(size) <= PHOTO_MAX_SIDES and max(size) <= PHOTO_MAX_RATIO * min(size)
