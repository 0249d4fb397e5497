"""Finds the loop over a fact's negatives where a chunk of facts shares their list: each fact meets each of the list.

    parallel for b in 0..B {
      ir = r[b]                                       # scalars of the fact
      for j in 0..N {
        it = t[b, j]                                  # the same for all facts of a chunk
        acc s = 0.0
        for d in 0..D { q = Q[b, d]; e = E[it, d]; u = q - e; s += abs(u) }
        out[b, j] = s } }

What a sum's elements are made of is of the fact (`q`), of the negative (`e`), or of both: only the last has to be
computed for each pair. Which is which, the indices alone tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.statements import pure, slice_for
from explorer.compiler.schedule.edit.nests import Body, only_loop, static_loop

FACT, NEGATIVE, DEPTH = "fact", "negative", "depth"
"""What a value may differ by: which fact, which negative, and which element of a sum."""
BOTH = frozenset((FACT, NEGATIVE))
Depends = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Side:
    """What a sum takes of a fact, or of a negative, whose loop has this `variable`: `values`, which are computed by
    `elements` for each depth, of `scalars`, which are the same for all of them."""

    variable: str
    scalars: Body
    elements: Body
    values: tuple[str, ...]

    @property
    def loads(self) -> tuple[loops.Load, ...]:
        """The loads that the values are, where each is what is loaded; else none."""
        found = {s.result: s for s in self.elements if isinstance(s, loops.Load)}
        return tuple(found[value] for value in self.values) if found.keys() >= set(self.values) else ()


@dataclass(frozen=True)
class Sum:
    """A sum over `loop`: of each pair what `pairs` compute of the values of both sides, in the end accumulations."""

    loop: loops.For
    fact: Side
    negative: Side
    pairs: tuple[loops.Compute | loops.Accumulate, ...]


@dataclass(frozen=True)
class Shared:
    """A nest of facts, each with all negatives of its list: `scalars` that need no negative, and those that need no
    fact, the `sums` of a pair with their accumulators, and the `epilogue`, which stores the pair's numbers."""

    rows: loops.For
    negatives: loops.For
    scalars: tuple[Body, Body]
    accumulators: tuple[loops.Accumulator, ...]
    sums: tuple[Sum, ...]
    epilogue: Body


def loop_over_lists(kernel: loops.Kernel) -> int | None:
    """Where in an iteration the first loop is that stores a number for each negative of a fact's list."""
    rows = only_loop(kernel)
    if rows is None or not isinstance(rows.extent, str):
        return None
    outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
    for place, loop in enumerate(rows.body):
        if not isinstance(loop, loops.For) or not static_loop(kernel, loop) or loop.step != 1:
            continue
        lists, at, last = _lists(kernel, rows, loop), (rows.variable, loop.variable), loop.body[-1]
        reads = any(isinstance(s, loops.Load) and s.buffer in lists and s.indices == at for s in loop.body)
        if reads and isinstance(last, loops.Store) and last.target in outputs and last.indices == at:
            return place
    return None


def find_shared(kernel: loops.Kernel) -> Shared | None:
    """The nest as facts that meet all of their list, and do nothing else; None where it is something else."""
    rows, place = only_loop(kernel), loop_over_lists(kernel)
    if rows is None or place is None or place + 1 < len(rows.body) or not all(map(pure, rows.body[:place])):
        return None
    negatives = rows.body[place]
    assert isinstance(negatives, loops.For)
    inner = negatives.body
    at = (rows.variable, negatives.variable)
    outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
    head, accumulators = rows.body[:-1], tuple(s for s in inner if isinstance(s, loops.Accumulator))
    own = {accumulator.name for accumulator in accumulators}
    summed = tuple(s for s in inner if isinstance(s, loops.For))
    straight = tuple(s for s in inner if pure(s))
    stores = [s for s in inner if isinstance(s, loops.Store) and s.target in outputs and s.indices == at]
    if len(straight) + len(accumulators) + len(summed) + len(stores) < len(inner) or not summed:
        return None
    depends = _depends((*head, *straight), at, _lists(kernel, rows, negatives), own)
    of_fact, of_negative = (
        tuple(s for s in (*head, *straight) if other not in depends[str(loops.result_of(s))])
        for other in (NEGATIVE, FACT)
    )
    of_pair = tuple(s for s in straight if depends[str(loops.result_of(s))] >= BOTH)
    sums = [_sum(kernel, loop, (of_fact, of_negative, of_pair), at, own, depends) for loop in summed]
    if not all(sums) or any(name in outputs for s in (*head, *inner) for name in loops.reads_of(s)):
        return None
    epilogue = tuple(s for s in inner if s in stores or s in of_pair)
    return Shared(rows, negatives, (of_fact, of_negative), accumulators, tuple(filter(None, sums)), epilogue)


