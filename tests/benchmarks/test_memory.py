"""The account of memory: what it says of a small graph, and that it is the account of a run."""

import json

import numpy as np
import pytest

import explorer
from benchmarks import memory
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


def test_rgcn_makes_nothing_of_edges_by_features():
    graph = load_graph("small")
    for reorder, compact in memory.SWITCHES:
        options = {"reorder": reorder, "compact": compact, "grad": False}
        row = memory.account("rgcn", memory.set_sizes(graph), options)
        assert row["faults"] == []
        assert all(made["extents"][0] != "edges" for made in row["temporaries"].values())


@pytest.mark.parametrize("grad", [False, True])
def test_the_account_is_that_of_a_run(grad):
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
