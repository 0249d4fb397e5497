"""Hector's Figure 10 as measured: the most memory that a layer holds on a GPU, beside what is counted.

A layer runs as a module of PyTorch, so that all of it is memory of PyTorch's, whose allocator says the most that was
held: the graph's index arrays, inputs, weights and what kernels make. Needs PyTorch and CuPy, imported only then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks._gpu_timing import peak_of
from benchmarks.paper.figure import Row, Table
from benchmarks.paper.measured import on_gpu
from benchmarks.paper.measured.rows import MeasuredRows

MIB = 2**20


def held(layer: str, data: str, sizes: Mapping[str, int], options: on_gpu.Options, grad: bool) -> tuple[int, bool]:
    """The most bytes that an inference of a layer holds on a graph, or a forward and a backward pass, beyond what was
    held before; and whether the result is right."""
    import torch

    from benchmarks._gpu_inputs import drawn, relational_graph

    encoded, edges = relational_graph(data, "", on_gpu.DEVICE)
    module = on_gpu.module(f"rgnn/{layer}", tuple(sizes.items()), tuple(options.items()))
    given = {name: getattr(edges, name) for name in ("src", "dst", "etype", "ntype")}
    given |= {f"num_{name}s": encoded.counts[name] for name in ("node", "etype", "ntype")}

    def run() -> tuple[Any, Any]:
        structure = module.prepare(**given)
        graph: Any = module.compilation.stages["graph"].program
        tensors = drawn(graph, structure.counts, on_gpu.DEVICE)
        with torch.set_grad_enabled(grad):
            leaves = {name: each.requires_grad_(grad and name in module.learnt) for name, each in tensors.items()}
            result = module(structure, **leaves)
        if grad:
            result.backward(torch.ones_like(result))
        return result, leaves

    right = _is_right(layer, module.compilation, edges, *run())  # which compiles too, unmeasured
    on_gpu.give_back()
    most, _ = peak_of(run)
    return most, right


def _is_right(layer: str, compilation: Any, edges: Any, result: Any, tensors: Mapping[str, Any]) -> bool:
    """Whether a result is float64's, where that fits the device."""
    from benchmarks._gpu_rows import LAYER_TOLERANCE, relative_error

    if len(edges.src) > on_gpu.EXACT_EDGES:
        return True
    plain = {name: each.detach() for name, each in tensors.items()}
    exact = on_gpu.exactly(layer, compilation.stages["graph"].program, plain, edges)
    return relative_error(result.detach(), exact[""]) <= LAYER_TOLERANCE


def peaks_table(
    layer: str,
    sizes: Mapping[str, int],
    graphs: Sequence[str],
    settings: Mapping[str, on_gpu.Options],
    counted: Callable[[str, str, bool], int],
) -> Table:
    """By graph and task the peak under the first setting, and that of the others over it, beside the same of what is
    counted of a graph, a setting and a task."""
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
        " arrays, inputs, weights, what kernels make, and gradients. Counted are inputs, weights and what the kernels"
        " of loops make, each array freed after its last reader: not index arrays, nor rows that launches hand on where"
        " products by tiles split a kernel; and a module holds all that its forward pass does until the backward pass"
        " is done. The paper's bars are a drawing."
    )
    return found.table(columns, note, form=",.1f")
