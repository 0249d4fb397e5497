"""Scores on the CPU beside what one would else write: the PyTorch eager expression, in the same run on the same cores.

`explorer bench kge [--train] [--data SOURCE] [--repeat N] [--json]`. Both sides take turns and compute the same scores,
which are checked against the float64 reference first. Peak memory is what a process's resident memory grows by during
one call, each side in a process of its own (Linux's VmHWM, reset before the call; it counts to about a quarter of a
MiB). With `--train`, training steps are timed instead: see `training_row`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.timing.host import heading, interleave, peak_growth, provenance, summary

CHECKOUT = Path(__file__).resolve().parents[1]
SIDES = ("explorer", "eager")
CHECKED_ROWS = 256
RESOLUTION = 2**18
"""Bytes: the kernel counts a thread's pages in steps of 64."""
STEP_BATCH = 1_024
STEP_SIZES = (32, 64)
CANDIDATES = 17
"""Of a triple, where a step has some: the true tail and sixteen corrupted ones."""
GRADIENT_TOLERANCE = 1e-4
"""How far a gradient may be from eager's in float64, of its largest element: rounding of up to 17,408 terms."""


@dataclass(frozen=True)
class Case:
    """A model at a size: `eager` is the expression in PyTorch, the targets are issue 2's where it sets any."""

    model: str
    size: int
    batch: int
    eager: Callable[[Any], Any]
    speed_target: float | None = None  # times faster than eager
    memory_target: float | None = None  # of eager's peak memory


def _transh(x: Any) -> Any:
    e = x.E[x.h] - x.E[x.t]
    return (e + x.R[x.r] - (x.w[x.r] * e).sum(-1, keepdim=True) * x.w[x.r]).norm(dim=-1)


def _transr(x: Any) -> Any:
    e = x.E[x.h] - x.E[x.t]
    return (e.unsqueeze(1).bmm(x.P[x.r]).squeeze(1) + x.R[x.r]).norm(dim=-1)


CASES = (
    Case("transe_l2", 512, 16_384, lambda x: (x.E[x.h] - x.E[x.t] + x.R[x.r]).norm(dim=-1), speed_target=2),
    Case("transe_l1", 512, 16_384, lambda x: (x.E[x.h] - x.E[x.t] + x.R[x.r]).norm(p=1, dim=-1)),
    Case("transh", 512, 16_384, _transh),
    Case("distmult", 512, 16_384, lambda x: (x.E[x.h] * x.R[x.r] * x.E[x.t]).sum(-1)),
    Case("transr", 256, 4_096, _transr, speed_target=3, memory_target=0.1),
    Case("rescal", 256, 4_096, lambda x: (x.E[x.h].unsqueeze(1).bmm(x.P[x.r]).squeeze(1) * x.E[x.t]).sum(-1)),
)


def main(argv: Sequence[str]) -> int:
    """Prints a table, or with --json one object; status 1 where a score is wrong."""
    parser = argparse.ArgumentParser(prog="explorer bench kge", description=__doc__)
    parser.add_argument("--data", default="FB15k-237", help="a preset or a file of triples; default FB15k-237")
    parser.add_argument("--repeat", type=int, default=11, help="runs of each side; default 11")
    parser.add_argument("--train", action="store_true", help="time training steps of the modules of PyTorch")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--peak", nargs=2, metavar=("MODEL", "SIDE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.peak:
        model, side = arguments.peak
        print(peak_bytes(next(case for case in CASES if case.model == model), side, arguments.data))
        return 0
    if arguments.train:
        rows = training_rows(tuple((case.model, case.eager) for case in CASES), arguments.data, arguments.repeat)
    else:
        rows = [measure(case, arguments.data, arguments.repeat) for case in CASES]
    import torch

    figures = {**provenance(), "peer": f"PyTorch {torch.__version__}, eager", "data": arguments.data, "cases": rows}
    written = training_table if arguments.train else table
    print(json.dumps(figures) if arguments.json else written(figures))
    return 0 if all(row["matches_reference"] for row in rows) else 1


