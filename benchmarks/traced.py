"""Modules of PyTorch on a GPU: what `explorer.trace` made of them beside themselves, eager and under torch.compile.

    explorer bench traced [--only NAME,...] [--batch N] [--dim D] [--jobs N] [--json]

The modules are those that the tests trace: scores as people write them, and PyTorch Geometric's convolutions where
that is installed, each forward and a step, which is that with all gradients of its results' sum. A time is that of a
call in a row of calls, with what the host does for it, as in a training. Results and gradients are held against eager's
first. Many processes compile; one at a time is measured. Prints a table; status 1 where something differs, 2 where
there is no GPU.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import multiprocessing
import queue
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import BrokenBarrierError
from time import monotonic, perf_counter
from typing import Any

from benchmarks.gpu import missing_gpu
from benchmarks.timing.device import limited

BY_NAME_ONLY = "needs a GPU"
"""`explorer bench` runs this suite only where it is named."""

ENTITIES, RELATIONS, RANK = 14_541, 237, 32
"""FB15k-237's counts, and the second dimension of models that have one."""
NODES, EDGES = 169_343, 1_166_243
"""Those of ogbn-arxiv."""
EXAMPLE, EXAMPLE_GRAPH = 50, 500
"""Of so many times fewer triples, nodes and edges is what modules are traced with."""
TURNS, TURN_SECONDS = 5, 0.02
TOLERANCE = 2e-3
"""Of the largest number: both sides round to float32, and sums on a GPU are in another order."""
LEAST = 0.1
"""Of the largest gradient, which is what rounds those that cancel."""
SLOWER = 1.03
"""From how many times another's time on ours is slower."""
SIDES = ("ours", "eager", "compiled")
LONGEST = 100_000.0
"""Seconds that modules are compiled for where nothing else is said."""


def main(argv: Sequence[str]) -> int:
    """Measures every module; returns the exit status."""
    arguments = parse(argv)
    if missing := missing_gpu():
        print(f"not measured, there is no GPU to use: {missing}", file=sys.stderr)
        return 2
    rows = []
    for row in measure_all(names(arguments), arguments):
        rows.append(row)
        if arguments.json:
            print(json.dumps(row), flush=True)
    print(table(rows))
    return int(any(row.get("differs") for row in rows))


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="explorer bench traced", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", default="", metavar="NAME,...", help="modules of these names")
    add("--batch", type=int, default=65_536, help="triples of a score; default %(default)s")
    add("--dim", type=int, default=128, help="features of an embedding; default %(default)s")
    add("--part", type=int, default=1, help="graphs of so many times fewer nodes and edges; default %(default)s")
    add("--jobs", type=int, default=12, help="processes that compile; default %(default)s")
    add("--seconds", type=float, default=LONGEST, help="compile for so long, and measure what is done by then")
    add("--json", action="store_true", help="print a JSON line a module too")
    return parser.parse_args(argv)


def names(arguments: argparse.Namespace) -> list[str]:
    """The modules to measure: those asked for, or all."""
    return [name for name in arguments.only.split(",") if name] or [*cases(arguments)]


Case = tuple[Callable[[], Any], Callable[[int], list[Any]]]
"""How a module is made, and the arguments of its call: of a batch or a graph that is so many times as small."""


def cases(arguments: argparse.Namespace) -> dict[str, Case]:
    """All modules by name, at the sizes asked for."""
    return _scores(arguments) | _convolutions(arguments)


