"""The house in order: what an import costs, who may import whom, and documents that say what the code does."""

import json
import re
import resource
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from nanobot.agent.tools.mcp.settings import McpServerSettings, OAuthSettings
from nanobot.channels.telegram.settings import TelegramSettings
from nanobot.config.settings import Settings
from nanobot.providers.settings import AnthropicSettings, OfflineSettings, OpenAISettings

ROOT = Path(__file__).resolve().parents[2]
SDKS = {"anthropic", "openai", "telegram", "mcp", "httpx2"}
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_CASES = [
    pytest.param(block, id=f"{path.stem}-{number}")
    for path in (ROOT / "docs/scripting.md", ROOT / "docs/tools.md")
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL))
]


def python(*arguments: str) -> str:
    """Run a fresh Python in the repository and return what it wrote to stdout."""
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def loaded_by(code: str) -> set[str]:
    """Return the modules that a fresh Python has loaded after the code, and had not before."""
    script = f"import sys; before = set(sys.modules)\n{code}\nimport json; print(json.dumps(sorted(set(sys.modules) - before)))"
    return set(json.loads(python("-c", script).splitlines()[-1]))


def roots(modules: set[str]) -> set[str]:
    """Return the top-level packages of modules."""
    return {module.partition(".")[0] for module in modules}


# -- what an import costs ------------------------------------------------------------------------------------------------------


def test_import_does_nothing() -> None:
    """``import nanobot`` loads neither the rest of nanobot nor anything that was installed for it."""
    loaded = loaded_by("import nanobot")

    assert {module for module in loaded if module.startswith("nanobot")} == {"nanobot"}
    assert roots(loaded) - {"nanobot"} <= sys.stdlib_module_names


def test_values_compile_nothing_when_they_are_imported() -> None:
    """A frozen dataclass with slots is made by ``@frozen``, unless it can be ordered."""
    made = re.compile(r"^@dataclass\((?=.*frozen=True)(?=.*slots=True)(?!.*order=True).*\)$", re.MULTILINE)
    costly = [str(path.relative_to(ROOT)) for path in ROOT.glob("nanobot/**/*.py") if made.search(path.read_text())]

    assert costly == []


def test_help_loads_no_sdk() -> None:
    """``nanobot --help`` loads no SDK, no settings and no core: only the command line."""
    code = "import contextlib, io\nfrom nanobot.__main__ import main\nsys.argv = ['nanobot', '--help']\n"
    code += "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()"
    loaded = loaded_by(code)

    assert not roots(loaded) & {*SDKS, "pydantic", "yaml", "rich", "prompt_toolkit"}
    assert not {module for module in loaded if module.startswith(("nanobot.agent", "nanobot.app"))}


def test_help_is_quick() -> None:
    """``nanobot --help`` takes less than 0.2 s of a processor, or ten times a bare Python where even that is slow."""

    def quickest(*arguments: str) -> float:
        taken: list[float] = []
        for _ in range(5):
            began = _spent_by_children()
            python(*arguments)
            taken.append(_spent_by_children() - began)
        return min(taken)

    assert quickest("-m", "nanobot", "--help") < max(0.2, 10 * quickest("-c", "pass"))


def _spent_by_children() -> float:
    """Return processor time, not the clock's: what else a machine does at the time says nothing about us."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_facade_loads_no_sdk() -> None:
    """A script that imports ``Nanobot`` pays for no SDK before its config asks for one."""
    assert not roots(loaded_by("from nanobot import Nanobot")) & SDKS


@pytest.mark.parametrize(("used", "unused"), [("openai", "anthropic"), ("anthropic", "openai")])
def test_only_the_configured_sdk_is_loaded(used: str, unused: str) -> None:
    """A config that names one vendor never loads the other's SDK, not even at its first request."""
    code = (
        "import asyncio\n"
        "from nanobot.providers.factory import build_one\n"
        "from nanobot.providers.settings import AnthropicSettings, OpenAISettings\n"
        f"settings = {{'openai': OpenAISettings, 'anthropic': AnthropicSettings}}[{used!r}](api_key='k')\n"
        f"provider = build_one({used!r}, settings, environ={{}})\n"
        f"assert {used!r} not in sys.modules, 'building loads nothing'\n"
        "asyncio.run(provider.warm())"
    )
    loaded = roots(loaded_by(code))

    assert used in loaded
    assert not loaded & (SDKS - {used, "httpx2"})
    assert unused not in loaded


# -- layers --------------------------------------------------------------------------------------------------------------------


