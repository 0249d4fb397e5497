"""Rows on neighbouring lanes: what the schedules of sparse kernels share.

An innermost loop over a row's elements is shared by `width` lanes, which take four floats at a time where they lie in
memory so; rows that the nest fills or sums in are tiles in those lanes' registers. A loop over a segment is walked by
the lanes of a group together, or, where it does nothing but sum, by the groups of a warp in turn.

G-Sparse §III-B: its register tile over strided columns (kNRegTile) is a loop that goes round on its lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import cached_property
from math import prod

from explorer.compiler.decisions import Decision
from explorer.compiler.frozen import dataclass, replace
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import Names, Node, once, walk
from explorer.compiler.schedule.edit.load_ahead import in_batches
from explorer.compiler.schedule.edit.nests import static_loop
from explorer.compiler.schedule.lanes.log import LaneLog
from explorer.compiler.target import VECTOR, WARP

LANES = WARP
MOST_FLOATS = 64
"""Floats of rows that a lane keeps: beside the loads in flight they leave 128 registers for everything."""
USUAL_IN_FLIGHT = 32
IN_FLIGHT = Decision(
    name="in_flight",
    domain=(8, 16, USUAL_IN_FLIGHT, 64),
    why="floats of gathered rows that a lane waits for at a time: how far loads of several elements go together",
    source="32, which with rows of 64 leave 128 registers for everything",
)
NEUTRAL = {"sum": 0.0, "product": 1.0}
"""Where sums begin, so that many lanes may begin alike; a maximum of equals is their own."""


Around = Callable[[tuple[kernels.Statement, ...]], tuple[kernels.Statement, ...]]


class Unfit(Exception):
    """A nest that a schedule is not for; the message is a clause that the user reads."""


@dataclass(frozen=True)
class Spread:
    """`width` lanes share a row, `step` floats each at a time; `unroll` iterations of a segment's loop have their loads
    in flight together, as far as those are no more than `floats` a lane; so many groups of lanes are `sharing` a
    segment, 1 where each walks its own; `heads` groups have one element's rows. `log` is what was done so."""

    step: int
    width: int
    rounds: int
    unroll: int = 1
    floats: int = USUAL_IN_FLIGHT
    sharing: int = 1
    heads: int = 1
    log: LaneLog = field(default_factory=LaneLog, compare=False)

    @property
    def groups(self) -> int:
        """Groups of lanes of a warp, each of which has a row with all its heads at a time."""
        return LANES // (self.width * self.heads)

    @property
    def segments(self) -> int:
        """Segments that a warp has at a time."""
        return self.groups // self.sharing


