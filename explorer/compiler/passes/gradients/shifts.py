"""Finds the maxima with which a result does not change, however large they are: they have no gradient.

A softmax takes exp(x - m), where m is the largest x of a segment, only so that exp does not overflow: numerator and
denominator are alike proportional to exp(-m), and their quotient is the same for every m (Milakov and Gimelshein 2018,
§2). Each value is followed through that question alone.
"""

from __future__ import annotations

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.graph import Contract, Elementwise, Gather, Graph, Segment, Value, operands
from explorer.compiler.ir.set_maps import THROUGH


def shifts(graph: Graph) -> set[str]:
    """The maxima by segments that the results do not depend on, as a function of them and of all else."""
    found = (v for v in graph.values if isinstance(v.operator, Segment) and v.operator.function in ("max", "min"))
    return {value.name for value in found if _cancels(graph, value)}


@dataclass(frozen=True)
class _Kind:
    """How a value depends on m: it is m (`shift`), x - m (`shifted`), or `proportional` to exp(-m), of the place to
    which a path of maps leads from the value's own ("" where it is the same place)."""

    kind: str
    path: str


class _Other(Exception):
    """A value depends on m in any other way."""


def _cancels(graph: Graph, largest: Value) -> bool:
    """Whether the results stay the same whatever the maximum is."""
    if len(largest.shape) > 1 or largest.name in graph.results:
        return False
    kinds = {largest.name: _Kind("shift", "")}
    try:
        for value in graph.values:
            if kinds.keys().isdisjoint(operands(value.operator)):
                continue
            kind = _kind(value, kinds, bool(largest.shape))
            if kind is not None:
                kinds[value.name] = kind
    except _Other:
        return False
    return kinds.keys().isdisjoint(graph.results)


def _kind(value: Value, kinds: dict[str, _Kind], heads: bool) -> _Kind | None:
    """How a value depends on m, of which operands do; None where it does not. `heads`: m has one for each place of
    the first dimension, which all that is proportional has then."""
    inputs = [kinds.get(name) for name in operands(value.operator)]
    match value.operator:
        case Gather(indices=(path,)) if inputs[0] is not None and inputs[0].path == "":
            return _Kind(inputs[0].kind, "" if path == value.index_set else path)
        case Elementwise(function=function):
            return _of_function(function, inputs)
        case Contract() as contract:
            return _of_product(contract, inputs, heads)
        case Segment(function="sum" | "mean", map=along):
            return _of_sum(along, inputs[0])
    raise _Other


def _of_function(function: str, inputs: list[_Kind | None]) -> _Kind | None:
    first, second = inputs[0], inputs[1] if len(inputs) == 2 else None
    if function == "sub" and first is None and second is not None and second.kind == "shift":
        return _Kind("shifted", second.path)
    if function == "exp" and first is not None and first.kind == "shifted":
        return _Kind("proportional", first.path)
    if any(kind is not None and kind.kind != "proportional" for kind in inputs):
        raise _Other
    if function in ("copy", "neg") or (function in ("add", "sub") and first == second):
        return first
    if function == "mul" and (first is None or second is None):
        return first or second
    if function in ("div", "div_or_zero") and (second is None or first == second):
        return first if second is None else None
    raise _Other


def _of_product(contract: Contract, inputs: list[_Kind | None], heads: bool) -> _Kind:
    letters, _, out = contract.signature.partition("->")
    for own, kind, other in zip(letters.split(","), inputs, reversed(inputs), strict=True):
        if kind is not None and kind.kind == "proportional" and other is None and (not heads or own[:1] == out[:1]):
            return kind
    raise _Other


def _of_sum(along: str, kind: _Kind | None) -> _Kind:
    """A sum of what has the same m in all of its elements."""
    if kind is not None and kind.kind == "proportional":
        if kind.path == along:
            return _Kind(kind.kind, "")
        if (along, kind.path) in THROUGH:
            return _Kind(kind.kind, THROUGH[along, kind.path])
    raise _Other
