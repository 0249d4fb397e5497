"""Products of sums: `for n { for pairs d of n { y1 = sum over edges of d; y += y1 @ W[etype[d]] } ... }`.

Since the product is linear and y a sum, pairs need not wait for one another, and neither need pieces of a pair. Each
piece of at most `PIECE` edges is then a row of a product, grouped by matrix like those of a batch (Hector §3.3.1 and
§3.4.1), its sum of sources is computed on the way into shared memory, and the result is added to the node's row.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import AtomicAccumulate
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Extent, Origin, merge, walk
from explorer.compiler.ir.statements import loop_origin, names_read, pure, rename, slice_for
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.nests import part, stored_in
from explorer.compiler.schedule.inspect.last_pieces import LastPieces
from explorer.compiler.schedule.inspect.piece_groups import PlacedPieces
from explorer.compiler.schedule.match.matrix_products import Product, Segment
from explorer.compiler.target import FLOAT_BYTES


@dataclass(frozen=True)
class Pairs:
    """The parts of such a nest. `node_offsets` and `pair_offsets` name the arrays of where a node's pairs and a
    pair's edges begin, `total` is the node's row y; `after` is what an iteration does with that."""

    rows: loops.For
    total: loops.Row
    node_offsets: str
    pairs: loops.For
    pair_offsets: str
    edges: loops.For
    chosen: loops.Load
    depths: loops.For
    columns: loops.For
    matrix: loops.Load
    after: tuple[loops.Statement, ...]

    def row_bytes(self, kernel: loops.Kernel) -> int:
        """Bytes of a node's row."""
        return FLOAT_BYTES * kernel.size(self.columns.extent)

    def outgrow_caches(self, kernel: loops.Kernel, report: Report) -> bool:
        """Whether no cache holds the rows of as many nodes as are counted: each pass over them then takes as long as
        memory does."""
        rows, counts = str(self.rows.extent), report.counts
        nodes = counts.of(rows) or 0 if counts.is_of_graph(rows) else 0
        return nodes * self.row_bytes(kernel) > report.target.cached_bytes

    def edges_of(self, kernel: loops.Kernel) -> Extent:
        """How many edges there are, by an array that has an element for each."""
        loads = [node for node in walk(self.edges) if isinstance(node, loops.Load)]
        indexed = {load.buffer for load in loads if load.indices == (self.edges.variable,)}
        return next(buffer.extents[0] for buffer in kernel.buffers if buffer.name in indexed)


def find_pairs(kernel: loops.Kernel) -> Pairs | None:
    """The products of sums that a kernel's iterations start with; None where there are none."""
    if len(kernel.body) != 1 or not isinstance(rows := kernel.body[0], loops.For) or not rows.parallel:
        return None
    match rows.body:
        case (
            loops.Row(extents=(_,)) as total,
            loops.For(body=(loops.Store(target=cleared, operands=(0.0,)),)),
            loops.Load(buffer=offsets, indices=(first,), result=begin),
            loops.Index(function="add", operands=(counted, 1), result=following),
            loops.Load(buffer=same, indices=(second,), result=end),
            loops.For() as pairs,
            *after,
        ) if (cleared, same, second) == (total.name, offsets, following) and first == counted == rows.variable:
            pass
        case _:
            return None
    found = _in_pairs(rows, total, pairs, offsets, tuple(after))
    if found is None or (pairs.lower, pairs.extent) != (begin, end):
        return None
    read = names_read((pairs,)) - {begin, end}
    written = {n.target for s in after for n in walk(s) if isinstance(n, (loops.Store, loops.Accumulate))}
    outside = {rows.variable, begin, following, end}
    return None if outside & read or total.name in written else found


