"""Whether the configured directories can be what they are meant to be, and whether others can look into them."""

import os
import shlex
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from nanobot.errors import ConfigError
from nanobot.redaction import MIN_SECRET_CHARS

_NOT_FOR_FILES = (Path("/proc"), Path("/sys"))  # of the kernel; even root makes nothing there


def directory_fault(path: Path) -> str | None:
    """Say why there can be no directory of ours, without the path, or return None.  What may not be looked at may be right."""
    try:
        for at in (path, *path.parents):
            try:
                kind = at.stat().st_mode
            except (FileNotFoundError, NotADirectoryError):
                if at.is_symlink():
                    return "this is, or lies below, a link to something that is missing; name a directory"
                continue
            if not stat.S_ISDIR(kind):
                return "this is a file, or lies below one; name a directory"
            break
        real = Path(os.path.realpath(path))
    except PermissionError:
        return None
    except ValueError:
        return "this holds a character that no path has"
    except OSError as error:
        return f"this cannot be a directory: {error.strerror or type(error).__name__}"
    if any(real == place or place in real.parents for place in _NOT_FOR_FILES):
        return "this is a place of the kernel, which keeps no files; name a directory on a disk"
    return None


def file_fault(path: Path) -> str | None:
    """Say why a file of ours cannot be there, without the path, or return None."""
    fault = directory_fault(path.parent)
    return fault or ("this is a directory; name a file" if path.is_dir() else None)


def overlap_fault(workspace: Path, data_dir: Path) -> str | None:
    """Say why tools could not work in this workspace, or return None: the data directory is closed to them."""
    work, data = Path(os.path.realpath(workspace)), Path(os.path.realpath(data_dir))
    if work == data or data in work.parents:
        return "this is, or lies in, data_dir, which is closed to tools; name a directory beside it"
    return None


def is_open(path: Path) -> bool:
    """Whether others than the owner may look at what is there."""
    try:
        return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)
    except OSError:
        return False


def exposures(config: Path | None, data_dir: Path, secrets: Collection[str]) -> Iterator[str]:
    """Yield what lies open to others on this machine, each with the command that closes it.

    A configuration without secrets in it, only with names of variables, may be read by anybody.
    """
    if config is not None and is_open(config):
        text = config.read_text("utf-8", "replace")
        if any(secret in text for secret in secrets if len(secret) >= MIN_SECRET_CHARS):
            yield f"others on this machine can read {config}, which holds secrets: chmod 600 {shlex.quote(str(config))}"
    if is_open(data_dir):
        yield f"others on this machine can look into {data_dir}: chmod 700 {shlex.quote(str(data_dir))}"


def prepare(workspace: Path, data_dir: Path) -> None:
    """Make the workspace, and the data directory, which is for its owner's eyes only.

    Raises:
        ConfigError: names the key whose directory cannot be used, and why.
    """
    for key, path in (("workspace", workspace), ("data_dir", data_dir)):
        if fault := directory_fault(path):
            raise ConfigError(f"{key}: {path}: {fault}")
    try:
        workspace.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ConfigError(
            f"workspace: {workspace} cannot be made: {why}; name a directory that you may write to"
        ) from None
    there = next((at for at in (data_dir, *data_dir.parents) if os.path.exists(at)), data_dir)
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(f"data_dir: {there} cannot be written; name a directory that you may write to")
    with suppress(OSError):  # who uses it first says what is wrong
        data_dir.parent.mkdir(parents=True, exist_ok=True)
        data_dir.mkdir(exist_ok=True, mode=0o700)
