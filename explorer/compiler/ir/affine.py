"""Proofs that sums of multiples of integers are not negative, from others that are not: `bags - 1 - b >= 0`.

An atom is an integer that is no such sum itself: a loop's variable, an extent, what was loaded, a quotient, the least
of two. They are numbered as they come, and a `Form` has by atom its factor, and under 0 its constant. What is known is
a list of forms that are not negative. A goal is proved by taking known forms away from it, each so often that the
goal's latest atom is gone, until a number is left: Fourier and Motzkin's elimination, one way at a time, as Farkas'
lemma has it. What cannot be known at once (a quotient's bounds need a dividend that is not negative) is found when the
atom is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import gcd

Form = dict[int, int]
"""By atom its factor; under ONE the constant. Factors are not 0."""
ONE = 0
"""The atom of constants."""
MOST_STEPS = 100
"""Goals that are looked at before a proof is given up, for each of the following and one more."""
MOST_LATER = 3
"""Forms that a proof takes away which bring a later atom than the one that goes: what was made of it, or guards it."""


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
    above: list[Form] = field(default_factory=list)  # known forms where its factor is positive, without later atoms
    below: list[Form] = field(default_factory=list)  # likewise, negative
    above_later: list[Form] = field(default_factory=list)  # with later atoms
    below_later: list[Form] = field(default_factory=list)


def constant(number: int) -> Form:
    """A number as a form."""
    return {ONE: number} if number else {}


def plus(left: Form, right: Form, times: int = 1) -> Form:
    """`left + times * right`."""
    total = dict(left)
    for atom, factor in right.items():
        changed = total.get(atom, 0) + times * factor
        if changed:
            total[atom] = changed
        else:
            total.pop(atom, None)
    return total


def scaled(form: Form, times: int) -> Form:
    """`times * form`."""
    return {atom: times * factor for atom, factor in form.items()} if times else {}


def _less(goal: Form, known: Form, atom: int) -> Form:
    """A goal's multiple, and a known form taken away from it so often that an atom is gone."""
    times, often = abs(known[atom]), abs(goal[atom])
    total = dict(goal) if times == 1 else {other: times * factor for other, factor in goal.items()}
    for other, factor in known.items():
        changed = total.get(other, 0) - often * factor
        if changed:
            total[other] = changed
        else:
            del total[other]
    return total


def is_number(form: Form) -> bool:
    """Whether a form has no atoms."""
    return not form or form.keys() == {ONE}


class _Search:
    """The goals that one proof has looked at."""

    def __init__(self, later: int) -> None:
        self._left = MOST_STEPS * (later + 1)
        self._seen: dict[frozenset[tuple[int, int]], int] = {}
        self._shown: set[frozenset[tuple[int, int]]] = set()

    def shows(self, goal: Form, later: int, show: Callable[[], bool]) -> bool:
        """Whether a goal can be shown: it is looked at but once with as many later forms."""
        key = frozenset(goal.items())
        self._left -= 1
        if key in self._shown:
            return True
        if self._left < 0 or self._seen.get(key, -1) >= later:
            return False
        self._seen[key] = later
        if show():
            self._shown.add(key)
            return True
        return False


