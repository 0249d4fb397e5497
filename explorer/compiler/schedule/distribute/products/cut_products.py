"""Cuts an iteration apart where it does products that no tile would do: each comes first, in the form that tiles take.

    for k {                                 for k { acc s1; for d { x = X[b, d]; m = W[d, k]; s1 += x * m }
      acc s                                         y[b, k] = s1 }
      for d { x = X[b, d]; m = W[d, k];     ...
              s += x * m }                  for k { s = y[b, k]; ... }
      ... }

What the product needs of loops before it is a kernel in front of it, whose rows are stored. A matrix that is computed
of parameters, or that lies in memory as no tile reads it, is written once, by a kernel of its own: inside the loops it
would be computed again for each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from operator import is_

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Atom, Names, walk
from explorer.compiler.ir.statements import (
    alive,
    closure,
    is_segment,
    names_read,
    pure,
    read_in,
    written_in,
    written_names,
)
from explorer.compiler.report import Report
from explorer.compiler.schedule.distribute.products.one_sum import joined, one_sum
from explorer.compiler.schedule.distribute.products.product_parts import ProductParts, Sums
from explorer.compiler.schedule.distribute.products.separate_rows import fissioned
from explorer.compiler.schedule.distribute.products.split_products import cut
from explorer.compiler.schedule.edit.nests import Body, only_loop, part
from explorer.compiler.schedule.gemm.strategy import tiles_of
from explorer.compiler.schedule.match.contractions import Contraction, contractions

IN_TURN = 8
"""Products of an iteration that are tried in turn. Of a longer chain the last comes first: all before it is stored, so
that it fits at once, where each in turn would take a time that grows with the fourth power of their number. No
decision: it bounds the time of compiling."""


def cut_products(kernel: loops.Kernel, names: Names, report: Report) -> tuple[loops.Kernel, ...]:
    """The kernels that a nest with a product is cut in, of which the last starts with the product; none where there is
    none, or it cannot be cut out."""
    rows = only_loop(kernel)
    if rows is None or rows.extent == 1 or tiles_of(kernel, report):
        return ()
    products = list(contractions(kernel, rows))
    many = len(products) > IN_TURN
    for found in reversed(products) if many else products:
        if found.constant:
            if kernels := _hoisted(kernel, rows, found, names):
                report.did(f"{kernel.name}: what is summed of {_matrix(kernel, found)} alone is a kernel of its own")
                return kernels
            continue
        if found.small:
            if kernels := _apart(kernel, rows, found, names):
                report.did(f"{kernel.name}: the product with {_matrix(kernel, found)} in a kernel of its own")
                return kernels
            continue
        for kernels in _ways(kernel, rows, found, names):
            if tiles_of(kernels[-1], report):
                report.did(f"{kernel.name}: the product with {_matrix(kernel, found)} first, as tiles take it")
                return kernels
    return ()


def _matrix(kernel: loops.Kernel, found: Contraction) -> str:
    """What a product's matrix is made of."""
    buffers = {buffer.name for buffer in kernel.buffers}
    return ", ".join(s.buffer for s in found.matrix.code if isinstance(s, loops.Load) and s.buffer in buffers)


def _hoisted(kernel: loops.Kernel, rows: loops.For, found: Contraction, names: Names) -> tuple[loops.Kernel, ...]:
    """The kernel of a sum of parameters, and the nest that loads it; none where it is but a part of what is added."""
    parts = ProductParts(kernel, rows, found, names)
    sums, made = parts.constant()
    rest = _Rest(parts, sums)
    if not rest.replaced or sums.array is None:
        return ()
    whole = replace(kernel, buffers=(*kernel.buffers, sums.array))
    before, after = rest.body()
    return made, part(whole, whole.name, replace(rows, body=alive(_pruned((*before, *after)))))


def _apart(kernel: loops.Kernel, rows: loops.For, found: Contraction, names: Names) -> tuple[loops.Kernel, ...]:
    """The kernel of a product that is worth no tile, and that of a loop over a segment, with which it shares an
    iteration but nothing else: the loop's strategies are for sums; none where there is no such loop."""
    if not any(is_segment(kernel, statement) for statement in rows.body):
        return ()
    cut_out = _CutOut.of(kernel, rows, found, names, in_row=False)
    if any(is_segment(kernel, statement) for statement in cut_out.needed):
        return ()
    again = tuple(s for s in cut_out.needed if pure(s))
    first, second = (*cut_out.needed, *cut_out.product), _pruned((*again, *cut_out.others))
    kernels = cut(cut_out.whole, rows, first, second, names)
    return (*cut_out.matrix, *kernels) if kernels else ()


