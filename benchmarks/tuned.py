"""What tuning gains on a GPU, shape by shape: the default of an older commit, today's, the model's first choice without
a trial, which is today's default where it is not confident, what it expects to be the fastest however little that
promises, and the best of so many trials.

    python -m benchmarks.tuned [--before CHECKOUT] [--only NAME,...] [--trials 32] [--seconds 540]

Each shape is measured in a process of its own: its search, then today's default, the first choice and the best that was
found, sample by sample by turns with cold caches, each held against float64. Half of the turns come before the older
default, which its own checkout runs in its own process, and half behind it, so that both see the same clock. A shape
prints one JSON line when it is done; a table follows. Shapes that there is no time left for are named, and status 1
says that one was left out, has failed or was wrong; 2 that there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import gettempdir
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.tuning.shapes import ROWS, SHAPES, Shape
from explorer.checkout import CHECKOUT
from explorer.runtime.run import RunRequest, set_up
from explorer.runtime.targets.gpu.device import current_device, missing
from explorer.runtime.tuning import DEFAULT_TRIALS, Tuning
from explorer.tuner.search import Trials, confident_choice, guided
from explorer.tuner.tune.on_gpu import DeviceBench, bench

BY_NAME_ONLY = "needs a GPU"
"""`explorer bench` runs this suite only where it is named."""

SECONDS = 540.0
REPEAT = 20
"""Samples of each contender in each half of the turns, and seconds that a half may take."""
HALF_S = 1.5
SHAPE_S = 120
"""Seconds that a shape may take at most."""
OLD_MAIN = "import sys; from explorer.cli import main; sys.exit(main(sys.argv[1:]))"
COLUMNS = ("before", "usual", "first", "likely", "best")
"""What is timed of a shape: the older commit's default, today's, the first choice, what is expected to be the fastest,
and the best that was found."""
RATIOS = (("before", "best"), ("before", "first"), ("before", "likely"), ("usual", "best"))


def main(argv: Sequence[str]) -> int:
    """Measures the shapes, or those asked for; returns the exit status."""
    arguments = parse(argv)
    shapes = [shape for shape in (*SHAPES, *ROWS) if wanted(shape, arguments.only)]
    if arguments.shape:
        (shape,) = (each for each in shapes if each.name == arguments.shape)
        print(json.dumps(measured(shape, arguments)))
        return 0
    if not shapes:
        print(f"no shape begins so: there are {', '.join(each.name for each in (*SHAPES, *ROWS))}", file=sys.stderr)
        return 2
    if told := missing():
        print(f"not measured, there is no GPU to use: {told}", file=sys.stderr)
        return 2
    began, found = perf_counter(), list[dict[str, Any]]()
    for shape in shapes:
        left = arguments.seconds - (perf_counter() - began)
        longest = max((each["seconds"] for each in found), default=0.0)
        fits = left > longest
        found.append(apart(shape, argv, min(SHAPE_S, left)) if fits else {"shape": shape.name, "error": "no time left"})
        found[-1].setdefault("seconds", 0.0)
        print(json.dumps(found[-1]), flush=True)
    print(table(found))
    return 1 if any({"error", "older"} & each.keys() for each in found) else 0


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="explorer bench tuned", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--before", type=Path, help="a checkout of an older commit, whose default is timed too")
    add("--only", default="", metavar="NAME,...", help="shapes whose names begin so, as in --only 'spmm,TransR'")
    add("--trials", type=int, default=DEFAULT_TRIALS, help=f"of each search; default {DEFAULT_TRIALS}")
    add("--seconds", type=float, default=SECONDS, help=f"for all shapes; default {SECONDS:g}")
    add("--made", type=Path, default=Path(gettempdir()), help="the folder of lists that are drawn")
    add("--shape", default="", help=argparse.SUPPRESS)  # the one that this process measures
    return parser.parse_args(argv)


def wanted(shape: Shape, only: str) -> bool:
    """Whether a shape was asked for."""
    words = [word.strip().lower() for word in only.split(",") if word.strip()]
    return not words or any(shape.name.lower().startswith(word) for word in words)


def apart(shape: Shape, argv: Sequence[str], seconds: float) -> dict[str, Any]:
    """What a process of its own says of a shape; why it has said nothing as its `error`."""
    began = perf_counter()
    command = [sys.executable, "-m", "benchmarks.tuned", *argv, "--shape", shape.name]
    try:
        ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=seconds, check=False)
        *_, last = ended.stdout.splitlines() or [""]
        told: dict[str, Any] = json.loads(last) if ended.returncode == 0 else {"error": _end_of(ended.stderr)}
    except subprocess.TimeoutExpired:
        told = {"error": f"took over {seconds:.0f} s"}
    except ValueError as error:
        told = {"error": str(error)}
    return {"shape": shape.name, **told, "seconds": round(perf_counter() - began, 1)}


def _end_of(text: str) -> str:
    return (text.strip().splitlines() or ["it has ended without a word"])[-1]


def request_of(shape: Shape, folder: Path) -> RunRequest:
    """A shape as any run has it."""
    return RunRequest(
        text=(CHECKOUT / "examples" / f"{shape.model}.emb").read_text(encoding="utf-8"),
        on="gpu",
        sizes=shape.data.sizes,
        options={"arch": current_device().compile_for},
        data=shape.data.source(folder),
        batch=shape.data.batch or 1,
        repeat=REPEAT,
        peers=False,
        memory=None,
    )


def measured(shape: Shape, arguments: argparse.Namespace) -> dict[str, Any]:
    """A shape searched, and what it is asked about timed by turns: medians in ms by COLUMNS, how many points there
    were, and what was chosen as it differs from today's default. Raises ValueError where a result is
    wrong."""
    made = bench(set_up(request_of(shape, arguments.made)), Tuning(trials=arguments.trials))
    while True:
        try:
            next(made)
        except StopIteration as end:
            device: DeviceBench = end.value
            break
    try:
        trials = Trials(lambda point: _value(device, point), arguments.trials, coming=device.coming)
        guided(device.points, trials, device.predicted)
        return _timed(shape, arguments, device, trials)
    finally:
        device.close()


def _value(device: DeviceBench, point: int) -> float:
    found = device.tried(point)
    known = found.value if found.value is not None else found.about
    return np.inf if known is None else known


def _timed(shape: Shape, arguments: argparse.Namespace, device: DeviceBench, trials: Trials) -> dict[str, Any]:
    points, usual = device.points, device.points.usual
    predicted = device.predicted
    likely = usual if predicted is None else int(np.argmin(predicted))
    chosen = {"usual": usual, "first": confident_choice(points, predicted), "likely": likely, "best": trials.best}
    if likely not in trials.times:
        device.tried(likely)  # which compiles it
    first = _by_turns(device, chosen)
    samples, failed = _older(shape, arguments)
    second = _by_turns(device, chosen)
    samples |= {name: [*first[name], *second[name]] for name in chosen}
    apart = {name: _differing(points.at(point), points.at(usual)) for name, point in chosen.items() if point != usual}
    medians = {name: float(np.median(own)) for name, own in samples.items()}
    return {"ms": medians, "points": len(points), "trials": len(trials.order), "choices": apart, **failed}


def _older(shape: Shape, arguments: argparse.Namespace) -> tuple[dict[str, list[float]], dict[str, str]]:
    """The older default's samples, or why there are none, without which the others are told all the same."""
    if not arguments.before:
        return {}, {}
    try:
        return {"before": older(shape, arguments)}, {}
    except ValueError as error:
        return {}, {"older": str(error)}


