"""The loop inside a Turn: model call, tool calls, model call, until there is an answer.

``AgentRunner`` knows no channel, no session file and no prompt files.  What happened goes out through the ``Checkpoint`` port as it
happens (answers before their tools run, each result when it lands); what is decided comes from ``decide``; what the model sees
comes from the ``Governor``.  A Turn that goes on after a restart is the same call with the Turn's messages so far in ``so_far``.
"""

from collections.abc import Sequence
from typing import Any, cast

from nanobot.agent.calls import CallRunner
from nanobot.agent.decide import (
    AskAgain,
    Finish,
    GiveUp,
    RefuseCalls,
    RunTools,
    Tally,
    decide,
    final_text,
    tally,
    with_tools,
)
from nanobot.agent.govern import CannotFit, Decided, Fitted, Governor, answer_room, prompt_budget
from nanobot.agent.meter import Gauge
from nanobot.agent.spec import AgentRunResult, AgentRunSpec
from nanobot.agent.tokens import estimate_fixed, estimate_tools
from nanobot.bus.runtime_events import Usage
from nanobot.errors import BadRequest, ContextOverflow, ProviderError
from nanobot.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    from_dict,
    images_of,
    user_text,
)
from nanobot.providers.base import LLMProvider, LLMRequest, LLMResponse, counted_tokens
from nanobot.session.entries import EntryId

_MOST_ROOM = 4  # times max_tokens that an answer may get after calls were cut off


class AgentRunner:
    """Runs Turns against one provider."""

    def __init__(self, provider: LLMProvider) -> None:
        self._provider = provider

    async def run(self, spec: AgentRunSpec) -> AgentRunResult:
        """Run until there is an answer or a reason to stop.  Provider errors end in the result, not as exceptions."""
        run = _Run(self._provider, spec)
        try:
            return await run.run_core()
        except (ProviderError, CannotFit) as error:
            return run.result("", "error", error=str(error))


