"""``nanobot status``: what a running gateway says of itself."""

import json
from pathlib import Path
from typing import Any, cast

from nanobot.cli.streams import write_out

RUNNING, NOT_RUNNING = 0, 3  # 3 as in the LSB's "program is not running"


def show_status(config: Path | None, *, as_json: bool) -> int:
    """Print how the gateway of this configuration is; return 0 if it is well, 1 if not, 3 if there is none."""
    from nanobot.config.environment import environment
    from nanobot.config.settings import find, load
    from nanobot.gateway.status import ask, holder

    environ = environment()
    data_dir = load(find(config, environ), environ).data_dir
    found = ask(data_dir)
    if found is None:
        pid = holder(data_dir)
        text = (
            f"A gateway (process {pid}) holds {data_dir} and does not answer: it is starting, ending or hung. "
            "`nanobot service logs` may tell; `nanobot service restart` starts it anew."
            if pid is not None
            else f"No gateway runs with {data_dir}. Start one: `nanobot service start`, or `nanobot gateway` here."
        )
        write_out((json.dumps({"running": pid is not None, "answers": False, "pid": pid}) if as_json else text) + "\n")
        return 1 if pid is not None else NOT_RUNNING
    write_out((json.dumps({"running": True, "answers": True, **found}) if as_json else render(found)) + "\n")
    return RUNNING if found.get("alive") else 1


def render(status: object) -> str:
    """Return the status for reading, a fact a line.  Pure."""
    facts = cast("dict[str, Any]", status)  # Any: JSON of our own making
    lines = [
        f"nanobot {facts['version']}, process {facts['pid']}, up {duration(facts['uptime_s'])}",
        f"Model: {', '.join(facts['models'])}",
        f"Config: {facts['config'] or 'none'}    Data: {facts['data_dir']}",
        f"Sandbox: {facts['commands']}",
    ]
    lines += [_channel_line(channel) for channel in facts["channels"]] or ["Channels: none are configured"]
    lines += [str(server["line"]) for server in facts.get("mcp", ())]
    lines += [f"Running: {turn['session']} ({turn['doing']})" for turn in facts["turns"]] or ["Running: nothing"]
    lines.append(f"Waiting: {facts['pending']} messages")
    if facts.get("jobs"):
        lines.append(f"Background jobs: {facts['jobs']}")
    if facts["health_url"]:
        lines.append(f"Health: {facts['health_url']}/healthz")
    lines += [f"Problem: {problem}" for problem in facts["problems"]] or ["Problems: none"]
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """Return a duration in its two largest units: ``3 d 4 h``, ``12 s``."""
    left = int(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def _channel_line(channel: dict[str, Any]) -> str:
    line = f"Channel {channel['name']}: {channel['state']} for {duration(channel['for_s'])}"
    if channel["detail"]:
        line += f" ({channel['detail']})"
    if channel["restarts"]:
        line += f", started again {channel['restarts']} times"
    if channel["owed"]:
        line += f", {channel['owed']} answers owed"
    return line
