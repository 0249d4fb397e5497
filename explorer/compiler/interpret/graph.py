"""What a graph means: each value as one NumPy array over the whole batch, in float64.

Every array has two leading axes, the batch and its negatives, of length 1 where the value does not depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.compiler.interpret.functions import FUNCTIONS, Number
from explorer.compiler.ir import graph as g

_REDUCTIONS = {
    "sum": lambda x: x.sum(axis=-1),
    "mean": lambda x: x.mean(axis=-1),
    "max": lambda x: x.max(axis=-1),
    "min": lambda x: x.min(axis=-1),
    "norm1": lambda x: np.abs(x).sum(axis=-1),
    "norm2": lambda x: np.sqrt((x * x).sum(axis=-1)),
}


def run_graph(graph: g.Graph, inputs: Mapping[str, Number]) -> Number:
    """The scores, [B] or [B, N] for negatives, from arrays by name."""
    arrays: dict[str, Number] = {}
    shape: tuple[int, ...] = ()
    for entry in graph.maps:
        indices = np.asarray(inputs[entry.name], dtype=np.int64)
        shape = max(shape, indices.shape, key=len)
        arrays[entry.name] = indices if indices.ndim == 2 else indices[:, None]
    for tensor in graph.tensors:
        arrays[tensor.name] = np.asarray(inputs[tensor.name], dtype=np.float64)
    for value in graph.values:
        arrays[value.name] = _evaluate(graph, value, arrays)
    result = arrays[graph.result]
    full = np.broadcast_to(result, (*shape, 1)[:2])
    return full.reshape(shape).astype(np.float32)


def _evaluate(graph: g.Graph, value: g.Value, arrays: Mapping[str, Number]) -> Number:
    match value.operator:
        case g.Gather() as gather:
            table = arrays[gather.tensor]
            return table[tuple(arrays[name] for name in gather.indices)] if gather.indices else table[None, None]
        case g.Constant() as constant:
            return np.full((1, 1), constant.value)
        case g.Elementwise() as elementwise:
            rank = len(value.shape)
            operands = [_extend(arrays[name], rank) for name in elementwise.operands]
            parameters = [] if elementwise.parameter is None else [elementwise.parameter]
            return FUNCTIONS[elementwise.function](*operands, *parameters)
        case g.Contract() as contract:
            inputs, _, out = contract.signature.partition("->")
            left, _, right = inputs.partition(",")
            signature = f"...{left},...{right}->...{out}"
            return np.einsum(signature, arrays[contract.left], arrays[contract.right])
        case g.Reduce() as reduce:
            return _REDUCTIONS[reduce.function](arrays[reduce.operand])
        case g.Transpose() as transpose:
            return np.swapaxes(arrays[transpose.operand], -1, -2)
        case g.Slice() as part:
            return arrays[part.operand][..., part.start : part.stop]
        case g.Concat() as concat:
            return _concatenate([arrays[name] for name in concat.operands])
        case g.Reshape() as reshape:
            operand = arrays[reshape.operand]
            return operand.reshape(operand.shape[:2] + tuple(graph.size(extent) for extent in value.shape))


def _extend(array: Number, rank: int) -> Number:
    """An operand whose shape is a prefix of the result's repeats along the rest."""
    return array.reshape(array.shape + (1,) * (rank + 2 - array.ndim))


def _concatenate(parts: list[Number]) -> Number:
    lead = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return np.concatenate([np.broadcast_to(part, lead + part.shape[-1:]) for part in parts], axis=-1)
