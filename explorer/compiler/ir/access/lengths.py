"""Arrays of lengths: what a program reads instead of offsets where it finds its segments by accumulating (Ember §7.4).

They are never given: `bag_len` holds the differences of `bag_ptr`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OFFSETS, LENGTHS = "_ptr", "_len"
"""What the names of arrays of offsets end in, and those of their lengths."""


def lengths_name(offsets: str) -> str:
    """The array of lengths that belongs to one of offsets."""
    return offsets.removesuffix(OFFSETS) + LENGTHS


def with_lengths(names: list[str], inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The inputs, and for each name among these the lengths that are missing from them."""
    import numpy as np  # here, since a compilation of a text needs no arrays

    missing = [name for name in names if name.endswith(LENGTHS) and name not in inputs]
    found = {name: name.removesuffix(LENGTHS) + OFFSETS for name in missing}
    return {**inputs, **{name: np.diff(inputs[ptr]) for name, ptr in found.items() if ptr in inputs}}
