"""Proofs that sums of multiples of integers are not negative, from others that are not: `bags - 1 - b >= 0`.

An atom is an integer that is no such sum itself: a loop's variable, an extent, what was loaded, a quotient, the least
of two. They are numbered as they come, and a `Form` has by atom its factor, and under 0 its constant. What is known is
a list of forms that are not negative. A goal is proved by taking known forms away from it, each so often that the
goal's latest atom is gone, until a number is left: Fourier and Motzkin's elimination, one way at a time, as Farkas'
lemma has it. What cannot be known at once (a quotient's bounds need a dividend that is not negative) is found when the
atom is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import gcd

Form = dict[int, int]
"""By atom its factor; under ONE the constant. Factors are not 0."""
ONE = 0
"""The atom of constants."""
Tries = tuple[tuple[int, int], ...]
GUESSES: Tries = ((0, 24), (1, 64))
"""How a proof is tried that may well fail, and is one of many. Each try has a number of forms that it takes away which
bring a later atom than the one that goes (what was made of it, or guards it), and a number of goals that it looks at
before it is given up."""
TRIES: Tries = ((0, 24), (1, 100), (0, 100), (1, 200), (2, 300), (3, 400))
"""How a proof is tried that a kernel needs."""
SHOWN = 1 << 30
"""More later forms than any try has: of goals that are shown."""


@dataclass(eq=False)
class _Atom:
    """What is known of an atom at once: the least and the greatest number that it is, if there are any; `least_of` and
    `most_of`, forms of which it is one, the least, or the greatest (or either, where it has both); and what finds out
    the rest."""

    low: int | None = None
    high: int | None = None
    least_of: tuple[Form, ...] = ()
    most_of: tuple[Form, ...] = ()
    learn: Callable[[], bool] | None = None
    asked: int = -1  # the scope in which this was tried last
    known: int = 0  # which forms there are below: another number where others are
    above: list[Form] = field(default_factory=list)  # known forms where its factor is positive, without later atoms
    below: list[Form] = field(default_factory=list)  # likewise, negative
    above_later: list[Form] = field(default_factory=list)  # with later atoms
    below_later: list[Form] = field(default_factory=list)


def constant(number: int) -> Form:
    """A number as a form."""
    return {ONE: number} if number else {}


def plus(left: Form, right: Form, times: int = 1) -> Form:
    """`left + times * right`."""
    total = left.copy()
    for atom, factor in right.items():
        if atom not in total:
            total[atom] = times * factor
        elif changed := total[atom] + times * factor:
            total[atom] = changed
        else:
            del total[atom]
    return total


def scaled(form: Form, times: int) -> Form:
    """`times * form`."""
    return {atom: times * factor for atom, factor in form.items()} if times else {}


def _less(goal: Form, known: Form, atom: int) -> Form:
    """A goal's multiple, and a known form taken away from it so often that an atom is gone."""
    times, often = abs(known[atom]), -abs(goal[atom])
    total = goal if times == 1 else {other: times * factor for other, factor in goal.items()}
    return plus(total, known, often)


def _with(goal: Form, atom: int, form: Form) -> Form:
    """A goal with a form in the place of an atom."""
    without = goal.copy()
    return plus(without, form, without.pop(atom))


