"""Holds what kernels state of their arrays of indices (`Fact`) against the arrays of an emulated run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.ir.facts import SOME, Fact, Sum
from explorer.compiler.ir.node import Extent

UNWRITTEN = -1
"""What an array of indices has where nothing has been written."""
Sums = npt.NDArray[np.int64]


def broken_facts(
    facts: Iterable[Fact], arrays: Mapping[str, npt.NDArray[Any]], extents: Mapping[Extent, int]
) -> list[str]:
    """The facts that some elements break, but those of arrays and names that a kernel keeps to itself."""
    return [fact.text for fact in facts if _is_of(fact.sum, arrays, extents) and not _holds(fact.sum, arrays, extents)]


def _is_of(total: Sum, arrays: Mapping[str, Any], extents: Mapping[Extent, int]) -> bool:
    terms = [term for term, _ in total if term is not None]
    known = all(name in arrays if at else name.startswith("_") or name in extents for name, at in terms)
    inner = all(_is_of(index, arrays, extents) for _, at in terms for index in at)
    return known and inner and not any(name.startswith(SOME) for name, _ in terms)


def _holds(total: Sum, arrays: Mapping[str, npt.NDArray[Any]], extents: Mapping[Extent, int]) -> bool:
    spans = _spans(total, arrays)
    for places in product(*(range(span) for span in spans.values())):
        value = _value(total, arrays, {**extents, **dict(zip(spans, places, strict=True))})
        if value is not None and value < 0:
            return False
    return True


def _spans(total: Sum, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, int]:
    """How many indices each name stands for: as many as the arrays have that it is an index of by itself."""
    found: dict[str, int] = {}
    for term, _ in total:
        for dimension, index in enumerate(term[1] if term else ()):
            found |= _spans(index, arrays)
            for inner, _ in index:
                if inner is not None and not inner[1] and inner[0].startswith("_"):
                    size = arrays[term[0]].shape[dimension] if term else 0
                    found[inner[0]] = min(size, found.get(inner[0], size))
    return found


def _value(total: Sum, arrays: Mapping[str, npt.NDArray[Any]], names: Mapping[Extent, int]) -> int | None:
    """The sum; None where one of its elements has not been written."""
    value = 0
    for term, times in total:
        if term is None:
            value += times
        elif not term[1]:
            value += times * names[term[0]]
        else:
            at = [_value(index, arrays, names) for index in term[1]]
            array = arrays[term[0]]
            array = array.reshape(-1, *array.shape[array.ndim - len(at) + 1 :])  # kernels may see two dimensions as one
            if None in at or (element := int(array[tuple(at)])) == UNWRITTEN:  # type: ignore[index]
                return None
            value += times * element
    return value
