"""Arrays on a device of PyTorch's that NumPy's functions work on, by its protocols: so the reference's own code, bounds
and gradients included, computes where they are.

Types follow NumPy's rules, not PyTorch's: every function asks NumPy which type it computes in, and results are what
NumPy's would be but for the order in which sums are added. What meets such an array is taken to its device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin
from torch import Tensor

from explorer.runtime.reference.numbers.arithmetic import Arithmetic
from explorer.runtime.reference.numbers.bounds import Bounded, bounded
from explorer.runtime.reference.numbers.primitives import Array, Foreign

_TYPES: Mapping[np.dtype[Any], torch.dtype] = {
    np.dtype(np.float32): torch.float32,
    np.dtype(np.float64): torch.float64,
    np.dtype(np.int64): torch.int64,
    np.dtype(np.int32): torch.int32,
    np.dtype(np.bool_): torch.bool,
}
_NAMES: Mapping[torch.dtype, np.dtype[Any]] = {tensor: array for array, tensor in _TYPES.items()}


def _sign(x: Tensor) -> Tensor:
    return torch.where(torch.isnan(x), x, torch.sign(x)) if x.is_floating_point() else torch.sign(x)


UFUNCS: Mapping[str, Callable[..., Tensor]] = {
    **{name: getattr(torch, name) for name in ("add", "subtract", "multiply", "divide", "negative", "matmul")},
    **{name: getattr(torch, name) for name in ("maximum", "minimum", "exp", "expm1", "log", "log1p", "sqrt")},
    **{name: getattr(torch, name) for name in ("absolute", "tanh", "sin", "cos", "cosh", "square", "signbit", "floor")},
    **{name: getattr(torch, name) for name in ("isnan", "isinf", "isfinite", "less", "less_equal", "greater")},
    **{name: getattr(torch, name) for name in ("greater_equal", "not_equal", "bitwise_and", "bitwise_or")},
    "equal": torch.eq,
    "invert": torch.bitwise_not,
    "power": torch.pow,
    "sign": _sign,
    "arctan2": torch.atan2,
}
FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
"""What each of NumPy's functions that are none of its ufuncs does."""


