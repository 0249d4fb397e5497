"""The compilation service over a pool that only counts: one flight for equal requests, a bounded cache."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.web import limits
from explorer.web.compiling import CompileRequest, CompileService
from tests.web import own_time


class CountingPool:
    """Answers each text after one turn of the loop; "broken" fails."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def stream(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
        self.texts.append(request["text"])
        await asyncio.sleep(0)
        if request["text"] == "broken":
            yield events.failed("timeout", "Stopped after 1 s, the time limit.", "Make the model smaller.")
        else:
            yield {**events.result({"ok": True, "name": request["text"]}), "line": b"0123456789"}


def request(text: str, **changes: Any) -> CompileRequest:
    fields = {"name": None, "sizes": (), "options": (), "schedule": "{}", "stages": None, **changes}
    return CompileRequest(text, **fields)


def with_service(test: Callable[[CountingPool, CompileService], Awaitable[None]]) -> None:
    async def main() -> None:
        pool = CountingPool()
        await test(pool, CompileService(pool, concurrent=2))

    own_time.run(main())


def test_equal_requests_at_a_time_are_compiled_once() -> None:
    async def test(pool: CountingPool, service: CompileService) -> None:
        answers = await asyncio.gather(*(service.compile(request("a")) for _ in range(40)))
        assert pool.texts == ["a"]
        assert {answer["name"] for answer in answers} == {"a"}

    with_service(test)


def test_an_equal_request_later_comes_from_the_cache() -> None:
    async def test(pool: CountingPool, service: CompileService) -> None:
        await service.compile(request("a"))
        await service.compile(request("a"))
        await service.compile(request("a", sizes=(("D", 32),)))
        assert pool.texts == ["a", "a"]

    with_service(test)


def test_a_failure_is_a_refusal_and_is_not_kept() -> None:
    async def test(pool: CountingPool, service: CompileService) -> None:
        for _ in range(2):
            answer = await service.compile(request("broken"))
            assert answer["ok"] is False
            assert answer["diagnostics"][0]["detail"] == "Make the model smaller."
        assert pool.texts == ["broken", "broken"]

    with_service(test)


