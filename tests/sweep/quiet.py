"""Whether the check of results is quiet: random programs of every family, forward and with gradients, on each target,
and how far the largest error of each comes to its bound. Every alarm is printed with the seed that draws it again.

    python tests/sweep/quiet.py --count 10000 --targets cpu,dae,gpu --seed 0 --jobs 16 --seconds 500
    NUMBA_DISABLE_JIT=1 python tests/sweep/quiet.py --count 10000 --targets dae,cpu,kernels

It needs no more than the explorer's own packages, and CuPy for the GPU. Of 1.4 s that a program takes on `cpu`, Numba
and LLVM take 1.35: without them the text of its functions is run as Python, and machine code is checked of fewer
programs. `kernels` are those of the GPU, by their interpreter; `emulator` is their CUDA text, compiled as C++ with all
accesses to memory checked, at 0.7 s a program. With `--scale`, inputs are so many times as large.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
if __name__ in ("__main__", "__mp_main__"):
    from tests.sweep.drawing import stand_in

    stand_in()

import numpy as np

import explorer
from explorer.runtime.reference import evaluate as reference
from explorer.runtime.reference.compare import Check, compare
from explorer.runtime.reference.numbers.arithmetic import FLOAT32, ONE_BY_ONE, UNFLUSHED
from explorer.runtime.reference.numbers.bounds import flushing, overflows_seen
from tests.compiler import random_layers, random_models, random_ops
from tests.compiler.models import draw_inputs

FAMILIES = ("layer", "op", "score")
NEGATIVES = ("none", "tail:3", "head:2")
PLAIN = (FLOAT32, ONE_BY_ONE)


@dataclass(frozen=True)
class Program:
    """A random program with the options it is compiled with, and what it is run on."""

    family: str
    text: str
    options: Mapping[str, Any]
    compilation: explorer.Compilation
    inputs: Mapping[str, Any]

    def evaluate(self, arithmetic: Any, upstream: Any = None) -> dict[str, Any]:
        """The result and the gradients by name, in that arithmetic."""
        negatives = str(self.options.get("negatives", "none"))
        if upstream is None:
            found = reference.evaluate(self.text, self.inputs, {}, negatives=negatives, arithmetic=arithmetic)
            return {"result": found}
        names = [name for name, _ in self.compilation.stages["graph"].program.gradients]
        arguments = (self.text, self.inputs, {}, upstream, names)
        with flushing(arithmetic.flushes):
            result, gradients = reference.gradients(*arguments, negatives=negatives, arithmetic=arithmetic)
        return {"result": result, **gradients}

    def run(self, target: str, upstream: Any) -> dict[str, Any]:
        """The result and the gradients by name, of a target, a stage, or the emulator of a GPU."""
        emulated = target == "emulator"
        compilation, on = (emulating(self.compilation), "gpu") if emulated else (self.compilation, target)
        if upstream is None:
            return {"result": compilation.run(self.inputs, on=on)}
        result, gradients = compilation.run(self.inputs, on=on, grad=upstream)
        return {"result": result, **gradients}

    def overflows(self, upstream: Any) -> bool:
        """Whether a value on the way is too large for float32."""
        with overflows_seen() as seen:
            self.evaluate(reference.BOUNDED, upstream)
        return bool(seen)


def drawn(seed: int, scale: float = 1.0) -> Program:
    """The program of that number, on inputs that are so many times as large; every other one has a backward pass."""
    source = Random(seed)
    family, grad = FAMILIES[seed % 3], seed // 3 % 2 == 1
    options: dict[str, Any] = {"grad": grad}
    texts = {"layer": random_layers.layer_texts, "op": random_ops.op_texts, "score": random_models.model_texts}
    text = texts[family]()(source)
    if family == "layer":
        options |= {name: source.random() < 0.5 for name in ("reorder", "compact", "online")}
    elif family == "score":
        options |= {"negatives": source.choice(NEGATIVES), "interchange": source.random() < 0.5}
    compilation = explorer.compile(text, options=options, on_demand=True)
    if not compilation.ok:
        raise ValueError("the text does not compile")
    graph = compilation.stages["graph"].program
    if family == "layer":
        inputs = layer_inputs(graph, random_layers.graphs()(source), seed)
    elif family == "op":
        inputs = random_ops.op_inputs(graph, random_ops.list_arrays()(source), seed)
    else:
        forward = explorer.compile(text, options=options | {"grad": False}, on_demand=True)
        inputs = draw_inputs(forward, batch=3, entities=4, relations=2, seed=seed)
    if scale != 1:
        inputs = {name: value * np.float32(scale) if _is_float(value) else value for name, value in inputs.items()}
    return Program(family, text, options, compilation, inputs)


def _is_float(value: Any) -> bool:
    return getattr(value, "dtype", None) == np.float32


def layer_inputs(graph: Any, arrays: dict[str, Any], seed: int) -> dict[str, Any]:
    """A graph's arrays with values in [-1, 1] for every tensor."""
    random = np.random.default_rng(seed)
    counts = {name[4:-1]: count for name, count in arrays.items() if name.startswith("num_")}
    counts["edge"] = len(arrays["src"])
    inputs = dict(arrays)
    for tensor in graph.tensors:
        if tensor.kind in ("param", "input"):
            shape = [counts[name] for name in tensor.sets] + [graph.size(extent) for extent in tensor.dims]
            inputs[tensor.name] = random.uniform(-1, 1, shape).astype(np.float32)
    return inputs


