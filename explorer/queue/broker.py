"""The queue's records in Redis or Valkey, and every change of them, each a whole transaction.

    explorer:version          the server's version, there while it lives
    explorer:line             how often anything below has changed; who decides watches it
    explorer:orders           what an instructor has said of all runs: whether they are paused, and how many of one
                              session may wait (a hash)
    explorer:turns            sessions with waiting runs, by their turns (a sorted set)
    explorer:session:NAME     a stream: the runs of a session that wait, and the one that runs; its group is `workers`
    explorer:running          by session, who runs what, for which time (a hash)
    explorer:job:RUN          what was asked for
    explorer:run:RUN          a stream: the run's events
    explorer:watched:RUN      there while somebody waits for the run
    explorer:cancel:RUN       there once somebody has stopped it: what its page is told
    explorer:workers          names and targets of workers, by when they are missed (a sorted set)
    explorer:typical          seconds that runs took lately

A change is decided by `explorer.queue.line` on what was read, and written by MULTI only if `explorer:line` is still
what it was (WATCH): the policy is the one of the server's own queue, and not a second one in Lua.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, fields, replace
from typing import Any, Literal, TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, WatchError

from explorer.queue.bodies import event_text
from explorer.queue.line import (
    CANCELLED,
    FIRST_GUESS_SECONDS,
    MADE_ROOM,
    Line,
    Pace,
    cancelled,
    superseded,
    typical,
)
from explorer.queue.records import (
    Held,
    Orders,
    Posted,
    State,
    Waits,
    cancel_key,
    job_key,
    run_key,
    session_key,
    watched_key,
)
from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event

DOWN = (RedisError, OSError)
"""What any use of the queue may raise: it is away, starting or full."""

VERSION, LINE, ORDERS, TURNS, RUNNING, WORKERS, TYPICAL = (
    f"explorer:{name}" for name in ("version", "line", "orders", "turns", "running", "workers", "typical")
)
GROUP = "workers"
EVENTS_KEPT = 20_000
"""Of a run, about: ten times what one of `limits.MAX_REPEAT` says with its peers' samples."""
RESULT_SECONDS = 600
"""How long the events of a run that has ended are kept."""
JOB_SECONDS = 6 * 3600
"""How long anything of a run is kept that never ends."""
WATCH_SECONDS = 15
"""How long a run counts as waited for without being told so again."""
ORDERS_SECONDS = 600
"""How long an instructor's orders hold that no server with an instructor repeats: nobody could take them back."""
ATTEMPTS = 2
"""How often a run is begun whose workers die."""

HOLDER = [each.name for each in fields(Held)][1:].index("worker")
"""Where the records of `explorer:running` name the worker; they leave out the session, which is their key."""

R = TypeVar("R")
Decision = Callable[[State, Any], R]
"""Queues the commands of a change on a pipeline."""


def connect(url: str) -> Any:
    """A client of redis://, rediss:// or unix:// that raises soon when the queue is away, and tries nothing twice: what
    may be done twice is for its callers to say. Raises ValueError for another kind of address."""
    return Redis.from_url(
        url,
        protocol=2,
        decode_responses=True,
        socket_timeout=5.0,
        socket_connect_timeout=2.0,
        retry=Retry(NoBackoff(), 0),
        max_connections=1_000,
    )


