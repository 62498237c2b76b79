"""What both network adapters do around their wire: load images, keep encodings, load the SDK, answer an image refusal.

The SDKs are slow to import (up to two seconds), so they are loaded in a thread at the first request, or before it by ``warm``.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from nanobot.errors import ProviderError
from nanobot.messages import ImagePart, Message, UserMessage
from nanobot.providers.base import LLMRequest
from nanobot.providers.faults import refuses_images
from nanobot.providers.images import LoadedImage, blind, load_image

E = TypeVar("E")
S = TypeVar("S")


class Lazy(Generic[S]):
    """A value made once, in a thread, when it is first wanted."""

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._lock = asyncio.Lock()
        self._value: S | None = None

    async def get(self) -> S:
        """Return the value; make it if this is the first call."""
        if self._value is None:
            async with self._lock:
                if self._value is None:
                    self._value = await asyncio.to_thread(self._make)
        return self._value

    def take(self) -> S | None:
        """Return the value if there is one, and forget it."""
        value, self._value = self._value, None
        return value


async def kept_elements(
    messages: Sequence[Message],
    key_of: Callable[[Message], object],
    encode: Callable[[Message, dict[ImagePart, LoadedImage | str]], E],
    *,
    with_images: bool,
) -> list[E]:
    """Return each message's encoding, made now for those that have none under their key yet."""
    out: list[E] = []
    for message in messages:
        key = key_of(message)
        element: E | None = message.encoded.get(key)
        if element is None:
            images = await _images_of(message, with_images=with_images)
            element = message.encoded[key] = encode(message, images)
        out.append(element)
    return out


async def _images_of(message: Message, *, with_images: bool) -> dict[ImagePart, LoadedImage | str]:
    if not isinstance(message, UserMessage):
        return {}
    images: dict[ImagePart, LoadedImage | str] = {}
    for part in message.parts:
        if isinstance(part, ImagePart):
            images[part] = await asyncio.to_thread(load_image, part) if with_images else blind(part)
    return images


class BlindModels:
    """The models that turned out to refuse images: they get a text in their place from then on."""

    def __init__(self) -> None:
        self._models: set[str] = set()

    def __contains__(self, model: str) -> bool:
        return model in self._models

    def learn(self, error: ProviderError, request: LLMRequest) -> bool:
        """Take note of an error; say whether asking again without images may help."""
        has_images = any(
            isinstance(part, ImagePart)
            for message in request.messages
            if isinstance(message, UserMessage)
            for part in message.parts
        )
        if request.model in self._models or not has_images or not refuses_images(error):
            return False
        self._models.add(request.model)
        return True
