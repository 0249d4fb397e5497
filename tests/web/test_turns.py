"""Turns at compiling: what is cancelled while it waits holds up nobody."""

from __future__ import annotations

import asyncio

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
