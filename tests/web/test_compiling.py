"""The compilation service over a pool that only counts: one flight for equal requests, a bounded cache."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.web import limits
from explorer.web.compiling import CompileRequest, CompileService


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
            yield events.result({"ok": True, "name": request["text"]})


def request(text: str, **changes: Any) -> CompileRequest:
    fields = {"name": None, "sizes": (), "options": (), "schedule": "{}", "stages": None, **changes}
    return CompileRequest(text, **fields)


def with_service(test: Callable[[CountingPool, CompileService], Awaitable[None]]) -> None:
    async def main() -> None:
        pool = CountingPool()
        await test(pool, CompileService(pool, concurrent=2))

    asyncio.run(main())


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


def test_the_cache_forgets_what_was_not_asked_for_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPILE_CACHE", 2)

    async def test(pool: CountingPool, service: CompileService) -> None:
        for text in "abacab":
            await service.compile(request(text))
        assert pool.texts == ["a", "b", "c", "b"]

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
