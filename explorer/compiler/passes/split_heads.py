"""Puts the loop over heads around a traversal of edges: each head then has an iteration that is one head's alone.

Attention with heads keeps, for each node, a maximum, a sum and a row for each head, and every edge goes through all
heads. What a head keeps no other head reads, so the heads may be done one by one, and beside each other (loop
interchange); with the head outside, a node's state is scalars and one row, as attention with one head has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.node import Atom, Extent, Names, merge, walk
from explorer.compiler.passes.report import Report
from explorer.compiler.passes.statements import all_names, pure, rename

Body = tuple[loops.Statement, ...]


class _Mixed(Exception):
    """Heads that cannot be told apart; the message is a clause that the user reads."""


@each_program
def split_heads(kernel: loops.Kernel, report: Report) -> loops.Kernel:
    """The kernel with its loop over heads outermost in each iteration, where it has one."""
    if len(kernel.body) != 1 or not isinstance(rows := kernel.body[0], loops.For) or not rows.parallel:
        return kernel
    extent = _heads(kernel, rows)
    if extent is None:
        return kernel
    names = Names(all_names(kernel))
    split = _Split(kernel, extent, names.new("head"), names)
    try:
        body = split.body(rows.body, {})
    except _Mixed as reason:
        report.refused(f"{kernel.name}: heads are done together: {reason}")
        return kernel
    shared = tuple(statement for statement in rows.body if pure(statement))
    own = tuple(statement for statement in body if statement not in shared)
    heads = loops.For(
        variable=split.head, extent=extent, body=own, origin=merge(*(statement.origin for statement in own))
    )
    report.did(f"{kernel.name}: a head at a time, {kernel.size(extent)} of them")
    return replace(kernel, body=(replace(rows, body=(*shared, heads)),))


def _heads(kernel: loops.Kernel, rows: loops.For) -> Extent | None:
    """The extent of the heads: the first of every row that an iteration has beside its one loop over a segment."""
    declared = [statement for statement in rows.body if isinstance(statement, loops.Row)]
    segments = [node for node in walk(rows) if isinstance(node, loops.For) and not _static(kernel, node)]
    if len(segments) != 2 or segments[1] not in rows.body or max((len(row.extents) for row in declared), default=0) < 2:
        return None
    extents = {row.extents[0] for row in declared}
    return extents.pop() if len(extents) == 1 else None


def _static(kernel: loops.Kernel, loop: loops.For) -> bool:
    sizes = dict(kernel.sizes)
    return loop.lower == 0 and (isinstance(loop.extent, int) or loop.extent in sizes)


@dataclass
class _Split:
    """One head's statements; `kept` are the rows of all heads, of which one head has a row or a scalar;
    `places` are indices of columns of all heads."""

    kernel: loops.Kernel
    extent: Extent
    head: str
    names: Names
    kept: dict[str, loops.Row] = field(default_factory=dict)
    places: set[str] = field(default_factory=set)

    def body(self, statements: Body, known: dict[str, str]) -> Body:
        """Statements for one head, with `known` names exchanged; raises _Mixed."""
        result: list[loops.Statement] = []
        for at, statement in enumerate(statements):
            match statement:
                case loops.Row() if self.head not in known.values():
                    self.kept[statement.name] = statement
                    result.append(self._kept(statement, statements[at + 1 :]))
                case loops.For() if self._starts_scalar(statement):
                    pass  # its accumulator starts so
                case loops.For() if self._is_over_heads(statement):
                    result += self.body(statement.body, {**known, statement.variable: self.head})
                case loops.For() if (columns := self._columns(statement)) is not None:
                    result += self._of_columns(statement, columns, known)
                case loops.For():
                    result.append(replace(statement, body=self.body(statement.body, known)))
                case _:
                    result.append(self._one(rename(statement, known)))
        return tuple(result)

    def _kept(self, row: loops.Row, following: Body) -> loops.Statement:
        """A row of all heads as one head has it."""
        if len(row.extents) > 1:
            return replace(row, extents=row.extents[1:])
        for statement in following:
            if isinstance(statement, loops.For) and self._start(statement, row.name) is not None:
                start = self._start(statement, row.name)
                assert start is not None
                return loops.Accumulator(name=row.name, start=start, origin=row.origin)
        raise _Mixed(f"{row.name} starts with different numbers")

    def _start(self, loop: loops.For, row: str) -> float | None:
        """The number that a loop over heads fills a row with."""
        match loop.body:
            case (loops.Store(target=target, indices=(index,), function="copy", operands=(float() as start,)),) if (
                target == row and index == loop.variable
            ):
                return start
        return None

    def _starts_scalar(self, loop: loops.For) -> bool:
        return any(len(row.extents) == 1 and self._start(loop, name) is not None for name, row in self.kept.items())

    def _is_over_heads(self, loop: loops.For) -> bool:
        """Whether a loop's variable is the head in what it accesses of rows."""
        first = {_indices(node)[0] for node in walk(loop) if self._row_of(node) is not None and _indices(node)}
        return loop.variable in first and (loop.lower, loop.extent) == (0, self.extent)

    def _row_of(self, node: object) -> str | None:
        """The row of all heads that a statement accesses."""
        match node:
            case loops.Load(buffer=name) | loops.Store(target=name) | loops.Accumulate(target=name):
                return name if name in self.kept else None
        return None

    def _columns(self, loop: loops.For) -> tuple[str, str, int] | None:
        """Of `for i in 0..H * D { d = i % D; h = i // D; ... }`, d, h and D."""
        match loop.body:
            case (
                loops.Index(result=column, function="mod", operands=(first, int() as width)),
                loops.Index(result=head, function="div", operands=(second, int() as divisor)),
                *_,
            ) if first == second == loop.variable and width == divisor:
                size = self.kernel.size(self.extent) * width
                return (column, head, width) if self.kernel.size(loop.extent) == size else None
        return None

    def _of_columns(self, loop: loops.For, columns: tuple[str, str, int], known: dict[str, str]) -> Body:
        """A loop over the columns of all heads, as one over those of a head."""
        column, head, width = columns
        base = self.names.new("base")
        self.places.add(loop.variable)
        start = loops.Index(result=base, function="mul", operands=(self.head, width), origin=loop.origin)
        place = loops.Index(result=loop.variable, function="add", operands=(base, column), origin=loop.origin)
        body = self.body(loop.body[2:], {**known, head: self.head})
        return (start, replace(loop, variable=column, extent=width, body=(place, *body)))

    def _one(self, statement: loops.Statement) -> loops.Statement:
        """A statement that is no loop, for one head."""
        row = self._row_of(statement)
        arrays = {buffer.name for buffer in self.kernel.buffers}
        stores = isinstance(statement, loops.Accumulate | loops.Store) and statement.target in arrays
        if stores and not {self.head, *self.places} & set(_indices(statement)):
            raise _Mixed(f"all would do {loops.print_statement(statement)}")
        if row is None:
            return statement
        first, *others = _indices(statement)
        if first != self.head:
            raise _Mixed(f"{loops.print_statement(statement)} is of another head")
        match statement:
            case loops.Load() if not others:
                return loops.Compute(
                    result=statement.result, function="copy", operands=(statement.buffer,), origin=statement.origin
                )
            case loops.Load() | loops.Accumulate():
                return replace(statement, indices=tuple(others))
            case loops.Store() if others:
                return replace(statement, indices=tuple(others))
        raise _Mixed(f"{loops.print_statement(statement)} stores a scalar")


def _indices(node: object) -> tuple[Atom, ...]:
    return node.indices if isinstance(node, loops.Load | loops.Store | loops.Accumulate) else ()
