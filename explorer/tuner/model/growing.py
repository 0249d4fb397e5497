"""Grows boosted trees (`trees`), by histograms: for those who train, and not for users."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numba
import numpy as np
from numpy.typing import NDArray

from explorer.tuner.model.trees import Doubles, Floats, Trees, together

Bins = NDArray[np.uint8]
ALIKE = 1 - 1e-9
"""Of questions that gain more than that share of what the best does the first is asked: rounding, which a processor's
vectors decide, would choose among them otherwise, and move what is told of a point by a hundredth."""


@dataclass(frozen=True)
class Growing:
    """How trees are grown: how many of what depth, which share of what is missing each adds, from which share of the
    points and inputs, into how many bins inputs are sorted, and how many points' weight a leaf is pulled to 0 by."""

    trees: int = 300
    depth: int = 6
    rate: float = 0.06
    rows: float = 0.7
    columns: float = 0.3
    bins: int = 32
    pull: float = 1.0
    seed: int = 0


def grow(inputs: Floats, wanted: Doubles, weights: Doubles, how: Growing | None = None) -> Trees:
    """Trees that give what is wanted [points] of points with these inputs [points, inputs], by weighted squares."""
    how = how or Growing()
    weights = weights / weights.mean()
    binned = _Binned.of(inputs, how.bins)
    base = float(np.average(wanted, weights=weights))
    missing = wanted - base
    grown = []
    for drawn, columns in _draws(binned, len(wanted), how):
        rows = np.flatnonzero(drawn)
        grown.append(_tree(binned, rows, columns, missing[rows] * weights[rows], weights[rows], how))
        missing -= grown[-1][2][_leaf_of(binned, *grown[-1][:2])]
    return _trees(base, grown, binned, how)


def grow_together(inputs: Floats, wanted: Doubles, weights: Doubles, how: Growing | None = None) -> Trees:
    """Trees that give what is wanted [points] of points with these inputs of their kernels [points, kernels, inputs],
    NaN for one that a point does not have, by weighted squares.

    What is missing of a point is asked of its kernels by the shares that they have of it so far: the first derivative
    of `together`, whose squares stand for the second (Gauss and Newton)."""
    how = how or Growing()
    weights = weights / weights.mean()
    present = ~np.isnan(inputs[:, :, 0])
    of = np.nonzero(present)[0]
    binned = _Binned.of(inputs[present], how.bins)
    base = float(np.average(wanted, weights=weights))
    wanted, each, grown = wanted - base, np.zeros(len(of)), list[Tree]()
    for drawn, columns in _draws(binned, len(wanted), how):
        told, shares = together(each, of, len(wanted))
        pulls, weighed = (weights * (wanted - told))[of] * shares, weights[of] * shares**2
        rows = np.flatnonzero(drawn[of])
        grown.append(_tree(binned, rows, columns, pulls[rows], weighed[rows], how))
        each += grown[-1][2][_leaf_of(binned, *grown[-1][:2])]
    return _trees(base, grown, binned, how)


@dataclass(frozen=True, eq=False)
class _Binned:
    """Inputs by the bin that each is in: `bins` [inputs, kernels], and the `edges` between bins, of which an input that
    is the same everywhere has none."""

    bins: Bins
    edges: list[Floats]
    count: int

    @classmethod
    def of(cls, inputs: Floats, count: int) -> _Binned:
        edges = [_edges(column, count) for column in inputs.T]
        bins = [np.searchsorted(edge, column) for edge, column in zip(edges, inputs.T, strict=True)]
        return cls(np.array(bins, np.uint8), edges, count)


def _edges(values: Floats, count: int) -> Floats:
    """Between few values halfway, of many as many quantiles. What is equal to an edge lies below it."""
    several = np.unique(values)
    if len(several) <= count:
        return np.asarray((several[1:] + several[:-1]) / 2, np.float32)
    return np.unique(np.quantile(values, np.linspace(0, 1, count + 1)[1:-1]).astype(np.float32))


