"""Runs the generated CUDA on a GPU and compares every score, and every row of a layer or an op, with the float64
reference; and gradients with what the graph's interpreter gives, which the tests hold against PyTorch.

`python -m benchmarks.gpu_check [--quick]`, with lark, NumPy and CuPy and nothing else installed. Prints a JSON line a
case and one in the end; status 1 where a case differs, 2 where there is no GPU. Each kernel is launched three times:
results that change from launch to launch would be a race, but where kernels add with atomics.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import explorer
from explorer.compiler.ir.kernels import AtomicAccumulate
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import walk
from explorer.compiler.schedule.row_products import LEAST_COLUMNS
from explorer.compiler.schedule.tiling import VECTOR
from explorer.runtime.arrays import check_inputs
from explorer.runtime.batch import draw
from explorer.runtime.device_memory import shape_of
from explorer.runtime.encodings import encode
from explorer.runtime.gpu import GpuProgram
from explorer.runtime.gpu_device import current_device
from explorer.runtime.gradient_check import CANCELLED
from explorer.runtime.graphs import RelationalGraph, load_graph
from explorer.runtime.inputs import Triples
from explorer.runtime.layer_inputs import program_inputs, programs, tensor_shape, upstream_name
from explorer.runtime.op_inputs import EncodedLists, Sets
from explorer.runtime.reference import layer, op, score
from explorer.runtime.run_layer import draw_tensors
from explorer.runtime.sparse_arrays import sparse_from

NEEDS_GPU = True
"""`explorer bench` runs this suite only where it is named."""

CHECKOUT = Path(__file__).resolve().parents[1]
TOLERANCE = 1e-5
PRECISIONS = {"float32": 1.0, "tf32x3": 2.0, "tf32": 1000.0}
"""How much larger errors may be by the precision of products."""
LAYER_TOLERANCE = 1e-4
"""Sums over the edges of a node, and over the rows that a gradient adds up, have more terms."""
LAYER_SIZES = (1, 33, 64)
GRADIENT_SIZES = (1, 8, 33)
LISTS, ROWS = 60, 50
ENTITIES, RELATIONS, LAUNCHES = 500, 11, 3
SIZES = (1, 33, 64, 128, 1000)
BATCHES = (1, 75)
NEGATIVES = ("none", "tail:5", "head:9")
POPULAR = ("spmm", "sddmm")
"""Ops that are checked with the option `popular` as well."""

SHARED_ROWS = """
dim D = 64, K = 64
score TwoProducts(h: entity, r: relation, t: entity):
    "the lanes read each other's elements of the row between the products"
    param E[entity, D]
    param P[relation, D, K]
    param Q[relation, K, D]
    return norm((E[h] @ P[r]) @ Q[r] - E[t], 1)
"""
MANY_REDUCTIONS = """
dim D = 64
score Reductions(h: entity, r: relation, t: entity):
    "a mean, a minimum, a maximum and functions of f32; those of the prelude too"
    param E[entity, D]
    param R[relation, D]
    param bias[entity]
    u = tanh(E[h] + R[r])
    v = gelu(E[t]) + sigmoid(R[r]) - leaky_relu(E[t], 0.2)
    return mean(u * v) + max(u) - min(v) + exp(-norm(u - v, 2)) + sin(bias[h]) * abs(bias[t]) - logsigmoid(bias[t])
"""
TWO_SETS = """
dim D = 64
score TwoSets(h: entity, r: relation, t: entity):
    "a table indexed by two sets, and a plain matrix"
    param E[entity, D]
    param W[relation, entity, D]
    param M[D, D]
    return dot(E[h] @ M, W[r, t])
