"""`explorer serve --web-processes 2` as a user starts it, and its processes one at a time."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.queue.faults import children
from tests.web.serving import PATIENCE, eventually
from tests.web.test_metrics import Numbers, numbers

NO_QUEUE = "unix:///nowhere/queue.sock"
"""Runs wait until there is one; everything else goes on."""


@dataclass
class Several:
    """A server of several processes."""

    process: subprocess.Popen[str]
    port: int
    folder: Path
    """Where its temporary files are."""

    @property
    def pids(self) -> list[int]:
        """The processes that answer."""
        return sorted(children(self.process.pid))

    @property
    def tree(self) -> list[int]:
        """All processes of the server, with those that compile."""
        return [self.process.pid, *self.pids, *(worker for pid in self.pids for worker in children(pid))]

    def client(self, cookie: str = "") -> httpx.Client:
        """Makes a new connection for each request, which any process may take."""
        headers = {"Connection": "close"} | ({"Cookie": cookie} if cookie else {})
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=PATIENCE)

    @contextmanager
    def only(self, pid: int) -> Iterator[None]:
        """Have one process alone answer: the others are stopped, at a moment when they do not write what all share."""
        others = [other for other in self.pids if other != pid]
        try:
            _signal(others, signal.SIGSTOP)
            while not self._may_write():
                _signal(others, signal.SIGCONT)
                time.sleep(0.01)
                _signal(others, signal.SIGSTOP)
            yield
        finally:
            _signal(others, signal.SIGCONT)

    def _may_write(self) -> bool:
        """Whether nobody is writing to the file that the processes share."""
        with closing(sqlite3.connect(self._file, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            connection.execute("ROLLBACK")
            return True

    def numbers(self) -> Numbers:
        with self.client() as client:
            return numbers(client.get("/metrics").text)

    def told(self) -> Numbers:
        """The numbers of all, which each has told the others since: twice, for once may have been under way."""
        self._wait_until_told()
        self._wait_until_told()
        return self.numbers()

    def _wait_until_told(self) -> None:
        before = self._told_at()
        eventually(lambda: all(at > before[number] for number, at in self._told_at().items()))

    @property
    def _file(self) -> Path:
        (file,) = self.folder.glob("**/shared.db")
        return file

    def _told_at(self) -> dict[int, float]:
        """When each process, by its number, last told its numbers."""
        with closing(sqlite3.connect(self._file)) as connection:
            return dict(connection.execute("SELECT process, at FROM numbers"))

    def come_up(self, processes: int = 2) -> None:
        """Wait until so many are there, each with its process that compiles."""
        eventually(lambda: len(self.pids) == processes)
        eventually(lambda: self.numbers().get(("explorer_workers", "compile"), 0) >= processes)


@contextmanager
def several(folder: Path, queue: str = NO_QUEUE) -> Iterator[Several]:
    """Two processes, with their temporary files in a folder."""
    command = [sys.executable, "-m", "explorer.cli", "serve", "--port", "0", "--queue", queue, "--web-processes", "2"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
        # Ctrl-C ends it also where the tests run in a shell's background, which ignores it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        found = re.search(r":(\d+)/ ", process.stdout.readline())
        assert found is not None
        started = Several(process, int(found[1]), folder)
        try:
            started.come_up()
            yield started
        finally:
            process.kill()


def _signal(pids: list[int], signalled: signal.Signals) -> None:
    """Send processes a signal, and if it is to stop them, wait until each of their threads has."""
    for pid in pids:
        os.kill(pid, signalled)
    if signalled is signal.SIGSTOP:
        eventually(lambda: all(_is_stopped(thread) for pid in pids for thread in Path(f"/proc/{pid}/task").iterdir()))


def _is_stopped(thread: Path) -> bool:
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return True


def all_gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)
