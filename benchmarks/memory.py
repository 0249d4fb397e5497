"""What a layer's run holds at once: by the account of the arrays that its kernels make, on the shape of a preset.

`explorer bench memory [--json]`. Nothing runs: the preset's graph is generated and its pairs are counted, and the
compiled kernels say which arrays they make. These lie where a module of PyTorch puts them on a GPU: two that are never
needed at once share a place, what launches of one kernel hand on is there too, and what a forward pass makes is held
until the backward pass is done. Inputs, and arrays of a graph's indices, are counted apart. It fails where the loops of
RGCN's inference, or its compact kernels, make an array of edges by features, or where any kernel copies a weight.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation
    from explorer.compiler.ir.graph import Graph
    from explorer.compiler.ir.loops import Buffer
    from explorer.runtime.targets.gpu.program import GpuProgram

CHECKOUT = Path(__file__).resolve().parents[1]
DATA = "mag"
SWITCHES = [(reorder, compact) for reorder in (False, True) for compact in (False, True)]


def main(argv: Sequence[str]) -> int:
    """Prints a table, or with --json one object; status 1 where an array is larger than it may be."""
    parser = argparse.ArgumentParser(prog="explorer bench memory", description=__doc__)
    parser.add_argument("--data", default=DATA, help=f"a generated graph or a file of triples; default {DATA}")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    figures = measure(arguments.data)
    print(json.dumps(figures) if arguments.json else table(figures))
    return 0 if not figures["faults"] else 1


def measure(data: str) -> dict[str, Any]:
    """The peak bytes of each layer under the four settings, with and without the backward pass of RGAT."""
    from explorer.runtime.data.graphs import load_graph

    graph = load_graph(data)
    counts = set_sizes(graph)
    rows = [
        account(name, counts, {"reorder": reorder, "compact": compact, "grad": grad})
        for name, grad in (("rgat", False), ("rgcn", False), ("rgat", True))
        for reorder, compact in SWITCHES
    ]
    return {
        "source": "counted",
        "date": datetime.now(UTC).date().isoformat(),
        "data": data,
        "counts": counts,
        "rows": rows,
        "faults": [f"{row['layer']}: {fault}" for row in rows for fault in row["faults"]],
    }


def set_sizes(graph: Any) -> dict[str, int]:
    """The sizes of a graph's index sets; its unique pairs are ticked off, a bit for each that there could be."""
    import numpy as np

    counts = {
        "node": graph.num_nodes,
        "edge": graph.num_edges,
        "etype": graph.num_etypes,
        "ntype": graph.num_ntypes,
    }
    for name, end in (("src_pair", graph.src), ("dst_pair", graph.dst)):
        seen = np.zeros(graph.num_nodes * graph.num_etypes, dtype=np.bool_)
        seen[end.astype(np.int64) * graph.num_etypes + graph.etype] = True
        counts[name] = int(seen.sum())
    return counts


