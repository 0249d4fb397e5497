"""The rule of memory that threads share: what one stores and another reads, or stores, has a barrier between.

Each body is looked at once. What matters of it outside is a `Summary`: which accesses an earlier one may meet, and
with which barrier before them; which a later one may meet, and with which barrier after them. Statements in a row, and
the iterations of a loop, are put together of those.

Where there are copies to a tile, only a barrier after copies settles what they touch: a copy is done by no thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from explorer.compiler.ir.kernels import (
    AtomicAccumulate,
    Barrier,
    Copy,
    Loop,
    Multiply,
    ScheduledKernel,
    Search,
    Statement,
    Tile,
    Where,
    vector_indices,
)
from explorer.compiler.ir.loops import Accumulate, Compute, Index, Load, Store
from explorer.compiler.ir.node import Atom
from explorer.compiler.ir.verify.index_forms import IndexForms
from explorer.compiler.ir.verify.sharing import (
    GRID,
    LANES,
    Path,
    Share,
    broken,
    dependences,
    is_shared,
    iterations,
    shared_loops,
    statements,
)
from explorer.compiler.ir.verify.summaries import (
    ARRIVED,
    BLOCK,
    KERNEL,
    NONE,
    NOTHING,
    WARP,
    Access,
    Around,
    Kind,
    Past,
    Place,
    Summary,
    covered,
    in_another,
)

MEETS = {"warp": WARP, "block": BLOCK}
WRITES: tuple[Kind, ...] = ("write", "copy")
OWN = (frozenset({"thread"}), frozenset({"warp", "lane"}))
"""The levels at which a thread of a block does its own work."""
WAITS = {
    WARP: "barrier warp",
    BLOCK: "barrier block",
    ARRIVED: "barrier block after copies",
    KERNEL: "kernel of its own",
}
VERBS: dict[Kind, str] = {
    "read": "read by other threads",
    "write": "written by other threads",
    "copy": "copied to",
    "atomic": "written by other threads",
}


class _Turn(NamedTuple):
    """`(slab + 1) % 2`: an index that goes round with a loop nobody shares."""

    loop: str
    ahead: int
    every: int


def verify_order(kernel: ScheduledKernel, shared: dict[str, Share]) -> None:
    """Raises VerificationError where a thread may touch what another one writes, and none waits."""
    _Order(kernel, shared).body(kernel.body, ())


class _Order:
    """Follows the accesses through a kernel."""

    def __init__(self, kernel: ScheduledKernel, shared: dict[str, Share]) -> None:
        self.kernel, self.shared = kernel, shared
        self.depends, self.forms = dependences(kernel), IndexForms(kernel)
        self.sizes, self.widths = dict(kernel.sizes), vector_indices(kernel)
        self.loops: dict[str, Loop] = {}
        self.scope: dict[str, frozenset[str]] = {}  # by array, the loops whose iterations have one each
        self.tiles: set[str] = set()
        self.turns: dict[str, _Turn] = {}
        self.copied: set[str] = set()
        self.found: set[str] = set()
        self.stored: set[str] = set()
        self.places: dict[Atom, Place] = {}
        self.numbers: dict[object, int] = {}
        self.here: Around | None = None
        self._note(kernel)
        self.bound = frozenset(variable for variable, loop in self.loops.items() if is_shared(loop))
        self.turning = {turn.loop for turn in self.turns.values()}

    def _note(self, kernel: ScheduledKernel) -> None:
        """Notes what the kernel declares, finds and writes."""
        written: set[str] = set()
        for statement, path in statements(kernel):
            match statement:
                case Index(function="mod"):
                    self._turn(statement)
                case Load():
                    self.found.add(statement.result)
                case Loop():
                    self.loops[statement.variable] = statement
                case Tile():
                    self.tiles.add(statement.name)
                    if statement.memory == "shared":
                        self.scope[statement.name] = frozenset(loop.variable for loop in shared_loops(path))
                case Store() | Accumulate():
                    written.add(statement.target)
                    if isinstance(statement, Copy):
                        self.copied.add(statement.target)
                    elif isinstance(statement, AtomicAccumulate):
                        self.found.add(statement.result)
        self.scope |= {buffer.name: NONE for buffer in kernel.buffers if buffer.name in written}

    def body(self, body: tuple[Statement, ...], path: Path) -> Summary:
        """What a body does; raises for what goes wrong in it."""
        before = Summary()
        for statement in body:
            match statement:
                case Index() | Compute():
                    pass
                case Loop() | Where():
                    self._after(before, self._block(statement, path))
                case Barrier():
                    before.then(Summary(passed=ARRIVED if statement.copies else MEETS[statement.level]))
                case Tile():
                    before.then(Summary(renewed={statement.name}))
                case _:
                    for array, indices, kind in _touched(statement):
                        access = self._access(statement, array, indices, kind, path)
                        if access is not None:
                            done = Summary({array: {access: NOTHING}}, {array: {Past(access): NOTHING}})
                            self._after(before, done)
        return before

    def _after(self, before: Summary, summary: Summary) -> None:
        """Adds what is done next to what has been."""
        self._meet(before.last, summary.first)
        before.then(summary)

    def _block(self, block: Loop | Where, path: Path) -> Summary:
        """The body, and for a loop that nobody shares, again after itself; or not at all."""
        summary = self.body(block.body, (*path, block))
        if isinstance(block, Loop) and not is_shared(block):
            self._repeat(summary, block.variable)
            summary.last = {
                array: {past._replace(left=past.left | (past.stale & {block.variable})): w for past, w in left.items()}
                for array, left in summary.last.items()
            }
        if not (isinstance(block, Loop) and iterations(self.kernel, block)):
            summary.passed, summary.renewed = NOTHING, set()
        return summary

    def _repeat(self, summary: Summary, variable: str) -> None:
        """The iterations of a loop meet the ones before; where they take turns, also those before these."""
        once = self._aged(summary.last, variable)
        self._meet(once, summary.first)
        if variable in self.turning:
            again = Summary(last=once)
            again.then(Summary(passed=summary.passed, renewed=summary.renewed))
            once = self._aged(once, variable)  # where the loop begins again, the turns do not go on
            self._meet(self._aged(again.last, variable), summary.first)
        summary.last = once

    def _aged(self, last: dict[str, dict[Past, int]], variable: str) -> dict[str, dict[Past, int]]:
        """Accesses as the next iteration sees them: what depends on the loop's variable has changed."""
        changed = frozenset({variable})
        turns = changed if variable in self.turning else NONE
        return {
            array: {
                past._replace(stale=past.stale | changed, older=past.older | (past.stale & turns))
                if variable in past.access.depends or any(variable == each for each, _ in past.access.only)
                else past: waited
                for past, waited in left.items()
            }
            for array, left in last.items()
        }

    def _turn(self, index: Index) -> None:
        """Notes `(variable + start) % every`, of a loop by 1 that nobody shares: `stage = slab % 2` is another one in
        the next iteration."""
        counted, every = index.operands
        form = self.forms.get(str(counted))
        if form is None or len(form.terms) != 1 or not isinstance(every, int) or every < 2:
            return
        ((variable, by),) = form.terms
        loop = self.loops.get(variable)
        if loop is not None and not loop.bind and loop.step == 1 and by == 1 and form.start >= 0:
            self.turns[index.result] = _Turn(variable, form.start, every)

    def _access(
        self, statement: Statement, array: str, indices: tuple[Atom, ...], kind: Kind, path: Path
    ) -> Access | None:
        """A statement's access, if others may disturb it; raises if it is no element that one thread writes."""
        if array in self.tiles and not isinstance(statement, Store) and array not in self.stored:
            raise broken(statement, f"{array} is read before anything is stored in it")
        self.stored.add(array)
        if array not in self.scope:
            return None
        here, scope = self._around(path), self.scope[array]
        loops = here.loops
        around = tuple(loop.variable for loop in loops if loop.variable not in scope and not self._one_block(loop))
        depends = NONE.union(*(self.depends.get(str(index), NONE) for index in indices))
        if kind in WRITES:
            self._alone(statement, around, indices, path)
        return Access(
            statement=statement,
            array=array,
            indices=indices,
            kind=kind,
            places=tuple(self._place(index) for index in indices),
            depends=depends,
            around=around,
            levels=frozenset(loop.bind for loop in loops if loop.bind not in GRID),
            settled=self._settling(array, around),
            fixed=here.fixed,
            only=here.only,
            limits=here.limits,
        )

    def _around(self, path: Path) -> Around:
        """What is around the statements of a body, found once for those in a row."""
        if self.here is None or self.here.path is not path:
            wheres = [step for step in path if isinstance(step, Where)]
            fixed = {
                (where.left, where.right)
                for where in wheres
                if where.comparison == "==" and where.left in self.loops and isinstance(where.right, int)
            }
            shared = frozenset(each for each in fixed if each[0] in self.bound)
            limits = frozenset(_limits(where, self.sizes) for where in wheres)
            self.here = Around(path, shared_loops(path), shared, frozenset(fixed) - shared, limits)
        return self.here

    def _settling(self, array: str, around: tuple[str, ...]) -> int:
        if any(self.loops[variable].bind in GRID for variable in around):
            return KERNEL
        return ARRIVED if array in self.copied else BLOCK

    def _one_block(self, loop: Loop) -> bool:
        """Whether a loop over blocks has but one, whose threads may wait for one another."""
        return loop.bind in GRID and iterations(self.kernel, loop) == 1

    def _alone(self, statement: Statement, around: tuple[str, ...], indices: tuple[Atom, ...], path: Path) -> None:
        """No two threads write to one element: each bound loop around tells elements apart, or but one writes."""
        told = {variable for index in indices for variable in self._told(index)}
        for where in path:
            if isinstance(where, Where) and where.comparison == "==":
                left, right = (self.depends.get(str(side), NONE) for side in (where.left, where.right))
                told |= left ^ right
        for variable in around:
            if variable not in told and iterations(self.kernel, self.loops[variable]) != 1:
                every = "some" if any(variable in self.depends.get(str(index), NONE) for index in indices) else "all"
                raise broken(statement, f"{every} iterations over {variable} write to the same element")

    def _told(self, index: Atom) -> frozenset[str]:
        """The loops whose iterations an index tells apart, each a digit of it; of one with other names in it, all that
        these come from."""
        form = self.forms.get(str(index))
        if form is None or form.tells_apart or any(name not in self.loops for name, _ in form.terms):
            return self.depends.get(str(index), NONE)
        return NONE

    def _place(self, index: Atom) -> Place:
        if index not in self.places:
            form = self.forms.get(str(index))
            if form is None or not form.tells_apart:
                names, common = [index], self._symbol(index)
                owners = self.depends.get(str(index), NONE) & self.bound
            else:
                names = [name for name, _ in form.terms]
                common = form.start, frozenset((by, self._symbol(name)) for name, by in form.terms)
                owners = NONE.union(*(self._deciding(name) for name, _ in form.terms))
                # Where equal sums have equal terms, a loop's variable need not be the same again.
                names = [name for name in names if name not in self.loops]
            changes = (self.depends.get(str(name), NONE) - {name} for name in names if name not in self.bound)
            number = self.numbers.setdefault(common, len(self.numbers))
            self.places[index] = Place(number, NONE.union(*changes), owners)
        return self.places[index]

    def _symbol(self, name: Atom) -> object:
        """What stands for a name where two indices are compared: loops with the same iterations are alike."""
        loop = self.loops.get(str(name))
        if loop is None:
            return name
        return self.shared[loop.variable] if is_shared(loop) else (loop.lower, loop.extent, loop.step)

    def _deciding(self, name: str) -> frozenset[str]:
        return frozenset({name}) if name in self.bound else self.depends.get(name, NONE) & self.bound

    def _meet(self, last: dict[str, dict[Past, int]], first: dict[str, dict[Access, int]]) -> None:
        """Raises if two accesses may be of one element by different threads that have not waited."""
        for array, entering in first.items():
            for access, before in entering.items():
                for past, since in last.get(array, {}).items():
                    if (access.kind in WRITES or past.access.kind != access.kind) and not self._settled(access, past):
                        self._wait(access, past, max(before, since))

    def _settled(self, access: Access, past: Past) -> bool:
        found = in_another(access, past) or self._by_turns(access, past) or self._scattered(access, past)
        return found or self._in_other_columns(access, past)

    def _in_other_columns(self, access: Access, past: Past) -> bool:
        """Whether one of their indices never has a value of the other's: a row's vector, and the scalars behind it."""
        for mine, theirs in zip(access.indices, past.access.indices, strict=False):
            (least, most), (fewest, highest) = self._range(access, mine), self._range(past.access, theirs)
            if most < fewest or highest < least:
                return True
        return False

    def _range(self, access: Access, index: Atom) -> tuple[float, float]:
        """The least and the greatest value of an index where it is accessed, and of all elements of a vector: of these
        a condition looks at the first, and all lie in the same whole number of vectors."""
        least, most = self.forms.between(index) or (-inf, inf)
        wide = self.widths.get(str(index), 1)
        for name, low, high in access.limits:
            if name == index:
                least, most = max(least, low), min(most, high // wide * wide + wide - 1)
        return least, most

    def _by_turns(self, access: Access, past: Past) -> bool:
        """Whether the other access was in this iteration or the one before, and has another turn."""
        for mine, theirs in zip(access.indices, past.access.indices, strict=False):
            own, other = self.turns.get(str(mine)), self.turns.get(str(theirs))
            if own and other and (own.loop, own.every) == (other.loop, other.every) and own.loop not in past.older:
                since = int(own.loop in past.stale)
                if (own.ahead - other.ahead + since) % own.every:
                    return True
        return False

    def _elsewhere(self, access: Access, past: Past) -> bool:
        """Whether the other access was in an earlier iteration of a loop that tells their elements apart."""
        gone_on = past.stale - past.left
        for mine, theirs in zip(access.indices, past.access.indices, strict=False):
            form = self.forms.get(str(mine))
            if mine == theirs and form and form.tells_apart and any(name in gone_on for name, _ in form.terms):
                return True
        return False

    def _scattered(self, access: Access, past: Past) -> bool:
        """Whether one store, in another iteration, goes where memory says, or where an atomic found it: then that
        decides who writes what. A counter that only grows is never found twice at one number. If conditions on one
        scalar that memory has leave other rows to a store than to atomics, memory decides that, too: a row is either
        stored, by one thread, or added to."""
        other = past.access
        if {access.kind, other.kind} == {"write", "atomic"}:
            return self._told_apart(access, other)
        if access.kind != "write" or other.kind != "write" or access.indices != other.indices:
            return False
        return any(self.depends.get(str(index), NONE) & past.stale for index in access.indices if self._is_found(index))

    def _told_apart(self, access: Access, other: Access) -> bool:
        """Whether two accesses go where memory says, and conditions leave them different values of a scalar that it
        has."""
        if not all(any(self._is_found(index) for index in each.indices) for each in (access, other)):
            return False
        return any(
            name == same and name in self.found and (most < fewest or highest < least)
            for name, least, most in access.limits
            for same, fewest, highest in other.limits
        )

    def _is_found(self, index: Atom) -> bool:
        """Whether memory says what an index is, or where a run of them begins whose elements are told apart."""
        form = self.forms.get(str(index))
        return index in self.found or (form is not None and form.behind_found)

    def _wait(self, access: Access, past: Past, waited: int) -> None:
        other = past.access
        mine, theirs = covered(access, past)
        needed = max(self._level(access, mine), self._level(other, theirs))
        own = access.levels in OWN or (access.levels == {"lane"} and self.kernel.threads == LANES)
        alike = access.levels == other.levels and (own or access.kind == other.kind == "write")
        if "copy" in (access.kind, other.kind) and not (access.kind == other.kind and self._elsewhere(access, past)):
            needed = max(needed, ARRIVED if other.kind == "copy" else BLOCK)
        if needed == NOTHING and not alike:
            needed = WARP if self._in_a_warp(access) and self._in_a_warp(other) else BLOCK
        if needed > waited:
            rule = f"{access.array} was {VERBS[other.kind]}, with no {WAITS[needed]} between"
            raise broken(access.statement, rule)

    def _in_a_warp(self, access: Access) -> bool:
        return "warp" in access.levels or self.kernel.threads == LANES

    def _level(self, access: Access, covered: set[str]) -> int:
        """What threads must have waited at, of whom only the loops in `covered` are known to agree."""
        apart = [self.loops[variable].bind for variable in access.around if variable not in covered]
        if any(level in GRID for level in apart):
            return KERNEL
        if any(level in ("warp", "thread") for level in apart):
            return BLOCK
        return WARP if "lane" in apart else NOTHING


def _touched(statement: Statement) -> tuple[tuple[str, tuple[Atom, ...], Kind], ...]:
    """The arrays that a statement accesses, where and how."""
    match statement:
        case Load():
            return ((statement.buffer, statement.indices, "read"),)
        case Search():
            return ((statement.buffer, (), "read"),)
        case Copy():
            return ((statement.target, statement.indices, "copy"),)
        case Multiply():
            operands = (statement.left, statement.left_indices), (statement.right, statement.right_indices)
            return tuple((name, indices, "read") for name, indices in ((statement.target, ()), *operands))
        case AtomicAccumulate():
            return ((statement.target, statement.indices, "atomic"),)
        case Accumulate() | Store() if statement.indices:
            return ((statement.target, statement.indices, "write"),)
    return ()


def _limits(where: Where, sizes: Mapping[str, int]) -> tuple[str, float, float]:
    """A name that a condition compares with a number, and the least and the most that this leaves it."""
    sides = (sizes.get(str(side), side) for side in (where.left, where.right))
    match tuple(sides), where.comparison:
        case (str(name), int(bound)), comparison:
            most = bound - 1 if comparison == "<" else bound
            return name, bound if comparison == "==" else -inf, most
        case (int(bound), str(name)), comparison:
            least = bound + 1 if comparison == "<" else bound
            return name, least, bound if comparison == "==" else inf
    return "", -inf, inf
