"""Indices as kernels read them: int32 tensors of one device, with the inverses of maps, each made once."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch

Tensor = Any
MOST = 2**31 - 1
VECTOR_BYTES = 16  # what kernels read at once, from an address that is a multiple of it


@dataclass(eq=False)
class Indices:
    """What a model's `prepare` makes of index tensors, for any number of calls.

    `arrays` are what kernels read, by name; `counts` the sizes of the sets that the indices tell, `highest` the
    greatest id of each map into a set whose size tensors tell. Kernels see edges and nonzeros in an order of their own:
    element i is the caller's element order[i]; None where the orders are one. `found` is what inspectors found."""

    device: Any
    arrays: dict[str, Tensor]
    counts: dict[str, int]
    highest: dict[str, int] = field(default_factory=dict)
    order: Tensor | None = None
    ordered: str = ""  # the set whose elements `order` is of
    edges: str = ""  # the end that a graph's edges are sorted by
    found: dict[Any, dict[str, Tensor]] = field(default_factory=dict)
    made_for: dict[str, tuple[int, ...]] = field(default_factory=dict)  # by inverse, the sizes that it is for

    def enter(self, tensor: Tensor, index_set: str) -> Tensor:
        """Rows in the caller's order, put into the kernels'."""
        return tensor.index_select(0, self.order) if self._sorts(index_set) else tensor

    def leave(self, rows: Tensor, index_set: str) -> Tensor:
        """Rows in the kernels' order, put back into the caller's."""
        return torch.empty_like(rows).index_copy_(0, self.order, rows) if self._sorts(index_set) else rows

    def _sorts(self, index_set: str) -> bool:
        return self.order is not None and index_set == self.ordered

    def invert(self, ids: Tensor, sizes: tuple[int, ...], ends: str, order: str) -> None:
        """Adds the inverse of a map into a set, or into a product of sets, of these `sizes`: where the elements of each
        place begin, and all in that order. Made again where the tensors of a call change them."""
        if self.made_for.get(ends) != sizes:
            self.arrays[ends], self.arrays[order] = inverse(ids, prod(sizes))
            self.made_for[ends] = sizes
            self.found.clear()  # which inspectors may have found of the one before

    def every(self, count: int) -> Tensor:
        """0, 1, 2, ..."""
        return torch.arange(count, dtype=torch.int32, device=self.device)


def inverse(ids: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Where the elements of each of `count` places begin, [count + 1], and all elements in that order; both int32.

    The order is stable, so that sums have one order on every run."""
    if count >= MOST:
        raise ValueError(f"{count:,} places are more than an index of 32 bits can tell apart.")
    places, order = torch.sort(ids.reshape(-1), stable=True)
    ends = torch.searchsorted(places, torch.arange(count + 1, dtype=ids.dtype, device=ids.device), out_int32=True)
    return ends, order.to(torch.int32)


def narrow(ids: Tensor, name: str, checked: bool) -> Tensor:
    """The ids as int32 for kernels; raises ValueError for what are none."""
    if not isinstance(ids, torch.Tensor):
        raise ValueError(f"{name} is a {type(ids).__name__} where a tensor of indices is needed.")
    if ids.dtype.is_floating_point or ids.dtype.is_complex or ids.dtype == torch.bool:
        raise ValueError(f"{name} holds {ids.dtype} where indices are whole numbers.")
    if checked and ids.numel():
        low, high = (int(end) for end in torch.aminmax(ids))
        if low < 0 or high > MOST:
            raise ValueError(f"{name} holds {low if low < 0 else high}, which is not between 0 and {MOST}.")
    # A copy in any case: the caller may write the next batch over its own before gradients are asked for.
    return aligned(ids.detach().to(torch.int32, copy=True))


def aligned(tensor: Tensor) -> Tensor:
    """The tensor as kernels can read it: itself, or a copy of one that is not contiguous, that begins between vectors,
    as the gradients do that torch.cat hands back, or whose memory holds its negative, as of a conjugate's imaginary
    part."""
    tensor = tensor.resolve_neg().contiguous()
    return tensor.clone() if tensor.data_ptr() % VECTOR_BYTES else tensor


def highest(ids: Tensor, checked: bool) -> int:
    """The greatest id, -1 where there is none or nobody asks."""
    return int(ids.max()) if checked and ids.numel() else -1


def one_device(tensors: dict[str, Tensor]) -> Any:
    """The device of all; raises ValueError where there are several."""
    devices = {tensor.device for tensor in tensors.values()}
    if len(devices) != 1:
        raise ValueError(f"The indices lie on different devices: {', '.join(sorted(map(str, devices)))}.")
    return devices.pop()
