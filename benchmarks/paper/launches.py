"""PIGEON's Table 1, its column of memory: the floats that a launch of HGT's attention reads, by the table and counted.

A launch there is one row: an edge of the typed linear layer, or of the inner product. The table has `2 m k n /
TILE_WIDTH` floats for the one, which is m heads' rows of n numbers made in square tiles, and `2 m n` for the other. Our
tiles need not be square. One of `rows` by `columns` reads k numbers for each of its rows and for each of its columns,
so that its TILE_WIDTH is their harmonic mean, `2 rows columns / (rows + columns)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from benchmarks.paper.figure import Row, Table
from explorer.compiler.compilation import Compilation
from explorer.compiler.interpret.asked_bytes import asked_bytes
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.to_json import kernels_of
from explorer.runtime.compiling import compile as compiled
from explorer.runtime.data.graphs import load_graph
from explorer.runtime.encode.graph import Encodings, encode
from explorer.runtime.encode.layers import program_inputs, programs, tensor_shape

WIDTH, FLOAT_BYTES = 64, 4
"""m k and m n of the table, with one head."""
GRAPHS = ("aifb", "mutag", "bgs", "fb15k")
LINEAR = f"""dim K = {WIDTH}, N = {WIDTH}
layer Linear(g: graph):
    input x[node, K]
    param W[etype, K, N]
    for e in g.edges():
        e["m"] = e.src.x @ W[e.etype]
    return e["m"]
"""
INNER = f"""dim N = {WIDTH}
layer Inner(g: graph):
    input x[node, N], y[edge, N]
    for e in g.edges():
        e["a"] = dot(e.y, e.dst.x)
    return e["a"]
"""
COLUMNS = (16, 32, 64)
FORMULA, COUNTED = "by the table", "counted, {}"


def table() -> Table:
    """Both operators, the linear one at tiles of several widths."""
    rows = [_linear(columns) for columns in COLUMNS]
    rows.append(_row("inner product", compiled(INNER, on_demand=True), 2.0 * WIDTH, stored=1))
    columns = (FORMULA, *(COUNTED.format(data) for data in GRAPHS))
    note = (
        f"Floats that a row asks memory for, before any cache, {WIDTH} to {WIDTH} with one head, every edge a row: the"
        " table's 2 m k n / TILE_WIDTH of the linear layer and 2 m n of the inner product; and counted of the kernels'"
        " text on the graphs' indices, without what is stored. Of a tile of rows by columns, TILE_WIDTH is their"
        " harmonic mean; at PIGEON's own 16 and 32 the table gives 512 and 256. Counted are the indices of rows too,"
        " and the matrix of a type whose last tile is not full."
    )
    return Table("counted", columns, rows, note, "floats a row", ",.1f")


def _linear(columns: int) -> Row:
    """The linear layer with tiles of so many columns."""
    plain = compiled(LINEAR, options={"compact": False}, on_demand=True)
    (key,) = (key for key in plain.schedule if key.endswith(".columns"))
    compilation = compiled(LINEAR, options={"compact": False}, schedule={key: columns}, on_demand=True)
    rows = rows_of_tile(kernels_of(compilation.stages["kernels"].program))
    width = 2 * rows * columns / (rows + columns)
    return _row(
        f"linear layer, {rows} rows by {columns} columns", compilation, 2.0 * WIDTH * WIDTH / width, stored=WIDTH
    )


def rows_of_tile(kernels: Iterable[ScheduledKernel]) -> int:
    """The most edges of a tile: what the number of tiles divides the edges by."""
    counts = [count for kernel in kernels for _, count in kernel.counts]
    (rows,) = {by for count in counts for extent, by in count.terms if extent == "edges"}
    return rows


def _row(label: str, compilation: Compilation, formula: float, stored: int) -> Row:
    """A launch's floats by the table, and counted on each graph but for those that it stores."""
    counted = {COUNTED.format(data): _asked(compilation, encoded(data)) - stored for data in GRAPHS}
    return Row(label, {FORMULA: formula, **counted})


def _asked(compilation: Compilation, encodings: Encodings) -> float:
    """The floats that the kernels which read tensors ask for, an edge."""
    graph, module = programs(compilation)
    shapes = {tensor.name: tensor_shape(graph, tensor, encodings.counts) for tensor in graph.tensors}
    tensors: Mapping[str, Any] = {name: np.broadcast_to(np.float32(0), shape) for name, shape in shapes.items()}
    kernels = kernels_of(compilation.stages["kernels"].program)
    found = asked_bytes(kernels, program_inputs(graph, module, encodings, tensors))
    reading = [kernel.name for kernel in kernels if any(buffer.name in tensors for buffer in kernel.buffers)]
    return sum(found[name] for name in reading) / FLOAT_BYTES / encodings.counts["edge"]


@cache
def encoded(data: str) -> Encodings:
    """A generated graph, encoded."""
    return encode(load_graph(data))
