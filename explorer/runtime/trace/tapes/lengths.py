"""How long tensors of ids are, where other ids decide it: sets that a mask picks, told apart by their size alone."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import torch

from explorer.runtime.trace.tapes.signatures import signatures
from explorer.runtime.trace.tapes.tape import Call, Tape, tensors_in

INDEXES = {
    "embedding": 1,
    "index_select": 2,
    "index_add": 2,
    "scatter_add": 2,
    "scatter_reduce.two": 2,
    "index_reduce": 2,
}
"""Where operators along maps have their ids; `index.Tensor` has a list of them."""
_SUMS = INDEXES.keys() - {"embedding", "index_select"}


def indexing(tape: Tape) -> Iterator[Any]:
    """The tensors of ids that rows are gathered or summed by, in their order."""
    for call in tape.calls:
        name = call.operator.replace("_.", ".").removesuffix("_")
        ids = call.arguments[1] if name == "index.Tensor" else call.arguments[INDEXES[name]] if name in INDEXES else []
        yield from tensors_in(ids)


def set_sizes(tape: Tape, sizes: Iterable[int], constant: set[int]) -> list[int]:
    """The sizes of all index sets: the inputs', and those of what their ids were made into."""
    found = dict.fromkeys(sizes)
    for each in indexing(tape):
        length = [size for size in each.shape[:1] if size > 1 and id(each) not in constant]
        found.update(dict.fromkeys(length))
    return list(found)


def summed_into(tape: Tape) -> Iterator[int]:
    """How many rows there are that others are summed into by ids, for each of these sums in their order."""
    for call in tape.calls:
        name = call.operator.replace("_.", ".").removesuffix("_")
        if name in _SUMS and call.arguments[0].dim():
            yield int(call.arguments[0].shape[call.arguments[1]])


def picked(tape: Tape, given: Mapping[int, str]) -> dict[Hashable, int]:
    """How many ids masks pick, by what they are picked of. `given` are names of what the module was given."""
    makers: dict[int, Call] = {}
    for call in tape.calls:  # one in place returns a tensor that another one made
        for tensor in () if call.floating else tensors_in(call.returned):
            makers.setdefault(id(tensor), call)
    ways = signatures(tape, given)
    found = {_origin(ids, makers, ways): max(ids.shape) for ids in indexing(tape) if ids.dim()}
    return {origin: size for origin, size in found.items() if "picked" in str(origin)}


def coincide(picks: Mapping[Hashable, int], sizes: Iterable[int]) -> bool:
    """Whether two sets that masks pick have one size, or one has that of an input or fewer than two: it would then be
    taken for another one. `sizes` are those of the inputs' sets."""
    counts = list(picks.values())
    return len(set(counts)) < len(counts) or min(counts, default=2) < 2 or bool(set(counts) & set(sizes))


def _origin(ids: Any, makers: Mapping[int, Call], ways: Mapping[int, int]) -> Hashable:
    """What a tensor's length comes from: the masks that pick its elements, or what was not picked."""
    call = makers.get(id(ids))
    if call is None:
        return "whole"
    if call.operator == "cat":
        return tuple(_origin(each, makers, ways) for each in tensors_in(call.arguments[0]))
    if call.operator == "index.Tensor":
        (index, *_) = [*tensors_in(call.arguments[1]), ids]
        return ("picked", ways.get(id(index), id(index))) if index.dtype == torch.bool else _origin(index, makers, ways)
    sources = [each for each in tensors_in(call.arguments) if each is not ids]  # which some operators return as it came
    if torch.Tag.dynamic_output_shape in call.function.tags:
        return ("picked", *(ways.get(id(each), id(each)) for each in sources))
    return _origin(sources[0], makers, ways) if sources else "whole"
