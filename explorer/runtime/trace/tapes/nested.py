"""Tensors in dictionaries, lists and tuples, as a module of several kinds of nodes and edges takes and returns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

_NESTED = dict, list, tuple


@dataclass(frozen=True)
class Leaf:
    """The place of a tensor, by its name."""

    name: str


def taken_apart(name: str, each: Any) -> tuple[Any, dict[str, Any]]:
    """What holds tensors, with a `Leaf` in the place of each, and these by their names: `x_dict.paper`."""
    if isinstance(each, torch.Tensor):
        return Leaf(name), {name: each}
    if type(each) not in _NESTED:
        return each, {}
    pairs = each.items() if isinstance(each, dict) else enumerate(each)
    made, tensors = {}, dict[str, Any]()
    for key, inner in pairs:
        path = f"{name}.{'_'.join(map(str, key)) if isinstance(key, tuple) else key}"
        while path in tensors:  # of keys that are written alike
            path += "_"
        made[key], found = taken_apart(path, inner)
        tensors |= found
    return made if isinstance(each, dict) else type(each)(made.values()), tensors


def put_together(each: Any, tensors: Mapping[str, Any]) -> Any:
    """What `taken_apart` took apart, with these tensors."""
    if isinstance(each, Leaf):
        return tensors[each.name]
    if type(each) not in _NESTED:
        return each
    if isinstance(each, dict):
        return {key: put_together(inner, tensors) for key, inner in each.items()}
    return type(each)(put_together(inner, tensors) for inner in each)
