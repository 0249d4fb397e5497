"""What scheduled kernels mean: the nest run one iteration after another, in float32, on NumPy arrays.

Who does an iteration does not matter here, nor when threads wait for each other: barriers and reductions do nothing.
What a tile or an output holds before it is stored is NaN, or an index of nothing, so that nothing can count on memory
being clear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from explorer.compiler.interpret.again import run_once
from explorer.compiler.interpret.functions import Number
from explorer.compiler.interpret.guarded import guarded, outside
from explorer.compiler.interpret.loops import Outputs, bind
from explorer.compiler.interpret.python.text import Environment, Text
from explorer.compiler.interpret.tensor_cores import product
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import Node, walk

UNWRITTEN = -(2**40)
"""What an array or a tile of indices has where nothing has been written: no index, and nothing that a kernel stores."""


def run_scheduled(
    programs: Sequence[kernels.ScheduledKernel], inputs: Mapping[str, Number], again: bool = False
) -> Outputs:
    """Everything that the kernels, run in order, write, by name: float32, or int64 for index arrays.

    What one kernel wrote, later ones read, and write again where it is their output as well. Where a kernel sees the
    first two dimensions of given arrays as one, what is written has two again; what kernels see as one and as two is
    given as the first that wrote it saw it. With `again`, what comes of each is kept with it (`run_once`)."""
    written: Outputs = {}
    seen: dict[str, loops.Buffer] = {}  # by name, as the first kernel that wrote it saw it
    extents = given_extents(programs, inputs)
    for kernel, environment in environments(programs, inputs, extents, written):
        run = partial(_outputs, kernel, environment)
        environment |= run_once(kernel, environment.copy(), run) if again else run()
        writes = written_buffers(kernel)
        seen = {**{buffer.name: buffer for buffer in kernel.buffers if buffer.name in writes}, **seen}
    buffers = [buffer for kernel in programs for buffer in kernel.buffers]
    merged = {
        b.extents[0]: np.shape(inputs[b.name])[:2]
        for b in buffers
        if b.name in inputs and np.ndim(inputs[b.name]) == len(b.extents) + 1
    }
    return {
        name: _whole(_shaped(seen[name], array, extents), merged.get(seen[name].extents[0]) if array.ndim else None)
        for name, array in written.items()
    }


def _outputs(kernel: kernels.ScheduledKernel, environment: Environment) -> Outputs:
    _Text(kernel).function()(environment)
    return {name: environment[name] for name in written_buffers(kernel)}


def environments(
    programs: Sequence[kernels.ScheduledKernel], inputs: Mapping[str, Number], extents: dict[str, int], written: Outputs
) -> Iterator[tuple[kernels.ScheduledKernel, Environment]]:
    """Each kernel with what its names stand for at its start; what it has `written` by the time that the next one is
    asked for, and its counts, the later ones find."""
    for kernel in programs:
        known = {**inputs, **written}
        own = {b.name: _shaped(b, known[b.name], extents) for b in kernel.buffers if b.name in known}
        environment = bound(kernel, {**inputs, **extents, **own}, {n: a for n, a in own.items() if n in written})
        yield kernel, environment
        written |= {name: np.asarray(environment[name]) for name in written_buffers(kernel)}
        extents |= {name: environment[name] for name, _ in kernel.counts}


def _whole(array: Number, ends: tuple[int, ...] | None) -> Number:
    """An array with both of the dimensions that its kernels saw as one, of those lengths."""
    return array if ends is None else np.reshape(array, (*ends, *np.shape(array)[1:]))


def _shaped(buffer: loops.Buffer, array: Number, extents: Mapping[str, int]) -> Number:
    """An array with as many dimensions as a kernel's buffer has: a kernel may see the first ones as one."""
    more = len(buffer.extents) - np.ndim(array)
    if not np.ndim(array) or not more:
        return array
    if more < 0:
        return np.reshape(array, (-1, *np.shape(array)[1 - more :]))
    inner = (extents[extent] if isinstance(extent, str) else extent for extent in buffer.extents[1 : more + 1])
    return np.reshape(array, (-1, *inner, *np.shape(array)[1:]))