def _by_turns(device: DeviceBench, chosen: Mapping[str, int]) -> dict[str, list[float]]:
    """Samples of each point that is chosen, by what it is chosen as; one that cannot be compiled has infinity."""
    if device.here is None:
        raise ValueError("a kernel broke the process's context on the device")
    several = list(dict.fromkeys(chosen.values()))
    programs = {point: device.made[point].program for point in several}
    given = [(program, device.points.at(point)) for point, program in programs.items() if program is not None]
    found = device.here.finals(given, REPEAT, HALF_S)
    if wrong := next((each["wrong"] for each in found if each["wrong"]), ""):
        raise ValueError(wrong)
    taken = dict(zip((p for p, program in programs.items() if program is not None), found, strict=True))
    return {name: taken[point]["samples"] if point in taken else [np.inf] for name, point in chosen.items()}


def _differing(own: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in own.items() if usual.get(key) != value}


def older(shape: Shape, arguments: argparse.Namespace) -> list[float]:
    """Milliseconds with cold caches of the older checkout's default, by its own command line. Raises ValueError where
    it has failed or its result is wrong."""
    given = [f"--set={name}={size}" for name, size in shape.data.sizes.items()]
    batch = [f"--batch={shape.data.batch}"] if shape.data.batch else []
    model = str(CHECKOUT / "examples" / f"{shape.model}.emb")
    data = f"--data={shape.data.source(arguments.made)}"
    words = ["run", model, "--on=gpu", data, *given, *batch, f"--repeat={2 * REPEAT}", "--no-peers", "--json"]
    before: Path = arguments.before.resolve()
    ended = subprocess.run(
        [sys.executable, "-c", OLD_MAIN, *words],
        cwd=before,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(before), os.environ.get("PYTHONPATH"))))},
        capture_output=True,
        text=True,
        check=False,
    )
    *_, last = ended.stdout.splitlines() or ["{}"]
    told = json.loads(last)
    if not told.get("matches_reference"):
        raise ValueError(f"the older default has not run: {_end_of(ended.stderr)}")
    return [float(each) for each in told["samples_ms"]]


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """The figures for people: a line a shape, and the geometric means of the 20 and of the rows of `bench gpu`."""
    names = [f"{one} over {other}" for one, other in RATIOS]
    rows = ["| shape | " + " | ".join((*COLUMNS, *names)) + " |", "|" + "---|" * (1 + len(COLUMNS) + len(RATIOS))]
    for each in found:
        if "error" in each:
            rows.append(f"{each['shape']}: {each['error']}")
            continue
        if "older" in each:
            rows.append(f"{each['shape']}: {each['older']}")
        times = [f"{each['ms'][name]:.4f}" if name in each["ms"] else "-" for name in COLUMNS]
        rows.append(f"| {each['shape']} | {' | '.join((*times, *_shown(ratios([each]))))} |")
    own = {shape.name for shape in ROWS}
    for told, several in (
        ("geometric mean of shapes", [each for each in found if "ms" in each and each["shape"] not in own]),
        ("geometric mean of rows", [each for each in found if "ms" in each and each["shape"] in own]),
    ):
        if several:
            rows.append(f"| {told} ({len(several)}) |{' |' * len(COLUMNS)} {' | '.join(_shown(ratios(several)))} |")
    return "\n".join(rows)


def ratios(found: Sequence[Mapping[str, Any]]) -> list[float | None]:
    """How many times as fast as the first the second of each of RATIOS is, in the geometric mean of shapes; None where
    one of them was not timed."""
    told = list[float | None]()
    for one, other in RATIOS:
        each = [own["ms"][one] / own["ms"][other] for own in found if one in own["ms"] and other in own["ms"]]
        told.append(float(np.exp(np.mean(np.log(each)))) if len(each) == len(found) and each else None)
    return told


def _shown(found: Sequence[float | None]) -> list[str]:
    return ["-" if each is None else f"{each:.3f}" for each in found]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
