"""The indices of one kernel, followed through its loops and conditions: which accesses are inside their arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from explorer.compiler.ir.bounds.affine import ONE, Affine, Form, constant, is_number, plus, scaled
from explorer.compiler.ir.bounds.contents import LEAST_CONTENTS, Contents
from explorer.compiler.ir.bounds.division import Division
from explorer.compiler.ir.bounds.elements import Elements
from explorer.compiler.ir.bounds.fills import Fills
from explorer.compiler.ir.facts import Fact
from explorer.compiler.ir.index_sets import ENDS, counted
from explorer.compiler.ir.kernels import (
    AtomicAccumulate,
    Barrier,
    CheckedLoad,
    Copy,
    Count,
    Loop,
    Multiply,
    ScheduledKernel,
    Search,
    Statement,
    Tile,
    Where,
    defined_in,
    reads_of,
    result_of,
    vector_indices,
)
from explorer.compiler.ir.loops import Accumulate, Buffer, Index, Load, Store
from explorer.compiler.ir.node import Atom, Extent, walk
from explorer.compiler.ir.print.kernels import print_step


@dataclass(frozen=True)
class Unproved:
    """An access that is not shown to be inside its array: the index of one of its dimensions, of `width` elements; what
    is not shown is that it is not `below` 0, or not above the extent; or an element of a tile that nothing may have
    been stored in before it is read."""

    statement: Statement
    array: str
    index: Atom
    extent: Extent
    width: int
    below: bool
    unwritten: bool = False

    def is_same(self, other: Unproved) -> bool:
        """Whether it is the same place of a kernel."""
        return self.statement is other.statement and (self.index, self.below, self.unwritten) == (
            other.index,
            other.below,
            other.unwritten,
        )

    def __str__(self) -> str:
        if self.unwritten:
            return f"something stored before in {self.array}: {print_step(self.statement)}"
        inside = f"0 <= {self.index}" if self.below else f"{self.index} <= {self.extent} - {self.width}"
        return f"{inside} in {self.array}: {print_step(self.statement)}"


class Bounds:
    """Follows the indices through a kernel."""

    def __init__(
        self,
        kernel: ScheduledKernel,
        facts: tuple[Fact, ...],
        earlier: Mapping[str, Contents],
        held: Mapping[str, Contents],
        checks: bool = True,
    ) -> None:
        nodes = list(walk(kernel))
        arrays: list[Buffer | Tile] = [*kernel.buffers, *(node for node in nodes if isinstance(node, Tile))]
        self.kernel = kernel
        self.affine = Affine()
        self.division = Division(self.affine)
        self.sizes = dict(kernel.sizes)
        self.counts = dict(kernel.counts)
        self.widths = vector_indices(kernel)
        self.extents = {array.name: array.extents for array in arrays}
        self.indices = {array.name for array in arrays if array.type == "i32"}
        self.tiles = {node.name for node in arrays if isinstance(node, Tile)}
        self.written = {node.target for node in nodes if isinstance(node, (Store, Accumulate))} & self.indices
        self.writes: dict[str, int] = {}  # how often an array was written up to here, as far as it matters
        self.of_tiles: set[int] = set()  # the atoms that were loaded from tiles
        self.fills = Fills(kernel, self.tiles & self.indices, self.affine)
        self.elements = Elements(self.affine, facts, self._form)
        self.own = own = defined_in(kernel)
        self.named: dict[str, list[tuple[Fact, frozenset[str]]]] = {}  # of the kernel's own names
        for fact in kernel.facts:
            spoken = fact.names & own
            for name in spoken:
                self.named.setdefault(name, []).append((fact, spoken))
        spoken_of = set().union(*(fact.names for fact in facts)) - own - self.extents.keys()
        named = {extent for buffer in kernel.buffers for extent in buffer.extents if isinstance(extent, str)}
        self.every: set[Extent] = {*named, *(counted(name) for name in named if name.endswith(ENDS)), *spoken_of}
        self.compared: dict[str, set[Extent]] = {}  # by tile the extents that its elements are held against
        self.forms: dict[str, Form] = {}
        self.shown: dict[tuple[Atom, Extent, int], None] = {}
        self.earlier = earlier  # what other kernels have stored
        self.held, self.contents = held, dict[str, Contents]()
        self.kept = self.indices if checks else self.indices & self.tiles
        self.checks = checks  # whether accesses are looked at, or only what is stored
        self.unproved: list[Unproved] = []

    def close(self) -> None:
        """Lets go of what knows one another, so that all of it goes at once and no collector has to look for it: a
        compilation has thousands of atoms."""
        self.affine.forget()
        self.elements.forget()

    def body(self, body: tuple[Statement, ...]) -> None:
        """Goes through statements in order; what they define is known inside the body."""
        for statement in body:
            match statement:
                case Loop() | Where():
                    mark, shown = self.affine.mark(), len(self.shown)
                    self.fills.enter()
                    leave = self._enter_loop(statement) if isinstance(statement, Loop) else self._enter_where(statement)
                    self.body(statement.body)
                    leave()
                    self.affine.back_to(mark)
                    while len(self.shown) > shown:
                        self.shown.popitem()
                case Index():
                    self.forms[statement.result] = self._arithmetic(statement)
                case Search():
                    self._search(statement)
                case Barrier():
                    self._write(self.written)
                case _:
                    for array, indices in _accesses(statement):
                        self._access(statement, array, indices)
                    self._define(statement)
                    self._write(_targets(statement) if self.written else ())
            if self.named:
                self._know(statement)

    def _write(self, arrays: Iterable[str]) -> None:
        """What is loaded from here on was perhaps written since: by this thread, in another iteration, or by another
        thread behind a barrier, as without one none may."""
        written = self.written.intersection(arrays)
        self.writes = self.writes | {array: self.writes.get(array, 0) + 1 for array in written}

    def _know(self, statement: Statement) -> None:
        """What facts say of a name, once all are defined that they speak of."""
        for fact, spoken in self.named.get(result_of(statement) or "", ()):
            if spoken <= self.forms.keys():
                self.affine.assume(self.elements.fact(fact.sum, {}, self.writes))

    def _enter_loop(self, loop: Loop) -> Callable[[], None]:
        """What holds inside a loop; returns what to do behind it."""
        affine = self.affine
        lower, upper = self._form(loop.lower), self._bound(loop.extent)
        room = plus(plus(upper, lower, -1), constant(-1))
        reach = affine.high(room)
        turn = affine.atom(0, None if reach is None else max(reach, 0) // loop.step)
        variable = self.forms[loop.variable] = plus(lower, {turn: loop.step})
        if not (is_number(lower) and is_number(upper)):
            affine.assume(plus(plus(upper, variable, -1), constant(-1)))
        if not is_number(room):
            affine.assume(room)
        affine.ask(room)
        self._write(_targets(loop) if self.written else ())
        return lambda: self.fills.leave_loop(turn, room, loop.step, self._of_extents())

    def _enter_where(self, where: Where) -> Callable[[], None]:
        """What holds inside a condition; returns what to do behind it."""
        known = plus(self._form(where.right), self._form(where.left), -1)
        holds = [plus(known, constant(-1)) if where.comparison == "<" else known]
        holds += [scaled(known, -1)] if where.comparison == "==" else []
        for form in holds:
            self.affine.assume(form)
        self.affine.ask(holds[0])
        return lambda: self.fills.leave_condition(holds)

    def _of_extents(self) -> set[int]:
        """The atoms of what the kernel does not define."""
        return {atom for name, form in self.forms.items() if name not in self.own for atom in form}

    def _bound(self, extent: Extent | Count) -> Form:
        return self._count(extent) if isinstance(extent, Count) else self._form(extent)

    def _count(self, count: Count) -> Form:
        total: Form = {}
        for extent, by in count.terms:
            form = self._form(extent)
            total = plus(total, self.division.quotient(plus(form, constant(by - 1)), by) if by != 1 else form)
        return self.affine.product(self._form(count.times), total)

    def _form(self, atom: Atom) -> Form:
        """What a name stands for; one that is not defined here is an extent."""
        if not isinstance(atom, str):
            return constant(int(atom))
        form = self.forms.get(atom)
        if form is None:
            form = self.forms[atom] = self._extent(atom)
        return form

    def _extent(self, name: str) -> Form:
        if name in self.sizes:
            return constant(self.sizes[name])
        if name in self.counts:
            return self._count(self.counts[name])
        if name.endswith(ENDS):
            return plus(self._form(counted(name)), constant(1))
        return {self.affine.atom(0): 1}

    def _arithmetic(self, index: Index) -> Form:
        affine = self.affine
        *chosen, left, right = (self._form(operand) for operand in index.operands)
        match index.function:
            case "add":
                return plus(left, right)
            case "sub":
                return plus(left, right, -1)
            case "mul":
                return affine.product(left, right)
            case "min":
                return affine.least(left, right)
            case "max":
                return affine.greatest(left, right)
            case "select":
                return self._selected(chosen[0], left, right)
            case "div" if is_number(right) and right.get(ONE, 0) > 0:
                return self.division.quotient(left, right[ONE])
            case "div":
                return self.division.ratio(left, right)
            case "mod" if is_number(right) and right.get(ONE, 0) > 0:
                return self.division.remainder(left, right[ONE])
            case "less" | "at_most" | "equal":
                return {affine.atom(0, 1): 1}
        return {affine.atom(): 1}

    def _selected(self, chosen: Form, left: Form, right: Form) -> Form:
        if is_number(chosen):
            return left if chosen else right
        return left if left == right else self.affine.either(left, right)

    def _search(self, search: Search) -> None:
        """The last place of the bounds that holds at most the value, the one before them where none does."""
        affine = self.affine
        lower, upper, value = (self._form(atom) for atom in (search.lower, search.upper, search.value))
        extent = self.extents[search.buffer][0]
        if not affine.holds(lower):
            self._miss(search, search.buffer, search.lower, extent, below=True)
        if not affine.holds(plus(self._form(extent), upper, -1)):
            self._miss(search, search.buffer, search.upper, extent, below=False)
        low = affine.low(lower)
        found = affine.atom(None if low is None else low - 1)
        result = self.forms[search.result] = {found: 1}
        affine.assume(plus(plus(result, lower, -1), constant(1)))
        self.elements.search(found, search.buffer, lower, upper, value, self.writes)

    def _access(self, statement: Statement, array: str, indices: tuple[Atom, ...]) -> None:
        checked = statement.checked if isinstance(statement, CheckedLoad) else ()
        for index, extent in zip(indices, self.extents[array] if self.checks else (), strict=False):
            if index in checked:
                continue
            width = self.widths.get(index, 1) if isinstance(index, str) else 1
            key = index, extent, width
            if key in self.shown:
                continue
            form, size = self._form(index), self._form(extent)
            below, above = not self.affine.holds(form), not self.affine.holds(self._room(size, form, width))
            if below:
                self._miss(statement, array, index, extent, width, below=True)
            if above:
                self._miss(statement, array, index, extent, width, below=False)
            if not (below or above):
                self.shown[key] = None

    def _room(self, size: Form, index: Form, width: int) -> Form:
        return plus(plus(size, index, -1), constant(-width))

    def _miss(
        self, statement: Statement, array: str, index: Atom, extent: Extent, width: int = 1, *, below: bool
    ) -> None:
        self.unproved.append(Unproved(statement, array, index, extent, width, below))

    def _define(self, statement: Statement) -> None:
        match statement:
            case Load() if statement.buffer in self.indices:
                self._is_written(statement)
                self.forms[statement.result] = self._loaded(statement)
            case AtomicAccumulate() if statement.target in self.indices:
                if statement.result:
                    known = statement.target in self.tiles  # other kernels may have stored in an array
                    self.forms[statement.result] = self._kept(statement.target) if known else {self.affine.atom(): 1}
                self._count_in(statement)
            case Accumulate() if statement.target in self.indices:
                self._count_in(statement)
            case Store() if statement.target in self.kept and statement.indices:
                self._hold(statement)
                if statement.target in self.tiles:
                    widths = tuple(self.widths.get(str(index), 1) for index in statement.indices)
                    self.fills.store(statement.target, tuple(map(self._form, statement.indices)), widths)

    def _is_written(self, load: Load) -> None:
        """Looks whether something is stored before in an element of a tile."""
        if not self.checks or load.buffer not in self.tiles or not self.widths.keys().isdisjoint(load.indices):
            return
        indices = tuple(map(self._form, load.indices))
        from_tiles = any(not self.of_tiles.isdisjoint(index) for index in indices)
        if not from_tiles and not self.fills.has(load.buffer, indices):
            extent = self.extents[load.buffer][-1]
            self.unproved.append(Unproved(load, load.buffer, load.indices[-1], extent, 1, below=False, unwritten=True))

    def _count_in(self, add: Accumulate) -> None:
        """Notes that something is added to what indices are."""
        (operand,) = add.operands
        grows = add.reduction in ("sum", "max") and self.affine.holds(self._form(operand))
        self._keep(add.target, Contents(least=0 if grows else None))

    def _loaded(self, load: Load) -> Form:
        if isinstance(load, CheckedLoad):
            return {self.affine.atom(): 1}  # 0, where there is no element that facts speak of
        if load.buffer in self.tiles:
            (found,) = kept = self._kept(load.buffer)
            if load.buffer in self.elements.facts:
                indices = tuple(self._form(index) for index in load.indices)
                self.elements.say(found, load.buffer, indices, self.writes)
            return kept
        if load.buffer in self.written and load.buffer not in self.elements.facts:
            return {self.affine.atom(): 1}
        return self.elements.element(load.buffer, tuple(self._form(index) for index in load.indices), self.writes)

    def _hold(self, store: Store) -> None:
        """Notes what is stored in an array or a tile of indices."""
        (operand,) = store.operands
        affine, value, holds = self.affine, self._form(operand), self.affine.guessed
        known = self.contents.get(store.target) or self.earlier.get(store.target)  # what is kept is no more than that
        least = self._least(value, known)
        extents = self._compared(store.target)
        if not is_number(value) and (least is None or known is None or known.at_most):
            reached = self.affine.reached(value)
            extents = {extent for extent in extents if self._form(extent).keys() & reached - {ONE}}
        within = known.at_most & extents if known else extents
        below = known.less_than & extents if known else extents
        less = {extent for extent in below if holds(plus(plus(self._form(extent), value, -1), constant(-1)))}
        most = {extent for extent in below - less if affine.seen(plus(self._form(extent), value, -1))}
        most |= {extent for extent in within - below if holds(plus(self._form(extent), value, -1))}
        beyond = [e for e in extents if least is None and (known is None or known.is_above(e))]
        above = {extent for extent in beyond if holds(plus(value, self._form(extent)))}
        most_of_all = self._most(value, self.held.get(store.target) or self.earlier.get(store.target))
        self._keep(
            store.target, Contents(least, most_of_all, frozenset(less), frozenset(less | most), frozenset(above))
        )

    def _least(self, value: Form, known: Contents | None) -> int | None:
        """What a value is at least, if that is known of what is stored in the same array."""
        if known is not None and known.least is None:
            return None
        tried = [n for n in LEAST_CONTENTS if known is None or known.least is None or n <= max(known.least, -1)]
        found = (n for n in tried if self.affine.guessed(plus(value, constant(-n))))
        return next(found, self.affine.low(value))

    def _most(self, value: Form, held: Contents | None) -> int | None:
        """What a value is at most, perhaps what an array is taken to hold at most."""
        high = self.affine.high(value)
        most = held.most if held is not None else None
        if most is None or (high is not None and high <= most):
            return high
        return most if self.affine.guessed(plus(constant(most), value, -1)) else high

    def _compared(self, array: str) -> set[Extent]:
        """The extents that an array's elements are held against: of a tile, those of arrays that they are indices of,
        and all where there is something else that they are used for."""
        if array not in self.tiles:
            return self.every
        if array not in self.compared:
            self.compared[array] = self._used_for(array)
        return self.compared[array]

    def _used_for(self, array: str) -> set[Extent]:
        """Those of arrays that a tile's elements are indices of."""
        names = {node.result for node in walk(self.kernel) if isinstance(node, Load) and node.buffer == array}
        found: set[Extent] = set()
        for node in walk(self.kernel):
            if names.isdisjoint(reads_of(node)):
                continue
            if not isinstance(node, (Load, Copy, Store, Accumulate)):
                return self.every
            for accessed, indices in _accesses(node):
                found |= {e for at, e in zip(indices, self.extents[accessed], strict=False) if at in names}
        return found & self.every

    def _keep(self, tile: str, contents: Contents) -> None:
        self.contents[tile] = self.contents[tile].meet(contents) if tile in self.contents else contents

    def _kept(self, tile: str) -> Form:
        """An element of a tile of indices, of which all that it holds is known."""
        known = self.held.get(tile) or self.contents.get(tile) or Contents(None, None, frozenset())
        form = {self.affine.atom(known.least, known.most): 1}
        self.of_tiles |= form.keys()
        for extent in known.at_most:
            room = plus(self._form(extent), form, -1)
            self.affine.assume(plus(room, constant(-1)) if extent in known.less_than else room)
        for extent in known.above:
            self.affine.assume(plus(form, self._form(extent)))
        return form


def _targets(statement: Statement) -> set[str]:
    """The arrays that a statement writes."""
    return {node.target for node in walk(statement) if isinstance(node, (Store, Accumulate))}


def _accesses(statement: Statement) -> Iterator[tuple[str, tuple[Atom, ...]]]:
    """The arrays that a statement accesses, and where."""
    match statement:
        case Load():
            yield statement.buffer, statement.indices
        case Copy():
            yield statement.target, statement.indices
            yield statement.buffer, statement.buffer_indices
        case Store() | Accumulate() if statement.indices:
            yield statement.target, statement.indices
        case Multiply():
            yield statement.target, statement.indices
            yield statement.left, statement.left_indices
            yield statement.right, statement.right_indices
