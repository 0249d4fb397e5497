"""What stands behind a value or a tensor: `E[h]`, `x[a:b]` and `x.T`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.compiler.ir import graph as ir
from explorer.compiler.language.diagnostics import Fix, slice_text, with_article
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.names.entities import Constant, DataName, Entity, Index, Row, StructureArgument, Table
from explorer.compiler.language.names.shapes import show
from explorer.compiler.language.parsing import syntax

if TYPE_CHECKING:
    from explorer.compiler.language.elaborate.elaborate import Elaborator


def take_rows(elaborator: Elaborator, node: syntax.Index, base: Entity | None) -> Row | Constant | None:
    indices = [elaborator.expression(index) for index in node.indices]
    if base is None or any(index is None for index in indices):
        return None
    text = slice_text(elaborator.text, node.base.extent)
    if isinstance(base, Index) and len(indices) == 1 and isinstance(indices[0], DataName):
        return elaborator.loops.elements.read(base, indices[0].text, node.extent, node.indices[0].extent)
    if not isinstance(base, Table):
        kind, detail = "a value, already taken for each row", "A value is sliced as in x[0:2]."
        if isinstance(base, StructureArgument):
            kind, detail = base.structure.owner, f"A reduction goes over {base.structure.reduced}."
        elif isinstance(base, Index):
            kind = "an index"
        elaborator.collector.report(f"'{text}' is {kind}, and only tensors are indexed", node.extent, detail)
        return None
    if not base.tensor.sets:
        detail = f"It is declared in line {base.declaration.extent.line} without an index set."
        sets = [index.index_set for index in indices if isinstance(index, Index)]
        fixes = _declaring_fixes(elaborator, base, sets) if len(sets) == len(indices) else []
        elaborator.collector.report(f"{text} is the same for every row and takes no index", node.extent, detail, fixes)
        return None
    maps = _check_indices(elaborator, node, base, indices)
    if maps is None:
        return None
    site = OperationSite(slice_text(elaborator.text, node.extent), node.extent, node.extent)
    return elaborator.operations.gather(site, base, maps)


def _declaring_fixes(elaborator: Elaborator, base: Table, sets: list[str]) -> list[Fix]:
    """To declare a tensor with the index sets that it is indexed by."""
    dims = [slice_text(elaborator.text, extent.extent) for extent in base.declaration.extents]
    declared = f"{base.declaration.name.text}[{', '.join([*sets, *dims])}]"
    return [Fix(f"Declare {declared}", base.declaration.extent, declared)]


def _check_indices(
    elaborator: Elaborator, node: syntax.Index, base: Table, indices: list[Entity | None]
) -> tuple[Index, ...] | None:
    """The maps that pick the rows, if they are as many as the tensor's index sets and of these sets."""
    sets, name = base.tensor.sets, base.tensor.name
    if len(indices) != len(sets):
        wanted = " and ".join(with_article(entry) for entry in sets)
        elaborator.collector.report(f"{name} is indexed by {wanted}: {len(sets)} in all, not {len(indices)}", node.span)
        return None
    maps: list[Index] = []
    for expression, index, index_set in zip(node.indices, indices, sets, strict=True):
        if not isinstance(index, Index):
            text = slice_text(elaborator.text, expression.extent)
            elaborator.collector.report(
                f"{name} is indexed by {index_set}, but '{text}' is not an index",
                expression.extent,
                f"The indices are {', '.join(index.text for index in elaborator.indices())}.",
            )
        elif index.member and index_set == elaborator.structure.member:
            maps.append(Index(index_set, index_set, index_set, index.text))
        elif index.index_set != index_set:
            _report_wrong_set(elaborator, node, expression, base, index, index_set)
        else:
            maps.append(index)
    return tuple(maps) if len(maps) == len(sets) else None


def _report_wrong_set(
    elaborator: Elaborator, node: syntax.Index, place: syntax.Expression, base: Table, index: Index, index_set: str
) -> None:
    # An op names its own sets: what is wrong may as well be its header, and another index makes another model.
    indices = elaborator.indices() if elaborator.family != "op" else []
    right = [other.text for other in indices if other.index_set == index_set]
    name = base.tensor.name
    text = slice_text(elaborator.text, place.extent)
    label = f"Use {name}[{{}}]" if len(node.indices) == 1 else "Use {}"
    elaborator.collector.report(
        f"{name} is indexed by {index_set}, but {text} is {with_article(index.index_set)}",
        node.extent if len(node.indices) == 1 else place.extent,
        f"{name} is declared in line {base.declaration.extent.line}.",
        [Fix(label.format(other), place.extent, other) for other in dict.fromkeys(right)],
    )


def take_slice(elaborator: Elaborator, node: syntax.Slice, base: Entity | None) -> Row | None:
    bounds = [_bound(elaborator, node.start), _bound(elaborator, node.stop)]
    value = elaborator.value(node.base, base)
    if value is None or None in bounds:
        return None
    if isinstance(value, Constant) or not value.shape:
        elaborator.collector.report("a number has no dimension to slice", node.extent)
        return None
    size = elaborator.operations.shapes.size(value.shape[-1])
    start, stop, _ = slice(bounds[0] or 0, size if node.stop is None else bounds[1]).indices(size)
    if stop <= start:
        detail = f"The last dimension has {size} elements; this takes {start}:{stop}."
        elaborator.collector.report("this slice is empty", node.span, detail)
        return None
    site = OperationSite(slice_text(elaborator.text, node.span), node.span, node.extent)
    extent = value.shape[-1] if stop - start == size else stop - start
    operator = ir.Slice(origin=(node.span,), operand=value.name, start=start, stop=stop)
    return elaborator.operations.builder.emit(site, operator, (*value.shape[:-1], extent), value.depends, value.lines)


def _bound(elaborator: Elaborator, node: syntax.Expression | None) -> int | None:
    """A bound as a number; an omitted one counts as 0, a wrong one is reported."""
    return 0 if node is None else elaborator.whole(node, "a bound of a slice")


def take_attribute(elaborator: Elaborator, node: syntax.Attribute, base: Entity | None) -> Entity | None:
    if isinstance(base, Index) and elaborator.family != "score":
        return elaborator.loops.elements.attribute(base, node)
    if base is None and elaborator.family != "score":
        return None
    if node.name.text != "T":
        elaborator.collector.report(f"a value has no '.{node.name.text}': there is '.T', the transpose", node.span)
        return None
    if isinstance(base, Table) and base.tensor.sets and isinstance(node.base, syntax.Name):
        name, maps = base.tensor.name, elaborator.maps_for(base.tensor.sets) or "..."
        elaborator.collector.report(
            f"'{name}' is transposed row by row: {name}[{maps}].T",
            node.extent,
        )
        return None
    value = elaborator.value(node.base, base)
    if value is None:
        return None
    if isinstance(value, Constant) or len(value.shape) < 2:
        shape = show(() if isinstance(value, Constant) else value.shape)
        elaborator.collector.report(f"'.T' needs two dimensions, but the value is {shape}", node.span)
        return None
    return elaborator.operations.transpose(OperationSite(".T", node.span, node.extent), value)