def shared_tiles(kernel: kernels.ScheduledKernel, inputs: Mapping[str, Number]) -> Outputs:
    """What the shared tiles of a kernel hold when its last block has ended, by name: for looking into a program."""
    environment = bound(kernel, {**inputs, **given_extents((kernel,), inputs)}, {})
    nodes = walk(kernel)
    names = [node.name for node in nodes if isinstance(node, kernels.Tile) and node.memory == "shared"]
    return dict(zip(names, _Text(kernel).function(names)(environment), strict=True))


def written_buffers(kernel: kernels.ScheduledKernel) -> tuple[str, ...]:
    """The buffers that a kernel stores in or adds to, and its outputs."""
    targets = {node.target for node in walk(kernel) if isinstance(node, (loops.Store, loops.Accumulate))}
    return tuple(buffer.name for buffer in kernel.buffers if buffer.kind == "output" or buffer.name in targets)


def given_extents(programs: Sequence[kernels.ScheduledKernel], inputs: Mapping[str, Number]) -> dict[str, int]:
    """The extents that the given arrays bring, of all kernels: one may be launched on those of another's arrays. Where
    kernels see two dimensions as one, `BN = 3 * B`, it brings the first of them."""
    given = [buffer for kernel in programs for buffer in kernel.buffers if buffer.name in inputs]
    whole = (buffer for buffer in given if np.ndim(inputs[buffer.name]) >= len(buffer.extents))
    shapes = ((buffer.extents, np.shape(_shaped(buffer, inputs[buffer.name], {}))) for buffer in whole)
    pairs = (pair for names, shape in shapes for pair in zip(names, shape, strict=True))
    counts = {name: count.terms for kernel in programs for name, count in kernel.counts}
    merged = (buffer for buffer in given if np.ndim(inputs[buffer.name]) == len(buffer.extents) + 1)
    first = {
        outer: np.shape(inputs[buffer.name])[0]
        for buffer in merged
        for outer, by in counts.get(str(buffer.extents[0]), ())
        if by == 1 and isinstance(outer, str)
    }
    return {**first, **{extent: length for extent, length in pairs if isinstance(extent, str)}}


def bound(kernel: kernels.ScheduledKernel, inputs: Mapping[str, Number], written: Outputs) -> Environment:
    """What the kernel's names stand for at its start; an array of `written` goes on as it was left."""
    writes = written_buffers(kernel)
    read = tuple(buffer for buffer in kernel.buffers if buffer.name not in writes)
    environment, _ = bind(kernel.sizes, read, {**inputs, **written})
    for name, count in kernel.counts:
        environment[name] = count.value(environment)
    for buffer in kernel.buffers:
        if buffer.name in writes and buffer.name in written:
            environment[buffer.name] = guarded(written[buffer.name], buffer.name)
        elif buffer.name in writes:
            shape = tuple(environment[e] if isinstance(e, str) else e for e in buffer.extents)
            environment[buffer.name] = guarded(_undefined(shape, buffer.type), buffer.name)
    return environment


def _undefined(shape: Sequence[int], kind: str) -> Number:
    return np.full(shape, UNWRITTEN, np.int64) if kind == "i32" else np.full(shape, np.nan, np.float32)


