"""What a drawn graph's kernels fuse: their boxes, the values that stand between them, and what arrays all would take.

The plan is that of the pass `fuse`, of the graph that is drawn; bytes are counted at 4 an element."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from explorer.compiler.effects.figures import VIEWS
from explorer.compiler.ir.graph import Gather, Graph, Value, operands, operator_name
from explorer.compiler.ir.work import elements
from explorer.compiler.language.diagnostics import with_article
from explorer.compiler.passes.stored.storage import plan_kernels, stored_values
from explorer.compiler.target import FLOAT_BYTES

Drawing = dict[str, Any]
ROWS_OF = {"batch": "a triple", "unit": "once"}
"""How often a set's rows are there, where its own name does not say it."""


def boxes(graph: Graph, apart: bool) -> list[Drawing]:
    """The kernels in order: each with its name, the values that it is the first to compute, and whether the result
    needs none of these, as in a backward pass."""
    stored = _stored(graph)
    if graph.is_one_nest:
        return [_box(graph.name, [value.name for value in graph.values], False)]
    forward = _needed(graph, graph.results, ())
    found, taken = [], set[str]()
    for number, plan in enumerate(plan_kernels(graph, stored, apart)):
        own = _needed(graph, plan.stores, stored) - taken
        taken |= own
        inside = [value.name for value in graph.values if value.name in own]
        found.append(_box(f"{graph.name}_{number}", inside, not forward & set(plan.stores)))
    return found


def barriers(graph: Graph, kernels: Sequence[Drawing], operations: Mapping[str, Sequence[int]]) -> list[Drawing]:
    """The edges that no kernel could take in: from a value in memory to one that another kernel computes, and why; with
    the operation that reads it, else that which computes it, by the numbers of the values'."""
    of = {name: kernel["id"] for kernel in kernels for name in kernel["nodes"]}
    stored = set(_stored(graph))
    return [
        {
            "from": name,
            "to": value.name,
            "why": _why(graph, name, value.operator),
            "operation": next(iter((*operations.get(value.name, ()), *operations.get(name, ()))), None),
        }
        for value in graph.values
        for name in dict.fromkeys(operands(value.operator))
        if name in stored and of.get(name) != of.get(value.name)
    ]


def arrays(graph: Graph, kernels: Sequence[Drawing]) -> Drawing:
    """Bytes a row of each index set: of every value as an array, as a framework without fusion has them, and of those
    that the kernels store."""
    stored = set(_stored(graph))
    values = [value for value in graph.values if not isinstance(value.operator, VIEWS)]
    sums: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for value in values:
        size = FLOAT_BYTES * elements(graph, value)
        for kept in {False, value.name in stored}:
            sums[kept][value.index_set] = sums[kept].get(value.index_set, 0) + size
    return {
        "arrays": len(values),
        "bytes": _in_words(sums[False]),
        "kernels": len(kernels),
        "stored": len(stored & {value.name for value in values}),
        "stored_bytes": _in_words(sums[True]),
    }


def materialised(graph: Graph, cuts: Sequence[Drawing], counted: Mapping[str, Any]) -> Drawing | None:
    """What a framework without fusion writes between operations, in bytes for the rows that are counted: of all values,
    of the largest, of those that the kernels store, and of each that stands at a barrier; None where the rows of a set
    are not known."""
    rows: Mapping[str, int] = counted["rows"]
    values = [value for value in graph.values if not isinstance(value.operator, VIEWS)]
    if not values or any(value.index_set not in rows for value in values):
        return None
    sizes = {value.name: FLOAT_BYTES * rows[value.index_set] * elements(graph, value) for value in values}
    stored = set(_stored(graph))
    largest = max(values, key=lambda value: sizes[value.name])
    return {
        "on": counted["on"],
        "is_a_triple": graph.family == "score",
        "bytes": sum(sizes.values()),
        "largest": f"{largest.name}, {_reads(largest)}",
        "largest_bytes": sizes[largest.name],
        "stored_bytes": sum(size for name, size in sizes.items() if name in stored),
        "cuts": [{**cut, "bytes": sizes.get(cut["from"], 0)} for cut in cuts],
        "cut_bytes": sum(sizes.get(name, 0) for name in {cut["from"] for cut in cuts}),
    }


def _reads(value: Value) -> str:
    """`P[r]`, of what is gathered; else what it is made by."""
    if isinstance(value.operator, Gather):
        return f"{value.operator.tensor}[{', '.join(value.operator.indices)}]"
    return operator_name(value.operator, value.shape)


def _in_words(sizes: Mapping[str, int]) -> str:
    """`1,136 B an edge + 512 B a node`."""
    each = [f"{size:,} B {ROWS_OF.get(name) or with_article(name)}" for name, size in sizes.items()]
    return " + ".join(each) or "nothing"


def _box(name: str, nodes: Sequence[str], is_backward: bool) -> Drawing:
    return {"id": name, "nodes": list(nodes), "backward": is_backward}


def _stored(graph: Graph) -> list[str]:
    return [graph.result] if graph.is_one_nest else stored_values(graph)


def _needed(graph: Graph, names: Collection[str], stored: Collection[str]) -> set[str]:
    """Some values and what they are computed of, up to what is stored."""
    needed, pending = set[str](), list(names)
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += [each for each in operands(graph.value(name).operator) if each not in stored]
    return needed


def _why(graph: Graph, name: str, reader: object) -> str:
    """Why a value is in memory, as `stored_values` decides: it is read at rows that its own loop is not at, or several
    loops read what takes a loop to compute."""
    index_set = graph.value(name).index_set
    if isinstance(reader, Gather):
        path = ", ".join(reader.indices)
        return f"not fused: {name} is read through {path}, at other rows of {index_set} than its loop is at"
    return f"not fused: {name} takes a loop to compute and several kernels read it, so that it is computed once"
