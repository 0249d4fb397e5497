"""Runs the generated CUDA on a GPU and compares every score, and every row of a layer, with the float64 reference.

`python -m benchmarks.gpu_check [--quick]`, with lark, NumPy and CuPy and nothing else installed. Prints a JSON line a
case and one in the end; status 1 where a case differs, 2 where there is no GPU. Each kernel is launched three times:
scores that change from launch to launch would be a race.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import explorer
from explorer.runtime.arrays import check_inputs, kernels_of
from explorer.runtime.batch import draw
from explorer.runtime.encodings import encode
from explorer.runtime.graphs import load_graph
from explorer.runtime.inputs import Triples
from explorer.runtime.layer_inputs import program_inputs, programs
from explorer.runtime.reference import layer, score
from explorer.runtime.run_layer import draw_tensors

NEEDS_GPU = True
"""`explorer bench` runs this suite only where it is named."""

CHECKOUT = Path(__file__).resolve().parents[1]
TOLERANCE = 1e-5
LAYER_TOLERANCE = 1e-4
"""Sums over the edges of a node have more terms."""
LAYER_SIZES = (1, 33, 64)
ENTITIES, RELATIONS, LAUNCHES = 500, 11, 3
SIZES = (1, 33, 64, 1000)
BATCHES = (1, 75)
NEGATIVES = ("none", "tail:5", "head:9")

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
    "a mean, a minimum, a maximum and functions of f32"
    param E[entity, D]
    param R[relation, D]
    param bias[entity]
    u = tanh(E[h] + R[r])
    v = gelu(E[t]) + sigmoid(R[r]) - leaky_relu(E[t], 0.2)
    return mean(u * v) + max(u) - min(v) + exp(-norm(u - v, 2)) + sin(bias[h]) * abs(bias[t])
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


def main(argv: Sequence[str]) -> int:
    """Checks all cases; returns the exit status."""
    parser = argparse.ArgumentParser(prog="explorer bench gpu_check", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only size 33, for running under compute-sanitizer")
    arguments = parser.parse_args(argv)
    try:
        import cupy

        device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    except Exception as error:  # CuPy is not there, or the driver or the GPU is not
        print(f"not checked, there is no GPU to use: {error}", file=sys.stderr)
        return 2
    failed = cases = 0
    scores = map(check, all_cases((33,) if arguments.quick else SIZES))
    layers = map(check_layer, layer_cases((33,) if arguments.quick else LAYER_SIZES))
    for outcome in chain(scores, layers):
        print(json.dumps(outcome), flush=True)
        cases += 1
        failed += not outcome["agrees"]
    print(json.dumps({"device": device, "cases": cases, "failed": failed, "tolerance": TOLERANCE}))
    return 1 if failed else 0


def all_cases(sizes: Sequence[int]) -> Iterator[Case]:
    """Every example and the three texts above, at every size, batch and option."""
    texts = [path.read_text() for path in sorted((CHECKOUT / "examples" / "kge").glob("*.emb"))]
    for text in (*texts, SHARED_ROWS, MANY_REDUCTIONS, TWO_SETS):
        for size in sizes:
            for batch in BATCHES:
                for negatives in NEGATIVES:
                    yield Case(text, size, batch, {"negatives": negatives})
            yield Case(text, size, BATCHES[-1], {"interchange": "false"})


def layer_cases(sizes: Sequence[int]) -> Iterator[Case]:
    """Every layer of the examples at every size, under the four settings of its passes; `batch` does not matter."""
    for path in sorted((CHECKOUT / "examples" / "rgnn").glob("*.emb")):
        for size in sizes:
            for reorder in ("true", "false"):
                for compact in ("true", "false"):
                    yield Case(path.read_text(), size, 0, {"reorder": reorder, "compact": compact})


def check_layer(case: Case) -> dict[str, Any]:
    """Compiles a layer, launches its kernels in order, and compares."""
    compilation = explorer.compile(case.text, sizes=sizes_of(case), options=case.options)
    graph, module = programs(compilation)
    report: dict[str, Any] = {"model": compilation.name, "sizes": dict(compilation.sizes), **case.options}
    data = load_graph("small")
    encodings = encode(data)
    tensors = draw_tensors(graph, encodings.counts, seed=0)
    inputs = program_inputs(graph, module, encodings, tensors)
    launches = [launch(compilation, inputs) for _ in range(LAUNCHES)]
    counts = {name: getattr(data, name) for name in ("num_nodes", "num_etypes", "num_ntypes")}
    want = layer(case.text, {**data.arrays(), **counts, **tensors}, compilation.sizes)
    error = float(np.abs(launches[0] - want).max() / np.abs(want).max())
    same = all(np.array_equal(launches[0], other) for other in launches)
    return report | {"agrees": error <= LAYER_TOLERANCE and same, "error": error, "same_each_time": same}


def check(case: Case) -> dict[str, Any]:
    """Compiles, launches and compares one case."""
    compilation = explorer.compile(case.text, sizes=sizes_of(case), options=case.options)
    report: dict[str, Any] = {"model": compilation.name, "sizes": dict(compilation.sizes), "batch": case.batch}
    report |= case.options | {"agrees": False}
    stage = compilation.stages["cuda"]
    if not stage.available:
        return report | {"reason": stage.reason}
    inputs = draw(compilation, triples(), case.batch)
    launches = [launch(compilation, inputs) for _ in range(LAUNCHES)]
    want = score(case.text, inputs, compilation.sizes, negatives=case.options.get("negatives", "none"))
    scale = np.maximum(np.abs(want), np.abs(want).mean())
    error = float((np.abs(launches[0] - want) / np.maximum(scale, 1e-30)).max())
    same = all(np.array_equal(launches[0], other) for other in launches)
    return report | {"agrees": error <= TOLERANCE and same, "error": error, "same_each_time": same}


def sizes_of(case: Case) -> dict[str, int]:
    """The first dimension at the case's size, the others larger by 3 each, so that none are equal."""
    names = explorer.compile(case.text).sizes
    return {name: case.size + 3 * place for place, name in enumerate(names)}


