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
        ({"token": "42:SEC RET"}, "BotFather"),
        ({"token": "42:SECRET/../x"}, "BotFather"),
        ({"token": "42:SÉCRET"}, "BotFather"),
        ({"token": "٤٢:SECRET"}, "BotFather"),
        ({"base_url": "ftp://127.0.0.1/bot"}, "http://"),
        ({"base_url": "http:///bot"}, "host"),
        ({"base_url": "http://[::1/bot"}, "host"),
        ({"base_url": "http://127.0.0.1:99999/bot"}, "port"),
        ({"base_url": "http://127.0.0.1:8081/ bot"}, "blanks"),
        ({"base_url": "http://127.0.0.1:8081/x?to=/bot"}, "ends in /bot"),
        ({"base_url": "http://127.0.0.1:8081/bot#/bot"}, "ends in /bot"),
        ({"allow_from": ["@alice"]}, "numeric id"),
        ({"base_url": "http://127.0.0.1:8081"}, "ends in /bot"),
        ({"allow_form": [1]}, "Extra inputs"),
    ],
)
def test_mistakes_are_named(fields: dict[str, Any], complaint: str) -> None:
    """Each says what would be right, and not what was there."""
    with pytest.raises(ValidationError, match=complaint) as caught:
        settings(**fields)
    told = caught.value.errors(include_input=False, include_url=False)

    assert [error["loc"] for error in told] == [(next(iter(fields)),)]
    assert "SECRET" not in str(told)


def test_the_token_does_not_show() -> None:
    """Neither in a repr nor in an address."""
    assert "SECRET" not in repr(settings())


def test_the_file_address_is_derived() -> None:
    """One base_url is enough."""
    assert settings(base_url="http://127.0.0.1:8081/bot/").file_url == "http://127.0.0.1:8081/file/bot"