def contenders(case: Case, data: str) -> tuple[dict[str, Callable[[], Any]], float]:
    """Both sides, ready to run, and the largest error over its bound of either on the first rows."""
    import torch

    import explorer
    from explorer.runtime.data.triples import load_triples
    from explorer.runtime.encode.batch import draw
    from explorer.runtime.reference.compare import compare
    from explorer.runtime.reference.evaluate import score
    from explorer.runtime.reference.numbers.arithmetic import BOUNDED
    from explorer.runtime.targets.cpu import prepare, threads

    text = (CHECKOUT / "examples" / "kge" / f"{case.model}.emb").read_text()
    sizes = dict.fromkeys(explorer.compile(text, on_demand=True).sizes, case.size)
    compilation = explorer.compile(text, sizes=sizes, on_demand=True)
    inputs = draw(compilation, load_triples(data), case.batch)
    kernel: Any = compilation.stages["loops"].program
    compiled = prepare(kernel)
    torch.set_num_threads(threads())
    tensors = SimpleNamespace(
        **{
            name: torch.from_numpy(array.astype(np.int64) if array.dtype == np.int32 else array)
            for name, array in inputs.items()
        }
    )
    sides: dict[str, Callable[[], Any]] = {
        "explorer": lambda: compiled(inputs),
        "eager": lambda: case.eager(tensors).numpy(),
    }
    few = inputs | {entry: inputs[entry][:CHECKED_ROWS] for entry in ("h", "r", "t")}
    want = score(text, few, compilation.sizes, arithmetic=BOUNDED)
    return sides, max(compare(run()[:CHECKED_ROWS], want).ratio for run in sides.values())


def measure(case: Case, data: str, repeat: int) -> dict[str, Any]:
    """One row of the table; a wrong score has no times."""
    sides, error = contenders(case, data)
    row: dict[str, Any] = {"model": case.model, "size": case.size, "batch": case.batch}
    row |= {"matches_reference": error <= 1, "error_over_bound": error}
    row |= {"speed_target": case.speed_target, "memory_target": case.memory_target}
    if error > 1:
        return row
    times = {side: summary(samples) for side, samples in interleave(sides, repeat).items()}
    peaks = {side: peak_in_a_process(case, side, data) for side in SIDES}
    row |= {f"{side}_ms": times[side] for side in SIDES} | {f"{side}_peak_bytes": peaks[side] for side in SIDES}
    row["speed"] = round(times["eager"]["median"] / times["explorer"]["median"], 2)
    row["memory"] = round(peaks["explorer"] / max(1, peaks["eager"]), 4)
    return row


def peak_in_a_process(case: Case, side: str, data: str) -> int:
    """`peak_bytes` in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.kge", "--data", data, "--peak", case.model, side]
    return int(subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout)


def peak_bytes(case: Case, side: str, data: str) -> int:
    """How much more memory is resident at the peak of one call than before it."""
    run = contenders(case, data)[0][side]
    return peak_growth(run)


def _mib(count: int) -> str:
    return f"{count / 2**20:.1f}" if count >= RESOLUTION else f"<{RESOLUTION / 2**20:g}"


def table(figures: dict[str, Any]) -> str:
    """The figures for people."""
    lines = [
        f"{heading(figures)}; {figures['data']}; beside {figures['peer']}",
        "",
        f"{'model':11}{'size':>5}{'batch':>8}{'explorer ms':>13}{'eager ms':>11}{'faster':>9}"
        f"{'peak MiB':>10}{'eager':>9}{'share':>8}",
    ]
    for row in figures["cases"]:
        start = f"{row['model']:11}{row['size']:>5}{row['batch']:>8}"
        if not row["matches_reference"]:
            lines.append(f"{start}  wrong: {row['error_over_bound']:.1f} times the error that it may have")
            continue
        ours, eager = row["explorer_peak_bytes"], row["eager_peak_bytes"]
        targets = [
            *([f"at least {row['speed_target']:g}x"] if row["speed_target"] else []),
            *([f"at most {row['memory_target']:.0%} of the memory"] if row["memory_target"] else []),
        ]
        lines.append(
            f"{start}{row['explorer_ms']['median']:>13.2f}{row['eager_ms']['median']:>11.2f}{row['speed']:>8.1f}x"
            f"{_mib(ours):>10}{_mib(eager):>9}{row['memory']:>8.1%}"
            + (f"  target {', '.join(targets)}" if targets else "")
        )
    return "\n".join(lines)


def training_rows(cases: tuple[tuple[str, Callable[[Any], Any]], ...], data: str, repeat: int) -> list[dict[str, Any]]:
    """The table's rows: models by name with their expressions in PyTorch, and TransR with candidates."""
    found = [training_row(name, eager, size, 0, data, repeat) for name, eager in cases for size in STEP_SIZES]
    return found + [
        training_row("transr", _transr_of_candidates, size, CANDIDATES, data, repeat) for size in STEP_SIZES
    ]


