"""The rule of memory that threads share: what one stores and another reads, or stores, has a barrier between."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from explorer.compiler.ir.index_forms import index_forms
from explorer.compiler.ir.kernels import (
    AtomicAccumulate,
    Barrier,
    Loop,
    ScheduledKernel,
    Search,
    Statement,
    Tile,
    Where,
)
from explorer.compiler.ir.loops import Accumulate, Index, Load, Store
from explorer.compiler.ir.node import Atom, walk
from explorer.compiler.ir.sharing import (
    GRID,
    LANES,
    Path,
    Share,
    broken,
    dependences,
    is_shared,
    iterations,
    shared_loops,
    with_paths,
)

NOTHING, WARP, BLOCK, KERNEL = range(4)
"""What threads may wait for one another at; the blocks of a kernel cannot."""
MEETS = {"warp": WARP, "block": BLOCK}
Kind = Literal["read", "write", "atomic"]
OWN = (frozenset({"thread"}), frozenset({"warp", "lane"}))
"""The levels at which a thread of a block does its own work."""


@dataclass(frozen=True)
class _Access:
    """An access to an element of memory that threads share. `stale` are variables of loops that went on since, `older`
    those that went on more than once; `fixed` are shared loops of whose iterations one alone does it."""

    array: str
    indices: tuple[Atom, ...]
    kind: Kind
    around: tuple[str, ...]  # the variables of the shared loops
    levels: frozenset[str]  # at which each member does it for itself; at others all read alike, one writes
    fixed: frozenset[tuple[Atom, Atom]] = frozenset()  # by variable, the iteration
    stale: frozenset[str] = frozenset()
    older: frozenset[str] = frozenset()
    waited: int = NOTHING  # the widest barrier since


def _access(array: str, indices: tuple[Atom, ...], kind: Kind, path: Path) -> _Access:
    loops = shared_loops(path)
    levels = frozenset(loop.bind for loop in loops if loop.bind not in GRID)
    variables = tuple(loop.variable for loop in loops)
    wheres = (step for step in path if isinstance(step, Where) and step.comparison == "==")
    fixed = frozenset((w.left, w.right) for w in wheres if w.left in variables and isinstance(w.right, int))
    return _Access(array, indices, kind, variables, levels, fixed)


def verify_order(kernel: ScheduledKernel, shared: dict[str, Share]) -> None:
    """Raises VerificationError where a thread may touch what another one writes, and none waits."""
    _Order(kernel, shared).body(kernel.body, ())


class _Order:
    """Follows the accesses through a kernel; `pending` are those that a later one may disturb."""

    def __init__(self, kernel: ScheduledKernel, shared: dict[str, Share]) -> None:
        self.kernel, self.shared = kernel, shared
        self.loops = {node.variable: node for node in walk(kernel) if isinstance(node, Loop)}
        self.depends = dependences(kernel)
        self.forms = index_forms(kernel)
        # By array, the loops that it is declared in: their iterations have an array each.
        self.scope: dict[str, frozenset[str]] = {
            node.name: frozenset(loop.variable for loop in shared_loops(path))
            for node, path in with_paths(kernel.body)
            if isinstance(node, Tile) and node.memory == "shared"
        }
        written = {node.target for node in walk(kernel) if isinstance(node, Store | Accumulate)}
        self.scope |= {buffer.name: frozenset() for buffer in kernel.buffers if buffer.name in written}
        self.tiles = {node.name for node in walk(kernel) if isinstance(node, Tile)}
        # By name, the loop whose iterations take turns: `stage = slab % 2` is another one in the next iteration.
        self.turns = {
            node.result: str(node.operands[0])
            for node in walk(kernel)
            if isinstance(node, Index) and node.function == "mod" and self._takes_turns(*node.operands)
        }
        self.found = {node.result for node in walk(kernel) if isinstance(node, Load)}
        self.stored: set[str] = set()
        self.pending: set[_Access] = set()

    def body(self, body: tuple[Statement, ...], path: Path) -> None:
        for statement in body:
            match statement:
                case Loop() | Where():
                    self._block(statement, path)
                case Barrier():
                    met = MEETS[statement.level]
                    self.pending = {replace(access, waited=max(access.waited, met)) for access in self.pending}
                case Tile():
                    self.pending = {access for access in self.pending if access.array != statement.name}
                case _:
                    self._touch(statement, path)

    def _block(self, block: Loop | Where, path: Path) -> None:
        """The body, and for a loop that nobody shares, again after itself; or not at all."""
        before = self.pending
        again = isinstance(block, Loop) and not is_shared(block)
        staged = isinstance(block, Loop) and block.variable in self.turns.values()
        for _ in range((3 if staged else 2) if again else 1):
            self.body(block.body, (*path, block))
            if isinstance(block, Loop) and again:
                self.pending = {self._after(access, block.variable) for access in self.pending}
        if staged and isinstance(block, Loop):  # where it begins again, the turns do not go on
            last = frozenset({block.variable})
            self.pending = {replace(access, older=access.older | (access.stale & last)) for access in self.pending}
        if not (isinstance(block, Loop) and iterations(self.kernel, block)):
            self.pending = self.pending | before

    def _after(self, access: _Access, variable: str) -> _Access:
        """An access as the next iteration sees it: what depends on the loop's variable has changed."""
        changes = any(variable in self.depends.get(str(index), ()) for index in access.indices)
        older = access.older | (access.stale & {variable})
        return replace(access, stale=access.stale | {variable}, older=older) if changes else access

    def _takes_turns(self, variable: Atom, turns: Atom) -> bool:
        loop = self.loops.get(str(variable))
        return loop is not None and not loop.bind and loop.step == 1 and isinstance(turns, int) and turns > 1

    def _scattered(self, access: _Access, other: _Access) -> bool:
        """Whether one store, in another iteration, goes where memory says: then that decides who writes what."""
        if access.kind != "write" or other.kind != "write" or access.indices != other.indices:
            return False
        scattered = (self.depends.get(str(index), frozenset()) for index in access.indices if index in self.found)
        return any(depends & other.stale for depends in scattered)

    def _by_turns(self, access: _Access, other: _Access) -> bool:
        """Whether the other access was one iteration before this one, and so has another turn."""
        shared = (str(mine) for mine, index in zip(access.indices, other.indices, strict=False) if mine == index)
        return any(self.turns[name] in other.stale - other.older for name in shared if name in self.turns)

    def _touch(self, statement: Statement, path: Path) -> None:
        match statement:
            case Load():
                access = _access(statement.buffer, statement.indices, "read", path)
            case Search():
                access = _access(statement.buffer, (), "read", path)
            case AtomicAccumulate():
                access = _access(statement.target, statement.indices, "atomic", path)
            case Accumulate() | Store() if statement.indices:
                access = _access(statement.target, statement.indices, "write", path)
            case _:
                return
        name = access.array
        if name in self.tiles and not isinstance(statement, Store) and name not in self.stored:
            raise broken(statement, f"{name} is read before anything is stored in it")
        self.stored |= {name}
        if name not in self.scope:
            return
        if access.kind == "write":
            self._alone(statement, access, path)
        for other in self.pending:
            self._apart(statement, access, other)
        self.pending = self.pending | {access}

    def _alone(self, statement: Statement, access: _Access, path: Path) -> None:
        """No two threads write to one element: each bound loop around tells elements apart, or but one writes."""
        told = set(self.scope[access.array]).union(*(self.depends.get(str(index), ()) for index in access.indices))
        for where in path:
            if isinstance(where, Where) and where.comparison == "==":
                left, right = (self.depends.get(str(side), frozenset()) for side in (where.left, where.right))
                told |= left ^ right
        for variable in access.around:
            if variable not in told and iterations(self.kernel, self.loops[variable]) != 1:
                raise broken(statement, f"all iterations over {variable} write to the same element")

    def _apart(self, statement: Statement, access: _Access, other: _Access) -> None:
        """Raises if two accesses may be of one element by different threads that have not waited."""
        kinds = {access.kind, other.kind}
        if access.array != other.array or kinds in ({"read"}, {"atomic"}) or self._by_turns(access, other):
            return
        if self._scattered(access, other):
            return
        mine, theirs = self._covered(access, other), self._covered(other, access)
        needed = max(self._level(access, mine), self._level(other, theirs))
        own = access.levels in OWN or (access.levels == {"lane"} and self.kernel.threads == LANES)
        alike = access.levels == other.levels and (own or kinds == {"write"})
        if needed == NOTHING and not alike:
            needed = WARP if self._in_a_warp(access) and self._in_a_warp(other) else BLOCK
        if needed > other.waited:
            waits = {WARP: "barrier warp", BLOCK: "barrier block", KERNEL: "kernel of its own"}[needed]
            verb = "written" if other.kind != "read" else "read"
            raise broken(statement, f"{access.array} was {verb} by other threads, with no {waits} between")

    def _in_a_warp(self, access: _Access) -> bool:
        return "warp" in access.levels or self.kernel.threads == LANES

    def _covered(self, access: _Access, other: _Access) -> frozenset[str]:
        """The bound loops whose iteration is the same where the two accesses meet in an element, by variable."""
        covered = self.scope[access.array] | {str(variable) for variable, _ in access.fixed & other.fixed}
        if len(access.indices) == len(other.indices):
            for index, match in zip(access.indices, other.indices, strict=True):
                if self._place(index, access) == self._place(match, other):
                    covered |= self._owners(index)
        return covered

    def _place(self, index: Atom, access: _Access) -> object:
        """What two indices that are equal have in common, where it decides who has them."""
        form = self.forms.get(str(index))
        if form is None or not form.tells_apart:
            return self._symbol(index, access)
        return form.start, frozenset((by, self._digit(name, access)) for name, by in form.terms)

    def _digit(self, name: str, access: _Access) -> object:
        """What a term stands for: where equal sums have equal terms, a loop's variable need not be the same again."""
        loop = self.loops.get(name)
        if loop is None or is_shared(loop):
            return self._symbol(name, access)
        return loop.lower, loop.extent, loop.step

    def _symbol(self, name: Atom, access: _Access) -> object:
        loop = self.loops.get(str(name))
        if loop is not None and is_shared(loop):
            return self.shared[loop.variable]
        known: object = name if loop is None else (loop.lower, loop.extent, loop.step)
        changed = (self.depends.get(str(name), frozenset()) - {name}) & access.stale
        return (known, access) if changed else known

    def _owners(self, index: Atom) -> set[str]:
        """The bound loops that decide who has an index."""
        form = self.forms.get(str(index))
        if form is None or not form.tells_apart:
            return {name for name in self.depends.get(str(index), ()) if is_shared(self.loops[name])}
        return set().union(*(self._deciding(name) for name, _ in form.terms))

    def _deciding(self, name: str) -> set[str]:
        if name in self.loops and is_shared(self.loops[name]):
            return {name}
        return {other for other in self.depends.get(name, ()) if is_shared(self.loops[other])}

    def _level(self, access: _Access, covered: frozenset[str]) -> int:
        """What threads must have waited at, of whom only the loops in `covered` are known to agree."""
        apart = [self.loops[variable].bind for variable in access.around if variable not in covered]
        if any(level in GRID for level in apart):
            return KERNEL
        if any(level in ("warp", "thread") for level in apart):
            return BLOCK
        return WARP if "lane" in apart else NOTHING
