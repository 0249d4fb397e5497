"""Figures of the papers that are times: measured on a GPU where there is one, settings in turns, caches flushed.

Needs PyTorch and CuPy, which are imported only then. Every result is held against float64 where that fits the device
and else against the first setting's; a table in which one is wrong says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from benchmarks.paper.figure import Row, Table
from benchmarks.paper.measured.rows import MeasuredRows

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
Told = Mapping[str, Mapping[str, float | None]]
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
    from benchmarks._gpu_timing import Clock

    return Clock()


def give_back() -> None:
    """Frees what earlier figures held on the device."""
    import cupy
    import torch

    torch.cuda.empty_cache()
    cupy.get_default_memory_pool().free_all_blocks()


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
    from benchmarks._gpu_measuring import bind, outcome

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
    from benchmarks._gpu_inputs import drawn, relational_graph
    from benchmarks._gpu_rows import LAYER_TOLERANCE, Problem, relative_error

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

    from benchmarks._gpu_peers import LAYERS
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
    from benchmarks._gpu_rows import LAYER_TOLERANCE, relative_error

    exact = exactly(layer, graph, tensors, edges)
    errors = [apart(each, exact[name]) / ALIKE for name, each in gradients.items()]
    return max([relative_error(result, exact[""]) / LAYER_TOLERANCE, *errors])


@cache
def layer_program(
    layer: str, sizes: tuple[tuple[str, int], ...], grad: bool, options: tuple[tuple[str, Any], ...]
) -> Any:
    """A layer compiled once for graphs of any size, so that few kernels are made for many graphs."""
    from benchmarks._gpu_rows import LayerRow

    return LayerRow(name=layer, model=layer).compiled(f"rgnn/{layer}", dict(sizes), grad=grad, **dict(options))


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


def speed_ups(
    layer: str,
    sizes: Mapping[str, int],
    settings: Mapping[str, Options],
    grad: bool,
    told: Told,
    drafts: Told | None = None,
) -> Table:
    """A layer's time in the first setting, and how many times as fast the others are, on the graphs that something is
    published of: by graph and setting, None where the paper's code had no room. What PIGEON, the paper's draft, has of
    a graph stands in a row of its own."""
    plain, *others = settings
    speed_of = {setting: f"speed, {setting}" for setting in others}
    columns = (f"{plain}, ms", *speed_of.values())
    found = MeasuredRows()

    def make(data: str) -> tuple[list[Row], bool]:
        times = layer_times(layer, data, sizes, settings, grad)
        ours = {columns[0]: times.ms[plain]} if plain in times.ms else {}
        known = [name for name in others if {plain, name} <= times.ms.keys()]
        speeds = {speed_of[name]: times.ms[plain] / times.ms[name] for name in known}
        rows = [Row(data, {**ours, **speeds}, published(told[data]))]
        if drafts and data in drafts:
            rows.append(Row(f"{data}, PIGEON's Table 5", speeds, published(drafts[data])))
        return rows, times.right

    def published(speeds: Mapping[str, float | None]) -> dict[str, float]:
        return {speed_of[name]: speed for name, speed in speeds.items() if speed is not None}

    for data in told:
        found.add(data, partial(make, data))
    note = (
        f"Medians of {REPEAT} with cold caches, of kernels that are compiled once for all graphs; the paper's are of an"
        " RTX 3090. What is plain here is fused as well, so that less is left to gain."
    )
    return found.table(columns, note, "plain over optimised", ".3f")


def by_dimension(layers: Mapping[str, Callable[[int], Mapping[str, int]]], data: str) -> Table:
    """Hector's Figure 11: times at 32, 64 and 128, and over those at half the dimension."""
    dims = (32, 64, 128)
    columns = (*(f"{dim}, ms" for dim in dims), *(f"{dim} over {dim // 2}" for dim in dims[1:]))
    both = {"C+R": {"reorder": True, "compact": True}}
    found = MeasuredRows()

    def make(label: str, layer: str, grad: bool) -> tuple[list[Row], bool]:
        times = {dim: layer_times(layer, data, layers[layer](dim), both, grad) for dim in dims}
        ms = {dim: each.ms["C+R"] for dim, each in times.items() if each.ms}
        ours = {f"{dim}, ms": value for dim, value in ms.items()}
        both_known = [dim for dim in dims[1:] if {dim, dim // 2} <= ms.keys()]
        ours |= {f"{dim} over {dim // 2}": ms[dim] / ms[dim // 2] for dim in both_known}
        return [Row(label, ours)], all(each.right for each in times.values())

    for layer in layers:
        for grad, task in ((False, "inference"), (True, "training")):
            label = f"{layer.upper()}, {task}"
            found.add(label, partial(make, label, layer, grad))
    note = (
        f"On {data}, compact and reordered, medians of {REPEAT} with cold caches. The paper says that doubling the"
        " dimensions takes less than twice the time; its bars are a drawing; Figure 12's IPC is in `fig12-rgat-bgs`."
    )
    return found.table(columns, note, form=",.3f")


def sparse_times(model: str, size: int, settings: Mapping[str, Options]) -> Measured:
    """Times of SpMM or SDDMM on arxiv's counts with degrees of a power law, by setting; of SpMM cuSPARSE's too."""
    from benchmarks._gpu_rows import MatrixRow

    row = MatrixRow(name=model, model=model, nodes=169_343, nonzeros=1_166_243, size=size)
    problem = row.problem(DEVICE, "")
    counts = {"rows": row.nodes, "cols": row.nodes, "nonzeros": row.nonzeros}
    made: Any = row.compiled  # which takes numbers too
    programs = {name: made(f"embedding/{model}", {"D": size}, counts, **o) for name, o in settings.items()}
    return in_turns(problem, programs, lambda got: problem.check(got, {}), row.tolerance)


def tile_times(settings: Mapping[str, Options], size: int) -> Table:
    """G-Sparse's tiles of SpMM (§III-B) as times."""
    columns = ("ms", "over a warp a row")
    found = sparse_times("spmm", size, {name: {"split": "rows", **options} for name, options in settings.items()})
    first = next(iter(found.ms.values()), 1.0)
    rows = [Row(name, {columns[0]: ms, columns[1]: ms / first}) for name, ms in found.ms.items()]
    note = (
        f"SpMM of arxiv's counts, {size} wide, rows shared out, degrees of a power law; medians of {REPEAT} with cold"
        " caches. `explorer bench gpu --only SpMM` has the usual schedule beside cuSPARSE."
    )
    return Table("measured", columns, rows, note, form=",.4f", right=found.right)


def lane_times() -> Table:
    """G-Sparse's lane widths of SDDMM (Algorithm 3) as times, by the features of a row."""
    lanes = (2, 4, 8, 16, 32)
    columns = tuple(f"kLaneWidth = {width}, ms" for width in lanes)
    found = MeasuredRows()

    def make(label: str, size: int) -> tuple[list[Row], bool]:
        times = sparse_times("sddmm", size, {f"kLaneWidth = {width}, ms": {"lanes": width} for width in lanes})
        return [Row(label, times.ms)], times.right

    for size in (8, 32, 128, 256):
        found.add(f"{size} features", partial(make, f"{size} features", size))
    note = (
        f"SDDMM of arxiv's counts, degrees of a power law; medians of {REPEAT} with cold caches. The excerpt's Table IV"
        " has no numbers that could stand beside these."
    )
    return found.table(columns, note, form=",.4f")


PRODUCT_ROWS = tuple(2**power for power in range(17, 24))


def rows_times() -> Table:
    """Hector's §4.4: what cuBLAS makes a second of rows times a matrix of 64 by 64, by how many rows there are."""
    import torch

    from benchmarks._gpu_rows import TOLERANCES

    give_back()
    columns, size = ("ms", "TFLOP/s"), 64
    left, right = (torch.randn(count, size, device=DEVICE) for count in (max(PRODUCT_ROWS), size))
    allowed, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, False
    few = left[:EXACT_EDGES]
    is_exact = apart(few @ right, few.double() @ right.double()) <= TOLERANCES["float32"]
    runs = {str(count): lambda count=count: left[:count] @ right for count in PRODUCT_ROWS}
    times = {int(name): samples.to_json() for name, samples in clock().interleave(runs, REPEAT).items()}
    torch.backends.cuda.matmul.allow_tf32 = allowed
    ms = {count: told["ms"] for count, told in times.items() if "ms" in told}
    rows = [
        Row(f"{count:,} rows", dict(zip(columns, (each, 2 * count * size**2 / each / 1e9), strict=True)))
        for count, each in ms.items()
    ]
    note = (
        f"float32, {size} to {size}; medians of {REPEAT} with cold caches. The paper says that it rises steadily from"
        " 1M (2^17) to 8M (2^20): these are the rows by both readings, to 2^23."
    )
    return Table("measured", columns, rows, note, form=",.3f", right=is_exact and ms.keys() == times.keys())
