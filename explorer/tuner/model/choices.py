"""What a point is expected to take by what is chosen in it alone, and by the data: before anything is compiled.

The model is two forests, and says what they say in the mean. One is given of a point as a whole each decision,
whichever kernels have it, and how far that is from the usual point's. The other is given the same of each kernel, and
what its decisions come to on a GPU (`estimates`): it says how many times as long each kernel takes, and a point takes
what its kernels do, one after another. Which of them takes most is not known, and they are thought of as alike. Both
are trained on spaces that were recorded, and what they have learnt comes with the explorer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from explorer.tuner.model.estimates import Work, apart, estimates
from explorer.tuner.model.inputs import of_data
from explorer.tuner.model.parts import Doubles, Part, parts_of
from explorer.tuner.model.trees import Floats, Trees
from explorer.tuner.points import ABSENT, Gene, Points
from explorer.tuner.recorded import Recorded

NUMBERS = (
    *("lanes", "chunk", "columns", "across", "warps", "block_rows", "loads", "depth", "along", "in_flight", "stages"),
    *("preload", "kept", "edges", "rounds", "elements", "unroll", "cache", "neighbours", "resident"),
)
"""Decisions that recorded spaces vary, by the logarithm of 1 more than their value."""
STRATEGIES = (
    *("chunks", "gemm", "gemm_of_sums", "cut_products", "split_sums", "stages", "split_rows", "outer_products"),
    *("long_sums", "dots", "row_pieces", "nonzeros", "rows", "split_elements", "elements", "segment_parts"),
    *("split_segments", "warps"),
)
"""Those that there were when spaces were recorded, in that order: a later one may not move what the trees ask about."""
WORDS = tuple(("strategy", word) for word in STRATEGIES)
"""Values that are words, each chosen or not."""
NOT_HERE, NOWHERE = -1.0, -2.0
"""In place of a decision that a kernel does not have in a point, and of one that it has in no point of the space."""
CHOSEN = len(NUMBERS) + len(WORDS)
WEIGHTS, OF_KERNELS = (Path(__file__).parent / name for name in ("choices.npz", "kernels.npz"))
"""What the forest of whole points has learnt, and what that of kernels has."""


@dataclass(frozen=True)
class Model:
    """The forest of whole points, and that of their kernels."""

    whole: Trees
    kernels: Trees

    def predict(self, inputs: Floats) -> Doubles:
        """What points with these inputs (`choices_of`) are expected to take, logarithms [points]."""
        return (self.whole.predict(inputs[:, 0]) + self.kernels.predict_together(inputs[:, 1:])) / 2

    def save(self) -> None:
        """Writes what comes with the explorer."""
        self.whole.save(WEIGHTS)
        self.kernels.save(OF_KERNELS)

    @classmethod
    def load(cls) -> Model:
        """Reads it."""
        return cls(Trees.load(WEIGHTS), Trees.load(OF_KERNELS))


def choices_of(points: Points, data: Mapping[str, float], sizes: Mapping[str, int]) -> Floats:
    """What the model is given of points on this data (`features.data`), of a model of these sizes by dim, float32
    [points, 1 + kernels, inputs]: of the whole point, behind which zeros stand, and of each kernel, NaN where the point
    does not have it."""
    work = Work.of(data, sizes)
    told = np.broadcast_to(of_data(data), (len(points), len(of_data(data))))
    told = np.log1p(np.maximum(told, 0.0))
    found = []
    for part in parts_of(points):
        figures = estimates(part, work)
        parts = (*_differing(_chosen(part), points.usual), figures, apart(figures, points.usual), told)
        found.append(np.where(part.present[:, None], np.concatenate(parts, 1), np.nan))
    whole = np.zeros_like(found[0])
    own = np.concatenate([*_differing(_of_all(points), points.usual), told], 1)
    whole[:, : own.shape[1]] = own
    return np.stack([whole, *found], 1).astype(np.float32)


def recorded_choices(space: Recorded) -> Floats:
    """The same of a recorded space."""
    return choices_of(space.points, space.data, space.about["sizes"])


def expected(model: Model, inputs: Floats) -> Doubles:
    """How many times as long as the usual point points take, [points]."""
    return np.exp(model.predict(inputs))


def unseen(points: Points) -> list[str]:
    """What the model is not given of what a space varies: options, by their names, and other decisions than it knows,
    once each, whichever kernels have them."""
    known = {*NUMBERS, *(key for key, _ in WORDS)}
    varied = [gene.key for gene in points.genes if len(gene.values) > 1]
    named = [(key, key.rpartition(".")[2]) for key in varied]
    return list(dict.fromkeys(name for key, name in named if "." not in key or name not in known))


def _differing(own: Doubles, usual: int) -> tuple[Doubles, Doubles]:
    """What is chosen, [points, CHOSEN], and how far that is from the usual point's, 0 where there is nothing."""
    return own, np.where(own < 0, 0.0, own - np.maximum(own[usual], 0.0))


def _chosen(part: Part) -> Doubles:
    """A kernel's decisions, [points, CHOSEN]."""
    columns = [_column(part, name) for name in NUMBERS]
    return np.stack([*columns, *(part.is_word(*word).astype(np.float64) for word in WORDS)], 1)


def _column(part: Part, name: str) -> Doubles:
    found = part.numbers.get(name)
    if found is None:
        return np.full(len(part.present), NOWHERE)
    return np.where(np.isnan(found), NOT_HERE, np.log2(1 + np.nan_to_num(found)))


def _of_all(points: Points) -> Doubles:
    """The same of a point as a whole: in the mean of its kernels that have a decision, [points, CHOSEN]."""
    columns = [_mean(points, name) for name in NUMBERS] + [_mean(points, *word) for word in WORDS]
    return np.stack(columns, 1)


def _mean(points: Points, key: str, word: str | None = None) -> Doubles:
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


def _values(gene: Gene, ordinals: NDArray[np.int16], word: str | None) -> Doubles:
    """Of a gene, NaN where a point does not have it. A word that is not there is not chosen."""
    if word is not None:
        table = [float(value == word) for value in gene.values]
        return np.where(ordinals == ABSENT, 0.0, np.array(table)[ordinals])
    table = [float(np.log2(1 + float(value))) for value in gene.values]
    return np.where(ordinals == ABSENT, np.nan, np.array(table)[ordinals])
