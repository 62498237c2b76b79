"""The strict local model server: what tests import, and a program to run by hand.

async with LLMServer([Reply("hello")]) as server: ...
python -m tests.fakes.llm_server --port 8089
"""

from tests.fakes.llm.script import Call, Oddity, Reply, Tokens
from tests.fakes.llm.server import LLMServer, Recorded

__all__ = ["Call", "LLMServer", "Oddity", "Recorded", "Reply", "Tokens"]
