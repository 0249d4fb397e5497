"""What is done with the ids of a call where they lie in memory: machine code, for PyTorch's operators on a thousand ids
take longer to be called than to run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

Tensor = Any
"""A torch.Tensor."""


def narrow(ids: Tensor) -> tuple[Tensor, int, int]:
    """Ids of any shape in memory as int32, themselves where they are, and the least and the greatest of them; 0 and -1
    of none. What int32 cannot hold is not told from other ids: only the two ends tell."""
    if ids.dtype == torch.int32:
        least, greatest = torch.stack(torch.aminmax(ids)).tolist() if ids.numel() else (0, -1)
        return ids, least, greatest
    wide = np.ascontiguousarray((ids if ids.dtype == torch.int64 else ids.to(torch.int64)).numpy())
    narrowed = np.empty(ids.shape, np.int32)
    ends = _compiled().narrow(wide.reshape(-1), narrowed.reshape(-1))
    return torch.from_numpy(narrowed), *ends


def counting_sort(ids: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Where the elements of each of `count` places begin, [count + 1], and all elements of `ids` [n], int32 in memory,
    in that order, a stable one; both int32. Ids that are no such place come last, in the order in which they are."""
    begins, order = np.zeros(count + 1, np.int32), np.empty(len(ids), np.int32)
    _compiled().counting_sort(ids.contiguous().numpy(), begins, order)
    return torch.from_numpy(begins), torch.from_numpy(order)


def _narrow(ids: Any, narrowed: Any) -> tuple[int, int]:
    """Copies ids [n]; returns the least and the greatest."""
    least, greatest = (ids[0], ids[0]) if ids.size else (0, -1)
    for place in range(ids.size):
        least, greatest = min(least, ids[place]), max(greatest, ids[place])
        # What int32 cannot hold is cut here: Numba may be told to leave this to Python, which refuses to store it.
        narrowed[place] = np.int32(ids[place])
    return least, greatest


def _counting_sort(ids: Any, begins: Any, order: Any) -> None:
    """Fills `begins` [count + 1], which is zeros, and `order` [n]."""
    count = begins.size - 1
    for place in ids:
        if 0 <= place < count:
            begins[place + 1] += 1
    for place in range(count):
        begins[place + 1] += begins[place]
    following, behind = begins.copy(), begins[count]
    for element in range(ids.size):
        place = ids[element]
        if 0 <= place < count:
            order[following[place]] = element
            following[place] += 1
        else:
            order[behind] = element
            behind += 1


@functools.cache
def _compiled() -> SimpleNamespace:
    """The machine code of both, made when ids in memory are first seen."""
    import numba
    from numba import types as nt

    def array(kind: Any, *, written: bool = False) -> Any:
        return nt.Array(kind, 1, "C", readonly=not written)

    njit: Any = numba.njit  # annotated by Numba for use as a plain decorator, and without this option

    def compiled(function: Callable[..., Any], *arguments: Any) -> Any:
        return njit(arguments, nogil=True, no_cfunc_wrapper=True)(function)

    places = array(nt.int32, written=True)
    return SimpleNamespace(
        narrow=compiled(_narrow, array(nt.int64), places),
        counting_sort=compiled(_counting_sort, array(nt.int32), places, places),
    )
