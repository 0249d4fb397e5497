"""A run that is held against another text: whether both mean the same for the same data, parameters and sizes.

Both are evaluated in float64 on what the run draws, so two texts that say the same in other words agree to many more
digits than the bounds that they are held to, which are those of float32.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.graph import Graph
from explorer.compiler.returned import each_returned
from explorer.runtime.reference.compare import error_over_bound
from explorer.runtime.reference.numbers.bounds import Bounded
from explorer.runtime.reference.text import ReferenceFailure
from explorer.runtime.runs.events import failed
from explorer.runtime.runs.request import DEFAULT_DATA, Refused, RunRequest, Setup, compile_request

USUAL = {"score": DEFAULT_DATA, "layer": "small", "op": ""}
"""What each family is held against another text on, unless the request names data; an op's lists have their own."""
CLOSE = 1e-6
"""The relative error where float32 has no bound."""


def both(request: RunRequest) -> tuple[RunRequest, RunRequest]:
    """The request and that of the text that it is held against, with the sizes and the data of the latter. Raises
    Refused where that text does not compile, or the two are not of the same family with the same parameters."""
    bare = replace(request, sizes={}, default_sizes={}, schedule={}, edited={}, name=None, compiled=None)
    try:
        expected = replace(bare, text=request.expected)
        wanted = compile_request(expected)
    except Refused as refused:
        raise Refused(failed("refused", f"The expected text is of no use: {refused}")) from None
    declared = compile_request(bare).sizes
    sizes = {dim: size for dim, size in wanted.sizes.items() if dim in declared}
    data = request.data or USUAL[wanted.family]
    request = replace(bare, default_sizes=sizes, schedule=request.schedule, data=data)
    _refuse_other_inputs(compile_request(request), wanted)
    return request, replace(expected, data=data)


def _refuse_other_inputs(got: Compilation, wanted: Compilation) -> None:
    if got.family != wanted.family:
        raise Refused(failed("error", f"The family is {got.family}, where {wanted.family} is expected."))
    ours, theirs = _inputs(got), _inputs(wanted)
    for name in {**theirs, **ours}:
        if ours.get(name) != theirs.get(name):
            what = f"{ours.get(name, 'not there')}, where it is to be {theirs.get(name, 'not there')}"
            raise Refused(failed("error", f"The input '{name}' is {what}."))


def _inputs(compilation: Compilation) -> dict[str, str]:
    """What a definition reads besides what its data brings, by name: index sets and extents, in words."""
    graph = compilation.stages["graph"].program
    assert isinstance(graph, Graph)
    given = [tensor for tensor in graph.tensors if tensor.kind in ("param", "input")]
    found = {tensor.name: str([*tensor.sets, *map(graph.size, tensor.dims)]) for tensor in given}
    if compilation.family == "score":
        found |= {entry.name: f"of {entry.codomain}" for entry in graph.maps if not entry.paths}
    return found


def refuse_other_meaning(setup: Setup, expected: Setup) -> None:
    """Raises Refused where two texts do not give the same results, on what is drawn for the one and for the other: of
    what data may or may not bring, such as a matrix's values, each has only what it reads."""
    texts = setup.request.text, expected.request.text
    for each in (expected, setup):
        meaning = each.part or each.meaning
        try:
            got, wanted = [replace(meaning, text=text, name=None).result() for text in texts]
        except (ReferenceFailure, KeyError) as error:
            raise Refused(failed("error", f"The two cannot be evaluated on the same inputs: {error}.")) from None
        ours, theirs = each_returned(got), each_returned(wanted)
        if len(ours) != len(theirs):
            counts = f"{len(ours)} results, where {len(theirs)} are expected"
            raise Refused(failed("error", f"It returns {counts}."))
        for one, other in zip(ours, theirs, strict=True):
            _refuse_other_result(one.value, other)


def _refuse_other_result(got: npt.NDArray[np.float64], wanted: Bounded) -> None:
    if got.shape != wanted.shape:
        shapes = f"{list(got.shape)}, where {list(wanted.shape)} is expected"
        raise Refused(failed("error", f"The result has the shape {shapes}."))
    different = _different(got, wanted)
    if different.any():
        share = f"{different.sum():,} of {different.size:,}"
        raise Refused(failed("error", f"The results differ from what is expected: {share} elements do."))


def _different(got: npt.NDArray[np.float64], wanted: Bounded) -> npt.NDArray[np.bool_]:
    far = error_over_bound(got, wanted) > 1
    with np.errstate(all="ignore"):
        unheld = ~np.isfinite(wanted.error) & np.isfinite(wanted.value)
        apart = ~(np.abs(got - wanted.value) <= CLOSE * np.abs(wanted.value))
    return np.asarray(far | (unheld & apart))
