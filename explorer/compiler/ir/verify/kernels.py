"""The rules of scheduled kernels: names, who may share what, and vectors; `verify_threads` has those of threads that
work together."""

from __future__ import annotations

from math import gcd

from explorer.compiler.ir.kernels import (
    ROLLED,
    AtomicAccumulate,
    Barrier,
    CheckedLoad,
    Copy,
    Count,
    KeptLoad,
    Level,
    Loop,
    Multiply,
    Reduce,
    ScheduledKernel,
    Search,
    Statement,
    Tile,
    Where,
    reads_of,
    result_of,
    vector_indices,
)
from explorer.compiler.ir.loops import (
    REDUCTION_SIGNS,
    Accumulate,
    Accumulator,
    Compute,
    Index,
    Load,
    Store,
    fixed_names,
)
from explorer.compiler.ir.node import Atom, VerificationError, once, walk
from explorer.compiler.ir.print.kernels import print_step
from explorer.compiler.ir.verify.outline import outline
from explorer.compiler.ir.verify.products import ROW
from explorer.compiler.ir.verify.sharing import (
    GRID,
    LANES,
    Path,
    Share,
    broken,
    capacity,
    iterations,
    shared_loops,
    shares,
    size_of,
    statements,
)
from explorer.compiler.ir.verify.threads import verify_threads
from explorer.compiler.kept import ENTRY_BYTES, ByContent

MOST_THREADS = 1024
"""Threads that a block may have."""
VECTORS = (2, 4)
"""Floats that one access may be of."""
COPIED = 4
"""Floats that one copy is of."""
COMPARISONS = ("<", "<=", "==")
ORDER: tuple[Level, ...] = ("block", "column", "warp", "lane")
"""Levels from the outside in; a loop over threads stands in the place of warps and lanes."""


_RIGHT = ByContent[bool](1 << 20, lambda _: ENTRY_BYTES)
"""The outlines of kernels that have been shown to keep the rules."""


@once
def verify_scheduled(kernel: ScheduledKernel) -> None:
    """Raises VerificationError, with the statement, for a kernel that breaks a rule of the IR. One that an edit has
    changed only in names, or in numbers that are computed with, has been looked at before."""
    digest = outline(kernel).digest
    if not _RIGHT.get(digest):
        _verify(kernel)
        _RIGHT.put(digest, True)


def _verify(kernel: ScheduledKernel) -> None:
    _verify_names(kernel)
    shared = shares(kernel)
    _verify_grid(kernel)
    for statement, path in statements(kernel):
        _verify_form(kernel, statement)
        if isinstance(statement, Loop) and statement.bind:
            _verify_level(statement, path)
            _verify_members(kernel, statement, path, shared)
    _Vectors(kernel).verify()
    verify_threads(kernel, shared)


def _verify_names(kernel: ScheduledKernel) -> None:
    counts = {name for name, _ in kernel.counts}
    launched = [count for _, count in kernel.counts]
    launched += [node.extent for node in walk(kernel) if isinstance(node, Loop) and isinstance(node.extent, Count)]
    extents = {extent for count in launched for extent in count.names}
    known = {buffer.name for buffer in kernel.buffers} | fixed_names(kernel.sizes, kernel.buffers) | counts | extents
    if len(kernel.body) == 1 and isinstance(kernel.body[0], Loop):
        known |= {kernel.body[0].extent} if isinstance(kernel.body[0].extent, str) else set()
    for array in kernel.streamed:
        if array not in {buffer.name for buffer in kernel.buffers}:
            raise VerificationError(f"{kernel.name} has no array {array} to stream")
    writable = {buffer.name for buffer in kernel.buffers if buffer.kind in ("output", "index")}
    _verify_scope(kernel.body, known, writable)
    defined = [name for node in walk(kernel) if (name := result_of(node)) is not None]
    if len(defined) != len(set(defined)):
        twice = sorted({name for name in defined if defined.count(name) > 1})
        raise VerificationError(f"defined twice: {', '.join(twice)}")


def _verify_scope(body: tuple[Statement, ...], known: set[str], writable: set[str]) -> None:
    """What is defined in a body is known and writable from there to its end: both sets are left as they were."""
    own: set[str] = set()
    for statement in body:
        if not statement.origin:
            raise VerificationError(f"no origin: {print_step(statement)}")
        for name in reads_of(statement):
            if name not in known:
                raise broken(statement, f"{name} is used before its definition")
        if isinstance(statement, (Accumulate, Store, Multiply)) and statement.target not in writable:
            raise broken(statement, f"{statement.target} may not be written")
        defined = result_of(statement)
        if defined is not None and defined in known:
            raise broken(statement, f"{defined} shadows")
        if defined is not None:
            known.add(defined)
            own.add(defined)
        if isinstance(statement, (Loop, Where)):
            _verify_scope(statement.body, known, writable)
            known.discard(defined or "")
        elif isinstance(statement, (Tile, Accumulator)):
            writable.add(statement.name)
    known -= own
    writable -= own


