"""Inference of relational layers on the CPU beside PyTorch Geometric, in the same run on the same cores.

`explorer bench rgnn [--data SOURCE] [--repeat N] [--json]`. The peer of a layer is the fastest of PyG's variants of it
that this machine has the memory for. All take turns on one encoded graph and compute the same rows, which are checked
against the float64 reference first. Peak memory is what a process's resident memory grows by during one call, each
side in a process of its own. The PyTorch Geometric that the figures name must be installed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing.host import heading, interleave, peak_growth, provenance, summary

CHECKOUT = Path(__file__).resolve().parents[1]
SPEED_TARGET, MEMORY_TARGET = 3, 0.2
"""Issue 3: so many times faster than PyG's fastest variant, in so much of its peak memory."""
SHARE_OF_MEMORY = 0.75
"""A variant that would gather more than this share of the memory that is free is left out."""


@dataclass(frozen=True)
class Variant:
    """One of PyG's ways to a layer; `weights_an_edge`: whether it gathers a matrix for every edge."""

    name: str
    weights_an_edge: bool
    build: Callable[[dict[str, Any], int], Callable[[Any, Any, Any], Any]]


@dataclass(frozen=True)
class Case:
    """A layer of the examples; `shared` are the tensors by type of edge that PyG has once for all types."""

    model: str
    variants: tuple[Variant, ...]
    shared: tuple[str, ...] = ()


def _rgcn(class_name: str) -> Callable[[dict[str, Any], int], Callable[[Any, Any, Any], Any]]:
    def build(tensors: dict[str, Any], etypes: int) -> Callable[[Any, Any, Any], Any]:
        from torch_geometric import nn

        layer = getattr(nn, class_name)(*tensors["W"].shape[1:], etypes, aggr="mean", bias=False)
        layer.weight.data, layer.root.data = tensors["W"], tensors["w0"]
        return lambda x, ends, kinds: layer(x, ends, kinds).relu()

    return build


def _rgat(tensors: dict[str, Any], etypes: int) -> Callable[[Any, Any, Any], Any]:
    from torch_geometric.nn import RGATConv

    layer = RGATConv(*tensors["W"].shape[1:], etypes, bias=False)
    layer.weight.data = tensors["W"]
    layer.q.data, layer.k.data = tensors["w_t"][0][:, None], tensors["w_s"][0][:, None]
    run: Callable[[Any, Any, Any], Any] = layer
    return run


CASES = (
    Case("rgcn", (Variant("RGCNConv", False, _rgcn("RGCNConv")), Variant("FastRGCNConv", True, _rgcn("FastRGCNConv")))),
    Case("rgat", (Variant("RGATConv", True, _rgat),), shared=("w_s", "w_t")),
)


