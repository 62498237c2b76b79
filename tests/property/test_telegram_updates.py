"""Whatever Telegram sends, nothing is lost and nothing gets stuck."""

import asyncio
import logging
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from nanobot.bus.events import Acceptance, Accepted, InboundMessage
from nanobot.channels.access import Admitted
from nanobot.channels.telegram.inbound import Me
from nanobot.channels.telegram.ingress import Ingress, IngressPorts

scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8) | st.floats(allow_nan=False)
FIELDS = (
    "message_id from chat date text entities id type offset length photo caption voice message_thread_id reply_to_message "
    "quote is_bot first_name file_id media_group_id data x"
)
names = st.sampled_from(FIELDS.split())
junk = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=6), max_leaves=20
)
person = st.fixed_dictionaries({"id": st.integers(1, 9), "is_bot": st.booleans(), "first_name": st.text(max_size=9)})
message = st.fixed_dictionaries(
    {"message_id": st.integers(1, 99), "date": st.integers(0, 2**31), "chat": st.just({"id": 1, "type": "private"})},
    optional={
        "from": person,
        "text": st.text(max_size=30),
        "entities": junk,
        "photo": junk,
        "media_group_id": st.just("A"),
    }
    | {"reply_to_message": junk, "forward_origin": junk, "location": junk, "caption": st.text(max_size=9)},
)
updates = st.one_of(
    junk,
    st.dictionaries(st.sampled_from(["update_id", "message", "edited_message", "callback_query"]), junk),
    st.fixed_dictionaries({"update_id": st.integers(1, 50), "message": message | junk}),
)


def ports(put_away: list[object]) -> IngressPorts:
    async def nothing(*arguments: object) -> None:
        return

    async def intercept(*arguments: object) -> bool:
        return False

    async def quarantine(raw: object, why: str) -> None:
        put_away.append(raw)

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(0)

    return IngressPorts(
        judge=lambda incoming: Admitted("owner"),
        refuse=nothing,
        note_move=lambda moved: None,
        moved=nothing,
        session_chat=lambda chat: chat,
        press=nothing,
        decide=nothing,
        quarantine=quarantine,
        intercept=intercept,
        heard=lambda message: None,
        tell=nothing,
        sleep=sleep,
    )


@settings(derandomize=True, deadline=None, max_examples=400)
@given(st.lists(updates, max_size=5))
def test_every_update_is_dealt_with(raws: list[Any]) -> None:
    """Readable or not, each is accepted, ignored or put aside; none stays open, and none stops the others."""
    logging.disable(logging.CRITICAL)
    accepted: list[InboundMessage] = []
    put_away: list[object] = []

    async def accept(message: InboundMessage) -> Acceptance:
        accepted.append(message)
        return Accepted()

    async def take_all() -> Ingress:
        ingress = Ingress("tg", Me(42, "test_bot"), accept, ports(put_away), reruns_edits=True)
        async with asyncio.TaskGroup() as group:
            for raw in raws:
                ingress.take(raw, group)
            ingress.take(good, group)
        return ingress

    sender = {"id": 1, "is_bot": False, "first_name": "B"}
    chat = {"id": 777, "type": "private"}
    good = {"update_id": 99, "message": {"message_id": 5, "date": 1, "chat": chat, "from": sender, "text": "fine"}}
    try:
        ingress = asyncio.run(take_all())
    finally:
        logging.disable(logging.NOTSET)

    assert dict(ingress.open) == {}
    assert [message.text for message in accepted if message.session_key == "tg:777"] == ["fine"]
