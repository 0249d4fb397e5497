"""The inspector for pieces of pairs' edges, in the order in which they are summed and multiplied (`piece_groups`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from explorer.compiler.decisions import Decision
from explorer.compiler.ir.kernels import Count, ScheduledKernel
from explorer.compiler.ir.node import Extent, Names, Origin
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.inspect.group_by_matrix import ROWS_A_TILE, THREADS
from explorer.compiler.schedule.inspect.last_pieces import LastPieces
from explorer.compiler.schedule.inspect.piece_groups import Inspector, PairArrays, PlacedPieces, mirrored

CACHE = Decision(
    name="cache",
    domain=(2, 4, 8, 16, 32, 64),
    why="percent of the L2 cache for the rows that a block of destinations has: in small blocks they stay there beside"
    " what is gathered meanwhile, and a matrix is loaded for each block",
    source="16, 8 MB of an H100's, measured there",
)
USUAL_CACHE = 16


def place_pieces(
    name: str,
    pairs: PairArrays,
    row_bytes: int,
    cached: int,
    names: Names,
    origin: Origin,
    last: LastPieces | None = None,
) -> PlacedPieces:
    """The inspector for all pieces of pairs, or all but the nodes' last ones; destinations have `row_bytes` each, a
    block of them `cached` bytes. Where those have been counted, nodes that one piece alone is added to are mirrored.
    `names` are those of the module."""
    nodes = max(1, cached // row_bytes)
    counts = (
        Count(((pairs.choices, 1),)),
        Count(((pairs.starts.extents[0], nodes),)),
        Count(((pairs.edges, pairs.piece * ROWS_A_TILE), (pairs.matrices.extents[0], _pairs_a_tile(pairs.piece)))),
    )
    hints = ("edge_rank", "edge_bin", "edge_node", "piece_begin", "piece_stop", "piece_node")
    arrays = dict.fromkeys(hints, pairs.edges)
    known = (last.first, last.added) if last else ()
    inspector = Inspector.of_pieces(name, pairs, counts, arrays, names, origin, known)
    return inspector.placed(_count(inspector, nodes, last), _place(inspector, last))


def _pairs_a_tile(piece: int) -> int:
    """How many pairs make a tile besides those that their edges make. A pair of `n` edges has at most `(n - 1) / piece
    + 1` pieces, `n / piece` and `(piece - 1) / piece`: with so many tiles there is room for all."""
    return ROWS_A_TILE * piece // (piece - 1)


def _count(inspector: Inspector, nodes: int, last: LastPieces | None) -> ScheduledKernel:
    """Finds pieces, and counts how many each group and each bin has, where a block has so many nodes. Keeps of a
    piece, by its first edge, its rank in its bin, that bin, and the node that it belongs to."""
    steps, pairs, piece = inspector.begun(), inspector.pairs, inspector.pairs.piece
    with steps.each("e", pairs.edges, THREADS) as edge:
        pair = steps.search("d", pairs.offsets.name, edge, pairs.offsets.extents[0])
        begin = steps.load("begin", pairs.offsets.name, pair)
        inside = steps.index("inside", "mod", steps.index("before", "sub", edge, begin), piece)
        steps.store(inspector["edge_rank"], [edge], -1)
        with steps.where(inside, "==", 0):
            node = steps.search("n", pairs.starts.name, pair, pairs.starts.extents[0])
            with _apart(steps, edge, node, last):
                end = steps.load("end", pairs.offsets.name, steps.index("next", "add", pair, 1))
                length = steps.index("length", "min", steps.index("left", "sub", end, edge), piece)
                matrix = steps.load("m", pairs.matrices.name, pair)
                shorter = steps.index("shorter", "sub", piece, length)
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
    steps, piece = inspector.begun(), inspector.pairs.piece
    with steps.each("e", inspector.pairs.edges, THREADS) as edge:
        rank = steps.load("rank", inspector["edge_rank"], edge)
        with steps.where(0, "<=", rank):
            chosen = steps.load("bin", inspector["edge_bin"], edge)
            place = inspector.place(steps, chosen, rank)
            length = steps.index("length", "sub", piece, steps.index("shorter", "mod", chosen, piece))
            stop = steps.index("stop", "add", edge, length)
            node = steps.load("node", inspector["edge_node"], edge)
            for hint, value in (("piece_begin", edge), ("piece_stop", stop), ("piece_node", node)):
                steps.store(inspector[hint], [place], value)
            if last is not None:
                with steps.where(steps.load("added", last.added.name, node), "==", 1):
                    steps.store(inspector["piece_node"], [place], mirrored(steps, node))
    return inspector.kernel("place", steps, THREADS, "write the pieces group by group, the longest of a group first")