def not_if_cancelled() -> None:
    """Raises CancelledError in a task that is cancelled, for every loop that asks the queue: until Python 3.12
    `asyncio.wait_for`, with which redis-py writes, drops a cancellation that comes as the writing ends."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class Broker:
    """Reads and changes the records of one queue. Everything here may raise one of `DOWN`."""

    def __init__(self, redis: Any, longest: int = 0, of_one: int = 0) -> None:
        self.redis = redis
        self._longest = longest
        self._of_one = of_one

    async def changes(self) -> str | None:
        """Differs from one look to the next if there is anything new to decide."""
        found: str | None = await self.redis.get(LINE)
        return found

    async def state(self) -> State:
        """Two round trips; consistent if `explorer:line` has not changed meanwhile."""
        async with self.redis.pipeline(transaction=False) as pipe:
            pipe.zrange(TURNS, 0, -1, withscores=True)
            pipe.hgetall(RUNNING)
            pipe.get(TYPICAL)
            pipe.hmget(ORDERS, *_ORDERS)
            pipe.time()
            turns, holders, took, said, (seconds, micros) = await pipe.execute()
            running = {session: Held(session, *json.loads(text)) for session, text in holders.items()}
            for session, _ in turns:
                pipe.xrange(session_key(session))
            entries = await pipe.execute() if turns else []
        orders = _orders(said)
        line: Line[Waits] = Line(self._longest, orders.of_one or self._of_one, orders.paused)
        for (session, _), own in zip(turns, entries, strict=True):
            at_work = running[session].entry if session in running else ""
            for entry, told in own:
                if entry != at_work:
                    line.add(Waits(session, told["page"], told["run"], told["on"], entry))
        typical_seconds = float(took or FIRST_GUESS_SECONDS)
        return State(line, dict(turns), running, typical_seconds, seconds + micros / 1e6)

    async def change(self, decide: Decision[R]) -> R:
        """Decide on what is there, and write it if nothing has changed meanwhile; else once more."""
        while True:
            async with self.redis.pipeline() as pipe:
                await pipe.watch(LINE)
                state = await self.state()
                pipe.multi()
                answer = decide(state, pipe)
                if not len(pipe):
                    return answer
                pipe.incr(LINE)
                try:
                    await pipe.execute()
                except WatchError:
                    continue
                return answer

    # --- what a server does

    async def submit(self, waits: Waits, body: str, pace: Callable[[State], Pace]) -> Event | None:
        """Let a run into the line; the last event of one that is refused."""

        def decide(state: State, pipe: Any) -> Event | None:
            admission = state.line.admit(waits.session, waits.page)
            if admission.refused:
                return pace(state).refused(admission.refused, admission.position)
            pipe.set(job_key(waits.run), body, ex=JOB_SECONDS)
            pipe.set(watched_key(waits.run), 1, ex=WATCH_SECONDS)
            if admission.replaces is not None:
                self._replace(state, pipe, admission.replaces, waits)
                return None
            if admission.makes_room is not None:
                self._drop(state, pipe, admission.makes_room, pace(state).refused(MADE_ROOM, state.line.longest))
            is_new = waits.session not in state.turns
            _append(pipe, waits)
            if is_new:
                pipe.zadd(TURNS, {waits.session: state.end_of_turns})
                if waits.session not in state.running:
                    pipe.xgroup_create(session_key(waits.session), GROUP, id="0")
            return None

        return await self.change(decide)

    async def cancel(self, run: str) -> None:
        """Stop a run wherever it is; one that has ended takes no notice."""

        def decide(state: State, pipe: Any) -> None:
            for waits in [each for each in state.line.behind(()) if each.run == run]:
                self._drop(state, pipe, waits, cancelled())
            if any(held.run == run for held in state.running.values()):
                _stop(pipe, run, CANCELLED)

        await self.change(decide)

    async def stop(self, session: str, why: str) -> None:
        """Stop all runs of a session, which are told why."""

        def decide(state: State, pipe: Any) -> None:
            for waits in list(state.line.of(session)):
                self._drop(state, pipe, waits, cancelled(why))
            if session in state.running:
                _stop(pipe, state.running[session].run, why)

        await self.change(decide)

    async def orders(self) -> Orders:
        """What an instructor has said of all runs."""
        return _orders(await self.redis.hmget(ORDERS, *_ORDERS))

    async def order(self, name: Literal["paused", "of_one"], value: int) -> None:
        """Say something of all runs. Once this has returned, none begins by another order: who decides looks again."""
        async with self.redis.pipeline() as pipe:
            pipe.hset(ORDERS, name, value)
            pipe.expire(ORDERS, ORDERS_SECONDS)
            pipe.incr(LINE)
            await pipe.execute()

    async def watch(self, runs: Sequence[str]) -> None:
        """Say that somebody waits for these runs."""
        async with self.redis.pipeline(transaction=False) as pipe:
            for run in runs:
                pipe.set(watched_key(run), 1, ex=WATCH_SECONDS)
            await pipe.execute()

    async def unwatched(self, runs: Sequence[str]) -> set[str]:
        """Those of these runs that nobody waits for."""
        found = await self.redis.mget([watched_key(run) for run in runs]) if runs else []
        return {run for run, watched in zip(runs, found, strict=True) if watched is None}

    async def drop(self, runs: set[str]) -> None:
        """Take waiting runs out of the line that nobody waits for any more."""

        def decide(state: State, pipe: Any) -> None:
            for waits in [each for each in state.line.behind(()) if each.run in runs]:
                self._drop(state, pipe, waits, cancelled())

        await self.change(decide)

    async def events_after(self, at: Mapping[str, str], block_ms: int) -> dict[str, list[Posted]]:
        """What runs have said after an entry of their streams each; waits for the first so long."""
        streams = {run_key(run): entry for run, entry in at.items()}
        found = await self.redis.xread(streams, count=200, block=block_ms)
        prefix = run_key("")
        return {key.removeprefix(prefix): [_posted(*entry) for entry in own] for key, own in found or []}

    async def is_known(self, run: str) -> bool:
        """Whether anything of a run is kept."""
        return bool(await self.redis.exists(run_key(run), job_key(run)))

    # --- what a worker does

    async def beat(self, name: str, targets: Sequence[str], seconds: float) -> None:
        """Say that a worker lives, for so long."""
        now = await self._now()
        async with self.redis.pipeline() as pipe:
            pipe.zremrangebyscore(WORKERS, "-inf", now)
            pipe.zadd(WORKERS, {json.dumps([name, list(targets)]): now + seconds})
            await pipe.execute()

    async def workers(self) -> dict[str, list[str]]:
        """The targets of each worker that lives, by its name."""
        return dict(json.loads(text) for text in await self.redis.zrangebyscore(WORKERS, await self._now(), "+inf"))

    async def dead(self) -> set[str]:
        """Those who hold runs and do not live."""
        holders = {json.loads(text)[HOLDER] for text in await self.redis.hvals(RUNNING)}
        return holders - {""} - set(await self.workers())

    async def _now(self) -> float:
        seconds, micros = await self.redis.time()
        return float(seconds + micros / 1e6)

    async def take(self, worker: str, targets: Sequence[str], dead: set[str]) -> Held | None:
        """The next run for a worker: one that has lost its own, or that whose turn it is. None where there is none.

        A run that has been begun as often as may be is ended here.
        """

        def decide(state: State, pipe: Any) -> Held | None:
            # Its own is there if an answer of the queue was lost: it was never begun.
            own = next((held for held in state.running.values() if held.worker == worker), None)
            if own is not None:
                return own
            for held in state.running.values():
                if held.worker in dead or not held.worker:
                    if held.attempt >= ATTEMPTS:
                        self._end(state, pipe, held, lost_twice())
                    elif held.on in targets:
                        return _claim(pipe, replace(held, worker=worker, attempt=held.attempt + 1, since=state.now))
            waits = state.line.next(state.running, lambda each: each.on in targets)
            if waits is None:
                return None
            state.line.remove(waits)
            held = Held(waits.session, waits.run, waits.on, waits.entry, worker, 1, state.now)
            pipe.xreadgroup(GROUP, worker, {session_key(waits.session): ">"}, count=1)
            _hold(pipe, held)
            if not state.line.of(waits.session):
                pipe.zrem(TURNS, waits.session)
            return held

        return await self.change(decide)

    async def let_go(self, held: Held) -> None:
        """A worker's process died over a run: whoever is next may have it."""

        def decide(state: State, pipe: Any) -> None:
            if state.running.get(held.session) == held:
                _hold(pipe, replace(held, worker=""))

        await self.change(decide)

    async def body(self, held: Held) -> str | None:
        """What was asked for; None where it is gone."""
        found: str | None = await self.redis.get(job_key(held.run))
        return found

    async def post(self, held: Held, number: int, event: Event) -> None:
        """An event of a run that is not its last; the first is number 1."""
        fields = _fields(held.attempt, number, event)
        await self.redis.xadd(run_key(held.run), fields, maxlen=EVENTS_KEPT, approximate=True)
        if number == 1:
            await self.redis.expire(run_key(held.run), JOB_SECONDS)

    async def standing(self, held: Held) -> tuple[bool, str, bool]:
        """Whether a run is still this worker's, what it is told where somebody has stopped it ("" where nobody has),
        and whether somebody waits for it."""
        async with self.redis.pipeline(transaction=False) as pipe:
            pipe.hget(RUNNING, held.session)
            pipe.get(cancel_key(held.run))
            pipe.exists(watched_key(held.run))
            text, stopped, watched = await pipe.execute()
        return text == _held_text(held), stopped or "", bool(watched)

    async def finish(self, held: Held, number: int, last: Event) -> bool:
        """The end of a run, with its last event; whether it was still this worker's, and so the only end of it."""

        def decide(state: State, pipe: Any) -> bool:
            if state.running.get(held.session) != held:
                return False
            self._end(state, pipe, held, last, number)
            if last["event"] == "result":
                pipe.set(TYPICAL, typical(state.typical_seconds, max(0.0, state.now - held.since)))
            return True

        return await self.change(decide)

    # --- the parts of changes

    def _replace(self, state: State, pipe: Any, older: Waits, newer: Waits) -> None:
        """The newer run at the older one's place: a stream has an order that only writing anew can change."""
        own = list(state.line.of(older.session))
        first = own.index(older)
        pipe.xdel(session_key(older.session), *(each.entry for each in own[first:]))
        for each in [newer, *own[first + 1 :]]:
            _append(pipe, each)
        _say_last(pipe, older.run, 0, 0, superseded())

    def _drop(self, state: State, pipe: Any, waits: Waits, last: Event) -> None:
        """A waiting run leaves the line with its last event."""
        pipe.xdel(session_key(waits.session), waits.entry)
        _say_last(pipe, waits.run, 0, 0, last)
        state.line.remove(waits)
        if not state.line.of(waits.session):
            pipe.zrem(TURNS, waits.session)
            if waits.session not in state.running:
                pipe.delete(session_key(waits.session))

    def _end(self, state: State, pipe: Any, held: Held, last: Event, number: int = 0) -> None:
        """A run that was held ends, and its session goes behind all that wait."""
        _say_last(pipe, held.run, held.attempt, number, last)
        key = session_key(held.session)
        pipe.hdel(RUNNING, held.session)
        if state.line.of(held.session):
            pipe.xack(key, GROUP, held.entry)
            pipe.xdel(key, held.entry)
            pipe.zadd(TURNS, {held.session: state.end_of_turns})
        else:
            pipe.delete(key)


