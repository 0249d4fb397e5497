"""What stands behind a value or a tensor: `E[h]`, `x[a:b]` and `x.T`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.compiler.ir import graph as ir
from explorer.compiler.language.diagnostics import Fix, slice_text, with_article
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.elaborate.values.arrange import LARGEST_MADE, Arranging
from explorer.compiler.language.elaborate.values.computed_ids import leading, why_no_row
from explorer.compiler.language.names.entities import (
    Constant,
    DataName,
    Entity,
    Index,
    Members,
    Row,
    StructureArgument,
    Table,
)
from explorer.compiler.language.names.shapes import show
from explorer.compiler.language.parsing import syntax

if TYPE_CHECKING:
    from explorer.compiler.language.elaborate.elaborate import Elaborator


def take_rows(elaborator: Elaborator, node: syntax.Index, base: Entity | None) -> Row | Constant | None:
    indices = [elaborator.expression(index) for index in node.indices]
    if base is None or any(index is None for index in indices):
        return None
    text = slice_text(elaborator.text, node.base.extent)
    places = _trailing_numbers(base, indices)
    if places:
        return _take_elements(elaborator, node, base, indices, places)
    if isinstance(base, Index) and len(indices) == 1 and isinstance(indices[0], DataName):
        return elaborator.loops.elements.read(base, indices[0].text, node.extent, node.indices[0].extent)
    if not isinstance(base, Table):
        kind = "a value, already taken for each row"
        detail = "An element of a value has a number that is known before the run, as in x[2], or x[k] with k in 0..K."
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


def _trailing_numbers(base: Entity | None, indices: list[Entity | None]) -> int:
    """How many indices, behind those of a tensor's sets, are numbers: elements of a row's first dimensions."""
    rows = len(base.tensor.sets) if isinstance(base, Table) else 0
    behind = indices[rows:] if isinstance(base, (Table, Row)) else []
    return len(behind) if all(isinstance(index, Constant) for index in behind) else 0


def _take_elements(
    elaborator: Elaborator, node: syntax.Index, base: Entity | None, indices: list[Entity | None], count: int
) -> Row | None:
    """`W[2]`, `E[h][0]`, `E[h, 0]`: elements of the first dimensions, by numbers that are known before the run."""
    rows = len(indices) - count
    if isinstance(base, Table) and rows:
        taken = replace(node, indices=node.indices[:rows])
        maps = _check_indices(elaborator, taken, base, indices[:rows])
        if maps is None:
            return None
        site = OperationSite(slice_text(elaborator.text, node.extent), node.extent, node.extent)
        value: Row | Constant | None = elaborator.operations.gather(site, base, maps)
    else:
        value = elaborator.value(node.base, base)
    if not isinstance(value, Row):
        return None
    places = _places(elaborator, node, value, rows, indices[rows:])
    if places is None:
        return None
    site = OperationSite(slice_text(elaborator.text, node.span), node.span, node.extent)
    return Arranging(elaborator.operations, site).element(value, places)


def _places(
    elaborator: Elaborator, node: syntax.Index, value: Row, rows: int, indices: list[Entity | None]
) -> list[int] | None:
    """The places that numbers name, from the front; None where there is none, which is reported."""
    shapes, found = elaborator.operations.shapes, []
    text = slice_text(elaborator.text, node.base.extent)
    if len(indices) > len(value.shape):
        what = f"{text} is a number" if not value.shape else f"{text} is {show(value.shape)}"
        elaborator.collector.report(f"{what}: it has no element by {len(indices)} numbers", node.extent)
        return None
    for expression, index, extent in zip(node.indices[rows:], indices, value.shape, strict=False):
        assert isinstance(index, Constant)
        size = shapes.size(extent)
        if not isinstance(index.value, int):
            elaborator.collector.report("the number of an element is a whole number", expression.extent)
            return None
        if not -size <= index.value < size:
            message = f"there is no element {index.value} of {size}: the numbers are 0 to {size - 1}"
            elaborator.collector.report(message, expression.extent, f"{text} is {show(value.shape)}.")
            return None
        found.append(index.value % size)
    return found


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
            detail = f"The indices are {', '.join(index.text for index in elaborator.indices())}."
            if isinstance(index, Members):
                detail = f"A reduction goes over {text}: sum({name}[k] for k in {text})."
            message = f"{name} is indexed by {index_set}, but '{text}' is not an index"
            elaborator.collector.report(message, expression.extent, detail)
        elif index.computed:
            message, detail = why_no_row(index)
            found = None if message else leading(elaborator, index, index_set)
            if found is None and not message:
                message = f"{name} has a row for each {index_set}, and '{index.text}' is of a set of its own"
                detail = f"A tensor over another name makes it a set: param {name}[part, ...]."
            if message:
                elaborator.collector.report(message, expression.extent, detail)
            maps += [found] if found is not None else []
        elif index.member and index_set == index.domain:
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
        f"{name} is indexed by {index_set}, but {text} is {elaborator.structure.called(index.index_set)}",
        node.extent if len(node.indices) == 1 else place.extent,
        f"{name} is declared in line {base.declaration.extent.line}{_whose(elaborator, index_set)}.",
        [Fix(label.format(other), place.extent, other) for other in dict.fromkeys(right)],
    )


def _whose(elaborator: Elaborator, index_set: str) -> str:
    """What a tensor has rows for, where there are several graphs and edges of each."""
    called = elaborator.structure.called(index_set)
    return "" if called == with_article(index_set) else f", with a row for each that is {called}"


def take_slice(elaborator: Elaborator, node: syntax.Slice, base: Entity | None) -> Row | None:
    bounds = [
        None if bound is None else elaborator.whole(bound, "a bound of a slice")
        for bound in (node.start, node.stop, node.step)
    ]
    value = elaborator.value(node.base, base)
    given = [bound for bound in (node.start, node.stop, node.step) if bound is not None]
    if value is None or sum(bound is not None for bound in bounds) < len(given):
        return None
    if isinstance(value, Constant) or not value.shape:
        elaborator.collector.report("a number has no dimension to slice", node.extent)
        return None
    if bounds[2] == 0:
        elaborator.collector.report("the step of a slice is not 0", node.span)
        return None
    size = elaborator.operations.shapes.size(value.shape[-1])
    taken = range(*slice(*bounds).indices(size))
    if not taken:
        detail = f"The last dimension has {size} elements; this takes {taken.start}:{taken.stop}."
        elaborator.collector.report("this slice is empty", node.span, detail)
        return None
    site = OperationSite(slice_text(elaborator.text, node.span), node.span, node.extent)
    if taken.step != 1:
        arranging = Arranging(elaborator.operations, site)
        made = arranging.made_turning(value, taken)
        if made > LARGEST_MADE:
            message = f"'{site.label}' would make {made:,} elements of a row: {LARGEST_MADE:,} are the most"
            elaborator.collector.report(message, node.span)
            return None
        return arranging.stepped(value, taken)
    extent = value.shape[-1] if len(taken) == size else len(taken)
    operator = ir.Slice(origin=(node.span,), operand=value.name, start=taken.start, stop=taken.stop)
    return elaborator.operations.builder.emit(site, operator, (*value.shape[:-1], extent), value.depends, value.lines)


def take_attribute(elaborator: Elaborator, node: syntax.Attribute, base: Entity | None) -> Entity | None:
    if isinstance(base, Index) and base.computed:
        elaborator.collector.report(f"'{base.text}' is an index of a set of its own, which has no data", node.extent)
        return None
    if isinstance(base, Index):
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
