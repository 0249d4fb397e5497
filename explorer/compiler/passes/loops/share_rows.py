"""Reads a row of a table once where several loops want it: the first one keeps it, the others work on what was read.

In a loop over a segment, a row that is the same for all elements is read before it (a vertex's own vector), and a row
that two loops of one iteration read is kept by the first (a neighbour's vector: its dot product, then its sum). The
later loops read no table any more: they are what Ember calls workspace loops (§6.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from explorer.compiler.frozen import dataclass, replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.node import Atom, Extent, Names, walk
from explorer.compiler.ir.statements import all_names, read_in
from explorer.compiler.report import Report

TABLES = ("param", "input", "temporary", "upstream")
LARGEST_ROW = 1024
"""Numbers of a row that are kept: the core has them at hand."""

Key = tuple[str, tuple[Atom, ...], tuple[Extent, ...]]
"""A table, which row of it, and the row's extents."""


@each_program
def share_rows(kernel: loops.Kernel, report: Report) -> loops.Kernel:
    """The kernel with rows of tables kept that its loops over segments would read again."""
    walks_lists = any(isinstance(node, loops.For) and _is_segment(node) for node in walk(kernel))
    if not walks_lists and kernel.template != "scatter":
        return kernel
    return replace(kernel, body=_Sharing(kernel, report).body(kernel.body))


def _is_segment(loop: loops.For) -> bool:
    return loop.lower != 0


@dataclass(frozen=True)
class _Read:
    """A load of an element of a row, by the loops over the row; `complete` if they read all of it and nothing else."""

    key: Key
    load: loops.Load
    complete: bool


