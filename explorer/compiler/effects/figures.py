"""What an operation costs at a graph: rows that are computed, floating-point operations, and bytes of its arrays.

Counted, not measured: on the rows of the data that is compiled for, or for one triple of a score. An array has 4 bytes
an element. What is a view of another value, and a constant, takes no array in any framework."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from explorer.compiler.counts import Counts
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.graph import Constant, Gather, Graph, Repeat, Reshape, Slice, Transpose, Value, operands
from explorer.compiler.ir.index_sets import count_name
from explorer.compiler.ir.node import Span
from explorer.compiler.ir.storage import element_bytes
from explorer.compiler.ir.work import elements, work_of
from explorer.compiler.target import FLOAT_BYTES, GpuTarget

VIEWS = (Constant, Repeat, Reshape, Slice, Transpose)


@dataclass(frozen=True)
class Figures:
    """Rows of the values that compute something, or where none does, of all; their operations; and bytes of all as
    arrays."""

    rows: int
    flop: int
    bytes: int


def rows_by_set(graph: Graph, counts: Counts, negatives: int) -> dict[str, int] | None:
    """How many rows each index set of a graph has, of a score for one triple with its `negatives`; None where nobody
    knows one."""
    sets = {value.index_set for value in graph.values}
    known = known_rows(graph.family, sets, counts, negatives)
    return {name: known[name] for name in sets} if sets <= known.keys() else None


def known_rows(family: str, sets: Iterable[str], counts: Counts, negatives: int) -> dict[str, int]:
    """The rows of those of some index sets that are known, of a score for one triple."""
    if family == "score":
        return {"batch": 1, "negative": max(negatives, 1), "unit": 1}
    found = {name: counts.of(str(count_name(name))) for name in sets}
    return {"unit": 1, **{name: rows for name, rows in found.items() if rows is not None}}


def own_values(graph: Graph, operation: Span) -> list[Value]:
    """The values whose primary is the operation."""
    return [value for value in graph.values if value.origin[0] == operation]


def figures(graph: Graph, values: Iterable[Value], rows: Mapping[str, int]) -> Figures:
    """The figures of some of a graph's values."""
    values = list(values)
    arrays = [value for value in values if not isinstance(value.operator, VIEWS)]
    works = [work for value in values if (work := work_of(graph, value))[1]]
    return Figures(
        sum(rows[index_set] for index_set, _ in works) or sum(rows[value.index_set] for value in arrays),
        sum(rows[index_set] * flop for index_set, flop in works),
        array_bytes(graph, arrays, rows),
    )


def array_bytes(graph: Graph, values: Iterable[Value], rows: Mapping[str, int]) -> int:
    """What values take, each as an array of its own, but for views."""
    own = (value for value in values if not isinstance(value.operator, VIEWS))
    return sum(FLOAT_BYTES * rows[value.index_set] * elements(graph, value) for value in own)


def stored_bytes(graph: Graph, values: Iterable[Value], stored: Collection[str], rows: Mapping[str, int]) -> int:
    """The same of those that kernels store."""
    return array_bytes(graph, (value for value in values if value.name in stored), rows)


@dataclass(frozen=True)
class Predicted:
    """What an operation asks of a GPU once it is fused, and the seconds that this takes alone, by its `limit`: memory,
    or arithmetic in float32."""

    flop: int
    bytes: int
    seconds: float
    limit: str


def predicted(
    graph: Graph, values: Collection[Value], stored: Collection[str], rows: Mapping[str, int], target: GpuTarget
) -> Predicted:
    """What some values take by the published figures of a GPU: their operations, and the bytes that they read of
    tensors and of what other kernels have stored, each as often as it is read, and that they store themselves.

    Nothing is measured; caches, launches and instructions for addresses are left out."""
    flop = figures(graph, values, rows).flop
    stored_in = {tensor.name: element_bytes(tensor.storage) for tensor in graph.tensors}
    read = sum(
        stored_in.get(name, FLOAT_BYTES)
        * rows[value.index_set]
        * elements(graph, value if _is_load(value) else graph.value(name))
        for value in values
        for name in _read_from_memory(value, stored)
    )
    moved = read + stored_bytes(graph, values, stored, rows)
    memory, arithmetic = moved / (target.memory_gbs * 1e9), flop / (target.float32_gflops * 1e9)
    return Predicted(flop, moved, max(memory, arithmetic), "memory" if memory >= arithmetic else "arithmetic")


def _is_load(value: Value) -> bool:
    return isinstance(value.operator, Gather)


def _read_from_memory(value: Value, stored: Collection[str]) -> list[str]:
    """The tensor that a value reads, or the stored values among its operands."""
    if isinstance(value.operator, Gather) and not value.operator.tensor.startswith("%"):
        return [value.operator.tensor]
    return [name for name in operands(value.operator) if name in stored]
