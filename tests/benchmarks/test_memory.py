"""The account of memory: what it says of a small graph, and that a run on the CPU holds what its kernels tell.

That the account is what a module of PyTorch asks a GPU for is in tests/runtime/torch/test_account.py.
"""

import json

import numpy as np
import pytest

import explorer
from benchmarks import memory
from explorer.compiler.ir.loops import Buffer
from explorer.runtime import liveness
from explorer.runtime.arrays import extents_of
from explorer.runtime.data.graphs import load_graph
from explorer.runtime.encode.graph import encode
from explorer.runtime.encode.layers import program_inputs, programs
from explorer.runtime.runs.layer import draw_tensors
from explorer.runtime.targets import cpu


def test_the_suite_counts_all_settings(capsys):
    assert memory.main(["--data", "small", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["source"] == "counted"
    peaks = {(r["layer"], r["grad"], r["reorder"], r["compact"]): r["peak_bytes"] for r in figures["rows"]}
    assert len(peaks) == 12
    assert peaks["rgat", False, True, True] < peaks["rgat", False, False, False]
    assert "rgat" in memory.table(figures)


def test_pairs_are_counted_as_encoding_finds_them():
    graph = load_graph("small")
    assert memory.set_sizes(graph) == encode(graph).counts


def test_rgcn_makes_nothing_of_edges_by_features_where_it_is_compact():
    """Its loops never do; of plain ones the products by tiles are an array of edges, and that is in the account."""
    graph = load_graph("small")
    for reorder, compact in memory.SWITCHES:
        options = {"reorder": reorder, "compact": compact, "grad": False}
        row = memory.account("rgcn", memory.set_sizes(graph), options)
        assert row["faults"] == []
        assert compact != any(made["extents"][0] == "edges" for made in row["temporaries"].values())


def test_copies_of_weights_and_arrays_of_edges_are_faults():
    def buffer(name, *extents):
        return Buffer(name=name, kind="output", extents=extents, origin=())

    made = {each.name: each for each in (buffer("w", "etypes", "F", 4), buffer("m", "edges", 4), buffer("a", "edges"))}
    sizes = {"etypes": 3, "F": 5, "edges": 7}
    assert memory.as_large_as({(3, 5, 4)}, made, sizes) == ["w is as large as a weight"]
    assert memory.as_large_as({(3, 4, 5), (7, 4)}, made, sizes) == []
    assert memory.by_edges(made) == ["m is made of edges by features"]


@pytest.mark.parametrize("grad", [False, True])
def test_a_run_on_the_cpu_holds_what_is_told(grad):
    encodings = encode(load_graph("tiny"))
    text = (memory.CHECKOUT / "examples" / "rgnn" / "rgcn.emb").read_text()
    compilation = explorer.compile(text, sizes={"F": 3, "G": 2}, options={"grad": grad})
    graph, module = programs(compilation)
    tensors = draw_tensors(graph, encodings.counts, seed=0)
    bound = cpu.prepare(module).bind(program_inputs(graph, module, encodings, tensors))
    kept = liveness.kept_to_the_end(module)
    extents = extents_of(graph, module, encodings.counts)
    assert bound.peak_bytes == liveness.peak_bytes(module.programs, kept, extents, cpu.threads())
    result, gradients = bound.run()
    held = result.nbytes + sum(np.asarray(gradient).nbytes for gradient in gradients.values())
    assert bound.peak_bytes >= held
