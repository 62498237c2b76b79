"""The service under a real systemd: a user manager in a process namespace of its own, where one can be had."""

import asyncio
import os
import shutil
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SYSTEMD = "/lib/systemd/systemd"
_MANAGER = r"""
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/user/0
chmod 700 /run/user/0
export XDG_RUNTIME_DIR=/run/user/0
SYSTEMD_LOG_TARGET=console /lib/systemd/systemd --user >"$HOME/manager.log" 2>&1 &
for _ in $(seq 100); do [ -S /run/user/0/systemd/private ] && break; sleep 0.1; done
[ -S /run/user/0/systemd/private ] || { echo "no manager"; exit 77; }
show() { systemctl --user show nanobot -p ActiveState -p SubState -p StatusText -p NRestarts -p Result | tr '\n' ' '; echo; }
waits() {
    for _ in $(seq 150); do show | grep -q "$1" && return; sleep 0.1; done
    echo "never: $1"; show; cat "$HOME/manager.log"; exit 1
}

"""
_LIFE = r"""
"$PYTHON" -m nanobot service install
echo "installed: $(show)"
echo "status: $("$PYTHON" -m nanobot status | head -1)"
"$PYTHON" -m nanobot service status >/dev/null && echo "status code: 0"
before=$(systemctl --user show nanobot -p MainPID --value)
systemctl --user reload nanobot
sleep 0.5
waits "SubState=running"
echo "reloaded: same process $([ "$before" = "$(systemctl --user show nanobot -p MainPID --value)" ] && echo yes)"
kill -KILL "$before"
waits "NRestarts=1"
waits "ActiveState=active"
echo "killed: $(show)"
"$PYTHON" -m nanobot service stop
echo "stopped: $(show)"
"$PYTHON" -m nanobot service uninstall
[ -e "$HOME/.config/systemd/user/nanobot.service" ] || echo "uninstalled"
"""
_HANG = r"""
"$PYTHON" -m nanobot service install --no-start >/dev/null
mkdir -p "$HOME/.config/systemd/user/nanobot.service.d"
cat >"$HOME/.config/systemd/user/nanobot.service.d/test.conf" <<END
[Service]
ExecStart=
ExecStart=$PYTHON -m tests.fakes.loopback --config $HOME/.nanobot/config.yaml
WorkingDirectory=$ROOT
Environment=LOOPBACK=$HOME
WatchdogSec=2
RestartSec=0.2
StandardError=append:$HOME/unit.log
END
systemctl --user daemon-reload
"$PYTHON" -m nanobot service start
echo "started: $(show)"
sleep 3
echo "later: $(show)"
"$PYTHON" -c 'import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1] + "/in")
s.sendall(b"{\"text\": \"!block 60\", \"id\": \"1\"}\n"); s.recv(100)' "$HOME"
waits "NRestarts=1"
waits "ActiveState=active"
echo "hung: $(show)"
grep -q "in _get_into" "$HOME/unit.log" && echo "where: told"
"$PYTHON" -m nanobot service stop
"""


def _why_not() -> str | None:
    if not Path(SYSTEMD).exists() or shutil.which("systemctl") is None:
        return "systemd is not installed"
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return "only root can make the namespaces that a manager of our own needs"
    return None


async def test_the_service_runs_under_a_real_manager(tmp_path: Path) -> None:
    """Installed, ready, shown, reloaded in place, started again after a kill, stopped in order and uninstalled."""
    lines = await managed(tmp_path, _LIFE)

    assert "ActiveState=active" in lines["installed"]
    assert "StatusText=no channels; 0 Turns" in lines["installed"]
    assert lines["status"].startswith("nanobot ")
    assert lines["status code"] == "0"
    assert lines["reloaded"] == "same process yes"
    assert "ActiveState=active" in lines["killed"]
    assert "ActiveState=inactive" in lines["stopped"]
    assert "Result=success" in lines["stopped"]
    assert "uninstalled" in lines


async def test_the_watchdog_ends_what_hangs(tmp_path: Path) -> None:
    """A gateway that works is left alone; one whose event loop hangs is ended, says where it hung, and is started anew."""
    lines = await managed(tmp_path, _HANG)

    assert "NRestarts=0" in lines["started"]
    assert "ActiveState=active" in lines["later"]
    assert "NRestarts=0" in lines["later"]
    assert "NRestarts=1" in lines["hung"]
    assert "ActiveState=active" in lines["hung"]
    assert lines["where"] == "told"


async def managed(home: Path, script: str) -> dict[str, str]:
    """Run a script beside a user manager of its own; return the lines it wrote, by what stands before the colon."""
    if why := _why_not():
        pytest.skip(why)
    (home / ".nanobot").mkdir()
    (home / ".nanobot" / "config.yaml").write_text("gateway: {shutdown_grace_s: 1}\n")
    process = await asyncio.create_subprocess_exec(
        *("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--cgroup", "--kill-child"),
        *("bash", "-c", _MANAGER + script),
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHON": sys.executable, "ROOT": str(ROOT)},
        cwd=home,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        async with asyncio.timeout(50):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    said = out.decode()
    if process.returncode in (1, 77) and ("Operation not permitted" in err.decode() or "no manager" in said):
        pytest.skip(f"no manager can run here: {err.decode()[-200:]}{said[-200:]}")

    assert process.returncode == 0, said + err.decode()
    return {name: value for name, _, value in (line.partition(": ") for line in said.splitlines())}
