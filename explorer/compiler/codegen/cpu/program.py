"""From the fused loops to a Python function that Numba compiles: some iterations of the parallel loop, in sequence.

Numba reads Python, so the text is Python; run without Numba it gives the same numbers, only slowly. Threads call the
function for different iterations at once; rows are allocated once a call and used again by each of its iterations.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterator

from explorer.compiler.codegen.cpu.blocks import block_products
from explorer.compiler.codegen.cpu.fills import fills
from explorer.compiler.codegen.cpu.jam import jam_outer_products
from explorer.compiler.codegen.names import TargetNames
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import functions
from explorer.compiler.ir.loops import (
    INFIX_INDEX,
    REDUCTION_SIGNS,
    SEGMENT_ENDS,
    Accumulate,
    Accumulator,
    Compute,
    For,
    Index,
    Kernel,
    Load,
    Row,
    Statement,
    Store,
    result_of,
)
from explorer.compiler.ir.node import Atom, Extent, Node, walk
from explorer.compiler.passes.loops.cleared import clear_sums
from explorer.compiler.unsupported import Unsupported

FUNCTIONS = {
    **{name: function.python for name, function in functions.FUNCTIONS.items()},
    "unless_empty": "{0} if {1} < {2} else float32(0.0)",
    "segment_mean": "{0} / float32({2} - {1} if {1} < {2} else 1)",
}
"""Each function of the loops on f32. A NaN passes through all of them, as it does in NumPy."""

FROM_BITS = {"f32": "{}", "f16": "from_f16({})", "bf16": "from_bf16({})", "i8": "float32({})"}
"""The value of an element by what it is stored in."""
FROM_MATH = tuple(sorted(functions.callees("python") - {"abs", "float32"}))
USED = frozenset({"range", "empty", "float32", "int64", "inf", "nan", "from_f16", "from_bf16", *FROM_MATH, "abs"})
"""What the text takes from its surroundings, which `explorer.runtime.targets.cpu` provides."""

DEEPEST_NEST = 20
"""Loops in each other that Python compiles."""
UNROLLED = 16
"""Iterations from which LLVM is kept from unrolling an innermost loop whole: it does that before it looks for vectors,
and of 16 to 32 statements in a row it makes none or few. With 32 the products and outer products of TransR, of 17
candidates a triple, took twice the time that they take so."""
WORTH_GROUPING = 16 * 1024
"""Bytes of a gathered matrix from which iterations run in the order of its index: fewer would stay cached anyway."""


@dataclass(frozen=True)
class HostFunction:
    """A Python function `name(*arguments, *counts, one, first, last)` over whole arrays, the buffers in order.

    It does the iterations first..last of the parallel loop. `one` is 1, which LLVM is not to know. `counts` are the
    sizes known only at run time that loops inside it run to. Where `grouped_by` names an index buffer, an array `order`
    comes before `one`, and iteration i is `order[i]`, so that those which gather the same matrix can follow each other.
    A function that is `sequential` adds to rows of other iterations: it does all iterations in one call, on outputs
    that are zeros.
    """

    name: str
    lines: tuple[str, ...]
    arguments: tuple[str, ...]
    counts: tuple[str, ...]
    grouped_by: str | None
    sequential: bool = False

    @property
    def text(self) -> str:
        """The function's source."""
        return "".join(f"{line}\n" for line in self.lines)


def generate_host(kernel: Kernel, *, grouping: bool = True) -> HostFunction:
    """The kernel as a Python function; `grouping` off keeps the batch's order. Raises Unsupported."""
    return _Writer(jam_outer_products(block_products(clear_sums(kernel)))).function(grouping)


