"""What a model means: its text evaluated in float64 NumPy, and its gradients, against which every run is checked.

It shares no code with the compiler, from the parser on: a mistake would have to be made twice to pass.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference.evaluator import Index, Result, of_each
from explorer.runtime.reference.facts import OF_NEGATIVES, FactEvaluator, Negatives
from explorer.runtime.reference.layers import LayerEvaluator
from explorer.runtime.reference.numbers.adjoint import backward, payload_of
from explorer.runtime.reference.numbers.arithmetic import BOUNDED, FLOAT64, UNFLUSHED, Arithmetic
from explorer.runtime.reference.numbers.bounds import flushing, overflows_seen, products_coarser
from explorer.runtime.reference.numbers.primitives import Array, joined, spread
from explorer.runtime.reference.numbers.tangent import Moved
from explorer.runtime.reference.ops import OpEvaluator
from explorer.runtime.reference.text import ReferenceFailure, read_model

CHUNK_BYTES = 4 << 20
"""About how much the float64 values of one chunk of the batch take. TransR's hold a matrix a triple: chunks that stay
in cache take a third of the time of chunks of 128 MiB, measured on 2 cores at batch 4,096 and dimension 256."""

STEP = 1e-6
"""How far a finite difference goes to either side, for entries of a size about 1."""

LEAST_ON_DEVICE = 1 << 12
"""Ids of an input from which on a device computes it: some thousand steps are launched one by one, which takes as long
as NumPy does for some thousand rows of the usual sizes."""

BATCH = "batch"
"""The set of a score's facts."""

Inputs = Mapping[str, npt.NDArray[np.generic]]
Upstream = npt.NDArray[np.floating] | tuple[npt.NDArray[np.floating], ...]
"""The gradient of a result, or a tuple of those of several."""


