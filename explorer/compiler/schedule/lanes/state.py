"""Segments: what an iteration of a nest carries through its segment, and how the parts of it are put together.

A row's segment may be cut where every part leaves a state that can be merged: a sum, a maximum, or the sums of a
softmax taken while their maximum grows, which are scaled to the larger of two maxima before they are added (Milakov
and Gimelshein 2018).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from explorer.compiler.counts import Counts
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Node, Origin, serving, walk
from explorer.compiler.ir.statements import written_in
from explorer.compiler.schedule.edit.nests import offsets_of
from explorer.compiler.schedule.lanes.mapping import Nest, Unfit

Write = loops.Accumulate | loops.Store


@dataclass(frozen=True)
class Part:
    """A row or an accumulator that a segment's elements add to: by one reduction, or as a sum that is kept relative
    to exp of the maximum `scale`: an accumulator, or a row with one for each column."""

    target: loops.Row | loops.Accumulator
    reduction: str
    scale: str = ""

    @property
    def name(self) -> str:
        """The target's name."""
        return self.target.name

    @property
    def extents(self) -> tuple[str | int, ...]:
        """The target's extents; an accumulator has none."""
        return self.target.extents if isinstance(self.target, loops.Row) else ()


@dataclass(frozen=True)
class Segment:
    """One iteration: `before`, the loop over the segment between `offsets[r]` and `offsets[r + 1]`, `after`.

    `elements` is how many elements all segments have, `state` what the loop leaves, scales first."""

    nest: Nest
    before: tuple[loops.Statement, ...]
    loop: loops.For
    after: tuple[loops.Statement, ...]
    offsets: str
    elements: str
    state: tuple[Part, ...]

    @property
    def origin(self) -> Origin:
        """Of what shares the segment out: of the sums that it is done for, those of rows if there are some."""
        sums = [part for part in self.state if part.extents] or self.state
        return serving("sums over segments", "schedule", (self.nest.loop.origin,), (s.target.origin for s in sums))

    @property
    def row(self) -> str:
        """The variable of the rows."""
        return self.nest.loop.variable

    @property
    def rows(self) -> str:
        """The number of rows."""
        return str(self.nest.loop.extent)


def mean_length(segment: Segment, counts: Counts) -> float:
    """How many elements a row has on average; 0 where nobody knows."""
    rows, elements = counts.of(segment.rows), counts.of(segment.elements)
    return elements / rows if rows and elements else 0.0


def segment_of(nest: Nest) -> Segment:
    """The nest as a sum over segments; raises Unfit."""
    body = nest.loop.body
    places = [at for at, statement in enumerate(body) if statement in nest.segment_loops]
    if len(places) != 1 or len(nest.segment_loops) != 1:
        raise Unfit("a row has no segment" if not nest.segment_loops else "a row has more than one segment")
    (at,) = places
    loop = body[at]
    assert isinstance(loop, loops.For)
    own = _stores_for_others(body, at)
    before = tuple(statement for statement in body[:at] if not any(statement is each for each in own))
    after = (*own, *body[at + 1 :])
    declared = {node.name: node for node in before if isinstance(node, (loops.Row, loops.Accumulator))}
    writes: dict[str, list[Write]] = {}
    for node in walk(loop):
        if isinstance(node, (loops.Accumulate, loops.Store)):
            writes.setdefault(node.target, []).append(node)
    state = [_part(declared[name], declared, writes, loop) for name in writes if name in declared]
    state.sort(key=lambda part: part.scale != "")
    return Segment(nest, before, loop, after, _offsets(nest, before, loop), _elements(nest, loop), tuple(state))


def cut_segment_of(nest: Nest) -> Segment:
    """The nest as a sum over segments that may be cut, each part with a thread of its own; raises Unfit."""
    segment, arrays = segment_of(nest), {buffer.name for buffer in nest.kernel.buffers}
    if any(written_in(statement) & arrays for statement in segment.before):
        raise Unfit("what its segment needs is stored as well, which each part of a row would do")
    return segment


