"""The inspector for pieces of pairs' edges, in the order in which they are summed and multiplied (`piece_groups`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from explorer.compiler.ir.kernels import Count, ScheduledKernel
from explorer.compiler.ir.node import Extent, Names, Origin
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.inspect.group_by_matrix import ROWS_A_TILE, THREADS
from explorer.compiler.schedule.inspect.last_pieces import LastPieces
from explorer.compiler.schedule.inspect.piece_groups import PIECE, Inspector, PairArrays, PlacedPieces, mirrored
from explorer.compiler.target import GpuTarget

CACHE_SHARE = 4 / 25
"""Of the L2 cache for the rows that a block of destinations has, 8 MB of an H100's: they stay there beside what is
gathered meanwhile."""
PAIRS_A_TILE = ROWS_A_TILE * PIECE // (PIECE - 1)
"""A pair of `n` edges has at most `(n - 1) / PIECE + 1` pieces, `n / PIECE` and `(PIECE - 1) / PIECE`: tiles have room
for all if each so many pairs make one besides those that the edges make."""


def place_pieces(
    name: str,
    pairs: PairArrays,
    row_bytes: int,
    target: GpuTarget,
    names: Names,
    origin: Origin,
    last: LastPieces | None = None,
) -> PlacedPieces:
    """The inspector for all pieces of pairs, or all but the nodes' last ones; destinations have so many bytes each.
    Where those have been counted, nodes that one piece alone is added to are mirrored. `names` are those of the
    module."""
    nodes = max(1, int(target.l2_bytes * CACHE_SHARE) // row_bytes)
    counts = (
        Count(((pairs.choices, 1),)),
        Count(((pairs.starts.extents[0], nodes),)),
        Count(((pairs.edges, PIECE * ROWS_A_TILE), (pairs.matrices.extents[0], PAIRS_A_TILE))),
    )
    hints = ("edge_rank", "edge_bin", "edge_node", "piece_begin", "piece_stop", "piece_node")
    arrays = dict.fromkeys(hints, pairs.edges)
    known = (last.first, last.added) if last else ()
    inspector = Inspector.of_pieces(name, pairs, counts, arrays, names, origin, known)
    return inspector.placed(_count(inspector, nodes, last), _place(inspector, last))


def _count(inspector: Inspector, nodes: int, last: LastPieces | None) -> ScheduledKernel:
    """Finds pieces, and counts how many each group and each bin has, where a block has so many nodes. Keeps of a
    piece, by its first edge, its rank in its bin, that bin, and the node that it belongs to."""
    steps, pairs = inspector.begun(), inspector.pairs
    with steps.each("e", pairs.edges, THREADS) as edge:
        pair = steps.search("d", pairs.offsets.name, edge, pairs.offsets.extents[0])
        begin = steps.load("begin", pairs.offsets.name, pair)
        inside = steps.index("inside", "mod", steps.index("before", "sub", edge, begin), PIECE)
        steps.store(inspector["edge_rank"], [edge], -1)
        with steps.where(inside, "==", 0):
            node = steps.search("n", pairs.starts.name, pair, pairs.starts.extents[0])
            with _apart(steps, edge, node, last):
                end = steps.load("end", pairs.offsets.name, steps.index("next", "add", pair, 1))
                length = steps.index("length", "min", steps.index("left", "sub", end, edge), PIECE)
                matrix = steps.load("m", pairs.matrices.name, pair)
                shorter = steps.index("shorter", "sub", PIECE, length)
                block = steps.index("block", "div", node, nodes)
                group = steps.index("g", "add", steps.index("before", "mul", block, inspector.choices), matrix)
                rank, chosen = inspector.count(steps, group, shorter, inspector.of["edge_bin"])
                for hint, value in (("edge_rank", rank), ("edge_bin", chosen), ("edge_node", node)):
                    steps.store(inspector[hint], [edge], value)
    return inspector.kernel(
        "count", steps, THREADS, "count the pieces of each group and length: the atomic gives a piece's rank"
    )


@contextmanager
def _apart(steps: Steps, edge: Extent, node: Extent, last: LastPieces | None) -> Iterator[None]:
    """What is done for a piece, by its first edge, if it is not the node's last one."""
    if last is None:
        yield
        return
    other = steps.load("other", last.first.name, node)
    with steps.where(steps.index("same", "equal", other, edge), "==", 0):
        yield


def _place(inspector: Inspector, last: LastPieces | None) -> ScheduledKernel:
    """Each piece to its place."""
    steps = inspector.begun()
    with steps.each("e", inspector.pairs.edges, THREADS) as edge:
        rank = steps.load("rank", inspector["edge_rank"], edge)
        with steps.where(0, "<=", rank):
            chosen = steps.load("bin", inspector["edge_bin"], edge)
            place = inspector.place(steps, chosen, rank)
            length = steps.index("length", "sub", PIECE, steps.index("shorter", "mod", chosen, PIECE))
            stop = steps.index("stop", "add", edge, length)
            node = steps.load("node", inspector["edge_node"], edge)
            for hint, value in (("piece_begin", edge), ("piece_stop", stop), ("piece_node", node)):
                steps.store(inspector[hint], [place], value)
            if last is not None:
                with steps.where(steps.load("added", last.added.name, node), "==", 1):
                    steps.store(inspector["piece_node"], [place], mirrored(steps, node))
    return inspector.kernel("place", steps, THREADS, "write the pieces group by group, the longest of a group first")