def test_imports_go_downwards_only() -> None:
    """The contracts about layers and SDKs in pyproject.toml are kept."""
    code = (
        "from importlinter.cli import lint_imports; sys_exit = lint_imports(no_cache=True); raise SystemExit(sys_exit)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


# -- documents -----------------------------------------------------------------------------------------------------------------


SERVER = "tools.mcp.servers.<name>."


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:  # Any: defaults of every type
    """Yield each key of a settings model with its default."""
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=False)
        if isinstance(default, BaseModel):
            yield from keys_of(type(default), f"{prefix}{name}.")
        elif name != "providers":
            yield (
                prefix + name,
                {} if default is PydanticUndefined or (default is None and field.default_factory) else default,
            )


def documented() -> dict[str, str]:
    """Return the keys in the tables of docs/configuration.md, with their defaults as written."""
    text = (ROOT / "docs/configuration.md").read_text()
    rows = re.findall(r"^\| `([a-z_.<>]+)` \| (.+?) \|", text, re.MULTILINE)
    assert len(rows) == len(dict(rows)), "a key stands in two rows"
    return {key: default.strip("`") for key, default in rows}


def test_every_key_is_documented() -> None:
    """docs/configuration.md lists exactly the keys there are."""
    keys = {key for key, _ in keys_of(Settings)}
    for provider in (AnthropicSettings, OpenAISettings, OfflineSettings):
        keys |= {key for key, _ in keys_of(provider, "providers.<name>.")}
    keys |= {key for key, _ in keys_of(TelegramSettings, "channels.<name>.")}
    keys |= {key for key, _ in keys_of(McpServerSettings, SERVER)}
    keys |= {key for key, _ in keys_of(OAuthSettings, f"{SERVER}oauth.")}

    assert set(documented()) == keys


def test_documented_defaults_are_the_defaults() -> None:
    """docs/configuration.md states each key's real default."""
    written = documented()
    keys = dict(keys_of(Settings))
    for provider in (AnthropicSettings, OpenAISettings):
        keys |= dict(keys_of(provider, "providers.<name>."))
    keys |= dict(keys_of(TelegramSettings, "channels.<name>."))
    keys |= dict(keys_of(McpServerSettings, SERVER)) | dict(keys_of(OAuthSettings, f"{SERVER}oauth."))
    told_in_words = {"workspace", "data_dir", "providers.<name>.type", "channels.<name>.token", "tools.secret_paths"}

    wrong = {key: (written.get(key), default) for key, default in keys.items() if written.get(key) != _as_yaml(default)}

    assert set(wrong) == told_in_words


def _as_yaml(default: object) -> str:
    if isinstance(default, float) and default.is_integer():
        default = int(default)
    if isinstance(default, str) and default:
        return default
    return json.dumps(default)


@pytest.mark.parametrize("block", _CASES)
def test_documented_programs_run(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each Python block of the pages about scripts and tools is a program that runs, without key or network."""
    for name in ("NANOBOT_CONFIG", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    program = tmp_path / "program.py"
    program.write_text(block)

    runpy.run_path(str(program), run_name="__main__")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    """Each link between documents names a file, and a heading, that is there."""
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", document.read_text()):
        name, _, anchor = target.partition("#")
        other = document.parent / name if name else document

        assert other.exists(), target
        assert not anchor or anchor in _anchors(other.read_text()), target


def test_decisions_are_numbered_without_gaps() -> None:
    """Decision records count from 1, one number each, and a record's title and file name agree."""
    records = sorted(ROOT.glob("docs/adr/*.md"))

    assert [int(path.name[:4]) for path in records] == list(range(1, len(records) + 1))
    assert [path.read_text().partition(". ")[0] for path in records] == [f"# {int(path.name[:4])}" for path in records]


def _anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_telegram_is_imported_without_what_nobody_uses() -> None:
    """The Telegram channel brings neither a command line with rich nor cryptography, and leaves both importable for others."""
    code = "from nanobot.channels.registry import _UNUSED, _leaving_out\nwith _leaving_out(_UNUSED):\n"
    code += "    import nanobot.channels.telegram.channel\nloaded = set(sys.modules)\nimport httpx._main"
    script = f"import sys\n{code}\nimport json; print(json.dumps(sorted(loaded)))"
    loaded = roots(set(json.loads(python("-c", script).splitlines()[-1])))

    assert "telegram" in loaded
    assert not loaded & {"rich", "pygments", "cryptography"}
