"""How the papers' figures are measured on a GPU: settings and peers in turns, caches flushed, and what is right.

Needs PyTorch and CuPy, which are imported only then. Every result is held against float64 where that fits the device
and else against the first setting's; a table in which one is wrong says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from benchmarks.timing.device import give_back as give_back
from explorer.compiler.compilation import Compilation

DEVICE = "cuda"
REPEAT = 10
EXACT_EDGES = 1_000_000
"""Up to so many edges all of a layer fits in float64, an edge a row."""
ALIKE = 1e-3
"""Of two settings' results, the norm of the difference over that of the values: sums in another order, and edges that
fall to either side of where a slope jumps, leaky ReLU's at 0: one of millions may be a 1,000th of a single element."""
COMPILED, COMPILE_SECONDS = "torch.compile", 15
"""A peer, and what its first call may take, which compiles it."""

Options = Mapping[str, str | int | bool]
Run = Callable[[], Any]
Runs = Mapping[str, Run]
Peers = Callable[[Mapping[str, Any], Any, bool], Runs]
"""From a layer's tensors, its edges and whether gradients are wanted, runs by name."""


@dataclass(frozen=True)
class Measured:
    """Median milliseconds by setting and peer, those without that failed, and whether all results were right; `errors`
    of the peers that failed."""

    ms: Mapping[str, float]
    right: bool
    errors: Mapping[str, str] = field(default_factory=dict)


@cache
def clock() -> Any:
    """The process's clock."""
    from benchmarks.timing.device import Clock

    return Clock()


def in_turns(
    problem: Any,
    programs: Mapping[str, Any],
    check: Callable[[Any], float],
    most: float,
    *,
    exact: Mapping[str, Any] | None = None,
    peers: Runs | None = None,
) -> Measured:
    """The programs' times on a problem's inputs, whose results a check gives the errors of: `most` is right. Gradients
    are held against `exact` ones, or else against the first setting's. What of the peers fails is no fault of ours."""
    from benchmarks.gpu_suite.measuring import bind, outcome

    runs: dict[str, Run] = {}
    right, first = True, dict(exact or {})
    for name, program in programs.items():
        own = replace(problem, program=program)
        bound = bind(own)
        bound.launch()
        result, gradients = outcome(own, bound)
        found = {"": result, **gradients}
        first = {key: value.clone() for key, value in found.items()} | first
        right = right and check(result) <= most and all(apart(found[key], first[key]) <= ALIKE for key in first)
        runs[name] = bound.launch
    times = timed({**runs, **(peers or {})})
    return replace(times, right=right and not times.errors.keys() & runs.keys())


def timed(runs: Runs) -> Measured:
    """The times of what takes turns; all are taken to be right that have one."""
    told = {name: samples.to_json() for name, samples in clock().interleave(dict(runs), REPEAT).items()}
    errors = {name: each["error"] for name, each in told.items() if "error" in each}
    return Measured({name: each["ms"] for name, each in told.items() if "ms" in each}, not errors, errors)


def apart(got: Any, want: Any) -> float:
    """The norm of the difference over that of the values, in float64."""
    difference = (got - want).double().norm()
    return float(difference / want.double().norm().clamp(min=1e-30))


def layer_times(
    layer: str,
    data: str,
    sizes: Mapping[str, int],
    settings: Mapping[str, Options],
    grad: bool,
    peers: Peers = lambda tensors, edges, grad: {},
) -> Measured:
    """A layer's times on a graph under each of some settings, beside those of peers."""
    from benchmarks.gpu_suite.inputs import drawn, relational_graph
    from benchmarks.gpu_suite.rows import LAYER_TOLERANCE, Problem, relative_error

    structure, edges = relational_graph(data, "", DEVICE)
    give_back()
    fixed = tuple(sizes.items())
    programs = {name: layer_program(layer, fixed, grad, tuple(chosen.items())) for name, chosen in settings.items()}
    first = next(iter(programs.values()))
    tensors = drawn(first.graph, structure.counts, DEVICE)
    exact = exactly(layer, first.graph, tensors, edges) if len(edges.src) <= EXACT_EDGES else {}
    want = exact.pop("", None)
    problem = Problem(first, structure, tensors, {}, lambda *_: 0.0)

    def check(got: Any) -> float:
        return 0.0 if want is None else relative_error(got, want)

    theirs = peers(tensors, edges, grad)
    return in_turns(problem, programs, check, LAYER_TOLERANCE, exact=exact, peers=theirs)