"""


@dataclass(frozen=True)
class Case:
    """A model text at a size, a batch, and with options."""

    text: str
    size: int
    batch: int
    options: dict[str, str]


@dataclass(frozen=True)
class Setting:
    """What checks cases: `launch` runs a compilation's kernels once, on a GPU or an emulator of one, and gives the
    result, and the gradients by tensor, as float64; `launches` is how often; `graph` is what layers run on, `lists`
    how many lists ops have."""

    launch: Callable[[explorer.Compilation, dict[str, Any]], tuple[Any, dict[str, Any]]]
    launches: int
    graph: RelationalGraph
    lists: int


def main(argv: Sequence[str]) -> int:
    """Checks all cases; returns the exit status."""
    parser = argparse.ArgumentParser(prog="explorer bench gpu_check", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sizes, for running under compute-sanitizer")
    arguments = parser.parse_args(argv)
    try:
        import cupy

        device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    except Exception as error:  # CuPy is not there, or the driver or the GPU is not
        print(f"not checked, there is no GPU to use: {error}", file=sys.stderr)
        return 2
    failed = checked = 0
    setting = Setting(launch, LAUNCHES, load_graph("small"), LISTS)
    sizes = (33,) if arguments.quick else LAYER_SIZES
    suites = (
        (check, quick_cases() if arguments.quick else all_cases(SIZES)),
        (check_layer, layer_cases(sizes)),
        (check_op, op_cases(sizes)),
        (check_gradients, gradient_cases((8,) if arguments.quick else GRADIENT_SIZES)),
    )
    made_for = partial(for_architecture, current_device().compile_for)
    outcomes = (map(partial(check_case, setting), map(made_for, cases)) for check_case, cases in suites)
    for outcome in chain.from_iterable(outcomes):
        print(json.dumps(outcome), flush=True)
        checked += 1
        failed += not outcome.get("agrees", True)
    counts = {"cases": checked, "failed": failed}
    print(json.dumps({"device": device, **counts, "tolerance": TOLERANCE}))
    return 1 if failed else 0


def for_architecture(arch: str, case: Case) -> Case:
    """The case compiled for a GPU."""
    return replace(case, options={**case.options, "arch": arch})


def all_cases(sizes: Sequence[int]) -> Iterator[Case]:
    """Every example and the three texts above, at every size, batch and option."""
    texts = [path.read_text() for path in sorted((CHECKOUT / "examples" / "kge").glob("*.emb"))]
    for text in (*texts, SHARED_ROWS, MANY_REDUCTIONS, TWO_SETS):
        for size in sizes:
            for batch in BATCHES:
                for negatives in NEGATIVES:
                    yield Case(text, size, batch, {"negatives": negatives})
            yield Case(text, size, BATCHES[-1], {"interchange": "false"})
            yield Case(text, size, BATCHES[-1], {"inspect": "chunks"})
            yield from (Case(text, size, BATCHES[-1], {"precision": precision}) for precision in precisions(size))


def quick_cases() -> Iterator[Case]:
    """Those of size 33, and the products on tensor cores of 128 columns, which four warps may multiply together."""
    yield from all_cases((33,))
    yield from (case for case in all_cases((128,)) if "precision" in case.options)


def precisions(size: int) -> Sequence[str]:
    """The precisions of tensor cores, for sizes of which they multiply tiles."""
    return ("tf32x3", "tf32") if size >= LEAST_COLUMNS and size % VECTOR == 0 else ()


def layer_cases(sizes: Sequence[int]) -> Iterator[Case]:
    """Every layer of the examples at every size, under the settings of its passes; `batch` does not matter."""
    for path in sorted((CHECKOUT / "examples" / "rgnn").glob("*.emb")):
        for size in sizes:
            for reorder in ("true", "false"):
                for compact in ("true", "false"):
                    yield Case(path.read_text(), size, 0, {"reorder": reorder, "compact": compact})
            yield Case(path.read_text(), size, 0, {"aggregate": "false"})
            for precision in precisions(size):
                for aggregate in ("true", "false"):
                    yield Case(path.read_text(), size, 0, {"precision": precision, "aggregate": aggregate})


def op_cases(sizes: Sequence[int]) -> Iterator[Case]:
    """Every op of the examples at every size; a sum and a dot product of rows that an inspector marks, too."""
    for path in sorted((CHECKOUT / "examples" / "embedding").glob("*.emb")):
        if explorer.compile(path.read_text(), on_demand=True).family == "op":
            marked: list[dict[str, str]] = [{"popular": "true"}] if path.stem in POPULAR else []
            yield from (Case(path.read_text(), size, 0, options) for options in ({}, *marked) for size in sizes)


def gradient_cases(sizes: Sequence[int]) -> Iterator[Case]:
    """Every example with its backward pass; scores with negatives too."""
    for path in sorted((CHECKOUT / "examples").glob("*/*.emb")):
        text = path.read_text()
        negatives = NEGATIVES[:2] if explorer.compile(text, on_demand=True).family == "score" else NEGATIVES[:1]
        for size in sizes:
            for kind in negatives:
                yield Case(text, size, BATCHES[-1], {"grad": "true", "negatives": kind})


def check_layer(setting: Setting, case: Case) -> dict[str, Any]:
    """Compiles a layer, launches its kernels in order, and compares."""
    compilation = compiled(case)
    graph, module = programs(compilation)
    report: dict[str, Any] = {"model": compilation.name, "sizes": dict(compilation.sizes), **case.options}
    data = setting.graph
    encodings = encode(data)
    tensors = draw_tensors(graph, encodings.counts, seed=0)
    inputs = program_inputs(graph, module, encodings, tensors)
    launches = [setting.launch(compilation, inputs)[0] for _ in range(setting.launches)]
    counts = {name: getattr(data, name) for name in ("num_nodes", "num_etypes", "num_ntypes")}
    want = layer(case.text, {**data.arrays(), **counts, **tensors}, compilation.sizes)
    error = float(np.abs(launches[0] - want).max() / np.abs(want).max())
    same = all(np.array_equal(launches[0], other) for other in launches)
    right = error <= LAYER_TOLERANCE * coarser(case) and (same or sums_atomically(compilation))
    return report | {"agrees": right, "error": error, "same_each_time": same}


def compiled(case: Case) -> explorer.Compilation:
    """A case's compilation, of which only the stages that lead to CUDA are made."""
    return explorer.compile(case.text, sizes=sizes_of(case), options=case.options, on_demand=True)


