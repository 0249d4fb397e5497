"""Gives products of rows and matrices kernels of their own, where they share an iteration with a loop over a segment.

An iteration that sums over its edges has little in common with one that multiplies its row by a matrix: the first
waits for scattered rows, the second uses a matrix that all iterations share, if they are done together as tiles. What
passes from one kernel to the next is stored, a row for each iteration (loop distribution; Hector §3.3 has kernels of
these two kinds).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Names, rewrite
from explorer.compiler.ir.statements import (
    alive,
    all_names,
    closure,
    is_segment,
    names_read,
    pure,
    slice_for,
    written_names,
)
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.nests import Body, array_of_each, loaded, part
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.gemm.segment_products import find_pairs
from explorer.compiler.schedule.match.matrix_products import LEAST_COLUMNS
from explorer.compiler.schedule.match.normal_order import in_normal_order

STATEMENTS = 3
"""Of a product: its row, what clears it, and the loop over the depth."""


def split_products(program: loops.Kernel | Module, report: Report) -> loops.Kernel | Module:
    """The program in normal order, with such kernels split; a program of one kernel becomes a module if that one is."""
    kernels = program.programs if isinstance(program, Module) else (program,)
    nests = [_in_normal_order(kernel, report) for kernel in kernels if isinstance(kernel, loops.Kernel)]
    names = Names({name for nest in nests for name in (*all_names(nest), nest.name)})
    split = tuple(each for nest in nests for each in _split(nest, names, report))
    if len(split) == len(kernels) and all(new is old for new, old in zip(split, kernels, strict=True)):
        return program
    if isinstance(program, Module):
        return replace(program, programs=split)
    if len(split) == 1:
        return split[0]
    result = next(buffer.name for buffer in program.buffers if buffer.kind == "output")
    return Module(origin=program.origin, name=program.name, result=result, gradients=(), programs=split)


def _in_normal_order(kernel: loops.Kernel, report: Report) -> loops.Kernel:
    ordered = in_normal_order(kernel)
    if ordered is not kernel:
        report.did(f"{kernel.name}: statements that read nothing of each other in normal order")
    return ordered


def _split(kernel: loops.Kernel, names: Names, report: Report) -> tuple[loops.Kernel, ...]:
    """The kernels that one is split into, in order: itself where there is nothing to split."""
    if len(kernel.body) != 1 or not isinstance(rows := kernel.body[0], loops.For) or not rows.parallel:
        return (kernel,)
    if not any(is_segment(kernel, statement) for statement in rows.body):
        return (kernel,)
    if _ends_sums(kernel, report):
        return (kernel,)
    for at in range(len(rows.body) - STATEMENTS + 1):
        product = _product_at(kernel, rows.body, at)
        if product is None:
            continue
        parts = _cut_at(kernel, rows, at, names)
        if parts is None:
            report.refused(f"{kernel.name}: the product with {product} stays: its iteration writes what both need")
            continue
        report.did(f"{kernel.name}: the product with {product} in a kernel of its own")
        return tuple(piece for each in parts for piece in _split(each, names, report))
    return (kernel,)


def _ends_sums(kernel: loops.Kernel, report: Report) -> bool:
    """Whether an iteration does products of sums, then one that ends its row with them: no cache holds all rows until
    another kernel would do so."""
    found = find_pairs(kernel)
    if found is None or len(found.after) != STATEMENTS + 1 or _product_at(kernel, found.after, 0) is None:
        return False
    return report.options.inspect != "false" and found.outgrow_caches(kernel, report)


def _product_at(kernel: loops.Kernel, body: Body, at: int) -> str | None:
    """The matrix of the product at a place: `row y; for k { y[k] = 0 } for d { for k { y[k] += u * w } }`."""
    match body[at : at + STATEMENTS]:
        case (
            loops.Row(name=total),
            loops.For(body=(loops.Store(target=cleared, operands=(0.0,)),)),
            loops.For(
                body=(*_, loops.For(body=(loops.Load() as matrix, loops.Accumulate() as sums)) as columns)
            ) as depths,
        ) if cleared == total == sums.target and sums.reduction == "sum" and sums.function == "mul":
            if {depths.variable, columns.variable} != set(matrix.indices[-2:]):
                return None
            return matrix.buffer if kernel.size(columns.extent) >= LEAST_COLUMNS else None
    return None


def _cut_at(kernel: loops.Kernel, rows: loops.For, at: int, names: Names) -> tuple[loops.Kernel, loops.Kernel] | None:
    """The kernel cut in front of the product at a place, or behind it where the product needs no segment's sums; None
    where a row or an array is written on both sides."""
    before, product, after = rows.body[:at], rows.body[at : at + STATEMENTS], rows.body[at + STATEMENTS :]
    needed = closure(before, names_read(product))
    if any(is_segment(kernel, statement) for statement in needed):
        return _Cut(kernel, rows, before, (*product, *after), names).parts("sums")
    return _Cut(kernel, rows, (*needed, *product), (*before, *after), names).parts("rows")


def cut(
    kernel: loops.Kernel, rows: loops.For, first: Body, second: Body, names: Names
) -> tuple[loops.Kernel, loops.Kernel] | None:
    """A kernel's iteration as two kernels; None where a row or an array is written in both."""
    return _Cut(kernel, rows, first, second, names).parts("rows")


