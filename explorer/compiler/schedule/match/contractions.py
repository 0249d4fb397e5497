"""Finds products of rows with a matrix that rows share, wherever in an iteration they are summed.

A contraction is an accumulation `s += u * w` inside loops of known extents. What makes it a product is what its two
operands need, not where its statements stand: `w` needs no row, at most the index of one of few matrices; `u` and `w`
both need a loop that the sum is over, the depth; and `w` needs one that `u` does not, the column. Loops that both need,
or that `u` alone needs, are heads.

    for k { acc s; for d { x = X[b, d]; m = W[d, k]; s += x * m }; ... }      columns outside
    row y; for k { y[k] = 0 }; for d { x = X[b, d]; for k { m = W[d, k]; y[k] += x * m } }     inside, with other code
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom
from explorer.compiler.ir.statements import pure, written_names
from explorer.compiler.schedule.edit.nests import Body, static_loop
from explorer.compiler.schedule.match.matrix_products import LEAST_COLUMNS

LEAST_DEPTH = 8
"""Of a product that is worth a tile."""
SETS_OF_MATRICES = frozenset({"etypes", "ntypes", "relation"})
"""Sets of so few elements that many rows choose the same matrix: types."""


@dataclass(frozen=True)
class Operand:
    """One side of the accumulation: `code` computes it inside the loops, `loops` are the variables of those that it
    needs; `matrices` are the indices, of an iteration's own, of which matrix it is; `of_rows` whether it needs the
    iteration in another way."""

    value: Atom
    code: Body
    loops: frozenset[str]
    matrices: tuple[str, ...]
    of_rows: bool


@dataclass(frozen=True)
class Contraction:
    """`target[...] += factor * matrix` inside the loops `around`, of which the first `outside` are around the target,
    too; `place` is where in the iteration the outermost one stands. A sum that is `constant` is of parameters alone:
    its heads are the loops whose every iteration has a sum of its own. A `small` product is worth no tile."""

    place: int
    around: tuple[loops.For, ...]
    outside: int
    add: loops.Accumulate
    factor: Operand
    matrix: Operand
    heads: tuple[str, ...]
    summed_heads: tuple[str, ...]
    depth: str
    columns: tuple[str, ...]
    constant: bool = False
    small: bool = False

    def loop(self, variable: str) -> loops.For:
        """The loop of a variable."""
        return next(loop for loop in self.around if loop.variable == variable)

    @property
    def summed(self) -> tuple[loops.For, ...]:
        """The loops that a constant is summed over."""
        needed = self.factor.loops | self.matrix.loops
        return tuple(loop for loop in self.around if loop.variable in needed and loop.variable not in self.heads)


def contractions(kernel: loops.Kernel, rows: loops.For) -> Iterator[Contraction]:
    """The products in an iteration of a kernel's parallel loop, in order."""
    buffers, outside = {buffer.name: buffer for buffer in kernel.buffers}, dict[str, loops.Statement]()
    for place, statement in enumerate(rows.body):
        if static_loop(kernel, statement):
            yield from _Search(kernel, rows, place, buffers, outside).found()
        elif not isinstance(statement, loops.For) and (name := loops.result_of(statement)) is not None:
            outside[name] = statement