def _verify_grid(kernel: ScheduledKernel) -> None:
    """One loop over blocks, and perhaps one over columns in it: these are the grid that is launched."""
    if not 1 <= kernel.threads <= MOST_THREADS:
        raise VerificationError(f"{kernel.name} has {kernel.threads} threads a block, not 1 to {MOST_THREADS}")
    by_warps = any(isinstance(node, Loop) and node.bind in ("warp", "lane") for node in walk(kernel))
    if by_warps and kernel.threads % LANES:
        raise VerificationError(f"{kernel.name} has {kernel.threads} threads a block, no whole number of warps")
    grid = [(node, path) for node, path in statements(kernel) if isinstance(node, Loop) and node.bind in GRID]
    if len(kernel.body) != 1 or not grid or grid[0] != (kernel.body[0], ()) or grid[0][0].bind != "block":
        raise VerificationError(f"{kernel.name} is not one loop over blocks")
    if len(grid) > 2 or any(loop.bind != "column" or path != (kernel.body[0],) for loop, path in grid[1:]):
        raise broken(grid[1][0], "a grid is one loop over blocks, and at most one over columns in it")
    for loop, _ in grid:
        if loop.lower != 0 or loop.step != 1:
            raise broken(loop, "blocks are counted from 0, one by one")
        if loop.bind == "column" and size_of(kernel, loop.extent) is None:
            raise broken(loop, "the number of columns is not known when the kernel is compiled")


def _verify_form(kernel: ScheduledKernel, statement: Statement) -> None:
    """What the fields of one statement may be."""
    match statement:
        case Loop(extent=Count(terms=terms)) if statement.bind != "block" or (len(terms) == 1 and terms[0][1] == 1):
            raise broken(statement, "a count is how many blocks there are, and not an extent by itself")
        case Loop() if statement.width and statement.bind not in ("warp", "lane", "thread"):
            raise broken(statement, "only warps, lanes and threads share a loop by a width")
        case Loop() if statement.apart and not statement.width:
            raise broken(statement, "how many members are so far apart is not said")
        case Loop() if statement.unroll < ROLLED or min(statement.width, statement.apart) < 0 or statement.step < 1:
            raise broken(statement, "what a loop has is counted from 0")
        case Where() if statement.comparison not in COMPARISONS:
            raise broken(statement, f"a comparison is one of {', '.join(COMPARISONS)}")
        case KeptLoad() if statement.buffer not in {b.name for b in kernel.buffers if b.type == "f32"}:
            raise broken(statement, "caches keep what is loaded from an array of numbers")
        case KeptLoad() if any(getattr(node, "target", "") == statement.buffer for node in walk(kernel)):
            raise broken(statement, f"{statement.buffer} is written in this kernel, so caches may hold old elements")
        case CheckedLoad() if not (statement.checked and set(statement.checked) <= set(statement.indices)):
            raise broken(statement, "what is looked at is some of its indices")
        case Reduce():
            _verify_reduce(kernel, statement)
        case Copy():
            _verify_copy(kernel, statement)
        case Barrier() if statement.copies and statement.level != "block":
            raise broken(statement, "what threads copied is waited for by all of the block")
        case AtomicAccumulate() if statement.reduction != "sum" or not statement.indices:
            raise broken(statement, "an atomic adds to an element")
        case Tile() if any(size_of(kernel, extent) is None for extent in statement.extents):
            raise broken(statement, "the size of a tile is not known when the kernel is compiled")
        case Tile() if statement.padding and statement.memory == "register":
            raise broken(statement, "registers have no banks that padding keeps apart")


def _verify_reduce(kernel: ScheduledKernel, reduce: Reduce) -> None:
    powers = all(number > 0 and number & (number - 1) == 0 for number in (reduce.lanes, reduce.apart))
    if not powers or reduce.lanes * reduce.apart > LANES or reduce.reduction not in REDUCTION_SIGNS:
        raise broken(reduce, f"lanes are joined by powers of 2, within {LANES}")
    if reduce.parts:
        _verify_parts(kernel, reduce)


