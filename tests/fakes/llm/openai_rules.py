"""What Chat Completions refuses, in the vendor's words.

Rules about one message alone are checked once for each distinct text; rules about the order always.
"""

import re

from tests.fakes.llm import openai_content
from tests.fakes.llm.body import Body
from tests.fakes.llm.meter import tokens_of
from tests.fakes.llm.shapes import Object, Policy, Refused, arr, names, obj, objs, whole

_FIELDS = names(
    "messages model audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens "
    "max_tokens metadata modalities moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key "
    "prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed "
    "service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity "
    "web_search_options"
)
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check(body: Body, policy: Policy) -> None:
    """Accept the request or refuse it.

    Raises:
        Refused: with the vendor's text, param and code.
    """
    fields = body.fields
    _check_fields(fields, policy)
    _check_tools(fields, policy)
    messages = _messages(fields)
    for index, (message, row) in enumerate(zip(messages, body.rows, strict=True)):
        key = hash(row)
        if key not in policy.known:
            openai_content.check_message(message, f"messages[{index}]", policy.lenient_fields)
            policy.known.add(key)
    _check_order(messages)
    if policy.strict_roles:
        _check_alternation(messages)
    _check_window(body, policy)


def _check_fields(fields: Object, policy: Policy) -> None:
    for name in fields:
        if name not in _FIELDS and name not in policy.lenient_fields:
            raise Refused(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")
    if not isinstance(fields.get("model"), str) or not fields["model"]:
        raise Refused("you must provide a model parameter")
    for name in ("max_tokens", "max_completion_tokens"):
        value = fields.get(name)
        if value is not None and (whole(value) or 0) < 1:
            message = (
                f"Invalid '{name}': integer below minimum value. Expected a value >= 1, but got {value!r} instead."
            )
            raise Refused(message, param=name, code="integer_below_min_value")
    if fields.get("max_tokens") is not None and fields.get("max_completion_tokens") is not None:
        raise Refused(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.", param="max_tokens"
        )
    _check_stream(fields)
    _check_sampling(fields)


def _check_stream(fields: Object) -> None:
    stream, options = fields.get("stream"), fields.get("stream_options")
    if stream is not None and not isinstance(stream, bool):
        raise Refused("Invalid type for 'stream': expected a boolean.", param="stream", code="invalid_type")
    if options is None:
        return
    if not stream:
        raise Refused(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )
    for name in obj(options) or {}:
        if name not in ("include_usage", "include_obfuscation"):
            raise Refused(
                f"Unknown parameter: 'stream_options.{name}'.", param=f"stream_options.{name}", code="unknown_parameter"
            )


def _check_sampling(fields: Object) -> None:
    temperature = fields.get("temperature")
    if temperature is not None and not (isinstance(temperature, int | float) and 0 <= temperature <= 2):
        message = f"Invalid 'temperature': expected a decimal between 0 and 2, but got {temperature!r} instead."
        raise Refused(message, param="temperature", code="decimal_above_max_value")
    effort = fields.get("reasoning_effort")
    if effort is not None and effort not in _EFFORTS:
        supported = ", ".join(f"'{name}'" for name in _EFFORTS)
        message = f"Invalid value: {effort!r}. Supported values are: {supported}."
        raise Refused(message, param="reasoning_effort", code="invalid_value")


def _check_tools(fields: Object, policy: Policy) -> None:
    names = [_check_tool(tool, f"tools[{index}]", policy) for index, tool in enumerate(_tools(fields))]
    if len(set(names)) < len(names):
        raise Refused("Tool names must be unique.", param="tools", code="invalid_value")
    choice = fields.get("tool_choice")
    if choice is None:
        if not names and fields.get("parallel_tool_calls") is not None:
            message = "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified."
            raise Refused(message, param="parallel_tool_calls")
        return
    if not names:
        message = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
        raise Refused(message, param="tool_choice")
    named = (obj((obj(choice) or {}).get("function")) or {}).get("name")
    if choice not in ("none", "auto", "required") and named not in names:
        raise Refused(f"Invalid value for 'tool_choice': {choice!r}.", param="tool_choice", code="invalid_value")


def _tools(fields: Object) -> list[object]:
    tools = fields.get("tools")
    if tools is None:
        return []
    rows = arr(tools)
    if rows is None:
        raise Refused("Invalid type for 'tools': expected an array of objects.", param="tools", code="invalid_type")
    if not rows:
        message = (
            "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."
        )
        raise Refused(message, param="tools", code="empty_array")
    return rows


def _check_tool(tool: object, path: str, policy: Policy) -> str:
    row = obj(tool)
    function = obj(row.get("function")) if row else None
    if row is None or row.get("type") != "function" or function is None:
        raise Refused(f"Missing required parameter: '{path}.function'.", param=path, code="missing_required_parameter")
    openai_content.check_keys(row, path, frozenset({"type", "function"}) | policy.lenient_fields)
    openai_content.check_keys(function, f"{path}.function", frozenset({"name", "description", "parameters", "strict"}))
    name = function.get("name")
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        raise openai_content.bad_name(f"{path}.function.name")
    schema = function.get("parameters")
    kind = (obj(schema) or {}).get("type")
    if schema is not None and kind != "object":
        got = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."
        message = f"Invalid schema for function '{name}': {got}"
        raise Refused(message, param=f"{path}.function.parameters", code="invalid_function_parameters")
    return name


def _messages(fields: Object) -> list[Object]:
    rows = arr(fields.get("messages"))
    if rows is None:
        raise Refused("Missing required parameter: 'messages'.", param="messages", code="missing_required_parameter")
    if not rows:
        message = (
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."
        )
        raise Refused(message, param="messages", code="empty_array")
    messages = objs(rows)
    if len(messages) < len(rows):
        raise Refused(
            "Invalid type for 'messages': expected an array of objects.", param="messages", code="invalid_type"
        )
    return messages


def _check_order(messages: list[Object]) -> None:
    """Each call is answered exactly once, directly after it; the conversation ends with someone else than the model."""
    waiting: list[object] = []
    answered: set[object] = set()
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            call_id = message["tool_call_id"]
            if call_id in answered:
                raise Refused(
                    f"Duplicate value for 'tool_call_id' of {call_id}", param=f"messages.[{index}].tool_call_id"
                )
            if call_id not in waiting:
                text = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
                raise Refused(text, param=f"messages.[{index}].role")
            waiting.remove(call_id)
            answered.add(call_id)
            continue
        if waiting:
            raise _unanswered(waiting, index)
        waiting = [call["id"] for call in objs(message.get("tool_calls"))]
        answered = set()
    if waiting:
        raise _unanswered(waiting, len(messages))
    if messages[-1]["role"] == "assistant":
        text = "Cannot continue from a message with role 'assistant': the last message must have role 'user' or 'tool'."
        raise Refused(text, param=f"messages.[{len(messages) - 1}].role")


def _unanswered(waiting: list[object], index: int) -> Refused:
    text = (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(map(str, waiting))}"
    )
    return Refused(text, param=f"messages.[{index}].role")


