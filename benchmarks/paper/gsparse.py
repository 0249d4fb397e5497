"""G-Sparse's figures, as far as they can be counted: the space of schedules, what tiles ask memory for, balance.

The excerpt that there is has few numbers: the size of the search space (§III-D), and speed-ups, which need a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.paper.figure import NEEDS_GPU, Figure, Paper, Row, Table
from benchmarks.paper.measured import beside, by_setting
from explorer.checkout import CHECKOUT
from explorer.compiler.compilation import Compilation
from explorer.compiler.interpret.asked_bytes import asked_bytes
from explorer.compiler.to_json import kernels_of
from explorer.runtime.compiling import compile as compiled
from explorer.runtime.data.lists import load_lists
from explorer.runtime.encode import layers, ops
from explorer.runtime.gcompile import MESSAGES, REDUCTIONS, letters_of, sddmm_text, spmm_text

WIDTH = 256
"""The features of a row that §III-D counts the space for."""
DATA = "arxiv/50"
PUBLISHED_SPACE = 1.5e9


def program(name: str, options: Mapping[str, str | int | bool]) -> Compilation:
    """An example of examples/embedding, WIDTH wide."""
    text = (CHECKOUT / "examples" / "embedding" / f"{name}.emb").read_text()
    return compiled(text, sizes={"D": WIDTH}, options=options, on_demand=True)


def asked(compilation: Compilation, data: str) -> dict[str, int]:
    """The bytes that each kernel asks memory for on these lists."""
    graph, module = ops.programs_of(compilation)
    encoded = ops.EncodedLists(ops.Sets.of(graph), load_lists(data))
    shapes = {tensor.name: layers.tensor_shape(graph, tensor, encoded.counts) for tensor in graph.tensors}
    tensors = {name: np.broadcast_to(np.float32(0), shape) for name, shape in shapes.items()}
    arrays: Mapping[str, Any] = ops.program_inputs(graph, module, encoded, tensors)
    return asked_bytes(kernels_of(compilation.stages["kernels"].program), arrays)


def operators_table() -> Table:
    """How many kernels each message has under each reduction, and on the edges themselves."""
    columns = ("on edges", *REDUCTIONS)
    rows = []
    for message in MESSAGES:
        shapes = dict.fromkeys(letters_of(message), (WIDTH,))
        texts = [sddmm_text(message, shapes), *(spmm_text(message, reduce, shapes) for reduce in REDUCTIONS)]
        stages = [compiled(text, on_demand=True).stages["kernels"].program for text in texts]
        rows.append(Row(message, {c: float(len(kernels_of(found))) for c, found in zip(columns, stages, strict=True)}))
    note = (
        f"Kernels of `explorer.gcompile(g)`'s apply_edges and update_all, {WIDTH} features of nodes and edges each. The"
        " message is computed where it is reduced, and no edge's is kept; longer rows than a warp's are found, summed"
        " and merged by kernels of their own. No number of this kind is published."
    )
    return Table("counted", columns, rows, note, form=",.0f")


def space_table() -> Table:
    columns = ("schedules",)
    rows = [
        Row("SpMM", {columns[0]: float(program("spmm", {}).space().count)}, {columns[0]: PUBLISHED_SPACE}),
        Row("SDDMM", {columns[0]: float(program("sddmm", {}).space().count)}),
    ]
    note = (
        f"Schedules of `explorer space`, {WIDTH} features. Published: g-SpMM on REDDIT. Ours counts those that differ"
        " and can be launched, in powers of two; the paper does not say how it counts."
    )
    return Table("counted", columns, rows, note, form=",.0f", logarithmic=True)


SETTINGS: dict[str, dict[str, str | int | bool]] = {
    "a warp a row": {},
    "kNRegTile = 1 vector": {"lane_vectors": 1},
    "kNRegTile = 2 vectors": {"lane_vectors": 2},
    "kLaneWidth = 8": {"lanes": 8},
    "kNnzTile = 64 in shared memory": {"preload": 64},
    "kNnzTile = 256 in shared memory": {"preload": 256},
    "rows sorted by length": {"balance": True},
}


def traffic_table() -> Table:
    columns = ("MB asked of memory", "over a warp a row")
    rows: list[Row] = []
    for name, options in SETTINGS.items():
        found = sum(asked(program("spmm", {"split": "rows", **options}), DATA).values()) / 1e6
        first = rows[0].ours[columns[0]] if rows else found
        rows.append(Row(name, {columns[0]: found, columns[1]: found / first}))
    note = (
        f"SpMM of {DATA}, {WIDTH} wide, rows shared out (split=rows), before any cache. Column indices and values are"
        " loaded once a row and lane group; more columns a lane load them fewer times. What shared memory is filled"
        " with ahead is asked for by whole tiles, so short rows ask for more. No number of this kind is published."
    )
    return Table("counted", columns, rows, note, form=",.3f")


def waste(lengths: npt.NDArray[np.int64], tile: int, *, longest_first: bool) -> float:
    """Steps of blocks over the nonzeros, where `tile` rows side by side wait for their longest: in order, or sorted by
    length (§III-B-b)."""
    ordered = np.sort(lengths)[::-1] if longest_first else lengths
    padded = np.pad(ordered, (0, -len(ordered) % tile))
    steps = int(padded.reshape(-1, tile).max(axis=1).sum()) * tile
    return steps / max(1, int(lengths.sum()))


def balance_table() -> Table:
    tiles = (4, 16, 64)
    columns = tuple(f"{order}, kMTile={tile}" for tile in tiles for order in ("in order", "sorted"))
    rows = []
    for data in ("arxiv", "com-Youtube", "roadNet-CA", "web-Google", "wiki-Talk"):
        lengths = np.diff(load_lists(data).ptr).astype(np.int64)
        ours = {
            f"{order}, kMTile={tile}": waste(lengths, tile, longest_first=order == "sorted")
            for tile in tiles
            for order in ("in order", "sorted")
        }
        rows.append(Row(data, ours))
    note = (
        "Steps of a block of kMTile rows side by side, which its longest row decides, over nonzeros: 1 is no waiting."
        " Counted on generated graphs with the degrees of the published ones. What it gains in time needs a GPU, and no"
        " number of this kind is published."
    )
    return Table("counted", columns, rows, note, "steps over nonzeros", ",.2f", logarithmic=True)


_figure = partial(Figure.of, "gsparse")


PAPER = Paper(
    "gsparse",
    "G-Sparse: schedules of sparse products on graphs",
    (
        _figure("operators", "§III-A: g-SDDMM and g-SpMM by message and reduction", [1], operators_table),
        _figure("space", "§III-D: size of the search space", [7], space_table),
        _figure("tiles", "§III-B: what tiles of SpMM ask memory for", [2, 5], traffic_table),
        _figure("balance", "§III-B-b: rows sorted by length", [4], balance_table),
        _figure(
            "tile-times",
            "§III-B: tiles of SpMM, as times",
            [2, 4, 5],
            None,
            NEEDS_GPU,
            partial(by_setting.tile_times, SETTINGS, WIDTH),
            partial(by_setting.code_of_tiles, SETTINGS, WIDTH),
        ),
        _figure(
            "lane-times",
            "Algorithm 3: lane widths of SDDMM, as times",
            [6],
            None,
            NEEDS_GPU,
            by_setting.lane_times,
            by_setting.code_of_lanes,
        ),
        _figure(
            "speedups",
            "PACT'23 abstract: kernels up to 4.75x, here SpMM and SDDMM beside cuSPARSE",
            [10],
            None,
            NEEDS_GPU,
            beside.products_table,
            beside.code_of_products,
        ),
        _figure(
            "networks",
            "PACT'23 abstract: GCN, GraphSAGE and GAT end to end, 1.37x to 2.25x",
            [10],
            None,
            NEEDS_GPU,
            beside.networks_table,
            beside.code_of_networks,
        ),
    ),
)
