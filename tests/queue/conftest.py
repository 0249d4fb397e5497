"""Queues for tests: a real server on a socket of its own where one is installed, and one that is pretended."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from explorer.queue.broker import Broker, connect

PROGRAM = shutil.which("valkey-server") or shutil.which("redis-server")


@dataclass
class Server:
    """A server that keeps what it has been told, also when it is killed."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.folder}/queue.sock"

    def start(self) -> None:
        assert PROGRAM is not None
        kept = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        where = ["--port", "0", "--unixsocket", f"{self.folder}/queue.sock", "--dir", str(self.folder)]
        self.process = subprocess.Popen([PROGRAM, *where, *kept], stdout=subprocess.DEVNULL)
        end = time.monotonic() + 30
        while not self._answers():
            assert time.monotonic() < end, "the server never came up"
            time.sleep(0.02)

    def _answers(self) -> bool:
        import redis

        try:
            return bool(redis.Redis(unix_socket_path=f"{self.folder}/queue.sock").ping())
        except redis.exceptions.ConnectionError:
            return False

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        (self.folder / "queue.sock").unlink(missing_ok=True)


@pytest.fixture(scope="session")
def started() -> Iterator[Server]:
    if PROGRAM is None:
        pytest.skip("needs valkey-server or redis-server, which is not on this machine")
    # A socket's path may have 107 characters, which pytest's own folders may use up.
    folder = Path(tempfile.mkdtemp(prefix="queue-"))
    server = Server(folder)
    server.start()
    yield server
    server.kill()
    shutil.rmtree(folder)


@pytest.fixture
def server(started: Server) -> Server:
    """A real server, with nothing in it."""
    import redis

    redis.Redis.from_url(started.url).flushall()
    return started


@pytest.fixture(params=["real", pytest.param("pretended", marks=[pytest.mark.sweep] if PROGRAM else [])])
def new_broker(request: pytest.FixtureRequest) -> Callable[..., Broker]:
    """Makes brokers of one queue, to be used inside one event loop. Where there is a real server, the pretended one,
    which proves less, is left to the sweep."""
    client: Callable[[], Any]
    if request.param == "real":
        url = request.getfixturevalue("server").url

        def client() -> Any:
            return connect(url)
    else:
        import fakeredis

        pretended = fakeredis.FakeServer()

        def client() -> Any:
            return fakeredis.FakeAsyncRedis(server=pretended, decode_responses=True, protocol=2)

    return lambda longest=600, of_one=20: Broker(client(), longest, of_one)
