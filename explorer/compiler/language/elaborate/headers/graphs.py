"""A layer's header: the graph that it is over, of nodes, or from one set that the text names to another."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.compiler.ir.graph import NODES, Ends
from explorer.compiler.language.diagnostics import Collector, Fix
from explorer.compiler.language.elaborate.headers.lists import OWN_SETS, taken_elsewhere
from explorer.compiler.language.names.builtins import GRAPH_WORD, SETS_OF_FAMILIES
from explorer.compiler.language.names.reserved import reserved_names
from explorer.compiler.language.names.structures import GRAPH
from explorer.compiler.language.parsing import syntax

LAYER_PARAMETERS = "(g: graph)"
BETWEEN = f"{GRAPH_WORD}[user, item]"
"""A graph between two sets, as an example."""


def ends_of(definition: syntax.Definition, sizes: Mapping[str, int], collector: Collector) -> Ends | None:
    """The sets that a layer's edges lead from and to; None where its header is wrong, and reported."""
    parameters = definition.parameters
    annotations = [parameter.annotation.text if parameter.annotation else "" for parameter in parameters]
    annotation = parameters[0].annotation if annotations == [GRAPH_WORD] else None
    if annotation is not None:
        return _between(annotation, parameters[0].name.text, sizes, collector) if annotation.joined else NODES
    if all(entry in (GRAPH_WORD, *SETS_OF_FAMILIES["layer"], "") for entry in annotations):
        extent = definition.parameters_extent
        name = parameters[0].name.text if parameters else "g"
        fixes = [Fix(f"Use ({name}: graph)", extent, f"({name}: graph)")] if len(parameters) < 2 else []
        message = f"a layer is of a graph: {definition.name.text}{LAYER_PARAMETERS}"
        detail = f"One whose edges lead from one set to another is {name}: {BETWEEN}."
        collector.report(message, extent, detail, fixes)
    return None


def names_sets(definition: syntax.Definition) -> bool:
    """Whether a header is meant to say between which sets edges lead."""
    annotations = (parameter.annotation for parameter in definition.parameters)
    return any(each is not None and each.text == GRAPH_WORD and bool(each.joined) for each in annotations)


def _between(
    annotation: syntax.Annotation, parameter: str, sizes: Mapping[str, int], collector: Collector
) -> Ends | None:
    """`graph[user, item]`."""
    names = annotation.sets
    if annotation.joined != "[" or len(names) != 2:
        message = "a graph between two sets names both, those that edges lead from first"
        fixes = [Fix("Use graph", annotation.extent, GRAPH_WORD)]
        collector.report(f"{message}: {BETWEEN}", annotation.extent, "Of one set it is g: graph.", fixes)
        return None
    source, destination = names
    if source.text == destination.text:
        message = f"edges from '{source.text}' to '{source.text}' are a graph of one set: {parameter}: graph"
        detail = "Its elements are nodes there, and tensors are over node."
        fixes = [Fix("Use graph", annotation.extent, GRAPH_WORD)]
        collector.report(message, annotation.extent, detail, fixes)
        return None
    free = [_is_free(name, parameter, sizes, collector) for name in names]
    return (source.text, destination.text) if all(free) else None


def _is_free(name: syntax.Name, parameter: str, sizes: Mapping[str, int], collector: Collector) -> bool:
    """Whether an end's set may have that name."""
    if name.text in (*GRAPH.all_sets, *OWN_SETS):
        taken = "is an index set of graphs already" if name.text in GRAPH.all_sets else "is an index set of others"
    elif name.text in reserved_names(GRAPH) or any(name.text in parts for parts in GRAPH.parts.values()):
        taken = "is a part of every graph"
    elif name.text.endswith("_entry"):
        taken = "is what the entries of a bag are called"
    else:
        taken = taken_elsewhere(name, "layer", parameter, sizes)
    if taken:
        collector.report(f"'{name.text}' {taken}: choose another name", name.extent)
    return not taken