def _check_alternation(messages: list[Object]) -> None:
    """What chat templates ask: system first or nowhere, then user and assistant in turns; calls and results are one turn."""
    turns: list[str] = []
    after_tool = False
    for index, message in enumerate(messages):
        role = str(message["role"])
        if role in ("system", "developer"):
            if index:
                raise _template("System role must be at the beginning.")
        elif role == "tool":
            after_tool = True
        else:
            if not (role == "assistant" and after_tool):
                turns.append(role)
            after_tool = False
    if any(role != ("user", "assistant")[at % 2] for at, role in enumerate(turns)):
        raise _template("Conversation roles must alternate user/assistant/user/assistant/...")


def _template(text: str) -> Refused:
    return Refused(text, status=500, kind="server_error", code="500")


def _check_window(body: Body, policy: Policy) -> None:
    window = policy.window_tokens
    if window is None:
        return
    prompt = tokens_of(sum(element.size for element in body.elements))
    room = whole(body.fields.get("max_completion_tokens")) or whole(body.fields.get("max_tokens")) or 0
    if prompt + room > window:
        text = (
            f"This model's maximum context length is {window} tokens. However, you requested {prompt + room} tokens "
            f"({prompt} in the messages, {room} in the completion). Please reduce the length of the messages or completion."
        )
        raise Refused(text, param="messages", code="context_length_exceeded")
