"""Extensions of `explorer export`, built by nvcc and held against `c.torch()` bit for bit, on an NVIDIA GPU.

    explorer bench exported [MODEL.emb ...] [--repeat N] [--keep DIR] [--json]

By default TransR, RGAT, SLS and SpMM, each with its backward pass. All are exported for this GPU and built at once;
each runs its own test against the float64 reference, then both run on the same drawn inputs: `few` ones, whose sums
have one order, and `many`. `bits` is how many elements of the result and of the gradients have other bits, and `again`
the same of two calls of c.torch(), which atomic sums may bring; `apart` how far those differ, of the largest. It needs
PyTorch with CUDA, CuPy and nvcc. Status 1 where anything differs that c.torch() repeats, or by more than 1e-5, or a
build or a test fails, 2 where there is no GPU.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from explorer.compiler.returned import each_returned
from explorer.runtime.encode.declared import declared_in, made_sizes

BY_NAME_ONLY = "needs a GPU, PyTorch and nvcc"
"""`explorer bench` runs this suite only where it is named."""

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
MODELS = ("kge/transr", "rgnn/rgat", "embedding/sls", "embedding/spmm")
APART = 1e-5
COLUMNS = (
    "model",
    "built s",
    "own test",
    "few: bits",
    "few: again",
    "bits",
    "again",
    "apart",
    "c.torch ms",
    "exported ms",
)


@dataclass(frozen=True)
class Drawn:
    """How large inputs are; of `distinct` ids none is drawn twice in a list, as far as there are so many."""

    sizes: Mapping[str, int]
    batch: int
    edges: int
    lists: int
    entries: int
    rows: int
    distinct: bool = False

    def ids(self, count: int, *shape: int) -> Any:
        """Ids below `count`."""
        import torch

        if self.distinct:
            every = torch.cat([torch.randperm(count, device="cuda") for _ in range(prod(shape) // count + 1)])
            return every[: prod(shape)].reshape(shape)
        return torch.randint(0, count, shape, device="cuda")


FEW = Drawn({"entity": 64, "relation": 32, "node": 20, "etype": 6, "ntype": 2}, 16, 30, 12, 30, 40, distinct=True)
MANY = Drawn(
    {"entity": 14_541, "relation": 237, "node": 30_000, "etype": 40, "ntype": 4}, 4096, 400_000, 10_000, 300_000, 16_384
)


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

    sys.path.insert(0, str(folder))
    package = importlib.import_module(next(folder.glob("*_kernels")).name)
    exported = getattr(package, compilation.name)(check_indices=False).cuda()
    ours = compilation.torch(check_indices=False).cuda()
    found: dict[str, Any] = {}
    for label, sizes in (("few: ", FEW), ("", MANY)):
        indices, tensors = drawn(compilation, sizes)
        first, second = (outputs_of(ours, indices, tensors) for _ in range(2))
        theirs = outputs_of(exported, indices, tensors)
        differs, unsteady, gap = differing(first, theirs), differing(first, second), apart(first, theirs)
        found |= {f"{label}bits": _said(differs), f"{label}again": _said(unsteady), f"{label}apart": f"{gap:.1e}"}
        wrong = [name for name in differs if name not in unsteady]
        if wrong or gap > APART:
            fault += f"\n{label}differs by {gap:.1e}: {', '.join(wrong)}"
    times = {
        "c.torch ms": timed(ours, indices, tensors, repeat),
        "exported ms": timed(exported, indices, tensors, repeat),
    }
    return {"outputs": list(first), **found, **times, "fault": fault}


def outputs_of(module: Any, indices: Mapping[str, Any], tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The results with what a backward pass needs and without, and the gradients for upstreams of 1, 2, 3, 1, ..."""
    import torch

    given = {name: tensor.detach().clone().requires_grad_(tensor.requires_grad) for name, tensor in tensors.items()}
    results = each_returned(module(**indices, **given))
    upstreams = [(1 + torch.arange(each.numel(), device="cuda") % 3).reshape(each.shape) for each in results]
    torch.autograd.backward(results, [upstream.to(torch.float32) for upstream in upstreams])
    with torch.no_grad():
        alone = each_returned(module(**indices, **given))
    found = {f"result {number}": each.detach() for number, each in enumerate(results, 1)}
    found |= {f"result {number} alone": each for number, each in enumerate(alone, 1)}
    return found | {f"d {name}": tensor.grad for name, tensor in given.items() if tensor.grad is not None}


def _said(differs: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in differs.items()) or "equal"


def apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """The largest difference of an element, of the largest element of its output."""
    pairs = ((tensor.double(), other[name].double()) for name, tensor in one.items() if tensor.numel())
    return max(float((a - b).abs().max() / a.abs().max().clamp_min(1e-30)) for a, b in pairs)


