"""What servers of one queue have in common of a class, and the secret from which their cookies and their token follow.

    explorer:secret           32 bytes in hexadecimal digits, drawn by the first server
    explorer:class:desk       what the instructor has set for all, `document`, and how often it has changed, `number`
    explorer:class:roll       who is in the class, in the same way
    explorer:class:handed     what was handed in, in the same way, without the works
    explorer:class:works      those, by the numbers of the hand-ins
    explorer:class:servers    by server, what it alone knows: pages, edits and runs of its students

A document is changed as runs are: decided on what is there, and written by MULTI if nobody else has changed it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from redis.exceptions import WatchError

from explorer.queue.broker import DOWN, ORDERS, ORDERS_SECONDS, Broker, connect
from explorer.queue.job import NO_ANSWER, AwayError

SECRET, SERVERS, WORKS = "explorer:secret", "explorer:class:servers", "explorer:class:works"
CLASS_SECONDS = 12 * 3600
"""How long a class is kept that no server has any more."""
WORKS_AT_ONCE = 50

Part = Literal["desk", "roll", "handed"]
PARTS: tuple[Part, ...] = ("desk", "roll", "handed")
Document = dict[str, Any]
R = TypeVar("R")


@dataclass(frozen=True)
class News:
    """The servers' common secret; how often each part has changed, None for one that is not there; and `now`, the time
    by the queue's clock."""

    secret: bytes
    numbers: Mapping[Part, str | None]
    now: float


class ClassRecords:
    """Reads and changes the records of a queue's class. Everything here may raise one of `DOWN`."""

    def __init__(self, broker: Broker) -> None:
        self._redis = broker.redis

    async def news(self, proposed: bytes) -> News:
        """What there is to be read: one round trip. The secret is the proposed one where there was none yet."""
        async with self._redis.pipeline() as pipe:
            pipe.set(SECRET, proposed, nx=True)
            pipe.get(SECRET)
            for part in PARTS:
                pipe.hget(_key(part), "number")
            pipe.time()
            _, secret, *numbers, (seconds, micros) = await pipe.execute()
        return News(secret.encode(), dict(zip(PARTS, numbers, strict=True)), seconds + micros / 1e6)

    async def read(self, part: Part) -> tuple[str | None, Document | None]:
        """A part's number, and what it says; None where it is not there."""
        number, text = await self._redis.hmget(_key(part), "number", "document")
        return number, None if text is None else json.loads(text)

    async def change(
        self, part: Part, decide: Callable[[Document | None, Any], tuple[Document, R]]
    ) -> tuple[str | None, R]:
        """Decide on what a part says now, and write what it is to say if that differs; else, where somebody else was
        faster, once more. The decision may put further commands on its pipeline. Its number then, and the answer."""
        while True:
            async with self._redis.pipeline() as pipe:
                await pipe.watch(_key(part))
                number, before = await self.read(part)
                pipe.multi()
                after, answer = decide(before, pipe)
                if after == before and not len(pipe):
                    return number, answer
                pipe.hset(_key(part), "document", json.dumps(after))
                pipe.hincrby(_key(part), "number", 1)
                pipe.expire(_key(part), CLASS_SECONDS)
                try:
                    *_, counted, _ = await pipe.execute()
                except WatchError:
                    continue
                return str(counted), answer

    async def works(self, numbers: Sequence[int]) -> list[Document | None]:
        """The works of some hand-ins, None for each that is gone."""
        found = await self._redis.hmget(WORKS, numbers) if numbers else []
        return [None if text is None else json.loads(text) for text in found]

    async def publish(self, server: str, known: Document) -> None:
        """Say what a server alone knows; the class is kept for as long as one does."""
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.hset(SERVERS, server, json.dumps(known))
            for key in (*map(_key, PARTS), WORKS, SERVERS):
                pipe.expire(key, CLASS_SECONDS)
            pipe.expire(ORDERS, ORDERS_SECONDS)
            await pipe.execute()

    async def servers(self) -> dict[str, Document]:
        """What each server said last."""
        return {server: json.loads(text) for server, text in (await self._redis.hgetall(SERVERS)).items()}

    async def forget(self, servers: Collection[str]) -> None:
        """Keep nothing of these servers."""
        await self._redis.hdel(SERVERS, *servers)


def keep_work(pipe: Any, number: int, work: Mapping[str, Any]) -> None:
    """As a part of a change: keep a hand-in's work."""
    pipe.hset(WORKS, str(number), json.dumps(work))
    pipe.expire(WORKS, CLASS_SECONDS)


def drop_works(pipe: Any, numbers: Collection[int]) -> None:
    """As a part of a change: keep the works of these no more."""
    if numbers:
        pipe.hdel(WORKS, *map(str, numbers))


def new_secret() -> bytes:
    """One that nobody can guess."""
    return secrets.token_hex(32).encode()


async def common_secret(url: str) -> bytes:
    """The secret of the servers of a queue. Raises AwayError, and ValueError for what is no queue's address."""
    redis = connect(url)
    try:
        return (await ClassRecords(Broker(redis)).news(new_secret())).secret
    except DOWN:
        raise AwayError(NO_ANSWER) from None
    finally:
        await redis.aclose()


def _key(part: Part) -> str:
    return f"explorer:class:{part}"
