"""How tensors of ids were made, so that two are one map only where they are the same for all inputs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import torch

from explorer.runtime.trace.tapes.tape import Call, Tape, tensors_in

_KEEPS = {"view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims", "expand", "clone"}
_KEEPS |= {"contiguous", "alias", "detach", "_to_copy", "lift_fresh"}
"""Operators that leave ids along one dimension as they are."""
_COPIES = {"clone", "contiguous", "alias", "detach", "_to_copy", "lift_fresh"}
"""Those of them that leave the shape too, and may lay out in memory what was only repeated before."""


def signatures(tape: Tape, given: Mapping[int, str]) -> dict[int, int]:
    """By the identity of a tensor, the number of the way that it was made: of inputs, by operators and numbers. `given`
    are names of those that the module was given."""
    numbers: dict[Hashable, int] = {}
    found: dict[int, int] = {key: numbers.setdefault(name, len(numbers)) for key, name in given.items()}

    def way(each: Any) -> Hashable:
        if isinstance(each, torch.Tensor):
            return "tensor", found.get(id(each), -id(each))
        if isinstance(each, list | tuple):
            return tuple(way(inner) for inner in each)
        return type(each).__name__, repr(each)

    makers: dict[int, Call] = {}
    laid_out: dict[int, int] = {}  # of tensors that repeat ids in memory, the dimension that those are along
    for call in tape.calls:
        for place, tensor in enumerate(() if call.floating else tensors_in(call.returned)):
            makers[id(tensor)] = call
            repeated = _repeated(call, tensor, laid_out)
            same = _same_as(call, place, makers) if repeated is None else repeated
            if isinstance(same, torch.Tensor):
                found[id(tensor)] = found.get(id(same), -id(same))
            else:
                made = same or (call.operator, place, call.arguments, sorted(call.named.items()))
                found[id(tensor)] = numbers.setdefault(way(made), len(numbers))
    return found


def _repeated(call: Call, made: torch.Tensor, laid_out: dict[int, int]) -> torch.Tensor | None:
    """The tensor whose ids a result repeats, in memory of its own, along other dimensions than theirs, which is noted;
    None of other results."""
    source = call.arguments[0] if call.arguments else None
    if call.operator not in ("repeat", *_COPIES) or not isinstance(source, torch.Tensor) or not _wide(call):
        return None
    along = laid_out.get(id(source), _only_dimension(source))
    if along is None:
        return None
    if call.operator == "repeat":
        counts = call.arguments[1]
        along += len(counts) - source.dim()
        if counts[along] != 1:
            return None
    laid_out[id(made)] = along
    return source


def _same_as(call: Call, place: int, makers: Mapping[int, Call]) -> Any:
    """The tensor that a result holds the ids of, or how it is made in other words; None where there are none.

    To `unbind` is to `select` each; what is selected of a stack was stacked, and of what was turned is another."""
    source = call.arguments[0] if call.arguments else None
    if call.operator in _KEEPS and _wide(call) and _one_dimension(source) == _one_dimension(call.returned) != 0:
        return source
    if call.operator not in ("select.int", "unbind.int"):
        return None
    dim = call.argument(1, "dim", 0)
    index = call.arguments[2] if call.operator == "select.int" else place
    while (maker := makers.get(id(source))) is not None:
        if maker.operator == "flip" and maker.arguments[1] == [dim]:
            source, index = maker.arguments[0], source.shape[dim] - 1 - index
        elif _turns(maker):
            source, dim = maker.arguments[0], 1 - dim % 2
        else:
            break
    if maker is not None and maker.operator == "stack" and maker.argument(1, "dim", 0) == dim:
        return maker.arguments[0][index]
    return ("select", source, dim, index)


def _turns(call: Call) -> bool:
    """Whether a call exchanges the two dimensions of ids."""
    if call.returned.dim() != 2:
        return False
    if call.operator == "transpose.int":
        return bool((call.arguments[1] - call.arguments[2]) % 2)
    return call.operator == "t" or (call.operator == "permute" and [dim % 2 for dim in call.arguments[1]] == [1, 0])


def _wide(call: Call) -> bool:
    """Whether a result has room for all ids that its source may hold."""
    source, made = call.arguments[0].dtype, call.returned.dtype
    return made == source or made in (torch.int32, torch.int64)


def _one_dimension(tensor: Any) -> int:
    """The length of the only dimension with more than one element, counting those that only repeat as one; else 0."""
    along = _only_dimension(tensor)
    return 0 if along is None else int(tensor.shape[along])


def _only_dimension(tensor: Any) -> int | None:
    """That dimension, where there is one."""
    strides = enumerate(zip(tensor.shape, tensor.stride(), strict=True))
    places = [place for place, (size, step) in strides if size != 1 and step != 0]
    return places[0] if len(places) == 1 else None
