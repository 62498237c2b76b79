"""``nanobot pair``: let somebody in who was given a code."""

import time
from pathlib import Path

from nanobot.bus.events import Role
from nanobot.cli.streams import write_out
from nanobot.errors import MisuseError


def approve(code: str, config: Path | None, *, as_owner: bool) -> int:
    """Approve a code in whatever channel gave it; a running gateway notices.  Return the exit code."""
    from nanobot.channels.telegram.files import ChannelState, state_path
    from nanobot.config.environment import environment
    from nanobot.config.settings import find, load

    settings = load(find(config, environment()))
    role: Role = "owner" if as_owner else "user"
    pairing = [name for name, channel in settings.channels.items() if channel.pairing]
    if not pairing:
        raise MisuseError("no channel has 'pairing: true' in the config, so nobody was given a code")
    for name in pairing:
        state = ChannelState(state_path(settings.data_dir, name))
        state.load()
        if not any(one.code == code.strip().upper() for one in state.pairing.open):
            continue
        sender = state.change(lambda newest: newest.approve(code, now=time.time(), role=role))
        if sender is not None:
            write_out(f"{sender} may talk to {name} now, as {role}.\n")
            return 0
    raise MisuseError("there is no such code, or it is too old; the bot gives a new one")