class _Sharing:
    def __init__(self, kernel: loops.Kernel, report: Report) -> None:
        self.kernel = kernel
        self.report = report
        self.names = Names(all_names(kernel))
        self.tables = {buffer.name for buffer in kernel.buffers if buffer.kind in TABLES}
        self.static = {name for name, _ in kernel.sizes}

    def body(self, statements: tuple[loops.Statement, ...]) -> tuple[loops.Statement, ...]:
        """Statements of one iteration and those below, the outermost places first."""
        found: list[loops.Statement] = []
        for statement in self._kept(statements):
            before, inner = self._read_before(statement)
            found += before
            found.append(replace(inner, body=self.body(inner.body)) if isinstance(inner, loops.For) else inner)
        return tuple(found)

    def _kept(self, statements: tuple[loops.Statement, ...]) -> tuple[loops.Statement, ...]:
        """The statements with rows kept by the first loop that reads them, where a later one reads them too."""
        readers: dict[Key, dict[int, None]] = {}
        for at, statement in enumerate(statements):
            for read in self._reads(statement):
                readers.setdefault(read.key, {})[at] = None
        changed, kept = list(statements), list[loops.Statement]()
        for at in range(len(changed)):
            for read in self._reads(changed[at]):
                later = [place for place in readers[read.key] if place > at] if read.complete else []
                if later:
                    self.report.did(f"{_shown(read.key)} is read once: the first loop keeps it for the later ones")
                    row, changed[at] = self._keep(read, changed[at])
                    kept.append(row)
                    for place in later:
                        changed[place] = self._from_row(changed[place], read.key, row.name)
                    readers[read.key] = {}
            kept.append(changed[at])
        return tuple(kept)

    def _read_before(self, statement: loops.Statement) -> tuple[list[loops.Statement], loops.Statement]:
        """What reads rows in front of a loop over a segment, and the loop without those reads."""
        before: list[loops.Statement] = []
        if not isinstance(statement, loops.For) or not _is_segment(statement):
            return before, statement
        inner: loops.Statement = statement
        for read in self._reads(statement):
            if not any(other.key == read.key for other in self._reads(inner)):
                continue  # with an earlier read of the same row
            row = loops.Row(name=self.names.new("q"), extents=read.key[2], origin=read.load.origin)
            before += [row, self._fill(row.name, read)]
            inner = self._from_row(inner, read.key, row.name)
            self.report.did(f"{_shown(read.key)} is read once, before the loop over {statement.variable}")
        return before, inner

    def _fill(self, row: str, read: _Read) -> loops.Statement:
        """`for d { x = X[v, d]; q[d] = x }`."""
        table, prefix, extents = read.key
        origin = read.load.origin
        variables = tuple(self.names.new(e.lower() if isinstance(e, str) else "i") for e in extents)
        result = self.names.new(table.lower())
        body: tuple[loops.Statement, ...] = (
            loops.Load(result=result, buffer=table, indices=(*prefix, *variables), origin=origin),
            loops.Store(target=row, indices=variables, function="copy", operands=(result,), origin=origin),
        )
        for variable, extent in zip(reversed(variables), reversed(extents), strict=True):
            body = (loops.For(variable=variable, extent=extent, body=body, origin=origin),)
        return body[0]

    def _keep(self, read: _Read, statement: loops.Statement) -> tuple[loops.Row, loops.Statement]:
        """The row, and the loop that keeps in it what it reads."""
        row = loops.Row(name=self.names.new("q"), extents=read.key[2], origin=read.load.origin)
        trailing = read.load.indices[len(read.key[1]) :]
        kept = loops.Store(
            target=row.name,
            indices=trailing,
            function="copy",
            operands=(read.load.result,),
            origin=read.load.origin,
        )
        return row, _followed_by(statement, read.load, kept)

    def _from_row(self, statement: loops.Statement, key: Key, row: str) -> loops.Statement:
        """The statement with its reads of a table's row from the kept one."""
        loads = {id(read.load) for read in self._reads(statement) if read.key == key}
        return _read_from(statement, loads, row, len(key[1]))

    def _reads(self, statement: loops.Statement) -> list[_Read]:
        """The reads of whole rows that are known before the statement, in order."""
        if not isinstance(statement, loops.For) or self.tables.isdisjoint(read_in(statement)):
            return []
        defined = {name for node in walk(statement) if (name := loops.result_of(node)) is not None}
        return [
            read
            for load, around in _loads(statement, ())
            if load.buffer in self.tables and (read := self._read(load, around, defined)) is not None
        ]

    def _read(self, load: loops.Load, around: tuple[loops.For, ...], defined: set[str]) -> _Read | None:
        by_variable = {loop.variable: loop for loop in around if loop.lower == 0 and self._is_static(loop.extent)}
        count = 0
        while count < len(load.indices) and load.indices[-1 - count] in by_variable:
            count += 1
        prefix, trailing = load.indices[: len(load.indices) - count], load.indices[len(load.indices) - count :]
        if not trailing or not prefix or len(set(trailing)) < len(trailing) or defined & set(prefix):
            return None
        extents = tuple(by_variable[str(name)].extent for name in trailing)
        if prod(self.kernel.size(extent) for extent in extents) > LARGEST_ROW:
            return None
        complete = {loop.variable for loop in around} == set(trailing)
        return _Read((load.buffer, prefix, extents), load, complete)

    def _is_static(self, extent: Extent) -> bool:
        return isinstance(extent, int) or extent in self.static


def _loads(loop: loops.For, around: tuple[loops.For, ...]) -> Iterator[tuple[loops.Load, tuple[loops.For, ...]]]:
    """All loads below a loop, each with the loops around it, the outermost first."""
    for statement in loop.body:
        if isinstance(statement, loops.Load):
            yield statement, (*around, loop)
        elif isinstance(statement, loops.For):
            yield from _loads(statement, (*around, loop))


def _followed_by(statement: loops.Statement, load: loops.Load, kept: loops.Statement) -> loops.Statement:
    """The statement with another one behind a load in it."""
    if not isinstance(statement, loops.For):
        return statement
    inside = (_followed_by(inner, load, kept) for inner in statement.body)
    return replace(statement, body=tuple(new for s in inside for new in ((s, kept) if s is load else (s,))))


def _read_from(statement: loops.Statement, loads: set[int], row: str, dropped: int) -> loops.Statement:
    """The statement with some loads, by their `id`, from a row, and without their first indices."""
    if isinstance(statement, loops.For):
        return replace(statement, body=tuple(_read_from(inner, loads, row, dropped) for inner in statement.body))
    if isinstance(statement, loops.Load) and id(statement) in loads:
        return replace(statement, buffer=row, indices=statement.indices[dropped:])
    return statement


def _shown(key: Key) -> str:
    return f"{key[0]}[{', '.join(map(str, key[1]))}, ...]"
