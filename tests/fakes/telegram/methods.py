"""The Bot API's methods, as far as this server speaks them: each checks as strictly as the public one does."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, cast

from tests.fakes.telegram.chats import ChatRoom, Seen
from tests.fakes.telegram.params import Params, Upload
from tests.fakes.telegram.rules import (
    Refusal,
    check_caption,
    check_document,
    check_entities,
    check_markup,
    check_photo,
    check_text,
    previewed,
)

MAX_DOWNLOAD_BYTES = 20 * 1024 * 1024
CALLBACK_S = 15.0
_ACTIONS = frozenset(
    f"{doing}_{what}"
    for doing, what in [("upload", "photo"), ("upload", "video"), ("upload", "voice"), ("upload", "document")]
) | {"typing", "record_video", "record_voice", "choose_sticker", "find_location"}


class World(Protocol):
    """What methods see and change."""

    rooms: dict[int, ChatRoom]
    callbacks: dict[str, float]
    answered: dict[str, str]
    alerts: list[str]
    files: dict[str, tuple[str, bytes, int]]
    commands: list[dict[str, Any]]
    message_gap_s: float | None
    edit_gap_s: float | None

    def clock(self) -> float: ...
    def next_message_id(self) -> int: ...
    def me(self) -> dict[str, Any]: ...


Method: TypeAlias = Callable[[World, Params], Any]  # Any: a result is whatever JSON the method answers


def get_me(world: World, params: Params) -> dict[str, Any]:
    return world.me()


def get_webhook_info(world: World, params: Params) -> dict[str, Any]:
    return {"url": "", "has_custom_certificate": False, "pending_update_count": 0}


def send_message(world: World, params: Params) -> dict[str, Any]:
    room = _room(world, params)
    text = params.text("text")
    check_text(text)
    return _post(world, room, params, "text", text, params.parsed("entities"), None)


def send_photo(world: World, params: Params) -> dict[str, Any]:
    return _send_file(world, params, "photo")


def send_document(world: World, params: Params) -> dict[str, Any]:
    return _send_file(world, params, "document")


def _send_file(world: World, params: Params, kind: str) -> dict[str, Any]:
    room = _room(world, params)
    upload = params.files.get(kind)
    if upload is None and params.text(kind).startswith("attach://"):
        upload = params.files.get(params.text(kind).removeprefix("attach://"))
    if upload is None:
        raise Refusal(400, f"Bad Request: there is no {kind} in the request")
    check_document(upload.data)
    caption = params.text("caption")
    check_caption(caption)
    if kind == "photo":
        check_photo(upload.data)
    return _post(world, room, params, kind, caption, params.parsed("caption_entities"), upload)


def edit_message_text(world: World, params: Params) -> dict[str, Any]:
    room = _room(world, params)
    message = room.messages.get(params.required("message_id"))
    if message is None or message.is_deleted:
        raise Refusal(400, "Bad Request: message to edit not found")
    if not message.by_bot or message.kind != "text":
        raise Refusal(400, "Bad Request: message can't be edited")
    text = params.text("text")
    check_text(text)
    entities = check_entities(text, params.parsed("entities"))
    markup = check_markup(params.parsed("reply_markup"))
    if message.same_as(text, entities, markup):
        raise Refusal(
            400,
            "Bad Request: message is not modified: specified new message content and reply markup are exactly the same"
            " as a current content and reply markup of the message",
        )
    room.last_edited_at = _paced(world, room.last_edited_at, world.edit_gap_s)
    message.text, message.entities, message.markup = text, entities, markup
    message.edits += 1
    message.fetched += previewed(text, entities, params.parsed("link_preview_options"))
    return _as_json(world, room, message)


def edit_message_reply_markup(world: World, params: Params) -> dict[str, Any]:
    room = _room(world, params)
    message = room.messages.get(params.required("message_id"))
    if message is None or message.is_deleted or not message.by_bot:
        raise Refusal(400, "Bad Request: message to edit not found")
    markup = check_markup(params.parsed("reply_markup"))
    if message.markup == markup:
        raise Refusal(400, "Bad Request: message is not modified")
    message.markup = markup
    return _as_json(world, room, message)


def delete_message(world: World, params: Params) -> bool:
    room = _room(world, params)
    message = room.messages.get(params.required("message_id"))
    if message is None or message.is_deleted:
        raise Refusal(400, "Bad Request: message to delete not found")
    message.is_deleted = True
    return True


def send_chat_action(world: World, params: Params) -> bool:
    room = _room(world, params)
    action = params.text("action")
    if action not in _ACTIONS:
        raise Refusal(400, "Bad Request: wrong parameter action in request")
    room.actions.append((world.clock(), action, _thread(room, params)))
    return True


def answer_callback_query(world: World, params: Params) -> bool:
    asked_at = world.callbacks.get(params.text("callback_query_id"))
    if asked_at is None or world.clock() - asked_at > CALLBACK_S:
        raise Refusal(400, "Bad Request: query is too old and response timeout expired or query ID is invalid")
    text = params.text("text")
    if len(text) > 200:
        raise Refusal(400, "Bad Request: MESSAGE_TOO_LONG")
    world.answered[params.text("callback_query_id")] = text
    if params.parsed("show_alert"):
        world.alerts.append(text)
    return True


def set_my_commands(world: World, params: Params) -> bool:
    commands = params.parsed("commands")
    if not isinstance(commands, list):
        raise Refusal(400, "Bad Request: can't parse commands")
    found: list[dict[str, Any]] = commands  # pyright: ignore[reportUnknownVariableType]  # the wire's own JSON
    for command in found:
        name, about = command.get("command", ""), command.get("description", "")
        if not (1 <= len(name) <= 32 and name.isascii() and name == name.lower() and name.replace("_", "").isalnum()):
            raise Refusal(400, "Bad Request: BOT_COMMAND_INVALID")
        if not 1 <= len(about) <= 256:
            raise Refusal(400, "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID")
    world.commands = found
    return True


def get_file(world: World, params: Params) -> dict[str, Any]:
    found = world.files.get(params.text("file_id"))
    if found is None:
        raise Refusal(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
    path, _, size = found
    if size > MAX_DOWNLOAD_BYTES:
        raise Refusal(400, "Bad Request: file is too big")
    name = params.text("file_id")
    return {"file_id": name, "file_unique_id": f"u-{name}", "file_size": size, "file_path": path}


def get_chat(world: World, params: Params) -> dict[str, Any]:
    return _room(world, params).as_json() | {"accent_color_id": 0, "max_reaction_count": 0}


def get_chat_member(world: World, params: Params) -> dict[str, Any]:
    room, person = _room(world, params), params.required("user_id")
    status = "left" if person in room.absent else "member"
    return {"status": status, "user": {"id": person, "is_bot": False, "first_name": f"Person {person}"}}


def _room(world: World, params: Params) -> ChatRoom:
    room = world.rooms.get(params.required("chat_id"))
    if room is None:
        raise Refusal(400, "Bad Request: chat not found")
    if room.migrated_to is not None:
        raise Refusal(
            400, "Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=room.migrated_to
        )
    if room.is_blocked:
        raise Refusal(403, "Forbidden: bot was blocked by the user")
    return room


def _post(
    world: World, room: ChatRoom, params: Params, kind: str, text: str, entities: object, file: Upload | None
) -> dict[str, Any]:
    checked = check_entities(text, entities)
    markup = check_markup(params.parsed("reply_markup"))
    thread = _thread(room, params)
    reply_to = _reply_to(room, params)
    room.last_sent_at = _paced(world, room.last_sent_at, world.message_gap_s)
    message = Seen(
        message_id=world.next_message_id(),
        text=text,
        by_bot=True,
        entities=checked,
        kind=kind,
        file=file,
        markup=markup,
        reply_to=reply_to,
        thread=thread,
        fetched=previewed(text, checked, params.parsed("link_preview_options")) if kind == "text" else [],
    )
    room.messages[message.message_id] = message
    return _as_json(world, room, message)


def _thread(room: ChatRoom, params: Params) -> int | None:
    thread = params.number("message_thread_id")
    if thread is not None and thread not in room.topics:
        raise Refusal(400, "Bad Request: message thread not found")
    return thread


def _reply_to(room: ChatRoom, params: Params) -> int | None:
    asked = cast("dict[str, Any]", params.parsed("reply_parameters") or {})
    wanted: int | None = asked.get("message_id")
    if wanted is None:
        return None
    message = room.messages.get(wanted)
    if message is None or message.is_deleted:
        if not asked.get("allow_sending_without_reply"):
            raise Refusal(400, "Bad Request: message to be replied not found")
        return None
    return wanted


def _paced(world: World, last_at: float | None, gap_s: float | None) -> float:
    """Return the present, or refuse because too little time has passed."""
    now = world.clock()
    if gap_s is not None and last_at is not None and now - last_at < gap_s:
        wait = max(1, round(gap_s - (now - last_at) + 0.5))
        raise Refusal(429, f"Too Many Requests: retry after {wait}", retry_after=wait)
    return now


def _as_json(world: World, room: ChatRoom, message: Seen) -> dict[str, Any]:
    body: dict[str, Any] = {
        "message_id": message.message_id,
        "from": world.me(),
        "chat": room.as_json(),
        "date": 1_700_000_000,
    }
    if message.kind == "text":
        return body | {"text": message.text, "entities": message.entities}
    file = {"file_id": f"out-{message.message_id}", "file_unique_id": f"u{message.message_id}"}
    if message.kind == "photo":
        return body | {"photo": [file | {"width": 1, "height": 1}], "caption": message.text}
    return body | {"document": file, "caption": message.text}


METHODS: dict[str, Method] = {
    "getme": get_me,
    "getwebhookinfo": get_webhook_info,
    "sendmessage": send_message,
    "sendphoto": send_photo,
    "senddocument": send_document,
    "editmessagetext": edit_message_text,
    "editmessagereplymarkup": edit_message_reply_markup,
    "deletemessage": delete_message,
    "sendchataction": send_chat_action,
    "answercallbackquery": answer_callback_query,
    "setmycommands": set_my_commands,
    "getfile": get_file,
    "getchat": get_chat,
    "getchatmember": get_chat_member,
}
