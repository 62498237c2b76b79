"""A wrong channel config stops the start; nothing is guessed."""

from typing import Any

import pytest
from pydantic import ValidationError

from nanobot.channels.telegram.settings import TelegramSettings


def settings(**fields: Any) -> TelegramSettings:
    return TelegramSettings.model_validate({"token": "42:SECRET", **fields})


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"token": "no token"}, "BotFather"),
        ({"allow_from": ["@alice"]}, "numeric id"),
        ({"base_url": "http://127.0.0.1:8081"}, "ends in /bot"),
        ({"allow_form": [1]}, "Extra inputs"),
    ],
)
def test_mistakes_are_named(fields: dict[str, Any], complaint: str) -> None:
    """Each says what would be right."""
    with pytest.raises(ValidationError, match=complaint):
        settings(**fields)


def test_the_token_does_not_show() -> None:
    """Neither in a repr nor in an address."""
    assert "SECRET" not in repr(settings())


def test_the_file_address_is_derived() -> None:
    """One base_url is enough."""
    assert settings(base_url="http://127.0.0.1:8081/bot/").file_url == "http://127.0.0.1:8081/file/bot"
