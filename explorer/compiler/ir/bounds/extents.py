"""The indices of one kernel, followed through its loops and conditions: which accesses are inside their arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from explorer.compiler.ir.bounds.affine import ONE, Affine, Form, constant, is_number, plus, scaled
from explorer.compiler.ir.bounds.contents import LEAST_CONTENTS, Contents
from explorer.compiler.ir.bounds.facts import ANY, SOME, Fact, Sum, Term
from explorer.compiler.ir.index_sets import ENDS, counted
from explorer.compiler.ir.kernels import (
    AtomicAccumulate,
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
    print_step,
    reads_of,
    result_of,
    vector_indices,
)
from explorer.compiler.ir.loops import Accumulate, Buffer, Index, Load, Store
from explorer.compiler.ir.node import Atom, Extent, walk

NOTHING: Mapping[Term, Form] = {}


@dataclass(frozen=True)
class Unproved:
    """An access that is not shown to be inside its array: the index of one of its dimensions, of `width` elements; what
    is not shown is that it is not `below` 0, or not above the extent."""

    statement: Statement
    array: str
    index: Atom
    extent: Extent
    width: int
    below: bool

    def is_same(self, other: Unproved) -> bool:
        """Whether it is the same place of a kernel."""
        return self.statement is other.statement and (self.index, self.below) == (other.index, other.below)

    def __str__(self) -> str:
        inside = f"0 <= {self.index}" if self.below else f"{self.index} <= {self.extent} - {self.width}"
        return f"{inside} in {self.array}: {print_step(self.statement)}"


_Key = tuple[frozenset[tuple[int, int]], ...]


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
        self.sizes = dict(kernel.sizes)
        self.counts = dict(kernel.counts)
        self.widths = vector_indices(kernel)
        self.extents = {array.name: array.extents for array in arrays}
        self.indices = {array.name for array in arrays if array.type == "i32"}
        self.tiles = {node.name for node in arrays if isinstance(node, Tile)}
        self.written = {node.target for node in nodes if isinstance(node, Store | Accumulate)}
        self.facts: dict[str, list[Fact]] = {}
        for fact in facts:
            for array in fact.arrays:
                self.facts.setdefault(array, []).append(fact)
        own = defined_in(kernel)
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
        self.atoms: dict[object, Form] = {}
        self.following: dict[tuple[str, _Key], tuple[Form, Form]] = {}
        self.divisors: set[int] = set()
        self.shown: dict[tuple[Atom, Extent, int], None] = {}
        self.earlier = earlier  # what other kernels have stored
        self.held, self.contents = held, dict[str, Contents]()
        self.kept = self.indices if checks else self.indices & self.tiles
        self.checks = checks  # whether accesses are looked at, or only what is stored
        self.unproved: list[Unproved] = []

    def body(self, body: tuple[Statement, ...]) -> None:
        """Goes through statements in order; what they define is known inside the body."""
        for statement in body:
            match statement:
                case Loop() | Where():
                    mark, shown = self.affine.mark(), len(self.shown)
                    self._enter(statement)
                    self.body(statement.body)
                    self.affine.back_to(mark)
                    while len(self.shown) > shown:
                        self.shown.popitem()
                case Index():
                    self.forms[statement.result] = self._arithmetic(statement)
                case Search():
                    self._search(statement)
                case _:
                    for array, indices in _accesses(statement):
                        self._access(statement, array, indices)
                    self._define(statement)
            if self.named:
                self._know(statement)

    def _know(self, statement: Statement) -> None:
        """What facts say of a name, once all are defined that they speak of."""
        for fact, spoken in self.named.get(result_of(statement) or "", ()):
            if spoken <= self.forms.keys():
                self.affine.assume(self._fact(fact.sum, {}))

    def _enter(self, block: Loop | Where) -> None:
        """What holds inside a loop or a condition."""
        affine = self.affine
        if isinstance(block, Loop):
            lower, upper = self._form(block.lower), self._bound(block.extent)
            reach = affine.high(plus(plus(upper, lower, -1), constant(-1)))
            turn = {affine.atom(0, None if reach is None else max(reach, 0) // block.step): block.step}
            variable = self.forms[block.variable] = plus(lower, turn)
            if not (is_number(lower) and is_number(upper)):
                affine.assume(plus(plus(upper, variable, -1), constant(-1)))
            known = plus(plus(upper, lower, -1), constant(-1))
            if not is_number(known):
                affine.assume(known)
        else:
            left, right = self._form(block.left), self._form(block.right)
            known = plus(right, left, -1)
            affine.assume(plus(known, constant(-1)) if block.comparison == "<" else known)
            if block.comparison == "==":
                affine.assume(scaled(known, -1))
        affine.ask(known)

    def _bound(self, extent: Extent | Count) -> Form:
        return self._count(extent) if isinstance(extent, Count) else self._form(extent)

    def _count(self, count: Count) -> Form:
        total: Form = {}
        for extent, by in count.terms:
            form = self._form(extent)
            total = plus(total, self._quotient(plus(form, constant(by - 1)), by) if by != 1 else form)
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
                return self._quotient(left, right[ONE])
            case "div":
                return self._ratio(left, right)
            case "mod" if is_number(right) and right.get(ONE, 0) > 0:
                return self._remainder(left, right[ONE])
            case "less" | "at_most" | "equal":
                return {affine.atom(0, 1): 1}
        return {affine.atom(): 1}

    def _selected(self, chosen: Form, left: Form, right: Form) -> Form:
        if is_number(chosen):
            return left if chosen else right
        return left if left == right else self.affine.either(left, right)

    def _quotient(self, dividend: Form, divisor: int) -> Form:
        """A quotient by a number. Where the dividend is negative, it is rounded down or towards 0."""
        if is_number(dividend):
            return constant(dividend.get(ONE, 0) // divisor)
        self.divisors.add(divisor)
        key = "div", frozenset(dividend.items()), divisor
        if key in self.atoms:
            return self.atoms[key]
        low, high = self.affine.low(dividend), self.affine.high(dividend)
        positive = low is not None and low >= 0
        found = self.affine.atom(
            low // divisor if low is not None and positive else None, None if high is None else max(high, 0) // divisor
        )
        self.atoms[key] = {found: 1}
        self.affine.when_asked(found, partial(self._learn_quotient, found, dividend, divisor, positive))
        return self.atoms[key]

    def _learn_quotient(self, found: int, dividend: Form, divisor: int, positive: bool) -> bool:
        affine, holds = self.affine, self.affine.guessed
        affine.assume(plus({found: divisor, ONE: divisor - 1} if divisor > 1 else {found: 1}, dividend, -1))
        if positive or holds({found: 1, ONE: -1}) or holds(dividend):
            affine.assume({found: 1})
        else:
            return False
        affine.assume(plus(dividend, {found: -divisor}))
        return True

    def _ratio(self, dividend: Form, divisor: Form) -> Form:
        """A quotient by what is known only when the kernel runs."""
        found = self.affine.atom()
        self.affine.when_asked(found, partial(self._learn_ratio, found, dividend, divisor))
        return {found: 1}

    def _learn_ratio(self, found: int, dividend: Form, divisor: Form) -> bool:
        affine = self.affine
        if not (affine.holds(dividend) and affine.holds(plus(divisor, constant(-1)))):
            return False
        affine.assume({found: 1})
        affine.assume(plus(dividend, {found: -1}))
        product = affine.product({found: 1}, divisor)
        affine.assume(plus(dividend, product, -1))
        affine.assume(plus(plus(plus(product, divisor), constant(-1)), dividend, -1))
        self._bound_ratio({found: 1}, dividend, divisor)
        return True

    def _bound_ratio(self, ratio: Form, dividend: Form, divisor: Form) -> None:
        """Bounds of a quotient that products give: `a // b` is less than `k` where `a < k * b`, at least 1 where
        `b <= a`. Each `k` is a number by which something is divided, or is what else the divisor is taken by."""
        affine = self.affine
        if affine.guessed(plus(dividend, divisor, -1)):
            affine.assume(plus(ratio, constant(-1)))
        numbers = [constant(number + 1) for number in sorted(self.divisors)]
        for bound in (*numbers, *affine.taken_by(divisor)):
            if affine.seen(plus(plus(affine.product(bound, divisor), dividend, -1), constant(-1))):
                affine.assume(plus(plus(bound, ratio, -1), constant(-1)))

    def _remainder(self, dividend: Form, divisor: int) -> Form:
        key = "mod", frozenset(dividend.items()), divisor
        if key not in self.atoms:
            low = self.affine.low(dividend)
            positive = low is not None and low >= 0
            found = self.affine.atom(0 if positive else 1 - divisor, divisor - 1)
            self.atoms[key] = {found: 1}
            quotient = self._quotient(dividend, divisor)
            self.affine.when_asked(found, partial(self._learn_remainder, found, dividend, divisor, quotient))
        return self.atoms[key]

    def _learn_remainder(self, found: int, dividend: Form, divisor: int, quotient: Form) -> bool:
        affine = self.affine
        same = plus(plus({found: 1}, quotient, divisor), dividend, -1)
        affine.assume(same)
        affine.assume(scaled(same, -1))
        if not affine.holds(dividend):
            return False
        affine.assume({found: 1})
        return True

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
        affine.when_asked(found, partial(self._learn_search, search, result, lower, upper, value))
        following = plus(result, constant(1))
        self.following[search.buffer, _key((following,))] = plus(upper, following, -1), value

    def _learn_search(self, search: Search, result: Form, lower: Form, upper: Form, value: Form) -> bool:
        affine, holds = self.affine, self.affine.guessed
        if holds(plus(upper, lower, -1)):
            affine.assume(plus(plus(upper, result, -1), constant(-1)))
        first, last = self._element(search.buffer, (lower,)), self._element(search.buffer, (plus(upper, constant(-1)),))
        if affine.seen(plus(plus(last, value, -1), constant(-1))):
            affine.assume(plus(plus(upper, result, -1), constant(-2)))
        if affine.seen(plus(value, first, -1)) and holds(plus(plus(upper, lower, -1), constant(-1))):
            affine.assume(plus(result, lower, -1))
            affine.assume(plus(value, self._element(search.buffer, (result,)), -1))
            return True
        return False

    def _learn_following(self, element: Form, room: Form, value: Form) -> bool:
        """What follows a place that was found is more than the value, where the bounds have it."""
        inside = self.affine.guessed(plus(room, constant(-1)))
        if inside:
            self.affine.assume(plus(plus(element, value, -1), constant(-1)))
        return inside

    def _element(self, array: str, indices: tuple[Form, ...]) -> Form:
        """An element of an array of indices that nobody writes in this kernel, or that only ever has what facts say."""
        key = array, _key(indices)
        if key not in self.atoms:
            found = self.affine.atom()
            self.atoms[key] = {found: 1}
            self.affine.when_asked(found, partial(self._learn_element, array, indices, found))
        return self.atoms[key]

    def _learn_element(self, array: str, indices: tuple[Form, ...], found: int) -> bool:
        for fact in self.facts.get(array, ()):
            for term, _ in fact.sum:
                if term is not None and term[0] == array:
                    self._state(fact, term, indices, found)
        following = self.following.get((array, _key(indices)))
        return following is None or self._learn_following({found: 1}, *following)

    def _state(self, fact: Fact, term: Term, indices: tuple[Form, ...], found: int) -> None:
        """A fact, of an element that one of its terms is at these indices. Kernels may see two dimensions of an array
        as one."""
        stands: dict[str, Form] = {}
        for pattern, index in zip(term[1], indices, strict=False):
            match pattern:
                case (((str(name), ()), 1),) if name.startswith(SOME):
                    return
                case (((name, ()), 1),) if name.startswith(ANY):
                    stands[name] = index
                case (((name, ()), 1), (None, number)) if name.startswith(ANY):
                    stands[name] = plus(index, constant(-number))
                case _ if self._fact(pattern, {}) != index:
                    return
        self.affine.assume(self._fact(fact.sum, stands, {term: {found: 1}}))

    def _fact(self, total: Sum, stands: Mapping[str, Form], known: Mapping[Term, Form] = NOTHING) -> Form:
        form: Form = {}
        for term, times in total:
            if term is None:
                form = plus(form, constant(times))
            elif term in known:
                form = plus(form, known[term], times)
            elif term[1]:
                at = tuple(self._fact(index, stands) for index in term[1])
                form = plus(form, self._element(term[0], at), times)
            else:
                some = {self.affine.atom(0): 1} if term[0].startswith(SOME) else self._form(term[0])
                form = plus(form, stands.get(term[0], some), times)
        return form

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
            if load.buffer in self.facts:
                indices = tuple(self._form(index) for index in load.indices)
                self.affine.when_asked(found, partial(self._learn_element, load.buffer, indices, found))
            return kept
        if load.buffer in self.written and load.buffer not in self.facts:
            return {self.affine.atom(): 1}
        return self._element(load.buffer, tuple(self._form(index) for index in load.indices))

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
            if not isinstance(node, Load | Copy | Store | Accumulate):
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
        for extent in known.at_most:
            room = plus(self._form(extent), form, -1)
            self.affine.assume(plus(room, constant(-1)) if extent in known.less_than else room)
        for extent in known.above:
            self.affine.assume(plus(form, self._form(extent)))
        return form


def _key(indices: tuple[Form, ...]) -> _Key:
    return tuple(frozenset(index.items()) for index in indices)


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