def test_what_was_stopped_is_an_answer_and_is_not_kept() -> None:
    class StoppingPool(CountingPool):
        async def stream(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
            assert 0 < request["seconds"] < seconds  # time to tell what was made
            async for event in super().stream(request, seconds):
                yield {**event, "stopped": "kernels"}

    async def main() -> None:
        pool = StoppingPool()
        service = CompileService(pool, concurrent=2)
        for _ in range(2):
            assert (await service.compile(request("a")))["stopped"] == "kernels"
        assert pool.texts == ["a", "a"]
        assert service.kept_bytes == 0

    own_time.run(main())


def test_the_cache_forgets_what_was_not_asked_for_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPILE_CACHE_BYTES", 2 * (10 + len(json.dumps(request("a").to_json()))))

    async def test(pool: CountingPool, service: CompileService) -> None:
        for text in "abacab":
            await service.compile(request(text))
        assert pool.texts == ["a", "b", "c", "b"]

    with_service(test)


def test_texts_count_in_the_cache_with_their_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long texts that are refused in a sentence would else be kept by the ten thousand."""
    monkeypatch.setattr(limits, "COMPILE_CACHE_BYTES", 100_000)

    async def test(pool: CountingPool, service: CompileService) -> None:
        for letter in "abcdefgh":
            await service.compile(request(letter * 30_000))
            assert service.kept_bytes <= limits.COMPILE_CACHE_BYTES
        await service.compile(request("h" * 30_000))
        assert len(pool.texts) == 8
        await service.compile(request("a" * 30_000))
        assert len(pool.texts) == 9

    with_service(test)


def test_a_client_that_leaves_does_not_take_the_answer_from_others() -> None:
    async def test(pool: CountingPool, service: CompileService) -> None:
        first = asyncio.create_task(service.compile(request("a")))
        second = asyncio.create_task(service.compile(request("a")))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second)["ok"]
        assert pool.texts == ["a"]

    with_service(test)


def test_too_many_compilations_at_a_time_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPILES_WAITING", 3)

    async def test(pool: CountingPool, service: CompileService) -> None:
        answers = await asyncio.gather(*(service.compile(request(text)) for text in "abcd"))
        assert [answer["ok"] for answer in answers] == [True, True, True, False]

    with_service(test)


class HeldPool:
    """Answers nothing until it is let go, and notes what was begun and what was given up."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.given_up: list[str] = []
        self.go = asyncio.Event()

    async def stream(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
        self.begun.append(request["text"])
        try:
            if request["text"].startswith("long"):
                await self.go.wait()
            yield events.result({"ok": True, "name": request["text"]})
        finally:
            if request["text"].startswith("long") and not self.go.is_set():
                self.given_up.append(request["text"])


def with_held(test: Callable[[HeldPool, CompileService], Awaitable[None]]) -> None:
    async def main() -> None:
        pool = HeldPool()
        await test(pool, CompileService(pool, concurrent=2))

    own_time.run(main())


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.005)


def test_what_nobody_waits_for_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once where it has not begun, and after a moment where it has."""
    monkeypatch.setattr(limits, "ALONE_SECONDS", 0.01)

    async def test(pool: HeldPool, service: CompileService) -> None:
        asked = [asyncio.create_task(service.compile(request(f"long {i}"), f"student {i}")) for i in range(3)]
        await until(lambda: len(pool.begun) == 2)
        asked[2].cancel()
        asked[0].cancel()
        await until(lambda: pool.given_up == ["long 0"])
        again = asyncio.create_task(service.compile(request("long 0"), "student 0"))
        await until(lambda: pool.begun == ["long 0", "long 1", "long 0"])
        pool.go.set()
        assert (await again)["ok"]
        assert (await asked[1])["ok"]
        assert pool.begun == ["long 0", "long 1", "long 0"]

    with_held(test)


def test_an_answer_that_is_asked_for_again_soon_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ALONE_SECONDS", 0.02)

    async def test(pool: HeldPool, service: CompileService) -> None:
        first = asyncio.create_task(service.compile(request("long")))
        await until(lambda: pool.begun == ["long"])
        first.cancel()
        second = asyncio.create_task(service.compile(request("long")))
        await asyncio.sleep(0.05)
        pool.go.set()
        assert (await second)["ok"]
        assert pool.begun == ["long"]

    with_held(test)


def test_texts_that_take_long_leave_a_place_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are, and whoever sends them; they come to their answers in the end."""
    monkeypatch.setattr(limits, "QUICK_SECONDS", 0.02)

    async def test(pool: HeldPool, service: CompileService) -> None:
        slow = [asyncio.create_task(service.compile(request(f"long {i}"), f"bomber {i}")) for i in range(5)]
        await until(lambda: len(pool.begun) >= 2)
        for i in range(20):
            assert (await service.compile(request(f"quick {i}"), "student"))["ok"]
        assert not any(task.done() for task in slow)
        pool.go.set()
        assert all(answer["ok"] for answer in await asyncio.gather(*slow))

    with_held(test)


def test_machine_code_takes_no_place_of_what_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has workers of its own; that it took long there makes nobody's typing slow."""
    monkeypatch.setattr(limits, "QUICK_SECONDS", 0.02)

    async def main() -> None:
        pool, late = HeldPool(), HeldPool()
        service = CompileService(pool, concurrent=2, late=late)
        machine_code = [
            asyncio.create_task(service.compile(request(f"long {i}", stages=("cuda", "ptx")), f"student {i}"))
            for i in range(3)
        ]
        await until(lambda: late.begun == ["long 0"])
        typed = [asyncio.create_task(service.compile(request(f"long text {i}"), f"student {i}")) for i in range(2)]
        await until(lambda: pool.begun == ["long text 0", "long text 1"])
        assert (service.running, service.waiting) == (3, 2)
        pool.go.set()
        assert all(answer["ok"] for answer in await asyncio.gather(*typed))
        assert not any(task.done() for task in machine_code)
        late.go.set()
        assert all(answer["ok"] for answer in await asyncio.gather(*machine_code))
        assert late.begun == ["long 0", "long 1", "long 2"]
        assert not service._slow

    own_time.run(main())


def test_sessions_take_turns_and_the_newest_of_each_comes_first() -> None:
    async def test(pool: HeldPool, service: CompileService) -> None:
        held = [asyncio.create_task(service.compile(request(f"long {i}"), f"holder {i}")) for i in range(2)]
        await until(lambda: len(pool.begun) == 2)
        waiting = [
            asyncio.create_task(service.compile(request(f"{student}{edit}"), student))
            for edit in "12"
            for student in "ab"
        ]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        pool.go.set()
        await asyncio.gather(*held, *waiting)
        assert pool.begun[2:] == ["a2", "b2", "a1", "b1"]

    with_held(test)
