"""Models with a setting of the options, run wherever they run, and held against the float64 reference, each element of
a result and of a gradient against its own error bound.

The machine code of `cpu` is left to a few runs, since Numba takes seconds for a model; its text runs as Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import explorer
from explorer.compiler.codegen.cpu.program import HostFunction
from explorer.runtime.reference.compare import Check, compare
from explorer.runtime.reference.evaluate import Meaning
from explorer.runtime.reference.numbers.arithmetic import FLOAT32, ONE_BY_ONE
from explorer.runtime.runs.request import coarser
from explorer.runtime.targets import cpu
from tests.compiler.models import draw_inputs
from tests.compiler.random_layers import layer_inputs
from tests.compiler.random_ops import op_inputs

DECOUPLED_PLACES = ("slc", "slc.opt1", "slc.opt2", "slc.opt3", "dlc", "dae")
PLACES = {"decoupled": ("graph", "loops", "cpu", *DECOUPLED_PLACES), "scheduled": ("kernels",)}


@dataclass(frozen=True)
class Model:
    """A text with its family, sizes other than its own, and what it runs on: a graph's arrays, or lists."""

    text: str
    family: str
    sizes: Mapping[str, int]
    structure: Any = None

    def inputs(self, compilation: explorer.Compilation, seed: int) -> dict[str, Any]:
        """The structure, and values in [-1, 1] for every tensor."""
        if self.family == "layer":
            return layer_inputs(compilation.stages["graph"].program, self.structure, seed)
        if self.family == "op":
            return op_inputs(compilation.stages["graph"].program, self.structure, seed)
        drawn = draw_inputs(compilation, batch=5, entities=4, relations=3, seed=seed)
        return {name: array if array.dtype == np.int32 else np.clip(array, -1, 1) for name, array in drawn.items()}


def as_python(function: HostFunction, signature: tuple[Any, ...], checked: bool = False) -> Callable[..., None]:
    """A function of the `cpu` target as Python runs it, in place of the machine code that Numba makes of it."""
    return cpu._python_function(function)


def faults(model: Model, setting: Mapping[str, Any], places: Sequence[str], seed: int = 0) -> list[str]:
    """What is wrong with a model under a setting, wherever it runs: nothing, for all that ought to hold."""
    compilation = explorer.compile(model.text, sizes=model.sizes, options=setting, on_demand=True)
    if not compilation.ok:
        return ["; ".join(d.message for d in compilation.diagnostics)]
    inputs = model.inputs(compilation.with_options(grad=False), seed)
    meaning = Meaning(
        model.text,
        inputs,
        compilation.sizes,
        negatives=compilation.options.to_json()["negatives"],
        coarser=coarser(compilation, "gpu" if "kernels" in places else "cpu"),
    )
    want = meaning.result()
    upstream = np.random.default_rng(seed + 1).uniform(-1, 1, want.shape).astype(np.float32)
    learnt = [name for name, _ in compilation.stages["graph"].program.gradients]
    slopes = meaning.gradients(upstream, learnt) if learnt else {}

    def checks(place: str) -> dict[str, Check]:
        if not compilation.options.grad:
            return {"result": _check(compilation.run(inputs, on=place), want, meaning, lambda a: meaning.result(a))}
        got, gradients = compilation.run(inputs, on=place, grad=upstream)
        made = {"result": _check(got, want, meaning, lambda a: meaning.result(a))}
        for name in learnt:
            plainly = _gradient_of(meaning, upstream, learnt, name)
            made[f"gradient of {name}"] = _check(gradients[name], slopes[name], meaning, plainly)
        return made

    found = []
    for place in places:
        try:
            wrong = {what: check for what, check in checks(place).items() if not check.matches}
        except Exception as error:  # whatever it is, it is told with what it comes of
            found.append(f"{place}: {type(error).__name__}: {error}")
            continue
        found += [f"{place}: {what}: {check}" for what, check in wrong.items()]
    return found


def _gradient_of(meaning: Meaning, upstream: Any, learnt: list[str], name: str) -> Callable[[Any], Any]:
    return lambda arithmetic: meaning.gradients(upstream, learnt, arithmetic)[name]


def _check(got: Any, want: Any, meaning: Meaning, evaluated: Callable[[Any], Any]) -> Check:
    plain = [] if meaning.coarser > 1 else [lambda a=a: np.asarray(evaluated(a)) for a in (FLOAT32, ONE_BY_ONE)]
    return compare(got, want, plain)
