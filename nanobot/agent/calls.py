"""Running the calls of one answer: looked up, judged, announced, run, cut to their budget, and logged as they land.

Concurrent tools run beside each other, the others one after the other in the order of the calls.  A call that changes the world
has its intent on disk before it starts; what it kept for a crash is removed once its result is written.  After a restart a call
without a result is run again, probed, or answered as unknown, as its tool's effect class says.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from nanobot.agent.budget import result_chars
from nanobot.agent.frames import framed, short_origin
from nanobot.agent.gates import Allow, Ask, Deny, review
from nanobot.agent.repair import INTERRUPTED
from nanobot.agent.repeats import unchanged
from nanobot.agent.spec import AgentRunSpec, ToolEvent
from nanobot.agent.tools.base import MAX_SHOWN, Planned, ToolContext, short_name
from nanobot.agent.tools.registry import Observation, PreparedCall
from nanobot.agent.tools.results import Fitted, fit
from nanobot.agent.tools.scratch import clear_scratch
from nanobot.bus.events import Media
from nanobot.bus.runtime_events import ToolFinished, ToolStarted
from nanobot.errors import ToolError
from nanobot.messages import AssistantMessage, ImagePart, Message, Part, TextPart, ToolCall, ToolMessage
from nanobot.session.entries import Intent

_TOKENS = 40  # per 100 characters of a limit, where tokens are counted


class CallRunner:
    """Runs calls for one run; ``said`` is told each logged result, ``sent`` gives the last request's messages."""

    def __init__(
        self, spec: AgentRunSpec, said: Callable[[Message], None], sent: Callable[[], Sequence[Message]]
    ) -> None:
        self._spec = spec
        self._said = said
        self._sent = sent
        self._round = 1  # calls of the answer whose calls are run
        self.events: list[ToolEvent] = []

    async def run(self, answer: AssistantMessage, answered: set[str], intents: Mapping[str, Intent]) -> None:
        """Run every call of ``answer`` that has no result yet; ``intents`` are those logged before a restart."""
        self._round = len(answer.tool_calls)
        waiting = [call for call in answer.tool_calls if call.id not in answered]
        for concurrent, group in groupby(waiting, key=self._is_concurrent):
            calls = list(group)
            if concurrent and len(calls) > 1:
                async with asyncio.TaskGroup() as tasks:
                    for call in calls:
                        tasks.create_task(self._one(call, intents.get(call.id)), name=f"tool {call.name} {call.id}")
            else:
                for call in calls:
                    await self._one(call, intents.get(call.id))

    def refuse(self, answer: AssistantMessage, answered: set[str], why: str) -> None:
        """Answer every call that has no result with ``why``; nothing runs."""
        for call in answer.tool_calls:
            if call.id not in answered:
                self._log(call, Observation(why, is_error=True, duration_ms=0.0), blob=None)

    def _is_concurrent(self, call: ToolCall) -> bool:
        tool = self._spec.tools.get(call.name)
        return tool is not None and tool.concurrent

    async def _one(self, call: ToolCall, intent: Intent | None) -> None:
        try:
            prepared = self._spec.tools.prepare_call(call)
        except ToolError as error:
            self._announce(call, short_name(call.name))
            self._log(call, Observation(str(error), is_error=True, duration_ms=0.0), blob=None)
            return
        look = self._spec.labels.look(prepared, self._spec.context.workspace)
        context = replace(
            self._spec.context,
            call_id=call.id,
            scratch=self._spec.context.scratch / call.id.replace(".", "_"),
            in_thread=look.in_thread,
        )
        self._announce(call, prepared.tool.summary(prepared.arguments))
        observation = await look.labelled(await self._observe(prepared, context, intent))
        await self._keep(call, prepared, observation)
        if prepared.tool.effect != "pure" and await self._spec.checkpoint.written():
            await asyncio.to_thread(clear_scratch, context.scratch)

    async def _observe(self, prepared: PreparedCall, context: ToolContext, intent: Intent | None) -> Observation:
        if intent is not None:
            recovered = await self._recover(prepared, context, intent)
            if recovered is not None:
                return recovered
        refused = await self._refused(prepared, context)
        if refused is not None:
            return Observation(f"Not allowed: {refused}.", is_error=True, duration_ms=0.0, ran=False)
        if prepared.tool.effect in ("verifiable", "opaque") and intent is None:
            try:
                planned = await self._spec.tools.plan(prepared, context)
            except ToolError as error:
                return Observation(str(error), is_error=True, duration_ms=0.0, ran=False)
            await self._spec.checkpoint.intent(prepared.call.id, prepared.tool.effect, planned)
        return await self._spec.tools.execute(prepared, context)

    async def _refused(self, prepared: PreparedCall, context: ToolContext) -> str | None:
        """Return why the call may not run, or None if it may: the gates say so, and a person where they want one asked."""
        match await review(self._spec.gates, prepared.call, prepared.arguments, context):
            case Allow():
                return None
            case Deny(why=why):
                return why.rstrip(".")
            case Ask() as ask:
                if self._spec.ask is None:
                    why = f"; {ask.why}" if ask.why else ""
                    return f"this needs a person's approval ({ask.question}{why}) and nobody can be asked here"
                return await self._spec.ask(prepared.call, prepared.arguments.model_dump(), ask)

    async def _recover(self, prepared: PreparedCall, context: ToolContext, intent: Intent) -> Observation | None:
        """Return what a call that may have run before a restart came to; None if it surely did not run."""
        planned = Planned(before=intent.before, after=intent.after)
        probed = await self._spec.tools.probe(prepared, context, planned)
        match probed.outcome:
            case "done":
                return Observation(probed.text, is_error=False, duration_ms=0.0)
            case "not_done":
                return None
            case "unknown":
                return Observation(probed.text or INTERRUPTED, is_error=True, duration_ms=0.0)

    async def _keep(self, call: ToolCall, prepared: PreparedCall, observation: Observation) -> None:
        """Cut the observation to its budget and log it; the full text of a cut one is kept."""
        blob = None
        if prepared.tool.keeps_result and self._fitted(call, observation, entry="e0").was_cut:
            blob = await self._spec.checkpoint.keep(observation.text)
        self._log(call, observation, blob=blob)

    def _fitted(self, call: ToolCall, observation: Observation, *, entry: str) -> Fitted:
        spec, tool = self._spec, self._spec.tools.get(call.name)
        limit = result_chars(
            spec.tools.max_chars(call.name),
            window=spec.context_window,
            calls=self._round,
            bounds_itself=tool is not None and not tool.keeps_result,
        )
        return fit(
            observation.text,
            max_chars=limit,
            cut=tool.cut if tool else "middle",
            entry=entry,
            counter=spec.counter,
            max_tokens=limit * _TOKENS // 100 if spec.counter else None,
        )

    def _log(self, call: ToolCall, observation: Observation, *, blob: str | None) -> None:
        spec = self._spec
        entry = spec.checkpoint.new_id()
        text = self._fitted(call, observation, entry=entry if blob else "").text
        text = framed(text, observation.origin)
        tool = spec.tools.get(call.name)
        shown = _shown(observation.images)
        if tool is not None and tool.says_unchanged and not observation.is_error and not shown:
            text = unchanged(call.name, text, self._sent()) or text
        message = ToolMessage(
            call.id,
            call.name,
            text,
            is_error=observation.is_error,
            entry=entry,
            origin=observation.origin,
            shown=shown,
        )
        spec.checkpoint.result(
            message,
            blob=blob,
            duration_ms=observation.duration_ms,
            media=observation.media,
            secret=observation.secret,
        )
        self._said(message)
        self.events.append(ToolEvent(call.id, call.name, observation.is_error, observation.duration_ms))
        spec.emit(
            ToolFinished(
                call_id=call.id,
                name=call.name,
                is_error=observation.is_error,
                duration_ms=observation.duration_ms,
                result_chars=len(observation.text),
            )
        )

    def _announce(self, call: ToolCall, summary: str) -> None:
        self._spec.emit(ToolStarted(call_id=call.id, name=call.name, summary=summary))


def _shown(images: Sequence[Media]) -> tuple[Part, ...]:
    """Return what of a result's pictures the model is to see; each lies on the disk before the entry that names it is written."""
    parts: list[Part] = [
        ImagePart(image.path, image.media_type, image.sha256, short_origin(image.name)) for image in images[:MAX_SHOWN]
    ]
    if (more := len(images) - MAX_SHOWN) > 0:
        parts.append(TextPart(f"[{more} more not shown: at most {MAX_SHOWN} images of one result are]"))
    return tuple(parts)
