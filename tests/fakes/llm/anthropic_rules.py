"""What the Messages API refuses, in the vendor's words.

Rules about one message alone are checked once for each distinct text; rules about the order always.
"""

import re
from itertools import pairwise

from tests.fakes.llm import anthropic_content
from tests.fakes.llm.anthropic_content import count_marks
from tests.fakes.llm.body import Body
from tests.fakes.llm.meter import tokens_of
from tests.fakes.llm.shapes import Object, Policy, Refused, arr, names, obj, objs, whole

_COUNT_FIELDS = names(
    "messages model cache_control output_config speed system thinking tool_choice tools user_profile_id workspace_id"
)
_FIELDS = _COUNT_FIELDS | names(
    "max_tokens container diagnostics inference_geo metadata service_tier stop_sequences stream temperature top_k top_p"
)
_TOOL_KEYS = names(
    "name description input_schema type cache_control strict defer_loading allowed_callers eager_input_streaming "
    "input_examples"
)
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
MAX_MARKS = 4


def check(body: Body, policy: Policy, *, version: str | None, counts_only: bool = False) -> None:
    """Accept the request or refuse it.

    Args:
        version: the ``anthropic-version`` header.
        counts_only: the request asks for a token count, which needs and takes fewer fields.

    Raises:
        Refused: with the vendor's text.
    """
    fields = body.fields
    if not version:
        raise Refused("anthropic-version: header is required")
    _check_fields(fields, policy, counts_only=counts_only)
    _check_tools(fields)
    _check_system(fields.get("system"))
    messages = _messages(fields)
    for index, (message, row) in enumerate(zip(messages, body.rows, strict=True)):
        key = hash(row)
        if key not in policy.known:
            anthropic_content.check_message(message, f"messages.{index}")
            policy.known.add(key)
    _check_roles(messages, policy)
    _check_tool_order(messages)
    _check_marks(body)
    _check_thinking(fields, messages, policy)
    if not counts_only:
        _check_window(body, policy)


def _check_fields(fields: Object, policy: Policy, *, counts_only: bool) -> None:
    required = ("model", "messages") if counts_only else ("model", "max_tokens", "messages")
    for name in required:
        if name not in fields:
            raise Refused(f"{name}: Field required")
    allowed = (_COUNT_FIELDS if counts_only else _FIELDS) | policy.lenient_fields
    for name in fields:
        if name not in allowed:
            raise Refused(f"{name}: Extra inputs are not permitted")
    if not isinstance(fields["model"], str) or not fields["model"]:
        raise Refused("model: String should have at least 1 character")
    room = fields.get("max_tokens", 1)
    if whole(room) is None:
        raise Refused("max_tokens: Input should be a valid integer")
    if (whole(room) or 0) < 1:
        raise Refused("max_tokens: Input should be greater than or equal to 1")
    stream, temperature = fields.get("stream", False), fields.get("temperature", 1)
    if not isinstance(stream, bool):
        raise Refused("stream: Input should be a valid boolean")
    if not isinstance(temperature, int | float) or not 0 <= temperature <= 1:
        raise Refused("temperature: Input should be less than or equal to 1")
    for name in obj(fields.get("metadata")) or {}:
        if name != "user_id":
            raise Refused(f"metadata.{name}: Extra inputs are not permitted")


def _check_tools(fields: Object) -> None:
    tools = fields.get("tools")
    rows = arr(tools)
    if tools is not None and rows is None:
        raise Refused("tools: Input should be a valid list")
    names = [_check_tool(obj(tool) or {}, f"tools.{index}.custom") for index, tool in enumerate(rows or [])]
    if len(set(names)) < len(names):
        raise Refused("tools: Tool names must be unique.")
    choice = obj(fields.get("tool_choice"))
    if fields.get("tool_choice") is None:
        return
    if not names:
        raise Refused("tool_choice: tool_choice may only be specified while providing tools")
    kind = (choice or {}).get("type")
    if choice is None or kind not in ("auto", "any", "tool", "none"):
        raise Refused(
            "tool_choice: Input tag found does not match any of the expected tags: 'auto', 'any', 'tool', 'none'"
        )
    if kind == "tool" and choice.get("name") not in names:
        raise Refused(f"tool_choice.name: Tool '{choice.get('name')}' not found in provided tools")
    allowed = (
        {"type"}
        if kind == "none"
        else {"type", "disable_parallel_tool_use", *({"name"} if kind == "tool" else set[str]())}
    )
    for name in set(choice) - allowed:
        raise Refused(f"tool_choice.{kind}.{name}: Extra inputs are not permitted")


