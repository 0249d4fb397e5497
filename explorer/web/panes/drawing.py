"""The graph as nodes and edges, for the page to lay out: operators coloured by their index set, the values between.

What is drawn is read from the printed text, by the compiler's own parser: a text of any pass can be drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explorer.compiler.ir.graph import Gather, Graph, Value, operands, operator_name
from explorer.compiler.ir.parse.graph import parse_graph
from explorer.web.panes.fused import arrays, barriers, boxes, materialised
from explorer.web.panes.highlight import SET_COLOURS

DRAWABLE = frozenset({"graph"})
"""The stages whose texts are graphs."""
MOST_NODES = 600
"""A larger graph is laid out too slowly to be of use."""
MOST_BOXED = 150
"""A larger one is drawn without its kernels, with which its layout takes five times as long."""

Drawing = dict[str, Any]


def draw(lines: Sequence[Mapping[str, Any]], counted: Mapping[str, Any], apart: bool = False) -> Drawing:
    """`nodes` with what the page shows of each, and `edges` from reader's operand to reader, both by name; the
    `kernels` that fuse them, the `barriers` between these, what all values would take as `arrays`, and in bytes for the
    rows that a compilation says it has `counted` for. `apart` is the option, which fuses them otherwise.

    A graph of more than MOST_NODES has none, only their number as `too_many`."""
    graph = parse_graph("".join(f"{line['text']}\n" for line in lines))
    operations = {
        str(line["text"]).split()[0]: line["operations"] for line in lines if str(line["text"]).lstrip().startswith("%")
    }
    count = len(graph.values) + len(graph.tensors)
    if count > MOST_NODES:
        return {"nodes": [], "edges": [], "too_many": count}
    values = [_value(value, operations.get(value.name, []), value.name in graph.results) for value in graph.values]
    kernels = boxes(graph, apart)
    found = {"nodes": [*_tensors(graph), *values], "edges": _edges(graph), "arrays": arrays(graph, kernels)}
    cuts = barriers(graph, kernels, operations)
    found["materialised"] = materialised(graph, cuts, counted)
    if count > MOST_BOXED:
        return found
    return {**found, "kernels": kernels, "barriers": cuts}


def _tensors(graph: Graph) -> list[Drawing]:
    read = {value.operator.tensor for value in graph.values if isinstance(value.operator, Gather)}
    return [
        {
            "id": tensor.name,
            "label": f"{tensor.name} [{', '.join(map(str, (*tensor.sets, *tensor.dims)))}]",
            "about": tensor.kind if tensor.storage == "f32" else f"{tensor.kind}, {tensor.storage}",
            "hue": SET_COLOURS.get(tensor.sets[0], "vertex") if tensor.sets else "",
            "kind": "tensor",
            "operations": [],
        }
        for tensor in graph.tensors
        if tensor.name in read
    ]


def _value(value: Value, operations: Sequence[int], is_result: bool) -> Drawing:
    shape = ", ".join(map(str, value.shape))
    gathers = isinstance(value.operator, Gather)
    through = f"[{', '.join(value.operator.indices)}]" if isinstance(value.operator, Gather) else ""
    return {
        "id": value.name,
        "label": f"{value.name} {'gather' if gathers else operator_name(value.operator, value.shape)}{through}",
        "about": f"{value.index_set} [{shape}] {{{', '.join(value.depends)}}}",
        "hue": SET_COLOURS.get(value.index_set, "vertex"),
        "kind": "result" if is_result else "value",
        "operations": list(operations),
    }


def _edges(graph: Graph) -> list[tuple[str, str]]:
    edges = []
    for value in graph.values:
        read = (value.operator.tensor,) if isinstance(value.operator, Gather) else operands(value.operator)
        edges += [(name, value.name) for name in dict.fromkeys(read)]
    return edges
