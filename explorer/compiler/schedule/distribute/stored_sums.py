"""Takes a long sum where it is stored at last: `row y; for n { y[f] += v }; for f { out[u, f] = y[f] }` adds to
`out[u, f]` at once, without a kernel that copies."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom
from explorer.compiler.ir.statements import names_read, redirected, written_names
from explorer.compiler.schedule.edit.nests import Body, static_loop


@dataclass(frozen=True)
class _Copy:
    """The statement that copies a sum, and where to: `indices` are, for each of the output's but the first, the place
    among the sum's own that it is, or 0 in dimensions of one element (None)."""

    statement: loops.Statement
    output: str
    indices: tuple[int | None, ...]


def stored_sums(kernel: loops.Kernel, row: str, body: Body, sums: Sequence[loops.Statement]) -> Body:
    """The body of the iteration `row` with what these statements sum only to store it summed in the output itself."""
    outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
    targets = written_names(sums)
    for declared in [s for s in body if isinstance(s, (loops.Row, loops.Accumulator)) and s.name in targets]:
        found = _copy_of(kernel, row, body, declared)
        if found is None or found.output not in outputs:
            continue
        others = [s for s in body if s is not found.statement]
        if found.output in names_read(others) | written_names(others):
            continue
        body = tuple(_into(s, declared.name, found, row) for s in others if s is not declared)
    return body


def _copy_of(kernel: loops.Kernel, row: str, body: Body, declared: loops.Row | loops.Accumulator) -> _Copy | None:
    """The one statement that reads a sum, if all that it does is to store it, all of it."""
    name = declared.name
    names, readers = {name}, list[loops.Statement]()
    for statement in body:
        if name in written_names([statement]) or not names & names_read([statement]):
            continue
        if isinstance(statement, loops.Compute) and statement.function == "copy":
            names.add(statement.result)
        else:
            readers.append(statement)
    sizes = [kernel.size(extent) for extent in declared.extents] if isinstance(declared, loops.Row) else []
    return _nest_of_copy(kernel, row, readers[0], names, sizes) if len(readers) == 1 else None


def _nest_of_copy(
    kernel: loops.Kernel, row: str, statement: loops.Statement, names: set[str], sizes: list[int]
) -> _Copy | None:
    """What a nest of static loops copies, element by element, of a sum of these sizes."""
    extents: dict[Atom, int] = {}
    inner: Body = (statement,)
    while len(inner) == 1 and isinstance(loop := inner[0], loops.For) and static_loop(kernel, loop):
        extents[loop.variable] = kernel.size(loop.extent)
        inner = loop.body
    *before, store = inner
    if not isinstance(store, loops.Store) or store.function != "copy" or store.indices[:1] != (row,):
        return None
    own: tuple[Atom, ...] = ()
    match before:
        case []:
            read = store.operands[0] in names
        case [loops.Load(buffer=buffer, indices=indices, result=result)]:
            own, read = indices, buffer in names and store.operands == (result,)
        case _:
            return None
    single = {variable for variable, extent in extents.items() if extent == 1} - set(own)
    rest = store.indices[1:]
    if not read or [extents.get(index) for index in own] != sizes or set(rest) - single - {0} != set(own):
        return None
    if len(set(own)) != len(own) or len([index for index in rest if index in own]) != len(own):
        return None
    return _Copy(statement, store.target, tuple(own.index(index) if index in own else None for index in rest))


def _into(statement: loops.Statement, name: str, copy: _Copy, row: str) -> loops.Statement:
    """A statement that adds to the output where it added to the row or accumulator."""

    def place(indices: tuple[Atom, ...]) -> tuple[Atom, ...]:
        return row, *(0 if at is None else indices[at] for at in copy.indices)

    return redirected(statement, {name: copy.output}, place)
