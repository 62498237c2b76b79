"""placeholder"""

from tests.fakes.llm.body import Body
from tests.fakes.llm.shapes import Policy


def check(body: Body, policy: Policy) -> None: ...
