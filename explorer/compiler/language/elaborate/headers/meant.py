"""Maps that a text means and does not declare: the changes that declare them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import Fix, joined_fix, slice_text
from explorer.compiler.language.elaborate.unknown import behind, ends_openly
from explorer.compiler.language.names.structures import BATCH
from explorer.compiler.language.parsing import syntax


def declaring_map(
    text: str, definition: syntax.Definition, name: str, domain: str, known: Collection[tuple[str, str]]
) -> list[Fix]:
    """To declare the map that `e.name` is read as where it indexes a tensor, `h[e.rev]`: it leads to the set that the
    tensor is over. None where it indexes none, or several sets, or where a known map leads there, which is meant then.
    """
    extents = {each.name.text: each.extents for _, each in _declared(definition)}
    found = {
        extent.text
        for node in _indexed(definition)
        if isinstance(node.base, syntax.Name)
        for extent, index in zip(extents.get(node.base.text, ()), node.indices, strict=False)
        if isinstance(index, syntax.Attribute) and index.name.text == name and isinstance(extent, syntax.Name)
    }
    declarations = [statement for statement, _ in _declared(definition)]
    if len(found) != 1 or not declarations or any((domain, each) in known for each in found):
        return []
    declared, last = f"map {name}: {domain} -> {found.pop()}", declarations[-1].tensors[-1]
    line = last.extent.end_line
    indent = " " * (_beginning(text, declarations[-1]).column - 1)
    if line == definition.header.line:
        return []
    return [Fix(f"Declare {declared}", Span(line + 1, 1, line + 1, 1), f"{indent}{declared}\n")]


def as_map(text: str, definition: syntax.Definition, extent: syntax.Name) -> list[Fix]:
    """To give ids as a map that are declared as an input, where a tensor over the unknown set `extent` is indexed by
    them: `T[when]` with `input when[batch]` by one more id of the score, `Q[q[i]]` with `input q[row]` by a map."""
    for node in _indexed(definition):
        place = _place(definition, node, extent)
        index = node.indices[place] if place is not None and place < len(node.indices) else None
        name = index if isinstance(index, syntax.Name) else index.base if isinstance(index, syntax.Index) else None
        for statement, tensor in _declared(definition):
            over = tensor.extents[0] if len(tensor.extents) == 1 else None
            given = tensor.kind == "input" and tensor.storage is None and isinstance(over, syntax.Name)
            if not isinstance(name, syntax.Name) or tensor.name.text != name.text or not given:
                continue
            assert isinstance(over, syntax.Name)
            if definition.kind == "score" and over.text == BATCH:
                return _as_id(text, definition, statement, tensor, extent.text)
            if isinstance(index, syntax.Index):
                return _as_declared(text, definition, statement, tensor, f"{over.text} -> {extent.text}")
    return []


def _as_id(
    text: str,
    definition: syntax.Definition,
    statement: syntax.Declarations,
    tensor: syntax.Declaration,
    index_set: str,
) -> list[Fix]:
    brackets, added = definition.parameters_extent, f"{tensor.name.text}: {index_set}"
    if ends_openly(text, brackets):
        return []
    edits = [behind(brackets, added, bool(definition.parameters)), _without(text, statement, tensor, [])]
    return [joined_fix(f"Write {added}", text, edits)]


def _as_declared(
    text: str, definition: syntax.Definition, statement: syntax.Declarations, tensor: syntax.Declaration, leads: str
) -> list[Fix]:
    name = tensor.name.text
    uses = [node for node in _indexed(definition) if isinstance(node.base, syntax.Name) and node.base.text == name]
    if any(len(node.indices) != 1 for node in uses):
        return []
    edits = [(node.extent, f"{slice_text(text, node.indices[0].extent)}.{name}") for node in uses]
    declared = f"map {name}: {leads}"
    return [joined_fix(f"Declare {declared}", text, [*edits, _without(text, statement, tensor, [declared])])]


def _without(
    text: str, statement: syntax.Declarations, tensor: syntax.Declaration, instead: list[str]
) -> tuple[Span, str]:
    """The change of a line of declarations to one without a tensor, with other lines in its place."""
    begin, last = _beginning(text, statement), statement.tensors[-1]
    others = [slice_text(text, each.extent) for each in statement.tensors if each is not tensor]
    lines = [*instead, *([f"{tensor.kind} {', '.join(others)}"] if others else [])]
    if lines:
        indent = "\n" + " " * (begin.column - 1)
        return Span(begin.line, begin.column, last.extent.end_line, last.extent.end_column), indent.join(lines)
    return Span(begin.line, 1, last.extent.end_line + 1, 1), ""


def _beginning(text: str, statement: syntax.Declarations) -> Span:
    """Where a line of declarations begins, at its first word."""
    line = statement.tensors[0].extent.line
    written = text.split("\n")[line - 1]
    column = len(written) - len(written.lstrip()) + 1
    return Span(line, column, line, column)


def _place(definition: syntax.Definition, node: syntax.Index, extent: syntax.Name) -> int | None:
    """At which index a tensor is indexed by the set that stands there among its extents."""
    for _, tensor in _declared(definition):
        if isinstance(node.base, syntax.Name) and tensor.name.text == node.base.text:
            places = [at for at, each in enumerate(tensor.extents) if each is extent or each == extent]
            return places[0] if places else None
    return None


def _declared(definition: syntax.Definition) -> Iterator[tuple[syntax.Declarations, syntax.Declaration]]:
    for statement in definition.statements:
        if isinstance(statement, syntax.Declarations):
            yield from ((statement, tensor) for tensor in statement.tensors)


def _indexed(definition: syntax.Definition) -> Iterator[syntax.Index]:
    for statement in syntax.walk_statements(definition.statements):
        for root in syntax.expressions_of(statement):
            yield from (node for node in syntax.walk_expression(root) if isinstance(node, syntax.Index))
