"""The inspector for one piece of each node, its shortest, which is multiplied when the node's row ends (`pairs`).

Nodes are grouped by the matrix of that piece; those without edges are a group of their own, behind those of all
matrices. No row is added to, so that one block has all destinations. Of all pieces the shortest has the fewest sources
to gather: what ends a row has enough to load besides.
"""

from __future__ import annotations

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.kernels import Count, ScheduledKernel
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Extent, Names, Origin
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.inspect.group_by_matrix import ROWS_A_TILE, THREADS
from explorer.compiler.schedule.inspect.piece_groups import Inspector, PairArrays, PlacedPieces


@dataclass(frozen=True)
class LastPieces:
    """The pieces, and by place how many `others` the node has, which are added to its row; that again by node
    (`added`), and the `first` edge of its last piece, -1 for none."""

    pieces: PlacedPieces
    others: Buffer
    first: Buffer
    added: Buffer

    @property
    def arrays(self) -> tuple[Buffer, ...]:
        """What the inspector says of pieces by their places."""
        return (*self.pieces.arrays, self.others)


def place_last_pieces(name: str, pairs: PairArrays, names: Names, origin: Origin) -> LastPieces:
    """The inspector for such pieces of pairs. `names` are those of the module."""
    counts = Count(((pairs.choices, 1), (1, 1))), Count(((1, 1),)), Count(((pairs.nodes, ROWS_A_TILE),))
    hints = ("node_rank", "node_bin", "node_first", "node_added")
    places = ("piece_begin", "piece_stop", "piece_node", "piece_others")
    arrays = dict.fromkeys((*hints, *places), pairs.nodes)
    inspector = Inspector.of_pieces(name, pairs, counts, arrays, names, origin)
    pieces, of = inspector.placed(_count(inspector), _place(inspector)), inspector.of
    return LastPieces(pieces, of["piece_others"], of["node_first"], of["node_added"])


def _count(inspector: Inspector) -> ScheduledKernel:
    """Finds each node's shortest piece, and counts how many each group and each bin has."""
    steps, pairs, piece = inspector.begun(), inspector.pairs, inspector.pairs.piece
    with steps.each("n", pairs.nodes, THREADS) as node:
        hints = ("length", "first", "group", "pieces")
        none = steps.index("none", "sub", inspector.choices, 1)
        found = {hint: steps.tile(hint, [1], "register", type="i32") for hint in hints}
        for hint, value in zip(hints, (piece + 1, 0, none, 0), strict=True):
            steps.store(found[hint], [0], value)
        begin = steps.load("begin", pairs.starts.name, node)
        end = steps.load("end", pairs.starts.name, steps.index("next", "add", node, 1))
        with steps.segment("d", begin, end, 1) as pair:
            _shorter(steps, inspector, pair, found)
        length, first, group, pieces = (steps.load(hint, tile, 0) for hint, tile in found.items())
        room = steps.index("room", "max", steps.index("most", "mul", pieces, piece), 1)  # 1 for a node without a piece
        own = steps.index("own", "min", steps.index("some", "min", length, piece), room)
        shorter = steps.index("shorter", "sub", piece, own)
        rank, chosen = inspector.count(steps, group, shorter, inspector.of["node_bin"])
        added = steps.index("added", "max", steps.index("others", "sub", pieces, 1), 0)
        for hint, value in (("rank", rank), ("bin", chosen), ("first", first), ("added", added)):
            steps.store(inspector[f"node_{hint}"], [node], value)
    said = "find each node's shortest piece, and count those of each group and length"
    return inspector.kernel("count", steps, THREADS, said)


def _shorter(steps: Steps, inspector: Inspector, pair: Extent, found: dict[str, str]) -> None:
    """Counts a pair's pieces, and takes the last of them, which is its shortest, if it is shorter than those before."""
    pairs, piece = inspector.pairs, inspector.pairs.piece
    edge = steps.load("edge", pairs.offsets.name, pair)
    stop = steps.load("stop", pairs.offsets.name, steps.index("next", "add", pair, 1))
    edges = steps.index("edges", "sub", stop, edge)
    own = steps.index("own", "div", steps.index("more", "add", edges, piece - 1), piece)
    before = steps.load("pieces", found["pieces"], 0)
    steps.store(found["pieces"], [0], steps.index("pieces", "add", before, own))
    with steps.where(0, "<", edges):
        cut = steps.index("cut", "mul", steps.index("whole", "sub", own, 1), piece)
        length = steps.index("length", "sub", edges, cut)
        with steps.where(length, "<", steps.load("shortest", found["length"], 0)):
            first = steps.index("first", "add", edge, cut)
            matrix = steps.load("m", pairs.matrices.name, pair)
            for hint, value in (("length", length), ("first", first), ("group", matrix)):
                steps.store(found[hint], [0], value)


def _place(inspector: Inspector) -> ScheduledKernel:
    """Each node's piece to its place. Nobody reads where one begins that is not there."""
    steps, piece = inspector.begun(), inspector.pairs.piece
    with steps.each("n", inspector.pairs.nodes, THREADS) as node:
        hints = ("rank", "bin", "first", "added")
        rank, chosen, first, added = (steps.load(hint, inspector[f"node_{hint}"], node) for hint in hints)
        place = inspector.place(steps, chosen, rank)
        length = steps.index("length", "sub", piece, steps.index("shorter", "mod", chosen, piece))
        stop = steps.index("stop", "add", first, length)
        for hint, value in (("begin", first), ("stop", stop), ("node", node), ("others", added)):
            steps.store(inspector[f"piece_{hint}"], [place], value)
    return inspector.kernel("place", steps, THREADS, "write the pieces group by group, the longest of a group first")
