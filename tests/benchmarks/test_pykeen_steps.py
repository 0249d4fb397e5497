"""Training steps beside PyKEEN's own: the texts that have its losses, and the table."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import explorer
from benchmarks import pykeen as steps

F64 = np.float64


def clamped(x: np.ndarray) -> np.ndarray:
    norms = np.sqrt((x**2).sum(-1, keepdims=True))
    return np.where(norms < 1, x, x / norms)


def complex_of(x: np.ndarray) -> np.ndarray:
    return x[:, ::2] + 1j * x[:, 1::2]


def far_transr(x: np.ndarray, r: np.ndarray, y: np.ndarray, p: np.ndarray) -> np.ndarray:
    ends = [clamped(np.einsum("nd,ndk->nk", each, p)) for each in (x, y)]
    return np.abs(ends[0] + r - ends[1]).sum(-1)


FAR = {
    "TransE": lambda x, y, r: np.abs(x + r - y).sum(-1),
    "DistMult": lambda x, y, r: -(x * r * y).sum(-1),
    "ComplEx": lambda x, y, r: -(complex_of(x) * complex_of(r) * complex_of(y).conj()).sum(-1).real,
    "RotatE": lambda x, y, r: np.sqrt((np.abs(complex_of(x) * complex_of(r) - complex_of(y)) ** 2).sum(-1)),
    "TransR": lambda x, y, r, p: far_transr(x, r, y, p),
    "RESCAL": lambda x, y, m: -np.einsum("nd,nde,ne->n", x, m, y),
}
"""How far a head is from its tail, the less the likelier: from the models' papers, in float64."""


@pytest.mark.parametrize("case", steps.CASES, ids=lambda case: case.model)
def test_a_text_is_the_margin_of_its_model(case: steps.Case) -> None:
    random = np.random.default_rng(3)
    compiled = explorer.compile(case.text, sizes={"D": 6, **({"K": 4} if "TransR" in case.model else {})})
    counts = {"entity": 5, "relation": 3}
    ids = {name: random.integers(0, counts["relation" if name == "r" else "entity"], 7) for name in "hrtab"}
    graph = compiled.stages["graph"].program
    tensors = {
        tensor.name: random.normal(size=(counts[tensor.sets[0]], *map(graph.size, tensor.dims))).astype(np.float32)
        for tensor in graph.tensors
    }
    entities, *relations = (table.astype(F64) for table in tensors.values())
    of_relation = [table[ids["r"]] for table in relations]
    near, corrupted = (FAR[case.model](entities[ids[x]], entities[ids[y]], *of_relation) for x, y in ("ht", "ab"))
    narrow = {name: each.astype(np.int32) for name, each in ids.items()}
    got = compiled.run({**narrow, **tensors}, "cpu")
    np.testing.assert_allclose(got, np.maximum(0, 1 + near - corrupted), rtol=1e-5, atol=1e-5)


def test_without_pykeen_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "pykeen", None)
    assert steps.main(["TransE"]) == 2
    assert "PyKEEN is not installed here" in capsys.readouterr().err


def test_the_table_tells_times_and_losses_that_part() -> None:
    each = zip(steps.SIDES, (4.0, 2.0, 1.0, 0.5), strict=True)
    times = {name: {"median": ms, "p5": ms, "p95": ms} for name, ms in each}
    rows = [
        {"model": "TransE", "same": True, "losses_differ_by": 0.0, "refused": {}, "ms": times},
        {
            "model": "RESCAL",
            "same": True,
            "losses_differ_by": 0.0,
            "refused": {steps.SIDES[1]: "forward changes what the module holds"},
            "ms": {name: each for name, each in times.items() if name not in (steps.SIDES[1], steps.GRAPHED)},
        },
        {"model": "TransR", "same": False, "losses_differ_by": 0.25, "refused": {}},
    ]
    facts = {"source": "measured", "device": "a CPU", "date": "2026-11-30", "data": "FB15k-237", "batch": 1_024}
    lines = steps.table({**facts, "rows": rows}).splitlines()
    assert lines[-4].split() == ["TransE", "4.00", "2.00", "1.00", "0.50", "0.50,", "0.25,", "0.12"]
    assert lines[-3].split() == ["RESCAL", "4.00", "-", "1.00", "-", "-,", "0.25,", "-"]
    assert lines[-2].strip() == "traced scores: forward changes what the module holds"
    assert lines[-1].split(maxsplit=1) == ["TransR", "losses differ by 2.5e-01"]


@pytest.mark.parametrize("model", ["TransE", "TransR"])
def test_all_sides_have_the_losses_of_pykeen(model: str) -> None:
    pytest.importorskip("pykeen.models", reason="the peer is PyKEEN, which this machine does without")
    (case,) = (case for case in steps.CASES if case.model == model)
    assert steps.measured(case, "FB15k-237", "cpu", 1)["same"]
