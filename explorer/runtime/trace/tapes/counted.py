"""Which arguments say how many rows there are that others are summed into, as of the graphs of a batch.

A number of Python's is such a one if, where it is another, there are so many rows, and so are ids of which the largest
says it, as `batch.max() + 1`. Nothing else of an argument is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from explorer.runtime.trace.tapes.arguments import Arguments
from explorer.runtime.trace.tapes.examples import Counting, redrawn, rows_told, set_dim
from explorer.runtime.trace.tapes.ids import MOST_APART
from explorer.runtime.trace.tapes.lengths import summed_into
from explorer.runtime.trace.tapes.recorded import record
from explorer.runtime.trace.tapes.tape import Tape, TraceError


def with_counts(
    module: Any, arguments: Arguments, inputs: Mapping[str, Any], fixed: set[int]
) -> tuple[Arguments, dict[str, Any]]:
    """Arguments and inputs of a call where those that say how many rows there are do so. `fixed` are sizes that no set
    may have."""
    arguments = _with_matrices(module, arguments, inputs, fixed)
    candidates = list(_candidates(arguments, inputs))
    tape = _tape(module, arguments, inputs) if candidates else None
    rows, numbers = list(summed_into(tape)) if tape else [], _numbers(tape) if tape else set[int]()
    made, brought = arguments, dict(inputs)
    for name, tensor, count in candidates:
        if isinstance(name, tuple) and not {count - less for less in range(MOST_APART)} & numbers:
            continue
        alone, places = arguments.counting(name, count), [at for at, size in enumerate(rows) if size == count]
        of = name[0] if isinstance(name, tuple) else name
        if places and _says(module, alone, {**inputs, of: tensor}, fixed, places):
            made, brought[of] = made.counting(name, count), tensor
    return made, brought


def _with_matrices(module: Any, arguments: Arguments, inputs: Mapping[str, Any], fixed: set[int]) -> Arguments:
    """Arguments where a sparse matrix says how many rows there are, by as many of its sizes as may be others; of one
    that can be no other at all, by both, so that what refuses it is said."""
    for sizes in arguments.of_matrices:
        ways = [_counting(arguments, inputs, names) for names in (sizes, sizes[:1], sizes[1:], ())]
        arguments = next((way for way in ways if _runs(module, way, inputs, fixed)), ways[0])
    return arguments


def _counting(arguments: Arguments, inputs: Mapping[str, Any], names: Iterable[str]) -> Arguments:
    for name in names:
        arguments = arguments.counting(name, int(inputs[name]))
    return arguments


def _runs(module: Any, arguments: Arguments, inputs: Mapping[str, Any], fixed: set[int]) -> bool:
    """Whether a module runs where what is counted is other than in the example."""
    try:
        for example in redrawn(inputs, fixed, 0, arguments.counted):
            record(module, example.inputs, arguments, others=False)
    except TraceError:
        return False
    return True


def _candidates(arguments: Arguments, inputs: Mapping[str, Any]) -> Iterator[tuple[Counting, Any, int]]:
    """Arguments that may say a number of rows: each with a tensor in its place, and that number."""
    for name, each in arguments.held.items():
        if type(each) is int and each > 0:
            yield name, torch.tensor(each), each
    for name, tensor in inputs.items():
        ids = tensor.dim() == 1 and not tensor.is_floating_point() and tensor.dtype.itemsize > 1  # of as many rows
        if ids and tensor.numel():
            yield name, tensor, int(tensor.max()) + 1
        for end in range(2) if set_dim(tensor) == 1 and tensor.numel() else ():  # of a graph's, as of hyperedges
            yield (name, end), tensor, rows_told(inputs, (name, end))


def _says(module: Any, arguments: Arguments, inputs: Mapping[str, Any], fixed: set[int], places: list[int]) -> bool:
    """Whether, in an example where the only one of `counted` is another, as many rows are summed into at some of the
    places among all sums."""
    try:
        example = redrawn(inputs, fixed, 0, arguments.counted)[0]
    except TraceError:
        return False
    tape = _tape(module, arguments, example.inputs)
    rows, count = list(summed_into(tape)) if tape else [], arguments.said(example.inputs)[-1]
    return any(rows[at : at + 1] == [count] for at in places)


def _tape(module: Any, arguments: Arguments, inputs: Mapping[str, Any]) -> Tape | None:
    """A run; None where the module cannot be run so."""
    try:
        return record(module, inputs, arguments, others=False).tape
    except TraceError:
        return None


def _numbers(tape: Tape) -> set[int]:
    """The numbers that Python takes out of ids."""
    return {call.returned for call in tape.calls if type(call.returned) is int and not call.floating}
