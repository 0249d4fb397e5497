"""Keeps processes there: starts them, replaces those that end, and ends them when it is asked to."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

from explorer.web import limits

READY = b"ready\n"
"""What a process says once it serves."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 30.0
"""Before a process that ended is replaced: twice as long each time that one ends soon."""
_SOON = 10.0
_END_SECONDS = limits.STOP_SECONDS + 15.0
"""Within which a process has ended that was asked to."""


class CannotStartError(Exception):
    """Not one process came up; the message says so."""


class Supervisor:
    """Starts one command as often as there are lines to tell: a process reads its own, and ends when its stdin does, so
    that none outlives this one."""

    def __init__(self, command: Sequence[str], pass_fds: Sequence[int] = ()) -> None:
        self._command = command
        self._pass_fds = pass_fds
        self._processes: dict[asyncio.subprocess.Process, bool] = {}
        """Those that live, and whether they have come up."""
        self._has_come_up = False
        self._failed: set[bytes] = set()
        """Those of which one has ended before any came up."""
        self._signals: list[signal.Signals] = []
        self._asked_to_end = asyncio.Event()

    def heed_signals(self) -> None:
        """From now on SIGTERM and SIGINT end the processes, not this one."""
        for heeded in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(heeded, self._pass_on, heeded)

    async def keep(self, lines: Sequence[bytes]) -> signal.Signals:
        """Keep a process for each line until a signal ends them; returns that. Raises CannotStartError."""
        keeping = [asyncio.create_task(self._keep_one(line, len(lines))) for line in lines]
        asked = asyncio.create_task(self._asked_to_end.wait())
        try:
            await asyncio.wait([*keeping, asked], return_when=asyncio.FIRST_COMPLETED)
            if not self._signals:  # nothing else ends one of them but a fault
                await asyncio.gather(*(task for task in keeping if task.done()))
            await asyncio.wait(keeping, timeout=_END_SECONDS)
            return self._signals[0]
        finally:
            for task in [*keeping, asked]:
                task.cancel()
            await asyncio.gather(*keeping, asked, return_exceptions=True)

    def _pass_on(self, heeded: signal.Signals) -> None:
        """End what has not come up, and send the others a signal: a second one ends them at once, whichever it is."""
        self._signals.append(signal.SIGINT if self._signals else heeded)
        for process, serves in self._processes.items():
            with suppress(ProcessLookupError):
                process.send_signal(self._signals[-1] if serves else signal.SIGKILL)
        self._asked_to_end.set()

    async def _keep_one(self, line: bytes, of: int) -> None:
        pause = FIRST_PAUSE
        while not self._signals:
            began = monotonic()
            how = await self._run_one(line)
            if self._signals:
                return
            if not self._has_come_up:
                self._failed.add(line)
            if len(self._failed) == of and not self._has_come_up:
                raise CannotStartError(f"no web process could start: {how}")
            pause = FIRST_PAUSE if monotonic() - began > _SOON else min(2 * pause, LONGEST_PAUSE)
            logging.getLogger(__name__).warning("a web process ended (%s): another one in %.1f s", how, pause)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked_to_end.wait(), pause)

    async def _run_one(self, line: bytes) -> str:
        """Start a process and wait until it has ended: how it did."""
        pipe = asyncio.subprocess.PIPE
        try:
            # In a session of its own, so that Ctrl-C in a terminal comes to it through this process alone.
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=pipe, stdout=pipe, pass_fds=self._pass_fds, start_new_session=True
            )
        except OSError as error:
            return error.strerror or "it could not be started"
        assert process.stdin is not None
        assert process.stdout is not None
        self._processes[process] = False
        try:
            if self._signals:  # which came while it was being started
                process.kill()
            process.stdin.write(line + b"\n")
            if await process.stdout.readline() == READY:
                self._processes[process] = self._has_come_up = True
            return _how_it_ended(await process.wait())
        finally:
            del self._processes[process]
            if process.returncode is None:
                process.kill()
                await process.wait()


def _how_it_ended(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"status {status}"
