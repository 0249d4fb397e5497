"""Modules of kernels on the CPU, on the simulated machine and in CUDA: segments, empty ones too, and temporaries."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from explorer.compiler.codegen.binary.ptx import generate_ptx
from explorer.compiler.codegen.cuda.program import generate_cuda
from explorer.compiler.codegen.text import Code, Launch
from explorer.compiler.ir.kernels import Count
from explorer.compiler.ir.loops import Accumulate, Compute, Kernel, Load, Store
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Names, operations_of, walk
from explorer.compiler.options import Options
from explorer.compiler.passes.access.decouple import decouple
from explorer.compiler.passes.access.separate import separate
from explorer.compiler.report import Report
from explorer.compiler.schedule.program import schedule
from explorer.compiler.schedule.warps.iterations import warps
from explorer.compiler.schedule.warps.strategy import SHARED_BYTES
from explorer.compiler.unsupported import Unsupported
from explorer.runtime.data.graphs import graph_from_edges
from explorer.runtime.data.triples import InputError
from explorer.runtime.encode.graph import Encodings, encode
from explorer.runtime.targets.cpu import prepare, threads
from explorer.runtime.targets.dae import simulate
from tests.compiler.codegen import layer_kernels as make

ROWS, COLUMNS = 5, 33
NODES, ETYPES = 40, 4
Inputs = dict[str, Any]


def graph() -> Encodings:
    """A graph with isolated nodes, parallel edges, a node with many edges, and a type without edges."""
    random = np.random.default_rng(0)
    starts, ends = random.integers(NODES // 2, size=(2, 200))
    ends[:60] = 7
    edges = zip(starts.tolist(), random.integers(ETYPES - 1, size=200).tolist(), ends.tolist(), strict=True)
    return encode(graph_from_edges(edges, [0] * NODES, ETYPES))


def draw(rows: int = ROWS, columns: int = COLUMNS) -> Inputs:
    """All that the modules may read; `x` has the shape that the module of that many rows or columns wants."""
    encodings, random = graph(), np.random.default_rng(1)
    inputs: Inputs = dict(encodings.maps)
    for name in ("dst", "src"):
        segments = encodings.segments(name)
        inputs[f"{name}_ptr"], inputs[f"{name}_order"] = segments.ptr, segments.order
    inputs["x"] = random.standard_normal((NODES, rows), np.float32)
    inputs["W"] = random.standard_normal((ETYPES, rows, columns), np.float32)
    inputs["w"] = random.standard_normal((ETYPES, columns), np.float32)
    return inputs | {f"{name}s": count for name, count in encodings.counts.items()}


def attention(inputs: Inputs) -> Any:
    """The formula edge by edge in float64."""
    x, W, w = (inputs[name].astype(np.float64) for name in ("x", "W", "w"))
    z = np.einsum("ed,edk->ek", x[inputs["src"]], W[inputs["etype"]])
    a = (z * w[inputs["etype"]]).sum(-1)
    exponentials = np.exp(np.where(a > 0, a, 0.2 * a))
    result = np.zeros((NODES, z.shape[1]))
    for node in range(NODES):
        mine = inputs["dst"] == node
        if mine.any():
            result[node] = exponentials[mine] @ z[mine] / exponentials[mine].sum()
    return result


def means(inputs: Inputs) -> Any:
    x = inputs["x"].astype(np.float64)
    ends = [inputs["dst"][inputs["src"] == node] for node in range(NODES)]
    return np.array([x[end].mean(0) if len(end) else 0 * x[0] for end in ends])


def totals(inputs: Inputs) -> Any:
    x = inputs["x"].astype(np.float64)
    return x[:, 0] / x[:, 0].sum()


MODULES = [
    pytest.param(make.attention(ROWS, COLUMNS), attention, draw(), id="attention"),
    pytest.param(make.means(COLUMNS), means, draw(COLUMNS), id="means"),
    pytest.param(make.totals(COLUMNS), totals, draw(COLUMNS), id="totals"),
]
every_module = pytest.mark.parametrize(("module", "formula", "inputs"), MODULES)


def agree(got: Any, want: Any) -> bool:
    assert got.dtype == np.float32
    return np.allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


@every_module
def test_the_cpu_agrees_with_the_formula(module: Module, formula: Any, inputs: Inputs) -> None:
    bound = prepare(module).bind(inputs)
    assert agree(bound(), formula(inputs))
    assert agree(bound(), formula(inputs))


@every_module
def test_the_machine_agrees_with_the_formula(module: Module, formula: Any, inputs: Inputs) -> None:
    program = separate(decouple(module, Report(Options())), Report(Options()))
    seen: list[Any] = []
    result = simulate(program, inputs, on_sample=seen.append)
    assert agree(result.output, formula(inputs))
    kernels = result.account["kernels"]
    assert [kernel["name"] for kernel in kernels] == [kernel.name for kernel in module.programs]
    assert result.account["cycles"] == pytest.approx(sum(kernel["cycles"] for kernel in kernels))
    data = result.account["queues"]["data"]
    assert data["bytes_pushed"] == data["bytes_popped"] > 0
    cycles = [sample["cycle"] for sample in seen]
    assert cycles == sorted(cycles)
    assert result.account["machine"]["queue_bytes"]["value"] == 8192


def cuda(module: Module) -> Code:
    return generate_cuda(schedule(module, Report(Options())), Report(Options()))


def text(code: Code) -> str:
    return "".join(f"{line.text}\n" for line in code.lines)


@every_module
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvrtc_compiles_a_module_with_its_rows_in_registers(
    module: Module, formula: Any, inputs: Inputs, arch: Any
) -> None:
    code = cuda(module)
    ptx = generate_ptx(code, Report(Options(arch=arch)))
    assert text(ptx).count(".entry") == len(code.launches) >= len(module.programs)
    assert ".local" not in text(ptx)
    nodes = [node for kernel in module.programs for node in walk(kernel)]
    computing = [n for n in nodes if isinstance(n, Load | Accumulate | Compute | Store) and not clears(n)]
    shown = operations_of(*(line.origin for line in code.lines))
    assert (
        operations_of(*(node.origin for node in computing)) <= shown <= operations_of(*(node.origin for node in nodes))
    )


def clears(node: Any) -> bool:
    """Whether a statement sets what sums start from, which registers do by themselves."""
    return isinstance(node, Store) and node.operands == (0.0,)


def test_segments_are_walked_by_the_lanes_together_or_shared_among_them() -> None:
    module, report = make.attention(ROWS, COLUMNS), Report(Options())
    nests = [kernel for kernel in module.programs if isinstance(kernel, Kernel)]
    steps = tuple(step for nest in nests for step in warps(nest, report, SHARED_BYTES, Names(set())))
    code = text(generate_cuda(replace(module, programs=steps), report))
    assert "for (int e = begin + lane; e < end; e += 32) {" in code
    assert "m = lanes_max<32>(m);" in code
    assert "const float top = begin < end ? m : 0.0f;" in code
    assert "for (int e2 = begin; e2 < end; e2++) {" in code
    assert len(re.findall(r"__device__ __forceinline__ float lanes_\w+\(.*\) {", code)) == 2


def test_launches_name_the_kernels_in_order() -> None:
    assert cuda(make.totals(COLUMNS)).launches == (
        Launch("Totals_0_sum0_kernel", ("x", "t", "nodes"), Count(((1, 1),)), 256),
        Launch("Totals_1_kernel", ("x", "t", "out", "nodes"), Count((("nodes", 128),)), 128),
    )


def test_a_kernel_that_adds_to_elements_of_others_has_no_cuda() -> None:
    with pytest.raises(Unsupported, match="goes back to elements of out that belong to other iterations"):
        schedule(make.scattered(), Report(Options()))


def test_temporaries_are_counted_until_their_last_reader() -> None:
    module, inputs = make.attention(ROWS, COLUMNS), draw()
    bound = prepare(module).bind(inputs)
    pairs = inputs["src_pairs"]
    assert bound.peak_bytes == 4 * (pairs * COLUMNS + pairs + NODES * COLUMNS)
    means = prepare(make.means(COLUMNS)).bind(draw(COLUMNS))
    assert means.peak_bytes == 4 * (NODES * COLUMNS + threads() * COLUMNS)


def test_a_module_needs_no_sizes_that_its_arrays_tell() -> None:
    inputs = {name: value for name, value in draw().items() if np.ndim(value)}
    assert agree(prepare(make.attention(ROWS, COLUMNS))(inputs), attention(inputs))


def changed(name: str, place: int, value: int) -> Inputs:
    array = draw()[name].copy()
    array[place] = value
    return {name: array}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed("src_pair", 3, 5000), r"src_pair\[3\] is 5000, but a has \d+ rows"),
        (changed("src_pair", 3, -1), "src_pair holds indices outside 0 to 2147483647"),
        (changed("dst_ptr", NODES, 201), r"dst_ptr\[40\] is 201, but src_pair has 200 rows"),
        (changed("dst_ptr", 0, -1), "dst_ptr holds indices outside"),
        ({"dst_ptr": draw()["dst_ptr"][1:]}, r"dst_ptr has the shape \[40\], but is declared \[node_ends = 41\]"),
        ({"nodes": NODES + 1}, r"x has the shape \[40, 5\], but is declared \[nodes = 41, D = 5\]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_structure_is_refused_before_anything_runs(change: Inputs, message: str) -> None:
    with pytest.raises(InputError, match=message):
        prepare(make.attention(ROWS, COLUMNS)).bind(draw() | change)