def gathered_by(kernel: Kernel) -> str | None:
    """The index buffer, one index an iteration, that picks the largest matrix worth grouping by, if there is one."""
    indices = {buffer.name: buffer for buffer in kernel.buffers if buffer.kind == "index"}
    tables = {buffer.name: buffer for buffer in kernel.buffers if buffer.kind in ("param", "input")}
    picks = {
        node.result: node.buffer
        for node in walk(kernel)
        if isinstance(node, Load) and node.buffer in indices and len(indices[node.buffer].extents) == 1
    }
    weights: dict[str, int] = {}
    for node in walk(kernel):
        if isinstance(node, Load) and node.buffer in tables and node.indices and node.indices[0] in picks:
            table = tables[node.buffer]
            weight = table.element_bytes * math.prod(map(kernel.size, _dims(kernel, table.extents)))
            index = picks[str(node.indices[0])]
            weights[index] = max(weights.get(index, 0), weight)
    heaviest = max(weights, key=lambda name: weights[name], default=None)
    return heaviest if heaviest is not None and weights[heaviest] >= WORTH_GROUPING else None


def outer_loop(kernel: Kernel) -> For:
    """The one loop that a kernel is; raises Unsupported for a kernel that is not such a loop."""
    if len(kernel.body) != 1 or not isinstance(kernel.body[0], For):
        raise Unsupported("The kernel is not one loop.")
    return kernel.body[0]


def iterations(kernel: Kernel) -> Extent:
    """What the parallel loop runs to: a set, the batch, or a number."""
    extent = outer_loop(kernel).extent
    return extent if isinstance(extent, str) else int(extent)


def _counts(kernel: Kernel, loop: For) -> tuple[str, ...]:
    """The sizes known only at run time that loops inside the parallel loop run to, or segments in it, sorted."""
    defined = {name for node in walk(loop) if (name := result_of(node)) is not None}
    bounds = {
        bound
        for statement in loop.body
        for node in walk(statement)
        if isinstance(node, For)
        for bound in (node.lower, node.extent)
    }
    ends = (node for node in walk(loop) if isinstance(node, Compute) and node.function in SEGMENT_ENDS)
    bounds |= {bound for node in ends for bound in node.operands[1:] if isinstance(bound, str)}
    known = defined | {name for name, _ in kernel.sizes}
    return tuple(sorted(bound for bound in bounds if isinstance(bound, str) and bound not in known))


def _dims(kernel: Kernel, extents: tuple[Extent, ...]) -> list[Extent]:
    """The extents of one row of a table: those whose size the kernel knows."""
    sizes = dict(kernel.sizes)
    return [extent for extent in extents if isinstance(extent, int) or extent in sizes]


def _depth(loop: For) -> int:
    return 1 + max((_depth(statement) for statement in loop.body if isinstance(statement, For)), default=0)


