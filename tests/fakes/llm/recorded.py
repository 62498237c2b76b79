"""What the server remembers of each request."""

from dataclasses import dataclass
from typing import Any, Literal

from tests.fakes.llm.body import Body, NotJson, read_body
from tests.fakes.llm.script import Tokens

Wire = Literal["openai", "anthropic"]
OPENAI_CHAT, ANTHROPIC_CHAT, ANTHROPIC_COUNT = "/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"


@dataclass(slots=True, eq=False)
class Recorded:
    """One request and what became of it.

    Args:
        raw: the body's bytes; they alone are kept, and parsed again when a test looks at them.
        in_flight: requests in flight when this one came, itself included.
        prompt_tokens: size of the prompt, four bytes a token.
        cached_tokens: of these, in elements that an earlier request to the same model began with, byte for byte.
        status: what it was answered with; 0 while it is not decided.
        refusal: the rule it broke, or None.
        is_gone: the client left before the answer was complete.
        reported: the usage that the answer named.
        parsed: the body while it is being answered.
    """

    wire: Wire
    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    in_flight: int = 1
    prompt_tokens: int = 0
    cached_tokens: int = 0
    status: int = 0
    refusal: str | None = None
    is_gone: bool = False
    reported: Tokens | None = None
    parsed: Body | None = None

    @property
    def body(self) -> dict[str, Any]:  # Any: JSON that tests index into
        """The body as JSON, or empty when it is no JSON object."""
        return self._parse().fields

    @property
    def elements(self) -> list[str]:
        """The prompt as its provider's cache sees it: tools, system and messages as sent, without cache marks."""
        return [element.raw for element in self._parse().elements]

    @property
    def is_chat(self) -> bool:
        """Whether a model was asked, and not a list or a count."""
        return self.path in (OPENAI_CHAT, ANTHROPIC_CHAT)

    @property
    def streams(self) -> bool:
        """Whether the answer shall be streamed."""
        return self.body.get("stream") is True

    @property
    def model(self) -> str:
        """The model asked for."""
        return str(self.body.get("model", ""))

    def _parse(self) -> Body:
        try:
            return self.parsed or read_body(self.raw)
        except NotJson:
            return Body({}, [], [])
