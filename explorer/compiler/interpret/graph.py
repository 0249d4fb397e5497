"""What a graph means: each value as one NumPy array over all rows of its set, in float64.

Arrays over a score's batch have two leading axes, the batch and its negatives; all others have one, the index set.
An axis has length 1 where the value does not depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.compiler.interpret.functions import FUNCTIONS, Number
from explorer.compiler.interpret.guarded import is_guarding
from explorer.compiler.ir import graph as g
from explorer.compiler.ir.index_sets import containment, count_name, factors, is_given, is_of_fact
from explorer.compiler.returned import as_returned
from explorer.compiler.stored import rounded

_REDUCTIONS = {
    "sum": lambda x: x.sum(axis=-1),
    "mean": lambda x: x.mean(axis=-1),
    "max": lambda x: x.max(axis=-1),
    "min": lambda x: x.min(axis=-1),
    "product": lambda x: x.prod(axis=-1),
    "norm1": lambda x: np.abs(x).sum(axis=-1),
    "norm2": lambda x: np.sqrt((x * x).sum(axis=-1)),
}
_SEGMENT_UPDATES = {"sum": np.add, "mean": np.add, "max": np.maximum, "min": np.minimum, "product": np.multiply}
_SEGMENT_STARTS = {"sum": 0.0, "mean": 0.0, "max": -np.inf, "min": np.inf, "product": 1.0}


def run_graph(graph: g.Graph, inputs: Mapping[str, Number]) -> tuple[Number, dict[str, Number]]:
    """The results, float32: scores [B] or [B, N], or a layer's rows, one for each node or edge, a tuple of several; and
    gradients by tensor.

    `inputs` holds the maps and tensors by name, and for a layer the sizes of its sets in the plural (`nodes`)."""
    evaluation = _Evaluation(graph, inputs)
    gradients = {tensor: evaluation.whole(name) for tensor, name in graph.gradients}
    return as_returned(map(evaluation.whole, graph.results)), gradients


class _Evaluation:
    def __init__(self, graph: g.Graph, inputs: Mapping[str, Number]) -> None:
        self.graph = graph
        self.inputs = inputs
        self.maps = {
            entry.name: np.asarray(inputs[entry.name], dtype=np.int64) for entry in graph.maps if is_given(entry)
        }
        self.inside = {entry.name for entry in graph.maps if containment(entry)}
        # The sets that maps lead to, as long as the tensors over them, or the maps that lead on from them.
        self.counts = {
            index_set: np.shape(inputs[tensor.name])[place]
            for tensor in graph.tensors
            for place, index_set in enumerate(tensor.sets)
            if tensor.kind != "upstream"
        }
        for entry in graph.maps:
            if entry.name in self.maps and not is_of_fact(entry):
                self.counts.setdefault(entry.domain, len(self.maps[entry.name]))
        for entry in graph.maps:  # or as the ids need that lead to a set over which there is none
            if entry.name in self.maps:
                self.counts.setdefault(entry.codomain, int(self.maps[entry.name].max(initial=-1)) + 1)
        self.domains = {entry.name: entry.domain for entry in graph.maps}
        self.codomains = {entry.name: entry.codomain for entry in graph.maps}
        self.lead = 2 if graph.family == "score" else 1
        self.sizes: dict[str, int] = {}  # of the sets that maps of paths lead to
        for entry in graph.maps:
            if entry.paths:
                count = entry.count([self.rows(each)[0] for each in factors(graph.maps, entry)])
                known = self.counts.get(entry.codomain, 0)  # a table may have more rows than are picked
                self.sizes[entry.codomain] = max(count, known, self.sizes.get(entry.codomain, 0))
        for entry in graph.maps:  # some of them lead on from computed ones before them
            if entry.paths:
                self.maps[entry.name] = self.product(entry)
        self.arrays: dict[str, Number] = {}
        read = {value.operator.tensor for value in graph.values if isinstance(value.operator, g.Gather)}
        for tensor in graph.tensors:
            if tensor.name not in inputs and tensor.name not in read:
                continue  # as the gradient of a result that depends on no param
            given = inputs[tensor.name]
            array = given if tensor.storage == "f32" else rounded(given, tensor.storage)
            self.arrays[tensor.name] = np.asarray(array, dtype=np.float64)
        for value in graph.values:
            self.arrays[value.name] = self.evaluate(value)
            if is_guarding():
                self.check_shape(value)

    def check_shape(self, value: g.Value) -> None:
        """Raises ValueError where a value is not over the set or of the shape that its line says."""
        shape = self.arrays[value.name].shape
        rows = (*self.rows(value.index_set), 1)[: self.lead]
        if any(each not in (1, all_) for each, all_ in zip(shape, rows, strict=False)):
            raise ValueError(f"{value.name} has {shape[0]} rows, where {value.index_set} has {rows[0]}")
        wanted = tuple(map(self.graph.size, value.shape))
        if shape[self.lead :] != wanted:
            raise ValueError(f"{value.name} has the shape {list(shape[self.lead :])}, not {list(wanted)}")

    def whole(self, name: str) -> Number:
        """A value with a row for each of its set; what belongs to no set has one row."""
        result, value = self.arrays[name], self.graph.value(name)
        rows, shape = self.rows(value.index_set), result.shape[self.lead :]
        lead = (*rows, 1)[: self.lead]
        return np.broadcast_to(result, (*lead, *shape)).reshape(*rows, *shape).astype(np.float32)

    def rows(self, index_set: str) -> tuple[int, ...]:
        """The leading axes of a whole result."""
        if index_set in self.sizes:
            return (self.sizes[index_set],)
        if self.lead == 1:
            name = count_name(index_set)
            return (name if isinstance(name, int) else int(self.inputs[name]),)
        if index_set == "unit" or index_set in self.counts:
            return (self.counts.get(index_set, 1),)
        return next(array.shape for name, array in self.maps.items() if self.domains[name] == index_set)

    def follow(self, path: str, index_set: str) -> Number:
        """Where a path of maps leads from each row of a set."""
        if path == index_set:
            rows = np.arange(self.rows(index_set)[0])
            return rows if self.lead == 1 else rows[:, None]
        steps = path.split(".")
        rows = self.maps[steps[0]]
        for step in steps[1:]:
            rows = self.maps[step][rows]
        return rows if rows.ndim == self.lead else rows[:, None]

    def product(self, entry: g.IndexMap) -> Number:
        """Where several paths of maps lead, as one number for each row of the set that they leave."""
        sizes = [self.rows(each)[0] for each in factors(self.graph.maps, entry)]
        ends = [self.follow(path, entry.domain).astype(np.int64) for path in entry.paths]
        return entry.lead(ends, sizes).reshape(self.rows(entry.domain))

    def evaluate(self, value: g.Value) -> Number:
        arrays = self.arrays
        match value.operator:
            case g.Gather() as gather:
                table = arrays[gather.tensor]
                if not gather.indices:
                    return table[(None,) * self.lead]
                if gather.tensor.startswith("%") and len(table) == 1:
                    return table
                if gather.indices == (value.index_set,):
                    rows = self.rows(value.index_set)
                    return table.reshape(*(*rows, 1)[: self.lead], *table.shape[len(rows) :])
                return table[tuple(self.follow(path, value.index_set) for path in gather.indices)]
            case g.Constant() as constant:
                return np.full((1,) * self.lead, constant.value)
            case g.Elementwise() as elementwise:
                rank = len(value.shape)
                operands = [self.extend(arrays[name], rank) for name in elementwise.operands]
                parameters = [] if elementwise.parameter is None else [elementwise.parameter]
                result = FUNCTIONS[elementwise.function](*operands, *parameters)
                # All operands may be shorter than the value: a gradient is spread over what was summed.
                return np.broadcast_to(result, (*result.shape[: self.lead], *map(self.graph.size, value.shape)))
            case g.Contract() as contract:
                inputs, _, out = contract.signature.partition("->")
                left, _, right = inputs.partition(",")
                signature = f"...{left},...{right}->...{out}"
                return np.einsum(signature, arrays[contract.left], arrays[contract.right])
            case g.Reduce() as reduce:
                return _REDUCTIONS[reduce.function](arrays[reduce.operand])
            case g.Segment() as segment:
                return self.segment(segment)
            case g.Transpose() as transpose:
                return np.swapaxes(arrays[transpose.operand], -1, -2)
            case g.Slice() as part:
                return arrays[part.operand][..., part.start : part.stop]
            case g.Concat() as concat:
                return _concatenate([arrays[name] for name in concat.operands])
            case g.Repeat() as repeat:
                operand = np.expand_dims(arrays[repeat.operand], self.lead)
                shape = (*operand.shape[: self.lead], self.graph.size(value.shape[0]), *operand.shape[self.lead + 1 :])
                return np.broadcast_to(operand, shape)
            case g.Reshape() as reshape:
                operand = arrays[reshape.operand]
                shape = tuple(self.graph.size(extent) for extent in value.shape)
                return operand.reshape(operand.shape[: self.lead] + shape)

    def extend(self, array: Number, rank: int) -> Number:
        """An operand whose shape is a prefix of the result's repeats along the rest."""
        return array.reshape(array.shape + (1,) * (rank + self.lead - array.ndim))

    def segment(self, segment: g.Segment) -> Number:
        """A reduction by a map; 0, or as a product 1, for rows to which it takes nothing."""
        operand, leading = self.arrays[segment.operand], self.rows(self.domains[segment.map])
        rows = self.maps.get(segment.map, np.zeros(leading, dtype=np.int64))
        if segment.map in self.inside:
            rows = np.broadcast_to(np.arange(leading[0])[:, None], leading)
        rest = operand.shape[self.lead :]
        lead = (*leading, 1)[: self.lead]
        operand, rows = np.broadcast_to(operand, (*lead, *rest)).reshape(-1, *rest), rows.reshape(-1)
        (count,) = self.rows(self.codomains[segment.map])
        result = np.full((count, *operand.shape[1:]), _SEGMENT_STARTS[segment.function])
        _SEGMENT_UPDATES[segment.function].at(result, rows, operand)
        sizes = np.bincount(rows, minlength=count)
        if segment.function == "mean":
            result /= np.maximum(sizes, 1).reshape(-1, *(1,) * len(rest))
        result[sizes == 0] = 1.0 if segment.function == "product" else 0.0
        return result.reshape(count, *(1,) * (self.lead - 1), *rest)


def _concatenate(parts: list[Number]) -> Number:
    lead = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return np.concatenate([np.broadcast_to(part, lead + part.shape[-1:]) for part in parts], axis=-1)
