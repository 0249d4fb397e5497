"""What was made of a graph's tensors, kept for the calls that bring the same ones again.

A tensor is the same while it is the same object and nobody has changed it: PyTorch counts the changes of a tensor and
of all that share its memory. It is held weakly, so that what was made of it goes with it, at the next call, and another
that comes to lie in its place is another. Changes that PyTorch does not see, of `.data` or by a library that shares the
memory, are not seen here either, as they are not by autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from threading import RLock
from typing import Any, Generic, TypeVar

import torch
from torch.utils.weak import TensorWeakRef

Tensor = Any
"""A torch.Tensor."""
Value = TypeVar("Value")
MOST = 4
"""Graphs of which something is kept at a time: those used last."""


@dataclass(frozen=True)
class _Entry(Generic[Value]):
    """What was made of tensors, which had been changed `versions` times."""

    tensors: tuple[TensorWeakRef, ...]
    versions: tuple[int, ...]
    value: Value

    @property
    def alive(self) -> bool:
        """Whether nobody can have taken a tensor's identity."""
        return all(tensor() is not None for tensor in self.tensors)


class Kept(Generic[Value]):
    """Values by the tensors that they were made of. What holds a tensor's memory may be kept, what holds the tensor
    itself may not."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, _Entry[Value]] = {}
        self._last: tuple[Hashable, _Entry[Value]] | None = None  # of the call before, whose tensors mostly come again
        self._lock = RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies begin with nothing."""
        return Kept, ()

    def get(self, tensors: Mapping[str, Tensor], rest: Hashable, make: Callable[[], Value]) -> Value:
        """What `make` makes of the tensors and of the `rest`, or made of them before."""
        if any(tensor.is_inference() for tensor in tensors.values()):
            return make()  # their changes are not counted
        key = rest, tuple([(name, id(tensor)) for name, tensor in tensors.items()])
        versions, last = tuple([tensor._version for tensor in tensors.values()]), self._last
        if last is not None and last[0] == key and last[1].versions == versions and self._are_alive(last[1]):
            return last[1].value
        with self._lock:
            self._entries = {other: entry for other, entry in self._entries.items() if entry.alive}
            entry = self._entries.pop(key, None)
            if entry is None or entry.versions != versions:
                entry = _Entry(tuple(map(TensorWeakRef, tensors.values())), versions, self._made(make))
            self._entries[key], self._last = entry, (key, entry)  # the last, as it was used last
            while len(self._entries) > MOST:
                del self._entries[next(iter(self._entries))]
        return entry.value

    def _are_alive(self, entry: _Entry[Value]) -> bool:
        """Whether one is, and no other is to be let go of."""
        return entry.alive and all(other.alive for other in [*self._entries.values()] if other is not entry)

    @staticmethod
    def _made(make: Callable[[], Value]) -> Value:
        """What is made, of tensors whose changes are counted even where the caller counts none."""
        with torch.inference_mode(False):
            return make()


class OfIdentities(dict[Any, Value]):
    """Values by identities of objects that they hold: copies begin with nothing, as what they hold has others."""

    def __reduce__(self) -> tuple[Any, ...]:
        return OfIdentities, ()


@dataclass(frozen=True)
class _Seen(Generic[Value]):
    """A tensor that was seen, and what was made of it, once it was seen twice."""

    tensor: TensorWeakRef
    version: int
    value: Value | None = None


class Again(Generic[Value]):
    """Values by the tensor that they were made of, of those that come again unchanged, as features of a graph do at
    each step, and activations do not: of what is seen once nothing is kept."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, Hashable], _Seen[Value]] = {}
        self._lock = RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies begin with nothing."""
        return Again, ()

    def get(self, tensor: Tensor, rest: Hashable, make: Callable[[], Value]) -> Value:
        """What `make` makes of the tensor and of the `rest`, or made of them before."""
        if tensor.is_inference() or tensor.requires_grad:
            return make()
        key = id(tensor), rest
        with self._lock:
            self._seen = {other: each for other, each in self._seen.items() if each.tensor() is not None}
            seen = self._seen.pop(key, None)
            if seen is None or seen.version != tensor._version:
                value, seen = make(), _Seen(TensorWeakRef(tensor), tensor._version)
            elif seen.value is None:
                value = make()
                seen = _Seen(seen.tensor, seen.version, value)
            else:
                value = seen.value
            self._seen[key] = seen  # the last, as it was used last
            while len(self._seen) > MOST:
                del self._seen[next(iter(self._seen))]
        return value