@dataclass(frozen=True)
class _CutOut:
    """A product and what is left of its iteration without it: what it `needed`, and all others; `whole` is the kernel
    with the new arrays, `matrix` the one that writes the matrix, if that is new."""

    product: Body
    needed: Body
    others: Body
    sums: str
    whole: loops.Kernel
    matrix: tuple[loops.Kernel, ...]

    @classmethod
    def of(cls, kernel: loops.Kernel, rows: loops.For, found: Contraction, names: Names, in_row: bool) -> _CutOut:
        """The product with its sums in a row, or in an array."""
        parts = ProductParts(kernel, rows, found, names)
        matrix = parts.matrix() if parts.load is None else None
        sums = parts.sums(in_row)
        product = parts.product(sums, matrix[0] if matrix else None)
        made = tuple(buffer for buffer in (sums.array, matrix and matrix[0]) if buffer)
        before, after = _Rest(parts, sums).body()
        return cls._of(parts, sums, product, matrix, made, before, _pruned(after))

    @classmethod
    def in_one_sum(cls, kernel: loops.Kernel, rows: loops.For, found: Contraction, names: Names) -> _CutOut | None:
        """The product with all its columns in a row, which one loop adds up; None where more is done with them."""
        whole = joined(found)
        if whole is None:
            return None
        parts = ProductParts(kernel, rows, whole, names)
        sums, matrix = parts.sums(in_row=True), parts.matrix()
        product = parts.product(sums, matrix[0])
        sizes = [kernel.size(whole.loop(name).extent) for name in whole.columns]
        added = one_sum(whole, sizes, sums.name, parts.writer)
        if added is None:
            return None
        after = (added, *rows.body[found.place + 1 :])
        return cls._of(parts, sums, product, matrix, (matrix[0],), rows.body[: found.place], after)

    @classmethod
    def _of(
        cls,
        parts: ProductParts,
        sums: Sums,
        product: Body,
        matrix: tuple[Buffer, loops.Kernel] | None,
        made: tuple[Buffer, ...],
        before: Body,
        after: Body,
    ) -> _CutOut:
        kernel, names = parts.kernel, parts.writer.names
        before = fissioned(kernel, _pruned(before, names_read((*product, *after))), names)
        needed = closure(before, names_read(product))
        among = set(map(id, needed))
        others = (*(s for s in before if id(s) not in among), *fissioned(kernel, after, names))
        whole = replace(kernel, buffers=(*kernel.buffers, *made))
        return cls(product, needed, others, sums.name, whole, (matrix[1],) if matrix else ())


def _ways(
    kernel: loops.Kernel, rows: loops.For, found: Contraction, names: Names
) -> Iterator[tuple[loops.Kernel, ...]]:
    """The kernels with the product's sums in a row, which nobody stores, and with them in an array."""
    whole_sum = _CutOut.in_one_sum(kernel, rows, found, names)
    others = (_CutOut.of(kernel, rows, found, names, in_row) for in_row in (True, False)[bool(found.heads) :])
    for cut_out in (*((whole_sum,) if whole_sum else ()), *others):
        whole, needed = cut_out.whole, cut_out.needed
        behind = (*cut_out.product, *_reading_first(cut_out.others, cut_out.sums))
        if all(map(pure, needed)):
            body = alive(_pruned((*needed, *behind)))
            yield (*cut_out.matrix, part(whole, whole.name, replace(rows, body=body)))
        elif kernels := cut(whole, rows, needed, _pruned(behind), names):
            yield (*cut_out.matrix, *kernels)


