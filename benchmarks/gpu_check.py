"""Runs the generated CUDA on a GPU and compares every score, and every row of a layer or an op, with the float64
reference; and gradients with what the graph's interpreter gives, which the tests hold against PyTorch.

`python -m benchmarks.gpu_check [--quick] [--models DIR] [--shard I/N]`, with lark, NumPy and CuPy and nothing else
installed. Prints a JSON line a case and one in the end; status 1 where a case differs, 2 where there is no GPU. Each
kernel is launched three times: results that change from launch to launch would be a race, but where kernels add with
atomics. `--planted` launches one kernel that reads out of bounds instead, which compute-sanitizer must find before its
silence about the others says anything.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import explorer
from benchmarks.cases.checked import (
    BATCHES,
    GRADIENT_SIZES,
    LAYER_SIZES,
    SIZES,
    TWO_SETS,
    ZOO,
    Case,
    all_cases,
    for_architecture,
    gradient_cases,
    layer_cases,
    model_cases,
    op_cases,
    quick_cases,
    sizes_of,
)
from explorer.compiler.interpret.inputs import each_fact
from explorer.compiler.ir.graph import NODES
from explorer.compiler.ir.index_sets import number_of
from explorer.compiler.ir.kernels import AtomicAccumulate
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import walk
from explorer.runtime.arrays import check_inputs
from explorer.runtime.data.graphs import RelationalGraph, load_graph, twice
from explorer.runtime.data.index_arrays import sparse_from
from explorer.runtime.data.triples import Triples
from explorer.runtime.encode.bags import given_bags
from explorer.runtime.encode.batch import draw
from explorer.runtime.encode.declared import encoded
from explorer.runtime.encode.layers import programs, tensor_shape, upstream_names
from explorer.runtime.encode.stored import as_stored
from explorer.runtime.reference.compare import compare
from explorer.runtime.reference.evaluate import Meaning
from explorer.runtime.reference.numbers.bounds import Bounded
from explorer.runtime.runs.layer import draw_tensors, with_drawn_maps
from explorer.runtime.runs.op import encoded_with_drawn
from explorer.runtime.runs.request import coarser
from explorer.runtime.targets.gpu.device import current_device
from explorer.runtime.targets.gpu.memory import shape_of
from explorer.runtime.targets.gpu.program import GpuProgram

BY_NAME_ONLY = "needs a GPU"
"""`explorer bench` runs this suite only where it is named."""

LISTS, ROWS = 60, 50
ENTITIES, RELATIONS, LAUNCHES = 500, 11, 3


@dataclass(frozen=True)
class Setting:
    """What checks cases: `launch` runs a compilation's kernels once, on a GPU or an emulator of one, and gives the
    result, and the gradients by tensor, as float64; `launches` is how often; `graph` is what layers run on, `lists`
    how many lists ops have, `shortest` how long each is at least."""

    launch: Callable[[explorer.Compilation, dict[str, Any]], tuple[Any, dict[str, Any]]]
    launches: int
    graph: RelationalGraph
    lists: int
    shortest: int = 0


Check = Callable[[Setting, Case], dict[str, Any]]
"""Compiles, launches and compares a case: the model, the options, whether it `agrees`, and the error."""


def main(argv: Sequence[str]) -> int:
    """Checks all cases; returns the exit status."""
    parser = argparse.ArgumentParser(prog="explorer bench gpu_check", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sizes, for running under compute-sanitizer")
    parser.add_argument("--models", type=Path, default=ZOO, metavar="DIR", help="more models (default: %(default)s)")
    told = "only cases with this option, as in inspect=chunks"
    parser.add_argument("--only", type=option, default=("", ""), metavar="NAME=VALUE", help=told)
    parser.add_argument("--shard", type=shard, default=(1, 1), metavar="I/N", help="every Nth case, from the Ith")
    parser.add_argument("--planted", action="store_true", help="only a kernel that reads one element out of bounds")
    arguments = parser.parse_args(argv)
    try:
        import cupy

        device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    except Exception as error:  # CuPy is not there, or the driver or the GPU is not
        print(f"not checked, there is no GPU to use: {error}", file=sys.stderr)
        return 2
    # CuPy's pool would round arrays up and cut them out of larger pieces, where memcheck sees no bounds.
    cupy.cuda.set_allocator(None)
    if arguments.planted:
        launch_planted()
        return 0
    failed = checked = 0
    setting = Setting(launch, LAUNCHES, load_graph("small"), LISTS)
    arch = current_device().compile_for
    part, parts = arguments.shard
    name, value = arguments.only
    cases = (each for each in suite(arguments.quick, arguments.models) if each[1].options.get(name, "") == value)
    for check_case, case in islice(cases, part - 1, None, parts):
        outcome = attempt(check_case, setting, for_architecture(arch, case))
        print(json.dumps(outcome), flush=True)
        checked += 1
        failed += not outcome.get("agrees", True)
    counts = {"cases": checked, "failed": failed, "shard": f"{part}/{parts}"}
    models = str(arguments.models) if arguments.models.is_dir() else f"none, {arguments.models} is not there"
    print(json.dumps({"device": device, **counts, "models": models, "largest_error_over_bound": 1.0}))
    return 1 if failed else 0


def option(text: str) -> tuple[str, str]:
    """("inspect", "chunks") of `inspect=chunks`. Raises ValueError for other texts."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ValueError(text)
    return name, value


