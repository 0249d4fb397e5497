"""Hector's Figures 3 and 9: where the time of a layer goes, by kernel, in preparing its graph, and in launching.

Kernels are timed by themselves, each by CUDA events, with warm caches; what the host does by its clock, with launches
one by one and as the graph of launches that a run replays. Needs PyTorch and CuPy, which are imported only then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.paper.figure import Row, Table
from benchmarks.paper.measured import on_gpu
from benchmarks.paper.measured.rows import MeasuredRows
from explorer.compiler.to_json import kernels_of

PRODUCTS = ("gemm", "outer_products")
"""Templates of products of rows and matrices; that of kernels that look at a graph is `inspector`, all others go
through nodes and edges."""
PASSES, TURNS, IN_A_ROW = 3, 5, 20
GEMM, TRAVERSAL, INSPECTORS = "GEMM", "traversal", "inspectors"
BY_KERNEL = (GEMM, TRAVERSAL, "kernels")
LAUNCHED = ("one by one: host", "one by one: wall", "as a graph: host", "as a graph: wall", "API, %")
PREPARED = (INSPECTORS, "index work, host", "index arrays, copy")


@dataclass(frozen=True)
class Spent:
    """Milliseconds by column of the tables, and whether the result was right."""

    ms: Mapping[str, float]
    right: bool


def kinds_of(compilation: Any) -> dict[str, str]:
    """By a kernel's symbol, which of the tables' columns it counts for."""
    kernels = kernels_of(compilation.stages["kernels"].program)
    launches = compilation.stages["cuda"].program.launches
    kinds = {"inspector": INSPECTORS, **dict.fromkeys(PRODUCTS, GEMM)}
    return {
        launch.symbol: INSPECTORS if kernel.once else kinds.get(kernel.template, TRAVERSAL)
        for kernel, launch in zip(kernels, launches, strict=True)
    }


def layer_spent(layer: str, data: str, sizes: Mapping[str, int], options: on_gpu.Options, grad: bool) -> Spent:
    """What a run of a layer on a graph spends."""
    from benchmarks.gpu_suite.inputs import drawn, relational_graph
    from benchmarks.gpu_suite.measuring import bind, outcome
    from benchmarks.gpu_suite.rows import Problem

    structure, edges = relational_graph(data, "", on_gpu.DEVICE)
    on_gpu.give_back()
    program = on_gpu.layer_program(layer, tuple(sizes.items()), grad, tuple(options.items()))
    tensors = drawn(program.graph, structure.counts, on_gpu.DEVICE)
    problem = Problem(program, structure, tensors, {}, partial(on_gpu.error_of, layer, program.graph, tensors, edges))
    bound = bind(problem)
    bound.launch()
    right = len(edges.src) > on_gpu.EXACT_EDGES or problem.check(*outcome(problem, bound)) <= 1
    found = by_kernel(bound, kinds_of(program.compilation), lambda run: on_gpu.clock().sample(run, cold=False))
    return Spent({**found, **launching(bound, found["kernels"]), **preparing(problem, edges)}, right)


def by_kernel(bound: Any, kinds: Mapping[str, str], sample: Callable[[Callable[[], Any]], float]) -> dict[str, float]:
    """The kernels' times by kind, of the pass whose sum is the median, and that sum."""
    launches = [*bound.launches, *bound.inspectors]
    passes = [[sample(partial(each.run, None)) for each in launches] for _ in range(PASSES)]
    times = sorted(passes, key=sum)[PASSES // 2]
    found = dict.fromkeys((GEMM, TRAVERSAL, INSPECTORS), 0.0)
    for each, ms in zip(launches, times, strict=True):
        found[kinds[each.launch.symbol]] += ms
    return {**found, "kernels": found[GEMM] + found[TRAVERSAL]}


def launching(bound: Any, kernels_ms: float) -> dict[str, float]:
    """What a run takes the host, and from start to end, in a row of runs; the API's share is what launches one by one
    take the host, of that and the kernels' time."""

    def one_by_one() -> None:
        for each in bound.launches:
            each.run(None)

    host, wall = in_a_row(one_by_one)
    of_graph = in_a_row(bound.launch)
    return dict(zip(LAUNCHED, (host, wall, *of_graph, 100 * host / (host + kernels_ms)), strict=True))


def in_a_row(run: Callable[[], Any]) -> tuple[float, float]:
    """Milliseconds of a call in a row of calls: until the host is done with it, and until the device is; medians."""
    found = []
    run()
    for _ in range(TURNS):
        synchronize()
        began = perf_counter()
        for _ in range(IN_A_ROW):
            run()
        queued = perf_counter()
        synchronize()
        found.append((queued - began, perf_counter() - began))
    host, wall = (1e3 * median(each) / IN_A_ROW for each in zip(*found, strict=True))
    return host, wall


def synchronize() -> None:
    """Waits for the device."""
    import torch

    torch.cuda.synchronize()


def preparing(problem: Any, edges: Any) -> dict[str, float]:
    """What the host takes for the graph's encodings, anew, and the copy of the index arrays to the device."""
    import torch

    from explorer.runtime.torch.structure import prepare

    graph = problem.program.graph
    maps = {name: getattr(edges, name).cpu() for name in ("src", "dst", "etype", "ntype")}
    numbers = {f"num_{name}s": problem.structure.counts[name] for name in ("node", "etype", "ntype")}
    began = perf_counter()
    structure = prepare(graph, {**maps, **numbers}, {}, 0, checked=True)
    indices = [buffer.name for buffer in problem.program.inputs if buffer.kind == "index"]
    arrays = [structure.index(name, graph, replace(problem, structure=structure).counts) for name in indices]
    encoded = perf_counter()
    synchronize()
    copying = perf_counter()
    on_device = [array.to(on_gpu.DEVICE) for array in arrays if isinstance(array, torch.Tensor)]
    synchronize()
    done = perf_counter()
    del on_device
    return {PREPARED[1]: 1e3 * (encoded - began), PREPARED[2]: 1e3 * (done - copying)}


Case = tuple[str, str, str, on_gpu.Options, bool]
"""A row's label, its layer and graph, the options, and whether gradients are wanted."""


def spent_table(
    cases: Sequence[Case], sizes: Mapping[str, Mapping[str, int]], columns: Sequence[str], told: str
) -> Table:
    """What runs spend, by these columns."""
    found = MeasuredRows()

    def make(case: Case) -> tuple[list[Row], bool]:
        label, layer, data, options, grad = case
        spent = layer_spent(layer, data, sizes[layer], options, grad)
        return [Row(label, {name: spent.ms[name] for name in columns})], spent.right

    for case in cases:
        found.add(case[0], partial(make, case))
    note = (
        "Kernels each by itself, by CUDA events and with warm caches, of which a launch alone is some 2 us; GEMM are"
        " products of rows and matrices, all others go through nodes and edges. "
    )
    return found.table(columns, note + told, "ms", ".3f")


def figure_3(layers: Mapping[str, Mapping[str, int]], graphs: Sequence[str]) -> Table:
    """By kernel, launching and preparation, of inference and training."""
    both = {"reorder": True, "compact": True}
    cases = [
        (f"{layer.upper()} {data}, {task}", layer, data, both, task == "training")
        for data in graphs
        for layer in layers
        for task in ("inference", "training")
    ]
    told = (
        f"A run of {IN_A_ROW} in a row: what the host takes to launch its kernels, and all together. API: the host's"
        " launches one by one, of these and the kernels; published: 22 %, of Graphiler's. In a run nothing is copied"
        " and no row is gathered by a kernel of its own; what is done once for a graph is the inspectors' kernels, the"
        " host's encoding, and the copy of what it makes."
    )
    return spent_table(cases, layers, (*BY_KERNEL, *LAUNCHED, *PREPARED), told)


def figure_9(
    layer: str, sizes: Mapping[str, int], graphs: Sequence[str], settings: Mapping[str, on_gpu.Options]
) -> Table:
    """By kernel, of a layer's inference under each setting."""
    cases = [(f"{data}, {name}", layer, data, options, False) for data in graphs for name, options in settings.items()]
    told = f"{layer.upper()}, inference. The paper's bars are a drawing; its AM gains by less GEMM, its FB15k little."
    return spent_table(cases, {layer: sizes}, BY_KERNEL, told)