class _Rest:
    """An iteration without one of its products: what follows reads the sums where they are."""

    def __init__(self, parts: ProductParts, sums: Sums) -> None:
        self.parts, self.sums, self.found = parts, sums, parts.found
        target = self.found.add.target
        nodes = [node for statement in parts.rows.body for node in walk(statement)]
        writes = [n for n in nodes if isinstance(n, (loops.Store, loops.Accumulate)) and n.target == target]
        clears = [n for n in writes if isinstance(n, loops.Store) and n.operands == (0.0,)]
        declared = [n for n in nodes if isinstance(n, (loops.Row, loops.Accumulator)) and n.name == target]
        zero = bool(declared) and (isinstance(declared[0], loops.Row) or not declared[0].start or self.found.constant)
        self.replaced = zero and len(writes) == len(clears) + 1 and not self.found.summed_heads
        """Whether the sums are all that is ever added to the target, which goes."""

    def body(self) -> tuple[Body, Body]:
        """The statements before that of the product, and the others."""
        made = [tuple(self._of(statement, 0)) for statement in self.parts.rows.body]
        at = self.found.place
        return tuple(s for each in made[:at] for s in each), tuple(s for each in made[at:] for s in each)

    def _of(self, statement: loops.Statement, depth: int) -> Iterator[loops.Statement]:
        """What a statement becomes, inside so many loops of the product's."""
        found = self.found
        here = depth < len(found.around) and statement is found.around[depth]
        if here and depth == found.outside and not self.replaced:
            yield from self._added()
        match statement:
            case loops.For() if found.add.target not in read_in(statement) | written_in(statement):
                yield statement
            case loops.For():
                inner = depth + 1 if here else len(found.around)
                yield replace(statement, body=tuple(s for child in statement.body for s in self._of(child, inner)))
            case loops.Accumulate() if statement is found.add:
                return
            case loops.Accumulator() if self.replaced and statement.name == found.add.target:
                yield from self._loaded(statement.name, {}, statement)
            case loops.Row() | loops.Store() if self.replaced and _named(statement) == found.add.target:
                return
            case loops.Load() if self.replaced and statement.buffer == found.add.target:
                own = dict(zip(map(str, found.add.indices), statement.indices, strict=True))
                yield from self._loaded(statement.result, own, statement)
            case _:
                yield statement

    def _loaded(self, result: str, own: dict[str, Atom], at: loops.Statement) -> Iterator[loops.Statement]:
        """The load of a sum; loops have their own variables but for `own`."""
        code: list[loops.Statement] = []
        indices: list[Atom] = [*self.sums.position]
        groups = [(name,) for name in self.found.heads] if self.found.constant else [self.found.heads]
        for group in (*groups, self.found.columns):
            indices += self.parts.flat(group, [own.get(name, name) for name in group], code)
        yield from code
        yield loops.Load(result=result, buffer=self.sums.name, indices=tuple(indices), origin=at.origin)

    def _added(self) -> Iterator[loops.Statement]:
        """The sums added to the target."""
        found, writer = self.found, self.parts.writer
        array = {buffer.name for buffer in self.parts.kernel.buffers}
        own = found.add.indices[1:] if found.add.target in array else found.add.indices
        variables = (*map(str, own), *found.summed_heads)
        changes = {name: writer.names.new(name) for name in variables}
        value = writer.names.new("s")
        add = replace(
            found.add,
            indices=tuple(changes.get(str(index), index) for index in found.add.indices),
            function="copy",
            operands=(value,),
        )
        extents = tuple(found.loop(name).extent for name in variables)
        body = (*self._loaded(value, dict(changes), found.add), add)
        yield from writer.nested(tuple(changes[name] for name in variables), extents, body)


def _named(statement: loops.Row | loops.Store) -> str:
    return statement.name if isinstance(statement, loops.Row) else statement.target


def _reading_first(body: Body, sums: str) -> Body:
    """Statements, of which loops come first that read the sums, as far as what they need allows: they may be done with
    the sums still in registers."""
    first: list[loops.Statement] = []
    left: list[loops.Statement] = []
    held: dict[str, loops.Statement] = {}  # accumulators, each declared where it is first needed
    following, behind, changed = {sums}, set[str](), set[str]()
    for statement in body:
        touched, written = _touched(statement), written_names((statement,))
        if isinstance(statement, loops.Accumulator):
            held[statement.name] = statement
            continue
        declared = [held.pop(name) for name in list(held) if name in touched]
        free = not behind & written and not touched & changed
        follows = isinstance(statement, loops.For) and bool(touched & following)
        if free and (follows or isinstance(statement, loops.Row) or (pure(statement) and not declared)):
            first += (*declared, statement)
            following |= written
        else:
            left += (*declared, statement)
            behind |= touched.union(*map(_touched, declared))
            changed |= _changed((*declared, statement))
    return (*first, *left, *held.values())


def _touched(statement: loops.Statement) -> set[str]:
    """What a statement reads, writes or declares."""
    own = loops.result_of(statement)
    return names_read((statement,)) | written_names((statement,)) | ({own} if own is not None else set())


def _changed(body: Sequence[loops.Statement]) -> set[str]:
    """What statements write or define."""
    return written_names(body) | {str(loops.result_of(statement)) for statement in body}


def _pruned(body: Sequence[loops.Statement], wanted: Set[str] = frozenset()) -> Body:
    """Statements without scalars that nothing reads but those `wanted`, and without loops that do nothing."""
    found = tuple(body)
    while True:
        read = names_read(found) | wanted
        kept = tuple(s for statement in found for s in _kept(statement, read))
        if kept == found:
            return found
        found = kept


def _kept(statement: loops.Statement, read: set[str]) -> Body:
    if isinstance(statement, loops.For):
        body = tuple(s for child in statement.body for s in _kept(child, read))
        if not body:
            return ()
        same = len(body) == len(statement.body) and all(map(is_, body, statement.body))
        return (statement if same else replace(statement, body=body),)
    return () if pure(statement) and loops.result_of(statement) not in read else (statement,)
