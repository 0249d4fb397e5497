"""The inspector of pieces: each once, in tiles of one matrix, in the order in which they are to be multiplied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

from explorer.compiler.interpret.kernels import run_scheduled
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Names, Span
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.schedule.gemm.clear_rows import clear_rows
from explorer.compiler.schedule.inspect.group_by_matrix import ROWS_A_TILE
from explorer.compiler.schedule.inspect.last_pieces import LastPieces, place_last_pieces
from explorer.compiler.schedule.inspect.piece_groups import PIECE, USUAL_PIECE, PairArrays, PlacedPieces
from explorer.compiler.schedule.inspect.piece_places import place_pieces

ORIGIN = (Span(1, 1, 1, 2),)
CHOICES = 3


class Graph(NamedTuple):
    """Where pairs' edges and nodes' pairs begin, and the pairs' matrices."""

    offsets: list[int]
    nodes: list[int]
    matrices: list[int]


def graph(pairs_of_nodes: list[int], lengths: list[int]) -> Graph:
    matrices = [(7 * pair) % CHOICES for pair in range(len(lengths))]
    return Graph([0, *np.cumsum(lengths)], [0, *np.cumsum(pairs_of_nodes)], matrices)


def drawn(nodes: int, lengths: list[int]) -> Graph:
    cuts = np.sort(np.random.default_rng(3).integers(0, len(lengths) + 1, nodes - 1))
    return graph(np.diff([0, *cuts, len(lengths)]).tolist(), lengths)


GRAPHS = {
    "one edge": graph([1], [1]),
    "one long pair": graph([0, 1, 0], [3 * USUAL_PIECE + 1]),
    "single edges": drawn(20, [1] * 400),
    "empty pairs": graph([1, 2, 1], [0, USUAL_PIECE, 0, USUAL_PIECE + 1]),
    "skewed": drawn(30, (np.random.default_rng(1).zipf(1.7, 500) % 90).tolist()),
}


def place(
    given: Graph, nodes_a_block: int, piece: int = USUAL_PIECE, *, parted: bool = False
) -> tuple[PlacedPieces, LastPieces | None, dict[str, np.ndarray]]:
    """The inspector of all pieces of a graph and, if nodes' last ones are `parted` from them, that of those; and what
    they fill."""

    def array(name: str, extent: str) -> Buffer:
        return Buffer(name=name, kind="index", extents=(extent,), origin=ORIGIN)

    names = Names({"offsets", "starts", "matrices", "E", "N", "ends", "node_ends", "pairs", "relation"})
    arrays = array("offsets", "ends"), array("starts", "node_ends"), array("matrices", "pairs")
    pairs = PairArrays("E", "N", *arrays, "relation", piece)
    last = place_last_pieces("last", pairs, names, ORIGIN) if parted else None
    pieces = place_pieces("model", pairs, 64, 64 * nodes_a_block, names, ORIGIN, last)
    kernels = (*(last.pieces.grouping.kernels if last else ()), *pieces.grouping.kernels)
    for kernel in kernels:
        verify_scheduled(kernel)
    inputs = {
        **dict(zip(("offsets", "starts", "matrices"), map(np.array, given), strict=True)),
        **{"E": given.offsets[-1], "N": len(given.nodes) - 1},
        **{"ends": len(given.offsets), "node_ends": len(given.nodes)},
        **{"pairs": len(given.matrices), "relation": CHOICES},
    }
    return pieces, last, run_scheduled(kernels, inputs)


def tiles_of(pieces: PlacedPieces, arrays: dict[str, np.ndarray]) -> Iterator[tuple[int, int, int]]:
    """Each tile's matrix, and where its rows begin and end."""
    grouping = pieces.grouping
    return zip(*(arrays[each.name] for each in (grouping.matrix, grouping.begin, grouping.end)), strict=True)


@pytest.mark.parametrize("nodes_a_block", [1000, 4])
@pytest.mark.parametrize("piece", PIECE.domain)
@pytest.mark.parametrize("given", GRAPHS.values(), ids=GRAPHS)
def test_every_edge_is_in_one_piece_of_its_pair(given: Graph, piece: int, nodes_a_block: int) -> None:
    pieces, _, arrays = place(given, nodes_a_block, piece)
    seen: list[int] = []
    for matrix, first, past in tiles_of(pieces, arrays):
        assert past - first <= ROWS_A_TILE
        for at in range(first, past):
            begin, stop, node = (arrays[buffer.name][at] for buffer in pieces.arrays)
            pair = int(np.searchsorted(given.offsets, begin, "right")) - 1
            assert 0 < stop - begin <= piece
            assert stop <= given.offsets[pair + 1]
            assert node == np.searchsorted(given.nodes, pair, "right") - 1
            assert matrix == given.matrices[pair]
            seen += range(begin, stop)
    assert sorted(seen) == list(range(given.offsets[-1]))