def emulating(compilation: explorer.Compilation) -> explorer.Compilation:
    """The same, with the emulator for a GPU."""
    from tests.emulator.launch import launch

    return replace(compilation, targets={"gpu": lambda code, arrays: launch(compilation, arrays)})


@np.errstate(all="ignore")
def checked(seed: int, targets: list[str], scale: float = 1.0) -> Iterator[tuple[str, str, str, Check]]:
    """The check of the result and of each gradient of a program on each target: (target, family, what, check)."""
    program = drawn(seed, scale)
    upstream = None
    want = program.evaluate(reference.BOUNDED)
    if program.options["grad"]:
        shape = want["result"].shape
        upstream = np.random.default_rng(seed + 1).uniform(-1, 1, shape).astype(np.float32)
        want = program.evaluate(reference.BOUNDED, upstream)
    plain: dict[Any, dict[str, Any]] = {}

    def plainly(arithmetic: Any, name: str) -> Any:
        if arithmetic not in plain:
            plain[arithmetic] = program.evaluate(arithmetic, upstream)
        return plain[arithmetic][name]

    for target in targets:
        got = program.run(target, upstream)
        for name, bound in want.items():
            evaluations = [lambda a=arithmetic, n=name: np.asarray(plainly(a, n)) for arithmetic in PLAIN]
            what = "forward" if name == "result" else "gradient"
            check = compare(
                np.asarray(got[name]),
                bound,
                evaluations,
                lambda n=name: plainly(UNFLUSHED, n),  # type: ignore[misc]
                lambda: program.overflows(upstream),
            )
            yield target, program.family, what, check


@dataclass
class Found:
    """What programs gave: on which targets they ran, the largest ratio of each kind with its mean and seed, alarms."""

    ran: Counter[str] = field(default_factory=Counter)
    largest: dict[tuple[str, str, str], tuple[float, float, int]] = field(default_factory=dict)
    alarms: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        self.ran.update(other.ran)
        self.alarms += other.alarms
        for key, found in other.largest.items():
            self.largest[key] = max(self.largest.get(key, found), found)


def judged(work: tuple[int, list[str], float]) -> Found:
    """One program on all targets."""
    seed, targets, scale = work
    found = Found()
    try:
        for target, family, what, check in checked(seed, targets, scale):
            found.ran[target] = 1
            if check.beyond_float32:
                found.ran["beyond float32"] = 1
                continue
            key, figures = (target, family, what), (check.ratio, check.root, seed)
            found.largest[key] = max(found.largest.get(key, figures), figures)
            if not check.matches:
                found.alarms.append(f"{target} {family} {what}: seed {seed}: {check}")
    except Exception:  # what cannot be run is counted, and told, but is no alarm of the check
        found.ran["could not run"] = 1
        found.alarms.append(f"could not run: seed {seed}: {traceback.format_exc(limit=-1)}")
    return found


def told(found: Found) -> str:
    """How many programs ran on each target, and how many alarms there were."""
    alarms = sum("could not run" not in alarm for alarm in found.alarms)
    return str({name: found.ran[name] for name in sorted(found.ran)} | {"alarms": alarms})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--targets", default="cpu,dae")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first program")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3e7, help="draws no more programs after so long")
    parser.add_argument("--scale", type=float, default=1.0)
    given = parser.parse_args()
    until, end = time.time() + given.seconds, given.seed + given.count
    targets = given.targets.split(",")
    work = [(seed, targets, given.scale) for seed in range(given.seed, end)]
    found = Found()
    with multiprocessing.get_context("spawn").Pool(given.jobs, maxtasksperchild=500) as pool:
        for number, each in enumerate(pool.imap_unordered(judged, work), 1):
            found.add(each)
            if number % 500 == 0:
                print(told(found), flush=True)
            for alarm in each.alarms:
                print(alarm, flush=True)
            if time.time() > until:
                break
    for (target, family, what), (ratio, root, seed) in sorted(found.largest.items()):
        print(f"{target:4} {family:6} {what:8} largest error over bound {ratio:.3f} (root {root:.3f}, seed {seed})")
    print(told(found), flush=True)
    return int(bool(found.alarms))


if __name__ == "__main__":
    sys.exit(main())