def shard(text: str) -> tuple[int, int]:
    """(3, 16) of `3/16`. Raises ValueError where it is no part of a whole."""
    part, parts = map(int, text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(text)
    return part, parts


def suite(quick: bool, models: Path) -> Iterator[tuple[Check, Case]]:
    """All cases, each with what checks it."""
    sizes = (33,) if quick else LAYER_SIZES
    suites: tuple[tuple[Check, Iterator[Case]], ...] = (
        (check, quick_cases() if quick else all_cases(SIZES)),
        (check_rows, layer_cases(sizes)),
        (check_rows, op_cases(sizes)),
        (check_gradients, gradient_cases((8,) if quick else GRADIENT_SIZES)),
        (check_model, model_cases(models)),
    )
    return ((check_case, case) for check_case, cases in suites for case in cases)


def attempt(check_case: Check, setting: Setting, case: Case) -> dict[str, Any]:
    """What a check says of a case, or what it raised, so that the cases behind it are checked too."""
    try:
        return check_case(setting, case)
    except Exception as error:
        raised = f"{type(error).__name__}: {error}"
        return {"text": case.text, "size": case.size, **case.options, "agrees": False, "raised": raised}


def check_model(setting: Setting, case: Case) -> dict[str, Any]:
    """Checks a case by its family, and its gradients where it has them. Where the reference's result is no number (a
    logarithm's, say), tensors are made positive, and no list is empty."""
    forward = CHECKS[explorer.compile(case.text, on_demand=True).family]
    check_case = check_gradients if case.options["grad"] == "true" else forward
    outcome = check_case(setting, case)
    if np.isnan(outcome.get("error", 0.0)):
        outcome = check_case(replace(setting, shortest=1), replace(case, positive=True)) | {"positive": True}
    return outcome


def check_rows(setting: Setting, case: Case) -> dict[str, Any]:
    """Compares every row of a layer or an op, in the order of what was given, with that of the float64 reference."""
    compilation = compiled(case)
    report: dict[str, Any] = {"model": compilation.name, "sizes": dict(compilation.sizes), **case.options}
    given = signed(case, compilation, INPUTS[compilation.family](setting, compilation))
    assert compilation.encode is not None
    arrays, finish = compilation.encode(compilation, given, None)
    launches = [finish(*setting.launch(compilation, arrays))[0] for _ in range(setting.launches)]
    return report | judged(compilation, launches, meaning(case, compilation, given).result())


def meaning(case: Case, compilation: explorer.Compilation, inputs: Mapping[str, Any]) -> Meaning:
    """The case as the reference takes it."""
    negatives = case.options.get("negatives", "none")
    sizes, coarse = compilation.sizes, coarser(compilation, "gpu")
    return Meaning(case.text, inputs, sizes, negatives=negatives, coarser=coarse)


def judged(compilation: explorer.Compilation, launches: Sequence[Any], want: Bounded) -> dict[str, Any]:
    """Whether a result is right, its error over what rounding may make, and whether it is the same each time."""
    error = error_of(launches[0], want)
    same = all(np.array_equal(launches[0], other) for other in launches)
    right = error <= 1 and (same or sums_atomically(compilation))
    return {"agrees": right, "error": error, "same_each_time": same}


def compiled(case: Case) -> explorer.Compilation:
    """A case's compilation, of which only the stages that lead to CUDA are made; the same one for who looks at it,
    who checks it next, and another batch."""
    return _compiled(case.text, tuple(sizes_of(case).items()), tuple(case.options.items()))


@lru_cache(maxsize=8)
def _compiled(
    text: str, sizes: tuple[tuple[str, int], ...], options: tuple[tuple[str, str], ...]
) -> explorer.Compilation:
    return explorer.compile(text, sizes=dict(sizes), options=dict(options), on_demand=True)


def signed(case: Case, compilation: explorer.Compilation, inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs as they are stored, without their signs where a case wants positive ones."""
    given = {name: abs(value) for name, value in inputs.items()} if case.positive else inputs
    graph: Any = compilation.stages["graph"].program
    return as_stored(graph, given)


def error_of(got: Any, want: Bounded) -> float:
    """The largest error over what rounding may make: NaN where what is wanted is no number."""
    return compare(np.asarray(got), want).ratio if np.isfinite(want.value).all() else np.nan


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
    inputs = signed(case, compilation, draw(compilation, triples(), case.batch))
    graph: Any = compilation.stages["graph"].program
    assert compilation.encode is not None
    arrays = each_fact(graph, inputs) if graph.is_one_nest else compilation.encode(compilation, inputs, None)[0]
    launches = [setting.launch(compilation, arrays)[0] for _ in range(setting.launches)]
    found = judged(compilation, launches, meaning(case, compilation, inputs).result())
    return report | found | {"agrees": found["agrees"] and found["same_each_time"]}


def check_gradients(setting: Setting, case: Case) -> dict[str, Any]:
    """Compiles with the backward pass, launches, and compares the result and every gradient."""
    compilation = compiled(case)
    report: dict[str, Any] = {"model": compilation.name, "sizes": dict(compilation.sizes), **case.options}
    stage = compilation.stages["cuda"]
    if not stage.available:
        return report | {"agrees": False, "reason": stage.reason}
    graph: Any = compilation.stages["graph"].program
    given = signed(case, compilation, INPUTS[compilation.family](setting, compilation))
    upstream = given.pop(upstream_names(graph)[0])
    assert compilation.encode is not None
    arrays, finish = compilation.encode(compilation, given, upstream)
    result, gradients = finish(*setting.launch(compilation, arrays))
    asked = meaning(case, compilation, given)
    wanted = asked.gradients(upstream, [name for name, _ in graph.gradients])
    pairs = [(result, asked.result()), *((gradients[name], wanted[name]) for name in wanted)]
    error = float(np.max([error_of(got, want) for got, want in pairs]))
    return report | {"agrees": error <= 1, "error": error, "gradients": len(wanted)}


def score_inputs(_: Setting, compilation: explorer.Compilation) -> dict[str, Any]:
    """A batch of the small graph, with the gradient of its scores."""
    return draw(compilation, triples(), BATCHES[-1])


def layer_inputs(setting: Setting, compilation: explorer.Compilation) -> dict[str, Any]:
    """A small graph with features, parameters and the gradient of the result."""
    graph, given = programs(compilation)[0], setting.graph
    if graph.ends != NODES:  # in the second set some have no edges
        given = replace(twice(given, graph.ends), num_destinations=given.num_nodes + 7)
    data = with_drawn_maps(given, graph, 0)
    tensors = draw_tensors(graph, encoded(data, graph).counts, seed=0)
    numbers = {number_of(name): size for name, size in data.sizes.items() if name != "edge"}
    return {**data.arrays(), **numbers, **tensors}


def op_inputs(setting: Setting, compilation: explorer.Compilation) -> dict[str, Any]:
    """Lists of up to 9 entries, in the form that the op takes them, and what else it reads."""
    random, lists = np.random.default_rng(0), setting.lists
    graph: Any = compilation.stages["graph"].program
    lengths = random.integers(setting.shortest, 10, lists)
    entries, square = int(lengths.sum()), graph.maps[0].codomain == graph.maps[1].codomain
    ptr, picked = np.concatenate(([0], np.cumsum(lengths))), random.integers(0, lists if square else ROWS, entries)
    weight = random.standard_normal(entries).astype(np.float32)
    shape = {"num_rows": lists, "num_cols": lists if square else ROWS}
    given: dict[str, Any] = {
        "bags": {"ptr": ptr, "idx": picked, "weight": weight},
        "blocks": {"ptr": ptr, "blocks": picked},
        "csr": {"rowptr": ptr, "col": picked, "value": weight, **shape},
        "coo": {"row": np.repeat(np.arange(lists), lengths), "col": picked, "value": weight, **shape},
    }[graph.structure]
    drawn_lists = encoded_with_drawn(graph, sparse_from(given, graph.name, "given", shape["num_cols"]), 0)
    counts = drawn_lists.counts
    several = bool(drawn_lists.beside)
    given = given_bags(drawn_lists.by_home) if several else given
    given |= {name: each.ids for name, each in drawn_lists.declared.items()}
    for tensor in graph.tensors:
        if tensor.kind != "structure" or several:
            drawn = random.standard_normal(tensor_shape(graph, tensor, counts))
            given[tensor.name] = drawn.astype(np.float32)
    return given


CHECKS: dict[str, Check] = {"score": check, "layer": check_rows, "op": check_rows}
INPUTS = {"score": score_inputs, "layer": layer_inputs, "op": op_inputs}


def triples() -> Triples:
    """A small graph; what matters is that ids repeat and reach both ends."""
    random = np.random.default_rng(0)
    h, t = (random.integers(0, ENTITIES, 3 * ENTITIES, dtype=np.int32) for _ in range(2))
    r = random.integers(0, RELATIONS, 3 * ENTITIES, dtype=np.int32)
    return Triples("random", "preset, generated", ENTITIES, RELATIONS, h, r, t)


def launch(compilation: explorer.Compilation, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The result and the gradients of launching the kernels once, as float64."""
    arrays, extents = check_inputs(compilation.stages["loops"].program, inputs)
    result, gradients = launch_unchecked(compilation, arrays, extents)
    return result.astype(np.float64), {tensor: array.astype(np.float64) for tensor, array in gradients.items()}


def launch_unchecked(compilation: explorer.Compilation, arrays: Any, extents: Any) -> tuple[Any, dict[str, Any]]:
    """The same of arrays that lie on the device or not; what the kernels make starts as NaN or -1, so that nothing is
    left out unnoticed."""
    import cupy

    program = GpuProgram.of(compilation)
    sizes = dict(extents)
    for name, count in program.code.counts:
        sizes[name] = count.value(sizes)
    made = {}
    for buffer in program.code.buffers:
        if buffer.name not in arrays:
            value: Any = np.int32(-1) if buffer.type == "i32" else np.float32(np.nan)
            made[buffer.name] = cupy.full(shape_of(buffer, sizes), value, value.dtype)
    return program.bind({**arrays, **made}, extents).run()


def launch_planted() -> None:
    """Launches a generated kernel on a table whose last element is not allocated, and reads it."""
    case = for_architecture(current_device().compile_for, Case(TWO_SETS, 33, BATCHES[-1], {}))
    compilation = compiled(case)
    arrays, extents = check_inputs(compilation.stages["loops"].program, draw(compilation, triples(), case.batch))
    arrays["h"][0] = ENTITIES - 1
    arrays["E"] = without_last(arrays["E"])
    launch_unchecked(compilation, arrays, extents)


def without_last(table: Any) -> Any:
    """A table on the device, the memory of whose last element belongs to no array."""
    import cupy

    memory = cupy.cuda.alloc(table.nbytes - table.itemsize)
    memory.copy_from_host(table.ctypes.data, table.nbytes - table.itemsize)
    return cupy.ndarray(table.shape, table.dtype, memptr=memory)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