def _in_pairs(
    rows: loops.For, total: loops.Row, pairs: loops.For, offsets: str, after: tuple[loops.Statement, ...]
) -> Pairs | None:
    """The nest with what it does for a pair: a sum over edges, times a matrix, added to the total."""
    match pairs.body:
        case (
            loops.Row(name=row),
            loops.For(body=(loops.Store(target=cleared, operands=(0.0,)),)),
            loops.Load(buffer=pair_offsets, indices=(first,), result=begin),
            loops.Index(function="add", operands=(counted, 1), result=following),
            loops.Load(buffer=same, indices=(second,), result=end),
            loops.For(body=(*_, loops.For(body=(*_, loops.Accumulate(target=summed, reduction="sum"))))) as edges,
            loops.Load(indices=(third,)) as chosen,
            loops.Row(name=product),
            loops.For(body=(loops.Store(target=zeroed, operands=(0.0,)),)),
            loops.For(body=(loops.Load(buffer=read), loops.For() as columns)) as depths,
            loops.For(body=(loops.Load(buffer=taken, result=value), loops.Accumulate() as added)),
        ) if (cleared, same, second, summed, read) == (row, pair_offsets, following, row, row):
            pass
        case _:
            return None
    whole = (edges.lower, edges.extent, first, counted, third) == (begin, end, *[pairs.variable] * 3)
    if not whole or (zeroed, taken, added.target) != (product, product, total.name):
        return None
    if (added.reduction, added.function, added.operands) != ("sum", "copy", (value,)):
        return None
    match columns.body:
        case (
            loops.Load(indices=(index, _, last)) as matrix,
            loops.Accumulate(target=target, reduction="sum", function="mul"),
        ) if (target, index, last) == (product, chosen.result, columns.variable):
            return Pairs(rows, total, offsets, pairs, pair_offsets, edges, chosen, depths, columns, matrix, after)
    return None


def product_of(found: Pairs, pieces: PlacedPieces, most: Extent, sums: Buffer, *, mirrored: bool = False) -> Product:
    """The product whose rows are pieces of the pairs' edges, `most` of them; its epilogue adds to the nodes' rows of
    `sums`, or stores there where a node is `mirrored`, as they may be if no cache holds all rows."""
    origin = found.depths.origin
    *scalars, inner = found.edges.body
    assert isinstance(inner, loops.For)
    value = f"{found.total.name}_part"
    begin, stop, node = (_by_place(array, origin) for array in pieces.arrays)
    chosen = replace(found.chosen, indices=("piece",))
    add = AtomicAccumulate(
        target=sums.name,
        indices=(node.result, found.columns.variable),
        reduction="sum",
        function="copy",
        operands=(value,),
        origin=origin,
    )
    return Product(
        rows=loops.For(variable="piece", extent=most, body=(), parallel=True, origin=origin),
        head=(begin, stop, node, chosen),
        heads=None,
        depth=inner.variable,
        depth_extent=inner.extent,
        column=found.columns.variable,
        column_extent=found.columns.extent,
        prologue=inner.body,
        factor=0.0,
        matrix=replace(found.matrix, indices=(chosen.result, inner.variable, found.columns.variable)),
        total=found.total.name,
        epilogue=(
            loops.Load(result=value, buffer=found.total.name, indices=(found.columns.variable,), origin=origin),
            add,
        ),
        accumulators=(),
        origin=origin,
        segment=Segment(found.edges.variable, begin.result, stop.result, tuple(scalars), distant=mirrored),
        adding=node.result if mirrored else "",
    )


def _by_place(array: Buffer, origin: Origin) -> loops.Load:
    """What an inspector's array says of the piece at a place."""
    return loops.Load(result=f"{array.name}_at", buffer=array.name, indices=("piece",), origin=origin)