def _lists(kernel: loops.Kernel, rows: loops.For, negatives: loops.For) -> set[str]:
    """The arrays of the negatives' ids, given or computed of such alone; what is computed of the fact's as well is of
    both."""
    shape = (rows.extent, negatives.extent)
    return {buffer.name for buffer in kernel.buffers if buffer.sharing > 1 and buffer.extents == shape}


def _depends(statements: Iterable[loops.Statement], at: tuple[str, str], lists: set[str], own: set[str]) -> Depends:
    """By name, what a value differs by. What is read of an accumulator is of a pair."""
    found = {at[0]: frozenset((FACT,)), at[1]: frozenset((NEGATIVE,)), **dict.fromkeys(own, BOTH)}
    for statement in statements:
        read = frozenset[str]().union(*(found.get(name, frozenset()) for name in loops.reads_of(statement)))
        if isinstance(statement, loops.Load) and statement.buffer in lists and statement.indices == at:
            read = frozenset((NEGATIVE,))
        found[str(loops.result_of(statement))] = read
    return found


def _sum(
    kernel: loops.Kernel,
    loop: loops.For,
    scalars: tuple[Body, Body, Body],
    at: tuple[str, str],
    own: set[str],
    outer: Depends,
) -> Sum | None:
    """A loop as a sum of a pair, whose `scalars` are of the fact, of the negative, and of both, which are computed
    again for each element; None where it is something else, or loads what both sides find together."""
    adds = tuple(s for s in loop.body if isinstance(s, loops.Accumulate) and s.target in own and not s.indices)
    elements = tuple(s for s in loop.body if pure(s))
    if not static_loop(kernel, loop) or loop.step != 1 or not adds or len(adds) + len(elements) < len(loop.body):
        return None
    elements = (*slice_for(scalars[2], (*elements, *adds)), *elements)
    depends = {**outer, loop.variable: frozenset((DEPTH,))}
    depends |= _following(elements, depends)
    mixed = tuple(s for s in elements if depends[str(loops.result_of(s))] >= BOTH)
    computed = tuple(s for s in mixed if isinstance(s, loops.Compute))
    if len(computed) < len(mixed):
        return None
    pairs: tuple[loops.Compute | loops.Accumulate, ...] = (*computed, *adds)
    read = dict.fromkeys(str(atom) for s in pairs for atom in s.operands if isinstance(atom, str))
    values = [name for name in read if not depends[name] >= BOTH]
    known = {loops.result_of(s) for s in computed}
    if not known.issuperset(set(read).difference(values)):  # what a pair has beside the sum
        return None
    of_negative = tuple(name for name in values if NEGATIVE in depends[name])
    of_fact = tuple(name for name in values if name not in of_negative)
    sides = []
    for variable, names, of_side in zip(at, (of_fact, of_negative), scalars[:2], strict=True):
        readers = [loops.Compute(result="", function="copy", operands=names, origin=loop.origin)]
        needed = tuple(slice_for(elements, readers))
        sides.append(Side(variable, tuple(slice_for(of_side, [*needed, *readers])), needed, names))
    return Sum(loop, sides[0], sides[1], pairs)


def _following(elements: Body, known: Depends) -> Depends:
    """What values of a sum's elements differ by."""
    found = dict(known)
    for statement in elements:
        read = (found.get(name, frozenset()) for name in loops.reads_of(statement))
        found[str(loops.result_of(statement))] = frozenset[str]().union(*read)
    return found
