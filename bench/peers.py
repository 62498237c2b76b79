"""Install the peers, each into an environment of its own under ``.bench/``; say how large each is.  ``make bench-peers``."""

import subprocess
import sys
from pathlib import Path

from bench.contest import PEER_LIST, PEERS, ROOT


def main() -> int:
    """Install what is not there yet; 1 if something could not be."""
    failed = False
    for peer in PEER_LIST:
        place = PEERS / peer.name
        if not peer.is_installed:
            sys.stdout.write(f"installing {peer.package}\n")
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
            pip = [str(place / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            failed |= subprocess.run([*pip, peer.package], check=False).returncode != 0
    return int(failed)


def size(place: Path) -> tuple[float, int]:
    """Return an environment's size in MB, byte code included, and how many distributions it holds."""
    libraries = next((place / "lib").glob("python*/site-packages"))
    own = {"pip", "setuptools"}
    entries = [path for path in libraries.iterdir() if path.name.partition("-")[0] not in own]
    files = [file for path in entries for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    bytes_in_all = sum(file.stat().st_size for file in files)
    return bytes_in_all / 1e6, sum(path.name.endswith(".dist-info") for path in entries)


def install_fresh(place: Path) -> None:
    """Install nanobot without extras into a new environment."""
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    pip = [str(place / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, str(ROOT)], check=True)


if __name__ == "__main__":
    sys.exit(main())
