"""One of several processes of a server: `python -m explorer.web.processes.child`, which is told on stdin what to serve,
and says on stdout when it does. Where stdin ends, the one that started it is gone: it ends too."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from contextlib import suppress
from io import FileIO
from pathlib import Path

from explorer.web.processes.several import TOLD
from explorer.web.processes.supervisor import READY
from explorer.web.server import ServeError, Server, new_server, prepare_process

_LAST_SECONDS = 10.0
"""How long it may take to end by itself."""


def main() -> None:
    # Not by `sys.stdin`, whose lock a thread that waits for its end would hold when Python ends.
    stdin = FileIO(0, closefd=False)
    told = TOLD.validate_json(stdin.readline())
    _use_own_folder(told.folder)
    try:
        server = new_server(told.settings, told.among)
    except ServeError as error:  # what was right when the first process looked
        sys.exit(f"explorer: {error}")
    prepare_process()
    with socket.socket(fileno=told.listener) as listener, suppress(KeyboardInterrupt), server.capture_signals():
        threading.Thread(target=_end_with_stdin, args=[stdin, told.folder], name="stdin", daemon=True).start()
        threading.Thread(target=_say_when_ready, args=[server], name="ready", daemon=True).start()
        server.run(sockets=[listener])


def _use_own_folder(shared: Path) -> None:
    """Have workers keep temporary files apart: they may write where those are, and are not to touch what is shared."""
    folder = shared / "tmp"
    folder.mkdir(mode=0o700, exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def _say_when_ready(server: Server) -> None:
    while not server.started:
        time.sleep(0.02)
    with suppress(BrokenPipeError):  # who is told is gone
        os.write(1, READY)


def _end_with_stdin(stdin: FileIO, shared: Path) -> None:
    stdin.read()
    shutil.rmtree(shared, ignore_errors=True)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_LAST_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main()