def _verify_parts(kernel: ScheduledKernel, reduce: Reduce) -> None:
    """A sum's parts go through a tile of the warp's own, of an element a lane, that serves nothing else."""
    tile = Tile(name=reduce.parts, extents=(LANES,), memory="shared", origin=())
    around = [path for statement, path in statements(kernel) if statement == tile]
    if not around:
        raise broken(reduce, f"{reduce.parts} is no tile of {LANES} numbers in shared memory")
    if "warp" not in {loop.bind for loop in shared_loops(around[0])}:
        raise broken(reduce, f"{reduce.parts} is not a warp's own")
    for statement, _ in statements(kernel):
        if isinstance(statement, (Tile, Reduce)):
            continue
        if reduce.parts in (*reads_of(statement), getattr(statement, "target", "")):
            raise broken(reduce, f"{reduce.parts} is there for the parts of sums alone")


def _verify_copy(kernel: ScheduledKernel, copy: Copy) -> None:
    """From an array that stays as it is, to a tile of numbers in shared memory."""
    tiles = {node.name: node for node in walk(kernel) if isinstance(node, Tile)}
    written = {node.target for node in walk(kernel) if isinstance(node, (Store, Accumulate))}
    target, read = tiles.get(copy.target), {buffer.name for buffer in kernel.buffers if buffer.type == "f32"} - written
    if target is None or target.memory != "shared" or target.type != "f32":
        raise broken(copy, f"{copy.target} is no tile of numbers in shared memory")
    if copy.buffer not in read:
        raise broken(copy, f"{copy.buffer} is no array of numbers that the kernel only reads")


def _verify_level(loop: Loop, path: Path) -> None:
    """Levels nest from blocks to lanes."""
    around = [outer.bind for outer in shared_loops(path)]
    inside = ("warp", "lane") if loop.bind == "thread" else (*ORDER[ORDER.index(loop.bind) + 1 :], "thread")
    wrong = [level for level in around if level in inside]
    if wrong:
        raise broken(loop, f"a loop over {loop.bind}s stands in one over {wrong[0]}s")


def _verify_members(kernel: ScheduledKernel, loop: Loop, path: Path, shared: dict[str, Share]) -> None:
    """A nest over one level has room in it, and its loops are digits of a member's number; only its outermost loop may
    go round again or run to a loaded bound."""
    if loop.bind in GRID:
        return
    share, most = shared[loop.variable], capacity(kernel, loop.bind)
    nested = any(outer.bind == loop.bind for outer in shared_loops(path))
    trips = iterations(kernel, loop)
    if nested and not loop.width and trips is None:
        raise broken(loop, f"how many {loop.bind}s share a loop inside another's is not known")
    needed = share.stride * (loop.width or (trips or 1 if nested else 1))
    if needed > most:
        raise broken(loop, f"{needed} {loop.bind}s are needed, and there are {most}")
    for outer in shared_loops(path):
        if outer.bind == loop.bind and (loop.apart or outer.apart):
            within, around = sorted((share, shared[outer.variable]), key=lambda share: share.stride)
            if around.stride % (within.stride * within.members):
                raise broken(loop, f"no {loop.bind} has one iteration each of it and of the loop over {outer.variable}")


