"""Large results are checked by rows that are drawn: the reference gives for these what it gives in the whole, a wrong
one is found, and what was checked is said."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.ir.work import used_values
from explorer.runtime.data import normal
from explorer.runtime.data.graphs import GraphPreset, generate
from explorer.runtime.data.index_arrays import sparse_from
from explorer.runtime.encode.graph import encode
from explorer.runtime.encode.ops import EncodedLists, Sets, programs_of
from explorer.runtime.reference import sampling
from explorer.runtime.reference.numbers.arithmetic import FLOAT64
from explorer.runtime.run import execute
from explorer.runtime.runs import layer as run_layer
from explorer.runtime.runs import op as run_op
from explorer.runtime.runs import score as run_score
from explorer.runtime.runs.request import RunRequest

ROOT = Path(__file__).resolve().parents[3]
SMALL = GraphPreset(num_nodes=300, num_edges=1_500, num_ntypes=3, num_etypes=5, reach=0.5)
FILES = (
    *sorted((ROOT / "examples").glob("*/*.emb")),
    *sorted((ROOT.parent / "shared" / "zoo" / "models").glob("*.emb")),
)
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in FILES}
DEGREES = """dim F = 3
layer Degrees(g: graph):
    input x[node, F], w[edge, F]
    for e in g.edges():
        e["m"] = e.src.x * e.norm / (1 + e.src.in_degree) + w[e]
    for n in g.nodes():
        n["up"] = mean(e["m"] for e in n.outgoing_edges())
    for e in g.edges():
        e["z"] = e.dst["up"] - e.src["up"] * e.dst.in_degree
    return e["z"]
"""
"""What the graph itself counts, of nodes that are neighbours of neighbours."""
BY_TYPE = """dim F = 3
layer ByType(g: graph):
    input x[node, F], m[edge, F]
    param W[etype, F, F]
    for e in g.edges():
        e["s"] = sum(m[k] for k in e.src.incoming_edges()) / (1 + sum(exp(m[k]) for k in e.src.outgoing_edges(e.etype)))
    edge_softmax(g, "s", by=etype)
    for n in g.nodes():
        for r in n.incoming_etypes():
            n["h"] += tanh(sum(e["s"] * x[e.src] for e in n.incoming_edges(r)) @ W[r])
    return n["h"]
