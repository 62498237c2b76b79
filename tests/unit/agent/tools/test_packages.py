"""Tools of installed packages; the packages are directories on ``sys.path`` with the metadata that an installer writes."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nanobot.agent.tools.packages import packaged_tools
from nanobot.app import Nanobot
from nanobot.config.settings import Settings, load
from nanobot.errors import ConfigError, MisuseError
from tests.unit.agent.tools.conftest import Bench

Install = Callable[[str, str, str], None]

CODE = '''
from nanobot.agent.tools.base import BaseTool, ToolContext
from nanobot.agent.tools.function import function_tool

def say(town: str) -> str:
    """Say what the weather is."""
    return f"rain in {town}"

def exec(command: str) -> str:
    """Pretend to be a tool of ours."""
    return command

several = [say, function_tool(say, name="say_again", effect="pure")]
number = 3
'''


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Install]:
    """Return what installs a package: its name, its code, its entry points; everything is gone afterwards."""
    site = tmp_path / "site"
    site.mkdir()
    before = set(sys.modules)
    sys.path.insert(0, str(site))

    def put(name: str, code: str, entries: str) -> None:
        (site / f"{name}.py").write_text(code)
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[nanobot.tools]\n{entries}\n")

    yield put
    sys.path.remove(str(site))
    for module in set(sys.modules) - before:
        if str(getattr(sys.modules[module], "__file__", "")).startswith(str(site)):
            del sys.modules[module]


def settings(home: Path, **tools: object) -> Settings:
    """Return settings of an offline bot."""
    data = {"workspace": home / "w", "data_dir": home / "d", "tools": tools}
    return Settings.model_validate(data)


async def test_a_package_brings_tools(install: Install, tmp_path: Path, bench: Bench) -> None:
    """Installed is enough; a single function is called as its entry point is."""
    install("rainy", CODE, "weather = rainy:say\nmore = rainy:several")

    async with Nanobot(settings(tmp_path), environ={}) as bot:
        assert {"weather", "say", "say_again"} <= {spec.name for spec in bot.tools.specs()}
        tool = bot.tools.get("weather")

    assert tool is not None
    assert await bench.text(tool, town="Bonn") == "rain in Bonn"


@pytest.mark.parametrize(
    ("code", "entries", "said"),
    [
        ("import no_such_module", "weather = broken:say", "cannot be loaded: ModuleNotFoundError"),
        ("raise SystemExit(3)", "weather = broken:say", "cannot be loaded: SystemExit"),
        ("x = 1 / 0", "weather = broken:say", "cannot be loaded: ZeroDivisionError"),
        (CODE, "weather = broken:missing", "cannot be loaded: AttributeError"),
        (CODE, "weather = broken:number", "is no tool"),
        ("def f(x): ...", "weather = broken:f", "needs a docstring"),
        (CODE, "exec = broken:exec", "there is a tool named 'exec' already"),
        (CODE, "mcp_github_say = broken:say", "is a name for tools of MCP servers"),
        (CODE, "a = broken:several\nb = broken:several", "there is a tool named 'say' already"),
    ],
)
async def test_a_package_that_cannot_be_used_is_reported_and_stops_nothing(
    install: Install, tmp_path: Path, caplog: pytest.LogCaptureFixture, code: str, entries: str, said: str
) -> None:
    """By the package's name; our own tools are never replaced by it."""
    install("broken", code, entries)

    (fault,) = set(packaged_tools(taken=["exec"]).faults[:1])
    async with Nanobot(settings(tmp_path), environ={}) as bot:
        ours = bot.tools.get("exec")

    assert fault.startswith("tools of the package 'broken' (")
    assert said in fault
    assert said in caplog.text
    assert type(ours).__module__.startswith("nanobot.")


async def test_what_is_disabled_is_not_imported(install: Install, tmp_path: Path) -> None:
    """By the entry point's name the whole, by a tool's name that one."""
    install("rainy", CODE, "more = rainy:several")
    install("loud", "raise AssertionError('imported')", "loud = loud:x")

    async with Nanobot(settings(tmp_path, disabled=["loud", "say"]), environ={}) as bot:
        names = {spec.name for spec in bot.tools.specs()}

    assert "say_again" in names
    assert not names & {"say", "loud"}
    assert packaged_tools(disabled=["loud", "say"]).faults == ()


def test_the_configuration_may_speak_of_them(install: Install, tmp_path: Path) -> None:
    """Their names count as known, and those of nothing do not."""
    install("rainy", CODE, "weather = rainy:say")
    path = tmp_path / "c.yaml"
    path.write_text("workspace: w\ndata_dir: d\ntools: {ask_before: [weather], limits: {weather: 300}}\n")

    assert load(path, {"HOME": str(tmp_path)}).tools.ask_before == ("weather",)
    path.write_text("workspace: w\ndata_dir: d\ntools: {disabled: [wether]}\n")
    with pytest.raises(ConfigError, match="did you mean 'weather'"):
        load(path, {"HOME": str(tmp_path)})


async def test_a_scripts_tool_wins_over_a_packages(install: Install, tmp_path: Path) -> None:
    """As over a built-in one."""
    install("rainy", CODE, "weather = rainy:say")

    def weather() -> str:
        """Mine."""
        return "sun"

    async with Nanobot(settings(tmp_path), tools=[weather], environ={}) as bot:
        tool = bot.tools.get("weather")

    assert tool is not None
    assert tool.description == "Mine."


# -- bot.tool ------------------------------------------------------------------------------------------------------------------


async def test_a_decorated_function_is_a_tool(tmp_path: Path, bench: Bench) -> None:
    """At any time before a Turn, with or without options, and it stays a function."""
    async with Nanobot(settings(tmp_path), environ={}) as bot:

        @bot.tool
        def double(number: int) -> int:
            """Double it."""
            return 2 * number

        @bot.tool(name="shout", effect="pure", timeout_s=3, outward=True, chatty=True)
        async def loud(text: str) -> str:
            """Say it louder."""
            return text.upper()

        shout = bot.tools.get("shout")
        assert double(4) == 8
        assert await loud("a") == "A"

        assert shout is not None
        assert (shout.effect, shout.timeout_s, shout.outward) == ("pure", 3, True)
        assert await bench.text(shout, text="hi") == "HI"
        assert "shout" in bot.tools.chatty
        with pytest.raises(MisuseError, match="two tools named 'double'"):
            bot.tool(double)


async def test_a_decorated_function_takes_a_built_in_tools_place(tmp_path: Path) -> None:
    """As one that was passed does."""
    async with Nanobot(settings(tmp_path), environ={}) as bot:

        @bot.tool
        def grep(pattern: str) -> str:
            """Mine."""
            return pattern

        names = [spec.name for spec in bot.tools.specs()]
        tool = bot.tools.get("grep")

    assert names == sorted(set(names))
    assert tool is not None
    assert tool.description == "Mine."
    assert grep("x") == "x"
