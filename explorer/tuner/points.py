"""Points of a space of schedules: genes with their values in order, and which of their combinations are valid.

A gene is a decision of a kernel ("SpMM_0.chunk") or an option of the model ("compact"); a point has an ordinal for
each, the place of its value among the gene's, or ABSENT where its other genes leave no such decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.decisions import Value

ABSENT = -1
"""The ordinal of a gene that a point does not have."""

Ordinals = NDArray[np.int16]
Mask = NDArray[np.bool_]
Values = Mapping[str, Value]
"""Of a point's genes, by key."""


@dataclass(frozen=True)
class Gene:
    """What is chosen: its values in order, numbers from the least to the largest, words as their decision has them."""

    key: str
    values: tuple[Value, ...]

    @property
    def is_option(self) -> bool:
        """Whether it is one of the model's, and not of a kernel."""
        return "." not in self.key


@dataclass(frozen=True, eq=False)
class Points:
    """The valid points of a space, each once: `ordinals` int16 [points, genes]. `usual` is the one that the heuristics
    choose."""

    genes: tuple[Gene, ...]
    ordinals: Ordinals
    usual: int

    @classmethod
    def of(cls, genes: Iterable[Gene], points: Sequence[Values], usual: Values) -> Points:
        """The points of these values, of genes that have more than one of them."""
        found = {gene.key: {point[gene.key] for point in points if gene.key in point} for gene in genes}
        missing = {key for key, taken in found.items() if any(key not in point for point in points) and taken}
        kept = tuple(
            Gene(gene.key, tuple(value for value in gene.values if value in found[gene.key]))
            for gene in genes
            if len(found[gene.key]) > 1 or gene.key in missing
        )
        places = [{value: place for place, value in enumerate(gene.values)} for gene in kept]

        def row(point: Values) -> list[int]:
            return [
                place[point[gene.key]] if gene.key in point else ABSENT
                for gene, place in zip(kept, places, strict=True)
            ]

        rows = dict.fromkeys(tuple(row(point)) for point in points)
        ordinals = np.array(list(rows), np.int16).reshape(len(rows), len(kept))
        return cls(kept, ordinals, list(rows).index(tuple(row(usual))))

    def __len__(self) -> int:
        return len(self.ordinals)

    def at(self, point: int) -> dict[str, Value]:
        """A point's values by gene."""
        row = self.ordinals[point]
        return {
            gene.key: gene.values[place] for gene, place in zip(self.genes, row.tolist(), strict=True) if place >= 0
        }

    @property
    def departing(self) -> NDArray[np.int64]:
        """In how many genes points differ from the usual one, [points]."""
        return np.asarray((self.ordinals != self.ordinals[self.usual]).sum(1), np.int64)

    def options_at(self, point: int) -> dict[str, Value]:
        """Those that are options of the model."""
        return {key: value for key, value in self.at(point).items() if "." not in key}

    def schedule_at(self, point: int) -> dict[str, Value]:
        """Those that are decisions of kernels."""
        return {key: value for key, value in self.at(point).items() if "." in key}

    @cached_property
    def counts(self) -> NDArray[np.int16]:
        """How many values each gene has, int16 [genes]."""
        return np.array([len(gene.values) for gene in self.genes], np.int16)

    def normalised(self, ordinals: NDArray[Any]) -> NDArray[np.float32]:
        """Ordinals [..., genes] from 0, a gene's first value, to 1, its last; NaN where one is ABSENT."""
        found = ordinals / np.maximum(self.counts - 1, 1).astype(np.float32)
        return np.where(ordinals == ABSENT, np.float32("nan"), found).astype(np.float32)

    @cached_property
    def coordinates(self) -> NDArray[np.float32]:
        """The points' own, normalised, float32 [points, genes]."""
        return self.normalised(self.ordinals)

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return {row.tobytes(): number for number, row in enumerate(np.ascontiguousarray(self.ordinals))}

    def find(self, ordinals: NDArray[Any]) -> int | None:
        """The point with these ordinals [genes], None where they are not valid together."""
        return self._places.get(np.ascontiguousarray(ordinals, np.int16).tobytes())

    def repaired(self, ordinals: NDArray[Any], among: Mask | None = None) -> int:
        """The point with these ordinals [genes] or, where they are not valid together, the nearest by Euclidean
        distance over normalised ordinals, or rather the first that differs from them in one gene (G-Sparse §III-D).
        `among` says which points [points] are left to choose from.

        Only genes that a point has can differ: what it does not have is not looked at. Raises ValueError where none is
        left."""
        own = self.find(ordinals)
        if own is not None and (among is None or among[own]):
            return own
        has = self.ordinals != ABSENT
        different = ((self.ordinals != ordinals) & has).sum(1)
        left = np.ones(len(self), np.bool_) if among is None else among
        near = np.flatnonzero(left & (different <= 1))
        if near.size:
            return int(near[np.argmin(different[near])])
        if not left.any():
            raise ValueError("no point is left to choose from")
        apart = np.nan_to_num(self.coordinates) - np.nan_to_num(self.normalised(ordinals))
        far = np.where(np.asarray(ordinals) == ABSENT, 1.0, apart**2)  # a gene that is new is as far as can be
        return int(np.argmin(np.where(left, np.where(has, far, 0.0).sum(1), np.inf)))

    def neighbours(self, point: int) -> NDArray[np.intp]:
        """The points that differ from one in a single gene that both have, and in which genes they have."""
        own = self.ordinals[point]
        same_genes = ((self.ordinals == ABSENT) == (own == ABSENT)).all(1)
        return np.flatnonzero(same_genes & ((self.ordinals != own).sum(1) == 1))

    def to_json(self) -> dict[str, Any]:
        """Genes with their values, ordinals gene by gene, and the usual point."""
        return {
            "genes": [{"key": gene.key, "values": list(gene.values)} for gene in self.genes],
            "ordinals": self.ordinals.T.tolist(),
            "usual": self.usual,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Points:
        """What `to_json` has written."""
        genes = tuple(Gene(each["key"], tuple(each["values"])) for each in found["genes"])
        columns = np.array(found["ordinals"], np.int16).reshape(len(genes), -1)
        return cls(genes, np.ascontiguousarray(columns.T), int(found["usual"]))
