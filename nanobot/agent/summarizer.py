"""Asking a model for a summary: in parts that fit, within a time, and not believed unseen."""

import asyncio
from collections.abc import Sequence

from nanobot.agent import summary
from nanobot.agent.govern import prompt_budget
from nanobot.agent.models import Model
from nanobot.agent.tokens import estimate_fixed
from nanobot.bus.runtime_events import Usage
from nanobot.errors import ContextOverflow, NanobotError
from nanobot.messages import Message, user_text
from nanobot.providers.base import LLMRequest, LLMResponse


class Useless(NanobotError):
    """A summary that cannot be accepted; the text says why."""


async def summarize(doomed: Sequence[Message], model: Model, *, timeout_s: float, spent: list[Usage]) -> str:
    """Return a summary of the messages; ``spent`` gets what it cost, whatever comes of it.

    Args:
        doomed: what it shall stand for, a previous summary first.
        model: who writes it.
        timeout_s: how long each request may take.
        spent: is added to.

    Raises:
        Useless: what came was not accepted.
        TimeoutError: a request took too long.
        ProviderError: as the provider raises it.
    """
    # Long texts are read in a thread: the chat goes on meanwhile.
    required = await asyncio.to_thread(summary.identifiers, doomed)
    writer = _Writer(model, required, timeout_s, spent)
    room = int(prompt_budget(model.window, summary.SUMMARY_TOKENS) * 0.8) - estimate_fixed(summary.SYSTEM)
    room -= 2 * summary.SUMMARY_TOKENS if room > 4 * summary.SUMMARY_TOKENS else room // 2
    try:
        text = await writer.fold(doomed, room)
    except ContextOverflow:
        text = await writer.fold(doomed, room // 3)
    if (why := await asyncio.to_thread(summary.fault, text, doomed, required)) is not None:
        raise Useless(f"the summary was not accepted: {why}")
    return summary.mended(text, required)


class _Writer:
    def __init__(self, model: Model, required: Sequence[str], timeout_s: float, spent: list[Usage]) -> None:
        self._model = model
        self._required = required
        self._timeout_s = timeout_s
        self._spent = spent

    async def fold(self, doomed: Sequence[Message], room: int) -> str:
        """Summarize part by part; each request holds the summary so far and the next part."""
        text = ""
        for part in await asyncio.to_thread(summary.chunks, doomed, room_tokens=max(200, room)):
            names = [name for name in self._required if name in part or name in text]
            sections = [f"The summary so far:\n{text}" if text else "", f"The conversation:\n{part}"]
            if names:
                sections.append(f"Names and numbers to keep exactly: {', '.join(names)}")
            text = (await self._ask("\n\n".join(filter(None, sections)))).text.strip()
            text = text[: summary.SUMMARY_TOKENS * 5]
        return text

    async def _ask(self, prompt: str) -> LLMResponse:
        request = LLMRequest(
            model=self._model.model,
            system=summary.SYSTEM,
            messages=(user_text(prompt),),
            max_tokens=min(summary.SUMMARY_TOKENS, self._model.window // 4),
        )
        async with asyncio.timeout(self._timeout_s):
            response = await self._model.provider.stream(request, lambda event: None)
        if response.usage:
            self._spent.append(response.usage)
        return response