Tree = tuple[list[int], list[int], Doubles]
"""Which inputs are asked, behind which of their bins, and what leaves add."""


def _draws(binned: _Binned, points: int, how: Growing) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.intp]]]:
    """For each tree which of so many points it is grown from, [points], and which inputs it may ask."""
    random = np.random.default_rng(how.seed)
    useful = np.array([place for place, edges in enumerate(binned.edges) if len(edges)])
    for _ in range(how.trees):
        drawn = random.random(points) < how.rows
        yield drawn, np.sort(random.choice(useful, max(1, round(how.columns * len(useful))), replace=False))


def _trees(base: float, grown: Sequence[Tree], binned: _Binned, how: Growing) -> Trees:
    """What was grown, as tables."""
    places = np.array([tree[0] for tree in grown], np.int16).reshape(-1, how.depth)
    cuts = np.array([tree[1] for tree in grown], np.int64).reshape(-1, how.depth)
    asked = zip(places.ravel().tolist(), cuts.ravel().tolist(), strict=True)
    limits = np.array([binned.edges[place][cut] for place, cut in asked], np.float32).reshape(places.shape)
    leaves = np.array([tree[2] for tree in grown], np.float32).reshape(-1, 1 << how.depth)
    return Trees(base, places, limits, leaves)


def _tree(
    binned: _Binned, rows: NDArray[np.intp], columns: NDArray[np.intp], pulls: Doubles, weights: Doubles, how: Growing
) -> Tree:
    """A tree of some kernels and inputs: at each depth the question that leaves the least squares."""
    own = binned.bins[np.ix_(columns, rows)]
    allowed = np.array([[cut < len(binned.edges[column]) for cut in range(binned.count)] for column in columns])
    node = np.zeros(len(rows), np.int64)
    places, cuts = list[int](), list[int]()
    for depth in range(how.depth):
        gains = np.where(allowed, _gains(own, node, 1 << depth, binned.count, pulls, weights, how.pull), -np.inf)
        column, cut = divmod(int(np.argmax(gains >= gains.max() * ALIKE)), binned.count)
        places.append(int(columns[column]))
        cuts.append(cut)
        node = node * 2 + (own[column] > cut)
    count = 1 << how.depth
    leaves = np.bincount(node, pulls, count) / (np.bincount(node, weights, count) + how.pull)
    return places, cuts, how.rate * leaves


def _gains(
    bins: Bins, node: NDArray[np.int64], nodes: int, count: int, pulls: Doubles, weights: Doubles, pull: float
) -> Doubles:
    """How far squares fall by asking of each input whether it is behind each bin, [inputs, bins]."""
    left, below = (found.cumsum(2) for found in _sums(bins, node, nodes, count, pulls, weights))
    right, above = left[:, :, -1:] - left, below[:, :, -1:] - below
    return np.asarray((left**2 / (below + pull) + right**2 / (above + pull)).sum(1))


def _add_up(
    bins: Bins, node: NDArray[np.int64], nodes: int, count: int, pulls: Doubles, weights: Doubles
) -> tuple[Doubles, Doubles]:
    """The sums of pulls and of weights by input, node and bin."""
    pulled, weighed = np.zeros((len(bins), nodes, count)), np.zeros((len(bins), nodes, count))
    for place in range(len(bins)):
        for point in range(len(node)):
            pulled[place, node[point], bins[place, point]] += pulls[point]
            weighed[place, node[point], bins[place, point]] += weights[point]
    return pulled, weighed


_sums = cast(Callable[..., tuple[Doubles, Doubles]], numba.njit(_add_up))


def _leaf_of(binned: _Binned, places: list[int], cuts: list[int]) -> NDArray[np.int64]:
    node = np.zeros(binned.bins.shape[1], np.int64)
    for place, cut in zip(places, cuts, strict=True):
        node = node * 2 + (binned.bins[place] > cut)
    return node
