"""Quotients and remainders of indices: what is known of them follows from their dividends, once it is asked for."""

from __future__ import annotations

from functools import partial

from explorer.compiler.ir.bounds.affine import ONE, Affine, Form, constant, is_number, plus, scaled


class Division:
    """The quotients and remainders of a kernel, each an atom."""

    def __init__(self, affine: Affine) -> None:
        self.affine = affine
        self.atoms: dict[object, Form] = {}
        self.divisors: set[int] = set()

    def quotient(self, dividend: Form, divisor: int) -> Form:
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

    def ratio(self, dividend: Form, divisor: Form) -> Form:
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

    def remainder(self, dividend: Form, divisor: int) -> Form:
        """What a number leaves of a dividend, of its sign."""
        key = "mod", frozenset(dividend.items()), divisor
        if key not in self.atoms:
            low = self.affine.low(dividend)
            positive = low is not None and low >= 0
            found = self.affine.atom(0 if positive else 1 - divisor, divisor - 1)
            self.atoms[key] = {found: 1}
            quotient = self.quotient(dividend, divisor)
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
