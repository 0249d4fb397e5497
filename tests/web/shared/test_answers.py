"""Compilations that several processes share: two services on one file, each with a pool that only counts."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from explorer import version
from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.web import limits
from explorer.web.compiling import CompileRequest, CompileService
from explorer.web.shared import answers
from explorer.web.shared.answers import SharedAnswers
from explorer.web.shared.file import SharedFile
from tests.web.test_compiling import request, until


class TestPool:
    """Answers each text; "long" ones once they are let go, after their first form if that is wanted, "broken" fails."""

    __test__ = False

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.go = asyncio.Event()

    async def stream(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
        text = request["text"]
        self.texts.append(text)
        if text.startswith("long"):
            if request["first"]:
                yield with_line(events.first({"ok": True, "first": True}))
            await self.go.wait()
        if text == "broken":
            yield events.failed("timeout", "Stopped.", "Make the model smaller.")
        else:
            stopped = "kernels" if text == "stopped" else ""
            yield with_line(events.result({"ok": True, "name": text, "stopped": stopped}))


def with_line(event: Event) -> Event:
    return {**event, "line": json.dumps(event).encode() + b"\n"}


class Process:
    """What one process has: a pool, the file and a service."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.pool = TestPool()
        self.file = SharedFile(path)
        self.shared = SharedAnswers(self.file, most_bytes)
        self.service = CompileService(self.pool, 2, shared=self.shared)

    async def name(self, text: str, **changes: Any) -> str:
        answer = await self.service.compile(request(text, **changes))
        assert answer["ok"], answer
        assert not {"event", "line"} & answer.keys()
        return str(answer["name"])


@asynccontextmanager
async def process_on(path: Path, most_bytes: int = 1 << 20) -> AsyncIterator[Process]:
    process = Process(path, most_bytes)
    try:
        yield process
    finally:
        await process.file.close()


def with_two(path: Path, test: Callable[[Process, Process], Awaitable[None]]) -> None:
    async def main() -> None:
        async with process_on(path) as one, process_on(path) as other:
            await test(one, other)

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shared.db"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes too long, however busy the host is, but where a test says so."""
    monkeypatch.setattr(limits, "CLAIM_SECONDS", 1000.0)


def changed(path: Path, statement: str, *values: Any) -> None:
    found = sqlite3.connect(path)
    with found:
        found.execute(statement, values)
    found.close()


def test_another_process_answers_without_compiling(path: Path) -> None:
    async def test(one: Process, other: Process) -> None:
        assert await one.name("a") == "a"
        assert await other.name("a") == "a"
        assert (one.pool.texts, other.pool.texts) == (["a"], [])
        assert other.service.shared_hits == 1
        assert await other.name("a") == "a"  # out of its own memory
        assert (other.service.shared_hits, other.service.hits) == (1, 1)
        assert one.service.kept_bytes == other.service.kept_bytes > 0

    with_two(path, test)


def test_answers_outlive_the_process_that_made_them(path: Path) -> None:
    async def main() -> None:
        for texts in (["a"], []):
            async with process_on(path) as process:
                assert await process.name("a") == "a"
                assert process.pool.texts == texts

    asyncio.run(main())


@pytest.mark.parametrize(
    "changes",
    [{"sizes": (("D", 32),)}, {"options": (("grad", True),)}, {"data_changed": 5}, {"data": "x"}, {"stages": ("slc",)}],
)
def test_another_request_is_another_answer(path: Path, changes: dict[str, Any]) -> None:
    async def test(one: Process, other: Process) -> None:
        await one.name("a", options=(("grad", 1),))
        await other.name("a", **changes)
        assert other.pool.texts == ["a"]

    with_two(path, test)


def test_another_version_is_another_answer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(one: Process, other: Process) -> None:
        await one.name("a")
        await one.file.do(lambda _: None, None)  # what was begun is done
        monkeypatch.setattr(answers, "version", lambda: version.version() + "0")
        await other.name("a")
        assert other.pool.texts == ["a"]

    with_two(path, test)


@pytest.mark.parametrize("text", ["broken", "stopped"])
def test_what_another_time_may_end_otherwise_is_not_kept(path: Path, text: str) -> None:
    async def test(one: Process, other: Process) -> None:
        await one.service.compile(request(text))
        await other.service.compile(request(text))
        assert (one.pool.texts, other.pool.texts) == ([text], [text])

    with_two(path, test)


def test_the_file_forgets_what_was_not_asked_for_longest(path: Path) -> None:
    """By bytes as they lie there; what another process has asked for counts as well."""
    noise = random.Random(3)
    texts = [noise.randbytes(2000).hex() for _ in range(80)]  # each packs to about 2.2 kB

    async def main() -> None:
        async with process_on(path, 20_000) as one, process_on(path, 20_000) as other:
            for text in texts[:7]:
                await one.name(text)
            await other.name(texts[0])
            for text in texts[7:12]:
                await one.name(text)
            assert other.pool.texts == []
        async with process_on(path, 20_000) as third:
            for text in (texts[0], *texts[8:12]):
                await third.name(text)
            assert third.pool.texts == []
            await third.name(texts[1])
            assert third.pool.texts == [texts[1]]
            for text in texts[12:]:
                await third.name(text)

    asyncio.run(main())
    ((total,),) = sqlite3.connect(path).execute("SELECT SUM(bytes) FROM answers").fetchall()
    assert total <= 20_000
    assert path.stat().st_size < 100_000


