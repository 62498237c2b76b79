"""From settings to providers."""

import subprocess
import sys

import pytest
from pydantic import TypeAdapter, ValidationError

from nanobot.errors import ConfigError
from nanobot.providers.factory import build, split_ref
from nanobot.providers.settings import OpenAISettings, ProviderSettings

READ = TypeAdapter[ProviderSettings](ProviderSettings)


def test_importing_and_building_loads_no_sdk() -> None:
    """``nanobot --help`` and a start with a config stay fast: SDKs are imported at the first request."""
    script = (
        "import sys\n"
        "from nanobot.providers.factory import build\n"
        "from nanobot.providers.settings import OpenAISettings\n"
        "build({'o': OpenAISettings(api_key='k')}, ['o/m'], environ={})\n"
        "print([name for name in ('openai', 'anthropic', 'httpx2', 'httpx') if name in sys.modules])\n"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=50)

    assert done.stdout.strip() == "[]"


def test_a_model_id_may_hold_slashes() -> None:
    """Only the first slash divides provider and model: OpenRouter's ids have slashes."""
    assert split_ref("router/meta/llama-4", {"router": OpenAISettings()}) == ("router", "meta/llama-4")


@pytest.mark.parametrize("ref", ["gpt-5", "/m", "o/", "nobody/m"])
def test_a_bad_reference_names_the_key(ref: str) -> None:
    """A model that cannot be found stops the start and says where to look."""
    with pytest.raises(ConfigError, match=r"agent\.model"):
        build({"o": OpenAISettings()}, ref, environ={})


def test_unknown_and_secret_settings() -> None:
    """A misspelt key is an error, and a key never shows in a representation."""
    with pytest.raises(ValidationError):
        READ.validate_python({"type": "openai", "api_kye": "x"})
    settings = READ.validate_python(
        {"type": "openai", "api_key": "sk-secret", "headers": {"X-Key": "secret2"}, "proxy": "http://u:secret3@h"}
    )

    assert "secret" not in repr(settings).replace("SecretStr", "")