class Affine:
    """The atoms of a program and what is known of them in a scope."""

    def __init__(self) -> None:
        self._atoms = [_Atom(1, 1)]
        self._products: dict[tuple[int, int], int] = {}
        self._learnt: list[list[Form]] = []  # the lists that scopes have added to, in order
        self._asked: list[tuple[_Atom, Callable[[], bool]]] = []
        self._scope = 0

    def atom(self, low: int | None = None, high: int | None = None) -> int:
        """A new atom, perhaps of known bounds."""
        self._atoms.append(_Atom(low, high))
        return len(self._atoms) - 1

    def when_asked(self, atom: int, learn: Callable[[], bool]) -> None:
        """What to do when an atom's bounds are asked for: it may `assume` some, and says whether those are all. If not
        it is done again in a scope where more is known."""
        self._atoms[atom].learn = learn

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
        pairs = [pair for pair in self._products if atom in pair]
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
        total = 0
        for atom, factor in form.items():
            bound = self._atoms[atom].low if factor > 0 else self._atoms[atom].high
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
        common = gcd(*(factor for atom, factor in form.items() if atom != ONE))
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
                    self._learnt.append(known)

    def mark(self) -> tuple[int, int]:
        """Where a scope begins."""
        self._scope += 1
        return len(self._learnt), len(self._asked)

    def ask(self, form: Form) -> None:
        """Has what is known of a form's atoms found."""
        for number in form:
            self._ask(self._atoms[number])

    def back_to(self, mark: tuple[int, int]) -> None:
        """Forgets what was assumed, and found, since a scope began."""
        learnt, asked = mark
        while len(self._learnt) > learnt:
            self._learnt.pop().pop()
        while len(self._asked) > asked:
            atom, learn = self._asked.pop()
            atom.learn, atom.asked = learn, -1

    def holds(self, form: Form, most_later: int = MOST_LATER) -> bool:
        """Whether a form is shown to be not negative; False says nothing, and of `most_later` below MOST_LATER less."""
        low = self.low(form)
        if low is not None:
            if low >= 0:
                return True
            if is_number(form):
                return False
        goal = plus(form, {ONE: 1})
        return any(self._positive(goal, _Search(later), later) for later in range(most_later + 1))

    def _positive(self, goal: Form, search: _Search, later: int) -> bool:
        """Whether a goal is above 0, by so many forms with later atoms at most. Goals are multiples of an integer, so
        that nothing is lost by rounding."""
        low = self.low(goal)
        if low is not None and low > 0:
            return True
        latest = max(goal, default=ONE)
        return latest != ONE and search.shows(goal, later, lambda: self._eliminated(goal, latest, search, later))

    def _eliminated(self, goal: Form, latest: int, search: _Search, later: int) -> bool:
        self._ask(self._atoms[latest])
        if any(self._positive(rest, search, later) for rest in self._without(goal, latest)):
            return True
        if self._each(goal, latest, search, later):
            return True
        return later > 0 and any(self._positive(rest, search, later - 1) for rest in self._beyond(goal, latest))

    def _without(self, goal: Form, latest: int) -> Iterator[Form]:
        """Goals without the latest atom of one, each of which it follows from, by what the atom was made from."""
        factor, atom = goal[latest], self._atoms[latest]
        for form in atom.above if factor > 0 else atom.below:
            yield _less(goal, form, latest)
        bound = atom.low if factor > 0 else atom.high
        if bound is not None:
            yield self._with(goal, latest, constant(bound))

    def _beyond(self, goal: Form, latest: int) -> Iterator[Form]:
        """Likewise, by what was made of the atom."""
        factor, atom = goal[latest], self._atoms[latest]
        for form in tuple(atom.above_later if factor > 0 else atom.below_later):
            yield _less(goal, form, latest)

    def _each(self, goal: Form, latest: int, search: _Search, later: int) -> bool:
        """Whether a goal is above 0 whichever of some forms its latest atom is."""
        atom = self._atoms[latest]
        forms = atom.least_of if goal[latest] > 0 else atom.most_of
        goals = [self._with(goal, latest, form) for form in forms]
        return bool(goals) and all(self._positive(rest, search, later) for rest in goals)

    def _with(self, goal: Form, atom: int, form: Form) -> Form:
        """A goal with a form in the place of an atom."""
        without = {other: factor for other, factor in goal.items() if other != atom}
        return plus(without, form, goal[atom])

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
            self.when_asked(found, lambda: self._learn_product(one, other))
        return self._products[one, other]

    def _learn_product(self, one: int, other: int) -> bool:
        """A known form of one factor, times the other, which is not negative."""
        products = set(self._products.values())
        shown = [self.holds({one: 1}, 0), self.holds({other: 1}, 0)]
        for factor, bounded, known in ((one, other, shown[0]), (other, one, shown[1])):
            if known:
                self._ask(self._atoms[bounded])
                forms = (*self._atoms[bounded].above, *self._atoms[bounded].below)
                for form in [form for form in forms if products.isdisjoint(form)]:
                    self.assume(self.product(form, {factor: 1}))
                for rival in self.taken_by({factor: 1}):
                    more = plus(plus(rival, {bounded: -1}), {ONE: -1})
                    if self.holds(more, 1):
                        self.assume(self.product(more, {factor: 1}))
        return all(shown)
