"""Schedules a kernel whose iterations are products of rows and matrices: the inspector, the products, what is left."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from explorer.compiler.decisions import Decision
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Extent, Names, Origin, made, walk
from explorer.compiler.ir.set_maps import holds_sorted
from explorer.compiler.ir.statements import all_names
from explorer.compiler.passes.loops.cleared import clear_output
from explorer.compiler.report import Report
from explorer.compiler.schedule.gemm.clear_rows import clear_rows
from explorer.compiler.schedule.gemm.kernel import ProductKernel, ProductWriter
from explorer.compiler.schedule.gemm.row_epilogues import ending_kernel, find_rest
from explorer.compiler.schedule.gemm.segment_products import (
    Pairs,
    adds_sums,
    ending_of,
    find_pairs,
    product_of,
    rest_of,
    sums_begun,
)
from explorer.compiler.schedule.gemm.tiling import PRECISION
from explorer.compiler.schedule.inspect.group_by_matrix import Chosen, Grouping, group_rows
from explorer.compiler.schedule.inspect.last_pieces import LastPieces, place_last_pieces
from explorer.compiler.schedule.inspect.piece_groups import PIECE, USUAL_PIECE, PairArrays
from explorer.compiler.schedule.inspect.piece_places import CACHE, USUAL_CACHE, place_pieces
from explorer.compiler.schedule.inspect.segment_tiles import tile_segments
from explorer.compiler.schedule.match.matrix_products import LEAST_COLUMNS, Found, Product, find_products
from explorer.compiler.schedule.strategies import GEMM, GEMM_OF_SUMS, STRATEGY
from explorer.compiler.target import VECTOR

ROWS_END = Decision(
    name="ends",
    domain=("apart", "fused"),
    why="whether the product that ends a node's row also takes the sums of the node's shortest piece: one pass over the"
    " rows less, and an inspector more",
    source="fused where no cache holds the nodes' rows; measured on an H100",
)


@dataclasses.dataclass
class Groupings:
    """The groupings of a module's rows: one for each array that rows choose their matrix by, and how many of them by
    each element. `handed` are the arrays that one of its kernels makes for one other alone, `edges` the end that a
    graph's edges are sorted by."""

    names: Names
    made: dict[tuple[str, int], Grouping]
    edges: str
    handed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, kernels: Sequence[loops.Kernel], edges: str, kept: Iterable[str] = ()) -> Groupings:
        """None yet, of the rows of a module's kernels, which a caller gets the arrays `kept` of."""
        having = Counter(buffer.name for kernel in kernels for buffer in kernel.buffers)
        made = {buffer.name for kernel in kernels for buffer in kernel.buffers if buffer.kind == "output"}
        handed = frozenset(name for name in made - set(kept) if having[name] == 2)
        return cls(Names({name for kernel in kernels for name in all_names(kernel)}), {}, edges, handed)

    def by(self, kernel: str, chosen: Chosen, matrices: Extent, origin: Origin) -> tuple[Grouping, bool]:
        """The grouping of such rows, and whether it is new, so that its kernels have to run."""
        key = chosen.index.name, chosen.times
        if key in self.made:
            return self.made[key], False
        if holds_sorted(chosen.index, self.edges) and chosen.times == 1:
            by = made(f"tiles of rows by {chosen.index.name}", "schedule", origin)
            self.made[key] = tile_segments(kernel, chosen.index, matrices, self.names, by)
        else:
            by = made(f"group the rows by {chosen.index.name}", "schedule", origin)
            self.made[key] = group_rows(f"{kernel}_group", chosen, matrices, self.names, by)
        return self.made[key], True


def tiles_of(kernel: loops.Kernel, report: Report) -> bool:
    """Whether a kernel starts with products that the template takes."""
    found = find_products(kernel)
    return found is not None and not _refusal(kernel, found, report)


def schedule_products(
    kernel: loops.Kernel, groupings: Groupings, report: Report
) -> tuple[ScheduledKernel | loops.Kernel, ...] | None:
    """The kernels that do what the loops do: those that are loops still are to be scheduled in other ways. None where
    the template does not apply."""
    found = find_products(kernel)
    if found is None:
        return None
    if refusal := _refusal(kernel, found, report):
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
        written = ProductWriter(kernel, product, grouping, name, groupings.names, report, ending).write()
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
    if kernel.size(found.columns.extent) < LEAST_COLUMNS and report.wanted(kernel.name, STRATEGY) != GEMM_OF_SUMS:
        report.refused(f"{kernel.name}: {found.matrix.buffer} has too few columns for a tile (gemm)")
        return None
    names, origin = groupings.names, found.pairs.origin
    begun = sums_begun(found, kernel, groupings.handed)
    extents = (found.rows.extent, found.columns.extent)
    sums = Buffer(name=begun or names.new("sums"), kind="output", extents=extents, origin=origin)
    others = replace(kernel, buffers=tuple(buffer for buffer in kernel.buffers if buffer.name != begun))
    rest = rest_of(others, found, sums)
    summed = _Summed(others, found, sums, names, report)
    pieces = f"sums of at most {summed.pairs.piece} edges, grouped by {found.chosen.buffer}"
    report.did(f"{kernel.name}: {pieces}, times {found.matrix.buffer}")
    if begun:
        report.did(
            f"{kernel.name}: its pairs are added to {begun}, where another kernel has stored what they begin with"
        )
        return (*summed.pieces(), rest)
    fused = "fused" if found.outgrow_caches(kernel, report) else "apart"
    ended = summed.ended(rest) if report.choose(kernel.name, ROWS_END, fused) == "fused" else None
    if ended is None:
        report.settle(kernel.name, ROWS_END, "apart", "what follows the sums is no product of the same rows")
        return (clear_output(kernel, sums), *summed.pieces(), rest)
    report.did(f"{kernel.name}: a node's shortest piece and its own row are one product, which ends the node's row")
    return ended


