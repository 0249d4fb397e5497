"""A score's header: what a fact of its batch is made of, each id of a set that the text names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from explorer.compiler.frozen import replace
from explorer.compiler.ir import graph as ir
from explorer.compiler.ir.index_functions import STEPS
from explorer.compiler.language.diagnostics import Collector, Fix, suggestion
from explorer.compiler.language.names.builtins import INDEX_SETS, SETS_OF_FAMILIES, builtin
from explorer.compiler.language.names.structures import BATCH, NEGATIVE, OF_NEGATIVES
from explorer.compiler.language.parsing import syntax
from explorer.compiler.options import OWN_NEGATIVES, Negatives

SCORE_PARAMETERS = "(h: entity, r: relation, t: entity)"
ENTITY = SETS_OF_FAMILIES["score"][0]
OWN_SETS = (BATCH, NEGATIVE, "unit")
"""The sets that every score has beside those of its header."""
BAG_WORD = "bag"
NEGATIVES_WORD = "negatives"
"""`n: negatives of entity`: of each fact a set of ids, in the place of one."""


def index_maps(
    definition: syntax.Definition, negatives: Negatives | None, sizes: Collection[str], collector: Collector
) -> tuple[ir.IndexMap, ...]:
    """The maps of a score's header, in its order: from the batch's facts to the set of each id; the one that negatives
    corrupt leads from them, and so do those that the header has as sets of negatives, with that to their facts."""
    own = own_negatives(definition)
    if len(own) == len(definition.parameters):
        message = f"a score is of ids, each of a set: {definition.name.text}{SCORE_PARAMETERS}"
        collector.report(message, definition.parameters_extent)
    fitting = [parameter for parameter in definition.parameters if _fits(parameter, definition, sizes, collector)]
    found = {parameter.name.text: parameter.annotation.index_set.text for parameter in fitting if parameter.annotation}
    corrupted = corrupted_by(found, negatives.end) if negatives and found and not own else None
    sharing = negatives.sharing if negatives else 1
    several = (corrupted, *own)
    maps = tuple(
        ir.IndexMap(
            origin=(parameter.name.extent,),
            name=parameter.name.text,
            domain=NEGATIVE if parameter.name.text in several else BATCH,
            codomain=found[parameter.name.text],
            sharing=sharing if parameter.name.text in several else 1,
        )
        for parameter in fitting
    )
    origin = (definition.parameters_extent,)
    of_facts = ir.IndexMap(origin=origin, name=OF_NEGATIVES, domain=NEGATIVE, codomain=BATCH)
    return (*maps, of_facts) if own else maps


def own_negatives(definition: syntax.Definition) -> tuple[str, ...]:
    """The parameters that are sets of negatives."""
    return tuple(
        parameter.name.text
        for parameter in definition.parameters
        if parameter.annotation and parameter.annotation.joined and parameter.annotation.text == NEGATIVES_WORD
    )


def has_bag(definition: syntax.Definition) -> bool:
    """Whether a score's facts have a bag each, `q: bag of relation`: it is over bags then, as an op is."""
    annotations = [parameter.annotation for parameter in definition.parameters]
    return any(each is not None and (each.text, each.joined) == (BAG_WORD, "of") for each in annotations)


def check_negatives(definition: syntax.Definition, negatives: Negatives, collector: Collector) -> None:
    """Reports a run's negatives that a definition cannot have."""
    own, name = own_negatives(definition), definition.name.text
    if has_bag(definition):
        collector.report(f"'{name}' is over bags, and has no negatives", None)
    elif definition.kind != "score":
        collector.report(f"negatives belong to scores, and '{name}' is a {definition.kind}", None)
    elif own and negatives.replaces:
        option = replace(negatives, end=OWN_NEGATIVES)
        message = f"'{name}' has negatives of its own, '{own[0]}': how many is negatives={option}"
        collector.report(message, None)
    elif not own and not negatives.replaces:
        ends = f"{replace(negatives, end='tail')} or {replace(negatives, end='head')}"
        detail = "A score has some of its own where its header says so: n: negatives of entity."
        collector.report(f"'{name}' has no negatives of its own: they replace an id, negatives={ends}", None, detail)
    elif negatives.sharing > 1 and len(definition.parameters) == 1:
        message = f"the negatives of '{name}' replace its only id: nothing tells which facts would share them"
        collector.report(message, None)


def corrupted_by(sets: Mapping[str, str], end: str) -> str:
    """Which of the ids, each with its set, negatives of an end replace: the first or the last entity, or where there is
    none, the first or the last of all."""
    names = [name for name, index_set in sets.items() if index_set == ENTITY] or list(sets)
    return names[0 if end == "head" else -1]


