"""The escape suite: ways out of the sandbox, each tried in bubblewrap and in Landlock alone.  None may work."""

import os
import socket
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nanobot.agent.tools.sandbox.settings import Mode, SandboxSettings
from tests.fakes.cell import CANARY, Cell, telling, victim

KINDS: list[Mode] = ["bwrap", "landlock"]


@dataclass(frozen=True)
class Stage:
    """A cell with a victim, and sockets that tell secrets, for all cases of one kind of sandbox."""

    cell: Cell
    places: dict[str, str]


@pytest.fixture(scope="module", params=KINDS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One cell for all cases: what a case leaves in its workspace is its own."""
    root = tmp_path_factory.mktemp("c")
    cell = Cell(root, SandboxSettings(mode=request.param))
    state = cell.sandbox.state(cell.workspace)
    if state.kind != request.param:
        pytest.skip(state.text)
    shm = Path(f"/dev/shm/nanobot-test-{os.getpid()}")
    shm.write_text(CANARY)
    abstract = f"nanobot-test-{os.getpid()}"
    try:
        with (
            victim(cell.other) as pid,
            telling(str(root / "s")),
            telling(f"\0{abstract}"),
        ):
            places = {
                "config": str(cell.config),
                "data": str(cell.data),
                "home": str(cell.home),
                "other": str(cell.other),
                "root": str(root),
                "socket": str(root / "s"),
                "abstract": abstract,
                "victim": str(pid),
                "daemon": str(os.getpid()),
                "shm": str(shm),
            }
            yield Stage(cell, places)
    finally:
        shm.unlink()


def python(code: str) -> str:
    """Return a command that runs the code."""
    return "python3 - <<'PYTHON'\n" + textwrap.dedent(code).strip() + "\nPYTHON"


READING = {
    "the configuration": "cat {config} $(dirname {config})/*",
    "the service's keys": "cat {home}/.nanobot/nanobot.env",
    "keys": "cat {home}/.ssh/* ~/.ssh/* $HOME/.ssh/* ~root/.ssh/*",
    "session logs": "cat {data}/sessions/*; grep -r canary {data} {home} 2>/dev/null",
    "another session's results": "find {data}/blobs -type f -exec cat {{}} +",
    "another workspace": "cat {other}/diary.txt ../other-workspace/diary.txt",
    "another workspace's /tmp": "cat {data}/sandbox/0123456789abcdef/tmp/draft; cat /tmp/draft",
    "a spelled path": "f=$(printf '%s' {config} | sed s/x/x/); cat \"$f\"; cd ..; cat config.yaml",
    "a symlink": "ln -sf {config} l1; ln -sfn {home} l2; cat l1 l2/.bashrc l2/.ssh/id_ed25519",
    "a hard link": "ln {config} hard; cat hard",
    "/proc/self/root": "cat /proc/self/root{config} /proc/1/root{config} /proc/self/cwd/../config.yaml",
    "the victim's environment": "cat /proc/{victim}/environ /proc/{daemon}/environ /proc/*/environ /proc/*/task/*/environ",
    "the victim's root and directory": "cat /proc/{victim}/root{config} /proc/{victim}/cwd/diary.txt /proc/*/cwd/diary.txt",
    "the victim's memory": "grep -a canary /proc/{victim}/mem /proc/{victim}/maps; cat /proc/{victim}/fd/*",
    "its own environment": "env; cat /proc/self/environ /proc/$PPID/environ; set; bash -lc env",
    "shared memory": "cat {shm} /dev/shm/*",
    "descriptors": "ls -l /proc/self/fd; for f in /proc/self/fd/*; do timeout 1 cat $f/config.yaml; done",
    "symlinks that swap": python("""
        import os
        open("fair", "w").write("fair")
        for i in range(3000):
            for target in ("fair", "{config}"):
                try: os.unlink("swap")
                except OSError: pass
                os.symlink(target, "swap")
                try: print(open("swap").read())
                except OSError: pass
        """),
    "directories that swap": python("""
        import os, threading
        os.makedirs("d/.ssh", exist_ok=True); open("d/.ssh/id_ed25519", "w").write("fair")
        stop = False
        def swap():
            while not stop:
                try:
                    os.rename("d", "e"); os.symlink("{home}", "d"); os.unlink("d"); os.rename("e", "d")
                except OSError: pass
        thread = threading.Thread(target=swap); thread.start()
        for i in range(3000):
            try: print(open("d/.ssh/id_ed25519").read())
            except OSError: pass
        stop = True; thread.join()
        """),
    "a socket in the file system": python("""
        import socket
        s = socket.socket(socket.AF_UNIX); s.connect("{socket}"); print(s.recv(9999))
        """),
    "an abstract socket": python("""
        import socket
        s = socket.socket(socket.AF_UNIX); s.connect("\\0{abstract}"); print(s.recv(9999))
        """),
    "a socket through its directory": python("""
        import os, socket
        os.chdir("{root}"); s = socket.socket(socket.AF_UNIX); s.connect("s"); print(s.recv(9999))
        """),
    "ptrace": python("""
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        for pid in ({victim}, {daemon}):
            assert libc.ptrace(16, pid, 0, 0) != 0 and libc.ptrace(0x4206, pid, 0, 0) != 0, "canary-5f3a9c71"
        """),
    "process_vm_readv": python("""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        buffer = ctypes.create_string_buffer(8)
        vec = (ctypes.c_ulong * 2)(ctypes.addressof(buffer), 8)
        assert libc.process_vm_readv({victim}, vec, 1, vec, 1, 0) < 0, "canary-5f3a9c71"
        """),
    "namespaces of its own": "unshare -Ur cat {config}; unshare -Urm sh -c 'mount --bind / /mnt; cat /mnt{config}'; "
    "nsenter -t {victim} -a cat {config}; nsenter -t 1 -m cat {config}; bwrap --bind / / cat {config}; chroot "
    "/proc/1/root cat {config}",
    "mounts": "mount --bind {home} .; mount -t tmpfs x .; umount -l {root}; cat {config} ./.bashrc",
    "devices": "cat /dev/kmsg & sleep 0.1; kill %1; head -c 9 /dev/mem /dev/vda /dev/sda; mknod b b 254 0 && echo canary-5f3a9c71",
    "becoming somebody": "su -c 'cat {config}' root; sudo -n cat {config}; su -s /bin/cat nobody {config}",
}  # fmt: skip


@pytest.mark.parametrize("case", READING)
def test_nothing_outside_can_be_read(stage: Stage, case: str) -> None:
    """Whatever a command tries, what lies outside stays unread and unchanged."""
    before = stage.cell.outside()

    done = stage.cell.run(READING[case].format(**stage.places))

    assert CANARY not in done.stdout
    assert stage.cell.outside() == before


WRITING = {
    "plainly": "echo x > {root}/new; echo x >> {home}/.bashrc; mkdir {root}/d; rm -rf {other} {data}/sessions",
    "the system": "for d in /usr /etc /bin /opt /var /; do f=$d/nanobot-test; touch $f && rm $f && echo WROTE; done",
    "through links": "ln -sfn {root} up; echo x > up/new; ln -sf {home}/.bashrc rc; echo x >> rc; cp /etc/passwd up/p",
    "by truncating": python("import os; os.truncate('{home}/.bashrc', 0)"),
    "by renaming": "echo x > mine; mv mine {root}/mine; ln mine {root}/hard; mv {home}/.bashrc .",
    "by an archive": python("""
        import io, tarfile, warnings, zipfile
        warnings.simplefilter("ignore")
        with tarfile.open("a.tar", "w") as tar:
            for name in ("../../escaped", "{root}/escaped", "../../../../../../../../{root}/escaped"):
                info = tarfile.TarInfo(name); info.size = 1; tar.addfile(info, io.BytesIO(b"x"))
            link = tarfile.TarInfo("link"); link.type = tarfile.SYMTYPE; link.linkname = "{root}"; tar.addfile(link)
            info = tarfile.TarInfo("link/escaped"); info.size = 1; tar.addfile(info, io.BytesIO(b"x"))
        for member in tarfile.open("a.tar"):
            try: tarfile.open("a.tar").extract(member)
            except Exception as error: print(type(error))
        """)
    + "\ntar -xPf a.tar; tar -C / -xPf a.tar",
    "the sandbox's own files": "for f in {data}/sandbox/* {data}/sandbox/*/* /run/nanobot/*; do echo x >> $f; "
    "done; rm -rf {data}/sandbox/*",
    "sockets and signals": "kill -TERM {victim}; kill -0 {daemon} && echo SIGNALLED; kill -0 {victim} && echo SIGNALLED",
    "priorities and limits": "renice -n 19 -p {victim} && echo SIGNALLED; prlimit --pid {victim} --nofile=9 && echo SIGNALLED",
    "kernel settings": "for f in vm/swappiness kernel/core_pattern kernel/panic; do cat /proc/sys/$f > "
    "/proc/sys/$f && echo WROTE; done",
    "sysrq": python("import os; os.open('/proc/sysrq-trigger', os.O_WRONLY); print('WROTE')"),
    "cgroups": "mkdir /sys/fs/cgroup/x /sys/fs/cgroup/*/x && echo WROTE; ls /sys/fs/cgroup/*/release_agent && echo WROTE",
    "setuid": "cp /bin/true suid; chmod 4755 suid; chmod u+s suid; install -m 4755 /bin/true suid2; "
    + python("""
        import os
        try: os.close(os.open("suid3", os.O_CREAT | os.O_WRONLY, 0o4755))
        except OSError: pass
        """)
    + "\nfind . -perm /4000 | sed s/^/WROTE/",
    "setuid through an archive": python("""
        import io, tarfile
        with tarfile.open("s.tar", "w") as tar:
            info = tarfile.TarInfo("suid4"); info.mode = 0o4755; tar.addfile(info, io.BytesIO())
        """)
    + "\ntar -xpf s.tar; find . -perm /4000 | sed s/^/WROTE/",
    "owners": "echo x > o; chown 12345 o && echo WROTE; chown 12345 {home}/.bashrc && echo WROTE",
    "a terminal": python("""
        import fcntl, os, pty, termios
        for path in ("/dev/tty", "/dev/console", "/dev/tty1", "/dev/pts/0"):
            try: fcntl.ioctl(os.open(path, os.O_RDWR | os.O_NOCTTY), 0x5412, b"x"); print("WROTE")
            except OSError: pass
        try: fcntl.ioctl(pty.openpty()[1], 0x5412, b"x"); print("WROTE")
        except OSError: pass
        """),
    "other calls": python("""
        import ctypes, platform
        libc = ctypes.CDLL(None, use_errno=True)
        if platform.machine() == "x86_64":
            for number in (250, 248, 321, 425, 298, 304, 165, 272, 308, 323):
                if libc.syscall(number, 0x10000000 if number == 272 else 0, 0, 0, 0, 0) >= 0: print("WROTE", number)
            assert libc.syscall(435, 0, 0) == -1 and ctypes.get_errno() == 38
        """),
    "other families of sockets": python("""
        import socket
        for family in (17, 38, 40):
            try: socket.socket(family, socket.SOCK_DGRAM if family != 38 else 5); print("WROTE", family)
            except OSError: pass
        """),
}  # fmt: skip


@pytest.mark.parametrize("case", WRITING)
def test_nothing_outside_can_be_changed(stage: Stage, case: str) -> None:
    """Whatever a command tries, files and processes outside stay as they are."""
    before = stage.cell.outside()

    done = stage.cell.run(WRITING[case].format(**stage.places))

    assert stage.cell.outside() == before
    assert not [line for line in done.stdout.splitlines() if line.startswith(("WROTE", "SIGNALLED"))]
    os.kill(int(stage.places["victim"]), 0)


def test_the_command_is_no_root(stage: Stage) -> None:
    """No capability is left, and none can come back."""
    done = stage.cell.run("grep -E 'Cap|NoNewPrivs' /proc/self/status")

    values = dict(line.split(":\t") for line in done.stdout.splitlines())
    assert values.pop("NoNewPrivs") == "1"
    assert {int(value, 16) for name, value in values.items() if name != "CapBnd" or os.getuid() == 0} == {0}


def test_hooks_of_the_workspace_can_be_written(stage: Stage) -> None:
    """Not an escape, and said in docs/sandbox.md: the workspace is the command's, its git hooks too."""
    done = stage.cell.run("mkdir -p .git/hooks && echo 'echo hooked' > .git/hooks/pre-commit && echo fine")

    assert done.stdout == "fine\n"


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_network_nothing_is_reached(kind: Mode, tmp_path: Path) -> None:
    """``network: off`` is off: no loopback of this machine, no name, no datagram."""
    cell = Cell(tmp_path, SandboxSettings(mode=kind, network="off"))
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener,
        telling(("127.0.0.1", 0), family=socket.AF_INET) as web,
    ):
        listener.bind(("127.0.0.1", 0))
        listener.setblocking(False)
        code = f"""
            import socket
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"out", ("127.0.0.1", {listener.getsockname()[1]}))
            """
        done = cell.run(
            f"curl -s -m 3 http://127.0.0.1:{web.getsockname()[1]}/\n{python(code)}\ngetent hosts example.org"
        )
        with pytest.raises(BlockingIOError):
            listener.recv(9)

    assert CANARY not in done.stdout
    assert not cell.sandbox.reaches_out


def test_a_link_in_the_place_of_what_is_opened_is_refused(tmp_path: Path) -> None:
    """A directory that may be written and became a link opens nothing else."""
    (tmp_path / "more").mkdir()
    cell = Cell(tmp_path, SandboxSettings(write=(str(tmp_path / "more"),)))
    assert cell.run("echo x > ../../../more/x").returncode == 0
    (tmp_path / "more" / "x").unlink()
    (tmp_path / "more").rmdir()
    (tmp_path / "more").symlink_to(cell.home)

    with pytest.raises(Exception, match="became a link"):
        cell.run("cat ../../../more/.bashrc")
