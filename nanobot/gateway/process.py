"""The gateway as a process: its signals, its log, and how it is replaced by its next self.

SIGTERM and SIGINT end it in order, a second one at once.  SIGHUP reads the configuration again: a bad one is refused and the old
gateway goes on; for a good one it ends in order and becomes a new program with the same process id, so that nothing of the old
one is left, whatever hung in it.  On a terminal SIGHUP means that the terminal is gone, and ends it, too.  SIGABRT, by which the
watchdog of systemd ends what hangs, writes down where it hung.
"""

import asyncio
import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from nanobot.config.secrets import secrets_in
from nanobot.config.settings import Settings, find, load
from nanobot.errors import ConfigError, NanobotError
from nanobot.gateway import logs
from nanobot.gateway.daemon import Gateway
from nanobot.redaction import Redactor

log = logging.getLogger("nanobot.gateway")

Build = Callable[[Settings, Path | None], Gateway]


def run_gateway(
    config: Path | None,
    *,
    environ: Mapping[str, str],
    log_format: Literal["text", "json"] | None = None,
    build: Build | None = None,
) -> int:
    """Run the gateway until it is ended; return the exit code.

    Args:
        config: the configuration file; found as usual when None.
        environ: the environment.
        log_format: instead of the configured one.
        build: makes the gateway from settings and their file.

    Raises:
        ConfigError: the configuration cannot be used.
        SessionBusy: another gateway is running.
    """
    process = _Process(config, environ=environ, build=build or _builder(environ))
    gateway = process.load()
    chosen = gateway.settings.log
    if log_format is not None:
        chosen = chosen.model_copy(update={"format": log_format})
    logs.set_up(chosen, Redactor(secrets_in(gateway.settings)), environ=environ)
    try:
        return asyncio.run(process.serve(gateway))
    finally:
        if process.is_reloading:
            _become_new()


class _Process:
    """One gateway between its signals."""

    def __init__(self, config: Path | None, *, environ: Mapping[str, str], build: Build) -> None:
        self.is_reloading = False
        self._config = config
        self._environ = environ
        self._build = build
        self._ending = asyncio.Event()
        self._signals = 0

    def load(self) -> Gateway:
        """Read the configuration and build a gateway from it; nothing is begun."""
        path = find(self._config, self._environ)
        return self._build(load(path, self._environ), path)

    async def serve(self, gateway: Gateway) -> int:
        """Run this gateway; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end, signal.Signals(number), gateway)
        if sys.stderr is not None and sys.stderr.isatty():
            loop.add_signal_handler(signal.SIGHUP, self._end, signal.SIGHUP, gateway)
        else:
            loop.add_signal_handler(signal.SIGHUP, self._reload, gateway)
        faulthandler.enable()
        code = 0
        try:
            await gateway.run(
                self._ending,
                restarts_after=lambda: self.is_reloading,
                restart=lambda: self._start_over("/restart", gateway),
            )
        except* NanobotError as errors:
            self.is_reloading = False
            for error in _leaves(errors):
                log.error("%s", error)
                code = max(code, 2 if isinstance(error, ConfigError) else 1)
        except* Exception:  # a part of ours failed: the operator gets the cause, the service manager the exit code
            self.is_reloading = False
            log.exception("the gateway failed")
            code = code or 1
        log.info("ended")
        if gateway.has_abandoned:  # a task that cannot be cancelled would keep the event loop from closing
            self._leave(code)
        return code

    def _leave(self, code: int) -> None:
        logging.shutdown()
        if self.is_reloading:
            _become_new()
        os._exit(code)

    def _overdue(self) -> None:
        """Do without the order that did not come about in time."""
        if self.is_reloading:
            _become_new()
        os._exit(1)

    def _end(self, number: signal.Signals, gateway: Gateway) -> None:
        self._signals += 1
        if self._signals > 1:
            log.warning("%s again: ending at once; what is open will be resumed", number.name)
            logging.shutdown()
            os._exit(128 + number)
        log.info("%s: ending in order, in %g s at most", number.name, gateway.ending_s)
        self.is_reloading = False
        _limit(gateway.ending_s, self._overdue)
        self._ending.set()

    def _reload(self, gateway: Gateway) -> None:
        self._start_over("SIGHUP", gateway)

    def _start_over(self, asked_by: str, gateway: Gateway) -> str | None:
        """Begin to end in order, to become a new gateway; return why not, if the configuration is bad."""
        if self._ending.is_set():
            return "it is ending already"
        try:
            self.load()
        except NanobotError as error:
            log.error("%s: the new configuration is refused and the old one stays: %s", asked_by, error)
            return str(error)
        log.info("%s: the new configuration is good; starting over with it", asked_by)
        self.is_reloading = True
        _limit(gateway.ending_s, self._overdue)
        self._ending.set()
        return None


def _builder(environ: Mapping[str, str]) -> Build:
    return lambda settings, path: Gateway(settings, config_path=path, environ=environ)


def _leaves(errors: BaseExceptionGroup[NanobotError]) -> list[BaseException]:
    return [
        leaf for one in errors.exceptions for leaf in (_leaves(one) if isinstance(one, BaseExceptionGroup) else [one])
    ]


def _limit(seconds: float, then: Callable[[], object]) -> None:
    """Do this after so long, whatever hangs in the process: everything that counts is on disk."""
    timer = threading.Timer(seconds, then)
    timer.daemon = True
    timer.start()


def _become_new() -> None:
    """Replace this program by a new run of it.  Files and locks of the old one are closed by the system."""
    # Survives exec: a second one before the new handler stands must not end us.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