class _Vectors:
    """Vector loops: whole vectors, of neighbouring elements, that begin where a vector may."""

    def __init__(self, kernel: ScheduledKernel) -> None:
        self.kernel = kernel
        self.wide = vector_indices(kernel)
        self.values: dict[str, int] = {}  # of the values that are vectors: their elements
        self.factors: dict[str, int] = dict(kernel.sizes)  # of each index: a number that divides it
        self.extents = {buffer.name: (buffer.extents, 0) for buffer in kernel.buffers}
        self.extents |= {node.name: (node.extents, node.padding) for node in walk(kernel) if isinstance(node, Tile)}

    def verify(self) -> None:
        for statement, _ in statements(self.kernel):
            match statement:
                case Loop():
                    self._loop(statement)
                case Index():
                    self._index(statement)
                case Load():
                    width = self._access(statement, statement.buffer, statement.indices)
                    self.values |= {statement.result: width} if width > 1 else {}
                case Compute():
                    width = self._operands(statement, statement.operands)
                    self.values |= {statement.result: width} if width > 1 else {}
                case Copy():
                    self._copy(statement)
                case Store() | Accumulate():
                    self._write(statement)
                case Multiply(warps=1) if self._factor(statement.column) % 2:
                    raise broken(statement, f"{statement.column} is not known to be even")
                case Multiply() if self._factor(statement.column) % COPIED:
                    raise broken(statement, f"{statement.column} is not known to be a multiple of {COPIED}")
                case Tile(swizzled=True):
                    self._swizzled(statement)
                case Where() | Search():
                    self._operands(statement, tuple(reads_of(statement)), most=1)
        if self.wide:
            self._sums()

    def _swizzled(self, tile: Tile) -> None:
        rows = [size_of(self.kernel, extent) for extent in tile.extents[-1:]]
        if tile.memory != "shared" or tile.type != "f32" or tile.padding or len(tile.extents) < 2 or rows != [ROW]:
            raise broken(tile, f"what is swizzled are rows of {ROW} numbers in shared memory")

    def _loop(self, loop: Loop) -> None:
        lower, upper = size_of(self.kernel, loop.lower), size_of(self.kernel, loop.extent)
        self.factors[loop.variable] = gcd(self._factor(loop.lower), loop.step)
        if loop.step == 1:
            return
        if loop.step not in VECTORS:
            raise broken(loop, f"a vector is of {' or '.join(map(str, VECTORS))} elements")
        if lower is None or upper is None or lower % loop.step or upper % loop.step:
            raise broken(loop, "the bounds of a vector loop are no multiples of its step")

    def _index(self, index: Index) -> None:
        *_, left, right = (self._factor(operand) for operand in index.operands)
        if index.function == "mul":
            self.factors[index.result] = left * right
        elif index.function in ("add", "sub", "min", "max", "select", "mod"):
            self.factors[index.result] = gcd(left, right)
        if (
            index.function == "div"
            and (width := self.wide.get(str(index.operands[0]), 1)) > 1
            and gcd(left, right) % width
        ):
            raise broken(index, f"the {width} elements of {index.operands[0]} may have different results")

    def _factor(self, atom: Atom) -> int:
        return self.factors.get(atom, 1) if isinstance(atom, str) else int(atom)

    def _access(self, statement: Load | Store | Accumulate, array: str, indices: tuple[Atom, ...]) -> int:
        """The width of an access, 1 for that of an element."""
        places = [place for place, index in enumerate(indices) if index in self.wide]
        if not places:
            return 1
        if len(places) > 1:
            raise broken(statement, "two of the indices are vectors")
        index, (extents, padding) = str(indices[places[0]]), self.extents[array]
        width = self.wide[index]
        if places[0] == len(indices) - 1:
            row = size_of(self.kernel, extents[-1])
            if len(indices) != len(extents) or (len(extents) > 1 and (row is None or (row + padding) % width)):
                raise broken(statement, f"the rows of {array} are no multiple of {width} elements")
            if self.factors.get(index, 1) % width:
                raise broken(statement, f"{index} is not known to be a multiple of {width}")
        return width

    def _operands(self, statement: Statement, operands: tuple[Atom, ...], most: int = max(VECTORS)) -> int:
        """The width of what is computed from operands."""
        widths = {self.values[operand] for operand in operands if operand in self.values}
        if len(widths) > 1 or any(width > most for width in widths):
            raise broken(statement, "vectors of different lengths meet")
        return widths.pop() if widths else 1

    def _copy(self, copy: Copy) -> None:
        widths = {
            self._access(copy, array, indices)
            for array, indices in ((copy.target, copy.indices), (copy.buffer, copy.buffer_indices))
            if indices and indices[-1] in self.wide
        }
        if widths != {COPIED} or not {copy.indices[-1], copy.buffer_indices[-1]} <= self.wide.keys():
            raise broken(copy, f"a copy is of {COPIED} consecutive elements")

    def _sums(self) -> None:
        """Looks at what is added, in vector loops, to what is declared outside them."""
        vectors: dict[str, int] = {}  # by accumulator and tile: how many vector loops are around it
        for statement, path in statements(self.kernel):
            if isinstance(statement, (Accumulator, Tile, Accumulate)):
                around = sum(isinstance(step, Loop) and step.step > 1 for step in path)
                if not isinstance(statement, Accumulate):
                    vectors[statement.name] = around
                elif around > vectors.get(statement.target, 0):
                    self._counted(statement)

    def _counted(self, add: Accumulate) -> None:
        """What is added up in a loop in vectors, from outside it, has their elements."""
        wide = [operand for operand in add.operands if operand in self.values or operand in self.wide]
        if not wide and add.reduction in ("sum", "product") and self.wide.keys().isdisjoint(add.indices):
            raise broken(add, "of a vector's elements, all the same, one is added")

    def _write(self, statement: Store | Accumulate) -> None:
        target = self._access(statement, statement.target, statement.indices) if statement.indices else 1
        value = self._operands(statement, statement.operands)
        if value > 1 and value != target and (isinstance(statement, Store) or target > 1):
            raise broken(statement, f"a vector of {value} goes where {target} can be")
