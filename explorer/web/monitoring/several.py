"""The numbers of several processes as those of one server: each writes its own into the file that they share, and
whoever is asked adds them up."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from time import monotonic

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from starlette.datastructures import State

from explorer.web import limits
from explorer.web.monitoring.metrics import Metrics
from explorer.web.monitoring.state import StateCollector
from explorer.web.shared.file import SharedFile

_GONE_SECONDS = 5 * limits.NUMBERS_SECONDS
"""What was not renewed for so long is of a process that is no more: what it counted stays, its state does not."""
_COUNTED = ("counter", "histogram")
_CREATED = "_created"
"""The ending of the sample that says since when a counter counts."""


class SharedNumbers:
    """The numbers of this process, by its number, beside those of the others.

    One that takes the place of another goes on from what that one had counted.
    """

    def __init__(self, file: SharedFile, number: int, own: Callable[[Mapping[str, int]], Iterable[Metric]]) -> None:
        """`own` are those of this process, with the memory that is told to them."""
        self._file = file
        self._number = number
        self._own = own
        self._before: list[Metric] = []

    async def keep_writing(self) -> None:
        """Write them as time passes."""
        self._before = await self._file.do(self._of_the_one_before, [])
        while True:
            self._file.later(partial(self._write, _to_json(self._now({}))))
            await asyncio.sleep(limits.NUMBERS_SECONDS)

    async def of_all(self, memory: Mapping[str, int]) -> AddedUp:
        """Those of all processes, this one's as they are now, with the memory of all."""
        others: list[Metric] = await self._file.do(self._of_others, [])
        return AddedUp([*self._now(memory), *others])

    def _now(self, memory: Mapping[str, int]) -> Iterable[Metric]:
        return AddedUp([*self._before, *self._own(memory)]).collect()

    def _write(self, families: str, connection: sqlite3.Connection) -> None:
        row = self._number, monotonic(), families
        connection.execute("INSERT OR REPLACE INTO numbers VALUES (?, ?, ?)", row)

    def _of_the_one_before(self, connection: sqlite3.Connection) -> list[Metric]:
        row = connection.execute("SELECT families FROM numbers WHERE process = ?", (self._number,)).fetchone()
        return [] if row is None else [each for each in _from_json(row[0]) if each.type in _COUNTED]

    def _of_others(self, connection: sqlite3.Connection) -> list[Metric]:
        rows = connection.execute("SELECT at, families FROM numbers WHERE process <> ?", (self._number,)).fetchall()
        now = monotonic()
        return [
            each
            for at, families in rows
            for each in _from_json(families)
            if each.type in _COUNTED or now - at < _GONE_SECONDS
        ]


def families(metrics: Metrics, state: State, memory: Mapping[str, int]) -> list[Metric]:
    """The numbers of one process."""
    return [*metrics.registry.collect(), *StateCollector(state, memory).collect()]


class AddedUp(Collector):
    """Families of several processes as one of each name: a sample is the sum of theirs."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families: dict[str, Metric] = {}
        self._values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
        for family in families:
            self._add(family)

    def collect(self) -> Iterator[Metric]:
        for name, values in self._values.items():
            like = self._families[name]
            found = Metric(name, like.documentation, like.type)
            for (sample, labels), value in values.items():
                found.add_sample(sample, dict(labels), value)
            yield found

    def _add(self, family: Metric) -> None:
        self._families.setdefault(family.name, family)
        values = self._values.setdefault(family.name, {})
        for sample in family.samples:
            key = sample.name, tuple(sample.labels.items())
            if key not in values:
                values[key] = sample.value
            elif sample.name.endswith(_CREATED):
                values[key] = min(values[key], sample.value)
            else:
                values[key] += sample.value


def _to_json(families: Iterable[Metric]) -> str:
    return json.dumps(
        [
            [each.name, each.documentation, each.type, [[of.name, of.labels, of.value] for of in each.samples]]
            for each in families
        ]
    )


def _from_json(text: str) -> Iterator[Metric]:
    for name, documentation, kind, samples in json.loads(text):
        found = Metric(name, documentation, kind)
        for sample, labels, value in samples:
            found.add_sample(sample, labels, value)
        yield found
