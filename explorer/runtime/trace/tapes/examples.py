"""Inputs like those that a module is traced with, of other sizes and other ids.

A trace is made of two of them, and holds if both say the same: so no size or id of an example is taken for one that all
inputs have. Their sizes are no other dimension's of the module, so a dimension of a tape is of an index set or is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from math import isqrt
from typing import Any

import torch

from explorer.runtime.trace.tapes.tape import TraceError

_SMALLEST = (11, 499), (101, 1009), (499, 2003), (1009, 4001), (2003, 8009)
"""The least size of an index set in each example: far apart, so that a branch on a size is likely to be seen; and in
those that are drawn where sets of the ones before came out as long as others."""
DRAWS = len(_SMALLEST)
MOST_SUMS = 1024
"""Sums of sizes that no other one is to be."""
MOST_TYPES = 64
"""Ids below this, and those of a graph, are drawn unevenly again, so that no two are likely to come as often."""


Counting = str | tuple[str, int]
"""An argument that says how many rows there are: a number, or ids by the largest of them, of a graph's those of one
end."""


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


def sizes_of(tensors: Iterable[Any]) -> set[int]:
    """The sizes of the index sets that inputs have."""
    return {size for tensor in tensors for size in _sizes(tensor)}


def rises(tensor: Any) -> bool:
    """Whether a tensor is of whole numbers that begin with 0 and never fall."""
    ids = not tensor.is_floating_point() and tensor.dim() == 1 and tensor.numel() > 0
    return ids and int(tensor[0]) == 0 and bool((tensor[1:] >= tensor[:-1]).all())


def redrawn(
    inputs: Mapping[str, Any],
    fixed: set[int],
    draw: int = 0,
    counted: Mapping[Counting, int] | None = None,
    rising: bool = False,
) -> list[Example]:
    """Two examples, of no size in common. `fixed` are the sizes that no set may have; each `draw`, below DRAWS, is of
    others, and all but the first have edges between all rows, as many of an input of floats as there are. `counted`
    are as in Arguments. Where ids are to be `rising`, those of one dimension that rise from 0 in the example do, as
    places where bags begin. Raises TraceError."""
    counted = counted or {}
    static = {size for t in inputs.values() for dim, size in enumerate(t.shape) if dim != set_dim(t)}
    groups = dict.fromkeys([*(size for t in inputs.values() for size in _sizes(t)), *counted.values()])
    rows = {t.shape[0] for t in inputs.values() if t.is_floating_point() and t.dim()}  # which ids may be of
    _distinct(inputs)
    taken = fixed | static
    made = []
    for number, smallest in enumerate(_SMALLEST[draw]):
        sizes: dict[int, int] = {}
        sums = {0}  # of some of them, as of kinds that are put one behind another
        for size in groups:  # whose differences are others in each example
            floor = size * (3 + number) // 3 if size in rows or size in counted.values() else 0
            more = 1 + 2 * draw  # so that nodes of many degrees are met, which a module may pick rows by
            least = max([smallest, floor, *(more * other + 7 + 4 * number for other in sizes.values())])
            sizes[size] = _prime(least, {*taken, *sums, *(each - some for each in taken for some in sums)})
            taken.add(sizes[size])
            sums |= {some + sizes[size] for some in sums} if len(sums) < MOST_SUMS else set()
        generator = torch.Generator().manual_seed(number + 2 * draw)
        most = {size: sizes[size] - 1 for size in rows} if draw else {}
        drawn = {name: _drawn(tensor, sizes, generator, most, draw > 0) for name, tensor in inputs.items()}
        for key, size in counted.items():
            name, end = key if isinstance(key, tuple) else (key, ...)
            drawn[name] = drawn[name].clone()
            drawn[name][end] = _counting(drawn[name][end], sizes[size])
        if rising:
            drawn |= {
                name: _risen(drawn[name], int(tensor[-1]), sizes) for name, tensor in inputs.items() if rises(tensor)
            }
        made.append(Example(drawn, tuple(sizes.values())))
    return made


def rows_told(tensors: Mapping[str, Any], key: Counting) -> int:
    """How many rows an argument says that there are."""
    ids = tensors[key[0]][key[1]] if isinstance(key, tuple) else tensors[key]
    return int(ids.max()) + 1 if ids.dim() else int(ids)


def _risen(tensor: Any, last: int, sizes: Mapping[int, int]) -> Any:
    """Numbers in their order, from 0 to a place that every set has, or to the size of one where the `last` number of
    the example is that."""
    risen = tensor.clamp(max=min(sizes.values()) - 1).sort().values
    risen[-1] = sizes.get(last, risen[-1])
    risen[0] = 0
    return risen


def _sizes(tensor: Any) -> list[int]:
    dim = set_dim(tensor)
    return [] if dim is None else [tensor.shape[dim]]


def _distinct(inputs: Mapping[str, Any]) -> None:
    """Refuses a graph with as many edges as nodes, of which one cannot say which a tensor is of."""
    edges = {t.shape[1] for t in inputs.values() if set_dim(t) == 1}
    features = {t.shape[0] for t in inputs.values() if t.is_floating_point() and t.dim() > 1}
    if edges and features and features <= edges:
        raise TraceError("the example has as many nodes as edges: trace with a graph whose counts differ.")


def _prime(least: int, avoided: set[int]) -> int:
    return next(
        number
        for number in count(least)
        if number not in avoided and all(number % factor for factor in range(2, isqrt(number) + 1))
    )


def _counting(ids: Any, count: int) -> Any:
    """A number, or ids of so many rows, the last one of which is led to."""
    if ids.dim() == 0:
        return torch.tensor(count)
    spread = ids * count // (int(ids.max()) + 1)
    spread[spread.argmax()] = count - 1
    return spread


def _drawn(tensor: Any, sizes: Mapping[int, int], generator: Any, most: Mapping[int, int], uneven: bool) -> Any:
    """A tensor like one of the example's. `most` are, by an input's rows in the example, the largest id of one here."""
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
    highest = tensor.long().amax(dim, keepdim=True)
    spread = False
    for end in highest if dim == 1 else ():  # of a graph's, which may be of two sets of nodes
        above = [here for there, here in most.items() if int(end) < there]
        if len(above) == 1:
            end.fill_(above[0])
        spread = spread or bool(above)
    drawn = torch.rand(shape, generator=generator, dtype=torch.float64)
    if uneven and (spread or int(highest.max()) < MOST_TYPES):
        drawn = drawn.square()
    return (drawn * (highest + 1)).floor().to(tensor.dtype)
