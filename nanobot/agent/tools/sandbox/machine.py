"""What a sandbox shows of this machine, and the directories that a workspace's commands have to themselves.

System directories, and of ``/etc`` what programs need to run: never passwords, host keys or private keys, which root could read.
"""

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from nanobot.agent.tools.sandbox.policy import HOME, Machine, Places

_SYSTEM = ("/usr", "/opt", "/nix/store", "/gnu/store", "/snap", "/var/lib/dpkg", "/sys/devices/system/cpu")
_MERGED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# fmt: off
_ETC = (
    "ImageMagick-6", "ImageMagick-7", "R", "alternatives", "bash_completion.d", "ca-certificates",
    "ca-certificates.conf", "crypto-policies", "debian_version", "default/locale", "emacs", "fonts", "gitattributes",
    "gitconfig", "gnutls", "group", "host.conf", "hostname", "inputrc", "java", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "ld.so.preload", "locale.conf", "localtime", "lsb-release", "magic", "magic.mime", "mailcap",
    "mime.types", "npmrc", "nsswitch.conf", "os-release", "papersize", "passwd", "perl", "php", "pip.conf",
    "pki/ca-trust", "pki/java", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf", "profile", "protocols",
    "python3", "rpc", "services", "shells", "skel", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo", "texmf",
    "timezone", "vim", "wgetrc", "xdg", "xml",
)
_PRIVATE = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".config/gcloud", ".config/gh",
    ".mozilla", ".local/share/keyrings",
)
# fmt: on
_RESOLVING = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/gai.conf",
    "/etc/networks",
    "/etc/ssh/ssh_config",
    "/etc/ssh/ssh_known_hosts",
)
_TIDY_S = 7 * 86_400
_TIDY_MOST = 10_000


def look(*, home: str | None) -> Machine:
    """Return what this machine has of what commands need.  Looks at some hundred paths; takes about a millisecond."""
    links = tuple((os.readlink(path), path) for path in _MERGED if os.path.islink(path))
    linked = {path for _, path in links}
    etc = [f"/etc/{name}" for name in _ETC]
    for path in tuple(etc):
        target = os.path.realpath(path)
        if os.path.islink(path) and target.startswith("/usr/"):
            links += ((target, path),)
            etc.remove(path)
    system = [*_SYSTEM, *(path for path in _MERGED if path not in linked)]
    return Machine(
        system=_readable([*system, *_outside(_interpreter(), system), *etc]),
        links=links,
        resolving=_readable(_RESOLVING),
        private=tuple(os.path.join(home, name) for name in _PRIVATE if os.path.isdir(os.path.join(home, name)))
        if home
        else (),
        is_root=os.getuid() == 0,
        uid=os.getuid(),
        gid=os.getgid(),
    )


def place(workspace: Path, data_dir: Path, *, uid: int, gid: int) -> Places:
    """Return the workspace's own home and /tmp, made if they are not there, with what nobody touched for a week removed from /tmp.

    Raises:
        OSError: they cannot be made.
    """
    real = os.path.realpath(workspace)
    root = Path(os.path.realpath(data_dir)) / "sandbox"
    own = root / hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
    for path in (root, own, own / "home", own / "tmp"):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    users = (
        f"root:x:0:0:root:/nonexistent:/bin/sh\nagent:x:{uid}:{gid}:agent:{HOME}:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n"
    )
    _put(root / "passwd", users.encode())
    _put(root / "group", f"root:x:0:\nagent:x:{gid}:\nnogroup:x:65534:\n".encode())
    _tidy(own / "tmp", before=time.time() - _TIDY_S)
    for path in root.iterdir():  # what is in use is touched with each command, and made anew if it is gone
        with contextlib.suppress(OSError):
            if path.is_file() and path.stat().st_mtime < time.time() - _TIDY_S:
                path.unlink()
    return Places(workspace=real, home=str(own / "home"), tmp=str(own / "tmp"), identity=str(root))


def keep(content: bytes, directory: Path) -> str:
    """Write a file that is named after its content, if it is not there; return its path.

    Raises:
        OSError: it cannot be written.
    """
    path = directory / hashlib.sha256(content).hexdigest()[:24]
    if not path.exists():
        _put(path, content)
    os.utime(path)  # in use: what is not used for long goes
    return str(path)


def _interpreter() -> tuple[str, ...]:
    """Return where this Python lives, so that commands have it too, and the launcher runs."""
    return tuple(dict.fromkeys(os.path.realpath(path) for path in (sys.base_prefix, sys.base_exec_prefix, sys.prefix)))


def _outside(paths: Iterable[str], trees: Iterable[str]) -> list[str]:
    known = list(trees)
    return [path for path in paths if not any(Path(path).is_relative_to(tree) for tree in known)]


def _readable(paths: Iterable[str]) -> tuple[str, ...]:
    """Return those that are there and may be looked at."""
    return tuple(
        path for path in dict.fromkeys(paths) if os.access(path, os.R_OK | (os.X_OK if os.path.isdir(path) else 0))
    )


def _put(path: Path, content: bytes) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)


def _tidy(directory: Path, *, before: float) -> None:
    """Remove what nobody touched since.  By descriptors, so that a link put in the way meanwhile leads nowhere."""
    left = _TIDY_MOST
    for _, directories, files, fd in os.fwalk(directory, topdown=False, follow_symlinks=False):
        for name, remove in (*((one, os.unlink) for one in files), *((one, os.rmdir) for one in directories)):
            left -= 1
            if left < 0:
                return
            with contextlib.suppress(OSError):  # not empty, gone, or not ours
                info = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if max(info.st_mtime, info.st_ctime) < before:
                    remove(name, dir_fd=fd)
