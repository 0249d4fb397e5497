"""Turns at compiling: what is cancelled while it waits holds up nobody, and costs its session no place."""

from __future__ import annotations

import asyncio

import pytest

from explorer.web.turns import Turns


def test_a_turn_that_is_cancelled_as_a_place_comes_free_is_passed_over() -> None:
    async def main() -> None:
        turns, had = Turns(1), list[str]()
        leave = asyncio.Event()

        async def work(session: str) -> None:
            async with turns.turn(session, slow=False):
                had.append(session)
                await leave.wait()

        tasks = {session: asyncio.create_task(work(session)) for session in ("first", "gone", "next")}
        while turns.waiting < 2:
            await asyncio.sleep(0)
        leave.set()
        tasks["gone"].cancel()  # its task comes behind the first's, which gives its place away
        found = await asyncio.gather(*tasks.values(), return_exceptions=True)
        assert [type(each) for each in found] == [type(None), asyncio.CancelledError, type(None)]
        assert had == ["first", "next"]
        assert (turns.waiting, turns.working) == (0, 0)

    asyncio.run(main())


@pytest.mark.parametrize("asks_before", [True, False])
def test_an_edit_has_the_place_of_the_one_that_it_overtakes(asks_before: bool) -> None:
    """Whether the page's new request comes before the server sees that the old one was given up, or behind it."""

    async def main() -> None:
        turns, had = Turns(1), list[str]()
        leave = asyncio.Event()

        async def work(session: str) -> None:
            async with turns.turn(session, slow=False):
                had.append(session)
                await leave.wait()

        def ask(session: str) -> asyncio.Task[None]:
            return asyncio.create_task(work(session))

        async def waiting(count: int) -> None:
            while turns.waiting != count:
                await asyncio.sleep(0)

        tasks = [ask("other"), ask("typing")]
        await waiting(1)
        tasks.append(ask("next"))
        await waiting(2)
        if asks_before:
            tasks.append(ask("typing"))
            await waiting(3)
        tasks[1].cancel()
        await waiting(2 if asks_before else 1)
        if not asks_before:
            tasks.append(ask("typing"))
            await waiting(2)
        leave.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert had == ["other", "typing", "next"]
        assert (turns.waiting, turns.working, len(turns._waiting)) == (0, 0, 0)

    asyncio.run(main())
