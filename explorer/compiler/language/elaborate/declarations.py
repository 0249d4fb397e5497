"""`param` and `input`: the tensors that a definition reads."""

from __future__ import annotations

from explorer.compiler.ir.graph import Tensor
from explorer.compiler.ir.node import Extent, Span
from explorer.compiler.ir.storage import ALIASES, LEARNT, STORAGES
from explorer.compiler.language.diagnostics import Fix, suggestion
from explorer.compiler.language.elaborate.elaborate import Elaborator
from explorer.compiler.language.elaborate.headers.meant import as_map
from explorer.compiler.language.names.builtins import INDEX_SETS, builtin
from explorer.compiler.language.names.entities import Entity, Index, Table
from explorer.compiler.language.names.reserved import why_reserved
from explorer.compiler.language.names.shapes import LARGEST_EXTENT, MOST_DIMENSIONS
from explorer.compiler.language.names.structures import BATCH
from explorer.compiler.language.parsing import syntax

OF_A_RUN = frozenset(
    (
        "b",
        "batch",
        "batch_size",
        "triple",
        "triples",
        "sample",
        "samples",
        "example",
        "examples",
        "negative",
        "negatives",
    )
)
"""What a run has many of, and no size stands for."""
BEYOND = {
    "score": "A score's tensors are over the sets of its header. What comes with each of them, as labels do, is given"
    " over the batch: input y[batch].",
    "layer": "A layer's tensors are over nodes, edges and their types.",
    "op": "An op's tensors are over what its lists have: rows, and entries or nonzeros.",
}
"""Where that belongs, by the kind of definition."""


def declare_tensors(
    definition: syntax.Definition, scope: dict[str, Entity | None], elaborator: Elaborator
) -> tuple[Tensor, ...]:
    """The tensors of a definition, which are put into its scope; a wrong one becomes None there."""
    tensors: list[Tensor] = []
    indexed = indexed_by(definition)
    for statement in definition.statements:
        if isinstance(statement, syntax.Declarations):
            for declaration in statement.tensors:
                name = declaration.name.text
                if not _check_name(declaration, scope, elaborator):
                    scope.setdefault(name, None)
                    continue
                tensor = _tensor(declaration, elaborator, definition, indexed.get(name, 0))
                scope[name] = Table(tensor, declaration) if tensor else None
                tensors += [tensor] if tensor else []
    return tuple(tensors)


def _check_name(declaration: syntax.Declaration, scope: dict[str, Entity | None], elaborator: Elaborator) -> bool:
    """Whether the tensor's name is free."""
    name = declaration.name.text
    bound = scope.get(name)
    taken = ""
    if isinstance(bound, Table):
        taken = f"is declared in line {bound.declaration.extent.line} already"
    elif isinstance(bound, Index):
        taken = "is an index of the definition"
    elif elaborator.is_size(name):
        taken = "is a size"
    elif name in elaborator.sets:
        taken = "is an index set"
    elif reserved := why_reserved(name, elaborator.structure):
        taken = reserved
    elif builtin(name):
        taken = "is a built-in function"
    if taken:
        elaborator.collector.report(f"'{name}' {taken}: choose another name", declaration.name.extent)
    return not taken


def _tensor(
    declaration: syntax.Declaration, elaborator: Elaborator, definition: syntax.Definition, indexed: int
) -> Tensor | None:
    """The tensor with its index sets and then its dimensions; the body indexes it by so many indices."""
    sets: list[str] = []
    dims: list[Extent] = []
    complete = True
    for place, node in enumerate(declaration.extents):
        if isinstance(node, syntax.Name) and node.text in elaborator.sets:
            if dims:
                message = f"index sets come first: '{node.text}' stands behind a dimension"
                elaborator.collector.report(message, node.extent)
                complete = False
            sets.append(node.text)
            continue
        extent = _extent(node, elaborator, definition, place < indexed)
        complete = complete and extent is not None
        dims += [extent] if extent is not None else []
    if len(dims) > MOST_DIMENSIONS:
        message = f"a row has at most {MOST_DIMENSIONS} dimensions; these would have {len(dims)}"
        elaborator.collector.report(message, declaration.extent)
        complete = False
    if BATCH in sets and (declaration.kind != "input" or sets != [BATCH]):
        message = "what comes with each fact of a batch is given, one row a fact"
        shown = ", ".join([BATCH, *map(str, dims)])
        detail = f"input {declaration.name.text}[{shown}]"
        elaborator.collector.report(f"{message}: {detail}", declaration.extent)
        complete = False
    storage = _storage(declaration, elaborator)
    if not complete or not storage:
        return None
    return Tensor(
        origin=(declaration.extent,),
        name=declaration.name.text,
        sets=tuple(sets),
        dims=tuple(dims) if declaration.extents else (1,),  # a number of its own is an array of one element
        kind=declaration.kind,
        storage=storage,
    )


