"""Kernels: the loops' nests scheduled for a GPU. CUDA text comes from these alone.

A scheduled nest is still the nest: read as a sequential program, with barriers and reductions as remarks, it computes
what the loops compute. What a schedule adds is who does an iteration (`@block`, `@warp`, `@lane`, `@thread`), where a
tile lives (registers, shared memory), how wide an access is (a loop's step), and what waits for what.

- Loops bound to the same level, one inside the other, number its members together, the inner ones fastest: `q in 0..4
  @lane` around `l in 0..8 @lane` gives each of four elements eight lanes. A bound loop with more iterations than there
  are members goes round again; with fewer, the others sit out. A `width` says how many neighbouring members share a
  loop, whatever its iterations: `d in 0..128 step 4 @lane 8` is shared by the lanes of each eight, in four rounds. All
  eights do it alike, unless a lane loop around it (`z in begin..end @lane 4`) tells them apart. `apart` says where
  they are, whatever stands inside: `x in 0..64 step 4 @thread 16 apart 2` is shared by every other thread of each 32,
  so that a loop around it, `near in 0..2 @thread 2 apart 1`, gives each two neighbours the same `x`.
- A loop with a `step` above 1 is a vector loop: an access whose last index is its variable is of `step` consecutive
  elements at once, and what is computed from such values is computed for each of them. Its bounds are multiples of
  the step, and so are the row lengths of what it accesses. A vector that goes into a scalar is reduced on the way.
  A sum of its variable and another index is a vector index too; where such an index is not the last of an access,
  that is of single elements, one for each of the vector (a transposed store). A condition looks at its first element.
- A tile declared inside a loop belongs to that iteration: shared memory declared under a warp's loop is a slice for
  each warp. A register tile's dimensions are each indexed by one bound loop's variable, always of the same bounds,
  step and level (the element then lives with the thread that has that iteration), or by unrolled loops' variables and
  constants (each thread has all of them).
- `index i = select(own, a, b)` is a where `own` is not 0, and b where it is. `index less = a < b` is 1 where it holds,
  else 0.
- A Copy goes from memory into shared memory while its thread goes on; a barrier that waits for copies has them arrive.
- A Multiply adds a product of matrices to a register tile: a warp does it together, on tensor cores.
- What stands inside a loop over lanes is done by the lanes, each for its iterations; what stands outside is done by
  all lanes alike, and stored by one. An accumulator of the outside that lanes add to holds a part in each lane until
  a Reduce. Likewise for warps and threads.

Sources: cuKE §V and §VI, Hector §3.3 and §3.4.1, G-Sparse §III-B; the notation `@level` is Exo's and Halide's idea.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from explorer.compiler.decisions import Chosen
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.facts import Fact
from explorer.compiler.ir.loops import (
    Accumulate,
    Accumulator,
    Buffer,
    Compute,
    Index,
    Load,
    Store,
)
from explorer.compiler.ir.node import Atom, Extent, Node, once, walk

Level = Literal["", "block", "column", "warp", "lane", "thread"]
"""Who shares a loop's iterations: the grid's blocks (by x, or by y: a column), a block's warps, a warp's lanes, or all
threads of a block; "" is nobody, each does them all."""

Memory = Literal["register", "shared"]

ElementType = Literal["f32", "i32"]
"""What the elements of a tile are: numbers, or indices."""

Precision = Literal["tf32", "tf32x3"]
"""What tensor cores multiply in."""

TF32_PARTS = ("as_tf32", "below_tf32")
"""Functions of numbers: the nearest number of TF32's 11 bits, and what is left behind the first 11."""

ROLLED = -1
"""How many iterations of a loop stand side by side that the compiler may not unroll."""


