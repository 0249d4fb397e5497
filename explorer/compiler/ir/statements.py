"""Questions and small changes that the passes over loops share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from explorer.compiler.frozen import replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom, Extent, Node, Origin, once, rewrite, serving, walk

AnyStatement = TypeVar("AnyStatement", bound=Node)


def pure(statement: loops.Statement) -> bool:
    """Whether a statement only names a new scalar."""
    return isinstance(statement, (loops.Load, loops.Index, loops.Compute))


def all_names(kernel: loops.Kernel) -> set[str]:
    """Every name that a kernel uses for anything."""
    defined = {name for node in walk(kernel) if (name := loops.result_of(node)) is not None}
    return defined | {b.name for b in kernel.buffers} | loops.fixed_names(kernel.sizes, kernel.buffers)


def written_names(body: Iterable[loops.Statement]) -> set[str]:
    """The rows, accumulators and outputs that statements write, at any depth."""
    return set().union(*map(written_in, body))


@once
def written_in(statement: Node) -> frozenset[str]:
    """The rows, accumulators and outputs that a statement writes, at any depth."""
    return frozenset(node.target for node in walk(statement) if isinstance(node, (loops.Accumulate, loops.Store)))


def rename(statement: loops.Statement, names: Mapping[str, str]) -> loops.Statement:
    """A statement that is no loop, with names exchanged for others."""

    def atoms(values: tuple[Atom, ...]) -> tuple[Atom, ...]:
        return tuple(names.get(value, value) if isinstance(value, str) else value for value in values)

    match statement:
        case loops.Load():
            result = names.get(statement.result, statement.result)
            buffer = names.get(statement.buffer, statement.buffer)
            return replace(statement, result=result, buffer=buffer, indices=atoms(statement.indices))
        case loops.Index() | loops.Compute():
            result = names.get(statement.result, statement.result)
            return replace(statement, result=result, operands=atoms(statement.operands))
        case loops.Accumulate() | loops.Store():
            target = names.get(statement.target, statement.target)
            indices, operands = atoms(statement.indices), atoms(statement.operands)
            return replace(statement, target=target, indices=indices, operands=operands)
    return statement


def renamed(body: Iterable[loops.Statement], names: Mapping[str, str]) -> tuple[loops.Statement, ...]:
    """Statements of any kind with names exchanged for others, also those that they define."""

    def one(statement: loops.Statement) -> loops.Statement:
        match statement:
            case loops.For(variable=variable, lower=lower, extent=extent):
                lower, extent = (
                    names.get(bound, bound) if isinstance(bound, str) else bound for bound in (lower, extent)
                )
                body = renamed(statement.body, names)
                return replace(statement, variable=names.get(variable, variable), lower=lower, extent=extent, body=body)
            case loops.Row() | loops.Accumulator():
                return replace(statement, name=names.get(statement.name, statement.name))
        return rename(statement, names)

    return tuple(map(one, body))


def redirected(
    statement: AnyStatement, to: Mapping[str, str], place: Callable[[tuple[Atom, ...]], tuple[Atom, ...]]
) -> AnyStatement:
    """A statement whose accesses of rows or arrays are of others, `to` by name: at the `place` that is made of their
    indices."""

    def change(node: Node) -> Node:
        match node:
            case loops.Load() if node.buffer in to:
                return replace(node, buffer=to[node.buffer], indices=place(node.indices))
            case loops.Store() | loops.Accumulate() if node.target in to:
                return replace(node, target=to[node.target], indices=place(node.indices))
        return node

    untouched = to.keys().isdisjoint(read_in(statement)) and to.keys().isdisjoint(written_in(statement))
    return statement if untouched else rewrite(statement, change)


def slice_for(candidates: tuple[AnyStatement, ...], readers: Iterable[Node]) -> list[AnyStatement]:
    """The candidates that the readers need, directly or through one another, in order."""
    needed = names_read(readers)
    kept: list[AnyStatement] = []
    for statement in reversed(candidates):
        if loops.result_of(statement) in needed:
            kept.append(statement)
            needed.update(loops.reads_of(statement))
    return kept[::-1]


def names_read(body: Iterable[Node]) -> set[str]:
    """The names that statements read, at any depth."""
    return set().union(*map(read_in, body))


@once
def read_in(statement: Node) -> frozenset[str]:
    """The names that a statement reads, at any depth."""
    return frozenset(name for node in walk(statement) for name in loops.reads_of(node))


def closure(before: Sequence[loops.Statement], needed: Iterable[str | None]) -> tuple[loops.Statement, ...]:
    """The statements that these names need, directly or through one another, in order: what names, and what writes."""
    needed = set(needed)
    kept: list[loops.Statement] = []
    for statement in reversed(before):
        if loops.result_of(statement) in needed or not needed.isdisjoint(written_in(statement)):
            kept.append(statement)
            needed |= read_in(statement)
    return tuple(reversed(kept))


def alive(body: Sequence[loops.Statement]) -> tuple[loops.Statement, ...]:
    """The statements without scalars that nothing reads, and without rows and accumulators that nothing touches."""
    kept: list[loops.Statement] = []
    touched: set[str] = set()
    for statement in reversed(body):
        defines = pure(statement) or isinstance(statement, (loops.Row, loops.Accumulator))
        if not defines or loops.result_of(statement) in touched:
            kept.append(statement)
            touched |= read_in(statement) | written_in(statement)
    return tuple(reversed(kept))


def loop_origin(body: Sequence[Node], extent: Extent, *, rows: bool = False) -> Origin:
    """The origin of a loop (`origin_around`), or of the loop over a kernel's `rows`, whatever leaves that: where more
    than one operation is done for a row, it serves them all."""
    name = f"loop over {extent}"
    return serving(name, "fuse", [s.origin for s in body]) if rows else origin_around(body, name, "fuse")


def origin_around(body: Sequence[Node], name: str, by: str) -> Origin:
    """The origin of what holds some statements: of the operation whose values leave them, where it is one; else what
    the pass `by` made it for."""
    own = {s.name for s in body if isinstance(s, (loops.Row, loops.Accumulator))}
    leaving = (s.origin for s in body if not written_in(s) <= own)
    return serving(name, by, [s.origin for s in body], leaving)


def is_segment(kernel: loops.Kernel, statement: loops.Statement) -> bool:
    """Whether a statement is a loop whose bounds were loaded."""
    return isinstance(statement, loops.For) and any(
        isinstance(bound, str) and bound not in _fixed_names(kernel) for bound in (statement.lower, statement.extent)
    )


def segment_bounds(loop: loops.For, defined: Mapping[str, loops.Statement]) -> tuple[str, Atom] | None:
    """The array of offsets and the row whose segment a loop visits, from `ptr[row]` to `ptr[row + 1]`, as the
    statements say that its bounds are defined by; None where it is no row's."""
    first, last = defined.get(str(loop.lower)), defined.get(str(loop.extent))
    if not isinstance(first, loops.Load) or not isinstance(last, loops.Load) or first.buffer != last.buffer:
        return None
    after = defined.get(str(last.indices[0]))
    if not isinstance(after, loops.Index) or (after.function, after.operands) != ("add", (first.indices[0], 1)):
        return None
    return first.buffer, first.indices[0]


@once
def _fixed_names(kernel: loops.Kernel) -> set[str]:
    return loops.fixed_names(kernel.sizes, kernel.buffers)