def _transr_of_candidates(x: Any) -> Any:
    return ((x.E[x.h][:, None] - x.E[x.t]).bmm(x.P[x.r]) + x.R[x.r][:, None]).norm(dim=-1)


def training_row(
    name: str, eager: Callable[[Any], Any], size: int, candidates: int, data: str, repeat: int
) -> dict[str, Any]:
    """One row of the table of `--train`: a step is a batch's scores, the mean of their softplus, and all gradients; no
    optimiser, which takes both sides the same. Gradients that are not eager's in float64 have no times."""
    import torch
    from torch.nn.functional import softplus

    import explorer
    from explorer.runtime.data.triples import load_triples
    from explorer.runtime.targets.cpu import threads

    torch.set_num_threads(threads())
    text = (CHECKOUT / "examples" / "kge" / f"{name}.emb").read_text()
    sizes = dict.fromkeys(explorer.compile(text, on_demand=True).sizes, size)
    options = {"negatives": f"tail:{candidates}"} if candidates else {}
    triples, random = load_triples(data), torch.Generator().manual_seed(0)
    module = explorer.compile(text, sizes=sizes, options=options, on_demand=True).torch(
        entity=triples.num_entities, relation=triples.num_relations
    )
    picked = torch.randint(len(triples.h), (STEP_BATCH,), generator=random)
    h, r, t = (torch.from_numpy(ids)[picked].long() for ids in (triples.h, triples.r, triples.t))
    if candidates:
        t = torch.randint(triples.num_entities, (STEP_BATCH, candidates), generator=random)
    parameters = dict(module.named_parameters())
    ids = {"h": h, "r": r, "t": t}

    def step(score: Callable[[], Any], leaves: dict[str, Any]) -> dict[str, Any]:
        for parameter in leaves.values():
            parameter.grad = None
        softplus(score()).mean().backward()
        return {each: parameter.grad for each, parameter in leaves.items()}

    wide = {each: parameter.detach().double().requires_grad_() for each, parameter in parameters.items()}
    want = step(lambda: eager(SimpleNamespace(**wide, **ids)), wide)
    sides: dict[str, Callable[[], object]] = {
        "explorer": lambda: step(lambda: module(h, r, t), parameters),
        "eager": lambda: step(lambda: eager(SimpleNamespace(**parameters, **ids)), parameters),
    }
    got = step(lambda: module(h, r, t), parameters)
    error = max(float((got[each] - want[each]).abs().max() / want[each].abs().max()) for each in want)
    row = {"model": name, "size": size, "candidates": max(1, candidates), "gradients_differ_by": error}
    row["matches_reference"] = error <= GRADIENT_TOLERANCE
    if not row["matches_reference"]:
        return row
    times = {side: summary(samples) for side, samples in interleave(sides, repeat).items()}
    row |= {f"{side}_ms": times[side] for side in sides}
    return row | {"ratio": round(times["explorer"]["median"] / times["eager"]["median"], 2)}


def training_table(figures: dict[str, Any]) -> str:
    """The figures for people."""
    lines = [
        f"{heading(figures)}; {figures['data']}; steps of {STEP_BATCH:,} triples beside {figures['peer']}",
        "",
        f"{'model':11}{'size':>5}{'candidates':>12}{'explorer ms':>13}{'eager ms':>11}{'of eager':>10}",
    ]
    for row in figures["cases"]:
        start = f"{row['model']:11}{row['size']:>5}{row['candidates']:>12}"
        if not row["matches_reference"]:
            lines.append(f"{start}  wrong: gradients differ by {row['gradients_differ_by']:.1e} of the largest")
            continue
        times = f"{row['explorer_ms']['median']:>13.2f}{row['eager_ms']['median']:>11.2f}"
        lines.append(f"{start}{times}{row['ratio']:>9.2f}x")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
