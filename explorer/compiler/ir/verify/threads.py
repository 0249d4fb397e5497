"""The rules of threads that work together: where a register lives, when its parts are put together, who waits."""

from __future__ import annotations

from typing import NamedTuple

from explorer.compiler.ir.kernels import (
    Barrier,
    Loop,
    Multiply,
    Reduce,
    ScheduledKernel,
    ShuffledLoad,
    Statement,
    Tile,
    Where,
    inputs_of,
    reads_of,
)
from explorer.compiler.ir.loops import Accumulate, Accumulator, Load, Store
from explorer.compiler.ir.node import Atom, walk
from explorer.compiler.ir.verify.order import verify_order
from explorer.compiler.ir.verify.products import spread_of, verify_product
from explorer.compiler.ir.verify.sharing import (
    LANES,
    Path,
    Share,
    broken,
    dependences,
    iterations,
    shared_loops,
    statements,
)

NEUTRAL = {"sum": 0.0, "product": 1.0}
"""Where parts begin, so that putting them together counts the start once; a maximum may begin anywhere."""
BELOW = {"block": ("warp", "lane", "thread"), "warp": ("lane", "thread")}
"""The levels whose loops a barrier must not stand in: not all that it waits for come by as often."""


def verify_threads(kernel: ScheduledKernel, shared: dict[str, Share]) -> None:
    """Raises VerificationError for registers that no thread owns, sums whose parts are read, barriers that some threads
    do not reach, and memory that one thread reads and another has not surely written."""
    registers = _registers(kernel, shared)
    _verify_barriers(kernel)
    _verify_shuffles(kernel, registers, shared)
    _verify_joins(kernel, shared)
    _Sums(kernel, shared, registers).body(kernel.body, ())
    verify_order(kernel, shared)


def _verify_barriers(kernel: ScheduledKernel) -> None:
    for statement, path in statements(kernel):
        if isinstance(statement, Barrier):
            for loop in shared_loops(path):
                if loop.bind in BELOW[statement.level]:
                    raise broken(statement, f"not all threads reach it alike, in a loop over {loop.bind}s")


def _verify_shuffles(
    kernel: ScheduledKernel, registers: dict[str, tuple[Share | None, ...]], shared: dict[str, Share]
) -> None:
    """All lanes of a warp come to a shuffle, and each holds the one element of its number, of the same row."""
    for statement, path in statements(kernel):
        if not isinstance(statement, ShuffledLoad):
            continue
        if any(loop.bind in BELOW["warp"] for loop in shared_loops(path)):
            raise broken(statement, "not all lanes reach it alike")
        *own, last = registers.get(statement.buffer, (None,))
        if last != Share("lane", 0, LANES, 1, LANES, 1):
            raise broken(statement, f"no lane holds the one element of its number in {statement.buffer}")
        if own != _spread(kernel, statement, statement.indices[:-1], path, shared):
            raise broken(statement, f"{statement.buffer} is spread over other threads elsewhere")


def _verify_joins(kernel: ScheduledKernel, shared: dict[str, Share]) -> None:
    """The lanes that a Reduce joins come by together: loops around it tell only groups of them apart, or those between
    the ones that it joins, of which all come, since the whole group takes part in the exchange."""
    accumulators = {node.name for node in walk(kernel) if isinstance(node, Accumulator)}
    accumulators |= {node.name for node in walk(kernel) if isinstance(node, Tile) and node.memory == "register"}
    depends = dependences(kernel)
    for statement, path in statements(kernel):
        if not isinstance(statement, Reduce):
            continue
        if statement.target not in accumulators:
            raise broken(statement, f"{statement.target} is no accumulator")
        for loop in shared_loops(path):
            share = shared[loop.variable]
            if loop.bind not in ("lane", "thread") or share.stride % (statement.lanes * statement.apart) == 0:
                continue
            if statement.apart % (share.stride * share.members):
                raise broken(statement, f"the loop over {loop.variable} takes the lanes that it joins apart")
            for block in path[path.index(loop) + 1 :]:
                if any(loop.variable in depends.get(name, ()) for name in reads_of(block)):
                    raise broken(statement, f"some of the lanes between, by {loop.variable}, may not come there")


