"""Facts of arrays: what is known of their elements, wherever they come from.

`Fact("first[_i] + population[_i] <= rows", "...")`: of every element at which both arrays have one. Names that begin
with an underscore stand for any index, with two for some index, `Fact("cached[_i] <= h[__j]", "...")`; others are
arrays, extents, and what a kernel has defined.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import NamedTuple

ANY, SOME = "_", "__"
"""What names of indices begin with: of any index, and of some index that there is."""
WORD = re.compile(r"\b[^\W\d]\w*")
"""A name. It is read with an underscore before it: the rows of `csr[a, col]` are `as`, a word of Python's."""
Term = tuple[str, tuple["Sum", ...]]
"""An extent, or an element of an array at some indices; a name with an underscore is an index."""
Sum = tuple[tuple[Term | None, int], ...]
"""Terms and how often each is taken; None is the number 1."""


class Fact(NamedTuple):
    """A comparison of sums, `<` or `<=`, and why it holds."""

    text: str
    reason: str

    @property
    def sum(self) -> Sum:
        """What is not negative: the right side less the left."""
        return _read(self.text)

    @property
    def arrays(self) -> frozenset[str]:
        """The arrays that it speaks of."""
        return _spoken_of(self.text)

    @property
    def names(self) -> frozenset[str]:
        """The extents, and other names that are no arrays and no indices, of which it speaks."""
        return _named(self.text)


@cache
def _read(text: str) -> Sum:
    comparison = ast.parse(WORD.sub(r"_\g<0>", text), mode="eval").body
    assert isinstance(comparison, ast.Compare)
    (operator,), (right,) = comparison.ops, comparison.comparators
    less = ((None, -1),) if isinstance(operator, ast.Lt) else ()
    return (*_sum(right, 1), *_sum(comparison.left, -1), *less)


@cache
def _spoken_of(text: str) -> frozenset[str]:
    return frozenset(_arrays(_read(text)))


@cache
def _named(text: str) -> frozenset[str]:
    return frozenset(term[0] for term, _ in _read(text) if term and not (term[1] or term[0].startswith(ANY)))


def _sum(node: ast.expr, times: int) -> Sum:
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return (*_sum(left, times), *_sum(right, times))
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return (*_sum(left, times), *_sum(right, -times))
        case ast.BinOp(left=ast.Constant(value=int(number)), op=ast.Mult(), right=right):
            return _sum(right, times * number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _sum(operand, -times)
        case ast.Constant(value=int(number)):
            return ((None, times * number),)
        case ast.Name(id=name):
            return (((name[1:], ()), times),)
        case ast.Subscript(value=ast.Name(id=name), slice=places):
            indices = places.elts if isinstance(places, ast.Tuple) else [places]
            return (((name[1:], tuple(_sum(index, 1) for index in indices)), times),)
    raise ValueError(f"no sum of a fact: {ast.unparse(node)}")


def _arrays(total: Sum) -> list[str]:
    found: list[str] = []
    for term, _ in total:
        if term is not None and term[1]:
            found += [term[0], *(name for index in term[1] for name in _arrays(index))]
    return found