def _check_tool(tool: Object, path: str) -> str:
    for name in tool:
        if name not in _TOOL_KEYS:
            raise Refused(f"{path}.{name}: Extra inputs are not permitted")
    name, schema = tool.get("name"), obj(tool.get("input_schema"))
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        raise Refused(f"{path}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    if schema is None:
        raise Refused(f"{path}.input_schema: Field required")
    if schema.get("type") != "object":
        raise Refused(f"{path}.input_schema.type: Input should be 'object'")
    if not isinstance(tool.get("description", ""), str):
        raise Refused(f"{path}.description: Input should be a valid string")
    return name


def _check_system(system: object) -> None:
    if system is None or isinstance(system, str):
        return
    blocks = arr(system)
    if blocks is None:
        raise Refused("system: Input should be a valid list")
    for index, block in enumerate(blocks):
        anthropic_content.check_block(obj(block) or {}, f"system.{index}", ("text",))


def _messages(fields: Object) -> list[Object]:
    rows = arr(fields["messages"])
    if rows is None:
        raise Refused("messages: Input should be a valid list")
    if not rows:
        raise Refused("messages: at least one message is required")
    messages = objs(rows)
    if len(messages) < len(rows):
        raise Refused("messages: Input should be a valid dictionary or object to extract fields from")
    return messages


def _check_roles(messages: list[Object], policy: Policy) -> None:
    if messages[0]["role"] != "user":
        raise Refused('messages: first message must use the "user" role')
    for before, after in pairwise(messages):
        if policy.strict_roles and before["role"] == after["role"]:
            role = before["role"]
            raise Refused(
                'messages: roles must alternate between "user" and "assistant", '
                f'but found multiple "{role}" roles in a row'
            )
    if messages[-1]["role"] == "assistant":
        if _ends_blank(messages[-1]):
            raise Refused("messages: final assistant content cannot end with trailing whitespace")
        text = "This model does not support assistant message prefill. The conversation must end with a user message."
        raise Refused(text)


def _ends_blank(message: Object) -> bool:
    content = message["content"]
    blocks = objs(content)
    text = content if isinstance(content, str) else blocks[-1].get("text") if blocks else ""
    return isinstance(text, str) and text != text.rstrip()


def _check_tool_order(messages: list[Object]) -> None:
    """Each call is answered exactly once, in the next message, before anything else there (there is one: roles were checked)."""
    used: set[str] = set()
    waiting: list[str] = []
    for index, message in enumerate(messages):
        blocks = objs(message["content"])
        _check_results(blocks, index, waiting)
        waiting = []
        for at, block in enumerate(blocks):
            if block.get("type") != "tool_use":
                continue
            call_id = str(block["id"])
            if call_id in used:
                raise Refused(f"messages.{index}.content.{at}: `tool_use` ids must be unique")
            used.add(call_id)
            waiting.append(call_id)


def _check_results(blocks: list[Object], index: int, waiting: list[str]) -> None:
    open_calls = list(waiting)
    is_past_results = False
    for at, block in enumerate(blocks):
        if block.get("type") != "tool_result":
            is_past_results = True
            continue
        call_id = str(block["tool_use_id"])
        if call_id not in waiting:
            raise Refused(
                f"messages.{index}.content.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if call_id not in open_calls:
            raise Refused(
                f"messages.{index}.content.{at}: each tool_use must have a single result. "
                f"Found multiple `tool_result` blocks with id: {call_id}"
            )
        if is_past_results:
            raise _unanswered([call_id], index - 1)
        open_calls.remove(call_id)
    if open_calls:
        raise _unanswered(open_calls, index - 1)


def _unanswered(waiting: list[str], index: int) -> Refused:
    return Refused(
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(waiting)}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _check_marks(body: Body) -> None:
    if not any(element.marked for element in body.elements) and "cache_control" not in body.fields:
        return
    fields = body.fields
    found = count_marks(fields.get("tools")) + count_marks(fields.get("system"))
    found += sum(count_marks(message.get("content")) for message in objs(fields.get("messages")))
    found += fields.get("cache_control") is not None
    if found > MAX_MARKS:
        raise Refused(f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {found}.")


def _check_thinking(fields: Object, messages: list[Object], policy: Policy) -> None:
    thinking = obj(fields.get("thinking"))
    if thinking is None:
        return
    kind = thinking.get("type")
    if kind not in ("enabled", "disabled", "adaptive"):
        raise Refused(
            "thinking: Input tag found does not match any of the expected tags: 'adaptive', 'disabled', 'enabled'"
        )
    if kind == "disabled":
        return
    if kind == "enabled":
        _check_budget(fields, whole(thinking.get("budget_tokens")))
    if (obj(fields.get("tool_choice")) or {}).get("type") in ("any", "tool"):
        raise Refused("Thinking may not be enabled when tool_choice forces tool use.")
    if fields.get("temperature", 1) != 1:
        raise Refused("`temperature` may only be set to 1 when thinking is enabled.")
    if policy.strict_thinking:
        _check_thinking_kept(messages)


def _check_budget(fields: Object, budget: int | None) -> None:
    if budget is None:
        raise Refused("thinking.enabled.budget_tokens: Field required")
    if budget < 1024:
        raise Refused("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    if budget >= (whole(fields.get("max_tokens", budget + 1)) or 0):
        raise Refused("`max_tokens` must be greater than `thinking.budget_tokens`.")


def _check_thinking_kept(messages: list[Object]) -> None:
    """A tool call under way must begin with the thinking that led to it."""
    if len(messages) < 2 or not any(block.get("type") == "tool_result" for block in objs(messages[-1]["content"])):
        return
    blocks = objs(messages[-2]["content"])
    if blocks and blocks[0].get("type") not in ("thinking", "redacted_thinking"):
        raise Refused(
            f"messages.{len(messages) - 2}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
            f"`{blocks[0].get('type')}`. When `thinking` is enabled, a final `assistant` message must start with a thinking block."
        )


def _check_window(body: Body, policy: Policy) -> None:
    window = policy.window_tokens
    if window is None:
        return
    prompt = tokens_of(sum(element.size for element in body.elements))
    room = whole(body.fields.get("max_tokens")) or 0
    if prompt > window:
        raise Refused(f"prompt is too long: {prompt} tokens > {window} maximum")
    if prompt + room > window:
        text = f"input length and `max_tokens` exceed context limit: {prompt} + {room} > {window}"
        raise Refused(f"{text}, decrease input length or `max_tokens` and try again")