def _registers(kernel: ScheduledKernel, shared: dict[str, Share]) -> dict[str, tuple[Share | None, ...]]:
    """By register tile, how each dimension is spread over threads; None where each thread has all of it."""
    tiles = {node.name: node for node in walk(kernel) if isinstance(node, Tile) and node.memory == "register"}
    found: dict[str, tuple[Share | None, ...]] = {}
    for statement, path in statements(kernel):
        lanes: tuple[Share | None, ...] = ()
        if isinstance(statement, Multiply):
            verify_product(kernel, statement, path)
            lanes = spread_of(statement)
        for name, indices in _elements(statement):
            if name not in tiles:
                continue
            if len(indices) + len(lanes) != len(tiles[name].extents):
                raise broken(statement, f"{name} has {len(tiles[name].extents)} dimensions")
            spread = (*_spread(kernel, statement, indices, path, shared), *lanes)
            if found.setdefault(name, spread) != spread:
                raise broken(statement, f"{name} is spread over other threads elsewhere")
    return found


def _spread(
    kernel: ScheduledKernel, statement: Statement, indices: tuple[Atom, ...], path: Path, shared: dict[str, Share]
) -> list[Share | None]:
    """How the dimensions of a register tile are spread that a statement has these indices in."""
    loops = {loop.variable: loop for loop in path if isinstance(loop, Loop)}
    return [_dimension(kernel, statement, index, loops, shared) for index in indices]


def _dimension(
    kernel: ScheduledKernel, statement: Statement, index: Atom, loops: dict[str, Loop], shared: dict[str, Share]
) -> Share | None:
    if not isinstance(index, str):
        return None
    if index not in loops:
        raise broken(statement, f"{index} is the variable of no loop around, so no register has this element")
    loop, trips = loops[index], iterations(kernel, loops[index])
    if loop.bind:
        return shared[index]
    if trips is None or (loop.unroll and loop.unroll < trips):
        raise broken(statement, f"the loop over {index} is not unrolled, so no register has this element")
    return None


def _elements(statement: Statement) -> list[tuple[str, tuple[Atom, ...]]]:
    """The elements of arrays that a statement touches, of registers its own."""
    match statement:
        case ShuffledLoad():
            return []
        case Load():
            return [(statement.buffer, statement.indices)]
        case Store() | Accumulate() if statement.indices:
            return [(statement.target, statement.indices)]
        case Multiply():
            return [(statement.target, statement.indices)]
    return []


class _Sum(NamedTuple):
    """What an accumulator or a register tile holds: in all threads the same (`whole`), or parts of it in each."""

    start: float | None = None  # the constant that it still holds
    parts: frozenset[Share] = frozenset()  # the loops whose members hold parts
    reduction: str = ""  # of the parts

    def meet(self, other: _Sum) -> _Sum:
        """What it may hold where two ways meet."""
        start = self.start if self.start == other.start else None
        return _Sum(start, self.parts | other.parts, self.reduction or other.reduction)


def _touched_sums(kernel: ScheduledKernel) -> dict[int, set[str]]:
    """By the identity of each statement that touches or declares accumulators and register tiles, or has one that does
    inside it, those that are touched."""
    touched: dict[int, set[str]] = {}
    sums = {node.name for node in walk(kernel) if isinstance(node, (Accumulator, Tile))}
    if not sums:
        return touched
    for statement, path in statements(kernel):
        names = {name for name in reads_of(statement) if name in sums}
        if isinstance(statement, Store) and statement.target in sums:
            names.add(statement.target)
        if names or isinstance(statement, (Accumulator, Tile)):
            for block in (*path, statement):
                touched.setdefault(id(block), set()).update(names)
    return touched