"""
"""Of edges of one type at either end, and of the edges of neighbours."""
LAYERS = {"degrees": DEGREES, "by type": BY_TYPE}
DIVIDED = """dim D = 3
op Divided(A: coo[row, col]):
    param X[col, D], P[part, D], Q[other, D]
    for i in A.rows():
        i["y"] = P[i // 7] * sum(a * X[j] * Q[j // 2 % 5] for j, a in A.row(i))
    return i["y"]
"""
DIVIDED_BAGS = """dim D = 3
op Divided(b: bag of row):
    param T[row, D], Q[quotient, D], R[remainder, D]
    return sum(w * Q[i // 6] * R[i % 6] * T[i] for i, w in b)
"""
"""What is computed of numbers of rows and columns, which those of a part keep."""
OPS = {"divided": DIVIDED, "divided bags": DIVIDED_BAGS}


WHOLE = """dim F = 3
layer Whole(g: graph):
    input x[node, F]
    param W[F, F]
    for n in g.nodes():
        n["y"] = mean(x[e.src] @ W for e in n.incoming_edges())
    mu = mean(n["y"] for n in g.nodes())
    top = max(x[e.src] * x[e.dst] for e in g.edges())
    for n in g.nodes():
        n["h"] = n["y"] - mu + top
    return n["h"]
"""
READOUT = WHOLE.replace('return n["h"]', 'return mean(n["h"] for n in g.nodes())')
"""What is of all nodes, and of all edges."""


@cache
def family(text: str) -> str:
    return explorer.compile(text, on_demand=True).family


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MOST_ROWS", 4)
    monkeypatch.setattr(sampling, "HUBS", 2)


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("name", [*(name for name, text in TEXTS.items() if family(text) == "layer"), *LAYERS])
def test_rows_of_a_layer_are_those_of_the_whole(name: str) -> None:
    text = {**TEXTS, **LAYERS}[name]
    data, compilation = generate("small", SMALL), explorer.compile(text, on_demand=True)
    request = RunRequest(text=text, on="cpu", seed=3)
    graph: Any = compilation.stages["graph"].program
    tensors = run_layer.draw_tensors(graph, encode(data).counts, 3)
    sample = run_layer._sample(request, data)
    assert len(sample.rows) <= 6
    assert len(sample.kept["edge"]) < data.num_edges
    whole = run_layer._meaning(request, compilation, data, tensors).result(FLOAT64)
    part = run_layer._sampled(request, compilation, data, tensors, sample).result(FLOAT64)
    np.testing.assert_allclose(part, sample.taken(whole), rtol=1e-11, atol=1e-13)


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("name", [*(name for name, text in TEXTS.items() if family(text) == "op"), *OPS])
def test_rows_of_an_op_are_those_of_the_whole(name: str) -> None:
    """Of coordinates in any order, too."""
    text = {**TEXTS, **OPS}[name]
    compilation, random = explorer.compile(text, on_demand=True), np.random.default_rng(0)
    graph, _ = programs_of(compilation)
    sets = Sets.of(graph)
    lists, picked = 50, 50 if sets.owner == sets.picked else 40
    lengths = random.integers(0, 9, lists)
    entries = int(lengths.sum())
    cols, order = random.integers(0, picked, entries), random.permutation(entries)
    given: dict[str, Any] = {"ptr": np.concatenate(([0], np.cumsum(lengths))), "idx": cols}
    if sets.entry == "nonzero":
        rows = np.repeat(np.arange(lists), lengths)
        given = {"row": rows[order], "col": cols[order], "num_rows": lists, "num_cols": picked}
    encoded = EncodedLists(sets, sparse_from(given, name, "given", picked))
    tensors = run_op.draw_tensors(graph, encoded, 1)
    sample = run_op._sample(graph, encoded, 3)
    assert len(sample.kept[sets.entry]) < entries
    request = RunRequest(text=text, on="cpu")
    whole = run_op._meaning(request, compilation, encoded, tensors).result(FLOAT64)
    found = run_op._sampled(request, compilation, encoded, tensors, sample).result(FLOAT64)
    np.testing.assert_allclose(found, sample.taken(whole), rtol=1e-11, atol=1e-13)


def test_the_rows_of_highest_degree_are_among_them() -> None:
    data = generate("small", SMALL)
    sample = run_layer._sample(RunRequest(text=TEXTS["rgcn"], on="cpu"), data)
    degrees = np.bincount(data.dst, minlength=data.num_nodes)
    assert set(np.argsort(degrees)[-sampling.HUBS // 2 :]) <= set(sample.rows)
    assert sample.hubs == sampling.HUBS


def test_where_rows_depend_on_too_much_fewer_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MOST_ELEMENTS", 200 * 64)
    data = generate("small", SMALL)
    sample = run_layer._sample(RunRequest(text=TEXTS["rgcn"], on="cpu"), data)
    assert 1 <= sample.hubs < sampling.HUBS
    assert sample.hubs < len(sample.rows) < 100
    assert len(sample.kept["edge"]) <= 200


CASES: dict[str, dict[str, Any]] = {
    "layer": {"text": TEXTS["rgat"], "data": "tiny", "sizes": {"F": 8, "G": 8}},
    "op": {"text": TEXTS["spmm"], "data": "com-Youtube/5000"},
    "score": {"text": TEXTS["transe_l2"], "data": "WN18", "batch": 3_000},
}


@pytest.fixture
def all_large(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (run_layer, run_op, run_score):
        monkeypatch.setattr(module, "MEMORY_LIMIT", 0)


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("kind", ["layer", "op"])
def test_what_takes_the_reference_long_is_sampled_however_small_its_arrays(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_layer, "GRADIENT_EDGES", 0)
    request = RunRequest(on="cpu", repeat=1, **CASES[kind])
    assert list(execute(request))[-1]["sampled"] is None
    monkeypatch.setattr(sampling, "MOST_NUMBERS", 1_000)
    found = list(execute(request))[-1]
    assert found["matches_reference"], found
    assert found["sampled"]["rows"] < found["rows"]


def test_the_numbers_that_the_reference_computes() -> None:
    """SpMM reads a row of the table, weighs it and adds it up for each entry: three of D numbers, and the weight."""
    compilation = explorer.compile(TEXTS["spmm"], sizes={"D": 8}, on_demand=True)
    graph, _ = programs_of(compilation)
    sets = Sets.of(graph)
    given = {"rowptr": np.array([0, 2, 5]), "col": np.array([0, 1, 2, 3, 0]), "num_cols": 4}
    encoded = EncodedLists(sets, sparse_from(given, "spmm", "given", 4))
    data = run_op._data(graph, encoded)
    assert sum(sampling._numbers(data, value) for value in used_values(graph)) == 5 * (1 + 3 * 8)


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("text", [WHOLE, READOUT], ids=["nodes", "one row"])
def test_what_is_of_all_elements_needs_them_all(text: str) -> None:
    data, compilation = generate("small", SMALL), explorer.compile(text, on_demand=True)
    request = RunRequest(text=text, on="cpu", seed=3)
    graph: Any = compilation.stages["graph"].program
    tensors = run_layer.draw_tensors(graph, encode(data).counts, 3)
    sample = run_layer._sample(request, data)
    assert (len(sample.kept["node"]), len(sample.kept["edge"])) == (data.num_nodes, data.num_edges)
    whole = run_layer._meaning(request, compilation, data, tensors).result(FLOAT64)
    part = run_layer._sampled(request, compilation, data, tensors, sample).result(FLOAT64)
    np.testing.assert_allclose(part, sample.taken(whole), rtol=1e-11, atol=1e-13)


def test_a_large_table_is_drawn_the_same_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normal, "DRAWN", 100)
    drawn = []
    for processors in (1, 3):
        monkeypatch.setattr(normal.os, "cpu_count", lambda processors=processors: processors)
        drawn.append(normal.standard_normal([1, 2], (35, 7), 2.0))
    np.testing.assert_array_equal(*drawn)
    first = np.random.default_rng([1, 2]).standard_normal(100, dtype=np.float32) / np.float32(2)
    np.testing.assert_array_equal(drawn[0].reshape(-1)[:100], first)
    assert len(np.unique(drawn[0])) == 35 * 7


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("all_large", "few_rows")
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("kind", CASES)
def test_a_run_says_what_was_checked(kind: str, grad: bool) -> None:
    request = RunRequest(on="cpu", repeat=1, seed=5, options={"grad": grad}, **CASES[kind])
    found = list(execute(request))[-1]
    assert found["event"] == "result", found
    assert found["matches_reference"], found["message"]
    assert found["sampled"]["of"] == found["rows"] > found["rows_checked"] == found["sampled"]["rows"]
    assert found["sampled"]["seed"] == 5
    assert found["sampled"]["highest_degree"] == (0 if kind == "score" else 2)
    assert bool(found["gradients"]) == grad


@pytest.mark.usefixtures("all_large", "few_rows")
@pytest.mark.parametrize("kind", CASES)
def test_a_wrong_row_among_them_is_found(kind: str) -> None:
    request = RunRequest(on="cpu", **CASES[kind])
    preparing = {"layer": run_layer, "op": run_op, "score": run_score}[kind].prepare(
        request, explorer.compile(request.text, sizes=request.sizes, on_demand=True)
    )
    while True:
        try:
            next(preparing)
        except StopIteration as done:
            setup: Any = done.value
            break
    got = np.zeros((setup.sample.of, *setup.want.shape[1:]), dtype=np.float32)
    got[setup.sample.rows] = setup.want
    assert setup.check(got).matches
    for row in setup.sample.rows:
        wrong = got.copy()
        wrong[row] += 0.01
        assert not setup.check(wrong).matches
    assert not setup.check(got[:-1]).matches
    assert not setup.check(np.roll(got, 1, axis=0)).matches