def differing(one: dict[str, Any], other: dict[str, Any]) -> dict[str, int]:
    """By output, how many elements have other bits."""
    import torch

    assert one.keys() == other.keys(), (list(one), list(other))
    counts = {}
    for name, tensor in one.items():
        assert tensor.shape == other[name].shape, (name, tensor.shape, other[name].shape)
        counts[name] = int((tensor.view(torch.int32) != other[name].view(torch.int32)).sum())
    return {name: count for name, count in counts.items() if count}


def timed(module: Any, indices: Mapping[str, Any], tensors: Mapping[str, Any], repeat: int) -> float:
    """Milliseconds of a result and its gradients, of a graph that was encoded before: the median."""
    import torch

    structure = module.prepare(**indices)
    wanted = [tensor for tensor in tensors.values() if tensor.requires_grad]
    upstreams, times = list(map(torch.ones_like, each_returned(module(structure, **tensors)))), list[float]()
    for _ in range(repeat + 3):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        torch.autograd.grad(each_returned(module(structure, **tensors)), wanted, upstreams)
        ended.record()
        torch.cuda.synchronize()
        times.append(began.elapsed_time(ended))
    return round(median(times[3:]), 4)


def drawn(compilation: Any, sizes: Drawn) -> tuple[dict[str, Any], dict[str, Any]]:
    """The indices of a call and its tensors, on the GPU, by name; those want gradients that have some."""
    import torch

    torch.manual_seed(0)
    graph = compilation.stages["graph"].program
    indices, counts = {"score": _triples, "layer": _edges, "op": _lists}[graph.family](compilation, graph, sizes)
    counts = {**sizes.sizes, **counts}
    for entry in declared_in(graph):
        count = counts.setdefault(entry.codomain, sizes.rows)
        indices[entry.name] = sizes.ids(count, counts[entry.domain])
    counts |= made_sizes(graph.maps, counts)
    tensors = {
        t.name: torch.randn([*(counts[s] for s in t.sets), *map(graph.size, t.dims)], device="cuda")
        for t in graph.tensors
        if t.kind in ("param", "input") or (t.kind == "structure" and graph.family == "op")
    }
    for tensor in graph.tensors:
        if tensor.name in tensors:
            tensors[tensor.name].requires_grad_(graph.wants_gradient(tensor))
    return indices, tensors


def _triples(compilation: Any, graph: Any, drawn: Drawn) -> tuple[dict[str, Any], Mapping[str, int]]:
    from explorer.compiler.ir.index_sets import is_given

    negatives = compilation.options.negatives
    shapes = {"batch": (drawn.batch,), "negative": (drawn.batch, negatives.count if negatives else 0)}
    given = [entry for entry in graph.maps if is_given(entry)]
    counts = {entry.codomain: drawn.sizes.get(entry.codomain, drawn.rows) for entry in given}
    return {e.name: drawn.ids(counts[e.codomain], *shapes[e.domain]) for e in given}, {
        **counts,
        "batch": drawn.batch,
    }


def _edges(compilation: Any, graph: Any, drawn: Drawn) -> tuple[dict[str, Any], Mapping[str, int]]:
    nodes, edges = drawn.sizes["node"], drawn.edges
    ends = {name: drawn.ids(nodes, edges) for name in ("src", "dst")}
    types = {"etype": drawn.ids(drawn.sizes["etype"], edges), "ntype": drawn.ids(drawn.sizes["ntype"], nodes)}
    numbers = {f"num_{name}s": drawn.sizes[name] for name in ("node", "etype", "ntype")}
    return {**ends, **types, **numbers}, {**drawn.sizes, "edge": edges}


def _lists(compilation: Any, graph: Any, drawn: Drawn) -> tuple[dict[str, Any], Mapping[str, int]]:
    import torch

    from explorer.runtime.encode.ops import Sets

    sets = Sets.of(graph)
    lists, rows = drawn.lists, drawn.lists if sets.owner == sets.picked else drawn.rows
    owners, picks = drawn.ids(lists, drawn.entries), drawn.ids(rows, drawn.entries)
    ends = torch.searchsorted(owners.sort().values, torch.arange(lists + 1, device="cuda"))
    forms = {
        "bags": {"ptr": ends, "idx": picks, "num_rows": rows},
        "blocks": {"ptr": ends, "blocks": picks, "num_blocks": rows},
        "csr": {"rowptr": ends, "col": picks, "num_cols": rows},
        "coo": {"row": owners, "col": picks, "num_rows": lists, "num_cols": rows},
    }
    return forms[graph.structure], {sets.owner: lists, sets.entry: drawn.entries, sets.picked: rows}


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
