"""A tool from a plain typed function.

::

    def weather(city: str, days: int = 1) -> str:
        \"\"\"Say what the weather will be.\"\"\"

    bot = Nanobot.from_config(path, tools=[function_tool(weather)])

The signature becomes the arguments' model, the docstring the description, its ``Args:`` section that of the parameters.  An
``async def`` runs on the event loop, a plain one in a thread; a plain one cannot be stopped, so it must end by itself.  What is
returned becomes the observation: text as it is (``Sourced``, where it is somebody else's words; ``Shown``, with pictures), anything
else as JSON where possible.
"""

import dataclasses
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, TypedDict, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, PydanticSchemaGenerationError, PydanticUserError, create_model
from pydantic.fields import FieldInfo

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, CutPolicy, Shown, Sourced, Tool, ToolContext, one_line
from nanobot.agent.tools.docstring import read_docstring
from nanobot.errors import MisuseError
from nanobot.session.entries import Effect


class ToolOptions(TypedDict, total=False):
    """The options of ``function_tool``, all of them optional."""

    name: str | None
    description: str | None
    effect: Effect
    concurrent: bool
    chatty: bool
    timeout_s: float | None
    max_observation_chars: int | None
    cut: CutPolicy
    outward: bool


def function_tool(
    function: Callable[..., object],
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "opaque",
    concurrent: bool = False,
    chatty: bool = False,
    timeout_s: float | None = 60.0,
    max_observation_chars: int | None = None,
    cut: CutPolicy = "middle",
    outward: bool = False,
) -> Tool[Any]:
    """Return a tool that calls ``function``.

    Args:
        function: every parameter has a type and can be given by name; one annotated ``ToolContext`` gets the call's context.
        name: the tool's name; the function's own by default.
        description: what the model reads; the docstring by default.
        effect: what a call does to the world, as ``tools.base`` explains.
        concurrent: may run beside other calls.
        chatty: old results may become one-line placeholders.
        timeout_s: as for any tool.
        max_observation_chars: as for any tool.
        cut: as for any tool.
        outward: what it is given can leave this machine or reach another chat.

    Raises:
        MisuseError: the function has no description, or a parameter that a model cannot fill.
    """
    called = name or getattr(function, "__name__", "")
    said = description or inspect.getdoc(function) or ""
    if not called.isidentifier() and name is None:
        raise MisuseError(f"{function!r} has no usable name; pass name=.")
    if not said.strip():
        raise MisuseError(f"The tool {called!r} needs a docstring or description=: the model must know what it is for.")
    signature, hints = _signature(function, called)
    described = read_docstring(said, signature.parameters)
    tool = _FunctionTool(function, *_model(signature, hints, called, described.parameters))
    tool.name, tool.description, tool.effect = called, described.text, effect
    tool.concurrent, tool.chatty, tool.outward = concurrent, chatty, outward
    tool.timeout_s, tool.max_observation_chars, tool.cut = timeout_s, max_observation_chars, cut
    return tool


class _FunctionTool(BaseTool[BaseModel]):
    def __init__(
        self, function: Callable[..., object], arguments: type[BaseModel], context_parameter: str | None
    ) -> None:
        self._function = function
        self._context_parameter = context_parameter
        self.arguments = arguments

    def summary(self, arguments: BaseModel) -> str:
        """Return the call as Python would write it, on one line."""
        shown = ", ".join(f"{field}={getattr(arguments, field)!r}" for field in type(arguments).model_fields)
        return one_line(f"{self.name}({shown})")

    async def run(self, arguments: BaseModel, context: ToolContext) -> str | Sourced | Shown:
        """Call the function."""
        given: dict[str, Any] = {field: getattr(arguments, field) for field in type(arguments).model_fields}
        if self._context_parameter is not None:
            given[self._context_parameter] = context
        if inspect.iscoroutinefunction(self._function):
            value = await cast("Awaitable[object]", self._function(**given))
        else:
            value = await context.in_thread(self._function, **given)
        return value if isinstance(value, str | Sourced | Shown) else _as_text(value)


def _signature(function: Callable[..., object], called: str) -> tuple[inspect.Signature, Mapping[str, Any]]:
    try:
        return inspect.signature(function), get_type_hints(function, include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise MisuseError(f"The signature of the tool {called!r} cannot be read: {error}.") from None


def _model(
    signature: inspect.Signature, hints: Mapping[str, Any], called: str, described: Mapping[str, str]
) -> tuple[type[BaseModel], str | None]:
    fields: dict[str, Any] = {}
    context_parameter: str | None = None
    for parameter in signature.parameters.values():
        if hints.get(parameter.name) is ToolContext:
            context_parameter = parameter.name
        else:
            fields[parameter.name] = _field(parameter, hints, called, described.get(parameter.name))
    try:
        return create_model(f"{called}_arguments", __base__=ToolArguments, **fields), context_parameter
    except (PydanticSchemaGenerationError, PydanticUserError, NameError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise MisuseError(f"A parameter of the tool {called!r} has a type that a model cannot fill: {reason}") from None


def _field(
    parameter: inspect.Parameter, hints: Mapping[str, Any], called: str, described: str | None
) -> tuple[Any, Any]:
    where = f"The parameter {parameter.name!r} of the tool {called!r}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        raise MisuseError(f"{where} is *args, **kwargs or positional only; a model gives arguments by name.")
    if parameter.name not in hints:
        raise MisuseError(f"{where} has no type annotation.")
    if parameter.name.startswith("_"):
        raise MisuseError(f"{where} begins with an underscore; rename it.")
    hint, default = hints[parameter.name], parameter.default
    if described:  # before what stands in the annotation itself, which wins
        kind, *extras = (get_args(hint) or (hint,)) if get_origin(hint) is Annotated else (hint,)
        hint = Annotated[(kind, Field(description=described), *extras)]
    if isinstance(default, FieldInfo):
        return hint, default
    return hint, Field() if default is parameter.empty else Field(default=default)


def _as_text(value: object) -> str:
    if value is None:
        return "Done."
    if isinstance(value, BaseModel):
        return value.model_dump_json(indent=1)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        return str(value)