class _Run:
    """One run's moving parts."""

    def __init__(self, provider: LLMProvider, spec: AgentRunSpec) -> None:
        self.provider = provider
        self.spec = spec
        self.initial = _as_messages(spec.initial_messages)
        self.steps: list[tuple[Message, str | None]] = list(spec.so_far)
        self.tally: Tally = tally(self.steps)
        self.usage = Usage()
        self.injected = False
        self.sent: list[Message] = []
        self.no_tools = False
        self.specs = spec.specs if spec.specs is not None else spec.tools.specs()
        self.governor = Governor(
            budget_tokens=prompt_budget(spec.context_window, spec.max_tokens),
            boundaries=spec.boundaries,
            gauge=Gauge(
                model=spec.model,
                ratios=spec.ratios,
                overhead=estimate_fixed(spec.system) + estimate_tools(self.specs),
                reported=spec.reported,
                estimate=spec.memo.estimate,
            ),
            memo=spec.memo,
        )
        self.calls = CallRunner(spec, self.said, lambda: self.sent)

    def said(self, message: Message, finish: str | None = None) -> None:
        """Take a logged message of the Turn into account."""
        self.steps.append((message, finish))
        self.tally = self.tally.after(message, finish)

    async def run_core(self) -> AgentRunResult:
        answer = self.last_answer()
        if answer is not None:  # resumed: the answer on disk is not asked for again
            done = await self.act(*answer, resumed=True)
            if done:
                return done
        while True:
            await self.take_steering()
            response, message = await self.ask()
            done = await self.act(message, response.finish)
            if done:
                return done

    async def act(self, message: AssistantMessage, finish: str, *, resumed: bool = False) -> AgentRunResult | None:
        decision = decide(message, finish, self.tally, max_iterations=self.spec.max_iterations)
        match decision:
            case RunTools(note=note):
                await self.calls.run(message, self.answered(message), self.spec.intents if resumed else {})
                if note:
                    self.add_runtime(note)
            case RefuseCalls(why=why):
                self.calls.refuse(message, self.answered(message), why)
            case AskAgain(text=text, tools=tools):
                self.no_tools = not tools
                self.add_runtime(text)
            case Finish(reason=reason):
                return self.result(final_text(self.steps), reason)
            case GiveUp(reason="refusal" as reason, text=text):
                self.calls.refuse(message, self.answered(message), text)
                return self.result(text, reason)
            case GiveUp(reason=reason, text=text):
                self.calls.refuse(message, self.answered(message), text)
                return self.result("", reason, error=with_tools(text, self.worked()))
        return None

    def last_answer(self) -> tuple[AssistantMessage, str] | None:
        """Return the newest answer of ``so_far`` if it was not acted upon to the end."""
        for index in range(len(self.steps) - 1, -1, -1):
            message, finish = self.steps[index]
            if isinstance(message, UserMessage):
                return None
            if isinstance(message, AssistantMessage):
                complete = message.tool_calls and not {call.id for call in message.tool_calls} - self.answered(message)
                return None if complete else (message, finish or "stop")
        return None

    def answered(self, message: AssistantMessage) -> set[str]:
        """Return the ids of this answer's calls that have results."""
        wanted = {call.id for call in message.tool_calls}
        return {m.call_id for m, _ in self.steps if isinstance(m, ToolMessage) and m.call_id in wanted}

    def worked(self) -> list[str]:
        return [message.name for message, _ in self.steps if isinstance(message, ToolMessage) and not message.is_error]

    async def take_steering(self) -> None:
        for message in await self.spec.steer():
            self.injected = True
            self.said(message)

    def add_runtime(self, text: str) -> None:
        message = user_text(text, origin="runtime", entry=self.spec.checkpoint.new_id())
        self.spec.checkpoint.runtime(message)
        self.said(message)

    async def ask(self) -> tuple[LLMResponse, AssistantMessage]:
        response = await self.respond()
        if response.usage:
            self.usage += response.usage
        entry = self.spec.checkpoint.new_id()
        message = as_message(response, entry)
        self.spec.checkpoint.answer(message, response)
        self.said(message, response.finish)
        return response, message

    async def respond(self) -> LLMResponse:
        """Ask the model; after "too long", or a refusal of images or of its own thinking, ask once more with a harder cut."""
        try:
            return await self.send()
        except (ContextOverflow, BadRequest) as error:
            # lazily: whoever maps a server's errors has loaded it
            from nanobot.providers.faults import refuses_extras, refuses_images

            if refuses_images(error) and self.leave_out_images():
                return await self.send()
            if refuses_extras(error) and self.leave_out_extras():
                return await self.send()
            if isinstance(error, ContextOverflow):
                return await self.send_less(error)
            if error.status not in (400, 422) or error.is_elsewhere:
                raise
            return await self.send_bare(error)

    async def send_less(self, error: ContextOverflow) -> LLMResponse:
        """Ask with a harder cut.  The window is learned for later Turns only if that was taken: a refusal alone proves nothing."""
        window = self.governor.harder(self.sent, error.limit_tokens, self.spec.max_tokens)
        try:
            response = await self.send()
        except CannotFit:
            raise error from None  # what the provider said says more
        self.spec.checkpoint.cut(
            Decided(f"window:{self.spec.model}", window, "the provider refused a longer request and took a shorter one")
        )
        return response

    async def send_bare(self, error: BadRequest) -> LLMResponse:
        """Ask without results and thinking: one of them may hold what the provider cannot take, and would so for ever.

        What was left out stays so only if that was taken; otherwise the fault lies elsewhere.
        """
        with self.governor.bare(self.everything()) as cuts:
            if not cuts:
                raise error
            try:
                response = await self.send()
            except (ProviderError, CannotFit):
                raise error from None
        for cut in cuts:
            self.spec.checkpoint.cut(cut)
        return response

    async def send(self) -> LLMResponse:
        fitted = await self.fitted()
        self.sent = fitted.messages
        for cut in fitted.cuts:
            self.spec.checkpoint.cut(cut)
        response = await self.provider.stream(self.request(tuple(fitted.messages), fitted.tokens), self.spec.emit)
        if response.usage:
            self.governor.learn(fitted.messages, response.usage.input_tokens)
        self.no_tools = False
        return response

    async def fitted(self) -> Fitted:
        """Return what fits; where it is close and exact counts are wanted, as the provider counts it."""
        fitted = self.governor.fit(self.everything())
        if not self.spec.exact_tokens or not self.governor.is_close(fitted):
            return fitted
        counted = await counted_tokens(self.provider, self.request(tuple(fitted.messages), fitted.tokens))
        if counted is None:
            return fitted
        self.governor.learn(fitted.messages, counted)
        again = self.governor.fit(self.everything())
        return Fitted(again.messages, again.tokens, (*fitted.cuts, *again.cuts))

    def request(self, messages: tuple[Message, ...], tokens: int) -> LLMRequest:
        spec = self.spec
        room = answer_room(spec.context_window, spec.max_tokens)
        more_room = min(room * min(2**self.tally.malformed, _MOST_ROOM), spec.context_window - tokens - room)
        forbidden = self.no_tools or self.tally.last_round
        return LLMRequest(
            model=spec.model,
            system=spec.system,
            messages=messages,
            tools=self.specs,
            max_tokens=max(room, more_room),
            tool_choice="none" if forbidden else "auto",
            temperature=spec.temperature,
            reasoning_effort=spec.reasoning_effort,
            cache_key=spec.context.session_key,
        )

    def everything(self) -> list[Message]:
        return [*self.initial, *(message for message, _ in self.steps)]

    def leave_out_images(self) -> bool:
        """Stop sending the images so far; False if there are none."""
        with_images = [message for message in self.everything() if images_of(message)]
        if not with_images:
            return False
        self.spec.checkpoint.cut(self.governor.leave_out_images(with_images[-1].entry))
        return True

    def leave_out_extras(self) -> bool:
        """Stop sending back what the vendor wanted back with its answers so far; False if there is nothing of it in the request."""
        with_extras = [m for m in self.sent if isinstance(m, AssistantMessage) and m.extra]
        if not with_extras:
            return False
        self.spec.checkpoint.cut(self.governor.leave_out_extras(with_extras[-1].entry))
        return True

    def result(self, content: str, stop_reason: str, *, error: str | None = None) -> AgentRunResult:
        messages = tuple(message for message, _ in self.steps)
        last = messages[-1] if messages else None
        whole = isinstance(last, AssistantMessage) and last.text == content and not last.tool_calls
        return AgentRunResult(
            final_content=content,
            stop_reason=stop_reason,
            messages=messages,
            answer=last.entry if whole and last else None,
            tools_used=tuple(m.name for m in messages if isinstance(m, ToolMessage)),
            usage=self.usage,
            iterations=self.tally.iterations,
            error=error,
            tool_events=tuple(self.calls.events),
            had_injections=self.injected,
        )


def as_message(response: LLMResponse, entry: EntryId) -> AssistantMessage:
    """Return the answer as a message of the log: its calls get ids of ours."""
    calls = (ToolCall(f"{entry}.{i}", call.name, call.arguments) for i, call in enumerate(response.tool_calls))
    return AssistantMessage(response.text, tuple(calls), extra=response.extra, entry=entry)


def _as_messages(given: Sequence[Message | dict[str, Any]]) -> Sequence[Message]:
    """Read dicts, where there are any; a long history of ours is not looked at one by one."""
    if dict in set(map(type, given)):
        return [from_dict(message) if isinstance(message, dict) else message for message in given]
    return cast("Sequence[Message]", given)
