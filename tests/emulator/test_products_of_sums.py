"""Products whose rows are sums over pieces of segments: where pairs have many edges, and matrices many pieces."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

import explorer
from benchmarks.cases.checked import Case, sizes_of
from benchmarks.gpu_check import Setting, check_rows
from explorer.checkout import CHECKOUT
from explorer.compiler.codegen.text import Code
from explorer.compiler.schedule.gemm import strategy
from explorer.compiler.schedule.inspect.piece_groups import PairArrays, PlacedPieces
from explorer.compiler.schedule.inspect.piece_places import place_pieces
from explorer.compiler.target import TARGETS
from explorer.runtime.arrays import check_inputs
from explorer.runtime.data.graphs import GraphPreset, generate
from explorer.runtime.encode.graph import encode
from explorer.runtime.encode.layers import program_inputs, programs
from explorer.runtime.runs.layer import draw_tensors
from tests.emulator.emulate import emulate

MANY_EDGES = GraphPreset(num_nodes=31, num_edges=900, num_ntypes=2, num_etypes=5, reach=0.3)
"""Pairs of more edges than a piece has."""
MANY_PAIRS = GraphPreset(num_nodes=170, num_edges=700, num_ntypes=2, num_etypes=3, reach=1.0)
"""Matrices of more pieces than a tile has rows."""
GRAPHS = {"many edges": MANY_EDGES, "many pairs": MANY_PAIRS}


def cache_of(monkeypatch: pytest.MonkeyPatch, bytes_a_block: int) -> None:
    """A GPU whose cache no rows of nodes fit, and which has so many bytes for a block of destinations."""
    small = dataclasses.replace(TARGETS["sm_90"], l2_bytes=bytes_a_block * 25 // 4 + 1)
    monkeypatch.setitem(TARGETS, "sm_90", small)


@pytest.mark.parametrize(
    ("graph", "size", "precision", "bytes_a_block"),
    [
        ("many edges", 64, "float32", 8 << 20),
        ("many edges", 20, "float32", 2048),
        ("many pairs", 64, "float32", 2048),
        ("many pairs", 64, "tf32", 8 << 20),
        ("many pairs", 20, "tf32", 2048),
    ],
)
def test_pieces_are_summed_and_added_to_their_destinations(
    emulated: Setting, monkeypatch: pytest.MonkeyPatch, bytes_a_block: int, size: int, precision: str, graph: str
) -> None:
    """In one block of destinations, and in several."""

    def placed(name: str, pairs: PairArrays, row_bytes: int, cached: int, *others: Any) -> PlacedPieces:
        return place_pieces(name, pairs, row_bytes, bytes_a_block, *others)

    monkeypatch.setattr(strategy, "place_pieces", placed)
    setting = dataclasses.replace(emulated, graph=generate(graph, GRAPHS[graph]))
    text = (CHECKOUT / "examples" / "rgnn" / "rgcn.emb").read_text()
    case = Case(text, size, 0, {"precision": precision})
    outcome = check_rows(setting, case)
    assert outcome["agrees"], outcome
    kernels = explorer.compile(case.text, sizes=sizes_of(case), options=case.options).stages["kernels"]
    assert "sums of at most 16 edges" in kernels.passes[-1].summary
    assert not [reason for each in kernels.passes for reason in each.refusals if "shown" in reason]
    counts = {name: count for kernel in kernels.program.programs for name, count in kernel.counts}
    blocks = counts["blocks"].value({"node_ends": GRAPHS[graph].num_nodes + 1})
    assert blocks == 1 if bytes_a_block > 2048 else blocks > 1


@pytest.mark.parametrize(
    ("graph", "size", "precision", "bytes_a_block"),
    [
        ("many edges", 64, "float32", 8 << 20),
        ("many pairs", 64, "float32", 2048),
        ("many pairs", 20, "float32", 8 << 20),
        ("many pairs", 64, "tf32", 2048),
    ],
)
def test_products_with_their_last_piece_end_rows_that_no_cache_holds(
    emulated: Setting, monkeypatch: pytest.MonkeyPatch, bytes_a_block: int, size: int, precision: str, graph: str
) -> None:
    """Of nodes without pairs too."""
    cache_of(monkeypatch, min(bytes_a_block, 1 << 16))
    made = generate(graph, GRAPHS[graph])
    edges = np.bincount(made.dst, minlength=made.num_nodes)
    assert min(edges) == 0
    text = (CHECKOUT / "examples" / "rgnn" / "rgcn.emb").read_text()
    case = Case(text, size, 0, {"precision": precision})
    outcome = check_rows(dataclasses.replace(emulated, graph=made), case)
    assert outcome["agrees"], outcome
    kernels = explorer.compile(case.text, sizes=sizes_of(case), options=case.options).stages["kernels"]
    assert "its own row are one product, which ends the node's row" in kernels.passes[-1].summary
    assert [kernel.name for kernel in kernels.program.programs if not kernel.once] == [
        "RGCN_0_clear",
        "RGCN_0_others_product",
        "RGCN_0_ending_product",
    ]


def test_as_many_blocks_are_launched_as_there_are_tiles_with_rows(
    emulated: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inspector puts these before all others, and tells how many they are; what is launched is told by them."""
    cache_of(monkeypatch, 2048)
    text = (CHECKOUT / "examples" / "rgnn" / "rgcn.emb").read_text()
    compilation = explorer.compile(text, sizes={"F": 20, "G": 20}, on_demand=True)
    graph, module = programs(compilation)
    encodings = encode(generate("many edges", MANY_EDGES))
    inputs = program_inputs(graph, module, encodings, draw_tensors(graph, encodings.counts, seed=0))
    code = compilation.stages["cuda"].program
    assert isinstance(code, Code)
    written = emulate(code, *check_inputs(module, inputs))
    products = [launch for launch in code.launches if launch.busy]
    assert len(products) == 2
    for launch in products:
        (begin, end) = (name for name in launch.arguments if name.startswith(("tile_begin", "tile_end")))
        rows = written[end] - written[begin]
        (used,) = written[launch.busy]
        assert 0 < used < len(rows)
        assert (rows[:used] > 0).all()
        assert not rows[used:].any()


