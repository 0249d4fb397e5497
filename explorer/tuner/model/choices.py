"""What a point is expected to take by what is chosen in it alone, and by the data: before anything is compiled.

The model is given of each decision, whichever kernels have it, its value and how far that is from the usual point's,
and says how many times as long as the usual point a point takes. It is trained on spaces that were recorded, and what
it has learnt comes with the explorer.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.schedule.strategies import STRATEGY
from explorer.tuner.model.inputs import of_data
from explorer.tuner.model.trees import Floats, Trees
from explorer.tuner.points import ABSENT, Gene, Points
from explorer.tuner.recorded import Recorded

NUMBERS = (
    *("lanes", "chunk", "columns", "across", "warps", "block_rows", "loads", "depth", "along", "in_flight", "stages"),
    *("preload", "kept", "edges", "rounds", "elements", "unroll", "cache", "neighbours", "resident"),
)
"""Decisions that recorded spaces vary, by the logarithm of 1 more than their value."""
WORDS = tuple(("strategy", str(word)) for word in STRATEGY.domain)
"""Values that are words, each chosen or not."""
NOT_HERE, NOWHERE = -1.0, -2.0
"""In place of a decision that a point does not have, and of one that no point of its space has."""
WEIGHTS = Path(__file__).parent / "choices.npz"


def choices_of(points: Points, data: Mapping[str, float]) -> Floats:
    """What the model is given of points on this data (`features.data`), float32 [points, inputs]."""
    columns = [_column(points, name) for name in NUMBERS] + [_column(points, *word) for word in WORDS]
    own = np.stack(columns, 1)
    usual = np.maximum(own[points.usual], 0.0)
    apart = np.where(own < 0, 0.0, own - usual)
    told = np.log1p(np.maximum(of_data(data), 0.0))
    return np.concatenate([own, apart, np.broadcast_to(told, (len(own), len(told)))], 1).astype(np.float32)


def recorded_choices(space: Recorded) -> Floats:
    """The same of a recorded space."""
    return choices_of(space.points, space.data)


def expected(trees: Trees, inputs: Floats) -> NDArray[np.float64]:
    """How many times as long as the usual point points take, [points]."""
    return np.exp(trees.predict(inputs))


def _column(points: Points, key: str, word: str | None = None) -> NDArray[np.float64]:
    """A decision's value, or whether it is a word, in the mean of the kernels of a point that have it, [points]."""
    found = [
        _values(gene, points.ordinals[:, number], word)
        for number, gene in enumerate(points.genes)
        if gene.key.rpartition(".")[2] == key and "." in gene.key
    ]
    if not found:
        return np.full(len(points), NOWHERE)
    values = np.stack(found)
    has = np.isfinite(values)
    return np.where(has.any(0), np.where(has, values, 0).sum(0) / np.maximum(has.sum(0), 1), NOT_HERE)


def _values(gene: Gene, ordinals: NDArray[np.int16], word: str | None) -> NDArray[np.float64]:
    """Of a gene, NaN where a point does not have it. A word that is not there is not chosen."""
    if word is not None:
        table = [float(value == word) for value in gene.values]
        return np.where(ordinals == ABSENT, 0.0, np.array(table)[ordinals])
    table = [float(np.log2(1 + float(value))) for value in gene.values]
    return np.where(ordinals == ABSENT, np.nan, np.array(table)[ordinals])
