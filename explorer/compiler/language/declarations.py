"""`param` and `input`: the tensors that a definition reads."""

from __future__ import annotations

from explorer.compiler.ir.graph import Tensor
from explorer.compiler.ir.index_sets import count_name
from explorer.compiler.ir.node import Extent, Span
from explorer.compiler.language import syntax
from explorer.compiler.language.builtins import builtin
from explorer.compiler.language.diagnostics import Fix, suggestion
from explorer.compiler.language.elaborate import Elaborator
from explorer.compiler.language.entities import Entity, Index, Table
from explorer.compiler.language.shapes import LARGEST_EXTENT
from explorer.compiler.language.structures import GRAPH, TRIPLES, Structure

_PAIRS = tuple(f"{end}_pair{of}" for end in ("src", "dst") for of in ("", "_node", "_etype"))
_GIVEN = {
    "graph": ("num_nodes", "num_etypes", "num_ntypes", "in_degree", "src_pairs", "dst_pairs"),
    "bags": ("ptr", "weight"),
    "blocks": ("ptr", "blocks"),
    "csr": ("rowptr", "value", "num_rows", "num_cols"),
    "coo": ("rowptr", "value", "num_rows", "num_cols"),
}
"""What a run gives beside the maps, by the kind of structure."""
UPSTREAM = "upstream"


def reserved_names(structure: Structure) -> frozenset[str]:
    """Names under which a run gives the structure: its maps with their encodings, its sizes, and gradients."""
    if structure is TRIPLES:
        return frozenset()
    maps = (*structure.maps, *(_PAIRS if structure is GRAPH else ()))
    arrays = [f"{name}{array}" for name in maps for array in ("", "_ptr", "_order")]
    counts = [str(count_name(index_set)) for index_set in structure.sets]
    return frozenset([*arrays, *counts, *_GIVEN[structure.kind], UPSTREAM])


def why_reserved(name: str, structure: Structure) -> str:
    """What a name is that a run needs, "" where it is free."""
    if name not in reserved_names(structure):
        return ""
    return "is what the gradient of the result is called" if name == UPSTREAM else f"is a part of {structure.owner}"


def declare_tensors(
    definition: syntax.Definition, scope: dict[str, Entity | None], elaborator: Elaborator
) -> tuple[Tensor, ...]:
    """The tensors of a definition, which are put into its scope; a wrong one becomes None there."""
    tensors: list[Tensor] = []
    for statement in definition.statements:
        if isinstance(statement, syntax.Declarations):
            for declaration in statement.tensors:
                name = declaration.name.text
                if not _check_name(declaration, scope, elaborator):
                    scope.setdefault(name, None)
                    continue
                tensor = _tensor(declaration, elaborator, definition.header)
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


def _tensor(declaration: syntax.Declaration, elaborator: Elaborator, header: Span) -> Tensor | None:
    """The tensor with its index sets and then its dimensions."""
    sets: list[str] = []
    dims: list[Extent] = []
    complete = True
    for node in declaration.extents:
        if isinstance(node, syntax.Name) and node.text in elaborator.sets:
            if dims:
                message = f"index sets come first: '{node.text}' stands behind a dimension"
                elaborator.collector.report(message, node.extent)
                complete = False
            sets.append(node.text)
            continue
        extent = _extent(node, elaborator, header)
        complete = complete and extent is not None
        dims += [extent] if extent is not None else []
    if not complete:
        return None
    return Tensor(
        origin=(declaration.extent,),
        name=declaration.name.text,
        sets=tuple(sets),
        dims=tuple(dims),
        kind=declaration.kind,
    )


def _extent(node: syntax.Expression, elaborator: Elaborator, header: Span) -> Extent | None:
    """A dimension: a size by name, or a number made of sizes and numbers; before the header, new sizes are declared."""
    if isinstance(node, syntax.Name) and not elaborator.is_size(node.text):
        if not elaborator.is_broken(node.text):
            candidates = (*elaborator.operations.shapes.sizes, *elaborator.sets)
            hint, fixes = suggestion(node.text, node.extent, candidates)
            detail = ""
            if not hint:
                size = f"dim {node.text} = 64"
                detail = "A size is declared before the definitions."
                fixes = (Fix(f"Declare {size}", Span(header.line, 1, header.line, 1), f"{size}\n"),)
            message = f"unknown size or index set '{node.text}'{hint}"
            elaborator.collector.report(message, node.extent, detail, fixes)
        return None
    if isinstance(node, syntax.Name):
        return node.text
    number = elaborator.whole(node, "a dimension")
    if number is not None and not 1 <= number <= LARGEST_EXTENT:
        message = f"a dimension is from 1 to {LARGEST_EXTENT:,}, not {number:,}"
        elaborator.collector.report(message, node.extent)
        return None
    return number