def main(argv: Sequence[str]) -> int:
    """Prints a table, or with --json one object; status 1 where a result is wrong, 2 without PyTorch Geometric."""
    parser = argparse.ArgumentParser(prog="explorer bench rgnn", description=__doc__)
    parser.add_argument("--data", default="fb15k", help="a preset or a file of triples; default fb15k")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each side; default 3")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--peak", nargs=2, metavar=("MODEL", "SIDE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    try:
        import torch
        import torch_geometric
    except ImportError as error:
        print(f"This suite needs PyTorch Geometric: {error}. pip install torch torch_geometric", file=sys.stderr)
        return 2
    if arguments.peak:
        model, side = arguments.peak
        bench = Bench(next(case for case in CASES if case.model == model), arguments.data)
        print(peak_growth(bench.sides((side,))[side]))
        return 0
    rows = [measure(case, arguments.data, arguments.repeat) for case in CASES]
    peer = f"PyTorch Geometric {torch_geometric.__version__} on PyTorch {torch.__version__}"
    figures = {**provenance(), "peer": peer, "data": arguments.data, "cases": rows}
    print(json.dumps(figures) if arguments.json else table(figures))
    return 0 if all(row["matches_reference"] for row in rows) else 1


class Bench:
    """One layer on one graph: the compiled program, its inputs, and the reference's result."""

    def __init__(self, case: Case, data: str) -> None:
        import explorer
        from explorer.runtime.data.graphs import load_graph
        from explorer.runtime.encode.graph import encode
        from explorer.runtime.encode.layers import programs
        from explorer.runtime.runs.layer import draw_tensors

        self.case = case
        self.text = (CHECKOUT / "examples" / "rgnn" / f"{case.model}.emb").read_text()
        self.compilation = explorer.compile(self.text, on_demand=True)
        self.graph, self.module = programs(self.compilation)
        self.encodings = encode(load_graph(data))
        self.tensors = draw_tensors(self.graph, self.encodings.counts, seed=0)
        for name in case.shared:
            self.tensors[name][:] = self.tensors[name][:1]

    def reference(self) -> Any:
        """The result in float64, with bounds of what float32 may differ by."""
        from explorer.runtime.reference.evaluate import layer
        from explorer.runtime.reference.numbers.arithmetic import BOUNDED

        graph = self.encodings.graph
        counts = {name: getattr(graph, name) for name in ("num_nodes", "num_etypes", "num_ntypes")}
        return layer(
            self.text, {**graph.arrays(), **counts, **self.tensors}, self.compilation.sizes, arithmetic=BOUNDED
        )

    def variants(self) -> tuple[Variant, ...]:
        """The variants for which there is memory now."""
        gathered = 4 * self.encodings.counts["edge"] * int(np.prod(self.tensors["W"].shape[1:]))
        fits = gathered <= SHARE_OF_MEMORY * available_bytes()
        return tuple(variant for variant in self.case.variants if fits or not variant.weights_an_edge)

    def sides(self, names: Sequence[str]) -> dict[str, Callable[[], Any]]:
        """Those named, ready to run: "explorer", and variants of PyG."""
        import torch

        from explorer.runtime.encode.layers import program_inputs
        from explorer.runtime.targets.cpu import prepare, threads

        sides: dict[str, Callable[[], Any]] = {}
        if "explorer" in names:
            arrays = program_inputs(self.graph, self.module, self.encodings, self.tensors)
            sides["explorer"] = prepare(self.module).bind(arrays)
        torch.set_num_threads(threads())
        maps = {name: torch.from_numpy(self.encodings.maps[name].astype(np.int64)) for name in ("src", "dst", "etype")}
        tensors = {name: torch.from_numpy(array) for name, array in self.tensors.items()}
        features = next(tensors[tensor.name] for tensor in self.graph.tensors if tensor.kind == "input")
        ends = torch.stack((maps["src"], maps["dst"]))
        for variant in self.case.variants:
            if variant.name in names:
                layer = variant.build(tensors, self.encodings.counts["etype"])
                sides[variant.name] = _without_gradients(layer, features, ends, maps["etype"])
        return sides


def _without_gradients(layer: Callable[[Any, Any, Any], Any], *arguments: Any) -> Callable[[], Any]:
    import torch

    def run() -> Any:
        with torch.no_grad():
            return layer(*arguments).numpy()

    return run


def available_bytes() -> int:
    """The memory that can be had without swapping (Linux)."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1])


def measure(case: Case, data: str, repeat: int) -> dict[str, Any]:
    """One row of the table; a wrong result has no times."""
    from explorer.runtime.reference.compare import compare

    bench = Bench(case, data)
    variants = [variant.name for variant in bench.variants()]
    left_out = [variant.name for variant in case.variants if variant.name not in variants]
    want = bench.reference()
    sides = bench.sides(["explorer", *variants])
    errors = {name: compare(run(), want).ratio for name, run in sides.items()}
    row: dict[str, Any] = {"model": case.model, "matches_reference": max(errors.values()) <= 1}
    row |= {"error_over_bound": errors, "left_out_for_memory": left_out}
    row |= {"speed_target": SPEED_TARGET, "memory_target": MEMORY_TARGET}
    if not row["matches_reference"]:
        return row
    times = {name: summary(samples) for name, samples in interleave(sides, repeat).items()}
    peaks = {name: peak_in_a_process(case, name, data) for name in sides}
    row |= {"ms": times, "peak_bytes": peaks}
    if variants:
        peer = min(variants, key=lambda name: times[name]["median"])
        row["peer"] = peer
        row["speed"] = round(times[peer]["median"] / times["explorer"]["median"], 2)
        row["memory"] = round(peaks["explorer"] / max(1, peaks[peer]), 4)
    return row


def peak_in_a_process(case: Case, side: str, data: str) -> int:
    """The peak of one call in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.rgnn", "--data", data, "--peak", case.model, side]
    return int(subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout)


def table(figures: dict[str, Any]) -> str:
    """The figures for people."""
    lines = [
        f"{heading(figures)}; {figures['data']}; beside {figures['peer']}",
        "",
        f"{'layer':8}{'side':16}{'median ms':>11}{'p5':>10}{'p95':>10}{'peak MiB':>11}",
    ]
    for row in figures["cases"]:
        if not row["matches_reference"]:
            lines.append(f"{row['model']:8}wrong: errors over what they may be {row['error_over_bound']}")
            continue
        for name, times in row["ms"].items():
            start = f"{row['model']:8}{name:16}{times['median']:>11.1f}{times['p5']:>10.1f}{times['p95']:>10.1f}"
            lines.append(f"{start}{row['peak_bytes'][name] / 2**20:>11.1f}")
        if "peer" in row:
            lines.append(
                f"{'':8}{row['speed']:.1f}x {row['peer']} (target {row['speed_target']}x) in {row['memory']:.1%} of its"
                f" memory (target {row['memory_target']:.0%})"
            )
        lines += [f"{'':8}{name} is left out: too little memory is free" for name in row["left_out_for_memory"]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