def test_what_would_take_half_of_all_room_is_not_kept(path: Path) -> None:
    async def main() -> None:
        async with process_on(path, 4000) as one:
            await one.name("a")
            await one.name(random.Random(3).randbytes(4000).hex())
        async with process_on(path, 4000) as other:
            await other.name("a")
            assert other.pool.texts == []

    asyncio.run(main())


@pytest.mark.parametrize("spoilt", ["no database", "no JSON", "not packed", "no folder"])
def test_what_cannot_be_read_is_compiled(path: Path, spoilt: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with process_on(path) as one:
            await one.name("a")
            await one.name("b")
        match spoilt:
            case "no database":
                path.write_bytes(b"x" * 8192)
            case "no JSON":
                changed(path, "UPDATE answers SET body = ?", zlib.compress(b"{"))
            case "not packed":
                changed(path, "UPDATE answers SET body = ?", b"x")
        there = path.parent / "gone" / path.name if spoilt == "no folder" else path
        async with process_on(there) as other:
            assert [await other.name(text) for text in "abab"] == ["a", "b", "a", "b"]
            assert other.pool.texts == ["a", "b"]

    asyncio.run(main())
    (once,) = caplog.records
    assert once.getMessage().startswith("what web processes share fails: ")


def test_what_was_spoilt_is_written_anew(path: Path) -> None:
    async def main() -> None:
        async with process_on(path) as one:
            await one.name("a")
        changed(path, "UPDATE answers SET body = ?", b"x")
        async with process_on(path) as other:
            await other.name("a")
        async with process_on(path) as third:
            await third.name("a")
            assert third.pool.texts == []

    asyncio.run(main())


def test_one_process_waits_for_what_another_compiles(path: Path) -> None:
    async def test(one: Process, other: Process) -> None:
        first = asyncio.create_task(one.name("long"))
        await until(lambda: one.pool.texts == ["long"])
        second = [asyncio.create_task(other.name("long")) for _ in range(5)]
        await asyncio.sleep(0.2)
        assert not any(task.done() for task in second)
        one.pool.go.set()
        assert await asyncio.gather(first, *second) == ["long"] * 6
        assert other.pool.texts == []

    with_two(path, test)


def test_of_many_processes_one_compiles(path: Path) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            several = [await stack.enter_async_context(process_on(path)) for _ in range(6)]
            await asyncio.gather(*(each.name(text) for each in several for text in "abc"))
            assert sorted(text for each in several for text in each.pool.texts) == ["a", "b", "c"]

    asyncio.run(asyncio.wait_for(main(), 60))


def test_the_first_form_comes_from_the_process_that_makes_it(path: Path) -> None:
    async def test(one: Process, other: Process) -> None:
        asked = request("long", first=True)
        assert (await one.service.compile(asked))["first"]
        found = await other.service.compile(asked)
        assert found["first"]
        best = asyncio.create_task(other.name("long"))
        one.pool.go.set()
        assert await best == "long"
        assert other.pool.texts == []

    with_two(path, test)


def test_what_a_dead_process_was_at_is_made_by_another(path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass

    async def test(one: Process, other: Process) -> None:
        first = asyncio.create_task(one.name("long"))
        await until(lambda: one.pool.texts == ["long"])
        second = asyncio.create_task(other.name("long"))
        await asyncio.sleep(0.1)
        assert other.pool.texts == []
        changed(path, "UPDATE claims SET pid = ?", gone.pid)
        await until(lambda: other.pool.texts == ["long"])
        other.pool.go.set()
        assert await second == "long"
        one.pool.go.set()
        await first

    with_two(path, test)


def test_what_another_process_is_too_slow_at_is_made_here(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLAIM_SECONDS", 0.3)

    async def test(one: Process, other: Process) -> None:
        first = asyncio.create_task(one.name("long"))
        await until(lambda: one.pool.texts == ["long"])
        other.pool.go.set()
        assert await other.name("long") == "long"
        assert other.pool.texts == ["long"]
        one.pool.go.set()
        await first

    with_two(path, test)


@pytest.mark.parametrize("ended", ["by a fault", "by whoever asked"])
def test_what_was_given_up_is_free_for_others(path: Path, ended: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ALONE_SECONDS", 0.01)

    async def test(one: Process, other: Process) -> None:
        text = "broken" if ended == "by a fault" else "long"
        task = asyncio.create_task(one.service.compile(request(text)))
        if text == "long":
            await until(lambda: one.pool.texts == ["long"])
            task.cancel()
        await asyncio.wait({task})
        other.pool.go.set()
        await other.service.compile(request(text))
        assert other.pool.texts == [text]

    with_two(path, test)  # which waits for less than a claim holds


def test_one_process_alone_has_no_file(tmp_path: Path) -> None:
    async def main() -> None:
        service = CompileService(TestPool(), 2)
        assert (await service.compile(CompileRequest("a", None, (), (), "{}", None)))["ok"]
        assert service.shared_hits is None

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []
