"""The scripted server as a program: ``python stdio.py DIRECTORY MANNER``.

It appends its process id to ``starts`` in the directory, and its environment to ``environ``.  Manners, which can be changed between
two starts by writing to ``manner`` there:

``good``      nothing special; the tool ``die`` ends it, ``hang`` is never answered
``exit``      ends at once, with a last word
``mute``      reads and never answers
``garbage``   writes what is no message, without end
``line``      writes one line without end
``banner``    writes lines for people first, as many servers do
``bad``       offers tools that cannot be offered, among good ones
``late``      starts after ``late_s`` seconds (0.5)
``orphan``    leaves a child in its group and ends when its input does
"""

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.fakes.mcp.protocol import Script, tool

BAD_TOOLS = [
    tool("good"),
    tool("good"),
    {"name": "no_schema"},
    tool("text_schema", "object"),
    tool("", {}),
    tool("spaced name!", {"type": ["object", "null"], "properties": {"a": {"type": ["string", "null"]}}}),
    tool("with_ref", {"$defs": {"P": {"type": "string"}}, "properties": {"p": {"$ref": "#/$defs/P"}}}),
    tool("bad_argument", {"type": "object", "properties": {"what is it?": {"type": "string"}}}),
    tool("vast", {"type": "object", "properties": {f"p{n}": {"description": "x" * 100} for n in range(400)}}),
    tool("x" * 80),
]


def main(directory: Path, manner: str) -> None:
    """Be a server until the input ends."""
    if (directory / "manner").exists():
        manner = (directory / "manner").read_text()
    with (directory / "starts").open("a") as file:
        file.write(f"{os.getpid()}\n")
    (directory / "cwd").write_text(str(Path.cwd()))
    (directory / "environ").write_text(json.dumps(dict(os.environ)))
    script = Script(secret=os.environ.get("FAKE_TOKEN", ""))
    match manner:
        case "exit":
            sys.stderr.write(f"no licence found for {script.secret}\n")
            sys.exit(3)
        case "mute":
            for _ in sys.stdin:
                pass
            time.sleep(60)
        case "garbage":
            while True:
                print("not a message")  # noqa: T201
        case "line":
            while True:
                sys.stdout.write("x" * 65_536)
        case "banner":
            print("Welcome!\n\nversion 1")  # noqa: T201
        case "bad":
            script.tools = BAD_TOOLS
        case "late":
            time.sleep(0.5)
        case "orphan":
            child = subprocess.Popen(["sleep", "60"])
            (directory / "child").write_text(str(child.pid))
        case _:
            pass
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message:  # else it is an answer, which nobody waits for
            _reply(script, message)
        if manner == "asks" and message.get("method") == "tools/list":
            _ask_on()


def _ask_on() -> None:
    """Ask the client for pings, without end, and read no answer any more."""
    for number in itertools.count():
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":"s{number}","method":"ping"}}\n' * 50)
        sys.stdout.flush()


def _reply(script: Script, message: dict[str, object]) -> None:
    params = message.get("params")
    name = params.get("name") if isinstance(params, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # JSON
    if name == "die":
        os._exit(7)
    if name == "hang":
        return
    for answer in script.answer(message):
        sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
