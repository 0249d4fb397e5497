"""Extensions of `explorer export`, built by nvcc and held against `c.torch()` bit for bit, on an NVIDIA GPU.

    explorer bench exported [MODEL.emb ...] [--repeat N] [--keep DIR] [--json]

By default TransR, RGAT, SLS and SpMM, each with its backward pass. All are exported for this GPU and built at once;
each runs its own test against the float64 reference, then both run on the same drawn inputs. `bits` is what differs of
the result and of the gradients; `again` what differs between two calls of c.torch(), where sums have no fixed order. It
needs PyTorch with CUDA, CuPy and nvcc. Status 1 where anything differs that c.torch() repeats, or a build or a test
fails, 2 where there is no GPU.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

BY_NAME_ONLY = "needs a GPU, PyTorch and nvcc"
"""`explorer bench` runs this suite only where it is named."""

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
MODELS = ("kge/transr", "rgnn/rgat", "embedding/sls", "embedding/spmm")
SIZES = {"entity": 14_541, "relation": 237, "node": 30_000, "etype": 40, "ntype": 4}
BATCH, EDGES, LISTS, ENTRIES, ROWS = 4096, 400_000, 10_000, 300_000, 16_384
COLUMNS = ("model", "built s", "own test", "bits", "again", "c.torch ms", "exported ms")


def main(argv: Sequence[str]) -> int:
    """Builds and compares; returns the exit status."""
    from benchmarks.gpu import missing_gpu

    parser = argparse.ArgumentParser(
        prog="explorer bench exported", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", metavar="MODEL.emb", nargs="*", type=Path, help="other texts than the four")
    parser.add_argument("--repeat", type=int, default=30, help="timed calls; default %(default)s")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the extensions in this folder")
    parser.add_argument("--json", action="store_true", help="print one JSON object a model")
    arguments = parser.parse_args(argv)
    if missing := missing_gpu():
        print(f"not measured, there is no GPU to use: {missing}", file=sys.stderr)
        return 2
    files = arguments.models or [EXAMPLES / f"{name}.emb" for name in MODELS]
    with tempfile.TemporaryDirectory() as made:
        rows = [row_of(*each, arguments.repeat) for each in built(files, arguments.keep or Path(made))]
    if arguments.json:
        print("\n".join(map(json.dumps, rows)))
    else:
        print(table(rows))
    return int(any(row["fault"] for row in rows))


def built(files: Sequence[Path], folder: Path) -> list[tuple[Any, Path, float, str]]:
    """Each model's compilation and its extension's folder, how long that was built, and what the compiler said if it
    failed. All are built at once."""
    import explorer
    from explorer.runtime.export.folder import export
    from explorer.runtime.targets.gpu.device import current_device

    running = []
    for file in files:
        options = {"grad": True, "arch": current_device().compile_for}
        compilation = explorer.compile(file.read_text(), options=options, on_demand=True)
        assert compilation.ok, compilation.diagnostics
        target = folder / file.stem
        export(compilation, target, grad=True)
        said = (target / "build.log").open("w+")
        command = [sys.executable, "setup.py", "build_ext", "--inplace"]
        running.append((compilation, target, subprocess.Popen(command, cwd=target, stdout=said, stderr=said), said))
    began, found = perf_counter(), []
    for compilation, target, process, said in running:
        failed = process.wait() != 0
        said.seek(0)
        found.append((compilation, target, perf_counter() - began, said.read()[-4000:] if failed else ""))
    return found


def row_of(compilation: Any, folder: Path, seconds: float, fault: str, repeat: int) -> dict[str, Any]:
    """What is found of one model; `fault` says what is wrong with it."""
    row: dict[str, Any] = {"model": compilation.name, "built s": round(seconds, 1), "fault": fault}
    if fault:
        return row
    test = subprocess.run([sys.executable, "test_extension.py"], cwd=folder, capture_output=True, text=True)
    row["own test"] = "passes" if test.returncode == 0 else "fails"
    if test.returncode:
        row["fault"] = (test.stdout + test.stderr)[-2000:]
    try:
        return row | compared(compilation, folder, repeat, row["fault"])
    except Exception as error:  # what a bad extension may come to: the others are still to be seen
        return row | {"fault": f"{row['fault']}\n{type(error).__name__}: {error}"}


def compared(compilation: Any, folder: Path, repeat: int, fault: str) -> dict[str, Any]:
    """The outputs of both on the same inputs, and what both take for a result and its gradients."""
    import torch

    sys.path.insert(0, str(folder))
    package = importlib.import_module(next(folder.glob("*_kernels")).name)
    exported = getattr(package, compilation.name)(check_indices=False).cuda()
    ours = compilation.torch(check_indices=False).cuda()
    indices, tensors = drawn(compilation)
    upstream: list[Any] = []

    def call(module: Any) -> dict[str, Any]:
        structure = module.prepare(**indices) if compilation.family != "score" else None
        given = {n: t.detach().clone().requires_grad_(n in ours.learnt) for n, t in tensors.items()}
        result = module(structure, **given) if structure is not None else module(**indices, **given)
        if not upstream:
            upstream.append(torch.randn(result.shape, device="cuda"))
        result.backward(upstream[0])
        with torch.no_grad():
            alone = module(structure, **given) if structure is not None else module(**indices, **given)
        grads = {f"d {name}": tensor.grad for name, tensor in given.items() if tensor.grad is not None}
        return {"result": result.detach(), "result alone": alone, **grads}

    first, second, theirs = call(ours), call(ours), call(exported)
    differs, unsteady = differing(first, theirs), differing(first, second)
    wrong = [name for name in differs if name not in unsteady]
    return {
        "outputs": list(first),
        "bits": ", ".join(f"{name}: {count:,}" for name, count in differs.items()) or "equal",
        "again": ", ".join(f"{name}: {count:,}" for name, count in unsteady.items()) or "equal",
        "c.torch ms": timed(lambda: call(ours), repeat),
        "exported ms": timed(lambda: call(exported), repeat),
        "fault": fault or ("differs: " + ", ".join(wrong) if wrong else ""),
    }


def differing(one: dict[str, Any], other: dict[str, Any]) -> dict[str, int]:
    """By output, how many elements have other bits."""
    import torch

    assert one.keys() == other.keys(), (list(one), list(other))
    counts = {}
    for name, tensor in one.items():
        assert tensor.shape == other[name].shape, (name, tensor.shape, other[name].shape)
        counts[name] = int((tensor.view(torch.int32) != other[name].view(torch.int32)).sum())
    return {name: count for name, count in counts.items() if count}


def timed(call: Callable[[], Any], repeat: int) -> float:
    """Milliseconds of a call, with the clearing and copying around it, which both have: the median."""
    import torch

    times = []
    for _ in range(repeat + 3):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        call()
        ended.record()
        torch.cuda.synchronize()
        times.append(began.elapsed_time(ended))
    return round(median(times[3:]), 4)


def drawn(compilation: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The indices of a call and its tensors, on the GPU, by name: those of small data, of a model's family."""
    import torch

    torch.manual_seed(0)
    graph = compilation.stages["graph"].program
    indices, counts = {"score": _triples, "layer": _edges, "op": _lists}[graph.family](compilation, graph)
    tensors = {
        t.name: torch.randn([*(counts[s] for s in t.sets), *map(graph.size, t.dims)], device="cuda")
        for t in graph.tensors
        if t.kind in ("param", "input") or (t.kind == "structure" and graph.family == "op")
    }
    return indices, tensors


