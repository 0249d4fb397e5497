"""The kernels of points, each with the decisions that it goes by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.tuner.points import ABSENT, Gene, Points

Doubles = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Part:
    """A kernel in the points of a space: which have it (`present` [points]), its `numbers` by decision [points], NaN
    where a point has none, and which of its decisions' words it has (`words`, by decision and word [points])."""

    present: NDArray[np.bool_]
    numbers: dict[str, Doubles]
    words: dict[tuple[str, str], NDArray[np.bool_]]

    def number(self, name: str, otherwise: float | Doubles) -> Doubles:
        """A decision's value, or what is thought of where there is none, [points]."""
        found = self.numbers.get(name)
        missing = np.broadcast_to(np.asarray(otherwise, np.float64), self.present.shape)
        return missing if found is None else np.where(np.isnan(found), missing, found)

    def is_word(self, name: str, *words: str) -> NDArray[np.bool_]:
        """Where a decision is one of these words, [points]."""
        none = np.zeros(len(self.present), np.bool_)
        return np.asarray(np.any([self.words.get((name, word), none) for word in words], axis=0), np.bool_)


def parts_of(points: Points) -> list[Part]:
    """The kernels that points have, in the order of their first genes.

    What a kernel was cut into is called as it is with more behind that (TransR, TransR_product): such a part goes by
    the decisions of the whole too, and a point that has it does not have the whole as a part beside it. A point of
    which no kernel has decisions has one part without any."""
    genes: dict[str, list[int]] = {}
    for number, gene in enumerate(points.genes):
        if not gene.is_option:
            genes.setdefault(gene.key.rpartition(".")[0], []).append(number)
    has = {kernel: (points.ordinals[:, own] != ABSENT).any(1) for kernel, own in genes.items()}
    found = []
    for kernel in genes:
        cut = [has[other] for other in genes if other.startswith(f"{kernel}_")]
        present = has[kernel] & ~np.any(cut, axis=0) if cut else has[kernel]
        whole = [number for other in genes if kernel.startswith(f"{other}_") for number in genes[other]]
        if present.any():
            found.append(_part(points, [*whole, *genes[kernel]], present))
    covered = np.any([part.present for part in found], axis=0) if found else np.zeros(len(points), np.bool_)
    return found if covered.all() else [*found, Part(~covered, {}, {})]


def _part(points: Points, genes: list[int], present: NDArray[np.bool_]) -> Part:
    """A part that goes by some genes, of which a later one counts where both are there."""
    numbers, words = dict[str, Doubles](), dict[tuple[str, str], NDArray[np.bool_]]()
    for number in genes:
        gene, ordinals = points.genes[number], points.ordinals[:, number]
        name = gene.key.rpartition(".")[2]
        if any(isinstance(value, str) for value in gene.values):
            words.update({(name, word): chosen for word, chosen in _words(gene, ordinals)})
            continue
        own = np.where(ordinals == ABSENT, np.nan, np.array([float(value) for value in gene.values])[ordinals])
        before = numbers.get(name, own)
        numbers[name] = np.where(np.isnan(own), before, own)
    return Part(present, numbers, words)


def _words(gene: Gene, ordinals: NDArray[np.int16]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    for place, value in enumerate(gene.values):
        yield str(value), ordinals == place
