"""An edited program run beside the reference."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from time import process_time
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.compiler.edited.verdict import Difference, EditRefused, Read, Verdict
from explorer.compiler.frozen import dataclass
from explorer.compiler.interpret import run_program
from explorer.compiler.interpret.guarded import OutsideError, guarding
from explorer.compiler.interpret.inputs import each_fact
from explorer.compiler.ir.graph import Graph
from explorer.compiler.returned import as_returned, each_returned, for_each_returned
from explorer.compiler.stages import Program
from explorer.compiler.unsupported import OutOfBudget
from explorer.runtime.budget import CpuSpent, cpu_bounded
from explorer.runtime.proof.coarse import coarser_of
from explorer.runtime.proof.inputs import CASES, Case, Inputs, draw, draw_upstream
from explorer.runtime.reference.compare import compare, error_over_bound
from explorer.runtime.reference.evaluate import Meaning
from explorer.runtime.reference.numbers.bounds import Bounded

SECONDS = 2.0
"""Of work, that an edited text may take to be read, and again to be run on an input: ten times what the longest of the
examples does. A loop that somebody has made endless is stopped by then."""
ENOUGH_SECONDS = 0.1
"""After so much work, no more inputs than the first are tried: an answer is to come within 300 ms, with what is made
onward."""
RESULT = "result"
"""What the output is called; of several, with its place behind."""
MOST_KEPT = 16

Upstream = npt.NDArray[np.float32] | tuple[npt.NDArray[np.float32], ...]
Wanted = tuple[Inputs, Upstream | None, Mapping[str, Bounded]]
"""An input, the gradient of its result where there is a backward pass, and what must come of it by output."""
_KEPT: OrderedDict[tuple[Any, ...], Wanted] = OrderedDict()
"""The latest that were evaluated: the model stays while a stage of it is edited."""


@dataclass(frozen=True)
class Held:
    """One output beside what it must be."""

    error: float
    of_bound: float
    difference: Difference | None


def prove(compilation: Compilation, stage: str, read: Read) -> tuple[Program, Verdict]:
    """The program that `read` gives, to stand for a stage of a compilation, and whether it computes what the model says
    on as many of CASES as there is time for. Raises EditRefused for one that cannot be run."""
    try:
        with cpu_bounded(SECONDS):
            program = read()
    except CpuSpent:
        raise EditRefused(f"reading this text takes longer than {SECONDS:g} s") from None
    except MemoryError:
        raise EditRefused("reading this text takes more memory than it may") from None
    began, error, of_bound, tried = process_time(), 0.0, 0.0, 0
    for case in CASES:
        try:
            found = _on_case(compilation, stage, program, case, began + ENOUGH_SECONDS if tried else None)
        except CpuSpent:
            break
        tried += 1
        if isinstance(found, str):
            return program, Verdict("wrong", found, tried)
        error, of_bound = max(error, found.error), max(of_bound, found.of_bound)
        if found.difference is not None:
            return program, Verdict("wrong", _said(found.difference), tried, error, found.difference)
    inputs = f"{tried} small input{'s' * (tried > 1)}"
    message = f"matches the reference on {inputs}, largest error {of_bound:.2g} of what rounding may make (measured)"
    return program, Verdict("matches", message, tried, error)


def _on_case(compilation: Compilation, stage: str, program: Program, case: Case, until: float | None) -> Held | str:
    """What came of one input, or where the program reads or writes outside of an array. One that need not be tried
    raises CpuSpent where it is not done `until` then, by the process's time."""
    seconds = SECONDS if until is None else until - process_time()
    if seconds <= 0:
        raise CpuSpent("No time is left.")
    inputs, upstream, wanted = _wanted(compilation, coarser_of(program) if stage == "kernels" else 1.0, case)
    try:
        with cpu_bounded(seconds), guarding():
            got = _run(compilation, program, inputs, upstream)
    except CpuSpent:
        if until is not None:
            raise
        raise EditRefused(f"it does not end within {SECONDS:g} s on {case.entries} entries") from None
    except OutsideError as error:
        return f"an access is outside of its array: {error}"
    except OutOfBudget:  # of the whole compilation
        raise
    except MemoryError:
        raise EditRefused("it asks for more memory than it may have") from None
    except Exception as error:  # whatever a program that nobody has checked may come to
        raise EditRefused(f"it cannot be run: {_in_words(error)}") from None
    held = [_held(name, got[name], want) for name, want in wanted.items()]
    first = next((each.difference for each in held if each.difference), None)
    return Held(max(each.error for each in held), max(each.of_bound for each in held), first)


