"""The bytes that kernels ask memory for, counted: each is gone through with its indices, and without its numbers.

Every load, store and atomic of an array in the GPU's memory asks for 4 bytes, or as many times that as its vector has
elements; what all lanes of a warp load alike counts once. Caches are not thought of, so this is what reaches the first
of them. Loops and conditions are followed as they come out on given arrays of indices; a loop whose iterations are
alike is gone through once and counted as often as it has some.

    for g in 0..64 step 4 @lane 16          bytes += 16 * 16
      v = X[src, g]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from explorer.compiler.interpret.kernels import environments, given_extents, written_buffers
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.index_functions import INDEX_FUNCTIONS
from explorer.compiler.ir.node import Atom, Node, walk
from explorer.compiler.target import FLOAT_BYTES

OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "//", "mod": "%"}


class UncountableError(Exception):
    """Numbers decide what a kernel asks for."""


def asked_bytes(programs: Sequence[kernels.ScheduledKernel], inputs: Mapping[str, Any]) -> dict[str, int]:
    """By kernel the bytes that it asks memory for, all run in order on arrays by name; of what cannot be counted,
    nothing."""
    found: dict[str, int] = {}
    lost: set[str] = set()
    for kernel, names in environments(programs, inputs, given_extents(programs, inputs), {}):
        try:
            if lost & {buffer.name for buffer in kernel.buffers}:
                raise UncountableError
            found[kernel.name] = _counted(kernel, names)
        except UncountableError:
            lost |= {name for name in written_buffers(kernel) if _holds_indices(names[name])}
    return found


def _counted(kernel: kernels.ScheduledKernel, names: dict[str, Any]) -> int:
    """The bytes of one kernel, whose arrays of indices are filled. Kept with the kernel, which other schedules of the
    text have as well, until it is counted on something else."""
    arrays = {name: value for name, value in names.items() if np.ndim(value) and _holds_indices(value)}
    numbers = tuple((name, value) for name, value in names.items() if not np.ndim(value))
    given = (numbers, tuple((name, array.shape, array.tobytes()) for name, array in arrays.items()))
    kept = kernel.__dict__.get("_counted")
    if kept is None or kept[0] != given:
        asked = _Text(kernel).run(names)
        made = {name: array for name, array in arrays.items() if name in written_buffers(kernel)}
        kept = kernel.__dict__["_counted"] = (given, asked, made)
    for name, array in kept[2].items():
        names[name] = array
    found: int = kept[1]
    return found


def _holds_indices(value: Any) -> bool:
    return bool(np.issubdtype(np.asarray(value).dtype, np.integer))


class _Text:
    """A kernel's indices as Python: what decides which iterations there are, and what later kernels' depend on."""

    def __init__(self, kernel: kernels.ScheduledKernel) -> None:
        self.kernel = kernel
        self.arrays = {buffer.name for buffer in kernel.buffers}
        self.widths = kernels.vector_indices(kernel)
        self.nodes = list(walk(kernel))[1:]
        tiles = {node.name for node in self.nodes if isinstance(node, kernels.Tile) and node.type == "i32"}
        self.indices = {buffer.name for buffer in kernel.buffers if buffer.type == "i32"} | tiles
        self.needed = self._needed()
        self.lines: list[str] = []
        self.places: dict[str, str] = {}
        self.trips = 0

    def run(self, environment: Mapping[str, Any]) -> int:
        """The bytes."""
        self.block(self.kernel.body, 1, "1")
        head = [f" {self.name(name)} = E[{name!r}]" for name in list(self.places) if name in environment]
        names: dict[str, Any] = {f"f_{name}": function for name, function in INDEX_FUNCTIONS.items()}
        names |= {"E": environment, "undefined": np.full}
        exec("\n".join(["def run():", " c = 0", *head, *self.lines, " return c"]), names)
        return int(names["run"]())

    def _needed(self) -> set[str]:
        """The names that decide, and arrays of indices among them."""
        found = {name for node in self.nodes for name in _decides(node)}
        found |= self.indices & set(written_buffers(self.kernel))
        while True:
            more = {name for node in self.nodes if self.keeps(node, found) for name in self.reads(node)}
            if more <= found:
                return found
            found |= more

    def keeps(self, node: Node, needed: set[str]) -> bool:
        """Whether a statement makes a name, or stores in an array, that is needed."""
        if isinstance(node, kernels.Loop | kernels.Where | kernels.Tile):
            return False
        target = getattr(node, "target", None)
        return kernels.result_of(node) in needed or (target in needed and target in self.indices)

    def reads(self, node: Node) -> Iterator[str]:
        """What a statement that is kept depends on."""
        if isinstance(node, loops.Compute) or (isinstance(node, loops.Load) and node.buffer not in self.indices):
            raise UncountableError
        yield from kernels.reads_of(node)
        target = getattr(node, "target", None)
        if isinstance(target, str):
            yield target

    def name(self, name: str) -> str:
        return self.places.setdefault(name, f"n{len(self.places)}")

    def atom(self, atom: Atom) -> str:
        return self.name(atom) if isinstance(atom, str) else str(atom)

    def line(self, depth: int, text: str) -> None:
        self.lines.append(" " * depth + text)

    def block(self, body: Sequence[Any], depth: int, times: str) -> None:
        """Statements that are done so many times."""
        asked = 0
        for statement in body:
            match statement:
                case kernels.Loop():
                    self.loop(statement, depth, times)
                case kernels.Where():
                    left, right = self.atom(statement.left), self.atom(statement.right)
                    self.nested(f"if {left} {statement.comparison} {right}:", statement.body, depth, times)
                case kernels.Tile():
                    if statement.name in self.needed:
                        shape = ", ".join(self.known(extent) for extent in statement.extents)
                        self.line(depth, f"{self.name(statement.name)} = undefined(({shape},), -1)")
                case _:
                    asked += self.asked(statement)
                    if self.keeps(statement, self.needed):
                        self.statement(statement, depth, times)
        if asked:
            self.line(depth, f"c += {asked} * {times}")

    def nested(self, head: str, body: Sequence[Any], depth: int, times: str) -> None:
        """Statements below a line; neither, where they ask for nothing."""
        place = len(self.lines)
        self.line(depth, head)
        self.block(body, depth + 1, times)
        if len(self.lines) == place + 1:
            self.lines.pop()

    def loop(self, loop: kernels.Loop, depth: int, times: str) -> None:
        """A loop: each iteration where they differ, else one for all."""
        upper = self.extent(loop.extent)
        bounds = f"{self.atom(loop.lower)}, {upper}, {loop.step}"
        if loop.variable in self.needed or any(self.stores(node) for node in walk(loop)):
            self.nested(f"for {self.name(loop.variable)} in range({bounds}):", loop.body, depth, times)
            return
        self.trips += 1
        trips, place = f"t{self.trips}", len(self.lines)
        self.line(depth, f"{trips} = len(range({bounds}))")
        self.nested(f"if {trips}:", loop.body, depth, f"{times} * {trips}")
        if len(self.lines) == place + 1:
            self.lines.pop()

    def extent(self, extent: Any) -> str:
        if isinstance(extent, kernels.Count):
            terms = [f"-(-{self.known(name)} // {by})" for name, by in extent.terms]
            return f"{self.known(extent.times)} * ({' + '.join(terms)})"
        return self.known(extent)

    def known(self, extent: Any) -> str:
        """An extent, which the kernel's sizes may give."""
        sizes = dict(self.kernel.sizes)
        return str(sizes[extent]) if extent in sizes else self.atom(extent)

    def stores(self, node: Node) -> bool:
        """Whether a statement leaves something behind that is needed."""
        return getattr(node, "target", None) in self.needed & self.indices

    def asked(self, node: Any) -> int:
        """The bytes that one statement asks for, once."""
        match node:
            case kernels.Copy():
                return self.bytes(node.buffer, node.buffer_indices)
            case loops.Load():
                return self.bytes(node.buffer, node.indices)
            case kernels.AtomicAccumulate() | loops.Store():
                return self.bytes(node.target, node.indices)
            case loops.Accumulate():
                return 2 * self.bytes(node.target, node.indices)
        return 0

    def bytes(self, array: str, indices: Sequence[Atom]) -> int:
        if array not in self.arrays:
            return 0
        return FLOAT_BYTES * max((self.widths.get(str(index), 1) for index in indices), default=1)

    def statement(self, node: Any, depth: int, times: str) -> None:
        match node:
            case kernels.Search():
                lower, upper, value = (self.atom(each) for each in (node.lower, node.upper, node.value))
                array, result = self.name(node.buffer), self.name(node.result)
                places = f"{array}[{lower}:{upper}].searchsorted({value}, 'right')"
                self.line(depth, f"{result} = {lower} + int({places}) - 1")
                if node.buffer in self.arrays:
                    self.line(depth, f"c += {FLOAT_BYTES} * {times} * max(0, {upper} - {lower}).bit_length()")
            case loops.Load():
                self.line(depth, f"{self.name(node.result)} = int({self.element(node.buffer, node.indices)})")
            case loops.Index():
                self.line(depth, f"{self.name(node.result)} = {self.value(node.function, node.operands)}")
            case loops.Store() | loops.Accumulate():
                self.change(node, depth)
            case _:
                raise UncountableError

    def change(self, node: Any, depth: int) -> None:
        """What is stored in an array of indices, or added to it."""
        element, value = self.element(node.target, node.indices), self.value(node.function, node.operands)
        if getattr(node, "result", ""):
            self.line(depth, f"{self.name(node.result)} = int({element})")
        if isinstance(node, loops.Accumulate):
            value = {"sum": f"{element} + {value}"}.get(node.reduction, f"{node.reduction}({element}, {value})")
        self.line(depth, f"{element} = {value}")

    def element(self, array: str, indices: Sequence[Atom]) -> str:
        return f"{self.name(array)}[{', '.join(map(self.atom, indices)) or '()'}]"

    def value(self, function: str, operands: Sequence[Atom]) -> str:
        known = [self.atom(operand) for operand in operands]
        if function == "copy":
            return known[0]
        if function in OPERATORS:
            return f"({known[0]} {OPERATORS[function]} {known[1]})"
        if function not in INDEX_FUNCTIONS:
            raise UncountableError
        return f"f_{function}({', '.join(known)})"


def _decides(node: Node) -> Iterator[str]:
    """The names that decide how often something is done."""
    match node:
        case kernels.Loop() | kernels.Where() | kernels.Search():
            yield from kernels.reads_of(node)
