"""An op's header: the lists or the matrix that it is over, of sets that the text names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from explorer.compiler.frozen import replace
from explorer.compiler.language.diagnostics import Collector, Fix, suggestion
from explorer.compiler.language.elaborate.headers.facts import BAG_WORD, computed_in, declared_over
from explorer.compiler.language.names.builtins import builtin
from explorer.compiler.language.names.reserved import reserved_names, why_reserved
from explorer.compiler.language.names.shapes import MOST_DIMENSIONS
from explorer.compiler.language.names.structures import Structure, bags_of, blocks_of, matrix, several_bags
from explorer.compiler.language.parsing import syntax

STRUCTURE_WORDS = ("bag", "csr", "coo", "blocks")
"""What an op's parameter is."""
FORMATS = {
    "csc": "The columns of a matrix are the rows of its transpose: A: csr[col, row].",
    **dict.fromkeys(
        ("bsr", "ell", "dia"), "Blocks are rows of a table: q: blocks of row; other formats are read as csr or coo."
    ),
}
"""Formats that the language has under another name."""

OP_EXAMPLES = "b: bag of row, q: blocks of row, A: csr[row, col], A: coo[row, col] or X: coo[row, col, time]"

OWN_SETS = ("bag", "query", "entry", "nonzero", "batch", "negative", "unit")
"""The sets that an op's header brings beside those that it names, and those of other definitions' values."""


def _is_free(
    name: syntax.Name, parameter: str, sizes: Mapping[str, int], collector: Collector, own: Collection[str] = ()
) -> bool:
    """Whether an index set of an op may have that name, beside those of its lists' own."""
    if name.text in OWN_SETS or name.text in own:
        taken = "is an index set of ops already"
    else:
        taken = taken_elsewhere(name, "op", parameter, sizes)
    if taken:
        collector.report(f"'{name.text}' {taken}: choose another name", name.extent)
    return not taken


def taken_elsewhere(name: syntax.Name, family: str, parameter: str, sizes: Mapping[str, int]) -> str:
    """What else than a set the name of a header's set is already; "" of a free one."""
    if name.text in sizes:
        return "is a size"
    if builtin(name.text):
        return "is a built-in function"
    return f"is what the {family} is over" if name.text == parameter else ""


def _are_maps(annotation: syntax.Annotation, definition: syntax.Definition, collector: Collector) -> bool:
    """Whether the sets of a tensor of three dimensions or more may give their names to the maps that lead to them, and
    tables say how many elements those have behind the second."""
    seen: set[str] = set()
    known = set(declared_over(definition))
    given = reserved_names(matrix("coo", "", ""))
    for name in annotation.sets:
        if name.text in seen:
            message = f"'{name.text}' is there twice: of a nonzero z, z.{name.text} is where it lies in one of them"
            detail = "What two dimensions are both of is a set that tensors name: a map leads to it from each."
            collector.report(message, name.extent, detail)
            return False
        if name.text in given:
            collector.report(f"'{name.text}' is a part of the matrix: choose another name", name.extent)
            return False
        if name not in annotation.sets[:2] and name.text not in known:
            detail = f"A tensor over a set makes it one: param T[{name.text}, D]. Of the first two none is needed."
            collector.report(f"unknown index set '{name.text}': no tensor is over it", name.extent, detail)
            return False
        seen.add(name.text)
    if len(seen) > MOST_DIMENSIONS:
        collector.report(f"a tensor has at most {MOST_DIMENSIONS} dimensions, not {len(seen)}", annotation.extent)
    return len(seen) <= MOST_DIMENSIONS


def structure_of(definition: syntax.Definition, sizes: Mapping[str, int], collector: Collector) -> Structure | None:
    """What an op is over, by its one parameter that is a list or a matrix; beside a bag stand ids that each has."""
    beside = ids_beside(definition)
    lists = [(each, each.annotation) for each in definition.parameters if each not in beside]
    bags = all(annotation is not None and is_bag(annotation) for _, annotation in lists)
    if not lists or lists[0][1] is None or (len(lists) > 1 and not bags):
        message, detail = "an op is over bags, blocks or a sparse matrix", f"Its one parameter is {OP_EXAMPLES}."
        if len(lists) > 1:
            detail += " Several are bags, all of them: a: bag of item, b: bag of user."
        if definition.kind == "score":
            message, detail = "a score of facts that have bags has beside them ids alone, no negatives", ""
        collector.report(message, definition.parameters_extent, detail)
        return None
    found = [_of_list(definition, each, annotation, sizes, collector) for each, annotation in lists if annotation]
    structure = bags_beside(lists, found, collector) if len(lists) > 1 else found[0]
    return structure and _with_ids(structure, beside, definition, sizes, collector)


def is_bag(annotation: syntax.Annotation) -> bool:
    """Whether a parameter is `b: bag of row`."""
    return (annotation.text, annotation.joined) == (BAG_WORD, "of")