class _Writer:
    """Writes one function, from top to bottom."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.names = TargetNames(kernel, USED, keyword.iskeyword)
        self.sizes = dict(kernel.sizes)
        self.one = self.names.new("one")
        self.batch = outer_loop(kernel)
        self.fills = fills(kernel)
        # A set may have the name of a map into it (etype): arrays and counts are named apart.
        self.counts = {count: self.names.new(f"num_{count}") for count in _counts(kernel, self.batch)}

    def function(self, grouping: bool) -> HostFunction:
        kernel, names, batch = self.kernel, self.names, self.batch
        if (depth := _depth(batch)) > DEEPEST_NEST:
            raise Unsupported(f"The loops nest {depth} deep; on the CPU they may nest {DEEPEST_NEST} deep.")
        grouped_by = gathered_by(kernel) if grouping else None
        name, step, order = names.new("nest"), names.new("step"), names.new("order")
        first, last = names.new("first"), names.new("last")
        buffers = [names[buffer.name] for buffer in kernel.buffers]
        parameters = [*buffers, *self.counts.values(), *([order] if grouped_by else []), self.one, first, last]
        iteration = names[batch.variable]
        lines = [
            f"def {name}({', '.join(parameters)}):",
            *(f"    {self.row(node)}" for node in walk(kernel) if isinstance(node, Row)),
            f"    for {step if grouped_by else iteration} in range({first}, {last}):",
            *([f"        {iteration} = {order}[{step}]"] if grouped_by else []),
            *self.block(batch.body, 2),
        ]
        arguments = tuple(buffer.name for buffer in kernel.buffers)
        return HostFunction(name, tuple(lines), arguments, tuple(self.counts), grouped_by, not batch.parallel)

    def block(self, body: tuple[Statement, ...], depth: int) -> Iterator[str]:
        for statement in body:
            if isinstance(statement, For):
                segment = self.fills.get(id(statement))
                if segment is not None:
                    yield "    " * depth + f"if {self.bound(segment.lower)} < {self.bound(segment.extent)}:"
                yield from self.loop(statement, depth if segment is None else depth + 1)
            elif not isinstance(statement, Row):
                yield "    " * depth + self.statement(statement)

    def loop(self, loop: For, depth: int) -> Iterator[str]:
        lower, upper = self.bound(loop.lower), self.bound(loop.extent)
        bounds = self.opaque(loop, upper) if lower == "0" else f"{lower}, {upper}"
        yield "    " * depth + f"for {self.names[loop.variable]} in range({bounds}):"
        yield from self.block(loop.body, depth + 1)

    def opaque(self, loop: For, extent: str) -> str:
        """An extent, as LLVM may know it: of what it would unroll where it should use vectors, what it divides by."""
        innermost = not any(isinstance(statement, For) for statement in loop.body)
        return f"{self.one} * {extent}" if innermost and extent.isdigit() and int(extent) >= UNROLLED else extent

    def bound(self, atom: Atom) -> str:
        """A bound of a loop: a number, an index that was loaded, or a count."""
        if not isinstance(atom, str):
            return str(atom)
        return str(self.sizes[atom]) if atom in self.sizes else self.counts.get(atom) or self.names[atom]

    def row(self, row: Row) -> str:
        extents = "".join(f"{self.kernel.size(extent)}, " for extent in row.extents)
        return f"{self.names[row.name]} = empty(({extents}), float32)"

    def statement(self, statement: Node) -> str:
        match statement:
            case Load():
                element = self.element(statement.buffer, statement.indices)
                return f"{self.names[statement.result]} = {self.loaded(statement.buffer).format(element)}"
            case Index():
                left, right = (self.atom(operand, index=True) for operand in statement.operands)
                return f"{self.names[statement.result]} = {left} {INFIX_INDEX[statement.function]} {right}"
            case Compute():
                value = self.expression(statement.function, statement.operands)
                return f"{self.names[statement.result]} = {value}"
            case Accumulator():
                return f"{self.names[statement.name]} = {self.atom(statement.start)}"
            case Store():
                value = self.expression(statement.function, statement.operands)
                return f"{self.element(statement.target, statement.indices)} = {value}"
            case Accumulate():
                return self.accumulate(statement)
        raise TypeError(f"not a statement of loops: {statement!r}")

    def loaded(self, array: str) -> str:
        """The value of an element of an array, as a pattern."""
        buffer = next((each for each in self.kernel.buffers if each.name == array), None)
        if buffer is None:
            return "{}"
        return "int64({})" if buffer.kind == "index" else FROM_BITS[buffer.storage]

    def accumulate(self, statement: Accumulate) -> str:
        target = self.element(statement.target, statement.indices) if statement.indices else None
        target = target or self.names[statement.target]
        value = self.expression(statement.function, statement.operands)
        if statement.reduction in ("sum", "product"):
            return f"{target} {REDUCTION_SIGNS[statement.reduction]} {value}"
        return f"{target} = {FUNCTIONS[statement.reduction].format(f'({value})', target)}"

    def element(self, target: str, indices: tuple[Atom, ...]) -> str:
        places = ", ".join(self.atom(index, index=True) for index in indices)
        return f"{self.names[target]}[{places or '()'}]"

    def expression(self, function: str, operands: tuple[Atom, ...]) -> str:
        if function not in FUNCTIONS:
            raise Unsupported(f"There is no CPU code for the function {function}.")
        if function in SEGMENT_ENDS:
            return FUNCTIONS[function].format(self.atom(operands[0]), *map(self.bound, operands[1:]))
        return FUNCTIONS[function].format(*(self.atom(operand) for operand in operands))

    def atom(self, atom: Atom, *, index: bool = False) -> str:
        if isinstance(atom, str):
            return self.names[atom]
        return str(atom) if index else f"float32({float(atom)!r})"
