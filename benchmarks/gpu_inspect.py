"""What the option `inspect` brings on a GPU: true (the whole batch by matrix), chunks (cuKE's inspector) and false.

    explorer bench gpu_inspect [--only NAME,...] [--batch N] [--dim N] [--negatives KIND] [--data FILE] [--json]

Scores, forward and with their backward pass, without candidates and with some; the settings take turns in one process,
timed by CUDA events with the L2 cache flushed. Results and gradients of the others are held against those of `true`,
which `gpu_check` holds against float64. Prints the medians in milliseconds and `true` over `chunks`. Status 1 where
results differ or a setting failed, 2 where there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import explorer
from benchmarks.gpu import DATA, missing_gpu
from explorer.checkout import CHECKOUT
from explorer.compiler.to_json import kernels_of
from explorer.runtime.arrays import check_inputs
from explorer.runtime.data.triples import Triples, load_triples
from explorer.runtime.encode.batch import draw
from explorer.runtime.encode.layers import upstream_names

BY_NAME_ONLY = "needs a GPU"
"""`explorer bench` runs this suite only where it is named."""

SETTINGS = ("true", "chunks", "false")
MODELS = ("transh", "transf", "transr", "rescal", "distmult")
TOLERANCE = 2e-3
"""Of the norm of a difference over the norm: float32 sums in other orders, of terms that may cancel."""
MEMORY = 64 << 30


def main(argv: Sequence[str]) -> int:
    """Measures every score; returns the exit status."""
    arguments = parse(argv)
    if missing := missing_gpu():
        print(f"not measured, there is no GPU to use: {missing}", file=sys.stderr)
        return 2
    bad, triples = 0, load_triples(arguments.data)
    print(f"{'measured, ms':34}{'true':>10}{'chunks':>10}{'false':>10}{'true/chunks':>13}  by chunks")
    for row in measure_all(arguments, triples):
        bad += not row["right"]
        print(json.dumps(row) if arguments.json else line_of(row), flush=True)
    return int(bad > 0)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="explorer bench gpu_inspect", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", default=",".join(MODELS), metavar="NAME,...", help="examples of kge; default %(default)s")
    add("--batch", type=int, default=4096, help="triples; default %(default)s")
    add("--dim", type=int, default=256, help="every dimension; default %(default)s")
    add("--negatives", default="tail:16", help="the other kind beside none; default %(default)s")
    add("--data", default=DATA, help="the knowledge graph, a preset or a file; default %(default)s")
    add("--repeat", type=int, default=15, help="samples of each; default %(default)s")
    add("--json", action="store_true", help="print a JSON line a row, with spreads")
    return parser.parse_args(argv)


def measure_all(arguments: argparse.Namespace, triples: Triples) -> Iterator[dict[str, Any]]:
    """A row for each score, without and with candidates, forward and backward."""
    from benchmarks.timing.device import Clock

    clock = Clock()
    for name in arguments.only.split(","):
        for negatives in ("none", arguments.negatives):
            for grad in (False, True):
                options = {"negatives": negatives, "grad": grad}
                found = measure(clock, name.strip(), options, arguments, triples)
                yield {"row": f"{name} {negatives}{' with gradients' if grad else ''}", **found}


def measure(
    clock: Any, name: str, options: Mapping[str, Any], arguments: argparse.Namespace, triples: Triples
) -> dict[str, Any]:
    """Times of the settings on the same inputs, and whether their results are alike."""
    import cupy

    from explorer.runtime.targets.gpu.program import GpuProgram

    compiled = {setting: compilation_of(name, arguments.dim, {**options, "inspect": setting}) for setting in SETTINGS}
    arrays, extents = inputs_of(compiled["true"], triples, arguments.batch)
    on_device = {key: cupy.asarray(array) for key, array in arrays.items()}
    bound = {setting: GpuProgram.of(each).bind(on_device, extents) for setting, each in compiled.items()}
    results = {setting: each.run() for setting, each in bound.items()}
    errors = {setting: difference(results[setting], results["true"]) for setting in SETTINGS[1:]}
    times = clock.interleave({setting: each.launch for setting, each in bound.items()}, arguments.repeat)
    right = all(error <= TOLERANCE for error in errors.values()) and not any(each.error for each in times.values())
    kernels = kernels_of(compiled["chunks"].stages["kernels"].program)
    by_chunks = f"{sum(kernel.template == 'chunks' for kernel in kernels)} of {len(kernels)} kernels"
    return {
        "source": "measured",
        **{setting: samples.to_json() for setting, samples in times.items()},
        "differences": errors,
        "by_chunks": by_chunks,
        "right": right,
    }


def compilation_of(name: str, dim: int, options: Mapping[str, Any]) -> explorer.Compilation:
    """An example with every dimension of a size, for the device that there is."""
    from explorer.runtime.targets.gpu.device import current_device

    text = (CHECKOUT / "examples" / "kge" / f"{name}.emb").read_text()
    sizes = dict.fromkeys(explorer.compile(text, on_demand=True).sizes, dim)
    return explorer.compile(
        text, sizes=sizes, options={**options, "arch": current_device().compile_for}, on_demand=True
    )


def inputs_of(compilation: explorer.Compilation, triples: Triples, batch: int) -> tuple[dict[str, Any], dict[Any, int]]:
    """The arrays that all settings take, and how long they are."""
    given = draw(compilation, triples, batch, limit=MEMORY)
    if compilation.options.grad:
        upstream = given.pop(upstream_names(compilation.stages["graph"].program)[0])
        assert compilation.encode is not None
        given = compilation.encode(compilation, given, upstream)[0]
    arrays, extents = check_inputs(compilation.stages["loops"].program, given)
    return dict(arrays), dict(extents)


def difference(got: tuple[Any, dict[str, Any]], want: tuple[Any, dict[str, Any]]) -> float:
    """The largest of the result's and the gradients' norms of the difference over their own."""
    pairs = [(got[0], want[0]), *((got[1][name], want[1][name]) for name in want[1])]
    return max(float(np.linalg.norm(a - b) / (np.linalg.norm(b) or 1)) for a, b in pairs)


def line_of(row: Mapping[str, Any]) -> str:
    """A row of the table."""
    times = [row[setting].get("ms") for setting in SETTINGS]
    shown = "".join(f"{ms:10.4f}" if ms else f"{'failed':>10}" for ms in times)
    ratio = f"{times[0] / times[1]:13.2f}" if times[0] and times[1] else f"{'-':>13}"
    told = [f"{setting}: {row[setting]['error']}" for setting in SETTINGS if "error" in row[setting]]
    wrong = [] if row["right"] else [f"WRONG: differs by {row['differences']}", *told]
    return f"{row['row']:34}{shown}{ratio}  {row['by_chunks']}{'  ' if wrong else ''}{'; '.join(wrong)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