def coarser(case: Case) -> float:
    """How much larger errors may be than those of float32."""
    return PRECISIONS[case.options.get("precision", "float32")]


def sums_atomically(compilation: explorer.Compilation) -> bool:
    """Whether kernels add to floats in whatever order they come: then launches may differ by rounding."""
    program: Any = compilation.stages["kernels"].program
    steps = program.programs if isinstance(program, Module) else (program,)
    floats = {buffer.name for step in steps for buffer in step.buffers if buffer.type == "f32"}
    return any(isinstance(node, AtomicAccumulate) and node.target in floats for node in walk(program))


def check(setting: Setting, case: Case) -> dict[str, Any]:
    """Compiles, launches and compares one case."""
    compilation = compiled(case)
    report: dict[str, Any] = {"model": compilation.name, "sizes": dict(compilation.sizes), "batch": case.batch}
    report |= case.options | {"agrees": False}
    stage = compilation.stages["cuda"]
    if not stage.available:
        return report | {"reason": stage.reason}
    inputs = draw(compilation, triples(), case.batch)
    launches = [setting.launch(compilation, inputs)[0] for _ in range(setting.launches)]
    want = score(case.text, inputs, compilation.sizes, negatives=case.options.get("negatives", "none"))
    scale = np.maximum(np.abs(want), np.abs(want).mean())
    error = float((np.abs(launches[0] - want) / np.maximum(scale, 1e-30)).max())
    same = all(np.array_equal(launches[0], other) for other in launches)
    return report | {"agrees": error <= TOLERANCE * coarser(case) and same, "error": error, "same_each_time": same}


def check_op(setting: Setting, case: Case) -> dict[str, Any]:
    """Compiles an op, launches its kernels in order, and compares."""
    compilation = compiled(case)
    report: dict[str, Any] = {"model": compilation.name, "sizes": dict(compilation.sizes), "options": case.options}
    given = op_inputs(setting, compilation)
    assert compilation.encode is not None
    arrays, finish = compilation.encode(compilation, given, None)
    launches = [finish(*setting.launch(compilation, arrays))[0] for _ in range(setting.launches)]
    want = op(case.text, given, compilation.sizes)
    error = float(np.abs(launches[0] - want).max() / np.abs(want).max())
    same = all(np.array_equal(launches[0], other) for other in launches)
    right = error <= LAYER_TOLERANCE and (same or sums_atomically(compilation))
    return report | {"agrees": right, "error": error, "same_each_time": same}


def check_gradients(setting: Setting, case: Case) -> dict[str, Any]:
    """Compiles with the backward pass, launches, and compares the result and every gradient."""
    compilation = compiled(case)
    report: dict[str, Any] = {"model": compilation.name, "sizes": dict(compilation.sizes), **case.options}
    stage = compilation.stages["cuda"]
    if not stage.available:
        return report | {"agrees": False, "reason": stage.reason}
    graph: Any = compilation.stages["graph"].program
    given = dict(INPUTS[compilation.family](setting, compilation))
    upstream = given.pop(upstream_name(graph))
    assert compilation.encode is not None
    arrays, finish = compilation.encode(compilation, given, upstream)
    result, gradients = finish(*setting.launch(compilation, arrays))
    want, wanted = compilation.run(given, on="graph", grad=upstream)
    # Terms that cancel to nothing, as a softmax's of one edge do, leave the rounding errors of what went into them.
    least = CANCELLED * max(float(np.abs(exact).max()) for exact in wanted.values())
    pairs = [(result, want, 1e-30), *((gradients[name], wanted[name], max(1e-30, least)) for name in wanted)]
    errors = [float(np.abs(got - exact).max() / max(floor, np.abs(exact).max())) for got, exact, floor in pairs]
    return report | {"agrees": max(errors) <= LAYER_TOLERANCE, "error": max(errors), "gradients": len(wanted)}