def _ids(count: int, *shape: int) -> Any:
    import torch

    return torch.randint(0, count, shape, device="cuda")


def _triples(compilation: Any, graph: Any) -> tuple[dict[str, Any], dict[str, int]]:
    from explorer.compiler.ir.index_sets import is_given

    negatives = compilation.options.negatives
    shapes = {"batch": (BATCH,), "negative": (BATCH, negatives.count if negatives else 0)}
    given = [entry for entry in graph.maps if is_given(entry)]
    return {entry.name: _ids(SIZES[entry.codomain], *shapes[entry.domain]) for entry in given}, SIZES


def _edges(compilation: Any, graph: Any) -> tuple[dict[str, Any], dict[str, int]]:
    nodes = SIZES["node"]
    indices = {"src": _ids(nodes, EDGES), "dst": _ids(nodes, EDGES), "etype": _ids(SIZES["etype"], EDGES)}
    numbers = {f"num_{name}s": SIZES[name] for name in ("node", "etype", "ntype")}
    return {**indices, "ntype": _ids(SIZES["ntype"], nodes), **numbers}, {**SIZES, "edge": EDGES}


def _lists(compilation: Any, graph: Any) -> tuple[dict[str, Any], dict[str, int]]:
    import torch

    from explorer.runtime.encode.ops import Sets

    sets = Sets.of(graph)
    rows = LISTS if sets.owner == sets.picked else ROWS
    owners, picks = _ids(LISTS, ENTRIES), _ids(rows, ENTRIES)
    ends = torch.searchsorted(owners.sort().values, torch.arange(LISTS + 1, device="cuda"))
    forms = {
        "bags": {"ptr": ends, "idx": picks, "num_rows": rows},
        "blocks": {"ptr": ends, "blocks": picks, "num_blocks": rows},
        "csr": {"rowptr": ends, "col": picks, "num_cols": rows},
        "coo": {"row": owners, "col": picks, "num_rows": LISTS, "num_cols": rows},
    }
    return forms[graph.structure], {sets.owner: LISTS, sets.entry: ENTRIES, sets.picked: rows}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows in columns, and behind them what is wrong."""
    import torch

    shown = [[str(row.get(column, "-")) for column in COLUMNS] for row in rows]
    widths = [max(map(len, column)) for column in zip(COLUMNS, *shown, strict=True)]
    lines = [f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__} (measured)"]
    lines += [
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)) for row in (COLUMNS, *shown)
    ]
    lines += [f"{row['model']}: {row['fault']}" for row in rows if row["fault"]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