class OnDevice(NDArrayOperatorsMixin, Foreign):
    """A tensor as NumPy's functions take arrays."""

    __array_priority__ = 100

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    # What it is

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        return len(self.tensor.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        return _NAMES[self.tensor.dtype]

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> OnDevice:
        return self.transpose(tuple(reversed(range(self.ndim))))

    def __len__(self) -> int:
        return len(self.tensor)

    def __bool__(self) -> bool:
        return bool(self.tensor)

    def __iter__(self) -> Iterator[OnDevice]:
        return (OnDevice(row) for row in self.tensor)

    def fetched(self) -> npt.NDArray[Any]:
        """The same in this process's memory."""
        found: npt.NDArray[Any] = self.tensor.numpy(force=True)
        return found

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self.fetched().astype(dtype or self.dtype, copy=False)

    # Its elements

    def __getitem__(self, index: Any) -> OnDevice:
        return OnDevice(self.tensor[self._places(index)])

    def __setitem__(self, index: Any, values: Any) -> None:
        self.tensor[self._places(index)] = tensor_of(values, self.tensor.device, self.dtype)

    def _places(self, index: Any) -> Any:
        """An index with its ids on the device."""
        parts = index if isinstance(index, tuple) else (index,)
        if isinstance(parts[-1], slice) and (parts[-1].step or 1) < 0:  # of the last axis; tensors have no such views
            parts = (*parts[:-1], np.arange(self.shape[-1])[parts[-1]])
        return tuple(
            torch.from_numpy(np.ascontiguousarray(part)).to(self.tensor.device)
            if isinstance(part, np.ndarray)
            else int(part)
            if isinstance(part, np.integer)
            else part
            for part in parts
        )

    # The methods of an array

    def astype(self, dtype: npt.DTypeLike, copy: bool = True) -> OnDevice:
        return OnDevice(self.tensor.to(_TYPES[np.dtype(dtype)], copy=copy))

    def copy(self) -> OnDevice:
        return OnDevice(self.tensor.clone())

    def reshape(self, *shape: Any) -> OnDevice:
        extents = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        return OnDevice(self.tensor.reshape(tuple(map(int, extents))))

    def transpose(self, axes: tuple[int, ...]) -> OnDevice:
        return OnDevice(self.tensor.permute(axes))

    def sum(self, axis: int, keepdims: bool = False) -> OnDevice:
        return OnDevice(self.tensor.sum(axis, keepdim=keepdims))

    def max(self, axis: int, keepdims: bool = False, initial: float | None = None) -> OnDevice:
        if initial is not None:
            row = list(self.tensor.shape)
            row[axis] = 1
            return OnDevice(torch.cat([self.tensor, self.tensor.new_full(row, initial)], axis).amax(axis, keepdims))
        return OnDevice(self.tensor.amax(axis, keepdims))

    def any(self) -> bool:
        return bool(self.tensor.any())

    def erf(self) -> OnDevice:
        return OnDevice(torch.erf(self.tensor.to(torch.float64)).to(self.tensor.dtype))

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        if method == "reduceat":
            return _reduced(ufunc, *inputs)
        name = ufunc.__name__
        if method != "__call__" or name not in UFUNCS or set(keywords) - {"out", "dtype"}:
            return NotImplemented
        common = keywords.get("dtype") or _common(inputs, divides=name == "divide")
        device = next(each.tensor.device for each in inputs if isinstance(each, OnDevice))
        found = UFUNCS[name](*(tensor_of(each, device, np.dtype(common)) for each in inputs))
        if "out" not in keywords:
            return OnDevice(found)
        (out,) = keywords["out"]
        if isinstance(out, OnDevice):
            out.tensor.copy_(found)
        else:
            out[...] = found.numpy(force=True)
        return out

    def __array_function__(
        self, function: Callable[..., Any], types: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        taken = FUNCTIONS.get(function)
        return NotImplemented if taken is None else taken(*arguments, **keywords)


def uploaded(values: Any, device: str) -> OnDevice:
    """Numbers on a device, in their type."""
    return values if isinstance(values, OnDevice) else OnDevice(torch.from_numpy(np.array(values)).to(device))


def tensor_of(values: Any, device: torch.device, dtype: np.dtype[Any]) -> Tensor:
    """Numbers of any kind as a tensor of a type on a device."""
    if isinstance(values, OnDevice):
        return values.tensor.to(_TYPES[dtype])
    array = np.array(values, dtype=dtype)
    return torch.from_numpy(array).to(device) if array.ndim else _number(array.tobytes(), dtype, device)


@lru_cache(maxsize=1_024)
def _number(number: bytes, dtype: np.dtype[Any], device: torch.device) -> Tensor:
    """A number on a device, taken there once: each way there is waited for. By its bytes, for 0.0 is -0.0."""
    return torch.from_numpy(np.frombuffer(number, dtype).reshape(()).copy()).to(device)


def _common(operands: Any, divides: bool = False) -> np.dtype[Any]:
    """The type that NumPy computes in: Python's own numbers have none of theirs."""
    kinds = [each if isinstance(each, (int, float)) else np.asarray(each).dtype for each in map(_typed, operands)]
    found = np.result_type(*kinds)
    return np.dtype(np.float64) if divides and found.kind != "f" else found


def _typed(operand: Any) -> Any:
    """An operand, or an element of its type."""
    if isinstance(operand, np.generic):
        return np.zeros((), operand.dtype)
    return np.zeros((), operand.dtype) if isinstance(operand, (OnDevice, np.ndarray)) else operand


def _device_of(operands: Any) -> torch.device:
    return next(each.tensor.device for each in operands if isinstance(each, OnDevice))


def _reduced(ufunc: np.ufunc, values: OnDevice, starts: npt.NDArray[np.integer]) -> OnDevice:
    """Runs of rows, each reduced to one: of places that rise, at the first axis."""
    tensor, device = values.tensor, values.tensor.device
    runs = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
    places, shape = torch.from_numpy(runs).to(device), (len(starts), *tensor.shape[1:])
    if ufunc is np.add:
        return OnDevice(tensor.new_zeros(shape).index_add_(0, places, tensor))
    rows = places.reshape(-1, *(1,) * (tensor.ndim - 1)).expand_as(tensor)
    found = tensor.new_full(shape, -math.inf).scatter_reduce_(0, rows, tensor, "amax")
    unknown = torch.zeros(shape, dtype=torch.int32, device=device)
    unknown.index_add_(0, places, torch.isnan(tensor).to(torch.int32))
    return OnDevice(torch.where(unknown > 0, torch.nan, found))


# Functions that are no ufuncs


def _stands_for(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def note(taken: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS[function] = taken
        return taken

    return note


@_stands_for(np.shape)
def _shape(a: OnDevice) -> tuple[int, ...]:
    return a.shape


@_stands_for(np.where)
def _where(condition: Any, x: Any, y: Any) -> OnDevice:
    device, common = _device_of((condition, x, y)), _common((x, y))
    chosen = tensor_of(condition, device, np.dtype(np.bool_))
    return OnDevice(torch.where(chosen, tensor_of(x, device, common), tensor_of(y, device, common)))


@_stands_for(np.zeros_like)
def _zeros_like(a: OnDevice, dtype: npt.DTypeLike | None = None, shape: tuple[int, ...] | None = None) -> OnDevice:
    return _filled(a, 0, dtype, shape)


@_stands_for(np.ones_like)
def _ones_like(a: OnDevice) -> OnDevice:
    return _filled(a, 1)


@_stands_for(np.full_like)
def _full_like(a: OnDevice, fill_value: float) -> OnDevice:
    return _filled(a, fill_value)


def _filled(
    like: OnDevice, number: float, dtype: npt.DTypeLike | None = None, shape: tuple[int, ...] | None = None
) -> OnDevice:
    kind = _TYPES[np.dtype(dtype or like.dtype)]
    return OnDevice(torch.full(like.shape if shape is None else shape, number, dtype=kind, device=like.tensor.device))


@_stands_for(np.broadcast_to)
def _broadcast_to(array: OnDevice, shape: tuple[int, ...]) -> OnDevice:
    return OnDevice(array.tensor.broadcast_to(tuple(map(int, shape))))


@_stands_for(np.concatenate)
def _concatenate(arrays: Any, axis: int = 0) -> OnDevice:
    device, common = _device_of(arrays), _common(arrays)
    return OnDevice(torch.cat([tensor_of(each, device, common) for each in arrays], axis))


@_stands_for(np.einsum)
def _einsum(subscripts: str, *operands: Any) -> OnDevice:
    device, common = _device_of(operands), _common(operands)
    return OnDevice(torch.einsum(subscripts, *(tensor_of(each, device, common) for each in operands)))


@_stands_for(np.moveaxis)
def _moveaxis(a: OnDevice, source: int, destination: int) -> OnDevice:
    return OnDevice(torch.movedim(a.tensor, source, destination))


@_stands_for(np.count_nonzero)
def _count_nonzero(a: OnDevice, axis: int) -> OnDevice:
    return OnDevice(torch.count_nonzero(a.tensor, axis))


# What the reference computes there


CHUNKS = 16
"""How many times larger chunks are than in a processor's cache."""


def on_device(arithmetic: Arithmetic, device: str) -> Arithmetic:
    """An arithmetic with bounds, its values on a device."""

    def exact(values: Array) -> Bounded:
        return bounded(uploaded(values, device))

    return replace(arithmetic, exact=exact, stored=lambda data: uploaded(data, device), chunks=CHUNKS)


def computed_on(device: str, compute: Callable[[Arithmetic], Any], arithmetic: Arithmetic) -> Any:
    """What is computed there, brought back; its memory is left to others. Raises what PyTorch does."""
    try:
        found = compute(on_device(arithmetic, device))
        if isinstance(found, dict):
            return {name: brought_back(each, device) for name, each in found.items()}
        if isinstance(found, tuple):
            return tuple(brought_back(each, device) for each in found)
        return brought_back(found, device)
    finally:
        if device == "cuda":
            torch.cuda.empty_cache()


def brought_back(found: Bounded, device: str) -> Bounded:
    """Values with their bounds in this process's memory."""

    def here(part: Array) -> Array:
        return part.fetched() if isinstance(part, OnDevice) else part

    return Bounded(here(found.value), here(found.own), here(found.shared), device)
