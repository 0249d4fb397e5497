"""A segment's elements in phases: their scalars by all lanes of a warp, and then their rows.

Every lane that has a part of a row needs what the row is weighed with, so that a weight that costs an exp is computed
by all of them alike, and a softmax that is taken online scales its sums at every element. Where a warp has one row at a
time, each lane may compute the scalars of other elements than its own into shared memory. A softmax's maximum is then
taken before anything is summed, and the numerators after it: nothing is scaled (Milakov and Gimelshein 2018, whose
pieces are merged as they were).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.statements import alive, names_read, renamed, written_names
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.lanes.mapping import Unfit
from explorer.compiler.schedule.lanes.state import Segment
from explorer.compiler.schedule.staging.elements import read_once
from explorer.compiler.schedule.staging.tiles import Scalar, ScalarTiles

Body = tuple[loops.Statement, ...]


@dataclass(frozen=True)
class _Phase:
    """Scalars of an element, and what is added to accumulators; what a later phase reads of it is stored in tiles."""

    scalars: tuple[Scalar, ...]
    sums: tuple[loops.Accumulate, ...]


class RowElements:
    """The phases of a segment whose elements are `first` to `upto`, at most `size`: scalars of elements and sums of
    them, those that need a maximum of all elements, and rows. `tiles` have the scalars."""

    def __init__(self, segment: Segment, size: int, write: Writer) -> None:
        self.segment, self.size, self.write = segment, size, write
        self.element = segment.loop.variable
        maxima = {part.scale for part in segment.state if part.scale}
        scaled = {part.name for part in segment.state if part.scale}
        body = alive(_unscaled(segment.loop.body, scaled))
        self.rows = tuple(s for s in body if isinstance(s, loops.For))
        late = _closure(body, maxima)
        self.phases = tuple(
            phase for phase in (_phase(body, late, False), _phase(body, late, True)) if phase.scalars or phase.sums
        )
        self._check(body, maxima)
        kept = self._kept()
        names = {each.result: write.names.new(f"{each.result}_tile") for each in kept}
        self.tiles = ScalarTiles(segment.nest.kernel, kept, names, size)

    def _check(self, body: Body, maxima: set[str]) -> None:
        """Raises Unfit where an element's statements are not scalars, sums of them, and rows that need no sum."""
        if not self.rows:
            raise Unfit("its elements have no rows")
        phased = sum(len(phase.scalars) + len(phase.sums) for phase in self.phases)
        if phased + len(self.rows) != len(body):
            raise Unfit("its elements have more than scalars and rows")
        outputs = {buffer.name for buffer in self.segment.nest.kernel.buffers if buffer.kind == "output"}
        sums = {part.name for part in self.segment.state} | outputs
        read = names_read(self.rows) & (sums - written_names(self.rows))
        early = names_read(self.phases[0].scalars) if self.phases else set()
        if read or early & (sums | maxima):
            raise Unfit("an element reads what others have added up")

    def _kept(self) -> tuple[Scalar, ...]:
        """The scalars that a later phase reads."""
        kept: list[Scalar] = []
        for place, phase in enumerate(self.phases):
            later = names_read(self.rows)
            for following in self.phases[place + 1 :]:
                later |= names_read((*following.scalars, *following.sums))
            kept += [each for each in phase.scalars if each.result in later]
        return tuple(kept)

    @property
    def streamed(self) -> tuple[str, ...]:
        """Of the arrays that scalars are loaded from, those that are read once."""
        return read_once(self.segment, tuple(each for phase in self.phases for each in phase.scalars))

    def phased(self, first: str, upto: str) -> tuple[loops.For, ...]:
        """The loops over the elements, one a phase, of which the last is over rows."""
        before: set[str] = set()
        made: list[loops.For] = []
        for phase in self.phases:
            made.append(self._scalars(phase, before, first, upto))
            before |= {each.result for each in phase.scalars}
        place = self.write.index("at", "sub", self.element, first)
        loads = self.tiles.loads(place.result, names_read(self.rows))
        body: Body = (place, *loads, *self.rows) if loads else self.rows
        return (*made, replace(self.segment.loop, lower=first, extent=upto, body=body))

    def _scalars(self, phase: _Phase, before: set[str], first: str, upto: str) -> loops.For:
        """The loop of one phase, with names of its own: what earlier ones had is loaded from its tile."""
        place = self.write.index("at", "sub", self.element, first)
        loads = self.tiles.loads(place.result, names_read((*phase.scalars, *phase.sums)) & before)
        stores = tuple(
            self.write.store(self.tiles.names[each.result], each.result, place.result)
            for each in phase.scalars
            if each.result in self.tiles.names
        )
        body: Body = (place, *loads, *phase.scalars, *stores, *phase.sums)
        own = [place.result, self.element, *(str(each.result) for each in (*loads, *phase.scalars))]
        names = {name: self.write.names.new(name) for name in own}
        loop = replace(self.segment.loop, lower=first, extent=upto, body=body)
        (made,) = renamed((loop,), names)
        assert isinstance(made, loops.For)
        return made


def _unscaled(body: Iterable[loops.Statement], scaled: set[str]) -> Body:
    """Statements without what scales sums to a maximum that has grown."""
    kept: list[loops.Statement] = []
    for statement in body:
        if isinstance(statement, loops.For):
            statement = replace(statement, body=_unscaled(statement.body, scaled))
        elif isinstance(statement, loops.Accumulate) and _scales(statement, scaled):
            continue
        kept.append(statement)
    return tuple(kept)


def _scales(statement: loops.Accumulate, scaled: set[str]) -> bool:
    return statement.reduction == "product" and statement.target in scaled


def _closure(body: Body, names: set[str]) -> set[str]:
    """The names of an element's scalars that come of these names."""
    found = set(names)
    for statement in body:
        if isinstance(statement, Scalar) and found & set(loops.reads_of(statement)):
            found.add(statement.result)
    return found


def _phase(body: Body, late: set[str], later: bool) -> _Phase:
    """The scalars and sums that come of a maximum, or those that do not."""
    scalars = tuple(s for s in body if isinstance(s, Scalar) and (s.result in late) == later)
    sums = tuple(
        s
        for s in body
        if isinstance(s, loops.Accumulate) and not s.indices and bool(set(map(str, s.operands)) & late) == later
    )
    return _Phase(scalars, sums)