def lost_twice() -> Event:
    """The last event of a run that nobody begins again."""
    hint = "Most often the machine is short of memory. Try again, with smaller sizes or a smaller batch."
    return events.failed("crashed", "Two workers died over this run, and it is not begun a third time.", hint)


_ORDERS = [each.name for each in fields(Orders)]


def _orders(told: Sequence[str | None]) -> Orders:
    paused, of_one = (int(each or 0) for each in told)
    return Orders(bool(paused), of_one)


def _stop(pipe: Any, run: str, why: str) -> None:
    pipe.set(cancel_key(run), why, ex=RESULT_SECONDS)


def _append(pipe: Any, waits: Waits) -> None:
    pipe.xadd(session_key(waits.session), {"run": waits.run, "page": waits.page, "on": waits.on})


def _held_text(held: Held) -> str:
    return json.dumps(astuple(held)[1:])


def _hold(pipe: Any, held: Held) -> None:
    pipe.hset(RUNNING, held.session, _held_text(held))


def _claim(pipe: Any, held: Held) -> Held:
    """A run whose worker died is another's: the group's entry too, and its readers are told that it begins anew."""
    pipe.xclaim(session_key(held.session), GROUP, held.worker, 0, [held.entry])
    _hold(pipe, held)
    told = events.repeated("The worker that did this run died: another one does it once more.")
    pipe.xadd(run_key(held.run), _fields(held.attempt, 0, told))
    return held


def _fields(attempt: int, number: int, event: Event) -> dict[str, str | int]:
    return {"attempt": attempt, "number": number, "event": event_text(event)}


def _say_last(pipe: Any, run: str, attempt: int, number: int, last: Event) -> None:
    pipe.xadd(run_key(run), _fields(attempt, number, last), maxlen=EVENTS_KEPT, approximate=True)
    pipe.expire(run_key(run), RESULT_SECONDS)
    pipe.delete(job_key(run), cancel_key(run))


def _posted(at: str, told: Mapping[str, str]) -> Posted:
    """What a worker wrote. Of what is no event, the reader must not die: the run ends with a sentence."""
    try:
        event = json.loads(told["event"])
        return Posted(at, int(told["attempt"]), int(told["number"]), {**event, "event": str(event["event"])})
    except (KeyError, TypeError, ValueError, RecursionError):
        return Posted(at, 0, 0, events.failed("crashed", "What a worker wrote into the queue is no event."))
