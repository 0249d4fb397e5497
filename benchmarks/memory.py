"""What a layer's run holds at once: by the account of the arrays that its kernels make, on the shape of a preset.

`explorer bench memory [--json]`. Nothing runs: the preset's graph is generated and its pairs are counted, and the
compiled kernels say which arrays they make and when the last of them has been read. Inputs are counted apart. It fails
where an inference of RGCN makes an array of edges by features, or where any kernel copies a weight.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from explorer.compiler.ir.graph import Graph

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
    import explorer
    from explorer.runtime.arrays import extents_of
    from explorer.runtime.encode.layers import programs, tensor_shape
    from explorer.runtime.liveness import kept_to_the_end, peak_bytes

    text = (CHECKOUT / "examples" / "rgnn" / f"{name}.emb").read_text()
    compilation = explorer.compile(text, sizes=dict(sizes or {}), options=options, on_demand=True)
    graph, module = programs(compilation)
    extents = extents_of(graph, module, counts)
    kernels = [program for program in module.programs if hasattr(program, "buffers")]
    outputs = {b.name: b.extents for kernel in kernels for b in kernel.buffers if b.kind == "output"}
    kept = kept_to_the_end(module)
    made = {buffer: 4 * prod(extents[e] for e in shape) for buffer, shape in outputs.items()}
    faults = []
    if name == "rgcn" and not options["grad"]:
        faults += [f"{b} is made of edges by features" for b, s in outputs.items() if s[0] == "edges" and len(s) > 1]
    shapes = {tensor_shape(graph, t, counts) for t in graph.tensors if t.kind == "param" and t.sets}
    faults += [
        f"{buffer} is as large as a weight"
        for buffer, shape in outputs.items()
        if buffer not in kept and len(shape) > 2 and tuple(extents[e] for e in shape) in shapes
    ]
    return {
        "layer": name,
        **options,
        "operations": operations(graph, counts),
        "peak_bytes": peak_bytes(kernels, kept, extents),
        "result_bytes": sum(made[buffer] for buffer in kept),
        "temporaries": {
            buffer: {"extents": [str(e) for e in outputs[buffer]], "bytes": size}
            for buffer, size in made.items()
            if buffer not in kept
        },
        "input_bytes": sum(4 * prod(tensor_shape(graph, t, counts)) for t in graph.tensors),
        "faults": faults,
    }


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
    lines.append(f"{'layer':6}{'grad':>6}{'reorder':>9}{'compact':>9}{'peak MiB':>12}{'result MiB':>12}  temporaries")
    for row in figures["rows"]:
        shown = ", ".join(f"{name}[{', '.join(made['extents'])}]" for name, made in row["temporaries"].items())
        flags = "".join(f"{'on' if row[flag] else 'off':>{width}}" for flag, width in FLAGS)
        peak, result = (row[key] / 2**20 for key in ("peak_bytes", "result_bytes"))
        lines.append(f"{row['layer']:6}{flags}{peak:>12,.0f}{result:>12,.0f}  {shown or 'none'}")
    return "\n".join([*lines, *figures["faults"]])


FLAGS = (("grad", 6), ("reorder", 9), ("compact", 9))

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
