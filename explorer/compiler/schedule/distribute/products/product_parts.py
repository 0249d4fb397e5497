"""Writes a product that was found in an iteration by itself, in a form that tiles take, and its matrix if it needs one.

Several columns, or several heads, are one loop whose variable has theirs for digits: `h1 = h / 4`, `h2 = h % 4`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Atom, Extent, Names, walk
from explorer.compiler.ir.statements import rename
from explorer.compiler.schedule.edit.nests import Body, part
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.match.contractions import Contraction, direct


@dataclass(frozen=True)
class Sums:
    """Where a product's sums are: in an array, or in a row of the iteration; `position` are the first indices, then
    come the heads as one, if there are some, and the columns as one."""

    name: str
    position: tuple[Atom, ...]
    array: Buffer | None


class ProductParts:
    """Writes the parts of one product of a kernel; `names` are those of the module."""

    def __init__(self, kernel: loops.Kernel, rows: loops.For, found: Contraction, names: Names) -> None:
        self.kernel, self.rows, self.found = kernel, rows, found
        self.writer = Writer.named(names, found.add.origin)
        self.load = None if found.constant else direct(found)

    def size(self, variables: Sequence[str]) -> Extent:
        """The extent of loops as one."""
        if len(variables) == 1:
            return self.found.loop(variables[0]).extent
        total = 1
        for name in variables:
            total *= self.kernel.size(self.found.loop(name).extent)
        return total

    def flat(self, variables: Sequence[str], values: Sequence[Atom], code: list[loops.Statement]) -> tuple[Atom, ...]:
        """The index of loops as one, which `code` computes of theirs; none of no loops."""
        if not variables:
            return ()
        whole = values[0]
        for name, value in zip(variables[1:], values[1:], strict=True):
            scaled = self.writer.index("n", "mul", whole, self.kernel.size(self.found.loop(name).extent))
            added = self.writer.index("n", "add", scaled.result, value)
            code += [scaled, added]
            whole = added.result
        return (whole,)

    def sums(self, in_row: bool) -> Sums:
        """Where the product's sums are to be: in a row, or in a new array."""
        found, origin = self.found, self.found.add.origin
        name = self.writer.names.new(f"{self.kernel.name}_sums" if not in_row else "y")
        if in_row:
            return Sums(name, (), None)
        heads = (self.size(found.heads),) if found.heads else ()
        extents = (self.rows.extent, *heads, self.size(found.columns))
        return Sums(name, (self.rows.variable,), Buffer(name=name, kind="output", extents=extents, origin=origin))

    def product(self, sums: Sums, matrix: Buffer | None) -> Body:
        """The product, of the new matrix if there is one."""
        found, writer = self.found, self.writer
        changes = self._changes([*found.factor.code, *((self.load,) if self.load else ())])
        code: list[loops.Statement] = []
        heads, columns = self._as_one(found.heads, changes, code), self._as_one(found.columns, changes, [])
        code += [rename(statement, changes) for statement in found.factor.code]
        factor = changes.get(str(found.factor.value), found.factor.value)
        if matrix is not None:
            indices = (*found.matrix.matrices, *heads, changes[found.depth], *columns)
            element = writer.load("m", matrix.name, *indices)
        else:
            assert self.load is not None
            element = cast(loops.Load, rename(self.load, changes))
        depth = changes[found.depth], found.loop(found.depth).extent
        (column,) = columns
        width = self.size(found.columns)
        if sums.array is None:
            row = loops.Row(name=sums.name, extents=(width,), origin=writer.origin)
            clear = writer.names.new("k")
            add = replace(found.add, target=sums.name, indices=(column,), operands=(factor, element.result))
            inner = writer.nested((column,), (width,), (element, add))
            return (
                row,
                *writer.nested((clear,), (width,), (writer.store(sums.name, 0.0, clear),)),
                *writer.nested((depth[0],), (depth[1],), (*code, *inner)),
            )
        total = loops.Accumulator(name=writer.names.new("s"), start=0.0, origin=writer.origin)
        add = replace(found.add, target=total.name, indices=(), operands=(factor, element.result))
        body: Body = (
            total,
            *writer.nested((depth[0],), (depth[1],), (*code, element, add)),
            writer.store(sums.name, total.name, *sums.position, *heads, column),
        )
        extents = (*((self.size(found.heads),) if heads else ()), width)
        return writer.nested((*heads, column), extents, body)

    def matrix(self) -> tuple[Buffer, loops.Kernel]:
        """An array of the matrix as tiles read it, by heads, depth and columns, and the kernel that writes it: an
        iteration for each matrix, or for each row of the only one."""
        found, writer = self.found, self.writer
        changes = self._changes(found.matrix.code)
        chosen = found.matrix.matrices
        changes |= {name: writer.names.new(name) for name in chosen}
        extents = list(self._matrices(chosen))
        outer = [(changes[name], extent) for name, extent in zip(chosen, extents, strict=True)]
        inner: tuple[str, ...] = (*found.heads, found.depth, *found.columns)
        of_row: list[loops.Statement] = []
        of_element: list[loops.Statement] = []
        if not chosen:
            outer = [(self._as_one(inner[:-1], changes, of_row)[0], self.size(inner[:-1]))]
            inner = inner[-1:]
        (element,) = self._as_one(inner, changes, of_element)
        body = [*of_element, *(rename(statement, changes) for statement in found.matrix.code)]
        indices: list[Atom] = [changes[name] for name in chosen]
        for group in (found.heads, (found.depth,), found.columns):
            indices += self.flat(group, [changes[name] for name in group], body)
            extents += [self.size(group)] if group else []
        name = writer.names.new(f"{self.kernel.name}_matrix")
        array = Buffer(name=name, kind="output", extents=tuple(extents), origin=writer.origin)
        body.append(writer.store(name, changes.get(str(found.matrix.value), found.matrix.value), *indices))
        row = (*of_row, *self._nested([(element, self.size(inner))], tuple(body)))
        (nest,) = self._nested(outer, row)
        assert isinstance(nest, loops.For)
        whole = replace(self.kernel, template="rows", buffers=(*self.kernel.buffers, array))
        return array, part(whole, writer.names.new(f"{self.kernel.name}_weights"), replace(nest, parallel=True))

    def constant(self) -> tuple[Sums, loops.Kernel]:
        """A sum of parameters in an array, by heads, and the kernel that writes it."""
        found, writer = self.found, self.writer
        both = (*found.factor.code, *found.matrix.code)
        code = [s for at, s in enumerate(both) if not any(s is other for other in both[:at])]
        changes = self._changes(code)
        total = loops.Accumulator(name=writer.names.new("s"), start=self.start(), origin=writer.origin)
        operands = tuple(changes.get(str(operand), operand) for operand in found.add.operands)
        add = replace(found.add, target=total.name, indices=(), operands=operands)
        body: Body = (*(rename(statement, changes) for statement in code), add)
        for loop in reversed(found.summed):
            body = writer.nested((changes[loop.variable],), (loop.extent,), body)
        extents = tuple(found.loop(name).extent for name in found.heads)
        name = writer.names.new(f"{self.kernel.name}_constant")
        array = Buffer(name=name, kind="output", extents=extents, origin=writer.origin)
        store = writer.store(name, total.name, *(changes[head] for head in found.heads))
        inner: Body = (total, *body, store)
        heads = sorted(found.heads, key=lambda head: self.kernel.size(found.loop(head).extent), reverse=True)
        around = [(changes[head], found.loop(head).extent) for head in heads]
        (nest,) = self._nested(around, inner)
        assert isinstance(nest, loops.For)
        whole = replace(self.kernel, template="rows", buffers=(*self.kernel.buffers, array))
        made = part(whole, writer.names.new(f"{self.kernel.name}_weights"), replace(nest, parallel=True))
        return Sums(name, (), array), made

    def start(self) -> float:
        """What the target's sum starts with."""
        declared = [n for s in self.rows.body for n in walk(s) if isinstance(n, loops.Accumulator)]
        return next((n.start for n in declared if n.name == self.found.add.target), 0.0)

    def _nested(self, walked: Sequence[tuple[str, Extent]], body: Body) -> Body:
        """Loops, given by variable and extent, around a body."""
        return self.writer.nested(tuple(name for name, _ in walked), tuple(extent for _, extent in walked), body)

    def _matrices(self, chosen: tuple[str, ...]) -> tuple[Extent, ...]:
        """How many matrices each of the indices chooses from."""
        buffers = {buffer.name: buffer for buffer in self.kernel.buffers}
        loads = [s for s in self.found.matrix.code if isinstance(s, loops.Load) and s.buffer in buffers]
        return tuple(
            next(buffers[load.buffer].extents[0] for load in loads if load.indices[0] == name) for name in chosen
        )

    def _changes(self, code: Sequence[loops.Statement]) -> dict[str, str]:
        """New names for the loops' variables and what the code defines."""
        defined = [name for statement in code if (name := loops.result_of(statement)) is not None]
        names = [*(loop.variable for loop in self.found.around), *defined]
        return {name: self.writer.names.new(name) for name in names}

    def _as_one(
        self, variables: tuple[str, ...], changes: dict[str, str], code: list[loops.Statement]
    ) -> tuple[str, ...]:
        """The variable of loops as one, of which `code` computes theirs; none of no loops."""
        if len(variables) < 2:
            return tuple(changes[name] for name in variables)
        whole = rest = self.writer.names.new("h")
        for name in reversed(variables[1:]):
            size = self.kernel.size(self.found.loop(name).extent)
            digit = self.writer.index("n", "mod", rest, size)
            above = self.writer.index("n", "div", rest, size)
            code += [replace(digit, result=changes[name]), above]
            rest = above.result
        changes[variables[0]] = rest
        return (whole,)
