"""cuKE's Table V and Hector's Figure 10 as measured: the most memory that a score, or a layer, holds on a GPU.

Models run as modules of PyTorch, whose allocator then says the most that was held: index arrays, inputs, weights and
what kernels make. Table V's device has a batch's own rows and matrices (§VII-D: "a copy of the data for the unique
entities and relations"). Needs PyTorch and CuPy, imported only then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.paper.figure import Row, Table
from benchmarks.paper.measured import on_gpu
from benchmarks.paper.measured.ahead import Code
from benchmarks.paper.measured.rows import MeasuredRows
from benchmarks.timing.device import peak_of

MIB, GIB = 2**20, 2**30
MODEL = "transr"
Ids = Mapping[str, Any]
"""The head, relation and tail of a batch's triples."""
Told = Mapping[str, Mapping[int, float]]


def table_5(
    ids_of: Callable[[str, int], Ids], shown: Callable[[str], str], width: int, told: Told, pytorch: Mapping[int, float]
) -> Table:
    """cuKE's, of TransR's score and eager PyTorch's: by graph and batch the peaks of both. `told` are the published
    ones of ours, `pytorch` those of PyTorch."""
    columns = ("ours", "eager", "share, %")
    found = MeasuredRows()

    def make(label: str, data: str, size: int) -> tuple[list[Row], bool]:
        ours, eager, right = peaks(ids_of(data, size), width)
        return [Row(label, beside(ours / GIB, eager / GIB), beside(told[data][size], pytorch[size]))], right

    def beside(ours: float, eager: float) -> dict[str, float]:
        return dict(zip(columns, (ours, eager, 100 * ours / eager), strict=True))

    for data, published in told.items():
        for size in published:
            label = f"{shown(data)}, {size:,}"
            found.add(label, partial(make, label, data, size))
    note = (
        f"TransR, {width} wide: the most bytes that PyTorch's allocator had given at once, with the batch's unique rows"
        " and matrices, its ids, and all that a score makes. Eager PyTorch copies three rows and a matrix a triple; the"
        " published numbers beside it are the paper's lower bound of that. Counted: table5."
    )
    return found.table(columns, note, "GiB, and %")


def code_5(width: int) -> list[Code]:
    """What cuKE's peaks are of."""
    return [partial(on_gpu.module_code, f"kge/{MODEL}", width, False, {})]


def peaks(ids: Ids, width: int) -> tuple[int, int, bool]:
    """Bytes at the peaks of a batch's score, ours and eager, and whether both scores are right."""
    import torch

    from benchmarks.gpu_suite.peers import SCORES
    from benchmarks.gpu_suite.rows import TOLERANCES

    entities, places = np.unique(np.concatenate([ids["head"], ids["tail"]]), return_inverse=True)
    relations, matrices = np.unique(ids["relation"], return_inverse=True)
    heads, tails = np.split(places, 2)
    shapes = {"E": (len(entities), width), "R": (len(relations), width), "P": (len(relations), width, width)}

    def given() -> tuple[dict[str, Any], list[Any]]:
        random = torch.Generator(on_gpu.DEVICE).manual_seed(0)
        tables = {name: torch.randn(shape, device=on_gpu.DEVICE, generator=random) for name, shape in shapes.items()}
        tables["P"] *= width**-0.5
        return tables, [torch.from_numpy(each).to(on_gpu.DEVICE) for each in (heads, matrices, tails)]

    def ours() -> Any:
        tables, index = given()
        return on_gpu.module(f"kge/{MODEL}", width)(*index, **tables)

    def eager() -> Any:
        tables, index = given()
        return SCORES[MODEL](tables, *index)

    with torch.no_grad():
        on_gpu.give_back()
        ours()  # makes what is made once
        (held, mine), (copied, theirs) = (peak_of(run) for run in (ours, eager))
        tables, index = given()
        errors = [error_of(scores, tables, index) for scores in (mine, theirs)]
    return held, copied, max(errors) <= TOLERANCES["float32"]


