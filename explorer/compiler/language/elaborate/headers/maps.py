"""`map rev: edge -> edge`: the maps that a text declares beside those of its header, its graph or its lists."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from explorer.compiler.frozen import replace
from explorer.compiler.ir.graph import plural
from explorer.compiler.ir.set_maps import sorted_domain
from explorer.compiler.language.diagnostics import Collector, Fix, suggestion, with_article
from explorer.compiler.language.elaborate.headers.facts import computed_in, declared_over
from explorer.compiler.language.elaborate.headers.lists import OWN_SETS
from explorer.compiler.language.names.builtins import builtin
from explorer.compiler.language.names.reserved import why_reserved
from explorer.compiler.language.names.structures import BATCH, Structure
from explorer.compiler.language.parsing import syntax
from explorer.compiler.options import EDGES


def declared_maps(definition: syntax.Definition) -> Iterator[syntax.MapDeclaration]:
    """The maps that a definition declares, outside of its loops."""
    yield from (each for each in definition.statements if isinstance(each, syntax.MapDeclaration))


def with_maps(
    structure: Structure, definition: syntax.Definition, sizes: Collection[str], collector: Collector
) -> Structure:
    """The structure of facts, of a graph, of lists or of a matrix with the maps that a text declares, and the sets that
    they lead to."""
    given = structure.maps
    for each in declared_maps(definition):
        if _fits(each, structure, given, definition, sizes, collector):
            domain, codomain = each.domain.text, each.codomain.text
            parts = {**structure.parts, domain: (*structure.parts.get(domain, ()), each.name.text)}
            maps = {**structure.maps, each.name.text: (domain, codomain)}
            sets = tuple(dict.fromkeys((*structure.sets, codomain)))
            structure = replace(structure, maps=maps, parts=parts, sets=sets)
    return structure


def report_elsewhere(definition: syntax.Definition, collector: Collector) -> None:
    """About maps of a helper, which has none of its own."""
    for each in declared_maps(definition):
        message = f"maps are declared in a score, a layer or an op, and this is {with_article(definition.kind)}"
        collector.report(message, each.extent, "A helper reads the maps of what calls it.")


def _with_others(structure: Structure, name: str, definition: syntax.Definition) -> Structure:
    """The structure with all other maps that the text declares, before this one or behind it."""
    others = [each for each in declared_maps(definition) if each.name.text != name]
    sets = tuple(dict.fromkeys((*structure.sets, *(each.codomain.text for each in declared_maps(definition)))))
    ends = {each.name.text: (each.domain.text, each.codomain.text) for each in others}
    return replace(structure, sets=sets, maps={**ends, **structure.maps})


def _fits(
    each: syntax.MapDeclaration,
    structure: Structure,
    given: Collection[str],
    definition: syntax.Definition,
    sizes: Collection[str],
    collector: Collector,
) -> bool:
    """Whether a map has a name of its own, beside those that are given, and sets to lead from and to."""
    name, domain, codomain = each.name, each.domain, each.codomain
    ids = {parameter.name.text for parameter in definition.parameters} if definition.kind == "score" else ()
    taken = why_reserved(name.text, _with_others(structure, name.text, definition))
    if name.text in structure.maps and name.text not in given:
        taken = "is declared already"
    elif name.text in structure.maps or any(name.text in parts for parts in structure.parts.values()):
        taken = f"is given by {structure.owner} already"
    elif any(sorted_domain(name.text, end) == domain.text for end in EDGES):  # which its ids need not be
        taken = "is a map whose ids ascend"
    elif name.text in structure.arrays:
        taken = f"is what an array of {structure.owner} is called"
    elif name.text in ids:
        taken = "is an id of the header"
    elif name.text in structure.mapped or name.text in {*structure.sets} - {codomain.text}:  # where a path would stay
        taken = "is an index set"
    elif name.text in sizes:
        taken = "is a size"
    elif builtin(name.text):
        taken = "is a built-in function"
    if taken:
        collector.report(f"'{name.text}' {taken}: choose another name", name.extent)
        return False
    if domain.text not in structure.mapped:
        there = " or ".join(plural(other) for other in structure.mapped)
        message = f"a map of {with_article(definition.kind)} leads from {there}, not from '{domain.text}'"
        own = [Fix(f"Use {other}", domain.extent, other) for other in structure.mapped]
        of_facts = f"What each fact has is an id of the header: {name.text}: {codomain.text}."
        collector.report(message, domain.extent, of_facts if domain.text == BATCH else "", fixes=own)
        return False
    others = {*OWN_SETS, *(other for other in structure.maps if structure.maps[other][1] != other)}
    others -= {*structure.sets} - {BATCH}
    if codomain.text in sizes or builtin(codomain.text) or codomain.text in others:
        collector.report(f"'{codomain.text}' is no name for an index set: choose another one", codomain.extent)
        return False
    known = {*structure.sets, *declared_over(definition)}
    if codomain.text not in known and name.text not in computed_in(definition):
        hint, fixes = suggestion(codomain.text, codomain.extent, known)
        detail = f"A tensor over a set makes it one: param T[{codomain.text}, D]."
        message = f"unknown index set '{codomain.text}'{hint or ': no tensor is over it'}"
        collector.report(message, codomain.extent, detail, fixes)
        return False
    return True