@dataclass(frozen=True)
class Nest:
    """A kernel that is one parallel loop, and what its statements are; `heads` is the loop over heads around an
    iteration, where it has been moved there."""

    kernel: loops.Kernel
    loop: loops.For
    heads: loops.For | None = None

    @cached_property
    def rows(self) -> dict[str, loops.Row]:
        """The rows by name."""
        return {node.name: node for node in walk(self.loop) if isinstance(node, loops.Row)}

    def static(self, loop: loops.For) -> bool:
        """Whether a loop's bounds are known when the kernel is compiled."""
        return static_loop(self.kernel, loop)

    def over_row(self, loop: loops.For) -> bool:
        """Whether a loop goes over a row's elements: of static bounds, and no loop in it."""
        return self.static(loop) and not any(isinstance(child, loops.For) for child in loop.body)

    @cached_property
    def lengths(self) -> dict[str, tuple[int, int]]:
        """Of each array and row that lanes may take in vectors, how many dimensions it has, and its last one's length:
        1 where that is not known."""
        sizes, arrays = dict(self.kernel.sizes), [buffer for buffer in self.kernel.buffers if buffer.kind != "index"]
        extents = {array.name: array.extents for array in arrays if array.extents}
        extents |= {row.name: row.extents for row in self.rows.values() if row.extents}
        lasts = {name: shape[-1] for name, shape in extents.items()}
        return {
            name: (len(extents[name]), sizes.get(last, 1) if isinstance(last, str) else last)
            for name, last in lasts.items()
        }

    @cached_property
    def row_loops(self) -> list[loops.For]:
        """The loops over rows' elements."""
        return [node for node in walk(self.loop) if isinstance(node, loops.For) and self.over_row(node)]

    @cached_property
    def vectors(self) -> tuple[int, int]:
        """How many floats a lane moves at once, and how many times as many the longest row has."""
        found = self.row_loops
        step = VECTOR if found and all(_in_vectors(self, loop) for loop in found) else 1
        return step, max([-(-self.kernel.size(loop.extent) // step) for loop in found] or [1])

    @cached_property
    def segment_loops(self) -> list[loops.For]:
        """The loops whose bounds are found at run time, the parallel one apart."""
        inner = (node for child in self.loop.body for node in walk(child))
        return [node for node in inner if isinstance(node, loops.For) and not self.static(node)]


def nest_of_any(kernel: loops.Kernel) -> Nest:
    """The kernel's parallel loop, whatever it does; raises Unfit where it is not one."""
    if len(kernel.body) != 1 or not isinstance(kernel.body[0], loops.For) or not kernel.body[0].parallel:
        raise Unfit("it is not one parallel loop")
    return Nest(kernel, kernel.body[0])


def nest_of(kernel: loops.Kernel) -> Nest:
    """The kernel as a nest that lanes can share; raises Unfit."""
    nest = nest_of_any(kernel)
    rows = nest.rows.keys()
    for statement, loop in _with_row_loop(nest, nest.loop.body, None):
        if loop is None and isinstance(statement, loops.Load) and statement.buffer in rows:
            raise Unfit(f"all lanes read {loops.print_statement(statement)} of a row that they share")
        _check_write(nest, statement, loop)
    if any(node for node in nest.row_loops if any(isinstance(child, loops.Row) for child in node.body)):
        raise Unfit("a row is declared for each element of another")
    return nest


def _with_row_loop(
    nest: Nest, body: Iterable[loops.Statement], loop: loops.For | None
) -> Iterator[tuple[loops.Statement, loops.For | None]]:
    """Each statement that is no loop, with the loop over a row's elements around it."""
    for statement in body:
        if isinstance(statement, loops.For):
            yield from _with_row_loop(nest, statement.body, statement if nest.over_row(statement) else loop)
        else:
            yield statement, loop


def _check_write(nest: Nest, statement: loops.Statement, loop: loops.For | None) -> None:
    """Raises Unfit unless a lane writes only elements that are its own, or a sum that the lanes join."""
    if loop is not None and isinstance(statement, loops.Load) and statement.buffer in nest.rows:
        if statement.indices[-1] != loop.variable:
            raise Unfit(f"a lane reads another's part of the row {statement.buffer}")
        return
    if not isinstance(statement, (loops.Store, loops.Accumulate)):
        return
    written = statement.target
    mine = loop is not None and bool(statement.indices) and statement.indices[-1] in _own(loop)
    if written in nest.rows and not mine:
        raise Unfit(f"the row {written} is written outside a loop over its elements")
    if loop is None or mine:
        return
    local = any(loops.result_of(child) == written for child in loop.body)
    if not isinstance(statement, loops.Accumulate) or (statement.indices and not local):
        raise Unfit(f"the lanes of a row all write {loops.print_statement(statement)}")
    if not local and any(written in kernels.inputs_of(child) for child in loop.body):
        raise Unfit(f"the lanes of a row read {written} while they sum in it")


def _own(loop: loops.For) -> set[str]:
    """The indices that tell the iterations of a loop apart: its variable, and what it is added to."""
    shifted = (node for node in loop.body if isinstance(node, loops.Index) and node.function == "add")
    return {loop.variable} | {node.result for node in shifted if node.operands[1] == loop.variable}


def spread_rows(nest: Nest, most: int = LANES) -> Spread:
    """How the nest's rows lie on lanes, at most so many of them; raises Unfit where they take too many registers."""
    heads = heads_of(nest)
    if heads > most:
        raise Unfit(f"a row has {heads} heads")
    most //= heads
    step, longest = nest.vectors
    width = min(most, 1 << (longest - 1).bit_length())
    rounds = -(-longest // width)
    floats = sum(_floats(nest, row, step, width) for row in nest.rows.values())
    if floats > MOST_FLOATS:
        raise Unfit(f"its rows take {floats} registers a lane, of at most {MOST_FLOATS}")
    return Spread(step, width, rounds, heads=heads)


def heads_of(nest: Nest) -> int:
    """How many groups of lanes have one element's rows: a power of 2, one for each head at least."""
    return 1 if nest.heads is None else 1 << (nest.kernel.size(nest.heads.extent) - 1).bit_length()


def _floats(nest: Nest, row: loops.Row, step: int, width: int) -> int:
    *outer, last = (nest.kernel.size(extent) for extent in row.extents)
    return prod(outer) * -(-last // (step * width)) * step


def _in_vectors(nest: Nest, loop: loops.For) -> bool:
    """Whether four iterations of a loop touch four neighbouring floats, on a boundary of 16 bytes, or the same one, and
    whether what they add up is a vector's elements."""
    variable, lengths = loop.variable, nest.lengths
    shifted = {variable}
    if nest.kernel.size(loop.extent) % VECTOR or _counts(loop):
        return False
    for statement in loop.body:
        if isinstance(statement, loops.Index):
            if not _shifts(nest, statement, variable):
                return False
            shifted.add(statement.result)
            continue
        if not isinstance(statement, (loops.Load, loops.Store, loops.Accumulate)) or not statement.indices:
            continue
        array = statement.buffer if isinstance(statement, loops.Load) else statement.target
        if array not in lengths:  # indices, which have no vectors
            return False
        *outer, last = statement.indices
        dimensions, length = lengths[array]
        length = length if len(statement.indices) == dimensions else 1
        if not shifted.isdisjoint(outer) or (last in shifted and length % VECTOR):
            return False
    return True


@once
def _counts(loop: loops.For) -> bool:
    """Whether a loop adds a number that is the same in each iteration to a scalar: of a vector it is added once."""
    if not any(isinstance(s, loops.Accumulate) and s.reduction in ("sum", "product") for s in loop.body):
        return False
    differ = {loop.variable} | {s.name for s in loop.body if isinstance(s, (loops.Row, loops.Accumulator))}
    for statement in loop.body:
        if isinstance(statement, loops.For) or not differ.isdisjoint(loops.reads_of(statement)):
            differ.add(str(loops.result_of(statement)))
        elif isinstance(statement, loops.Accumulate) and statement.reduction in ("sum", "product"):
            return True
    return False


def _shifts(nest: Nest, index: loops.Index, variable: str) -> bool:
    """Whether an index is a loop's variable and a whole number of vectors."""
    by = {
        node.result: node.operands[1]
        for node in walk(nest.loop)
        if isinstance(node, loops.Index) and node.function == "mul"
    }
    start, *rest = index.operands
    multiple = by.get(str(start), 1)
    return index.function == "add" and rest == [variable] and isinstance(multiple, int) and multiple % VECTOR == 0


def on_lanes(
    nest: Nest, body: Iterable[loops.Statement], spread: Spread, names: Names, around: Around | None = None
) -> tuple[kernels.Statement, ...]:
    """Statements of one iteration of the parallel loop, its rows on lanes; raises Unfit. What a loop over a segment
    becomes is put into what `around` makes of it."""
    converting = _Conversion(nest, replace(spread, log=LaneLog()), names, around)
    converted = converting.body(tuple(body))
    spread.log.add(converting.spread.log)
    return converted


_Sum = tuple[int, loops.Accumulate, frozenset[str]]
"""The place of a body at which something is added to, what adds, and the kinds of loops around it that lanes share."""


@dataclass(frozen=True)
class _Conversion:
    nest: Nest
    spread: Spread
    names: Names
    around: Around | None = None

    def body(self, statements: tuple[loops.Statement, ...]) -> tuple[kernels.Statement, ...]:
        """Statements with their loops shared and, after the last addition to a sum, its parts joined."""
        joins: dict[int, list[kernels.Reduce]] = {}
        targets = {at: each for at, each in enumerate(statements) if isinstance(each, (loops.Accumulator, loops.Row))}
        if targets:
            sums = self._sums(statements)
            for at, target in targets.items():
                place, join = self._join(target, statements, at, sums.get(target.name, []))
                joins.setdefault(place, []).extend(join)
        converted: list[kernels.Statement] = []
        for at, statement in enumerate(statements):
            converted += [*self._statement(statement), *joins.get(at, [])]
        return tuple(converted)

    def _statement(self, statement: loops.Statement) -> tuple[kernels.Statement, ...]:
        match statement:
            case loops.For():
                return self._loop(statement)
            case loops.Row():
                self.spread.log.keep(statement.name)
                extents, origin = statement.extents, statement.origin
                return (kernels.Tile(name=statement.name, extents=extents, memory="register", origin=origin),)
        return (statement,)

    def _loop(self, loop: loops.For) -> tuple[kernels.Statement, ...]:
        made = kernels.Loop(
            variable=loop.variable,
            lower=loop.lower,
            extent=loop.extent,
            body=self.body(loop.body),
            origin=loop.origin,
        )
        if self.nest.over_row(loop):
            return (over_row(made, self.spread),)
        if self.nest.static(loop):
            return (replace(made, unroll=0 if self._picks_rows(loop) else 1),)
        walked = self._over_segment(loop, made)
        return walked if self.around is None else self.around(walked)

    def _over_segment(self, loop: loops.For, made: kernels.Loop) -> tuple[kernels.Statement, ...]:
        """A loop whose bounds are found at run time, its iterations shared where they may be, in batches where their
        loads can come first."""
        shared = self._shared(loop)
        if shared:
            self._check_shared(loop)
        buffers = {buffer.name: buffer for buffer in self.nest.kernel.buffers}
        try:
            size, groups = batch_size(made.body, self.spread, buffers), self.spread.sharing if shared else 1
            batches = in_batches(made, size, groups, buffers, self.names)
            self.spread.log.load_ahead(loop.variable, size * groups, loop.lower, loop.extent)
            return batches
        except ValueError:
            made = replace(made, unroll=self.spread.unroll)
        if self.spread.unroll > 1:
            self.spread.log.unroll(loop.variable, self.spread.unroll)
        width = self.spread.sharing if self._holds_rows(loop) else self.spread.sharing * self.spread.width
        return (replace(made, bind="lane", width=width) if shared else made,)

    def _shared(self, loop: loops.For) -> bool:
        """Whether groups of lanes take this loop's iterations in turn: the outermost over a segment."""
        return self.spread.sharing > 1 and loop in self.nest.loop.body

    def _holds_rows(self, loop: loops.For) -> bool:
        """Whether lanes share rows inside a loop; otherwise each lane has an iteration of its own."""
        return any(isinstance(node, loops.For) and self.nest.over_row(node) for node in walk(loop))

    def _check_shared(self, loop: loops.For) -> None:
        """Raises Unfit where an iteration of a segment's loop leaves something to the next, sums apart."""
        local = {loops.result_of(node) for node in walk(loop)}
        for node in walk(loop):
            if isinstance(node, loops.Store) and node.target in self.nest.rows and node.target not in local:
                raise Unfit(f"iterations over {loop.variable} write the row {node.target} in turn")

    def _picks_rows(self, loop: loops.For) -> bool:
        """Whether a loop's variable picks elements of rows, whose registers have no run-time index."""
        reads = (node for node in walk(loop) if isinstance(node, loops.Load) and node.buffer in self.nest.rows)
        writes = (node for node in walk(loop) if isinstance(node, (loops.Store, loops.Accumulate)))
        rows = [*reads, *(node for node in writes if node.target in self.nest.rows)]
        return any(loop.variable in node.indices for node in rows)

    def _sums(self, body: tuple[loops.Statement, ...]) -> dict[str, list[_Sum]]:
        """By target the places of a body that add to it."""
        found: dict[str, list[_Sum]] = {}
        for place, statement in enumerate(body):
            for node, levels in self._with_levels(statement, frozenset()):
                if isinstance(node, loops.Accumulate):
                    found.setdefault(node.target, []).append((place, node, levels))
        return found

    def _join(
        self, target: loops.Accumulator | loops.Row, body: tuple[loops.Statement, ...], at: int, sums: list[_Sum]
    ) -> tuple[int, list[kernels.Reduce]]:
        """Where in a body the lanes' parts of a sum are put together, and how."""
        own = frozenset({"row"}) if isinstance(target, loops.Row) else frozenset()
        levels = {found - own for _, _, found in sums}
        if not sums or levels == {frozenset()}:
            return at, []
        if len(levels) > 1 or len({node.reduction for _, node, _ in sums}) > 1:
            raise Unfit(f"{target.name} is summed in by some lanes and by all")
        last = max(place for place, _, _ in sums)
        first = min(place for place, _, _ in sums)
        if isinstance(target, loops.Accumulator):
            self._check_accumulator(target, sums[0][1].reduction, body[at + 1 : last + 1])
        else:
            self._check_row(target, sums[0][1].reduction, body[:last], body[first : last + 1])
        join = self._reduce(target.name, sums[0][1], levels.pop())
        return last, [join] if join.lanes > 1 else []

    def _reduce(self, name: str, node: loops.Accumulate, levels: frozenset[str]) -> kernels.Reduce:
        width, sharing = self.spread.width, self.spread.sharing
        lanes = (width if "row" in levels else 1) * (sharing if "segment" in levels else 1)
        apart = 1 if "row" in levels else width
        if "alone" in levels:
            lanes, apart = sharing * width, 1
        return kernels.Reduce(target=name, reduction=node.reduction, lanes=lanes, apart=apart, origin=node.origin)

    def _check_accumulator(self, target: loops.Accumulator, reduction: str, body: tuple[loops.Statement, ...]) -> None:
        if reduction not in ("max", "min") and target.start != NEUTRAL[reduction]:
            raise Unfit(f"every lane would start {target.name} with {target.start}")
        if any(_reads(statement, target.name) for statement in body):
            raise Unfit(f"{target.name} is read before all lanes have added to it")

    def _check_row(
        self,
        target: loops.Row,
        reduction: str,
        before: tuple[loops.Statement, ...],
        summing: tuple[loops.Statement, ...],
    ) -> None:
        nodes = [node for statement in before for node in walk(statement)]
        starts = [node.operands for node in nodes if isinstance(node, loops.Store) and node.target == target.name]
        if reduction not in ("max", "min") and any(start != (NEUTRAL[reduction],) for start in starts):
            raise Unfit(f"every group of lanes would start {target.name} with more than {NEUTRAL[reduction]}")
        if any(_reads(statement, target.name) for statement in summing):
            raise Unfit(f"{target.name} is read while groups of lanes sum in it")

    def _with_levels(self, statement: loops.Statement, levels: frozenset[str]) -> Iterator[tuple[Node, frozenset[str]]]:
        """The statement and those below, each with the kinds of loops around it that lanes share."""
        yield statement, levels
        if isinstance(statement, loops.For):
            if self.nest.over_row(statement):
                levels |= {"row"}
            elif not self.nest.static(statement) and self._shared(statement):
                levels |= {"segment" if self._holds_rows(statement) else "alone"}
            for child in statement.body:
                yield from self._with_levels(child, levels)


def batch_size(
    body: tuple[kernels.Statement, ...], spread: Spread, buffers: Mapping[str, loops.Buffer], most: int = 0
) -> int:
    """How many iterations have their rows in registers at a time: the spread's number of them, or as many as fit."""
    inner = [node for loop in body if isinstance(loop, kernels.Loop) for node in walk(loop)]
    rows = sum(isinstance(node, loops.Load) and node.buffer in buffers for node in inner)
    if not rows:
        raise ValueError("no rows are loaded")
    return in_flight(rows, spread, most)


def in_flight(rows: int, spread: Spread, most: int = 0) -> int:
    """How many iterations that load so many rows each have them in registers at a time."""
    return max(1, min(most or spread.unroll, spread.floats // (rows * spread.rounds * spread.step)))


def _reads(statement: loops.Statement, name: str) -> bool:
    """Whether a statement or one below reads a name, additions to it apart."""
    return any(name in kernels.inputs_of(node) for node in walk(statement))


def of_heads(nest: Nest, body: tuple[kernels.Statement, ...], spread: Spread) -> tuple[kernels.Statement, ...]:
    """What is done for an element's heads, each by lanes of its own; the body itself where there are none."""
    if nest.heads is None:
        return body
    heads = nest.heads
    made = kernels.Loop(variable=heads.variable, extent=heads.extent, body=body, origin=heads.origin)
    return (replace(made, bind="lane", width=spread.heads),)


def over_row(loop: kernels.Loop, spread: Spread) -> kernels.Loop:
    """A loop over a row's elements, shared by the lanes of a group."""
    spread.log.bind(spread.width, spread.step, spread.rounds)
    unroll = 0 if spread.rounds > 1 else 1
    return replace(loop, bind="lane", step=spread.step, width=spread.width, unroll=unroll)