@dataclass(frozen=True)
class _Summed:
    """The products of sums of a kernel, which go to the nodes' rows of `sums`."""

    kernel: loops.Kernel
    found: Pairs
    sums: Buffer
    names: Names
    report: Report

    @property
    def pairs(self) -> PairArrays:
        """The index arrays of the pairs."""
        kernel, found = self.kernel, self.found
        buffers = {buffer.name: buffer for buffer in kernel.buffers}
        return PairArrays(
            edges=found.edges_of(kernel),
            nodes=found.rows.extent,
            offsets=buffers[found.pair_offsets],
            starts=buffers[found.node_offsets],
            matrices=buffers[found.chosen.buffer],
            choices=buffers[found.matrix.buffer].extents[0],
            piece=self.report.number(kernel.name, PIECE, USUAL_PIECE),
        )

    def pieces(self, last: LastPieces | None = None) -> tuple[ScheduledKernel, ...]:
        """The inspector and the product of all pieces, or of all but the last ones."""
        kernel, found, report = self.kernel, self.found, self.report
        name = f"{kernel.name}_others" if last else kernel.name
        row_bytes = found.row_bytes(kernel)
        origin = made(f"group the pieces by {found.chosen.buffer}", "schedule", found.pairs.origin)
        cached = report.target.l2_bytes * report.number(kernel.name, CACHE, USUAL_CACHE) // 100
        pieces = place_pieces(f"{name}_pieces", self.pairs, row_bytes, cached, self.names, origin, last)
        product = product_of(found, pieces, self.pairs.edges, self.sums, mirrored=last is not None)
        among = replace(kernel, buffers=(*kernel.buffers, *pieces.arrays, self.sums))
        written = ProductWriter(among, product, pieces.grouping, f"{name}_product", self.names, report).write()
        _say_precision(kernel, product, written, report)
        return (*pieces.grouping.kernels, written.kernel)

    def ended(self, rest: loops.Kernel) -> tuple[ScheduledKernel, ...] | None:
        """All that there is to do, where what follows the sums is a product of the same rows to which those of `sums`
        are added; else None."""
        product = self._ending(rest)
        if product is None:
            return None
        kernel, names = self.kernel, self.names
        origin = made(f"group the last pieces by {self.found.chosen.buffer}", "schedule", product.origin)
        last = place_last_pieces(f"{kernel.name}_last_pieces", self.pairs, names, origin)
        columns = kernel.size(self.sums.extents[1])
        cleared = clear_rows(f"{kernel.name}_clear", self.sums, last.added, columns, kernel.sizes)
        own = {buffer.name for buffer in rest.buffers}
        others = (buffer for buffer in kernel.buffers if buffer.name not in own)
        among = replace(rest, buffers=(*rest.buffers, *others, *last.arrays))
        ending = ending_of(self.found, last, product, self.sums)
        grouping = last.pieces.grouping
        written = ProductWriter(among, ending, grouping, f"{kernel.name}_ending_product", names, self.report).write()
        _say_precision(rest, product, written, self.report)
        return (*grouping.kernels, cleared, *self.pieces(last), written.kernel)

    def _ending(self, rest: loops.Kernel) -> Product | None:
        """The product that is all which follows the sums, if those are added to it."""
        found = find_products(rest)
        if found is None or found.rest or len(found.products) > 1 or _refusal(rest, found, self.report):
            return None
        (product,), sums = found.products, self.sums.name
        if product.matrix_index or product.heads or product.accumulators or product.transposed:
            return None
        loads = [node for node in walk(rest) if isinstance(node, loops.Load) and node.buffer == sums]
        own = [s for s in product.epilogue if isinstance(s, loops.Load) and s.buffer == sums]
        if len(loads) > len(own) or any(load.indices != (found.rows.variable, product.column) for load in own):
            return None
        return product if adds_sums(product, sums) else None


def _say_precision(kernel: loops.Kernel, product: Product, written: ProductKernel, report: Report) -> None:
    """What the product is multiplied in, where the option asks for something else than float32."""
    precision, matrix = report.wanted(written.kernel.name, PRECISION) or "float32", product.matrix.buffer
    if written.on_tensor_cores:
        report.did(f"{kernel.name}: multiply in {precision}: rows times {matrix}, on tensor cores")
    elif precision != "float32":
        report.refused(
            f"{kernel.name}: multiply in {precision}: rows times {matrix} stay in float32, since"
            f" {kernel.size(product.column_extent)} columns are not all vectors of {VECTOR}"
        )


def _refusal(kernel: loops.Kernel, found: Found, report: Report) -> str:
    """Why the template does not suit, "" where it does."""
    for product in found.products:
        if kernel.size(product.column_extent) < LEAST_COLUMNS and report.wanted(kernel.name, STRATEGY) != GEMM:
            return f"{product.matrix.buffer} has fewer than {LEAST_COLUMNS} columns, too few for a tile (gemm)"
        chosen = product.matrix_index
        if not product.shared:
            assert chosen is not None
            return f"the matrix of a row is chosen by {chosen.buffer} of something else than the row (gemm)"
        if chosen is not None and product.matrix.indices[0] != chosen.result:
            return f"{chosen.result} is not the first index of {product.matrix.buffer} (gemm)"
        known = {chosen.result if chosen else "", product.heads.variable if product.heads else ""}
        if not {index for index in product.outer if isinstance(index, str)} <= known:
            return f"a row's matrix is found by more than one index of {product.matrix.buffer} (gemm)"
    if any(product.matrix_index for product in found.products) and report.options.inspect == "false":
        return "rows are not grouped by their matrices: the option inspect is off"
    return ""
