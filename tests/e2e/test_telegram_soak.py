"""Many chats, many messages, a bad network: each is answered exactly once, and nothing grows."""

from pathlib import Path

import pytest

from tests.e2e.soak import grown, soak


@pytest.mark.timeout(180)
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks at /proc")
async def test_each_message_is_answered_once_whatever_happens(tmp_path: Path) -> None:
    """Faults all the time; afterwards every chat holds as many answers as questions, in order, and the process is no larger."""
    result = await soak(tmp_path, chats=30, rounds=6)

    assert result.wrong == []
    assert result.messages == 180
    assert result.faults > 20
    assert [line for line in grown(result) if "memory" not in line] == []  # a short run still fills its caches
