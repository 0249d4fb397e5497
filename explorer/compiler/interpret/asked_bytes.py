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
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.frozen import dataclass
from explorer.compiler.interpret.functions import INDEX_ARRAY_FUNCTIONS, REDUCTIONS
from explorer.compiler.interpret.kernels import environments, given_extents, written_buffers
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import Atom, Node, walk
from explorer.compiler.kept import ByContent, content
from explorer.compiler.target import FLOAT_BYTES

Integers = npt.NDArray[np.int64]
Names = dict[str, Any]
"""What names are: a number, or one for each of the iterations that are gone through; of a tile, which of all that were
declared is theirs."""

MOST_AT_ONCE = 1 << 20
"""Iterations, or elements of the tiles that they declare, that are gone through at once: more are so in parts."""
COMPARISONS: dict[str, np.ufunc] = {"<": np.less, "<=": np.less_equal, "==": np.equal}
UNDEFINED = -1
"""What a tile of indices holds before it is stored in: nothing may depend on it."""


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
        asked = _counted_once(_Counting(kernel, names), repr(numbers), arrays)
        made = {name: names[name] for name in arrays if name in written_buffers(kernel)}
        kept = kernel.__dict__["_counted"] = (given, asked, made)
    for name, array in kept[2].items():
        names[name] = array
    found: int = kept[1]
    return found


_OUTLINED = ByContent[tuple[int, dict[str, Any]]](8 << 20, lambda found: 64 + sum(a.nbytes for a in found[1].values()))
"""By outline and arrays of indices what was counted, and the arrays that were filled."""


def _counted_once(counting: _Counting, numbers: str, arrays: Mapping[str, Any]) -> int:
    """The same, counted once for kernels of the same outline: a person who edits a formula changes what is computed of
    rows, and seldom which rows are looked up."""
    key = content(numbers, _Outline(counting).told, arrays)
    found = _OUTLINED.get(key)
    if found is None:
        asked = counting.bytes()
        filled = {name: array.copy() for name, array in arrays.items() if name in written_buffers(counting.kernel)}
        _OUTLINED.put(key, (asked, filled))
        return asked
    for name, array in found[1].items():
        counting.environment[name] = array.copy()
    return found[0]


def _holds_indices(value: Any) -> bool:
    return bool(np.issubdtype(np.asarray(value).dtype, np.integer))


@dataclass(frozen=True)
class _Inside:
    """What there is in a statement and inside it: the names that are read, whether it `stores` something needed, asks
    memory for something, and how many elements its tiles of indices have."""

    reads: frozenset[str] = frozenset()
    stores: bool = False
    asks: bool = False
    elements: int = 0