def _fits(
    parameter: syntax.Parameter, definition: syntax.Definition, sizes: Collection[str], collector: Collector
) -> bool:
    """Whether a parameter is an id of a set."""
    name, annotation = parameter.name, parameter.annotation
    if annotation is None:
        message = f"'{name.text}' needs its index set: '{name.text}: entity' or '{name.text}: relation'"
        collector.report(message, name.extent, fixes=_with_sets(definition))
        return False
    if name.text in OWN_SETS:
        collector.report(f"'{name.text}' is a set that every score has: choose another name", name.extent)
        return False
    if annotation.joined and not _is_negatives(annotation):
        message = f"an id of a score is of a set, not of '{annotation.text}': {name.text}: {annotation.sets[0].text}"
        detail = (
            f"What a score has several of for each fact is a bag, {name.text}: bag of entity, or as many of each,"
            f" {name.text}: negatives of entity."
        )
        collector.report(message, annotation.extent, detail)
        return False
    index_set = annotation.index_set
    taken = ""
    if index_set.text in OWN_SETS:
        taken = "is a set that every score has"
    elif index_set.text in sizes and index_set.text not in INDEX_SETS:  # which its declaration is told
        taken = "is a size"
    elif builtin(index_set.text):
        taken = "is a built-in function"
    if taken:
        collector.report(f"'{index_set.text}' {taken}: choose another name for the index set", index_set.extent)
        return False
    known = {*SETS_OF_FAMILIES["score"], *declared_over(definition), *mapped_in(definition)}
    if index_set.text not in known and name.text not in computed_in(definition):
        _report_unknown(index_set, definition, collector)
        return False
    return True


def _is_negatives(annotation: syntax.Annotation) -> bool:
    return (annotation.text, annotation.joined, len(annotation.sets)) == (NEGATIVES_WORD, "of", 1)


def _with_sets(definition: syntax.Definition) -> tuple[Fix, ...]:
    """The header with a set for each id that has none, that of the tensors which it indexes; nothing where one of them
    indexes none. `score f(h, r)` with `E[h]` of `E[entity, D]` and `R[r]` of `R[relation, D]` is meant as
    `score f(h: entity, r: relation)`."""
    meant = _indexed_sets(definition)
    bare = [parameter.name.text for parameter in definition.parameters if parameter.annotation is None]
    if not meant.keys() >= set(bare):
        return ()
    own = own_negatives(definition)
    words = [
        f"{each.name.text}: {f'{NEGATIVES_WORD} of ' * (each.name.text in own)}"
        f"{each.annotation.index_set.text if each.annotation else meant[each.name.text]}"
        for each in definition.parameters
    ]
    label = ", ".join(f"{name}: {meant[name]}" for name in bare)
    return (Fix(f"Write {label}", definition.parameters_extent, f"({', '.join(words)})"),)


def _indexed_sets(definition: syntax.Definition) -> dict[str, str]:
    """By name, which sets the definition's tensors are over where that name indexes them, the first of each."""
    extents = {
        tensor.name.text: tensor.extents
        for statement in definition.statements
        if isinstance(statement, syntax.Declarations)
        for tensor in statement.tensors
    }
    found: dict[str, str] = {}
    for statement in syntax.walk_statements(definition.statements):
        for node in (part for root in syntax.expressions_of(statement) for part in syntax.walk_expression(root)):
            if not isinstance(node, syntax.Index) or not isinstance(node.base, syntax.Name):
                continue
            for extent, index in zip(extents.get(node.base.text, ()), node.indices, strict=False):
                if isinstance(extent, syntax.Name) and isinstance(index, syntax.Name):
                    found.setdefault(index.text, extent.text)
    return found


def declared_over(definition: syntax.Definition) -> Iterator[str]:
    """The names among the extents of the definition's tensors."""
    for statement in definition.statements:
        if isinstance(statement, syntax.Declarations):
            for tensor in statement.tensors:
                yield from (extent.text for extent in tensor.extents if isinstance(extent, syntax.Name))


def mapped_in(definition: syntax.Definition) -> Iterator[str]:
    """The sets that a definition's own maps lead from: as many elements they have as ids are given."""
    yield from (each.domain.text for each in definition.statements if isinstance(each, syntax.MapDeclaration))


def computed_in(definition: syntax.Definition) -> Iterator[str]:
    """The ids that others are computed of, `w // 24` and `7 * e.when % 10`, by the names of their maps: over the sets
    that these lead to there need be no tensor."""
    for statement in syntax.walk_statements(definition.statements):
        for node in (part for root in syntax.expressions_of(statement) for part in syntax.walk_expression(root)):
            if isinstance(node, syntax.Binary) and node.operator in STEPS:
                for operand in (node.left, node.right):
                    match operand:
                        case syntax.Name(text=name) | syntax.Attribute(name=syntax.Name(text=name)):
                            yield name


def _report_unknown(index_set: syntax.Name, definition: syntax.Definition, collector: Collector) -> None:
    """About a set that no tensor is over: a wrong word, or a tensor that is not declared yet."""
    hint, fixes = suggestion(index_set.text, index_set.extent, (*SETS_OF_FAMILIES["score"], *declared_over(definition)))
    detail = f"A tensor over a set makes it one: param T[{index_set.text}, D]."
    collector.report(
        f"unknown index set '{index_set.text}'{hint or ': no tensor is over it'}", index_set.extent, detail, fixes
    )
