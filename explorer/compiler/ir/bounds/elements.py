"""Elements of arrays of indices: what facts say of them, and what a search among them has found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from explorer.compiler.ir.bounds.affine import Affine, Form, constant, plus
from explorer.compiler.ir.facts import ANY, SOME, Fact, Sum, Term
from explorer.compiler.ir.node import Atom

NOTHING: Mapping[Term, Form] = {}
Writes = Mapping[str, int]
"""How often arrays were written."""
_Key = tuple[str, int, tuple[frozenset[tuple[int, int]], ...]]


class Elements:
    """The elements that a kernel loads, each an atom; `form` is what a name stands for."""

    def __init__(self, affine: Affine, facts: Iterable[Fact], form: Callable[[Atom], Form]) -> None:
        self.affine, self._form = affine, form
        self.atoms: dict[_Key, Form] = {}
        self.following: dict[_Key, tuple[Form, Form]] = {}
        self.facts: dict[str, list[Fact]] = {}
        for fact in facts:
            for array in fact.arrays:
                self.facts.setdefault(array, []).append(fact)

    def forget(self) -> None:
        """The end: nothing more is asked of names."""
        del self._form

    def search(self, found: int, array: str, lower: Form, upper: Form, value: Form, writes: Writes) -> None:
        """Notes that a place was searched: there is an element of at most the value, and what follows is more."""
        result = {found: 1}
        following = plus(result, constant(1))
        self.following[_key(array, (following,), writes)] = plus(upper, following, -1), value
        self.affine.when_asked(found, partial(self._learn_search, array, result, lower, upper, value, writes))

    def say(self, found: int, array: str, indices: tuple[Form, ...], writes: Writes) -> None:
        """Has an atom be known as what facts say of an element."""
        self.affine.when_asked(found, partial(self._learn_element, array, indices, found, writes))

    def _learn_search(self, array: str, result: Form, lower: Form, upper: Form, value: Form, writes: Writes) -> bool:
        affine, holds = self.affine, self.affine.guessed
        if holds(plus(upper, lower, -1)):
            affine.assume(plus(plus(upper, result, -1), constant(-1)))
        first, last, here = (
            self.element(array, (place,), writes) for place in (lower, plus(upper, constant(-1)), result)
        )
        if affine.seen(plus(plus(last, value, -1), constant(-1))):
            affine.assume(plus(plus(upper, result, -1), constant(-2)))
        if affine.seen(plus(value, first, -1)) and holds(plus(plus(upper, lower, -1), constant(-1))):
            affine.assume(plus(result, lower, -1))
            affine.assume(plus(value, here, -1))
            return True
        return False

    def _learn_following(self, element: Form, room: Form, value: Form) -> bool:
        """What follows a place that was found is more than the value, where the bounds have it."""
        inside = self.affine.guessed(plus(room, constant(-1)))
        if inside:
            self.affine.assume(plus(plus(element, value, -1), constant(-1)))
        return inside

    def element(self, array: str, indices: tuple[Form, ...], writes: Writes) -> Form:
        """An element of an array of indices, as it was after so many writes."""
        key = _key(array, indices, writes)
        if key not in self.atoms:
            found = self.affine.atom()
            self.atoms[key] = {found: 1}
            self.say(found, array, indices, writes)
        return self.atoms[key]

    def _learn_element(self, array: str, indices: tuple[Form, ...], found: int, writes: Writes) -> bool:
        for fact in self.facts.get(array, ()):
            for term, _ in fact.sum:
                if term is not None and term[0] == array:
                    self._state(fact, term, indices, found, writes)
        following = self.following.get(_key(array, indices, writes))
        return following is None or self._learn_following({found: 1}, *following)

    def _state(self, fact: Fact, term: Term, indices: tuple[Form, ...], found: int, writes: Writes) -> None:
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
                case _ if self.fact(pattern, {}, writes) != index:
                    return
        self.affine.assume(self.fact(fact.sum, stands, writes, {term: {found: 1}}))

    def fact(
        self, total: Sum, stands: Mapping[str, Form], writes: Writes, known: Mapping[Term, Form] = NOTHING
    ) -> Form:
        """A sum of a fact; `stands` has what names of any index stand for, `known` which terms are what."""
        form: Form = {}
        for term, times in total:
            if term is None:
                form = plus(form, constant(times))
            elif term in known:
                form = plus(form, known[term], times)
            elif term[1]:
                at = tuple(self.fact(index, stands, writes) for index in term[1])
                form = plus(form, self.element(term[0], at, writes), times)
            else:
                some = {self.affine.atom(0): 1} if term[0].startswith(SOME) else self._form(term[0])
                form = plus(form, stands.get(term[0], some), times)
        return form


def _key(array: str, indices: tuple[Form, ...], writes: Writes) -> _Key:
    return array, writes.get(array, 0), tuple(frozenset(index.items()) for index in indices)
