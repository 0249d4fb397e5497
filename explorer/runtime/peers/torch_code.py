"""A graph as its user would write it in PyTorch: gathers by index, batched products, norms, sums by index.

Values have their set's rows first, a batch and its negatives two dimensions, as in the graph's interpreter; a value
that depends on no map has one row. On any device, so that its numbers are tested where there is no GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from explorer.compiler.ir import graph as g
from explorer.compiler.ir.functions import TABLE
from explorer.compiler.ir.index_sets import containment, count_name, is_given
from explorer.compiler.returned import as_returned

FUNCTIONS: Mapping[str, Callable[..., Tensor]] = {
    function.name: eval(function.torch, {"torch": torch}) for function in TABLE if function.torch
} | {"copy": lambda x: x}  # what a triple alone tells, for each of its negatives
REDUCTIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "max": lambda x: x.amax(-1),
    "min": lambda x: x.amin(-1),
    "product": lambda x: x.prod(-1),
    "norm1": lambda x: torch.linalg.vector_norm(x, 1, -1),
    "norm2": lambda x: torch.linalg.vector_norm(x, 2, -1),
}
SCATTERED = {"max": "amax", "min": "amin", "product": "prod"}
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8}
"""The types of tensors that are stored in less than 32 bits: what is picked of them is made float32."""


class TorchModel:
    """A graph with its arrays on a device; those of `learnt` names have gradients. `compiled` has torch.compile make
    one program of all its operations, at the first run: what its tracer could not see into would be an error."""

    def __init__(
        self,
        graph: g.Graph,
        inputs: Mapping[str, Any],
        device: str,
        learnt: Iterable[str] = (),
        compiled: bool = False,
    ) -> None:
        self._graph = graph
        self._device = device
        self._lead = 2 if graph.family == "score" else 1
        self._domains = {entry.name: entry.domain for entry in graph.maps}
        self._codomains = {entry.name: entry.codomain for entry in graph.maps}
        self._inside = {entry.name for entry in graph.maps if containment(entry)}
        self._maps = {
            entry.name: torch.from_numpy(np.asarray(inputs[entry.name], np.int64)).to(device)
            for entry in graph.maps
            if is_given(entry) or entry.computed
        }
        self._tensors = {
            tensor.name: torch.from_numpy(np.asarray(inputs[tensor.name], np.float32)).to(device)
            for tensor in graph.tensors
        }
        narrow = {tensor.name: DTYPES[tensor.storage] for tensor in graph.tensors if tensor.storage in DTYPES}
        self._tensors |= {name: self._tensors[name].to(dtype) for name, dtype in narrow.items()}
        self._narrow = frozenset(narrow)
        self._learnt = tuple(learnt)
        for name in self._learnt:
            self._tensors[name].requires_grad_()
        self._rows = self._row_counts(inputs)
        self._returned = tuple((name, graph.value(name).index_set) for name in graph.results)
        self._widest = max((tuple(found.shape) for found in self._maps.values()), key=len, default=())
        self._evaluated = torch.compile(self._results, fullgraph=True, dynamic=False) if compiled else self._results

    def run(self, upstream: Sequence[Tensor] = ()) -> tuple[Any, dict[str, Tensor]]:
        """The result, a tuple of several, and, where their gradients are given, those of what is learnt, by tensor; on
        a GPU, before they are computed."""
        results = self._evaluated()
        if not upstream:
            return as_returned(results), {}
        learnt = [self._tensors[name] for name in self._learnt]
        pairs = [pair for pair in zip(results, upstream, strict=True) if pair[0].requires_grad]
        if not pairs:  # nothing that is learnt is in any
            return as_returned(results), {name: torch.zeros_like(self._tensors[name]) for name in self._learnt}
        outputs, given = zip(*pairs, strict=True)
        gradients = torch.autograd.grad(outputs, learnt, given, allow_unused=True, materialize_grads=True)
        return as_returned(each.detach() for each in results), dict(zip(self._learnt, gradients, strict=True))

    def _row_counts(self, inputs: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        """By set: the leading dimensions of values with a row for each of its elements."""
        rows: dict[str, tuple[int, ...]] = {"unit": (1,) * self._lead}
        for entry in self._graph.maps:
            for name in (entry.domain, entry.codomain):
                count = inputs.get(str(count_name(name)))
                if count is not None and np.ndim(count) == 0:
                    rows[name] = (int(count),)
        for tensor in self._graph.tensors:
            if tensor.kind != "upstream":
                rows |= {s: (size,) for s, size in zip(tensor.sets, self._tensors[tensor.name].shape, strict=False)}
        rows |= {self._domains[name]: tuple(found.shape) for name, found in self._maps.items()}
        return rows

    def _results(self) -> tuple[Tensor, ...]:
        values = dict(self._tensors)
        for value in self._graph.values:
            values[value.name] = self._value(value, values)
        return tuple([self._whole(values[name], index_set) for name, index_set in self._returned])

    def _whole(self, result: Tensor, index_set: str) -> Tensor:
        """A result with a row for each element of its set."""
        rows = self._rows[index_set]
        if self._lead == 2:  # of a triple's negatives all, though it depend on none
            rows = self._widest
        shape = result.shape[self._lead :]
        return result.expand(*self._padded(rows), *shape).reshape(*rows, *shape)

    def _padded(self, rows: tuple[int, ...]) -> tuple[int, ...]:
        return (*rows, 1)[: self._lead]

    def _value(self, value: g.Value, values: Mapping[str, Tensor]) -> Tensor:
        match value.operator:
            case g.Gather() as gather:
                found = self._gather(gather, value, values[gather.tensor])
                return found.float() if gather.tensor in self._narrow else found
            case g.Constant(value=number):
                return torch.full((1,) * self._lead, number, device=self._device)
            case g.Elementwise() as elementwise:
                return self._elementwise(elementwise, value, values)
            case g.Contract(signature=signature, left=left, right=right):
                given, _, out = signature.partition("->")
                first, _, second = given.partition(",")
                return torch.einsum(f"...{first},...{second}->...{out}", values[left], values[right])
            case g.Reduce(function=function, operand=operand):
                return REDUCTIONS[function](values[operand])
            case g.Segment() as segment:
                return self._segment(segment, values[segment.operand])
        return self._view(value, values)

    def _view(self, value: g.Value, values: Mapping[str, Tensor]) -> Tensor:
        """The operators that compute nothing."""
        shape = [self._graph.size(extent) for extent in value.shape]
        match value.operator:
            case g.Transpose(operand=operand):
                return values[operand].transpose(-1, -2)
            case g.Slice(operand=operand, start=start, stop=stop):
                return values[operand][..., start:stop]
            case g.Concat(operands=operands):
                parts = [values[name] for name in operands]
                rows = torch.broadcast_shapes(*(part.shape[:-1] for part in parts))
                return torch.cat([part.expand(*rows, part.shape[-1]) for part in parts], -1)
            case g.Repeat(operand=operand):
                single = values[operand].unsqueeze(self._lead)
                return single.expand(*single.shape[: self._lead], shape[0], *single.shape[self._lead + 1 :])
            case g.Reshape(operand=operand):
                return values[operand].reshape(*values[operand].shape[: self._lead], *shape)
        raise TypeError(f"{value.name} has an operator that PyTorch is not asked for")

    def _elementwise(self, elementwise: g.Elementwise, value: g.Value, values: Mapping[str, Tensor]) -> Tensor:
        """A function; an operand whose shape is a prefix of the result's repeats along the rest."""
        rank = self._lead + len(value.shape)
        operands = [values[name] for name in elementwise.operands]
        operands = [x.reshape(x.shape + (1,) * (rank - x.ndim)) for x in operands]
        parameters = [] if elementwise.parameter is None else [elementwise.parameter]
        found = FUNCTIONS[elementwise.function](*operands, *parameters)
        return found.expand(*found.shape[: self._lead], *map(self._graph.size, value.shape))

    def _gather(self, gather: g.Gather, value: g.Value, table: Tensor) -> Tensor:
        if not gather.indices:
            return table[(None,) * self._lead]
        if gather.tensor.startswith("%") and len(table) == 1:
            return table
        rows = self._rows[value.index_set]
        if gather.indices == (value.index_set,):
            return table.reshape(*self._padded(rows), *table.shape[len(rows) :])
        return table[tuple(self._follow(path, value.index_set) for path in gather.indices)]

    def _follow(self, path: str, index_set: str) -> Tensor:
        """Where a path of maps leads from each row of a set."""
        if path == index_set:
            rows = torch.arange(self._rows[index_set][0], device=self._device)
        else:
            first, *steps = path.split(".")
            rows = self._maps[first]
            for step in steps:
                rows = self._maps[step][rows]
        return rows if rows.ndim == self._lead else rows[:, None]

    def _segment(self, segment: g.Segment, operand: Tensor) -> Tensor:
        """A reduction by a map; 0, or as a product 1, for rows to which it takes nothing."""
        leading, shape = self._rows[self._domains[segment.map]], operand.shape[self._lead :]
        (count,) = self._rows[self._codomains[segment.map]][:1]
        rows = self._home(segment.map, leading).reshape(-1)
        operand = operand.expand(*self._padded(leading), *shape).reshape(-1, *shape)
        start = 1.0 if segment.function == "product" else 0.0
        found = torch.full((count, *shape), start, dtype=operand.dtype, device=operand.device)
        if segment.function in SCATTERED:
            index = rows.reshape(-1, *(1,) * len(shape)).expand_as(operand)
            found = found.scatter_reduce(0, index, operand, SCATTERED[segment.function], include_self=False)
        else:
            found = found.index_add(0, rows, operand)
        if segment.function == "mean":
            found = found / torch.bincount(rows, minlength=count).clamp(min=1).reshape(-1, *(1,) * len(shape))
        return found.reshape(count, *(1,) * (self._lead - 1), *shape)

    def _home(self, name: str, leading: tuple[int, ...]) -> Tensor:
        """Where a map takes each row; that of a container follows from the place."""
        if name in self._maps:
            return self._maps[name]
        if name in self._inside:
            return torch.arange(leading[0], device=self._device)[:, None].expand(leading)
        return torch.zeros(leading, dtype=torch.int64, device=self._device)