@dataclass(frozen=True)
class _Cut:
    """An iteration's statements in two kernels, of which the second reads what the first computes."""

    kernel: loops.Kernel
    rows: loops.For
    first: Body
    second: Body
    names: Names

    def parts(self, hint: str) -> tuple[loops.Kernel, loops.Kernel] | None:
        """Both kernels; None where a row or an array is written in both, or where the second declares it."""
        if written_names(self.first) & {s.name for s in self.second if isinstance(s, (loops.Row, loops.Accumulator))}:
            return None
        again = self._computed_again()
        crossing = self._crossing(again)
        arrays = {buffer.name for buffer in self.kernel.buffers}
        both = written_names(self.first) & written_names(self.second)
        if both & (arrays | {loops.result_of(statement) for statement in crossing}):
            return None
        stored = {
            str(loops.result_of(statement)): array_of_each(self.kernel, statement, self.rows.extent, self.names)
            for statement in crossing
        }
        ends = tuple(self._store(statement, stored) for statement in crossing)
        loads = loaded(stored, self.rows.variable)
        second = tuple(self._reading(statement, stored) for statement in self.second)
        name = self.names.new(f"{self.kernel.name}_{hint}")
        return (
            self._kernel(name, (*self.first, *ends), stored.values()),
            self._kernel(self.kernel.name, (*again, *loads, *second), stored.values()),
        )

    def _computed_again(self) -> Body:
        """What the second has for itself of the first: scalars that come of what is given, rows and accumulators that
        the first only declares."""
        changing = {loops.result_of(s) for s in self.first if not pure(s)} | written_names(self.first)
        given: list[loops.Statement] = []
        for statement in self.first:
            if pure(statement) and not changing & set(loops.reads_of(statement)):
                given.append(statement)
            else:
                changing.add(loops.result_of(statement))
        defined = {loops.result_of(statement) for statement in self.second}
        again = [s for s in slice_for(tuple(given), self.second) if loops.result_of(s) not in defined]
        # What only the second changes begins there.
        changed = written_names(self.second) - written_names(self.first)
        begun = [s for s in self.first if loops.result_of(s) in changed - defined]
        return (*again, *begun)

    def _crossing(self, again: Body) -> Body:
        """The statements of the first that name what the second reads of it: rows, accumulators and scalars."""
        own = {loops.result_of(statement) for statement in (*again, *self.second)}
        wanted = names_read((*again, *self.second)) - own
        return tuple(s for s in self.first if loops.result_of(s) in wanted and not isinstance(s, loops.For))

    def _store(self, statement: loops.Statement, stored: dict[str, Buffer]) -> loops.Statement:
        """Stores what a statement names."""
        name, write = str(loops.result_of(statement)), Writer.named(self.names, statement.origin)
        buffer, row = stored[name], self.rows.variable
        variables = tuple(self.names.new("k") for _ in buffer.extents[1:])
        if not variables:
            return write.store(buffer.name, name, row)
        value = write.load("s", name, *variables)
        body = value, write.store(buffer.name, value.result, row, *variables)
        return write.nested(variables, buffer.extents[1:], body)[0]

    def _reading(self, statement: loops.Statement, stored: dict[str, Buffer]) -> loops.Statement:
        """A statement that reads rows where they are stored."""

        def change(node: loops.Statement) -> loops.Statement:
            if not isinstance(node, loops.Load) or node.buffer not in stored:
                return node
            return replace(node, buffer=stored[node.buffer].name, indices=(self.rows.variable, *node.indices))

        return rewrite(statement, change)

    def _kernel(self, name: str, body: Body, added: Iterable[Buffer]) -> loops.Kernel:
        """A kernel of some of the statements, with the buffers that it accesses."""
        kept = alive(body)
        made = part(self.kernel, name, replace(self.rows, body=kept), *added)
        segments = any(is_segment(self.kernel, statement) for statement in kept)
        return made if segments else replace(made, template="gemm")