def ending_of(found: Pairs, last: LastPieces, product: Product, sums: Buffer) -> Product:
    """The product of each node's last piece and, added to it, of the node's own row, which ends the row: `product`, as
    it is behind the pairs, whose epilogue reads those of `sums` that the other pieces have been added to."""
    own = product_of(found, last.pieces, found.rows.extent, sums, mirrored=True)
    node, others = own.head[2], _by_place(last.others, own.origin)
    assert isinstance(node, loops.Load)
    renamed = partial(rename, names={product.rows.variable: node.result, product.column: own.column})
    head = (*own.head, others, *map(renamed, product.head))
    matrix = renamed(product.matrix)
    assert isinstance(matrix, loops.Load)
    prologue = tuple(map(renamed, product.prologue))
    return replace(
        own,
        head=head,
        total=product.total,
        epilogue=tuple(map(renamed, product.epilogue)),
        guards=((sums.name, others.result),),
        adding="",
        added=replace(product, rows=own.rows, head=head, column=own.column, prologue=prologue, matrix=matrix),
    )


def adds_sums(product: Product, sums: str) -> bool:
    """Whether an epilogue does nothing with the product's totals and with rows of `sums` but add the ones to the
    others, maybe after more that is added to either."""
    loads = [s for s in product.epilogue if isinstance(s, loops.Load) and s.buffer in (product.total, sums)]
    match [(load.buffer, load.result) for load in loads]:
        case [(first, total), (second, other)] if first != second:
            return bool(_added_to(product.epilogue, total) & _added_to(product.epilogue, other))
    return False


def _added_to(epilogue: tuple[loops.Statement, ...], name: str) -> set[str]:
    """The sums that a value is part of, and nothing else uses: each a term of the next."""
    found: set[str] = set()
    while True:
        readers = [statement for statement in epilogue if name in names_read((statement,))]
        match readers:
            case [loops.Compute(function="add", operands=(left, right), result=name)] if left != right:
                found.add(name)
            case _:
                return found


def sums_begun(found: Pairs, kernel: loops.Kernel, handed: frozenset[str]) -> str:
    """The array that the pairs may be added to in place of one that starts with 0: of what another kernel has made for
    this one alone, each element is only ever added to the total's. "" where there is none."""
    added = _added(found)
    extents = (found.rows.extent, found.columns.extent)
    known = {buffer.name for buffer in kernel.buffers if buffer.kind == "temporary" and buffer.extents == extents}
    return added.buffer if added is not None and added.buffer in handed & known else ""


def _added(found: Pairs) -> loops.Load | None:
    """The load of what is added to an element of the total as soon as that is read, if neither is read for more."""
    match found.after:
        case (
            loops.For(
                body=(
                    loops.Load() as first,
                    loops.Load() as second,
                    loops.Compute(function="add", operands=operands),
                    *rest,
                )
            ) as elements,
        ) if sorted(map(str, operands)) == sorted((first.result, second.result)):
            pass
        case _:
            return None
    total, other = (first, second) if first.buffer == found.total.name else (second, first)
    whole = (elements.lower, elements.extent) == (0, found.columns.extent)
    own = (total.buffer, total.indices) == (found.total.name, (elements.variable,))
    if not whole or not own or other.indices != (found.rows.variable, elements.variable):
        return None
    read = names_read(rest)
    return None if read & {first.result, second.result, total.buffer, other.buffer} else other


def rest_of(kernel: loops.Kernel, found: Pairs, sums: Buffer) -> loops.Kernel:
    """What an iteration does after its pairs, with the sums read from memory: with what is added to them, if that is
    where they began. It finds again what the pairs' kernels found for themselves: the bounds of a segment."""
    added = _added(found)
    if added is not None and added.buffer == sums.name:
        (elements,) = found.after
        assert isinstance(elements, loops.For)
        _, _, whole, *rest = elements.body
        assert isinstance(whole, loops.Compute)
        begun = replace(added, result=whole.result, origin=merge(added.origin, whole.origin))
        after: tuple[loops.Statement, ...] = (replace(elements, body=(begun, *rest)),)
    else:
        after = tuple(
            stored_in(statement, found.total.name, sums.name, found.rows.variable) for statement in found.after
        )
    head = slice_for(tuple(statement for statement in found.rows.body if pure(statement)), after)
    rows, origin = replace(found.rows, body=(*head, *after)), loop_origin(after, found.rows.extent, rows=True)
    return part(kernel, f"{kernel.name}_rest", rows, sums, origin=origin)