@pytest.mark.parametrize("nodes_a_block", [1000, 4])
@pytest.mark.parametrize("given", GRAPHS.values(), ids=GRAPHS)
def test_tiles_go_by_block_and_matrix_and_end_in_single_edges(given: Graph, nodes_a_block: int) -> None:
    pieces, _, arrays = place(given, nodes_a_block)
    begins, stops, nodes = (arrays[buffer.name] for buffer in pieces.arrays)
    blocks = -(-len(given.nodes) // nodes_a_block)
    order, sizes = [], {}
    found = [*tiles_of(pieces, arrays)]
    (used,) = arrays[pieces.grouping.used]
    assert [first < past for _, first, past in found] == [True] * used + [False] * (len(found) - used)
    for matrix, first, past in found[:used]:
        (block,) = {int(node) // nodes_a_block for node in nodes[first:past]}
        lengths = (stops - begins)[first:past].tolist()
        assert lengths == sorted(lengths, reverse=True)
        is_last = block == blocks - 1 and lengths[0] == 1
        order.append((is_last, block, int(matrix)))
        sizes.setdefault((block, matrix), []).append(past - first)
    assert order == sorted(order)
    assert all(len(own) == -(-sum(own) // ROWS_A_TILE) for own in sizes.values())
    counts = dict(pieces.grouping.counts)
    extents = {"relation": CHOICES, "node_ends": len(given.nodes)}
    extents |= {name: counts[name].value(extents) for name in ("choices", "blocks")}
    assert counts["groups"].value(extents) == blocks * CHOICES


def pieces_of(given: Graph, node: int, piece: int) -> list[tuple[int, int, int]]:
    """Where each piece of a node begins and ends, and its matrix."""
    return [
        (begin, min(begin + piece, given.offsets[pair + 1]), given.matrices[pair])
        for pair in range(given.nodes[node], given.nodes[node + 1])
        for begin in range(given.offsets[pair], given.offsets[pair + 1], piece)
    ]


@pytest.mark.parametrize("piece", PIECE.domain)
@pytest.mark.parametrize("given", GRAPHS.values(), ids=GRAPHS)
def test_a_nodes_last_piece_and_the_others_are_all(given: Graph, piece: int) -> None:
    others, last, arrays = place(given, 4, piece, parted=True)
    assert last is not None
    found: dict[int, list[tuple[int, int, int]]] = {node: [] for node in range(len(given.nodes) - 1)}
    for matrix, first, past in tiles_of(others, arrays):
        for at in range(first, past):
            begin, stop, node = (int(arrays[buffer.name][at]) for buffer in others.arrays)
            assert (node < 0) == (len(pieces_of(given, max(node, -1 - node), piece)) == 2)  # no other is added to it
            found[max(node, -1 - node)].append((begin, stop, int(matrix)))
    for matrix, first, past in tiles_of(last.pieces, arrays):
        for at in range(first, past):
            begin, stop, node, added = (int(arrays[buffer.name][at]) for buffer in last.arrays)
            assert added == len(found[node])
            assert matrix < CHOICES or not found[node]
            if matrix < CHOICES:
                assert stop - begin <= min([to - of for of, to, _ in found[node]], default=piece)
                found[node].append((begin, stop, int(matrix)))
    for node, own in found.items():
        assert sorted(own) == pieces_of(given, node, piece)


@pytest.mark.parametrize("columns", [3, 4, 64, 67, 100])
def test_rows_of_several_pieces_are_cleared(columns: int) -> None:
    sums = Buffer(name="sums", kind="output", extents=("N", columns), origin=ORIGIN)
    added = Buffer(name="added", kind="index", extents=("N",), origin=ORIGIN)
    kernel = clear_rows("clear", sums, added, columns, ())
    verify_scheduled(kernel)
    counted = np.random.default_rng(0).integers(0, 4, 40)
    cleared = run_scheduled((kernel,), {"N": 40, "added": counted, "sums": np.ones((40, columns))})["sums"]
    assert (cleared[counted > 1] == 0).all()
    assert (cleared[counted <= 1] != 0).all()