def _storage(declaration: syntax.Declaration, elaborator: Elaborator) -> str:
    """What the tensor's elements are stored in; "" where they cannot be, which is reported."""
    word = declaration.storage
    if word is None:
        return "f32"
    storage = ALIASES.get(word.text, word.text)
    if storage not in STORAGES:
        hint, fixes = suggestion(word.text, word.extent, (*STORAGES, *ALIASES))
        known = ", ".join(f"{name} ({stored.about})" for name, stored in STORAGES.items())
        elaborator.collector.report(
            f"elements are not stored as '{word.text}'{hint}", word.extent, f"They are stored as {known}.", fixes
        )
        return ""
    if declaration.kind == "param" and storage not in LEARNT:
        name = declaration.name.text
        elaborator.collector.report(
            f"'{name}' cannot be learnt: {storage} holds whole numbers, and an optimiser's steps are none",
            word.extent,
            f"Declare it as input, and what its rows mean beside it: scale[i] * {name}[i] + bias[i], where"
            " scale and bias may be learnt.",
        )
        return ""
    return storage


def indexed_by(definition: syntax.Definition) -> dict[str, int]:
    """By how many indices a body indexes each name, `T[i]` or `n.x`: so many of a tensor's extents are meant as index
    sets."""
    counts: dict[str, int] = {}
    for statement in syntax.walk_statements(definition.statements):
        for node in (part for root in syntax.expressions_of(statement) for part in syntax.walk_expression(root)):
            match node:
                case syntax.Index(base=syntax.Name(text=base), indices=indices):
                    counts[base] = max(counts.get(base, 0), len(indices))
                case syntax.Attribute(name=syntax.Name(text=read)):
                    counts[read] = max(counts.get(read, 0), 1)
    return counts


def _extent(
    node: syntax.Expression, elaborator: Elaborator, definition: syntax.Definition, is_set: bool
) -> Extent | None:
    """A dimension: a size by name, or a number made of sizes and numbers; `is_set` where the body indexes by it."""
    if isinstance(node, syntax.Name) and not elaborator.is_size(node.text):
        if not elaborator.is_broken(node.text):
            _report_unknown_extent(node, elaborator, definition, is_set)
        return None
    if isinstance(node, syntax.Name):
        return node.text
    number = elaborator.whole(node, "a dimension")
    if number is not None and not 1 <= number <= LARGEST_EXTENT:
        message = f"a dimension is from 1 to {LARGEST_EXTENT:,}, not {number:,}"
        elaborator.collector.report(message, node.extent)
        return None
    return number


def _report_unknown_extent(
    node: syntax.Name, elaborator: Elaborator, definition: syntax.Definition, is_set: bool
) -> None:
    """About an extent that is no size and no index set; before the header, new sizes are declared, where one is meant.

    What stands for a batch's triples, or is indexed, is no size: one of 64 would be a table that all rows share. A
    header with an id that has no set has been told of, and may mean this one."""
    if is_set and definition.kind == "score" and any(each.annotation is None for each in definition.parameters):
        return
    sets = elaborator.sets if is_set else (*elaborator.operations.shapes.sizes, *elaborator.sets)
    hint, fixes = suggestion(node.text, node.extent, sets)
    detail = ""
    meant = as_map(elaborator.text, definition, node) if is_set and not hint else []
    if meant:
        detail, fixes = "What a tensor is indexed by are ids, which a map has.", tuple(meant)
    elif not hint and node.text.lower() in OF_A_RUN:
        detail = BEYOND.get(definition.kind, "")
    elif not hint and (is_set or node.text in INDEX_SETS):
        known = ", ".join(elaborator.sets)
        detail = f"What a tensor is indexed by is an index set of this {definition.kind}: {known}."
    elif not hint:
        size, line = f"dim {node.text} = 64", definition.header.line
        detail = "A size is declared before the definitions."
        fixes = (Fix(f"Declare {size}", Span(line, 1, line, 1), f"{size}\n"),)
    elaborator.collector.report(f"unknown size or index set '{node.text}'{hint}", node.extent, detail, fixes)
