"""The indices of a score: the ids of a batch of triples, and of their negatives."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import torch

from .indices import Indices, Tensor, highest, narrow, one_device
from .module import Compiled


class Score(Compiled):
    """A score of triples: `module(h, r, t)`, in the order of `given`; corrupted ids are [batch, negatives], or where
    chunks of `sharing` triples in a row have one list of them, [chunks, negatives]."""

    given: tuple[tuple[str, str], ...]  # the maps, each with the set that it is over
    negatives: int
    sharing: int = 1

    def prepare(self, *ids: Tensor, known: Mapping[str, int] | None = None, **named: Tensor) -> Indices:
        """The ids, checked and narrowed."""
        found: dict[str, Any] = {**dict(zip((name for name, _ in self.given), ids, strict=False)), **named}
        wanted = {name for name, _ in self.given}
        if found.keys() != wanted or len(ids) > len(wanted):
            raise ValueError(f"{type(self).__name__} takes the indices {', '.join(name for name, _ in self.given)}.")
        arrays = {name: narrow(each, name, self.check_indices) for name, each in found.items()}
        made = Indices(one_device(arrays), arrays, {"unit": 1})
        telling = [name for name, over in self.given if over == "batch" or self.sharing == 1]
        first = next((arrays[name] for name in telling if arrays[name].ndim), None)
        batch = 0 if first is None else len(first)
        for name, over in self.given:
            shape = (batch,) if over == "batch" else (-(-batch // self.sharing), self.negatives)
            if tuple(arrays[name].shape) != shape:
                raise ValueError(f"{name} has the shape {list(arrays[name].shape)}, not {list(shape)}.")
            made.highest[name] = highest(arrays[name], self.check_indices)
            if over != "batch" and self.sharing > 1:
                facts = torch.arange(batch, device=made.device)
                arrays[name] = arrays[name].index_select(0, facts // self.sharing)
            made.counts[over] = prod(arrays[name].shape)
        made.counts["batch"] = batch
        return made
