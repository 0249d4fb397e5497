"""How much of the data queue a record takes, and how one that is too long for it is cut into parts.

The execute unit begins with a record when its token has come, behind all of it: a record that the empty queue cannot
hold would never be finished.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.access import slc
from explorer.compiler.ir.access.dlc import QUEUE_BYTES
from explorer.compiler.ir.node import Extent, Names, Origin

QUEUE_WORDS = QUEUE_BYTES // 4


def scalar_words(items: Iterable[slc.Item], width: int, buffers: Collection[str] = ()) -> int:
    """What the scalars of the callbacks among some items take, each padded to a vector."""
    callbacks = [item for item in items if isinstance(item, slc.Callback)]
    return width * sum(s.vector == 1 and s.stream not in buffers for c in callbacks for s in _received(c))


def vector_words(callback: slc.Callback) -> int:
    """What the vectors of a callback take that come without a buffer."""
    return sum(s.vector for s in _received(callback) if s.vector > 1)


def _received(callback: slc.Callback) -> Iterator[slc.ToVal]:
    return (statement for statement in callback.body if isinstance(statement, slc.ToVal))


def number_of_parts(length: int, vector: int, streams: int, others: int) -> int:
    """Into how many records a loop of that length is cut, of which each brings vectors of so many streams, and
    `others` words beside: 1 where all fits the queue, else so many that a part fills half of it and the units work at
    the same time; 0 where not even a vector of each stream fits.

    Parts of whole vectors are preferred to fewer."""
    vectors = -(-length // vector)
    a_vector = streams * vector
    if others + vectors * a_vector <= QUEUE_WORDS:
        return 1
    most = (QUEUE_WORDS // 2 - others) // a_vector or (QUEUE_WORDS - others) // a_vector
    if most < 1:
        return 0
    least = -(-vectors // most)
    return next((parts for parts in range(least, 2 * least) if length % (parts * vector) == 0), least)


@dataclass(frozen=True)
class Parts:
    """The loop over the parts of a record: its stream, and those of a part's first position and of the one behind its
    last, `part * length // number` and so for the next part."""

    stream: str
    bounds: tuple[slc.AluStream, ...]
    first: str
    end: str

    @classmethod
    def of(cls, length: Extent, elements: int, number: int, names: Names, origin: Origin) -> Parts:
        """So many parts of a loop, whose `length` is that number of elements."""
        part, first, end = (f"%{names.new(name)}" for name in ("part", "begin", "end"))

        def step(result: str, function: str, left: Extent, right: Extent) -> slc.AluStream:
            return slc.AluStream(result=result, function=function, operands=(left, right), origin=origin)

        if elements % number == 0:
            each = elements // number
            return cls(part, (step(first, "mul", part, each), step(end, "add", first, each)), first, end)
        before, behind = (f"%{names.new('a')}" for _ in range(2))
        bounds = (
            step(before, "mul", part, length),
            step(first, "div", before, number),
            step(behind, "add", before, length),
            step(end, "div", behind, number),
        )
        return cls(part, bounds, first, end)
