"""The supervisor over small programs in the place of web processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from explorer.web.processes import supervisor
from explorer.web.processes.supervisor import CannotStartError, Supervisor
from tests.web.serving import eventually

SERVE = """
import os, sys
folder = sys.stdin.readline().strip()
open(f"{folder}/{os.getpid()}", "w").close()
print("ready", flush=True)
sys.stdin.read()
"""
"""Says where it was told that it is there, and ends with its stdin."""
DIE_AT_ONCE = """
import os, sys
open(f"{sys.stdin.readline().strip()}/{os.getpid()}", "w").close()
sys.exit(3)
"""
DIE_ONCE_READY = DIE_AT_ONCE.replace("sys.exit", 'print("ready", flush=True); sys.exit')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def pids(folder: Path) -> list[int]:
    """Of all that were ever started."""
    return [int(path.name) for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until(holds: Callable[[], bool]) -> None:
    await asyncio.to_thread(eventually, holds)


def supervised(
    script: str, folder: Path, during: Callable[[], Awaitable[None]], processes: int = 2
) -> tuple[signal.Signals, float]:
    """What ended them, and how long that took."""

    async def main() -> tuple[signal.Signals, float]:
        found = Supervisor([sys.executable, "-c", script])
        found.heed_signals()
        keeping = asyncio.create_task(found.keep([str(folder).encode() + b" " * number for number in range(processes)]))
        test = asyncio.create_task(during())
        await asyncio.wait({keeping, test}, return_when=asyncio.FIRST_COMPLETED)
        began = time.monotonic()
        if test.done():
            await test
        return await keeping, time.monotonic() - began

    return asyncio.run(main())


@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all(folder: Path, ended_by: signal.Signals) -> None:
    async def during() -> None:
        await until(lambda: len(pids(folder)) == 2)
        os.kill(os.getpid(), ended_by)

    assert supervised(SERVE, folder, during)[0] == ended_by
    assert not any(map(is_alive, pids(folder)))


def test_one_that_is_killed_is_replaced(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def during() -> None:
        await until(lambda: len(pids(folder)) == 2)
        killed, other = pids(folder)
        os.kill(killed, signal.SIGKILL)
        await until(lambda: len(pids(folder)) == 3)
        assert is_alive(other)
        assert not is_alive(killed)
        os.kill(os.getpid(), signal.SIGTERM)

    supervised(SERVE, folder, during)
    assert [record.getMessage() for record in caplog.records] == ["a web process ended (SIGKILL): another one in 0.2 s"]


def test_one_that_ends_again_and_again_is_started_ever_more_rarely(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE", 0.08)

    async def during() -> None:
        await until(lambda: len(caplog.records) >= 6)
        os.kill(os.getpid(), signal.SIGTERM)

    supervised(DIE_ONCE_READY, folder, during, 1)
    paused = [record.args[1] for record in caplog.records]  # type: ignore[index]
    assert paused == [0.02, 0.04, *[0.08] * (len(paused) - 2)]


def test_where_none_can_start_an_error_says_so(folder: Path) -> None:
    async def during() -> None:
        await asyncio.sleep(60)

    with pytest.raises(CannotStartError, match="no web process could start: status 3"):
        supervised(DIE_AT_ONCE, folder, during)


def test_a_command_that_is_not_there_is_told() -> None:
    async def main() -> None:
        await Supervisor(["/no/such/program"]).keep([b""])

    with pytest.raises(CannotStartError, match="No such file"):
        asyncio.run(main())


def test_one_that_does_not_come_up_is_ended_at_once(folder: Path) -> None:
    """Nothing is under way in it, and a signal might find it in the midst of its imports."""
    script = SERVE.replace('print("ready", flush=True)', "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)")

    async def during() -> None:
        await until(lambda: len(pids(folder)) == 2)
        os.kill(os.getpid(), signal.SIGTERM)

    assert supervised(script, folder, during)[1] < 20


def test_a_second_signal_ends_those_at_once_that_take_their_time(folder: Path) -> None:
    script = SERVE.replace("import os, sys", "import os, sys, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)")

    async def during() -> None:
        await until(lambda: len(pids(folder)) == 2)
        await asyncio.sleep(0.3)
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.2)

    assert supervised(script, folder, during)[0] == signal.SIGTERM
    assert not any(map(is_alive, pids(folder)))


def test_none_outlives_the_one_that_started_it(folder: Path) -> None:
    script = f"""
import asyncio, sys
from explorer.web.processes.supervisor import Supervisor
lines = [{str(folder).encode()!r} + b" " * number for number in range(2)]
asyncio.run(Supervisor([sys.executable, "-c", {SERVE!r}]).keep(lines))
"""
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        eventually(lambda: len(pids(folder)) == 2)
        process.kill()
    eventually(lambda: not any(map(is_alive, pids(folder))))