def score_inputs(_: Setting, compilation: explorer.Compilation) -> dict[str, Any]:
    """A batch of the small graph, with the gradient of its scores."""
    return draw(compilation, triples(), BATCHES[-1])


def layer_inputs(setting: Setting, compilation: explorer.Compilation) -> dict[str, Any]:
    """A small graph with features, parameters and the gradient of the result."""
    data = setting.graph
    tensors = draw_tensors(programs(compilation)[0], encode(data).counts, seed=0)
    return {**data.arrays(), **{n: getattr(data, n) for n in ("num_nodes", "num_etypes", "num_ntypes")}, **tensors}


def op_inputs(setting: Setting, compilation: explorer.Compilation) -> dict[str, Any]:
    """Lists of 0 to 9 entries, in the form that the op takes them, and what else it reads."""
    random, lists = np.random.default_rng(0), setting.lists
    graph: Any = compilation.stages["graph"].program
    lengths = random.integers(0, 10, lists)
    entries, square = int(lengths.sum()), len({entry.codomain for entry in graph.maps}) == 1
    ptr, picked = np.concatenate(([0], np.cumsum(lengths))), random.integers(0, lists if square else ROWS, entries)
    weight = random.standard_normal(entries).astype(np.float32)
    shape = {"num_rows": lists, "num_cols": lists if square else ROWS}
    given: dict[str, Any] = {
        "bags": {"ptr": ptr, "idx": picked, "weight": weight},
        "blocks": {"ptr": ptr, "blocks": picked},
        "csr": {"rowptr": ptr, "col": picked, "value": weight, **shape},
        "coo": {"row": np.repeat(np.arange(lists), lengths), "col": picked, "value": weight, **shape},
    }[graph.structure]
    counts = EncodedLists(Sets.of(graph), sparse_from(given, graph.name, "given", shape["num_cols"])).counts
    for tensor in graph.tensors:
        if tensor.kind != "structure":
            drawn = random.standard_normal(tensor_shape(graph, tensor, counts))
            given[tensor.name] = drawn.astype(np.float32)
    return given


INPUTS = {"score": score_inputs, "layer": layer_inputs, "op": op_inputs}


def sizes_of(case: Case) -> dict[str, int]:
    """The first dimension at the case's size, the others larger each, so that none are equal: by 4 where vectors of 4
    divide the first, and so all; likewise by 128, columns of a tile."""
    step = next(step for step in (128, 4, 3) if step == 3 or case.size % step == 0)
    return {name: case.size + step * place for place, name in enumerate(_dimensions(case.text))}


@cache
def _dimensions(text: str) -> tuple[str, ...]:
    """The names of a text's dimensions."""
    return tuple(explorer.compile(text, on_demand=True).sizes)


def triples() -> Triples:
    """A small graph; what matters is that ids repeat and reach both ends."""
    random = np.random.default_rng(0)
    h, t = (random.integers(0, ENTITIES, 3 * ENTITIES, dtype=np.int32) for _ in range(2))
    r = random.integers(0, RELATIONS, 3 * ENTITIES, dtype=np.int32)
    return Triples("random", "preset, generated", ENTITIES, RELATIONS, h, r, t)


def launch(compilation: explorer.Compilation, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The result and the gradients of launching the kernels once, as float64; what they make starts as NaN or -1, so
    that nothing is left out unnoticed."""
    import cupy

    program = GpuProgram.of(compilation)
    arrays, extents = check_inputs(compilation.stages["loops"].program, inputs)
    sizes = dict(extents)
    for name, count in program.code.counts:
        sizes[name] = count.value(sizes)
    made = {}
    for buffer in program.code.buffers:
        if buffer.name not in arrays:
            value: Any = np.int32(-1) if buffer.type == "i32" else np.float32(np.nan)
            made[buffer.name] = cupy.full(shape_of(buffer, sizes), value, value.dtype)
    result, gradients = program.bind({**arrays, **made}, extents).run()
    return result.astype(np.float64), {tensor: array.astype(np.float64) for tensor, array in gradients.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