def _scores(arguments: argparse.Namespace) -> dict[str, Case]:
    import torch

    from tests.runtime.trace import score_modules as modules
    from tests.runtime.trace.test_scores import triples_for

    modules.ENTITIES, modules.RELATIONS, modules.D, modules.K = ENTITIES, RELATIONS, arguments.dim, RANK
    modules.Embedded.__init__.__defaults__ = (arguments.dim, arguments.dim)

    def case(kind: Any) -> Case:
        made = torch.nn.Module.eval
        return lambda: made(kind()), lambda part: triples_for(kind(), arguments.batch // part, part)

    return {kind.__name__: case(kind) for kind in modules.MODULES}


def _convolutions(arguments: argparse.Namespace) -> dict[str, Case]:
    try:
        from tests.runtime.trace import convolutions
    except ImportError:  # PyTorch Geometric is not installed
        return {}
    convolutions.F = convolutions.G = arguments.dim // 2
    convolutions.network.__defaults__ = (convolutions.F, convolutions.G)

    def case(name: str) -> Case:
        def given(part: int) -> list[Any]:
            fewer = arguments.part if part == 1 else EXAMPLE_GRAPH
            return list(convolutions.arguments(name, convolutions.graph(NODES // fewer, EDGES // fewer, part)))

        return lambda: convolutions.CONVOLUTIONS[name][0]().eval(), given

    return {name: case(name) for name in convolutions.CONVOLUTIONS}


def measure_all(wanted: Sequence[str], arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row a module, as it is done; first all are compiled, for that keeps all cores busy. What a process that ended
    had begun, and what was not begun in time, has failed."""
    context = multiprocessing.get_context("spawn")
    done, jobs = context.Queue(), min(arguments.jobs, len(wanted))
    with TemporaryDirectory() as folder:
        compiled, device = context.Barrier(jobs), Path(folder) / "device"
        given = [(wanted[at::jobs], arguments, done, compiled, device) for at in range(jobs)]
        processes = [context.Process(target=work, args=each, daemon=True) for each in given]
        for process in processes:
            process.start()
        left = dict.fromkeys(wanted)
        while left and (any(process.is_alive() for process in processes) or not done.empty()):
            try:
                row = done.get(timeout=1)
            except queue.Empty:
                if any(process.exitcode for process in processes):
                    compiled.abort()  # one that ended never comes, and the others would wait for it
                continue
            left.pop(row["module"], None)
            yield row
        for name in left:
            yield {"module": name, "failed": "its process ended"}


def work(wanted: Sequence[str], arguments: argparse.Namespace, done: Any, compiled: Any, device: Path) -> None:
    """A process: compiles its modules, and when all processes have, measures them, alone on the device."""
    import torch

    torch.set_num_threads(1)
    end, ready = monotonic() + arguments.seconds, {}
    for name in wanted:
        try:
            left = int(min(end - monotonic(), LONGEST))
            if left < 1:
                raise TimeoutError("not begun in time")
            with limited(left):
                ready[name] = prepare(*cases(arguments)[name])
        except Exception as error:
            done.put({"module": name, "failed": f"{type(error).__name__}: {str(error)[:200]}"})
    with suppress(BrokenBarrierError):  # as one has ended, and its cores are idle
        compiled.wait()
    for name, (row, runs) in ready.items():
        with device.open("w") as alone:
            fcntl.flock(alone, fcntl.LOCK_EX)
            for kind, sides in runs.items():
                row |= {f"{kind} {side}": ms for side, ms in interleaved(sides).items()}
        done.put({"module": name, **row})


Runs = dict[str, dict[str, Callable[[], Any]]]
"""What is to be measured, by kind and side."""


def prepare(made: Callable[[], Any], given: Callable[[int], list[Any]]) -> tuple[dict[str, Any], Runs]:
    """A module's runs, forward and a step, once its replacement was held against it, and what could not be run."""
    import torch
    from torch.utils._pytree import tree_map

    import explorer

    torch.manual_seed(0)
    module = made()
    replacement = explorer.trace(module, *given(EXAMPLE)).module().cuda()
    module.cuda()
    arguments = tree_map(lambda each: each.cuda() if isinstance(each, torch.Tensor) else each, given(1))
    sides = {"ours": replacement, "eager": module, "compiled": torch.compile(module, dynamic=False)}
    leaves = list(module.parameters())
    row: dict[str, Any] = {"differs": None}
    runs: Runs = {}
    for kind, call in (("forward", _forward), ("step", _step)):
        found, runs[kind] = {}, {}
        for name, side in sides.items():
            run = partial(call, side, arguments, leaves)
            try:
                found[name] = run()
            except TimeoutError:
                raise
            except Exception as error:
                row[f"{kind} {name}"] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:120]}"
                continue
            runs[kind][name] = run
        if {"ours", "eager"} <= found.keys():
            row["differs"] = row["differs"] or _differs(found["ours"], found["eager"])
    return row, runs


def _forward(module: Any, arguments: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    """The results, of a call that wants no gradients."""
    import torch

    with torch.no_grad():
        return _tensors(module(*arguments))


def _step(module: Any, arguments: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    """The gradients of the results' sum by all parameters."""
    for leaf in leaves:
        leaf.grad = None
    results = _tensors(module(*arguments))
    if not leaves:
        return results
    sum(each.sum() for each in results).backward()
    return [leaf.grad for leaf in leaves]


def _tensors(results: Any) -> list[Any]:
    from torch.utils._pytree import tree_leaves

    return [each for each in tree_leaves(results) if hasattr(each, "dtype") and each.is_floating_point()]


def _differs(ours: Sequence[Any], theirs: Sequence[Any]) -> float | None:
    """By how much of the largest number, where that is more than rounding."""
    worst, sizes = 0.0, [float(each.abs().max()) for each in theirs if each is not None and each.numel()]
    least = LEAST * max(sizes, default=0.0)
    for one, other in zip(ours, theirs, strict=True):
        if other is not None and other.numel():
            size = max(float(other.abs().max()), least) or 1.0
            worst = max(worst, float(((0 if one is None else one) - other).abs().max()) / size)
    return worst if worst > TOLERANCE else None


def interleaved(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Milliseconds of a call in a row of them, the median of turns."""
    counts = {}
    for name, run in runs.items():
        for _ in range(3):
            run()
        counts[name] = max(3, min(200, int(TURN_SECONDS / seconds(run, 5))))
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(TURNS):
        for name, run in runs.items():
            samples[name].append(1e3 * seconds(run, counts[name]))
    return {name: median(each) for name, each in samples.items()}


def seconds(run: Callable[[], Any], count: int) -> float:
    """Of a call in a row of so many, from its start to when the device is done."""
    import torch

    torch.cuda.synchronize()
    began = perf_counter()
    for _ in range(count):
        run()
    torch.cuda.synchronize()
    return (perf_counter() - began) / count


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The figures for people."""
    lines = [f"{'module':24}" + "".join(f"{kind} {side:<10}" for kind in ("forward", "step") for side in SIDES)]
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if "failed" in row:
            lines.append(f"{row['module']:24}{row['failed']}")
            continue
        shown = []
        for kind in ("forward", "step"):
            ours = row.get(f"{kind} ours")
            for side in SIDES:
                other = row.get(f"{kind} {side}")
                shown.append(f"{other:<16.4f}" if isinstance(other, float) else f"{str(other)[:14]:16}")
                if side != "ours" and isinstance(other, float) and isinstance(ours, float):
                    ratios.setdefault(f"{kind} {side}", []).append(other / ours)
        lines.append(
            f"{row['module']:24}" + "".join(shown) + (f"DIFFERS {row['differs']:.1e}" if row["differs"] else "")
        )
    for name, found in ratios.items():
        found.sort()
        told = f"median {median(found):.2f} of {len(found)}, least {found[0]:.2f}"
        lines.append(f"{name} over ours: {told}, ours slower in {sum(each < 1 / SLOWER for each in found)}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