class _Sums:
    """Follows the accumulators through a kernel."""

    def __init__(
        self, kernel: ScheduledKernel, shared: dict[str, Share], registers: dict[str, tuple[Share | None, ...]]
    ) -> None:
        self.kernel, self.shared, self.registers = kernel, shared, registers
        self.depends = dependences(kernel)
        self.sums: dict[str, _Sum] = {}
        self.declared: dict[str, Path] = {}
        self.touched = _touched_sums(kernel)
        self.after: dict[tuple[tuple[int, ...], tuple[_Sum, ...]], tuple[_Sum, ...]] = {}

    def body(self, body: tuple[Statement, ...], path: Path) -> None:
        for statement in body:
            if id(statement) not in self.touched:
                continue
            self._reads(statement)
            match statement:
                case Loop() | Where():
                    self._block(statement, path)
                case Accumulator():
                    self.sums[statement.name], self.declared[statement.name] = _Sum(statement.start), path
                case Tile() if statement.memory == "register":
                    self.sums[statement.name], self.declared[statement.name] = _Sum(), path
                case Store() if statement.target in self.sums:
                    self._store(statement, path)
                case Accumulate() if statement.target in self.sums:
                    self._accumulate(statement, path)
                case Multiply():
                    self._multiply(statement, path)
                case Reduce() if statement.target in self.sums:
                    self._reduce(statement)

    def _block(self, block: Loop | Where, path: Path) -> None:
        """The body once, and again after itself where it is a loop's; or not at all."""
        names = [name for name in self.touched[id(block)] if name in self.sums]
        before = self._held(names)
        skipped = not (isinstance(block, Loop) and iterations(self.kernel, block))
        for _ in range(2 if isinstance(block, Loop) else 1):
            after = self._body_after(block, path, names)
            if skipped:
                after = tuple(held.meet(start) for held, start in zip(after, before, strict=True))
            self.sums |= zip(names, after, strict=True)

    def _body_after(self, block: Loop | Where, path: Path, names: list[str]) -> tuple[_Sum, ...]:
        """What the sums from outside hold after a block's body, which is followed once for all that they held before:
        what goes round in nested loops soon stays the same."""
        key = tuple(map(id, (*path, block))), self._held(names)
        if key not in self.after:
            outside = dict(self.sums)
            self.body(block.body, (*path, block))
            self.after[key] = self._held(names)
            self.sums = outside
        return self.after[key]

    def _held(self, names: list[str]) -> tuple[_Sum, ...]:
        return tuple(self.sums[name] for name in names)

    def _reads(self, statement: Statement) -> None:
        """What is read is whole; an accumulation's own target, and a Reduce's, may be in parts."""
        if isinstance(statement, Reduce):
            return
        for name in inputs_of(statement):
            if name in self.sums and self.sums[name].parts:
                raise broken(statement, f"{name} is read before its parts are put together")

    def _outside(self, target: str, indices: tuple[Atom, ...], path: Path) -> list[Loop]:
        """The bound loops around a statement and inside the target's declaration that tell no elements apart."""
        inside = shared_loops(path[len(self.declared[target]) :])
        return [loop for loop in inside if loop.variable not in indices]

    def _store(self, store: Store, path: Path) -> None:
        apart = self._outside(store.target, store.indices, path)
        if store.indices:  # an element of a tile that several threads keep, and all give the same value
            value = set().union(*(self.depends.get(str(operand), ()) for operand in store.operands))
            apart = [loop for loop in apart if loop.variable in value]
        if apart:
            raise broken(store, f"{store.target} is of all iterations over {apart[0].variable}, and each stores it")
        constant = store.operands[0] if store.function == "copy" else None
        self.sums[store.target] = _Sum(constant if isinstance(constant, float) else None)

    def _accumulate(self, statement: Accumulate, path: Path) -> None:
        held = self.sums[statement.target]
        outside = self._outside(statement.target, statement.indices, path)
        apart = [loop for loop in outside if loop.bind not in ("lane", "thread")]
        if apart:
            raise broken(statement, f"nothing joins what {apart[0].bind}s add to {statement.target}")
        neutral = NEUTRAL.get(statement.reduction)
        if held.parts and (held.reduction != statement.reduction or (not outside and neutral is not None)):
            raise broken(statement, f"{statement.target} is in parts, which are not put together yet")
        if not outside:
            self.sums[statement.target] = held._replace(start=None)
            return
        if not held.parts and neutral is not None and held.start != neutral:
            raise broken(statement, f"every thread that adds to {statement.target} begins with what it holds already")
        parts = frozenset(self.shared[loop.variable] for loop in outside)
        self.sums[statement.target] = _Sum(held.start, held.parts | parts, statement.reduction)

    def _multiply(self, product: Multiply, path: Path) -> None:
        apart = self._outside(product.target, product.indices, path)
        if apart:
            raise broken(product, f"nothing joins what {apart[0].bind}s add to {product.target}")
        self.sums[product.target] = self.sums[product.target]._replace(start=None)

    def _reduce(self, reduce: Reduce) -> None:
        held, reach = self.sums[reduce.target], reduce.lanes * reduce.apart
        if held.parts and held.reduction != reduce.reduction:
            raise broken(reduce, f"the parts of {reduce.target} are of another reduction")
        if not held.parts and reduce.reduction in NEUTRAL and held.start != NEUTRAL[reduce.reduction]:
            raise broken(reduce, f"{reduce.target} is whole, and would be counted {reduce.lanes} times")
        for part in held.parts:
            if not part.within(reach) or part.stride < reduce.apart:
                raise broken(reduce, f"it joins fewer than all that hold parts of {reduce.target}")
        for owner in self.registers.get(reduce.target, ()):
            inside = owner is not None and owner.level in ("lane", "thread")
            if owner and inside and not (owner.within(reduce.apart) or owner.stride >= reach):
                raise broken(reduce, f"it joins lanes that hold different elements of {reduce.target}")
        self.sums[reduce.target] = _Sum()
