"""The benign suite: what people have their agent do all day works in bubblewrap, and in Landlock alone.  No false refusals."""

import shutil
import socket
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nanobot.agent.tools.sandbox.settings import Mode, SandboxSettings
from tests.fakes.cell import CANARY, Cell, telling

KINDS: list[Mode] = ["bwrap", "landlock"]


@dataclass(frozen=True)
class Place:
    """A workspace with a repository, some files and a wheel; and a web server on this machine."""

    cell: Cell
    url: str


@pytest.fixture(scope="module", params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One for all commands: they come in the order of the list, and build on each other as in a day's work."""
    cell = Cell(tmp_path_factory.mktemp("c"), SandboxSettings(mode=request.param))
    state = cell.sandbox.state(cell.workspace)
    if state.kind != request.param:
        pytest.skip(state.text)
    work = cell.workspace
    (work / "notes.md").write_text("# Notes\nbuy milk\nanswer Ann\n")
    (work / "main.c").write_text('#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    (work / "Makefile").write_text("all:\n\t@echo made\n")
    (work / "sums.py").write_text("def add(a, b):\n    return a + b\n")
    (work / "test_sums.py").write_text(
        "import unittest\nfrom sums import add\n\n"
        "class Sums(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n"
    )
    _wheel(work / "tiny-1.0-py3-none-any.whl")
    with telling(("127.0.0.1", 0), family=socket.AF_INET) as web:
        yield Place(cell, f"http://127.0.0.1:{web.getsockname()[1]}/")


def _wheel(path: Path) -> None:
    """Write the smallest package that pip installs."""
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny.py", "WORD = 'installed'\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")


# pip as the wheel that comes with Python: making it at home in a new environment takes many seconds.
FIND_PIP = (
    'import ensurepip, glob; places = (ensurepip.__path__[0] + "/_bundled", "/usr/share/python-wheels"); '
    'print(next(one for place in places for one in glob.glob(place + "/pip-*.whl")))'
)
PIP = f"pip=$(python3 -c '{FIND_PIP}') && PYTHONPATH=$pip v/bin/python -m pip"

# The program that is needed, the command, and what its output holds.
COMMANDS = [
    ("bash", "echo hello", "hello"),
    ("bash", "pwd && ls -la", "notes.md"),
    ("bash", "cat notes.md | grep -n milk | sed s/milk/bread/", "2:buy bread"),
    ("bash", "for i in 1 2 3; do echo $((i * i)); done", "9"),
    ("bash", "cat <(echo from a process)", "from a process"),
    ("bash", "cat <<END > here.txt\nand /dev/ and rm -rf /\nEND\nwc -l here.txt", "1 here.txt"),
    ("bash", "echo text > /dev/stdout; echo error > /dev/stderr; echo nothing > /dev/null", "error"),
    ("bash", "f=$(mktemp) && echo x > $f && d=$(mktemp -d) && mv $f $d/ && rm -r $d && echo fine", "fine"),
    ("bash", "echo remembered > ~/note && cat ~/note", "remembered"),
    ("bash", "sleep 5 & kill $! && wait $!; echo killed", "killed"),
    ("bash", "timeout 0.1 sleep 5; echo $?", "124"),
    ("bash", "trap 'echo got it' USR1; kill -USR1 $$; true", "got it"),
    ("bash", "whoami && id -u && umask && ulimit -n", ""),
    ("bash", "mkdir -p a/b && touch a/b/c && chmod 755 a/b/c && chmod u+x,g-w a/b && cp -a a d && ln -s a/b/c link", ""),
    ("bash", "head -c 100000 /dev/urandom | sha256sum | cut -c1-4 && nproc", ""),
    ("bash", "date && TZ=Europe/Berlin date +%Z && uname -a && hostname", "CE"),
    ("ps", "ps aux && ps -ef && uptime && free -m", ""),
    ("df", "df -h . && du -sh . && stat notes.md", "notes.md"),
    ("find", "find . -name '*.md' -newer Makefile -o -name '*.py' | xargs -n1 basename | sort -u", "sums.py"),
    ("tar", "tar -czf a.tgz a && mkdir x && tar -xzf a.tgz -C x && tar -tzf a.tgz && find x -name c", "x/a/b/c"),
    ("tar", "tar --owner=12345 --group=12345 -cf o.tar notes.md && mkdir o && tar -xf o.tar -C o && cat o/notes.md", "milk"),
    ("gzip", "gzip -k notes.md && zcat notes.md.gz", "milk"),
    ("awk", "awk '{print NR}' notes.md && sort -r notes.md | uniq -c && diff notes.md notes.md", "3"),
    ("sed", "cp notes.md n2 && sed -i s/milk/oats/ n2 && cat n2 && rm n2", "oats"),
    ("make", "make", "made"),
    ("gcc", "gcc main.c -o main && ./main", "built"),
    ("git", "git init -q . && git config user.email me@example.org && git config user.name Me", ""),
    ("git", "git config --global init.defaultBranch main && git config --global --list", "defaultbranch=main"),
    ("git", "git add notes.md sums.py && git commit -qm 'remove rm -rf note' && git log --oneline", "remove rm -rf"),
    ("git", "git switch -qc work && echo more >> notes.md && git commit -qam more && git diff HEAD~1 --stat", "notes.md"),
    ("git", "git clone -q . copy && git -C copy log --oneline && git -C copy fetch && git worktree add -q "
    "../workspace/w2 HEAD", "more"),
    ("git", "git init -q --bare hub.git && git push -q hub.git HEAD:main && git stash list && git gc -q && git status -sb", "work"),
    ("python3", "python3 -m unittest -q", "OK"),
    ("python3", "python3 -c 'import sqlite3; c = sqlite3.connect(\"n.db\"); c.execute(\"create table t(a)\"); "
    "c.commit(); print(1)'", "1"),
    ("python3", "python3 -c 'import subprocess; print(subprocess.run([\"echo\", \"child\"], "
    "capture_output=True).stdout)'", "child"),
    ("python3", "python3 -c 'import asyncio; print(asyncio.run(asyncio.sleep(0, \"slept\")))'", "slept"),
    ("python3", "python3 -c 'import threading; t = threading.Thread(target=print, args=(\"thread\",)); t.start(); "
    "t.join()'", "thread"),
    ("python3", "python3 -c 'import ssl; print(len(ssl.create_default_context().get_ca_certs()) >= 0)'", "True"),
    ("python3", "python3 -c 'import tempfile; f = tempfile.NamedTemporaryFile(); f.write(b\"x\"); print(\"fine\")'", "fine"),
    ("python3", "python3 -c 'import pwd, os; print(pwd.getpwuid(os.getuid()).pw_name, os.path.expanduser(\"~\"))'", ""),
    ("python3", "python3 -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'", "True"),
    ("python3", PIP + " install -q --no-index ./tiny-1.0-py3-none-any.whl && v/bin/python -c 'import tiny; print(tiny.WORD)'",
     "installed"),
    ("python3", "python3 -m http.server 0 --bind 127.0.0.1 > log 2>&1 & sleep 0.4; kill %1; cat log; echo served", "served"),
    ("node", "node -e 'require(\"fs\").writeFileSync(\"n.txt\", \"x\"); console.log(\"noded\")'", "noded"),
    ("npm", "mkdir -p pkg && cd pkg && npm init -y > /dev/null && npm pkg set scripts.hi='echo from npm' && npm "
    "run -s hi", "from npm"),
    ("npm", "cd pkg && npm install --no-audit --no-fund --offline ../copy 2>&1 | tail -1; npm config get cache", "npm"),
    ("curl", "curl -sS {url}", CANARY),
    ("curl", "curl -sS -o got.txt -w '%{{http_code}}' {url} && cat got.txt", "200"),
    ("perl", "perl -e 'print \"perl\\n\"'", "perl"),
    ("sqlite3", "sqlite3 s.db 'create table if not exists t(a); insert into t values (42); select a from t'", "42"),
    ("openssl", "openssl rand -hex 4 && openssl version", "SSL"),
    ("ssh", "ssh -V && ssh-keygen -q -t ed25519 -N '' -f key && rm key key.pub && echo keyed", "keyed"),
    ("tmux", "tmux -V", "tmux"),
]  # fmt: skip

# What Landlock cannot give (docs/sandbox.md): a /tmp and shared memory of one's own, other processes' absence.
OF_BUBBLEWRAP = [
    ("bash", "echo kept > /tmp/note && cat /tmp/note", "kept"),
    ("bash", "ls / && ls /tmp && ls -d /usr/bin", "usr"),
    ("python3", "python3 -c 'import multiprocessing as m; print(sum(m.Pool(2).map(abs, [-1, -2])))'", "3"),
    ("ps", "test $(ps -e -o pid= | wc -l) -lt 9 && echo alone", "alone"),
    ("tmux", "tmux -f /dev/null new-session -d 'sleep 5' && tmux ls && tmux kill-server", "1 windows"),
]


@pytest.mark.parametrize(("program", "command", "says"), [*COMMANDS, *OF_BUBBLEWRAP], ids=lambda value: str(value)[:40])
def test_everyday_commands_work(place: Place, program: str, command: str, says: str) -> None:
    """An everyday command ends well and does what it does outside."""
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program} here")
    if (program, command, says) in OF_BUBBLEWRAP and place.cell.settings.mode == "landlock":
        pytest.skip("Landlock cannot give this")

    done = place.cell.run(command.replace("{url}", place.url).replace("{{", "{").replace("}}", "}"))

    assert done.returncode == 0, done.stdout
    assert says in done.stdout
