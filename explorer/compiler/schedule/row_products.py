"""Schedules a kernel whose iterations are products of rows and matrices: the inspector, the products, what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Extent, Names, Origin, walk
from explorer.compiler.passes.report import Report
from explorer.compiler.passes.sets import SORTED_MAPS
from explorer.compiler.passes.statements import all_names
from explorer.compiler.schedule.endings import ending_kernel, find_rest
from explorer.compiler.schedule.gemm import ProductKernel, write_product
from explorer.compiler.schedule.grouping import Chosen, Grouping, group_rows
from explorer.compiler.schedule.pairs import Pairs, cleared_rows, find_pairs, product_of, rest_of, sums_begun
from explorer.compiler.schedule.piece_places import PIECE, PairArrays, Taken, place_pieces
from explorer.compiler.schedule.products import Found, Product, find_products
from explorer.compiler.schedule.segment_tiles import tile_segments
from explorer.compiler.schedule.tiling import VECTOR

LEAST_COLUMNS = 16
"""Columns of a matrix that are worth a tile."""


@dataclass
class Groupings:
    """The groupings of a module's rows: one for each array that rows choose their matrix by, and how many of them by
    each element. `handed` are the arrays that one of its kernels makes for one other alone."""

    names: Names
    made: dict[tuple[str, int], Grouping]
    handed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, kernels: Sequence[loops.Kernel], kept: Iterable[str] = ()) -> Groupings:
        """None yet, of the rows of a module's kernels, which a caller gets the arrays `kept` of."""
        having = Counter(buffer.name for kernel in kernels for buffer in kernel.buffers)
        made = {buffer.name for kernel in kernels for buffer in kernel.buffers if buffer.kind == "output"}
        handed = frozenset(name for name in made - set(kept) if having[name] == 2)
        return cls(Names({name for kernel in kernels for name in all_names(kernel)}), {}, handed)

    def by(self, kernel: str, chosen: Chosen, matrices: Extent, origin: Origin) -> tuple[Grouping, bool]:
        """The grouping of such rows, and whether it is new, so that its kernels have to run."""
        key = chosen.index.name, chosen.times
        if key in self.made:
            return self.made[key], False
        if chosen.index.name in SORTED_MAPS and chosen.times == 1:
            self.made[key] = tile_segments(kernel, chosen.index, matrices, self.names, origin)
        else:
            self.made[key] = group_rows(f"{kernel}_group", chosen, matrices, self.names, origin)
        return self.made[key], True


def schedule_products(
    kernel: loops.Kernel, groupings: Groupings, report: Report
) -> tuple[ScheduledKernel | loops.Kernel, ...] | None:
    """The kernels that do what the loops do: those that are loops still are to be scheduled in other ways. None where
    the template does not apply."""
    found = find_products(kernel)
    if found is None or (refusal := _refusal(kernel, found, report)) is None:
        return None
    if refusal:
        report.refused(f"{kernel.name}: {refusal}")
        return None
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    kernels: list[ScheduledKernel | loops.Kernel] = []
    rest = find_rest(found, groupings.names)
    for place, product in enumerate(found.products):
        grouping, chosen = None, product.matrix_index
        if chosen is not None:
            by = Chosen(buffers[chosen.buffer], product.rows.extent, product.shared)
            matrices = buffers[product.matrix.buffer].extents[0]
            grouping, new = groupings.by(kernel.name, by, matrices, product.origin)
            kernels += grouping.kernels if new else ()
        name = f"{kernel.name}_product{place if len(found.products) > 1 else ''}"
        ending = rest.ending if product is found.products[-1] else None
        written = write_product(kernel, product, grouping, name, groupings.names, report.options, ending)
        kernels.append(written.kernel)
        grouped = f"grouped by {chosen.buffer}" if chosen else "that share it"
        report.did(f"{kernel.name}: rows {grouped} times {product.matrix.buffer}, a tile a block (gemm)")
        _say_precision(kernel, product, written, report)
    if rest.ending and not written.ended:
        kernels.append(ending_kernel(kernel, rest.found, rest.ending, written.parts, written.count))
    return (*kernels, *rest.loops_of(kernel))


def schedule_pairs(
    kernel: loops.Kernel, groupings: Groupings, report: Report
) -> tuple[ScheduledKernel | loops.Kernel, ...] | None:
    """The kernels that do what the loops do where those start with products of sums (`find_pairs`); None elsewhere."""
    found = find_pairs(kernel)
    if found is None:
        return None
    if report.options.inspect == "false":
        report.refused(f"{kernel.name}: pairs are not grouped by their matrices: the option inspect is off")
        return None
    if kernel.size(found.columns.extent) < LEAST_COLUMNS:
        report.refused(f"{kernel.name}: {found.matrix.buffer} has too few columns for a tile (gemm)")
        return None
    names, origin = groupings.names, found.pairs.origin
    begun = sums_begun(found, kernel, groupings.handed)
    extents = (found.rows.extent, found.columns.extent)
    sums = Buffer(name=begun or names.new("sums"), kind="output", extents=extents, origin=origin)
    others = replace(kernel, buffers=tuple(buffer for buffer in kernel.buffers if buffer.name != begun))
    rest = rest_of(others, found, sums)
    summed = _Summed(others, found, sums, names, report)
    report.did(
        f"{kernel.name}: sums of at most {PIECE} edges, grouped by {found.chosen.buffer}, times {found.matrix.buffer}"
    )
    if begun:
        report.did(
            f"{kernel.name}: its pairs are added to {begun}, where another kernel has stored what they begin with"
        )
        return (*summed.pieces("all"), rest)
    ended = summed.ended(rest) if found.outgrow_caches(kernel, report.counts) else None
    if ended is None:
        return (cleared_rows(kernel, sums, names), *summed.pieces("all"), rest)
    report.did(f"{kernel.name}: a node's first piece is stored, the others are added, a product ends the rows")
    return (*summed.pieces("first"), *summed.pieces("others"), ended)