@dataclass(frozen=True)
class Count:
    """A number known at run time, `ceil(B / 64) + relation`: the sum of its terms, each an extent over a divisor,
    rounded up; `17 * B` or `blocks * B` is one extent so many times, a number or what another extent or count is."""

    terms: tuple[tuple[Extent, int], ...]
    times: Extent = 1

    def __str__(self) -> str:
        times = f"{self.times} * " if self.times != 1 else ""
        return times + " + ".join(f"ceil({extent} / {by})" if by != 1 else str(extent) for extent, by in self.terms)

    def value(self, extents: Mapping[str, int]) -> int:
        """The number, of the extents by name."""
        times, *known = (extent if isinstance(extent, int) else extents[extent] for extent in self._extents)
        return times * sum(-(-extent // by) for extent, (_, by) in zip(known, self.terms, strict=True))

    @property
    def _extents(self) -> tuple[Extent, ...]:
        return (self.times, *(extent for extent, _ in self.terms))

    @property
    def names(self) -> tuple[str, ...]:
        """The extents and counts that it is made of."""
        return tuple(extent for extent in self._extents if isinstance(extent, str))


@dataclass(frozen=True, kw_only=True)
class Loop(Node):
    """`for d in 0..D step 4 @lane 8 unroll 4`. `unroll` is how many iterations stand side by side: a number, 0 for all
    of them, 1 for as many as the compiler likes, or ROLLED (`for q in 0..4 rolled`) for one all the same; `width` how
    many members of the level share them, 0 for as many as there are iterations, and `apart` how far these are from one
    another, 0 for as many as share the loops inside. The extent of a loop over blocks may be a Count."""

    variable: str
    extent: Extent | Count
    body: tuple[Statement, ...]
    lower: Extent = 0
    step: int = 1
    bind: Level = ""
    unroll: int = 1
    width: int = 0
    apart: int = 0


@dataclass(frozen=True, kw_only=True)
class Where(Node):
    """`where b < B`: the body only where it holds; `comparison` is "<", "<=" or "=="."""

    left: Atom
    comparison: str
    right: Atom
    body: tuple[Statement, ...]


@dataclass(frozen=True, kw_only=True)
class Tile(Node):
    """`shared P1[16, 128]`, `register y[K]`: a small array of static extents; its contents start undefined. In
    shared memory the last extent has `padding` more elements, which keep columns out of one another's bank. The
    elements of an `i32` tile are indices.

    `shared left[2, 64, 32] swizzled`: of each 8 rows of 32 the vectors of 4 are exchanged, those of row r by r % 8 as
    an exclusive or, so that columns of vectors lie in different banks, as tensor cores read them on their own."""

    name: str
    extents: tuple[Extent, ...]
    memory: Memory
    padding: int = 0
    type: ElementType = "f32"
    swizzled: bool = False


@dataclass(frozen=True, kw_only=True)
class Reduce(Node):
    """`reduce s sum over 32 lanes`: the parts of an accumulator that neighbouring lanes hold, put together in all of
    them; `lanes` is a power of 2. As a sequential program: nothing.

    `reduce y sum over 4 lanes apart 8` joins those of lanes l, l + 8, l + 16 and l + 24: of an accumulator, or of each
    element of a register tile that is spread over each eight. Only the lanes that take part need come here.

    `reduce s sum over 8 lanes in parts`: not by exchanges, but through a tile of the warp's in shared memory, which has
    an element a lane and serves nothing else."""

    target: str
    reduction: str
    lanes: int
    apart: int = 1
    parts: str = ""


@dataclass(frozen=True, kw_only=True)
class Barrier(Node):
    """`barrier block`, `barrier warp`: all threads of the block, or of the warp, have come this far, and see what the
    others stored before. `barrier block after copies`: and what they copied before."""

    level: Literal["block", "warp"]
    copies: bool = False


@dataclass(frozen=True, kw_only=True)
class Copy(Store):
    """`copy right[stage, d, x] = P[r, k, n]`: a vector of 4 elements of an array that the kernel only reads, into
    shared memory. Its thread goes on at once; until a barrier after copies nobody may touch the elements, not even that
    thread. As a sequential program: a load and a store."""

    function: str = "copy"
    operands: tuple[Atom, ...] = ()
    buffer: str
    buffer_indices: tuple[Atom, ...]


@dataclass(frozen=True, kw_only=True)
class AtomicAccumulate(Accumulate):
    """`atomic out[n, d] += y`: into an element of a buffer that other threads add to as well; the reduction is sum.

    `rank = atomic count[ir] += 1`: `result` names what the element held before, an index where the buffer's are."""

    result: str = ""


@dataclass(frozen=True, kw_only=True)
class KeptLoad(Load):
    """`x = X[c, d] kept marked`: a load of what caches are to keep longest, or, where the index `kept` is negative,
    to give up first. Nobody writes the array in this kernel. As a sequential program: the load."""

    kept: Atom


@dataclass(frozen=True, kw_only=True)
class CheckedLoad(Load):
    """`s = y[n, d] checked n`: a load that looks while the kernel runs whether those of its indices are inside, and is
    0, and touches no memory, where one is not."""

    checked: tuple[Atom, ...]


@dataclass(frozen=True, kw_only=True)
class ShuffledLoad(Load):
    """`u = vector[w, e, q] shuffled`: a load of a register tile's element that another lane of the warp may hold: it is
    lane q, for the last dimension has an element a lane. All lanes of the warp come here. As a sequential program: the
    load."""


@dataclass(frozen=True, kw_only=True)
class Search(Node):
    """`index r = last row_ptr[lower..upper] <= z`: the last place of ascending offsets that hold at most `value`."""

    result: str
    buffer: str
    value: Atom
    lower: Atom
    upper: Atom


@dataclass(frozen=True, kw_only=True)
class Multiply(Node):
    """`multiply y[strip] += left[stage] * right[stage] from first over 64 x 32 x 16 in tf32x3`: to the elements of a
    register tile, `left` transposed times `right`: rows x columns, summed over the depth.

    Both operands lie in shared memory, `left` as depth x rows, `right` as depth x columns, of which those from
    `column` on are meant. A warp does it together, so no loop over lanes is around it, and the tile must be spread over
    lanes as `verify_products` says: behind its `indices`, its elements in order are the rows, and those the columns.

    The sums are float32. In tf32 the operands are rounded to 11 bits; in tf32x3 each is the sum of two such numbers,
    and three of the four products are taken. As a sequential program: a product of such numbers.

    `multiply ... in tf32x3 by 4 warps`: each four warps of the block do it together, each for its own sums. `left` is
    then rows x depth and swizzled, and already in the precision: rounded, or of two parts, each rows x depth, which are
    the numbers and what is below them (`below_tf32`). All warps of the block come here."""

    target: str
    indices: tuple[Atom, ...]
    left: str
    left_indices: tuple[Atom, ...]
    right: str
    right_indices: tuple[Atom, ...]
    column: Atom
    rows: int
    columns: int
    depth: int
    precision: Precision
    warps: int = 1


Statement = (
    Loop
    | Where
    | Tile
    | Reduce
    | Barrier
    | Search
    | Multiply
    | Load
    | Index
    | Compute
    | Accumulator
    | AtomicAccumulate
    | Accumulate
    | Copy
    | Store
)


@dataclass(frozen=True, kw_only=True)
class ScheduledKernel(Node):
    """One kernel of the GPU: `threads` a block. `schedule` is how it came about, a primitive a line. The body is one
    loop over blocks, or such a loop around one over columns.

    `resident` is how many blocks a multiprocessor is to have at a time, which leaves each thread so many registers; 0
    leaves it to the assembler. `counts` are the numbers that launching needs besides the extents of arrays that are
    given: a buffer that the kernel makes may have them as extents. One that runs `once` reads only what is given with
    a graph and what others of its kind write, so whoever launches need not do it again for the same graph. Elements of
    the arrays that are `streamed` are read or stored but once, so caches need not keep them.

    `facts` are of arrays of indices that it makes, as far as these do not follow from each single store (`facts`).

    `chosen` are the decisions that were taken, by kernel, for this one and those that are made with it.

    Where an earlier kernel has counted how many blocks are `busy`, this names its array of one index: the blocks behind
    have nothing to do, and whoever knows it need not launch them."""

    name: str
    template: str
    sizes: tuple[tuple[str, int], ...]
    buffers: tuple[Buffer, ...]
    threads: int
    schedule: tuple[str, ...]
    body: tuple[Statement, ...]
    counts: tuple[tuple[str, Count], ...] = ()
    resident: int = 0
    once: bool = False
    streamed: tuple[str, ...] = ()
    busy: str = ""
    chosen: Chosen = ()
    facts: tuple[Fact, ...] = field(default=(), compare=False)

    def size(self, extent: Extent) -> int:
        """The number that a static extent stands for; KeyError for those known only at run time."""
        return extent if isinstance(extent, int) else dict(self.sizes)[extent]


def result_of(statement: Node) -> str | None:
    """The name that a statement defines, if any."""
    of_class = type(statement)
    if of_class not in _RESULTS:
        _RESULTS[of_class] = _result_field(statement)
    field = _RESULTS[of_class]
    return (getattr(statement, field) or None) if field else None


_RESULTS: dict[type, str] = {}


def _result_field(statement: Node) -> str:
    """The field of a statement's class that has the name it defines; "" where there is none."""
    match statement:
        case Loop() | loops.For():
            return "variable"
        case Tile() | loops.Row() | Accumulator():
            return "name"
        case Search() | AtomicAccumulate() | Load() | Index() | Compute():
            return "result"
    return ""


@once
def defined_in(node: Node) -> frozenset[str]:
    """The names that a statement defines, and those inside it, or inside a kernel."""
    name, body = result_of(node), node.body if isinstance(node, (Loop, Where, ScheduledKernel)) else ()
    own = frozenset() if name is None else frozenset((name,))
    return own.union(*map(defined_in, body)) if body else own


@once
def reads_of(statement: Node) -> tuple[str, ...]:
    """The names that a statement itself reads: atoms, buffers and tiles, not those of what is inside."""
    atoms: tuple[Atom, ...]
    match statement:
        case Loop(extent=Count() as count):
            atoms = (statement.lower, *count.names)
        case Loop(extent=str() | int() as extent):
            atoms = (statement.lower, extent)
        case Where():
            atoms = (statement.left, statement.right)
        case KeptLoad():
            atoms = (*loops.reads_of(statement), statement.kept)
        case Search():
            atoms = (statement.buffer, statement.value, statement.lower, statement.upper)
        case Reduce():
            atoms = (statement.target, *([statement.parts] if statement.parts else []))
        case Copy():
            atoms = (statement.target, *statement.indices, statement.buffer, *statement.buffer_indices)
        case Multiply():
            arrays = (statement.target, statement.left, statement.right)
            indices = (*statement.indices, *statement.left_indices, *statement.right_indices, statement.column)
            atoms = (*arrays, *indices)
        case _:
            return loops.reads_of(statement)
    return tuple(atom for atom in atoms if isinstance(atom, str))


def inputs_of(statement: Node) -> tuple[str, ...]:
    """The names that a statement itself reads, but for the target that it accumulates into."""
    return reads_of(statement)[isinstance(statement, loops.Accumulate) :]


@once
def vector_indices(kernel: ScheduledKernel) -> Mapping[str, int]:
    """The indices that stand for several consecutive ones, and for how many: the variables of vector loops, and what
    a sum or difference makes of them, or a rest by a number of whole vectors."""
    widths: dict[str, int] = {}
    for node in walk(kernel):
        if isinstance(node, Loop) and node.step > 1:
            widths[node.variable] = node.step
        elif isinstance(node, Index):
            wide = [widths[operand] for operand in node.operands if isinstance(operand, str) and operand in widths]
            widths |= dict.fromkeys([node.result], wide[0]) if wide and stays_wide(node, wide[0]) else {}
    return widths


def stays_wide(index: Index, width: int) -> bool:
    """Whether arithmetic on an index of a vector gives one: of columns 8 to 11 those of a row of 12, but not the row,
    which is the same for all."""
    *_, by = index.operands
    return index.function in ("add", "sub") or (index.function == "mod" and isinstance(by, int) and by % width == 0)