class _Text(Text):
    """A kernel's statements as Python: with vectors, conditions, tiles and what tensor cores do."""

    def __init__(self, kernel: kernels.ScheduledKernel) -> None:
        nodes = tuple(walk(kernel))
        tiles = [node for node in nodes if isinstance(node, kernels.Tile)]
        arrays: list[loops.Buffer | kernels.Tile] = [*kernel.buffers, *tiles]
        self.extents = {array.name: array.extents for array in arrays}
        inside = (walk(loop) for loop in nodes if isinstance(loop, kernels.Loop) and loop.step > 1)
        super().__init__(
            kernel.body,
            {array.name: len(array.extents) for array in arrays},
            frozenset(array.name for array in arrays if array.type == "i32"),
            dict(kernel.sizes),
            kernels.vector_indices(kernel),
            frozenset(node.name for each in inside for node in each if isinstance(node, loops.Accumulator)),
        )

    def result_of(self, node: Node) -> str | None:
        return kernels.result_of(node)

    def reads_of(self, node: Node) -> tuple[str, ...]:
        return kernels.reads_of(node)

    def load(self, load: loops.Load) -> str:
        if not isinstance(load, kernels.CheckedLoad):
            return super().load(load)
        checks, self.checks = self.checks, False  # it is for indices that may be outside
        value = super().load(load)
        self.checks = checks
        places = [(index, extent) for index, extent in zip(load.indices, self.extents[load.buffer], strict=True)]
        each = (
            f"0 <= {self.atom(index)} <= {self.atom(extent)} - {self.widths.get(str(index), 1)}"
            for index, extent in places
            if index in load.checked
        )
        inside = " and ".join(each)
        if checks:
            self.line(f"if {inside}:")
            self._depth += 1
            self.check(load.buffer, load.indices)
            self._depth -= 1
        nothing = self.constant(0 if load.buffer in self.indices else np.float32(0))
        return f"{value} if {inside} else {nothing}"

    def statement(self, statement: Node) -> None:
        match statement:
            case kernels.Loop():
                extent = statement.extent
                upper = self.count(extent) if isinstance(extent, kernels.Count) else self.atom(extent)
                self.loop(f"{self.atom(statement.lower)}, {upper}, {statement.step}", statement)
            case kernels.Where():
                left, right = self.atom(statement.left), self.atom(statement.right)
                with self.inside(f"if {left} {statement.comparison} {right}:"):
                    self.each(statement.body)
            case kernels.Tile():
                undefined = np.int64(UNWRITTEN) if statement.type == "i32" else np.float32(np.nan)
                self.undefined(statement.name, statement.extents, undefined)
            case kernels.Search():
                self.search(statement)
            case kernels.Multiply():
                self.multiply(statement)
            case kernels.Reduce() | kernels.Barrier():
                pass
            case kernels.Copy():
                value = self.loaded(statement.buffer, statement.buffer_indices)
                self.line(f"{self.element(statement.target, statement.indices)} = {value}")
            case _:
                super().statement(statement)

    def count(self, count: kernels.Count) -> str:
        """A number that is known when the kernel starts."""
        known = self.constant(count.value)
        self.head(f"{known}_value = {known}(environment)")
        return f"{known}_value"

    def search(self, search: kernels.Search) -> None:
        lower, upper = self.atom(search.lower), self.atom(search.upper)
        if self.checks:
            array, told = self.name(search.buffer), f"{self.constant(outside)}({self.constant(search.buffer)}"
            self.line(f"if not 0 <= {lower} <= {upper} <= len({array}): {told}, {array}.shape, {lower}, {upper})")
        places = f"{self.name(search.buffer)}[{lower} : {upper}].searchsorted({self.atom(search.value)}, 'right')"
        self.line(f"{self.name(search.result)} = int({lower} + {places} - 1)")

    def multiply(self, statement: kernels.Multiply) -> None:
        """Adds to the rows of a register tile, whose elements in order are those of a matrix."""
        matrices = (
            (statement.target, statement.indices),
            (statement.left, statement.left_indices),
            (statement.right, statement.right_indices),
        )
        for name, at in matrices:
            self.check(name, at)
        texts = [f"{self.name(name)}[{', '.join(map(self.atom, at)) or '()'}]" for name, at in matrices]
        add = self.constant(partial(_add_product, statement))
        self.line(f"{add}({', '.join(texts)}, {self.atom(statement.column)})")

    def accumulate(self, statement: loops.Accumulate) -> None:
        if isinstance(statement, kernels.AtomicAccumulate) and statement.result:
            self.line(f"{self.name(statement.result)} = {self.loaded(statement.target, statement.indices)}")
        super().accumulate(statement)


def _add_product(statement: kernels.Multiply, target: Number, left: Number, right: Number, first: int) -> None:
    tall, low = _rows(left, statement)
    wide = right[: statement.depth, first : first + statement.columns]
    sums = target.reshape(-1, statement.columns)
    sums[: statement.rows] += product(tall, wide, statement.precision, low)


def _rows(slab: Number, statement: kernels.Multiply) -> tuple[Number, Number | None]:
    """A slab of the left operand, depth x rows, and what is below its numbers, where it has that too."""
    rows, depth = statement.rows, statement.depth
    if statement.warps == 1:
        return slab[:depth, :rows], None
    parts = slab if slab.ndim == 3 else slab[None]
    low = parts[1, :rows, :depth].T if len(parts) > 1 else None
    return parts[0, :rows, :depth].T, low