def score(
    text: str,
    inputs: Inputs,
    sizes: Mapping[str, int],
    name: str | None = None,
    negatives: str = "none",
    arithmetic: Arithmetic = FLOAT64,
) -> Result:
    """The scores of a batch: [B], or [B, N] with negatives "tail:N" or "head:N", and behind that what each has; a tuple
    of several.

    `inputs` holds each index map and tensor by its name (the corrupted map, and a score's own negatives, as [B, N]; how
    many these are, `negatives` may say as well; with "tail:N/C" they are [ceil(B / C), N], a list for C facts in a row;
    a map that the text declares as long as the set that it leads from), `sizes` the dimensions that differ from the
    text's defaults, and `name` picks a definition where the last is not meant.
    """
    model = read_model(text)
    definition = model.main(name)
    own = {entry for entry, over in definition.parameters if over.startswith(OF_NEGATIVES)}
    several = {entry: np.asarray(inputs[entry], dtype=np.int64) for entry in own}
    maps = [parameter for parameter, _ in definition.parameters if parameter not in own]
    ids = {entry: np.asarray(inputs[entry], dtype=np.int64) for entry in maps}
    several, ids = (_of_each_fact(arrays, ids, negatives) for arrays in (several, ids))
    lead = 1 if negatives == "none" or own else 2
    if max((array.ndim for array in ids.values()), default=0) != lead:
        raise ReferenceFailure(f"the shapes of {', '.join(maps)} do not fit negatives {negatives!r}")
    if lead == 2:
        ids = {entry: array.reshape(len(array), math.prod(array.shape[1:])) for entry, array in ids.items()}
    rows = np.broadcast_shapes(*(array.shape for array in ids.values()))
    each = np.arange(max(map(len, ids.values())))
    ids[BATCH] = each if lead == 1 else each[:, None]
    sets = frozenset(kind.removeprefix(OF_NEGATIVES).rstrip("]") for _, kind in definition.parameters)
    sets |= {BATCH} | definition.sets_beside(model.sizes(sizes))
    run = FactEvaluator(model, definition, inputs, sizes, lead, sets, arithmetic)
    parts: list[Result] = []
    with np.errstate(all="ignore"):
        step = max(1, rows[0])
        if not arithmetic.whole:
            _score_rows(run, _part(ids, 0, 1), _part(several, 0, 1))
            step = max(1, arithmetic.chunks * CHUNK_BYTES // max(1, run.bytes))
        for start in range(0, max(1, rows[0]), step):  # a batch without facts has a result too
            chunk = _part(ids, start, step)
            shape = np.broadcast_shapes(*(array.shape for array in chunk.values()))
            found = _score_rows(run, chunk, _part(several, start, step))
            parts.append(of_each(lambda rows, shape=shape: spread(rows, (*shape, *rows.shape[lead:])), found))
    if isinstance(parts[0], tuple):
        return tuple(joined(0, *each) for each in zip(*parts, strict=True))
    return joined(0, *parts)


Ids = Mapping[str, npt.NDArray[np.int64]]


def _of_each_fact(several: Ids, ids: Ids, negatives: str) -> dict[str, npt.NDArray[np.int64]]:
    """The ids with those of each fact's chunk, where chunks share them; `ids` tell how many facts there are."""
    sharing = int(negatives.partition("/")[2] or 1)
    facts = max((len(array) for array in ids.values() if array.ndim == 1), default=0)
    chunks = np.arange(facts) // sharing
    return {name: array[chunks] if sharing > 1 and array.ndim == 2 else array for name, array in several.items()}


def _part(ids: Ids, start: int, count: int) -> Ids:
    """The ids of some facts."""
    return {name: array[start : start + count] for name, array in ids.items()}


def _score_rows(run: FactEvaluator, ids: Ids, several: Ids) -> Result:
    """The scores of the rows with these ids, and with several of these."""
    run.bytes = 0
    scope = {**run.tables, **{name: Index(array) for name, array in ids.items()}}
    scope |= {name: Negatives(array) for name, array in several.items()}
    for name, extents in run.definition.tensors:
        if extents[:1] == (BATCH,):  # what comes with each fact is read as a value
            scope[name] = run.gather(run.tables[name], ast.Name(BATCH), scope)

    return of_each(run.array, run.body(run.definition, scope))


def layer(
    text: str,
    inputs: Inputs,
    sizes: Mapping[str, int],
    name: str | None = None,
    arithmetic: Arithmetic = FLOAT64,
) -> Result:
    """What a layer gives for a graph: [nodes, ...], or [edges, ...] where it returns data of edges; a tuple of several.

    `inputs` holds the edges (`src`, `dst`, `etype`: int32 [edges]), `ntype` (int32 [nodes]), the numbers
    `num_nodes`, `num_etypes` and `num_ntypes`, and every tensor by its name, its rows per edge in the edges' order.
    """
    model = read_model(text)
    with np.errstate(all="ignore"):
        return LayerEvaluator(model, model.main(name), inputs, sizes, arithmetic).result()


def op(
    text: str,
    inputs: Inputs,
    sizes: Mapping[str, int],
    name: str | None = None,
    arithmetic: Arithmetic = FLOAT64,
) -> Result:
    """What an op gives: a row for each bag, row of a matrix, nonzero, or entry of a block gather; a tuple of several.

    `inputs` holds the lists as a caller gives them (`ptr`, `idx`, `weight`; `rowptr` or `row`, `col`, `value`,
    `num_rows`, `num_cols`; `ptr`, `blocks`) and every tensor by its name. Rows of nonzeros are in the order given.
    """
    model = read_model(text)
    with np.errstate(all="ignore"):
        return OpEvaluator(model, model.main(name), inputs, sizes, arithmetic).result()


def evaluate(
    text: str,
    inputs: Inputs,
    sizes: Mapping[str, int],
    name: str | None = None,
    negatives: str = "none",
    arithmetic: Arithmetic = FLOAT64,
) -> Result:
    """`score`, `layer` or `op`, whichever the definition is."""
    definition = read_model(text).main(name)
    over_bags = any(over.startswith("bag[") for _, over in definition.parameters)
    match definition.family:
        case "layer":
            return layer(text, inputs, sizes, name, arithmetic)
        case family if family == "op" or over_bags:
            return op(text, inputs, sizes, name, arithmetic)
    return score(text, inputs, sizes, name, negatives, arithmetic)


def gradients(
    text: str,
    inputs: Inputs,
    sizes: Mapping[str, int],
    upstream: Upstream,
    names: Sequence[str],
    name: str | None = None,
    negatives: str = "none",
    arithmetic: Arithmetic = BOUNDED,
) -> tuple[Result, dict[str, Array]]:
    """The result, and the gradient of sum(upstream * result) by each of the tensors `names`, in their shapes; of
    several results that of the sum over all.

    In one chunk, so what is as large as the product of all its edges and features should be cut smaller before.
    """
    traced, tensors = arithmetic.traced({entry: np.asarray(inputs[entry]) for entry in names})
    result = evaluate(text, inputs, sizes, name, negatives, traced)
    value = of_each(payload_of, result)
    results, upstreams = (result, upstream) if isinstance(result, tuple) else ((result,), (upstream,))
    with np.errstate(all="ignore"):
        found = backward(results, [arithmetic.of(np.asarray(each)) for each in upstreams], tensors)
    zeros = {entry: arithmetic.of(np.zeros(np.shape(inputs[entry]), np.float32)) for entry in names}
    return value, {entry: zeros[entry] if (by := found.get(entry)) is None else by for entry in names}


@dataclass(frozen=True, eq=False)
class Meaning:
    """A definition with all that it is evaluated on; `coarser` says how many times the unit roundoff of float32 the
    factors of its matrix products have, where a target rounds them on purpose; `rows` are those of the result that are
    asked for, a tuple of those of several, all where there are none. Where it is large and has bounds, it is computed
    on the `device` of PyTorch's that is named, if that is there and goes well."""

    text: str
    inputs: Inputs
    sizes: Mapping[str, int]
    name: str | None = None
    negatives: str = "none"
    coarser: float = 1.0
    rows: npt.NDArray[np.integer] | tuple[npt.NDArray[np.integer], ...] | None = None
    device: str = ""

    def result(self, arithmetic: Arithmetic = BOUNDED) -> Result:
        """The scores, or the rows of a layer or an op, a tuple of several."""

        def compute(arithmetic: Arithmetic) -> Result:
            return self._evaluated(arithmetic)

        return self._computed(compute, arithmetic)

    def _evaluated(self, arithmetic: Arithmetic) -> Result:
        found = evaluate(self.text, self.inputs, self.sizes, self.name, self.negatives, arithmetic)
        return found if self.rows is None else of_each(lambda result, rows: result[rows], found, self.rows)

    def gradients(self, upstream: Upstream, names: Sequence[str], arithmetic: Arithmetic = BOUNDED) -> dict[str, Array]:
        """The gradients of sum(upstream * result) by these tensors."""
        asked = (self.text, self.inputs, self.sizes, upstream, names, self.name, self.negatives)
        found: dict[str, Array] = self._computed(lambda arithmetic: gradients(*asked, arithmetic)[1], arithmetic)
        return found

    def overflows(self, upstream: Upstream | None = None, names: Sequence[str] = ()) -> bool:
        """Whether a value on the way to the result, or back to the gradients by these tensors, is too large for
        float32."""
        with overflows_seen() as seen:
            if upstream is None:
                self.result()
            else:
                self.gradients(upstream, names)
        return bool(seen)

    def change(self, direction: Mapping[str, npt.NDArray[np.floating]], arithmetic: Arithmetic = BOUNDED) -> Result:
        """How the result changes along a direction of these tensors, in any size; 0 where it does not."""

        def change_of(found: Array) -> Array:
            return found.change if isinstance(found, Moved) else arithmetic.of(np.zeros(found.shape))

        def compute(arithmetic: Arithmetic) -> Result:
            moved = arithmetic.moved({name: np.asarray(self.inputs[name]) for name in direction}, direction)
            return of_each(change_of, self._evaluated(moved))

        return self._computed(compute, arithmetic)

    def _computed(self, compute: Callable[[Arithmetic], Any], arithmetic: Arithmetic) -> Any:
        """What is computed in an arithmetic: on the device where that is worth it, else, or where that fails, here."""
        with products_coarser(self.coarser), flushing(arithmetic.flushes):
            if arithmetic in (BOUNDED, UNFLUSHED) and self._is_large and _is_there(self.device):
                from explorer.runtime.reference.numbers.device import computed_on

                with suppress(MemoryError, RuntimeError):  # what running out of memory raises
                    return computed_on(self.device, compute, arithmetic)
            return compute(arithmetic)

    @property
    def _is_large(self) -> bool:
        """Whether there are enough ids that a device is quicker than what it takes to ask it."""
        ids = (entry.size for entry in self.inputs.values() if np.ndim(entry) and entry.dtype.kind == "i")
        return max(ids, default=0) >= LEAST_ON_DEVICE


def _is_there(device: str) -> bool:
    """Whether PyTorch has a device of this name here."""
    if not device or find_spec("torch") is None:
        return False
    import torch

    return device != "cuda" or torch.cuda.is_available()


@dataclass(frozen=True)
class Slope:
    """How the loss changes with one entry of a tensor."""

    tensor: str
    index: tuple[int, ...]
    value: float


def finite_difference(
    text: str,
    inputs: Inputs,
    sizes: Mapping[str, int],
    upstream: Upstream,
    names: Sequence[str],
    count: int,
    name: str | None = None,
    negatives: str = "none",
    seed: int = 0,
) -> list[Slope]:
    """Central differences of sum(upstream * result) in float64, by `count` entries of each of the tensors `names`.

    The entries are drawn with `seed`, without repetition; all are taken where there are no more than `count`. Each
    costs two evaluations of the text. `upstream` has the shape of the result, a tuple of those of several.
    """
    random = np.random.default_rng(seed)
    slopes = []
    for tensor in names:
        values = np.array(inputs[tensor], dtype=np.float64)
        for flat in np.sort(random.permutation(values.size)[:count]).tolist():
            index = tuple(int(part) for part in np.unravel_index(flat, values.shape))
            centre = values[index]
            step = STEP * max(1.0, abs(float(centre)))
            ends = []
            for moved in (centre + step, centre - step):
                values[index] = moved
                ends.append((moved, evaluate(text, {**inputs, tensor: values}, sizes, name, negatives)))
            values[index] = centre
            (high, above), (low, below) = ends
            slopes.append(Slope(tensor, index, _weighted(upstream, above, below) / float(high - low)))
    return slopes


@dataclass(frozen=True)
class DirectionalSlope:
    """How the loss changes as all entries of a tensor move together: the direction's product with the gradient."""

    tensor: str
    direction: Array
    value: float


def directional_difference(
    text: str,
    inputs: Inputs,
    sizes: Mapping[str, int],
    upstream: Upstream,
    names: Sequence[str],
    name: str | None = None,
    negatives: str = "none",
    seed: int = 0,
) -> list[DirectionalSlope]:
    """Central differences of sum(upstream * result) in float64 along a random direction of each tensor in `names`.

    Two evaluations check all entries of a tensor at once, where entries one by one would take too long: with a
    normal direction, an error of the gradient shows with the size of its own norm.
    """
    random = np.random.default_rng(seed)
    slopes = []
    for tensor in names:
        values = np.array(inputs[tensor], dtype=np.float64)
        direction = random.standard_normal(values.shape)
        above, below = (
            evaluate(text, {**inputs, tensor: values + step * direction}, sizes, name, negatives)
            for step in (STEP, -STEP)
        )
        slopes.append(DirectionalSlope(tensor, direction, _weighted(upstream, above, below) / (2 * STEP)))
    return slopes


def _weighted(upstream: Upstream, above: Result, below: Result) -> float:
    """The sum of upstream * (above - below), over all results."""
    parts = zip(upstream, above, below, strict=True) if isinstance(upstream, tuple) else [(upstream, above, below)]
    return sum(float(np.sum(weights * (high - low))) for weights, high, low in parts)