def _stores_for_others(body: tuple[loops.Statement, ...], until: int) -> list[loops.Statement]:
    """The statements before a place that store in arrays, and do nothing that what stands up to it needs: they may be
    done when the row ends, by one thread, and need not be done by each that has a part of the row."""
    nodes = [node for statement in body for node in walk(statement)]
    rows = {node.name for node in nodes if isinstance(node, (loops.Row, loops.Accumulator))}
    arrays = {node.buffer for node in nodes if isinstance(node, loops.Load)} - rows
    needed = {name for statement in body[: until + 1] for node in walk(statement) for name in loops.reads_of(node)}
    writers = Counter(name for statement in body for name in written_in(statement))
    touched = arrays | (needed & rows) | {name for name, number in writers.items() if number > 1}
    stores = [statement for statement in body[:until] if isinstance(statement, (loops.Store, loops.For))]
    return [each for each in stores if written_in(each) - rows and written_in(each).isdisjoint(touched)]


def _part(
    target: loops.Row | loops.Accumulator,
    declared: dict[str, loops.Row | loops.Accumulator],
    writes: dict[str, list[Write]],
    loop: loops.For,
) -> Part:
    """How the parts of one target are merged, of all that is written in the loop, by target."""
    own = writes.get(target.name, [])
    reductions = [node.reduction for node in own if isinstance(node, loops.Accumulate)]
    if len(reductions) < len(own):
        raise Unfit(f"its segment stores in {target.name}")
    if len(set(reductions)) == 1:
        return Part(target, reductions[0])
    scale = scale_of(own[0], list(walk(loop))) if reductions == ["product", "sum"] else ""
    if scale not in declared or _part(declared[scale], declared, writes, loop).reduction != "max":
        raise Unfit(f"parts of {target.name} cannot be merged")
    return Part(target, "sum", scale)


def scale_of(write: Write, nodes: Sequence[Node]) -> str:
    """The maximum m of `before = m; ...; now = m; d = before - now; shrink = exp(d); y *= shrink`, or "": an
    accumulator, or a row of which each column shrinks that column of y."""
    computed = {node.result: node for node in nodes if isinstance(node, loops.Compute)}
    own = {node.result: node.buffer for node in nodes if isinstance(node, loops.Load) and node.indices == write.indices}

    def operands(name: object, function: str) -> tuple[object, ...]:
        node = computed.get(str(name))
        return node.operands if node is not None and node.function == function else ()

    names: tuple[object, ...] = write.operands
    for function in ("exp", "sub"):
        names = operands(names[0], function) if len(names) == 1 else ()
    maxima = {source for name in names for source in operands(name, "copy")}
    maxima |= {own[str(name)] for name in names if str(name) in own}
    return str(maxima.pop()) if len(names) == 2 and len(maxima) == 1 else ""


def elements_of(nest: Nest) -> Segment:
    """A parallel loop over elements, without a row around them: all of them as one segment."""
    return Segment(nest, (), nest.loop, (), offsets="", elements=str(nest.loop.extent), state=())


def _offsets(nest: Nest, before: tuple[loops.Statement, ...], loop: loops.For) -> str:
    """The array of where segments begin; raises Unfit."""
    found = offsets_of(before, loop, nest.loop.variable)
    if not found:
        raise Unfit("its segment has no offsets" if found is None else "its segment is not that of its own row")
    return found


def _elements(nest: Nest, loop: loops.For) -> str:
    """How many elements all segments have: the length of the arrays that the segment's variable indexes."""
    extents = {buffer.name: buffer.extents for buffer in nest.kernel.buffers}
    loads = (node for node in walk(loop) if isinstance(node, loops.Load) and node.buffer in extents)
    lengths = {extents[load.buffer][0] for load in loads if load.indices[:1] == (loop.variable,)}
    if len(lengths) != 1:
        raise Unfit("the number of its elements has no name")
    return str(lengths.pop())