def error_of(scores: Any, tables: Mapping[str, Any], index: Sequence[Any]) -> float:
    """How far the first scores are from those in float64."""
    import torch

    from benchmarks.gpu_suite.peers import SCORES
    from benchmarks.gpu_suite.rows import CHECKED, relative_error

    h, r, t = (each[:CHECKED] for each in index)
    own = {"E": tables["E"].double(), "R": tables["R"][r].double(), "P": tables["P"][r].double()}
    return relative_error(scores[:CHECKED], SCORES[MODEL](own, h, torch.arange(len(r), device=r.device), t))


def held(layer: str, data: str, sizes: Mapping[str, int], options: on_gpu.Options, grad: bool) -> tuple[int, bool]:
    """The most bytes that an inference of a layer holds on a graph, or a forward and a backward pass, beyond what was
    held before; and whether the result is right."""
    import torch

    from benchmarks.gpu_suite.inputs import drawn, relational_graph

    encoded, edges = relational_graph(data, "", on_gpu.DEVICE)
    module = on_gpu.module(f"rgnn/{layer}", tuple(sizes.items()), tuple(options.items()))
    graph: Any = module.compilation.stages["graph"].program
    given = {name: getattr(edges, name) for name in ("src", "dst", "etype", "ntype")}
    given |= {f"num_{name}s": encoded.counts[name] for name in ("node", "etype", "ntype")}

    def run() -> tuple[Any, Any]:
        structure = module.prepare(**given)
        tensors = drawn(graph, structure.counts, on_gpu.DEVICE)
        with torch.set_grad_enabled(grad):
            leaves = {name: each.requires_grad_(grad and name in module.learnt) for name, each in tensors.items()}
            result = module(structure, **leaves)
        if grad:
            result.backward(torch.ones_like(result))
        return result, leaves

    right = _is_right(layer, graph, edges, *run())  # which compiles too, unmeasured
    on_gpu.give_back()
    most, _ = peak_of(run)
    return most, right


def _is_right(layer: str, graph: Any, edges: Any, result: Any, tensors: Mapping[str, Any]) -> bool:
    """Whether a result is float64's, where that fits the device."""
    plain = {name: each.detach() for name, each in tensors.items()}
    few = len(edges.src) <= on_gpu.EXACT_EDGES
    return not few or on_gpu.error_of(layer, graph, plain, edges, result.detach(), {}) <= 1


def figure_10(
    layer: str,
    sizes: Mapping[str, int],
    graphs: Sequence[str],
    settings: Mapping[str, on_gpu.Options],
    counted: Callable[[str, str, bool], int],
) -> Table:
    """Hector's, of a layer: by graph and task the peak under the first setting, and that of the others over it, beside
    the same of what is counted of a graph, a setting and a task."""
    first, *others = settings
    columns = (
        f"{first}, MiB",
        f"{first}, counted",
        *(f"{name}, %" for name in others),
        *(f"{name}, counted, %" for name in others),
    )
    found = MeasuredRows()

    def make(data: str, grad: bool) -> tuple[list[Row], bool]:
        measured = {name: held(layer, data, sizes, options, grad) for name, options in settings.items()}
        expected = {name: counted(data, name, grad) for name in settings}
        most = measured[first][0]
        ours = {columns[0]: most / MIB, columns[1]: expected[first] / MIB}
        ours |= {f"{name}, %": 100 * measured[name][0] / most for name in others}
        ours |= {f"{name}, counted, %": 100 * expected[name] / expected[first] for name in others}
        label = f"{data}, {'training' if grad else 'inference'}"
        return [Row(label, ours)], all(right for _, right in measured.values())

    for data in graphs:
        for grad in (False, True):
            found.add(f"{data}, {'training' if grad else 'inference'}", partial(make, data, grad))
    note = (
        f"{layer.upper()}, 64 to 64, as a module of PyTorch: the most that PyTorch's allocator held, of a graph's index"
        " arrays, inputs, weights, what kernels make, and gradients. Counted are the same as the module asks for them,"
        " of index arrays those that kernels read: not what a graph is prepared with besides. The paper's bars are a"
        " drawing."
    )
    return found.table(columns, note, form=",.1f")