def _rounded(goal: Form) -> Form:
    """The least of what a goal's atoms have in common that is above 0 where the goal is: `8 n - 8 q - 7` is where
    `n - q` is, of integers."""
    common = gcd(*[factor for atom, factor in goal.items() if atom != ONE])
    if common == 1:
        return goal
    rounded = {atom: factor // common for atom, factor in goal.items() if atom != ONE}
    return plus(rounded, constant(-(-goal.get(ONE, 0) // common)))


def is_number(form: Form) -> bool:
    """Whether a form has no atoms."""
    return not form or form.keys() == {ONE}


Key = frozenset[tuple[int, int]]
"""A form that can be looked up."""


class _Search:
    """The goals that one proof has looked at, and how many more it may."""

    def __init__(self, most: int) -> None:
        self.left = most
        self.looked_at: dict[Key, int] = {}
        self.asked: dict[int, int] = {}  # the atoms that it has eliminated, and what was known of them
        self.deeper = False  # whether there was more to look at with more later forms


class Affine:
    """The atoms of a program and what is known of them in a scope."""

    def __init__(self) -> None:
        self._atoms = [_Atom(1, 1)]
        self._products: dict[tuple[int, int], int] = {}
        self._learnt: list[tuple[list[Form], _Atom, int]] = []  # what scopes have added to, in order, as it was
        self._assumed = 0
        self._held: dict[Key, None] = {}  # shown in a scope, in order
        self._failed: dict[tuple[Key, Tries], dict[int, int]] = {}  # not shown, with what was known of the asked atoms
        self._asked: list[tuple[_Atom, Callable[[], bool]]] = []
        self._scope = 0
        self._learning = False  # whether products are made of what is known
        self._own: list[tuple[int, int]] = []  # the products that were asked for

    def atom(self, low: int | None = None, high: int | None = None) -> int:
        """A new atom, perhaps of known bounds."""
        self._atoms.append(_Atom(low, high))
        return len(self._atoms) - 1

    def when_asked(self, atom: int, learn: Callable[[], bool]) -> None:
        """What to do when an atom's bounds are asked for: it may `assume` some, and says whether those are all. If not
        it is done again in a scope where more is known."""
        self._atoms[atom].learn = learn

    def forget(self) -> None:
        """The end: nothing more is asked, and nobody who finds things out is held."""
        self._atoms.clear()
        self._asked.clear()

    def product(self, left: Form, right: Form) -> Form:
        """`left * right`; products of atoms are atoms."""
        total: Form = {}
        for one, times in left.items():
            for other, factor in right.items():
                atom = one + other if ONE in (one, other) else self._product(*sorted((one, other)))
                total = plus(total, {atom: times * factor})
        return total

    def reached(self, form: Form) -> set[int]:
        """The atoms that may take part in a proof of what a form is at most."""
        found: set[int] = set()
        waiting = list(form)
        while waiting:
            number = waiting.pop()
            if number not in found:
                found.add(number)
                atom = self._atoms[number]
                self._ask(atom)
                forms = (*atom.below, *atom.below_later, *atom.least_of, *atom.most_of)
                waiting += [other for known in forms for other in known]
        return found

    def taken_by(self, form: Form) -> list[Form]:
        """The atoms that there are products of with an atom."""
        if len(form) != 1 or ONE in form:
            return []
        (atom,) = form
        pairs = [pair for pair in self._own if atom in pair]
        return [{one if other == atom else other: 1} for one, other in pairs]

    def least(self, *forms: Form) -> Form:
        """`min(...)`: an atom that is each of the forms at most."""
        found = self.atom(*self._span(min, forms))
        self._atoms[found].least_of = forms
        for form in forms:
            self.assume(plus(form, {found: -1}))
        return {found: 1}

    def greatest(self, *forms: Form) -> Form:
        """`max(...)`."""
        found = self.atom(*self._span(max, forms))
        self._atoms[found].most_of = forms
        for form in forms:
            self.assume(plus({found: 1}, form, -1))
        return {found: 1}

    def either(self, *forms: Form) -> Form:
        """One of the forms."""
        lows, highs = [self.low(form) for form in forms], [self.high(form) for form in forms]
        low = None if None in lows else min(n for n in lows if n is not None)
        high = None if None in highs else max(n for n in highs if n is not None)
        found = self.atom(low, high)
        self._atoms[found].least_of = self._atoms[found].most_of = forms
        return {found: 1}

    def _span(self, choose: Callable[..., int], forms: tuple[Form, ...]) -> tuple[int | None, int | None]:
        """The bounds of the least, or the greatest, of forms: one that is known suffices on one side."""
        lows = [low for form in forms if (low := self.low(form)) is not None]
        highs = [high for form in forms if (high := self.high(form)) is not None]
        every_low, every_high = len(lows) == len(forms), len(highs) == len(forms)
        enough_low = bool(lows) if choose is max else every_low
        enough_high = bool(highs) if choose is min else every_high
        return choose(lows) if enough_low else None, choose(highs) if enough_high else None

    def low(self, form: Form) -> int | None:
        """The least number that a form is, of what is known at once."""
        total, atoms = 0, self._atoms
        for number, factor in form.items():
            atom = atoms[number]
            bound = atom.low if factor > 0 else atom.high
            if bound is None:
                return None
            total += factor * bound
        return total

    def high(self, form: Form) -> int | None:
        """The greatest number that a form is, of what is known at once."""
        low = self.low(scaled(form, -1))
        return None if low is None else -low

    def assume(self, form: Form) -> None:
        """From here on, to the end of the scope, a form is not negative."""
        common = gcd(*[factor for atom, factor in form.items() if atom != ONE])
        if common > 1:  # of integers, so is the quotient rounded down
            form = {atom: factor // common for atom, factor in form.items() if factor // common}
        latest = max(form)
        for number, factor in form.items():
            if number != ONE:
                atom = self._atoms[number]
                if number == latest:
                    known = atom.above if factor > 0 else atom.below
                else:
                    known = atom.above_later if factor > 0 else atom.below_later
                if form not in known:
                    known.append(form)
                    self._learnt.append((known, atom, atom.known))
                    self._assumed += 1
                    atom.known = self._assumed

    def mark(self) -> tuple[int, int, int]:
        """Where a scope begins."""
        self._scope += 1
        return len(self._learnt), len(self._asked), len(self._held)

    def ask(self, form: Form) -> None:
        """Has what is known of a form's atoms found."""
        for number in form:
            self._ask(self._atoms[number])

    def back_to(self, mark: tuple[int, int, int]) -> None:
        """Forgets what was assumed, and found, since a scope began."""
        learnt, asked, held = mark
        while len(self._learnt) > learnt:
            forms, known, before = self._learnt.pop()
            forms.pop()
            known.known = before
        while len(self._asked) > asked:
            atom, learn = self._asked.pop()
            atom.learn, atom.asked = learn, -1
        while len(self._held) > held:
            self._held.popitem()

    def holds(self, form: Form, tries: Tries = TRIES) -> bool:
        """Whether a form is shown to be not negative; False says nothing."""
        low = self.low(form)
        if low is not None:
            if low >= 0:
                return True
            if is_number(form):
                return False
        key = frozenset(form.items())
        if key in self._held:
            return True
        if self._fails_again(key, tries):
            return False
        goal, asked = plus(form, {ONE: 1}), dict[int, int]()
        for later, most in tries:
            search = _Search(most)
            if self._positive(goal, search, later):
                self._held[key] = None
                return True
            asked = search.asked | asked
            if not search.deeper:
                break
        self._failed[key, tries] = asked
        return False

    def guessed(self, form: Form) -> bool:
        """The same, in fewer steps."""
        return self.holds(form, GUESSES)

    def seen(self, form: Form) -> bool:
        """The same, in the fewest."""
        return self.holds(form, GUESSES[:1])

    def _fails_again(self, key: Key, tries: Tries) -> bool:
        """Whether a proof has failed before, and nothing more is known of what it has asked."""
        asked = self._failed.get((key, tries))
        if asked is None:
            return False
        for number, known in asked.items():
            atom = self._atoms[number]
            self._ask(atom)
            if atom.known != known:
                return False
        return True

    def _positive(self, goal: Form, search: _Search, later: int) -> bool:
        """Whether a goal is above 0, by so many forms with later atoms at most. Goals are multiples of an integer, so
        that nothing is lost by rounding."""
        low = self.low(goal)
        if low is not None and low > 0:
            return True
        latest = max(goal, default=ONE)
        if latest == ONE:
            return False
        goal = _rounded(goal)
        key = frozenset(goal.items())
        before = search.looked_at.get(key, -1)
        if before == SHOWN:
            return True
        search.left -= 1
        if search.left < 0:
            search.deeper = True
        if search.left < 0 or before >= later:
            return False
        search.looked_at[key] = later
        if not self._eliminated(goal, latest, search, later):
            return False
        search.looked_at[key] = SHOWN
        return True

    def _eliminated(self, goal: Form, latest: int, search: _Search, later: int) -> bool:
        """Whether a goal follows from one without its latest atom: by what the atom was made from, whichever of some
        forms it is, or by what was made of it."""
        factor, atom = goal[latest], self._atoms[latest]
        if atom.learn is not None:
            self._ask(atom)
        search.asked.setdefault(latest, atom.known)
        for form in atom.above if factor > 0 else atom.below:
            if self._positive(_less(goal, form, latest), search, later):
                return True
        bound = atom.low if factor > 0 else atom.high
        if bound is not None and self._positive(_with(goal, latest, constant(bound)), search, later):
            return True
        forms = atom.least_of if factor > 0 else atom.most_of
        if forms and all(self._positive(_with(goal, latest, form), search, later) for form in forms):
            return True
        beyond = atom.above_later if factor > 0 else atom.below_later
        if later == 0:
            search.deeper |= bool(beyond)
            return False
        return any(self._positive(_less(goal, form, latest), search, later - 1) for form in tuple(beyond))

    def _ask(self, atom: _Atom) -> None:
        """Has what is known of an atom found, once a scope."""
        if atom.learn is None or atom.asked == self._scope:
            return
        learn, atom.learn, atom.asked = atom.learn, None, self._scope
        if learn():
            self._asked.append((atom, learn))
        else:
            atom.learn = learn

    def _product(self, one: int, other: int) -> int:
        """The atom of a product of two others."""
        if (one, other) not in self._products:
            lows = self._atoms[one].low, self._atoms[other].low
            found = self._products[one, other] = self.atom(0 if all(n is not None and n >= 0 for n in lows) else None)
            if not self._learning:
                self._own.append((one, other))
            learn = self._learn_sign if self._learning else self._learn_product
            self.when_asked(found, lambda: learn(one, other))
        return self._products[one, other]

    def _learn_sign(self, one: int, other: int) -> bool:
        """Of a product that is only part of what is known of another: that it is not negative."""
        shown = self.seen({one: 1}) and self.seen({other: 1})
        if shown:
            self.assume(self.product({one: 1}, {other: 1}))
        return shown

    def _learn_product(self, one: int, other: int) -> bool:
        """A known form of one factor, times the other, which is not negative."""
        products = set(self._products.values())
        shown = [self.seen({one: 1}), self.seen({other: 1})]
        for factor, bounded, known in ((one, other, shown[0]), (other, one, shown[1])):
            if known:
                self._ask(self._atoms[bounded])
                forms = (*self._atoms[bounded].above, *self._atoms[bounded].below)
                for form in [form for form in forms if products.isdisjoint(form)]:
                    self._times(form, factor)
                for rival in self.taken_by({factor: 1}):
                    more = plus(plus(rival, {bounded: -1}), {ONE: -1})
                    if self.seen(more):
                        self._times(more, factor)
        return all(shown)

    def _times(self, form: Form, factor: int) -> None:
        """A known form, multiplied; of the products that this makes little is asked, or there would be no end."""
        before, self._learning = self._learning, True
        product = self.product(form, {factor: 1})
        self._learning = before
        self.assume(product)