class _Search:
    """Looks through one statement of an iteration; `outside` are those before it, by what they name."""

    def __init__(
        self,
        kernel: loops.Kernel,
        rows: loops.For,
        place: int,
        buffers: dict[str, loops.Buffer],
        outside: dict[str, loops.Statement],
    ) -> None:
        self.kernel, self.rows, self.place, self.buffers, self.outside = kernel, rows, place, buffers, outside
        self.whole = rows.body[place]
        self.changed = written_names([self.whole])

    def found(self) -> Iterator[Contraction]:
        """The products in the statement."""
        assert isinstance(self.whole, loops.For)
        yield from self._inside(self.whole, (), {})

    def _inside(
        self, loop: loops.For, around: tuple[loops.For, ...], known: dict[str, tuple[int, loops.Statement]]
    ) -> Iterator[Contraction]:
        around, known = (*around, loop), dict(known)
        for statement in loop.body:
            if isinstance(statement, loops.For):
                if static_loop(self.kernel, statement):
                    yield from self._inside(statement, around, known)
                continue
            if isinstance(statement, loops.Accumulate):
                yield from self._at(statement, around, known)
            elif (name := loops.result_of(statement)) is not None:
                known[name] = len(around), statement

    def _at(
        self, add: loops.Accumulate, around: tuple[loops.For, ...], known: dict[str, tuple[int, loops.Statement]]
    ) -> Iterator[Contraction]:
        """The product that an accumulation sums, if it is one."""
        outside = known[add.target][0] if add.target in known else 0
        variables = [loop.variable for loop in around]
        indices = add.indices[1:] if add.target in self.buffers else add.indices
        if add.target in self.buffers and add.indices[:1] != (self.rows.variable,):
            return
        if len(set(indices)) < len(indices) or not set(indices) <= set(variables):
            return
        operands = [self._operand(operand, around, known) for operand in add.operands]
        yield from self._constant(add, around, outside, [operand for operand in operands if operand is not None])
        if (add.reduction, add.function) != ("sum", "mul"):
            return
        for factor, matrix in (operands, operands[::-1]):
            if factor is not None and matrix is not None:
                own = {*variables[:outside], *(str(index) for index in indices)}
                product = self._product(add, around, outside, factor, matrix, own)
                if product is not None:
                    yield product
                    return

    def _constant(
        self, add: loops.Accumulate, around: tuple[loops.For, ...], outside: int, operands: list[Operand]
    ) -> Iterator[Contraction]:
        """The sum as one of parameters alone, if it is one that takes a loop in others."""
        if len(operands) < len(add.operands) or any(o.of_rows or o.matrices for o in operands):
            return
        needed = frozenset[str]().union(*(operand.loops for operand in operands))
        own = {*(loop.variable for loop in around[:outside]), *(str(index) for index in add.indices)}
        heads = tuple(loop.variable for loop in around if loop.variable in own & needed)
        summed = [loop for loop in around if loop.variable not in own]
        if heads and summed and {loop.variable for loop in summed} <= needed and add.target not in self.buffers:
            used = tuple(loop for loop in around if loop.variable in needed)
            yield Contraction(
                self.place, around, outside, add, operands[0], operands[-1], heads, (), used[-1].variable, (), True
            )

    def _product(
        self,
        add: loops.Accumulate,
        around: tuple[loops.For, ...],
        outside: int,
        factor: Operand,
        matrix: Operand,
        own: set[str],
    ) -> Contraction | None:
        """The product of two operands, of which the loops `own` have sums of their own; None where it is none."""
        sizes = {loop.variable: self.kernel.size(loop.extent) for loop in around}
        summed = [name for name in sizes if name not in own]
        if matrix.of_rows or not (factor.of_rows or factor.matrices) or not set(summed) <= factor.loops | matrix.loops:
            return None
        depths = [name for name in summed if name in factor.loops & matrix.loops]
        columns = [name for name in sizes if name in (matrix.loops - factor.loops) & own]
        if not depths or not columns:
            return None
        depth, column = max(depths, key=lambda name: sizes[name]), max(columns, key=lambda name: sizes[name])
        wide = sizes[column] >= LEAST_COLUMNS
        flat = 1
        for name in columns:
            flat *= sizes[name]
        small = sizes[depth] < LEAST_DEPTH or flat < LEAST_COLUMNS
        taken = (self._along(matrix, columns, sizes) or column,) if wide or small else tuple(columns)
        others = (factor.loops | matrix.loops) - {depth, *taken}
        heads = tuple(name for name in sizes if name in others)
        again = tuple(name for name in heads if name in summed)
        return Contraction(self.place, around, outside, add, factor, matrix, heads, again, depth, taken, small=small)

    def _along(self, matrix: Operand, columns: list[str], sizes: dict[str, int]) -> str:
        """The column along which the matrix lies in memory, if that is one worth a tile; else ""."""
        last = matrix.code[-1] if matrix.code else None
        if isinstance(last, loops.Load) and last.indices[-1] in columns:
            name = str(last.indices[-1])
            return name if sizes[name] >= LEAST_COLUMNS else ""
        return ""

    def _operand(
        self, value: Atom, around: tuple[loops.For, ...], known: dict[str, tuple[int, loops.Statement]]
    ) -> Operand | None:
        """What an operand needs; None where that is computed in the loops by more than arithmetic."""
        code: dict[str, loops.Statement] = {}
        needs = _Needs(frozenset(), frozenset(), False)
        pending = [value]
        variables = {loop.variable for loop in around}
        while pending:
            name = pending.pop()
            if not isinstance(name, str) or name in code:
                continue
            if name in variables:
                needs = needs.with_loop(name)
            elif name in known:
                statement = known[name][1]
                if not pure(statement):
                    return None
                code[name] = statement
                read, needs = self._read(statement, needs)
                pending += read
            elif name in self.buffers:
                if name in self.changed:
                    return None
            elif name not in dict(self.kernel.sizes):
                if name in self.changed:
                    return None
                needs = needs.with_row() if self._of_row(name) else needs
        ordered = tuple(statement for _, statement in known.values() if loops.result_of(statement) in code)
        return Operand(value, ordered, needs.loops, tuple(sorted(needs.matrices)), needs.of_rows)

    def _read(self, statement: loops.Statement, needs: _Needs) -> tuple[list[Atom], _Needs]:
        """What a statement reads, less the index of which matrix it is, which is noted."""
        if isinstance(statement, loops.Load) and statement.buffer in self.buffers:
            first, *rest = statement.indices
            shared = self.buffers[statement.buffer].extents[0] in SETS_OF_MATRICES
            if shared and isinstance(first, str) and isinstance(self.outside.get(first), loops.Load):
                return [statement.buffer, *rest], needs.with_matrix(first)
        return list(loops.reads_of(statement)), needs

    def _of_row(self, name: str) -> bool:
        """Whether a scalar or a row from outside the loops is an iteration's own."""
        statement = self.outside.get(name)
        if name == self.rows.variable or statement is None or not pure(statement):
            return True
        return any(self._of_row(read) for read in loops.reads_of(statement) if read not in self.buffers)


@dataclass(frozen=True)
class _Needs:
    """What an operand needs, as far as it is known."""

    loops: frozenset[str]
    matrices: frozenset[str]
    of_rows: bool

    def with_loop(self, name: str) -> _Needs:
        return _Needs(self.loops | {name}, self.matrices, self.of_rows)

    def with_matrix(self, name: str) -> _Needs:
        return _Needs(self.loops, self.matrices | {name}, self.of_rows)

    def with_row(self) -> _Needs:
        return _Needs(self.loops, self.matrices, True)


def direct(contraction: Contraction) -> loops.Load | None:
    """The load of a matrix's element, where tiles may read it as it lies; None where it has to be written anew."""
    (*before, last) = contraction.matrix.code or (None,)
    if before or not isinstance(last, loops.Load) or last.result != contraction.matrix.value:
        return None
    chosen, columns = contraction.matrix.matrices, contraction.columns
    if len(columns) > 1 or len(contraction.heads) > 1 or len(set(last.indices)) < len(last.indices):
        return None
    first = set(last.indices[:1]) if chosen else set()
    if len(chosen) > 1 or not first <= set(chosen) or last.indices[-1] not in (contraction.depth, *columns):
        return None
    return last if all(isinstance(index, str) for index in last.indices) else None
