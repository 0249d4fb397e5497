"""A graph's destinations or sources and a matrix's rows found by searches: what COO's kernels compute, CSC's and CSR's
do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from benchmarks.cases.checked import Case
from benchmarks.gpu_check import Setting, check_gradients, check_rows
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.to_json import kernels_of
from tests.emulator.launch import launch

EXAMPLES = Path(explorer.__file__).parents[1] / "examples"
EACH_EDGE = """dim F = 8
layer Scaled(g: graph):
    input x[node, F], y[node, F]
    for e in g.edges():
        e["s"] = dot(e.src.x, e.dst.y) * e.dst.y
    return e["s"]
"""
"""Nothing is summed, so that nothing else needs to know where a node's edges begin."""


def text_of(name: str) -> str:
    return EACH_EDGE if name == "edges" else (EXAMPLES / f"{name}.emb").read_text()


def kernels(name: str, **options: str | int | bool) -> list[ScheduledKernel]:
    return kernels_of(explorer.compile(text_of(name), options=options, on_demand=True).stages["kernels"].program)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("size", [8, 33])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("embedding/spmm_coo", {}),
        ("embedding/spmm_coo", {"grad": "true"}),
        ("embedding/sddmm", {}),
        ("embedding/sddmm", {"popular": "true"}),
        ("embedding/sddmm", {"grad": "true"}),
        ("embedding/mp", {"grad": "true"}),
        ("embedding/sls_max", {"grad": "true"}),
        ("rgnn/rgat", {"compact": "false"}),
        ("rgnn/rgat", {"grad": "true"}),
        ("rgnn/hgt", {}),
        ("rgnn/rgcn", {"compact": "false", "grad": "true"}),
        ("edges", {}),
        ("edges", {"grad": "true"}),
        ("edges", {"edges": "src", "grad": "true"}),
        ("rgnn/gcn", {"edges": "src"}),
        ("rgnn/rgat", {"edges": "src", "grad": "true"}),
        ("rgnn/rgat", {"edges": "src", "compact": "false"}),
        ("rgnn/hgt", {"edges": "src"}),
        ("rgnn/rgcn", {"edges": "src", "grad": "true"}),
    ],
)
def test_compressed_kernels(emulated: Setting, name: str, size: int, options: dict[str, str]) -> None:
    """Against float64; some rows, lists and nodes are empty."""
    given = {**options, "encoding": "compressed"}
    searched = kernels(name, **{k: v == "true" if v in ("true", "false") else v for k, v in given.items()})
    assert any("by a search of" in line for kernel in searched for line in kernel.schedule)
    check = check_gradients if "grad" in options else check_rows
    outcome = check(emulated, Case(text_of(name), size, 0, given))
    assert outcome["agrees"], outcome


@pytest.mark.parametrize("nonzeros", [0, 1, 9])
def test_matrices_of_few_nonzeros(emulated: Setting, nonzeros: int) -> None:
    """All in the last row, or none at all: empty rows before it begin where it begins."""
    made = explorer.compile(text_of("embedding/spmm_coo"), sizes={"D": 8}, options={"encoding": "compressed"})
    random = np.random.default_rng(nonzeros)
    given: dict[str, Any] = {
        "row": np.full(nonzeros, 4),
        "col": random.integers(0, 3, nonzeros),
        "value": random.normal(size=nonzeros).astype(np.float32),
        "X": random.normal(size=(3, 8)).astype(np.float32),
        "num_rows": 6,
        "num_cols": 3,
    }
    arrays, finish = made.encode(made, given, None)
    got, _ = finish(*launch(made, arrays))
    want = np.zeros((6, 8))
    np.add.at(want, given["row"], given["value"][:, None].astype(float) * given["X"][given["col"]])
    np.testing.assert_allclose(got, want, atol=1e-5)


STANDARDISE = """dim D = 3
op Standardise(A: coo[row, col]):
    param X[col, D]
    for i in A.rows():
        i["mu"] = mean(X[j] for j in A.row(i))
    for i in A.rows():
        i["sd"] = sqrt(mean((X[j] - i["mu"]) * (X[j] - i["mu"]) for j in A.row(i)) + 0.01)
    for z in A.nonzeros():
        z["y"] = z.value * (X[z.col] - z.row["mu"]) / z.row["sd"]
    return z["y"]
"""


def test_a_kernel_that_only_counts_keeps_its_map(emulated: Setting) -> None:
    """How many nonzeros a row has, which a mean's gradient divides by: it has the number of all from nothing else."""
    outcome = check_gradients(emulated, Case(STANDARDISE, 3, 0, {"encoding": "compressed", "grad": "true"}))
    assert outcome["agrees"], outcome
