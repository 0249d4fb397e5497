"""Bounds of sums of many terms, whole or of segments, and of those that more is added to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference.numbers import primitives as plain
from explorer.runtime.reference.numbers.bounds.bounded import Bounded, bounded
from explorer.runtime.reference.numbers.bounds.parts import Floats, Part, absent, full, root, scaled_down, size_of
from explorer.runtime.reference.numbers.bounds.places import pick
from explorer.runtime.reference.numbers.primitives import Numbers


def summed(additions: Any, magnitude: Part, own: Part) -> Part:
    """What is a sum's own: of its terms', and of so many independent additions of terms of these magnitudes."""
    return root(own, magnitude * np.sqrt(additions, dtype=np.float32))


def _additions(count: Any, different: Any) -> Any:
    """How many times additions round, for a sum of `count` terms of which some are alike."""
    return np.maximum(count - 1.0, 0.0) * (count / np.maximum(1.0, different))


def total(x: Bounded) -> Bounded:
    count = x.shape[-1]
    changes = np.count_nonzero(x.value[..., 1:] != x.value[..., :-1], axis=-1)
    shared = x.shared if absent(x.shared) else full(x.shared, x.shape).sum(axis=-1)
    magnitude = size_of(x.value).sum(axis=-1)
    own = summed(_additions(float(count), changes + 1.0), magnitude, _root_of_squares(x))
    return Bounded(x.value.sum(axis=-1), own, shared)


def _root_of_squares(x: Bounded) -> Part:
    """The root of the sum of squares of what is its own, along the last axis."""
    if absent(x.own):
        return x.own
    scaled, most = scaled_down(full(x.own, x.shape), -1)
    return np.sqrt(np.einsum("...k,...k->...", scaled, scaled)) * most[..., 0]


@dataclass(frozen=True, eq=False)
class Accumulated(Bounded):
    """Sums that more may be added to: how many terms and different ones they have, of what magnitude, and the squares
    of what is their own of the terms' errors."""

    terms: Any = 0.0
    different: Any = 0.0
    magnitude: Any = 0.0
    squares: Any = 0.0

    def add(self, rows: Numbers, other: Accumulated) -> None:
        """Puts the terms of another, which has a row for each of these, into these sums themselves."""
        self.value[rows] += other.value
        self.shared[rows] += full(other.shared, other.shape)
        for name in ("terms", "different", "magnitude", "squares"):
            getattr(self, name)[rows] += getattr(other, name)
        terms = (self.terms[rows], self.different[rows], self.magnitude[rows], self.squares[rows])
        self.own[rows] = _own_of(*terms)


def _own_of(terms: Any, different: Any, magnitude: Part, squares: Floats) -> Part:
    return summed(_additions(terms, different), magnitude, np.sqrt(squares).astype(np.float32))


def segment_sum(x: Bounded, places: Numbers, count: int) -> Accumulated:
    terms, different, alike = (plain.widened(number, x.value.ndim) for number in _distinct(x.value, places, count))
    value, magnitude = (plain.segment_sum(part, places, count) for part in (x.value, size_of(x.value)))
    shared = x.shared if absent(x.shared) else plain.segment_sum(full(x.shared, x.shape), places, count)
    squares = np.zeros(value.shape)
    if not absent(x.own):
        squares = alike * plain.segment_sum(np.square(full(x.own, x.shape), dtype=np.float64), places, count)
    own = _own_of(terms, different, magnitude, squares)
    return Accumulated(value, own, shared, "", terms, different, magnitude, squares)


SAMPLED_COLUMNS = 3
"""By so many columns it is decided which rows of a sum are alike."""


def _distinct(values: Floats, places: Numbers, count: int) -> tuple[Floats, Floats, Floats]:
    """How many terms there are at each place, how many of them differ in float32 and are not 0, and how many are like
    one of them in the mean: by a few columns, the fewest and the most of them.

    Parallel edges have equal terms, whose errors are equal too: m of them have m^2 times the square of one's."""
    terms = np.bincount(places, minlength=count).astype(np.float64)
    flat = values.reshape(len(values), math.prod(values.shape[1:]))
    different, pairs = terms, terms
    for column in np.unique(np.linspace(0, flat.shape[1] - 1, SAMPLED_COLUMNS).astype(int)) if flat.size else ():
        taken = np.asarray(flat[:, column]).astype(np.float32) + np.float32(0)
        keys = np.sort((places.astype(np.int64) << 32) | taken.view(np.uint32).astype(np.int64))
        first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        copies = np.diff(first, append=len(keys))
        # Zeros are no error; counted as different terms, they leave the share of those that are alike.
        zero = keys[first] & 0xFFFFFFFF == 0
        at = keys[first] >> 32
        different = np.minimum(different, np.bincount(at, np.where(zero, copies, 1), count))
        pairs = np.maximum(pairs, np.bincount(at, np.where(zero, copies, copies**2), count))
    return terms, different, pairs / np.maximum(terms, 1)


def accumulate(array: Any, ids: npt.NDArray[np.integer], values: Any) -> Bounded:
    """One sum however often it is added to, as where a loop's elements come in chunks."""
    rows, places = np.unique(ids, return_inverse=True)
    order = np.argsort(places, kind="stable")
    added = segment_sum(pick(bounded(values), (order,)), places[order], len(rows))
    found = array if isinstance(array, Accumulated) else _begun(bounded(array))
    found.add(rows, added)
    return found


def _begun(base: Bounded) -> Accumulated:
    """A sum whose first term is what there is; its arrays may be changed."""
    one = (base.value != 0).astype(np.float64)
    own, shared = (full(part, base.shape) for part in (base.own, base.shared))
    squares = np.square(own, dtype=np.float64)
    return Accumulated(base.value, own, shared, "", one, one.copy(), size_of(base.value), squares)