def triples() -> Triples:
    """A small graph; what matters is that ids repeat and reach both ends."""
    random = np.random.default_rng(0)
    h, t = (random.integers(0, ENTITIES, 3 * ENTITIES, dtype=np.int32) for _ in range(2))
    r = random.integers(0, RELATIONS, 3 * ENTITIES, dtype=np.int32)
    return Triples("random", "preset, generated", ENTITIES, RELATIONS, h, r, t)


def launch(compilation: explorer.Compilation, inputs: dict[str, Any]) -> Any:
    """The result of launching each kernel once, as float64; outputs start as NaN, so that none is left out
    unnoticed."""
    import cupy

    program: Any = compilation.stages["loops"].program
    code: Any = compilation.stages["cuda"].program
    arrays, extents = check_inputs(program, inputs)
    on_device = {name: cupy.asarray(array) for name, array in arrays.items()}
    outputs = [buffer for kernel in kernels_of(program) for buffer in kernel.buffers if buffer.kind == "output"]
    for buffer in outputs:
        on_device[buffer.name] = cupy.full([extents[extent] for extent in buffer.extents], np.nan, np.float32)
    module = cupy.RawModule(code=compilation.stages["cuda"].text, options=("--std=c++17",))
    for planned in code.launches:
        arguments = [on_device[name] if name in on_device else np.int64(extents[name]) for name in planned.arguments]
        blocks = -(-extents[planned.iterations] // planned.warps)
        module.get_function(planned.symbol)((blocks,), (32 * planned.warps,), tuple(arguments))
    result = getattr(program, "result", outputs[0].name)
    return cupy.asnumpy(on_device[result]).astype(np.float64)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
