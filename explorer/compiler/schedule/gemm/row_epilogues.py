"""What iterations do behind their last product: scalar code that ends its sums, and then loops of their own.

Where a block has all columns of a row, a row's sums are complete in it, and the product's kernel ends them; else each
block stores its part of them, and a kernel of its own, a row a thread, puts the parts together.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Count, ScheduledKernel
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Atom, Extent, Names, merge, walk
from explorer.compiler.ir.statements import loop_origin, names_read, pure, slice_for
from explorer.compiler.schedule.edit.builder import Steps, arrays_of
from explorer.compiler.schedule.edit.nests import part
from explorer.compiler.schedule.match.matrix_products import Found, Product

THREADS = 128


@dataclass(frozen=True)
class Ending:
    """Scalar code that needs the complete sums of a row, and of the iteration's scalars before them those in `head`.
    `handed` names scalars that the loops behind it need, and the arrays by row that keep them; those are `added`."""

    head: tuple[loops.Statement, ...]
    statements: tuple[loops.Statement, ...]
    handed: dict[str, str]
    added: tuple[Buffer, ...]

    def write(self, steps: Steps, known: dict[str, Atom], row: Extent) -> None:
        """The code for a row, whose sums and variable have the names `known`."""
        known = steps.copy((*slice_for(self.head, self.statements), *self.statements), known)
        for name, array in self.handed.items():
            steps.store(array, [row], known[name])

    def reads(self, arrays: set[str]) -> bool:
        """Whether the code loads from one of some arrays."""
        return any(isinstance(s, loops.Load) and s.buffer in arrays for s in (*self.head, *self.statements))


@dataclass(frozen=True)
class Rest:
    """What follows the products of `found`: the end of their sums, if there are any, and the loops `after` it, which
    load scalars from the arrays that keep them."""

    found: Found
    ending: Ending | None
    loads: tuple[loops.Load, ...]
    after: tuple[loops.Statement, ...]

    def loops_of(self, kernel: loops.Kernel) -> tuple[loops.Kernel, ...]:
        """The loops behind the products as a kernel, which reads what the kernels before it wrote; none for none."""
        if not self.after:
            return ()
        head, found = slice_for(self.found.head, self.after), self.found
        origin = loop_origin(self.after, found.rows.extent, rows=True)
        rows = replace(found.rows, body=(*head, *self.loads, *self.after))
        added = self.ending.added if self.ending else ()
        return (part(kernel, f"{kernel.name}_rest", rows, *added, origin=origin),)


def find_rest(found: Found, names: Names) -> Rest:
    """What follows the products; `names` are those of the module's buffers."""
    product = found.products[-1]
    head, ending, after = _divide(found)
    found = replace(found, head=head)
    if not ending and not product.accumulators:
        return Rest(found, None, (), after)
    ended = {a.name for a in product.accumulators} | {name for s in ending if (name := loops.result_of(s)) is not None}
    needed = sorted(ended & names_read(after))
    stored = {
        s.operands[0]: s.target
        for s in ending
        if isinstance(s, loops.Store) and (s.function, s.indices) == ("copy", (found.rows.variable,))
    }
    handed = {name: names.new("scalar") for name in needed if name not in stored}
    added = tuple(
        Buffer(name=array, kind="output", extents=(found.rows.extent,), origin=product.origin)
        for array in handed.values()
    )
    loads = tuple(
        loops.Load(
            result=name,
            buffer=handed.get(name) or stored[name],
            indices=(found.rows.variable,),
            origin=product.origin,
        )
        for name in needed
    )
    return Rest(found, Ending(head, ending, handed, added), loads, after)


def _divide(
    found: Found,
) -> tuple[tuple[loops.Statement, ...], tuple[loops.Statement, ...], tuple[loops.Statement, ...]]:
    """What an iteration's scalars are without the sums, what it does once those are complete, and its loops after."""
    rest, head = found.rest, list(found.head)
    cut = next((at for at, s in enumerate(rest) if isinstance(s, (loops.Row, loops.For))), len(rest))
    inside = {name for s in rest[cut:] for node in walk(s) for name in (*loops.reads_of(node), *arrays_of(node))}
    sums = {accumulator.name for product in found.products for accumulator in product.accumulators}
    sums |= {s.target for s in rest[:cut] if isinstance(s, loops.Store)}
    ending: list[loops.Statement] = []
    later: list[loops.Statement] = []
    for statement in rest[:cut]:
        if isinstance(statement, loops.Accumulator) and statement.name in inside:
            later.append(statement)
        elif pure(statement) and not sums & set(loops.reads_of(statement)):
            head.append(statement)
        else:
            ending.append(statement)
            sums |= {name} if (name := loops.result_of(statement)) else set()
    return tuple(head), tuple(ending), (*later, *rest[cut:])


def add_part(steps: Steps, product: Product, accumulator: loops.Accumulator, whole: str, part: str) -> None:
    """Adds a block's part of one of a product's accumulators to the whole of it."""
    steps.add(
        loops.Accumulate(
            target=whole,
            indices=(),
            reduction=product.reduction_of(accumulator.name),
            function="copy",
            operands=(part,),
            origin=accumulator.origin,
        )
    )


def ending_kernel(
    kernel: loops.Kernel, found: Found, ending: Ending, stored: dict[str, Buffer], count: int
) -> ScheduledKernel:
    """A row a thread: `count` parts of each of the last product's sums put together, of those `stored` by accumulator,
    and the code that ends them."""
    product = found.products[-1]
    arrays = (*kernel.buffers, *(replace(buffer, kind="temporary") for buffer in stored.values()), *ending.added)
    origin = merge(product.origin, *(s.origin for s in ending.statements))
    steps = Steps.over(arrays, origin, (name for name, _ in kernel.sizes))
    with steps.loop("block", Count(((found.rows.extent, THREADS),)), "block") as block:
        start = steps.index("first", "mul", block, THREADS)
        with steps.loop("thread", THREADS, "thread") as thread:
            row = steps.index("b", "add", start, thread)
            with steps.where(row, "<", found.rows.extent):
                known: dict[str, Atom] = {found.rows.variable: row}
                for accumulator in product.accumulators:
                    name = steps.names.new(accumulator.name)
                    steps.add(replace(accumulator, name=name))
                    with steps.all("column", count) as column:
                        block = steps.load("part", stored[accumulator.name].name, column, row)
                        add_part(steps, product, accumulator, name, block)
                    known[accumulator.name] = name
                ending.write(steps, known, row)
    line = f"bind {found.rows.variable} @block @thread"
    made = steps.kernel(f"{kernel.name}_ending", "rows", THREADS, arrays, line, sizes=kernel.sizes)
    return replace(made, origin=kernel.origin)
