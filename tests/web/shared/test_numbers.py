"""The numbers of several processes, added up."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from explorer.web import limits
from explorer.web.monitoring import several
from explorer.web.monitoring.memory import bytes_of_several
from explorer.web.monitoring.metrics import Metrics
from explorer.web.monitoring.several import SharedNumbers
from explorer.web.shared.file import SharedFile
from tests.web.test_metrics import Numbers, numbers


class Process:
    """What one process counts, and a gauge."""

    def __init__(self, path: Path, number: int) -> None:
        self.metrics = Metrics()
        self.pages = 0
        self.file = SharedFile(path)
        self.numbers = SharedNumbers(self.file, number, self.own)

    def own(self, memory: Mapping[str, int]) -> Iterable[Metric]:
        yield from self.metrics.registry.collect()
        yield GaugeMetricFamily("explorer_pages", "Open pages.", value=self.pages)
        yield GaugeMetricFamily("explorer_memory_bytes", "Memory.", value=memory.get("server", 0))

    async def told(self) -> Numbers:
        registry = CollectorRegistry()
        registry.register(await self.numbers.of_all({"server": 7}))
        return numbers(generate_latest(registry).decode())


@asynccontextmanager
async def process_on(path: Path, number: int) -> AsyncIterator[Process]:
    process = Process(path, number)
    writing = asyncio.create_task(process.numbers.keep_writing())
    try:
        yield process
    finally:
        writing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await writing
        await process.file.close()


async def told_in_time(process: Process, expected: float, *key: str) -> None:
    async with asyncio.timeout(60):
        while (await process.told()).get(key) != expected:
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NUMBERS_SECONDS", 0.02)


REQUESTS = "explorer_requests_total", "/x", "200"


def test_whoever_is_asked_tells_the_sums_of_all(tmp_path: Path) -> None:
    async def main() -> None:
        async with process_on(tmp_path / "db", 0) as one, process_on(tmp_path / "db", 1) as other:
            for process, times in ((one, 2), (other, 3)):
                for _ in range(times):
                    process.metrics.answered("/x", 200)
                process.metrics.compiled({"event": "failed", "kind": "timeout"})
                stage = {"name": "loops", "available": True, "stopped": False, "ms": 5.0 * times}
                process.metrics.compiled({"event": "result", "ok": True, "stages": [stage]})
            one.pages, other.pages = 4, 5
            for process in (one, other):
                await told_in_time(process, 5, *REQUESTS)
                await told_in_time(process, 9, "explorer_pages")
                now = await process.told()
                assert now["explorer_compilations_total", "timeout"] == 2
                assert now["explorer_compile_stage_seconds_sum", "made", "loops"] == pytest.approx(0.025)
                assert now["explorer_compile_stage_seconds_bucket", "0.01", "made", "loops"] == 1
                assert now["explorer_compile_stage_seconds_bucket", "+Inf", "made", "loops"] == 2
                assert now["explorer_memory_bytes",] == 7
                since = [each.metrics._requests.labels("/x", 200)._created for each in (one, other)]
                assert now["explorer_requests_created", "/x", "200"] == pytest.approx(min(since))

    asyncio.run(main())


def test_who_takes_the_place_of_another_goes_on_from_its_counts(tmp_path: Path) -> None:
    async def main() -> None:
        async with process_on(tmp_path / "db", 0) as one:
            async with process_on(tmp_path / "db", 1) as dying:
                dying.metrics.answered("/x", 200)
                dying.pages = 3
                await told_in_time(one, 1, *REQUESTS)
            async with process_on(tmp_path / "db", 1) as newer:
                newer.metrics.answered("/x", 200)
                for process in (one, newer):
                    await told_in_time(process, 2, *REQUESTS)
                    await told_in_time(process, 0, "explorer_pages")

    asyncio.run(main())


def test_of_one_that_is_gone_the_counts_stay_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with process_on(tmp_path / "db", 0) as one:
            async with process_on(tmp_path / "db", 1) as dying:
                dying.metrics.answered("/x", 200)
                dying.pages = 3
                await told_in_time(one, 3, "explorer_pages")
                await told_in_time(one, 1, *REQUESTS)
            monkeypatch.setattr(several, "_GONE_SECONDS", 0.05)
            await told_in_time(one, 0, "explorer_pages")
            assert (await one.told())[REQUESTS] == 1

    asyncio.run(main())


def test_without_the_file_a_process_tells_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with process_on(tmp_path / "gone" / "db", 0) as one:
            one.metrics.answered("/x", 200)
            assert (await one.told())[REQUESTS] == 1

    asyncio.run(main())


def test_the_memory_of_servers_and_of_their_workers_is_told_apart() -> None:
    worker = "import sys; held = bytearray(b'x') * (60 << 20); print(flush=True); sys.stdin.read()"
    server = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}])"
    first = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {server!r}])"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", first], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        held = bytes_of_several(process.pid)
        process.stdin.close()
    assert 60 << 20 < held["workers"] < 100 << 20
    assert 0 < held["server"] < 60 << 20