def exactly(layer: str, graph: Any, tensors: Mapping[str, Any], edges: Any) -> dict[str, Any]:
    """A layer's result in float64, by "", and the gradients that its program has, by tensor."""
    import torch

    from benchmarks.gpu_suite.peers import LAYERS
    from explorer.runtime.encode.layers import upstream_names

    wanted = [name for name, _ in graph.gradients]
    given = {name: tensor.double().requires_grad_(name in wanted) for name, tensor in tensors.items()}
    with torch.set_grad_enabled(bool(wanted)):
        result = LAYERS[layer](given, edges)
    if not wanted:
        return {"": result}
    (upstream,) = upstream_names(graph)
    gradients = torch.autograd.grad(result, [given[name] for name in wanted], given[upstream])
    return {"": result.detach(), **dict(zip(wanted, gradients, strict=True))}


def error_of(
    layer: str, graph: Any, tensors: Mapping[str, Any], edges: Any, result: Any, gradients: Mapping[str, Any]
) -> float:
    """The largest error of a layer's result and gradients against float64, each over the one that it may have."""
    from benchmarks.gpu_suite.rows import LAYER_TOLERANCE, relative_error

    exact = exactly(layer, graph, tensors, edges)
    errors = [apart(each, exact[name]) / ALIKE for name, each in gradients.items()]
    return max([relative_error(result, exact[""]) / LAYER_TOLERANCE, *errors])


@cache
def layer_program(
    layer: str, sizes: tuple[tuple[str, int], ...], grad: bool, options: tuple[tuple[str, Any], ...]
) -> Any:
    """A layer compiled once for graphs of any size, so that few kernels are made for many graphs."""
    from benchmarks.gpu_suite.rows import LayerRow

    return LayerRow(name=layer, model=layer).compiled(f"rgnn/{layer}", dict(sizes), grad=grad, **dict(options))


def layer_code(layer: str, sizes: Mapping[str, int], grad: bool, options: Options) -> Compilation:
    """The compilation of a layer's program."""
    made: Compilation = layer_program(layer, tuple(sizes.items()), grad, tuple(options.items())).compilation
    return made


@cache
def module(path: str, sizes: tuple[tuple[str, int], ...] | int, options: tuple[tuple[str, Any], ...] = ()) -> Any:
    """An example as a module of PyTorch that is given its tensors, compiled once for all graphs; of one size all its
    dimensions have it."""
    import explorer
    from explorer.checkout import CHECKOUT

    text = (CHECKOUT / "examples" / f"{path}.emb").read_text()
    if isinstance(sizes, int):
        sizes = tuple(dict.fromkeys(explorer.compile(text, on_demand=True).sizes, sizes).items())
    return explorer.compile(text, sizes=dict(sizes), options=dict(options), on_demand=True).torch()


def module_code(path: str, sizes: Mapping[str, int] | int, grad: bool, options: Options) -> Compilation:
    """The compilation of such a module's calls, with a backward pass of all that it learns or without."""
    own = sizes if isinstance(sizes, int) else tuple(sizes.items())
    return called_code(module(path, own, tuple(options.items())), grad)


def called_code(made: Any, grad: bool, frozen: frozenset[str] = frozenset()) -> Compilation:
    """The compilation of a module's calls on this device, with a backward pass of what is not `frozen` or without:
    where the usual one has the results in no kernels of their own, the module takes another."""
    from benchmarks.gpu_suite.rows import architecture
    from explorer.runtime.export.plan import Plan

    compilation: Compilation = made.compilation.with_frozen(frozen).with_options(arch=architecture())
    plan = Plan.of(compilation, grad)
    return plan.derived or plan.compilation