SUMS = "sum(e.norm * (x[e.src] @ W[e.etype]) for e in n.incoming_edges())"


@pytest.mark.parametrize(
    ("row", "fused"),
    [
        (f"relu({SUMS} + b + x[n] @ w0)", True),
        (f"sigmoid({SUMS} + x[n] @ w0) + x[n] @ w0", False),
        (f"sigmoid({SUMS}) * (x[n] @ w0)", False),
        (f"({SUMS} + x[n] @ w0) * {SUMS}", False),
        (f"relu({SUMS})", False),
    ],
)
def test_rows_end_however_they_use_their_sums(
    emulated: Setting, monkeypatch: pytest.MonkeyPatch, row: str, fused: bool
) -> None:
    """Sums that are but added to a product may lack those of a piece that is part of it; for others all are added."""
    cache_of(monkeypatch, 0)
    text = (CHECKOUT / "examples" / "rgnn" / "rgcn.emb").read_text().replace("w0[F, G]", "w0[F, G], b[G]")
    (given,) = re.findall(r'n\["h"\] = (.*)', text)
    case = Case(text.replace(given, row), 20, 0, {})
    outcome = check_rows(dataclasses.replace(emulated, graph=generate("many pairs", MANY_PAIRS)), case)
    assert outcome["agrees"], outcome
    kernels = explorer.compile(case.text, sizes=sizes_of(case), options=case.options).stages["kernels"]
    assert ("RGCN_0_ending_product" in [kernel.name for kernel in kernels.program.programs]) == fused
