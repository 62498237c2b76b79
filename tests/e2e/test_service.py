"""The service under a real systemd: a user manager in a process namespace of its own, where one can be had."""

import asyncio
import os
import shutil
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

SYSTEMD = "/lib/systemd/systemd"
_SCRIPT = r"""
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


def _why_not() -> str | None:
    if not Path(SYSTEMD).exists() or shutil.which("systemctl") is None:
        return "systemd is not installed"
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return "only root can make the namespaces that a manager of our own needs"
    return None


async def test_the_service_runs_under_a_real_manager(tmp_path: Path) -> None:
    """Installed, ready, shown, reloaded in place, started again after a kill, stopped in order and uninstalled."""
    if why := _why_not():
        pytest.skip(why)
    (tmp_path / ".nanobot").mkdir()
    (tmp_path / ".nanobot" / "config.yaml").write_text("gateway: {shutdown_grace_s: 1}\n")
    process = await asyncio.create_subprocess_exec(
        *("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--cgroup", "--kill-child", "bash", "-c", _SCRIPT),
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHON": sys.executable},
        cwd=tmp_path,
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
    if process.returncode in (1, 77) and ("Operation not permitted" in err.decode() or b"no manager" in out):
        pytest.skip(f"no manager can run here: {err.decode()[-200:]}{out.decode()[-200:]}")
    said = out.decode()

    assert process.returncode == 0, said + err.decode()
    lines = {name: value for name, _, value in (line.partition(": ") for line in said.splitlines())}
    assert "ActiveState=active" in lines["installed"]
    assert "StatusText=no channels; 0 Turns" in lines["installed"]
    assert lines["status"].startswith("nanobot ")
    assert lines["status code"] == "0"
    assert lines["reloaded"] == "same process yes"
    assert "ActiveState=active" in lines["killed"]
    assert "ActiveState=inactive" in lines["stopped"]
    assert "Result=success" in lines["stopped"]
    assert said.endswith("uninstalled\n")