@dataclass(frozen=True)
class _Summed:
    """The products of sums of a kernel, which go to the nodes' rows of `sums`."""

    kernel: loops.Kernel
    found: Pairs
    sums: Buffer
    names: Names
    report: Report

    def pieces(self, taken: Taken) -> tuple[ScheduledKernel, ...]:
        """The inspector and the product of those of the pieces that are taken."""
        kernel, found, report = self.kernel, self.found, self.report
        buffers = {buffer.name: buffer for buffer in kernel.buffers}
        pairs = PairArrays(
            edges=found.edges_of(kernel),
            offsets=buffers[found.pair_offsets],
            nodes=buffers[found.node_offsets],
            matrices=buffers[found.chosen.buffer],
            choices=buffers[found.matrix.buffer].extents[0],
        )
        name = f"{kernel.name}_{taken}" if taken != "all" else kernel.name
        row_bytes, origin = found.row_bytes(kernel), found.pairs.origin
        pieces = place_pieces(f"{name}_pieces", pairs, taken, row_bytes, self.names, origin)
        product = product_of(found, pieces, pairs.edges, self.sums, alone=taken == "first")
        among = replace(kernel, buffers=(*kernel.buffers, *pieces.arrays, self.sums))
        written = write_product(among, product, pieces.grouping, f"{name}_product", self.names, report.options)
        if taken != "others":
            _say_precision(kernel, product, written, report)
        return (*pieces.grouping.kernels, written.kernel)

    def ended(self, rest: loops.Kernel) -> ScheduledKernel | None:
        """What follows the sums, if it is a product of the same rows whose epilogue reads those of `sums`, as a kernel
        that takes rows of nodes without pairs, which nothing is stored in, for zeros; else None."""
        found = find_products(rest)
        if found is None or found.rest or len(found.products) > 1 or _refusal(rest, found, self.report) != "":
            return None
        (product,) = found.products
        if product.matrix_index or product.heads or product.accumulators:
            return None
        loads = [node for node in walk(rest) if isinstance(node, loops.Load) and node.buffer == self.sums.name]
        own = [s for s in product.epilogue if isinstance(s, loops.Load) and s.buffer == self.sums.name]
        if len(loads) > len(own) or any(load.indices != (found.rows.variable, product.column) for load in own):
            return None
        names, row, origin = Names(all_names(rest)), found.rows.variable, found.rows.origin
        offsets = next(buffer for buffer in self.kernel.buffers if buffer.name == self.found.node_offsets)
        begin = loops.Load(result=names.new("begin"), buffer=offsets.name, indices=(row,), origin=origin)
        following = loops.Index(result=names.new("next"), function="add", operands=(row, 1), origin=origin)
        end = loops.Load(result=names.new("end"), buffer=offsets.name, indices=(following.result,), origin=origin)
        guarded = replace(
            product,
            head=(*product.head, begin, following, end),
            guards=((self.sums.name, (begin.result, end.result)),),
        )
        among = replace(rest, buffers=(*(b for b in rest.buffers if b != offsets), offsets))
        written = write_product(among, guarded, None, f"{rest.name}_product", self.names, self.report.options)
        _say_precision(rest, product, written, self.report)
        return written.kernel


def _say_precision(kernel: loops.Kernel, product: Product, written: ProductKernel, report: Report) -> None:
    """What the product is multiplied in, where the option asks for something else than float32."""
    precision, matrix = report.options.precision, product.matrix.buffer
    if written.on_tensor_cores:
        report.did(f"{kernel.name}: multiply in {precision}: rows times {matrix}, on tensor cores")
    elif precision != "float32":
        report.refused(
            f"{kernel.name}: multiply in {precision}: rows times {matrix} stay in float32, since"
            f" {kernel.size(product.column_extent)} columns are not all vectors of {VECTOR}"
        )


def _refusal(kernel: loops.Kernel, found: Found, report: Report) -> str | None:
    """Why the template does not suit, "" where it does, None where nobody would ask."""
    for product in found.products:
        *outer, _, _ = product.matrix.indices
        if found.rows.variable in outer:
            return None
        if kernel.size(product.column_extent) < LEAST_COLUMNS:
            return f"{product.matrix.buffer} has fewer than {LEAST_COLUMNS} columns, too few for a tile (gemm)"
        chosen = product.matrix_index
        if not product.shared:
            assert chosen is not None
            return f"the matrix of a row is chosen by {chosen.buffer} of something else than the row (gemm)"
        if chosen is not None and outer[0] != chosen.result:
            return f"{chosen.result} is not the first index of {product.matrix.buffer} (gemm)"
        known = {chosen.result if chosen else "", product.heads.variable if product.heads else ""}
        if not {index for index in outer if isinstance(index, str)} <= known:
            return f"a row's matrix is found by more than one index of {product.matrix.buffer} (gemm)"
    if any(product.matrix_index for product in found.products) and report.options.inspect == "false":
        return "rows are not grouped by their matrices: the option inspect is off"
    return ""
