"""A layer's header: the graph that it is over, of nodes, or from one set that the text names to another, and further
graphs over the same."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.compiler.ir.graph import NODES, Ends, plural
from explorer.compiler.language.diagnostics import Collector, Fix
from explorer.compiler.language.elaborate.headers.lists import OWN_SETS, taken_elsewhere
from explorer.compiler.language.names.builtins import GRAPH_WORD, SETS_OF_FAMILIES
from explorer.compiler.language.names.reserved import own_names, reserved_names, why_reserved
from explorer.compiler.language.names.structures import GRAPH, Structure, graph_between, several_graphs
from explorer.compiler.language.parsing import syntax

LAYER_PARAMETERS = "(g: graph)"
BETWEEN = f"{GRAPH_WORD}[user, item]"
"""A graph between two sets, as an example."""


def graph_of(definition: syntax.Definition, sizes: Mapping[str, int], collector: Collector) -> Structure | None:
    """What a layer is over, by its parameters; None where its header is wrong, and reported."""
    parameters = definition.parameters
    annotations = [parameter.annotation.text if parameter.annotation else "" for parameter in parameters]
    first = parameters[0].annotation if {*annotations} == {GRAPH_WORD} else None
    if first is not None:
        name = parameters[0].name.text
        ends = _between(first, name, sizes, collector) if first.joined else NODES
        if ends is None:
            return None
        return _with_further(definition, ends, collector) if len(parameters) > 1 else graph_between(ends)
    if all(entry in (GRAPH_WORD, *SETS_OF_FAMILIES["layer"], "") for entry in annotations):
        extent = definition.parameters_extent
        name = parameters[0].name.text if parameters else "g"
        fixes = [Fix(f"Use ({name}: graph)", extent, f"({name}: graph)")] if len(parameters) < 2 else []
        message = f"a layer is of a graph: {definition.name.text}{LAYER_PARAMETERS}"
        detail = f"One whose edges lead from one set to another is {name}: {BETWEEN}."
        if GRAPH_WORD in annotations:
            detail = f"Several are graphs, all of them: {name}: {GRAPH_WORD}, q: {GRAPH_WORD}."
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


def _with_further(definition: syntax.Definition, ends: Ends, collector: Collector) -> Structure | None:
    """`g: graph, q: graph`: a graph, and others over the same sets."""
    first, *others = definition.parameters
    graphs: dict[str, Ends | None] = {first.name.text: ends}
    for each in others:
        graphs[each.name.text] = _beside(each, first.name.text, ends, collector)
    known = {name: between for name, between in graphs.items() if between is not None}
    if len(known) < len(definition.parameters):  # one is wrong, or has another's name
        return None
    structure = several_graphs(known)
    given = {*known, *reserved_names(graph_between(ends))}
    for each in definition.parameters:
        own = own_names(structure.several[each.name.text]) if each is not first else frozenset()
        taken = "is an index set" if each.name.text in structure.all_sets else why_reserved(each.name.text, structure)
        if clashing := sorted(own & given):
            taken = f"would bring '{clashing[0]}', which is there already"
        if taken:
            collector.report(f"'{each.name.text}' {taken}: choose another name", each.name.extent)
            return None
        given |= own
    return structure


def _beside(parameter: syntax.Parameter, first: str, ends: Ends, collector: Collector) -> Ends | None:
    """The sets that the edges of a further graph lead from and to: of nodes as the first one's, or two of that one's,
    which may be one."""
    annotation, name = parameter.annotation, parameter.name.text
    assert annotation is not None
    if not annotation.joined and ends == NODES:
        return NODES
    known = " and ".join(dict.fromkeys(map(plural, ends)))
    if ends == NODES:
        fixes = [Fix("Use graph", annotation.extent, GRAPH_WORD)]
        message = f"'{name}' is over the {known} of '{first}', which names no sets: {name}: {GRAPH_WORD}"
        collector.report(message, annotation.extent, fixes=fixes)
        return None
    examples = " or ".join(f"{name}: {GRAPH_WORD}[{ends[0]}, {each}]" for each in ends)
    names = annotation.sets if annotation.joined == "[" else ()
    if len(names) == 2 and all(each.text in ends for each in names):
        return names[0].text, names[1].text
    message = f"'{name}' is over the {known} of '{first}', and says which its edges lead from and to: {examples}"
    collector.report(message, annotation.extent)
    return None