def _in_words(error: Exception) -> str:
    match error:
        case KeyError():
            return f"nothing is called {error.args[0] if error.args else ''}"
        case NameError():
            return "a name is read before anything is assigned to it"
        case SyntaxError():
            return "its loops are nested too deeply"
        case RecursionError():
            return "it is nested too deeply"
    return str(error)[:200] or type(error).__name__


def _run(compilation: Compilation, program: Program, inputs: Inputs, upstream: Upstream | None) -> dict[str, Any]:
    """The results and the gradients, by name."""
    finish = None
    graph = compilation.stages["graph"].program
    assert isinstance(graph, Graph)
    arrays: Mapping[str, Any] = inputs
    if compilation.encode is not None and not graph.is_one_nest:
        arrays, finish = compilation.encode(compilation, inputs, upstream)
    elif graph.family == "score":
        arrays = each_fact(graph, inputs)
    result, gradients = run_program(program, arrays, again=True)
    if finish is not None:
        result, gradients = finish(result, gradients)
    if (negatives := compilation.options.negatives) and negatives.replaces:
        result = for_each_returned(lambda scores: np.reshape(scores, (-1, negatives.count)), result)
    return {**_named(result), **{f"gradient of {name}": array for name, array in gradients.items()}}


def _wanted(compilation: Compilation, coarse: float, case: Case) -> Wanted:
    """An input, and what the reference makes of it: the latest are kept."""
    graph = compilation.stages["graph"].program
    assert isinstance(graph, Graph)
    negatives = str(compilation.options.to_json()["negatives"])
    learnt = tuple(name for name, _ in graph.gradients)
    key = (compilation.text, compilation.name, tuple(compilation.sizes.items()), negatives, learnt, coarse, case)
    if key not in _KEPT:
        inputs = draw(compilation, case)
        meaning = Meaning(compilation.text, inputs, compilation.sizes, compilation.name, negatives, coarse)
        result = meaning.result()
        upstream = None
        if compilation.options.grad:
            upstream = as_returned(draw_upstream(each.shape, case, at) for at, each in enumerate(each_returned(result)))
        slopes = meaning.gradients(upstream, learnt) if upstream is not None and learnt else {}
        _KEPT[key] = inputs, upstream, {**_named(result), **{f"gradient of {name}": slopes[name] for name in slopes}}
        while len(_KEPT) > MOST_KEPT:
            _KEPT.popitem(last=False)
    _KEPT.move_to_end(key)
    return _KEPT[key]


def _named(result: Any) -> dict[str, Any]:
    """The results by what they are called."""
    if not isinstance(result, tuple):
        return {RESULT: result}
    return {f"{RESULT} {place}": each for place, each in enumerate(result, 1)}


def _held(name: str, got: Any, want: Bounded) -> Held:
    """The largest relative error of an output, and its first element that is wrong."""
    got = np.asarray(got)
    if got.shape != want.shape:
        raise EditRefused(f"{name} has the shape {list(got.shape)}, not {list(want.shape)}")
    check = compare(got, want)
    wrong = np.flatnonzero(error_over_bound(got, want) > 1)
    if check.matches and not wrong.size:
        return Held(check.max_relative_error, check.ratio, None)
    if not wrong.size:  # what float32 cannot hold on the way
        wrong = np.flatnonzero(~np.isfinite(got))
    at = tuple(int(part) for part in np.unravel_index(int(wrong[0]) if wrong.size else 0, want.shape))
    values = (float(want.value[at]), float(got[at]))
    expected, came = (value if np.isfinite(value) else None for value in values)
    return Held(check.max_relative_error, check.ratio, Difference(name, at, expected, came))


def _said(found: Difference) -> str:
    """A sentence on the first value that differs."""
    at = f"[{', '.join(map(str, found.index))}]" if found.index else ""
    return f"{found.output}{at} is {_number(found.got)}, where the reference has {_number(found.expected)}"


def _number(value: float | None) -> str:
    return "no finite number" if value is None else f"{value:.7g}"