def bags_beside(
    lists: Sequence[tuple[syntax.Parameter, syntax.Annotation | None]],
    found: Sequence[Structure | None],
    collector: Collector,
) -> Structure | None:
    """The structure of several bags, each over a set, which two may share; None where one of them cannot be, and
    reported."""
    if None in found:
        return None
    rows = {each.name.text: annotation.sets[0] for each, annotation in lists if annotation}
    structure = several_bags({name: index_set.text for name, index_set in rows.items()})
    made = {*structure.members, *rows}
    for index_set in rows.values():
        if index_set.text in made:
            taken = "is what the op is over" if index_set.text in rows else f"is what {structure.owner} are made of"
            collector.report(f"'{index_set.text}' {taken}: choose another name", index_set.extent)
            return None
    for each, _ in lists:
        if taken := why_reserved(each.name.text, structure):
            collector.report(f"'{each.name.text}' {taken}: choose another name", each.name.extent)
            return None
    return structure


def ids_beside(definition: syntax.Definition) -> tuple[syntax.Parameter, ...]:
    """The ids that stand beside a list in a header, `h: entity` beside `q: bag of relation`."""
    parameters = definition.parameters
    listed = any(each.annotation and each.annotation.joined for each in parameters)
    return tuple(p for p in parameters if listed and p.annotation and not p.annotation.joined)


def _with_ids(
    structure: Structure,
    ids: Sequence[syntax.Parameter],
    definition: syntax.Definition,
    sizes: Mapping[str, int],
    collector: Collector,
) -> Structure | None:
    """The structure with a map from each bag, or query, for each id; None where one of them cannot be, and reported."""
    if ids and structure.each == "unit":
        message = "ids stand beside a bag: of a matrix, where a row or a column leads to is a map"
        collector.report(message, ids[0].name.extent, f"Write map {ids[0].name.text}: {structure.group} -> ...")
        return None
    for each in ids:
        assert each.annotation is not None
        index_set = each.annotation.word
        if (taken := why_reserved(each.name.text, structure)) or each.name.text in OWN_SETS:
            collector.report(f"'{each.name.text}' {taken or 'is a set'}: choose another name", each.name.extent)
            return None
        if not _is_free(index_set, each.name.text, sizes, collector, (*structure.members, *structure.several)):
            return None
        known = {*structure.sets, *declared_over(definition)}
        if index_set.text not in known and each.name.text not in computed_in(definition):
            detail = f"A tensor over a set makes it one: param T[{index_set.text}, D]."
            collector.report(f"unknown index set '{index_set.text}': no tensor is over it", index_set.extent, detail)
            return None
    maps = {each.name.text: (structure.each, each.annotation.text) for each in ids if each.annotation}
    return replace(
        structure,
        sets=tuple(dict.fromkeys((*structure.sets, *(codomain for _, codomain in maps.values())))),
        maps={**structure.maps, **maps},
        parts={**structure.parts, structure.each: (*structure.parts.get(structure.each, ()), *maps)},
    )


def _of_list(
    definition: syntax.Definition,
    listed: syntax.Parameter,
    annotation: syntax.Annotation,
    sizes: Mapping[str, int],
    collector: Collector,
) -> Structure | None:
    """The structure of one list or matrix."""
    sets = [name.text for name in annotation.sets]
    wanted = {"bag": ("of", 1), "blocks": ("of", 1), "csr": ("[", 2), "coo": ("[", 2)}.get(annotation.text)
    if wanted is None:
        known = STRUCTURE_WORDS if annotation.text not in FORMATS else ()
        hint, fixes = suggestion(annotation.text, annotation.word.extent, known)
        message = f"an op is over bags, blocks or a sparse matrix, not over '{annotation.text}'{hint}"
        detail = FORMATS.get(annotation.text, f"Its one parameter is {OP_EXAMPLES}.")
        collector.report(message, annotation.word.extent, detail, fixes)
        return None
    several = annotation.text == "coo" and annotation.joined == "[" and len(sets) > 2
    if (annotation.joined, len(sets)) != wanted and not several:
        named = [*sets, *("row", "col")[len(sets) :]]
        form = f"{annotation.text} of {named[0]}" if wanted[0] == "of" else f"{annotation.text}[{', '.join(named)}]"
        fix = [Fix(f"Use {form}", annotation.extent, form)] if len(sets) <= wanted[1] else []
        usual = f"{annotation.text} of row" if wanted[0] == "of" else f"{annotation.text}[row, col]"
        collector.report(f"'{annotation.text}' is followed by what it is of: {usual}", annotation.extent, fixes=fix)
        return None
    if not all(_is_free(name, listed.name.text, sizes, collector) for name in annotation.sets):
        return None
    if several and not _are_maps(annotation, definition, collector):
        return None
    if annotation.text in ("csr", "coo"):
        return matrix(annotation.text, *sets)
    return bags_of(sets[0]) if annotation.text == "bag" else blocks_of(sets[0])
