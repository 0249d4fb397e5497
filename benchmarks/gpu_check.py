"""Runs the generated CUDA on a GPU and compares every score with the float64 reference.

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
from pathlib import Path
from typing import Any

import numpy as np

import explorer
from explorer.runtime.arrays import check_inputs
from explorer.runtime.batch import draw
from explorer.runtime.inputs import Triples
from explorer.runtime.reference import score

NEEDS_GPU = True
"""`explorer bench` runs this suite only where it is named."""

CHECKOUT = Path(__file__).resolve().parents[1]
TOLERANCE = 1e-5
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
    for case in all_cases((33,) if arguments.quick else SIZES):
        outcome = check(case)
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
    """The scores from one launch, as float64; the result starts as NaN, so that none is left out unnoticed."""
    import cupy

    kernel: Any = compilation.stages["loops"].program
    code: Any = compilation.stages["cuda"].program
    arrays, extents = check_inputs(kernel, inputs)
    output = next(buffer for buffer in kernel.buffers if buffer.kind == "output")
    result = cupy.full([extents[extent] for extent in output.extents], np.nan, np.float32)
    module = cupy.RawModule(code=compilation.stages["cuda"].text, options=("--std=c++17",))
    on_device = {name: cupy.asarray(array) for name, array in arrays.items()} | {output.name: result}
    (planned,) = code.launches
    arguments = [on_device[name] if name in on_device else np.int64(extents[name]) for name in planned.arguments]
    blocks = -(-extents[planned.iterations] // planned.warps)
    module.get_function(planned.symbol)((blocks,), (32 * planned.warps,), tuple(arguments))
    return cupy.asnumpy(result).astype(np.float64)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
