"""`explorer serve --web-processes N`: binds the address, says where the page is, and has others serve."""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from explorer.web import limits
from explorer.web.processes.supervisor import CannotStartError, Supervisor
from explorer.web.server import ServeError, Settings, listen, new_server, say_where
from explorer.web.shared.among import Among


@dataclass(frozen=True)
class Told:
    """What a process is told that is one of several: the file descriptor of the socket that all listen on as well."""

    settings: Settings
    number: int
    processes: int
    folder: Path
    secret: str
    listener: int

    @property
    def among(self) -> Among:
        return Among(self.number, self.processes, self.folder, bytes.fromhex(self.secret))


TOLD = TypeAdapter(Told)
"""Writes it as JSON, and reads that."""
_COMMAND = sys.executable, "-m", "explorer.web.processes.child"


def serve_several(settings: Settings, processes: int) -> None:
    """Serve in so many processes until asked to end. Raises ServeError as `serve` does, or where no process starts."""
    if not 1 <= processes <= limits.MOST_PROCESSES:
        raise ServeError(f"--web-processes takes a number from 1 to {limits.MOST_PROCESSES}, not {processes}")
    if not settings.queue:
        raise ServeError(
            "--web-processes needs --queue: without one, runs wait in the memory of the one process that does them"
        )
    like_each = new_server(settings)  # what is wrong with the settings is said once and here, not by each process
    instructor = like_each.classroom.instructor
    if instructor is not None:
        settings = replace(settings, wanted=replace(settings.wanted, token=instructor.token))
    with listen(settings.host, settings.port) as listener:
        say_where(settings, like_each, listener)
        ended_by = asyncio.run(_supervise(settings, processes, listener))
    signal.raise_signal(ended_by)  # which ends this process as it would have without any others


async def _supervise(settings: Settings, processes: int, listener: socket.socket) -> signal.Signals:
    """Have processes serve until a signal ends them, which is returned."""
    supervisor = Supervisor(_COMMAND, pass_fds=[listener.fileno()])
    supervisor.heed_signals()
    with tempfile.TemporaryDirectory(prefix="explorer-web-", ignore_cleanup_errors=True) as folder:
        secret = secrets.token_hex(32)
        told = [
            Told(settings, number, processes, Path(folder), secret, listener.fileno()) for number in range(processes)
        ]
        try:
            return await supervisor.keep([TOLD.dump_json(each) for each in told])
        except CannotStartError as error:
            raise ServeError(str(error)) from None