def account(
    name: str, counts: Mapping[str, int], options: Mapping[str, bool], sizes: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """One layer's arrays under one setting, on a graph whose sets have these sizes; `sizes` are those of dimensions."""
    from explorer.runtime.arrays import kernels_of
    from explorer.runtime.encode.layers import programs, tensor_shape, upstream_names
    from explorer.runtime.targets.gpu.memory import buffer_bytes
    from explorer.runtime.targets.gpu.phases import Held

    compilation, program = compiled(name, tuple(options.items()), tuple((sizes or {}).items()))
    graph, module = programs(compilation)
    extents = sizes_on(compilation, program, counts)
    held = Held.of(program, upstream_names(graph), extents)
    made = {b.name: b for b in program.code.buffers if b.name in program.code.made and b.kind != "index"}
    temporaries = {name: buffer for name, buffer in made.items() if name not in program.kept}
    between = {
        b.name: b for k in kernels_of(module) for b in k.buffers if b.kind == "output" and b.name not in module.kept
    }
    forward = made_forward(program, upstream_names(graph))
    weights = {tensor_shape(graph, t, counts) for t in graph.tensors if t.kind == "param" and t.sets}
    # Of a backward pass, kernels hand on sums of weights' gradients, as large as these: what it copies, loops show.
    faults = as_large_as(weights, {**between, **{n: b for n, b in temporaries.items() if n in forward}}, extents)
    if name == "rgcn" and not options["grad"]:
        faults += by_edges({**between, **(temporaries if options["compact"] else {})})
    given = [buffer for buffer in program.code.buffers if buffer.name not in program.code.made]
    return {
        "layer": name,
        **options,
        "operations": operations(graph, counts),
        "launches": sum(not launch.once for launch in program.code.launches),
        "peak_bytes": held.most,
        "forward_bytes": held.forward,
        "backward_bytes": held.backward,
        "inspected_bytes": held.inspected,
        "result_bytes": sum(buffer_bytes(made[buffer], extents) for buffer in program.kept),
        "temporaries": {
            buffer.name: {"extents": [str(e) for e in buffer.extents], "bytes": buffer_bytes(buffer, extents)}
            for buffer in temporaries.values()
        },
        "input_bytes": sum(4 * prod(tensor_shape(graph, t, counts)) for t in graph.tensors),
        "index_bytes": sum(buffer_bytes(buffer, extents) for buffer in given if buffer.kind == "index"),
        "faults": faults,
    }


def made_forward(program: GpuProgram, upstreams: Sequence[str]) -> set[str]:
    """The arrays that the kernels of the results write."""
    from explorer.runtime.targets.gpu.phases import Phases

    phases = Phases.of(program, upstreams)
    return {name for launch in (*phases.parts, phases.whole)[0].launches for name in launch.writes}


def as_large_as(
    weights: Collection[tuple[int, ...]], made: Mapping[str, Buffer], sizes: Mapping[str, int]
) -> list[str]:
    """Says which of some arrays have the shape of a weight of types."""
    from explorer.runtime.targets.gpu.memory import shape_of

    large = (name for name, buffer in made.items() if len(buffer.extents) > 2 and shape_of(buffer, sizes) in weights)
    return [f"{name} is as large as a weight" for name in large]


def by_edges(made: Mapping[str, Buffer]) -> list[str]:
    """Says which of some arrays have a row for each edge."""
    rows = (name for name, buffer in made.items() if len(buffer.extents) > 1 and buffer.extents[0] == "edges")
    return [f"{name} is made of edges by features" for name in rows]


@cache
def compiled(
    name: str, options: tuple[tuple[str, Any], ...], sizes: tuple[tuple[str, int], ...]
) -> tuple[Compilation, GpuProgram]:
    """A layer and its kernels as a module of PyTorch has them: those of results apart from those of gradients, where
    they would have some in common."""
    import explorer
    from explorer.runtime.encode.layers import programs, upstream_names
    from explorer.runtime.targets.gpu.phases import Phases
    from explorer.runtime.targets.gpu.program import GpuProgram

    text = (CHECKOUT / "examples" / "rgnn" / f"{name}.emb").read_text()
    compilation = explorer.compile(text, sizes=dict(sizes), options=dict(options), on_demand=True)
    program, upstreams = GpuProgram.of_stage(compilation, "cuda"), upstream_names(programs(compilation)[0])
    if upstreams and not Phases.of(program, upstreams).parts:
        compilation = compilation.with_options(apart=True)
        program = GpuProgram.of_stage(compilation, "cuda")
    return compilation, program


def sizes_on(compilation: Compilation, program: GpuProgram, counts: Mapping[str, int]) -> dict[str, int]:
    """The sizes of all extents of a layer's kernels on a graph whose sets have these."""
    from explorer.runtime.arrays import extents_of
    from explorer.runtime.encode.layers import programs
    from explorer.runtime.targets.gpu.memory import sizes_of

    return sizes_of(program.code, extents_of(*programs(compilation), counts))


def operations(graph: Graph, counts: Mapping[str, int]) -> int:
    """The operations of a graph, as the passes left it, for every element of each set."""
    from explorer.compiler.ir.index_sets import with_products
    from explorer.compiler.ir.work import work_of

    sizes = with_products(graph, {**counts, "unit": 1})
    return sum(sizes[index_set] * work for index_set, work in (work_of(graph, value) for value in graph.values))


def table(figures: dict[str, Any]) -> str:
    """The figures for people."""
    sizes = ", ".join(f"{size:,} {name}s" for name, size in figures["counts"].items())
    lines = [f"{figures['source']} on the shape of {figures['data']}, {figures['date']}: {sizes}", ""]
    shown = "".join(f"{f'{name} MiB':>13}" for name in SHOWN)
    lines.append(f"{'layer':6}{'grad':>6}{'reorder':>9}{'compact':>9}{shown}  largest temporaries")
    for row in figures["rows"]:
        flags = "".join(f"{'on' if row[flag] else 'off':>{width}}" for flag, width in FLAGS)
        numbers = "".join(f"{row[f'{name}_bytes'] / 2**20:>13,.1f}" for name in SHOWN)
        lines.append(f"{row['layer']:6}{flags}{numbers}  {largest(row['temporaries'])}")
    return "\n".join([*lines, "", *(figures["faults"] or ["no kernel copies a weight"])])


def largest(temporaries: Mapping[str, Any]) -> str:
    """The first few of what kernels hand on, by their bytes."""
    first = sorted(temporaries.items(), key=lambda named: -named[1]["bytes"])
    shown = [f"{name}[{', '.join(made['extents'])}]" for name, made in first[:MOST_SHOWN]]
    return ", ".join([*shown, *([f"{len(first) - MOST_SHOWN} more"] if len(first) > MOST_SHOWN else [])]) or "none"


FLAGS = (("grad", 6), ("reorder", 9), ("compact", 9))
SHOWN = ("peak", "forward", "backward", "result")
MOST_SHOWN = 3

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
