"""Inputs like those that a module is traced with, of other sizes and other ids.

A trace is made of two of them, and holds if both say the same: so no size or id of an example is taken for one that all
inputs have. Their sizes are no other dimension's of the module, so a dimension of a tape is of an index set or is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from math import isqrt
from typing import Any

import torch

from explorer.runtime.trace.tapes.tape import TraceError

_SMALLEST = 11, 499
"""The least size of an index set in each example: far apart, so that a branch on a size is likely to be seen."""


@dataclass(frozen=True)
class Example:
    """Inputs by name, and the sizes of their index sets."""

    inputs: Mapping[str, Any]
    sizes: tuple[int, ...]


def set_dim(tensor: Any) -> int | None:
    """The dimension of an input that is an index set: the first, but the last of a graph's `[2, edges]`."""
    if tensor.dim() == 0:
        return None
    whole = not tensor.is_floating_point()
    return 1 if whole and tensor.dim() == 2 and tensor.shape[0] == 2 else 0


def redrawn(inputs: Mapping[str, Any], fixed: set[int]) -> list[Example]:
    """Two examples, of no size in common. `fixed` are the sizes that no set may have. Raises TraceError."""
    static = {size for t in inputs.values() for dim, size in enumerate(t.shape) if dim != set_dim(t)}
    groups = dict.fromkeys(size for t in inputs.values() for size in _sizes(t))
    rows = {t.shape[0] for t in inputs.values() if t.is_floating_point() and t.dim()}  # which ids may be of
    _distinct(inputs)
    taken = fixed | static
    made = []
    for number, smallest in enumerate(_SMALLEST):
        sizes: dict[int, int] = {}
        for size in groups:  # whose differences are others in each example
            least = max([smallest, size if size in rows else 0, *(other + 7 + 4 * number for other in sizes.values())])
            sizes[size] = _prime(least, taken)
            taken.add(sizes[size])
        generator = torch.Generator().manual_seed(number)
        drawn = {name: _drawn(tensor, sizes, generator) for name, tensor in inputs.items()}
        made.append(Example(drawn, tuple(sizes.values())))
    return made


def _sizes(tensor: Any) -> list[int]:
    dim = set_dim(tensor)
    return [] if dim is None else [tensor.shape[dim]]


def _distinct(inputs: Mapping[str, Any]) -> None:
    """Refuses a graph with as many edges as nodes, of which one cannot say which a tensor is of."""
    edges = {t.shape[1] for t in inputs.values() if set_dim(t) == 1}
    features = {t.shape[0] for t in inputs.values() if t.is_floating_point() and t.dim()}
    if edges and features and features <= edges:
        raise TraceError("the example has as many nodes as edges: trace with a graph whose counts differ.")


def _prime(least: int, avoided: set[int]) -> int:
    return next(
        number
        for number in count(least)
        if number not in avoided and all(number % factor for factor in range(2, isqrt(number) + 1))
    )


def _drawn(tensor: Any, sizes: Mapping[int, int], generator: Any) -> Any:
    dim = set_dim(tensor)
    shape = [sizes[size] if at == dim else size for at, size in enumerate(tensor.shape)]
    if tensor.is_floating_point():
        drawn = (
            torch.randn(shape, generator=generator, dtype=tensor.dtype) if dim is not None else tensor.detach().clone()
        )
        return drawn.requires_grad_()
    if tensor.numel() == 0:
        raise TraceError("the example has no ids: trace with one that has some.")
    if dim is None:
        return tensor.clone()
    highest = tensor.long().amax(0, keepdim=True) if dim == 0 else tensor.max().long().reshape(1, 1)
    drawn = torch.rand(shape, generator=generator, dtype=torch.float64)
    return (drawn * (highest + 1)).floor().to(tensor.dtype)
