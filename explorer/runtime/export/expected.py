"""What an extension's own test holds it against: small inputs, and what the float64 reference makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.returned import as_returned, each_returned
from explorer.runtime.export.plan import Plan
from explorer.runtime.proof.coarse import coarser_of
from explorer.runtime.proof.inputs import CASES, draw, draw_upstream
from explorer.runtime.reference.evaluate import Meaning
from explorer.runtime.reference.numbers.bounds import CONSTANT, ROUNDOFF, Bounded

Arrays = dict[str, npt.NDArray[Any]]


def expected(plan: Plan) -> Arrays:
    """By `CASE/given/NAME` what a call takes, by `CASE/upstream/N` the gradient of its Nth result, and by
    `CASE/want/NAME` and `CASE/error/NAME` what the results and the gradients are, and how far float32 may be from
    that."""
    found: Arrays = {}
    compilation = plan.compilation
    negatives = str(compilation.options.to_json()["negatives"])
    coarse = max(coarser_of(compilation.stages["kernels"].program), _coarse_gradients(plan))
    for number, case in enumerate(CASES):
        inputs = draw(compilation, case)
        meaning = Meaning(compilation.text, inputs, compilation.sizes, compilation.name, negatives, coarse)
        results = each_returned(meaning.result())
        found |= {f"{number}/given/{name}": np.asarray(value) for name, value in inputs.items()}
        outputs = {f"result {place}": result for place, result in enumerate(results, 1)}
        if plan.slopes:
            upstreams = [draw_upstream(result.shape, case, place) for place, result in enumerate(results)]
            found |= {f"{number}/upstream/{place}": upstream for place, upstream in enumerate(upstreams, 1)}
            slopes = meaning.gradients(as_returned(upstreams), tuple(name for name, _ in plan.slopes))
            outputs |= {f"gradient of {name}": slope for name, slope in slopes.items()}
        for name, output in outputs.items():
            found |= {f"{number}/want/{name}": output.value, f"{number}/error/{name}": _error(output)}
    return found


def _coarse_gradients(plan: Plan) -> float:
    return 1.0 if plan.derived is None else coarser_of(plan.derived.stages["kernels"].program)


def _error(output: Bounded) -> npt.NDArray[np.float64]:
    """What rounding may make of each element."""
    return np.broadcast_to(CONSTANT * ROUNDOFF * np.asarray(output.error, np.float64), output.shape)