class _Counting:
    """A walk over a kernel: each of several iterations at once stands for `times` [n] of them."""

    def __init__(self, kernel: kernels.ScheduledKernel, environment: dict[str, Any]) -> None:
        self.kernel, self.environment = kernel, environment
        self.sizes = dict(kernel.sizes)
        self.arrays = {buffer.name: buffer.element_bytes for buffer in kernel.buffers}
        self.widths = kernels.vector_indices(kernel)
        self.nodes = list(walk(kernel))[1:]
        tiles = {node.name for node in self.nodes if isinstance(node, kernels.Tile) and node.type == "i32"}
        self.indices = {buffer.name for buffer in kernel.buffers if buffer.type == "i32"} | tiles
        self.needed = self._needed()
        self.tiles: dict[str, Integers] = {}  # by name, all that were declared at once: [n, *extents]
        self.insides: dict[int, _Inside] = {}  # by the id of a node of the kernel
        for statement in kernel.body:
            self._look_inside(statement)
        self.asked = 0

    def bytes(self) -> int:
        """The bytes that are asked for; arrays of indices that the kernel writes are filled."""
        self.block(self.kernel.body, {}, np.ones(1, np.int64))
        return self.asked

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
        if isinstance(node, (kernels.Loop, kernels.Where, kernels.Tile)):
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

    def _look_inside(self, node: Node) -> _Inside:
        """What there is in a statement, and in each of those inside it."""
        inner = [self._look_inside(each) for each in getattr(node, "body", ())]
        kept, target = self.keeps(node, self.needed), getattr(node, "target", "")
        elements = sum(each.elements for each in inner)
        if isinstance(node, kernels.Tile) and node.name in self.needed:
            elements = prod(map(self.size, node.extents))
        found = _Inside(
            frozenset((*kernels.reads_of(node), target)).union(*(each.reads for each in inner)),
            (kept and target in self.needed) or any(each.stores for each in inner),
            self.bytes_of(node) > 0 or (kept and isinstance(node, kernels.Search)) or any(each.asks for each in inner),
            elements,
        )
        self.insides[id(node)] = found
        return found

    def block(self, body: Sequence[Any], names: Names, times: Integers) -> None:
        """Statements that are done by so many iterations at once."""
        names, total = dict(names), int(times.sum())
        for statement in body:
            inside = self.insides[id(statement)]
            match statement:
                case kernels.Loop() | kernels.Where() if not (inside.stores or inside.asks):
                    pass
                case kernels.Loop():
                    self.loop(statement, names, times)
                case kernels.Where():
                    self.where(statement, names, times)
                case kernels.Tile():
                    if statement.name in self.needed:
                        shape = (len(times), *map(self.size, statement.extents))
                        self.tiles[statement.name] = np.full(shape, UNDEFINED, np.int64)
                        names[statement.name] = np.arange(len(times))
                case _:
                    self.asked += self.bytes_of(statement) * total
                    if self.keeps(statement, self.needed):
                        self.statement(statement, names, times)

    def where(self, where: kernels.Where, names: Names, times: Integers) -> None:
        """A condition: those of the iterations where it holds."""
        left, right = self.value(where.left, names), self.value(where.right, names)
        holds = np.broadcast_to(COMPARISONS[where.comparison](left, right), times.shape)
        self.some(where, np.flatnonzero(holds), names, times)

    def some(self, node: kernels.Loop | kernels.Where, which: Integers, names: Names, times: Integers) -> None:
        """A body, done by some of the iterations."""
        if len(which) == len(times):
            self.block(node.body, names, times)
        elif len(which):
            self.block(node.body, self.chosen(node, which, names), times[which])

    def chosen(self, node: kernels.Loop | kernels.Where, which: Integers, names: Names) -> Names:
        """What the names that are read inside are in some of the iterations."""
        reads = self.insides[id(node)].reads
        return {name: value[which] if np.ndim(value) else value for name, value in names.items() if name in reads}

    def loop(self, loop: kernels.Loop, names: Names, times: Integers) -> None:
        """A loop: at once where its iterations are alike, are shared, or leave nothing behind; else one by one."""
        lower, upper = self.value(loop.lower, names), self.extent(loop.extent, names)
        trips = np.broadcast_to(np.maximum(0, -((lower - upper) // loop.step)), times.shape)
        stores = self.insides[id(loop)].stores
        if loop.variable not in self.needed and not stores:
            some = np.flatnonzero(trips)
            self.some(loop, some, names, times * trips)
        elif loop.bind or not stores:
            self.at_once(loop, lower, trips, names, times)
        else:
            for turn in range(int(trips.max(initial=0))):
                self.some(loop, np.flatnonzero(trips > turn), names | {loop.variable: lower + loop.step * turn}, times)

    def at_once(self, loop: kernels.Loop, lower: Any, trips: Integers, names: Names, times: Integers) -> None:
        """All iterations of a loop, in parts where they are too many."""
        lower, ends = np.broadcast_to(lower, times.shape), np.cumsum(trips)
        room = max(1, MOST_AT_ONCE // max(1, self.insides[id(loop)].elements))
        for first in range(0, int(ends[-1]), room):
            places = np.arange(first, min(first + room, int(ends[-1])))
            around = np.searchsorted(ends, places, "right")
            within = places - (ends - trips)[around]
            inside = self.chosen(loop, around, names)
            self.block(loop.body, inside | {loop.variable: lower[around] + loop.step * within}, times[around])

    def extent(self, extent: Any, names: Names) -> Any:
        if isinstance(extent, kernels.Count):
            return np.int64(extent.value({name: int(self.value(name, names)) for name in extent.names}))
        return self.value(extent, names)

    def size(self, extent: Any) -> int:
        """A static extent, or one that is known when the kernel starts."""
        return int(self.value(extent, {}))

    def value(self, atom: Any, names: Names) -> Any:
        """A number, or one for each iteration."""
        if not isinstance(atom, str):
            return np.int64(atom)
        found = names.get(atom, self.sizes.get(atom))
        return np.int64(self.environment[atom]) if found is None else found

    def bytes_of(self, node: Node) -> int:
        """The bytes that one statement asks for, once."""
        match node:
            case kernels.Copy():
                return self.of_access(node.buffer, node.buffer_indices)
            case loops.Load():
                return self.of_access(node.buffer, node.indices)
            case kernels.AtomicAccumulate() | loops.Store():
                return self.of_access(node.target, node.indices)
            case loops.Accumulate():
                return 2 * self.of_access(node.target, node.indices)
        return 0

    def of_access(self, array: str, indices: Sequence[Atom]) -> int:
        if array not in self.arrays:
            return 0
        return self.arrays[array] * max((self.widths.get(str(index), 1) for index in indices), default=1)

    def statement(self, node: Any, names: Names, times: Integers) -> None:
        """What is needed of a statement."""
        match node:
            case kernels.Search():
                names[node.result] = self.found(node, names, times)
            case loops.Load():
                array, place = self.element(node.buffer, node.indices, names)
                names[node.result] = array[place].astype(np.int64)
            case loops.Index():
                names[node.result] = self.computed(node.function, node.operands, names)
            case loops.Store(operands=(_, *_)) | loops.Accumulate():
                self.change(node, names, times)
            case _:
                raise UncountableError

    def found(self, search: kernels.Search, names: Names, times: Integers) -> Integers:
        """The last places of offsets that hold at most a value, by halves, as a GPU looks for them."""
        lower, upper, value = (
            np.broadcast_to(self.value(each, names), times.shape) for each in (search.lower, search.upper, search.value)
        )
        if search.buffer in self.arrays:
            steps = np.frexp(np.maximum(0, upper - lower))[1]  # the bits of the number
            self.asked += FLOAT_BYTES * int((times * steps).sum())
        first, last = lower.copy(), upper.copy()
        while len(still := np.flatnonzero(first < last)):
            middle = (first[still] + last[still]) // 2
            here = {search.buffer: names[search.buffer][still]} if search.buffer in names else {}
            array, place = self.element(search.buffer, ("middle",), {**here, "middle": middle})
            below = array[place] <= value[still]
            first[still[below]], last[still[~below]] = middle[below] + 1, middle[~below]
        return first - 1

    def change(self, node: loops.Store | loops.Accumulate, names: Names, times: Integers) -> None:
        """What is stored in an array of indices, or added to it; of what several change, one after another."""
        array, place = self.element(node.target, node.indices, names)
        value = np.broadcast_to(self.computed(node.function, node.operands, names), times.shape)
        place = tuple(np.broadcast_to(each, times.shape) for each in place)
        if isinstance(node, loops.Store):
            array[place] = value
            return
        if getattr(node, "result", ""):
            names[str(kernels.result_of(node))] = _before(array, place, value)
        REDUCTIONS[node.reduction].at(array, place, value)

    def element(self, name: str, indices: Sequence[Atom], names: Names) -> tuple[Any, tuple[Any, ...]]:
        """An array, and where in it an access of each iteration is; by one index, all of it is one row."""
        places = tuple(self.value(index, names) for index in indices)
        own: tuple[Any, ...] = (names[name],) if name in names else ()
        array = self.tiles[name] if own else np.asarray(self.environment[name])
        if len(places) == 1 < array.ndim - len(own):
            array = array.reshape(*array.shape[: len(own)], -1)
        return array, (*own, *places)

    def computed(self, function: str, operands: Sequence[Atom], names: Names) -> Any:
        known = [self.value(operand, names) for operand in operands]
        if function == "copy":
            return known[0]
        if function not in INDEX_ARRAY_FUNCTIONS:
            raise UncountableError
        return INDEX_ARRAY_FUNCTIONS[function](*known)


class _Outline:
    """What the bytes of a kernel depend on besides its arrays and numbers: of what is computed only what decides, and
    how much the rest asks for. What the kernel itself names goes by the order in which it first occurs."""

    def __init__(self, counting: _Counting) -> None:
        self._counting = counting
        self._numbers: dict[str, str] = {}
        self.told = repr((counting.kernel.sizes, self._block(counting.kernel.body)))

    def _block(self, body: Sequence[Any]) -> tuple[Any, ...]:
        counting, asked, found = self._counting, 0, list[Any]()
        for node in body:
            inside = counting.insides[id(node)]
            match node:
                case kernels.Loop() if inside.stores or inside.asks:
                    needed = node.variable in counting.needed
                    bounds = self._name(node.lower), self._extent(node.extent), node.step
                    found.append(
                        ("loop", self._name(node.variable), *bounds, node.bind, needed, self._block(node.body))
                    )
                case kernels.Where() if inside.stores or inside.asks:
                    holds = self._name(node.left), node.comparison, self._name(node.right)
                    found.append(("where", *holds, self._block(node.body)))
                case kernels.Loop() | kernels.Where():
                    pass
                case kernels.Tile():
                    if node.name in counting.needed:
                        found.append(("tile", self._name(node.name), tuple(map(self._name, node.extents))))
                case _:
                    asked += counting.bytes_of(node)
                    if counting.keeps(node, counting.needed):
                        found.append(self._statement(node))
        return asked, *found

    def _statement(self, node: Any) -> tuple[Any, ...]:
        """All that `_Counting.statement` takes of one."""
        name, result = self._name, self._name(kernels.result_of(node) or "")
        match node:
            case kernels.Search():
                asks = node.buffer in self._counting.arrays
                return "search", result, name(node.buffer), asks, name(node.lower), name(node.upper), name(node.value)
            case loops.Load():
                return "load", result, name(node.buffer), tuple(map(name, node.indices))
            case loops.Index():
                return "index", result, node.function, tuple(map(name, node.operands))
            case loops.Store() | loops.Accumulate():
                changed = name(node.target), tuple(map(name, node.indices))
                how = getattr(node, "reduction", ""), bool(getattr(node, "result", ""))
                return "change", result, *changed, *how, node.function, tuple(map(name, node.operands))
        return "uncountable", repr(node)

    def _extent(self, extent: Any) -> Any:
        if isinstance(extent, kernels.Count):
            return self._name(extent.times), tuple((self._name(each), by) for each, by in extent.terms)
        return self._name(extent)

    def _name(self, atom: Any) -> Any:
        """A number, an array or a size as it is, and what the kernel names by its place among those."""
        given = self._counting.sizes, self._counting.environment
        if not isinstance(atom, str) or not atom or any(atom in names for names in given):
            return atom
        return self._numbers.setdefault(atom, f"%{len(self._numbers)}")


def _before(array: Integers, place: tuple[Integers, ...], value: Integers) -> Integers:
    """What elements hold before each of some numbers is added to them, one after another."""
    flat = np.ravel_multi_index(place, array.shape)
    order = np.argsort(flat, kind="stable")
    sums = np.cumsum(value[order]) - value[order]
    begins = np.flatnonzero(np.diff(flat[order], prepend=-1))
    own = np.repeat(sums[begins], np.diff(begins, append=len(flat)))
    found = np.empty_like(value)
    found[order] = sums - own
    return found + array[place]


def _decides(node: Node) -> Iterator[str]:
    """The names that decide how often something is done."""
    match node:
        case kernels.Loop() | kernels.Where() | kernels.Search():
            yield from kernels.reads_of(node)
