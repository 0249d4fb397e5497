"""The reference's ops against loops written out by hand, and against PyTorch's EmbeddingBag."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.runtime.reference import evaluate as reference
from explorer.runtime.reference import rows as reference_rows
from explorer.runtime.reference.text import ReferenceFailure
from tests.oracles import embedding

SLS = """
dim D = 4

op SLS(b: bag of row):
    param T[row, D]
    return {}
"""
SPMM = """
dim D = 4

op SpMM(A: {}[i, j]):
    param X[j, D]
    for v in A.rows():
        v["y"] = {}(a * X[u] for u, a in A.row(v))
    return v["y"]
"""
BAGS: dict[str, Any] = {
    "ptr": np.array([0, 0, 3, 4, 4, 7, 7]),  # the first, a middle and the last bag are empty
    "idx": np.array([2, 2, 0, 5, 1, 4, 2]),
    "weight": np.array([0.5, -1, 2, 1, 0, 3, -2], np.float32),
    "T": np.random.default_rng(0).standard_normal((6, 4), dtype=np.float32),
}
MATRIX: dict[str, Any] = {
    "rowptr": np.array([0, 2, 2, 5, 6]),
    "col": np.array([1, 1, 4, 0, 2, 3]),
    "value": np.array([2, -1, 0.5, 3, 1, -2], np.float32),
    "num_cols": 5,
    "X": np.random.default_rng(1).standard_normal((5, 4), dtype=np.float32),
}
DENSE = embedding.dense(MATRIX["rowptr"], MATRIX["col"], MATRIX["value"], (4, 5))
SQUARE: dict[str, Any] = {
    **{name: MATRIX[name] for name in ("rowptr", "col", "value")},
    "col": MATRIX["col"] % 4,
    "num_cols": 4,
    "x": np.random.default_rng(2).standard_normal((4, 4), dtype=np.float32),
}
AS_COO: dict[str, Any] = {  # the same matrix, its nonzeros in no order
    **{name: MATRIX[name][[4, 0, 5, 2, 1, 3]] for name in ("col", "value")},
    "row": np.array([2, 0, 3, 2, 0, 2]),
    "num_rows": 4,
    "num_cols": 5,
    "X": MATRIX["X"],
}


@pytest.fixture(params=["at once", "one by one"])
def chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "one by one":
        monkeypatch.setattr(reference_rows, "CHUNK_BYTES", 1)
        monkeypatch.setattr(reference_rows, "FIRST_CHUNK", 1)


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_reduce_their_rows_and_empty_ones_give_zero(mode: str) -> None:
    got = reference.op(SLS.format(f"{mode}(T[i] for i in b)"), BAGS, {})
    np.testing.assert_allclose(got, embedding.bag(BAGS["T"], BAGS["ptr"], BAGS["idx"], mode=mode), rtol=1e-14)


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("body", ["sum(w * T[i] for i, w in b)", "sum(T[i] * w for i, w in b)"])
def test_weights_scale_the_rows_of_a_bag(body: str) -> None:
    want = embedding.bag(BAGS["T"], BAGS["ptr"], BAGS["idx"], BAGS["weight"])
    np.testing.assert_allclose(reference.op(SLS.format(body), BAGS, {}), want, rtol=1e-14)


@pytest.mark.usefixtures("chunks")
def test_a_bag_filled_by_a_loop_is_its_sum() -> None:
    text = SLS.format('b["h"]').replace("    return", '    for i in b:\n        b["h"] += T[i]\n    return')
    want = embedding.bag(BAGS["T"], BAGS["ptr"], BAGS["idx"])
    np.testing.assert_allclose(reference.op(text, BAGS, {}), want, rtol=1e-14)


@pytest.mark.usefixtures("chunks")
def test_an_entry_reads_the_data_of_another_bags() -> None:
    text = """
op Twins(b: bag of row):
    param T[row, 4]
    map twin: entry -> entry
    for i in b:
        i["y"] = 2 * T[i]
    for i in b:
        i["z"] = i["y"] * i.twin["y"]
    return i["z"]
"""
    twin = np.array([6, 3, 0, 5, 4, 1, 2])
    rows = 2 * BAGS["T"][BAGS["idx"]].astype(np.float64)
    np.testing.assert_allclose(reference.op(text, {**BAGS, "twin": twin}, {}), rows * rows[twin], rtol=1e-14)


def test_no_bags_give_no_rows() -> None:
    none = {**BAGS, "ptr": np.array([0]), "idx": np.array([], np.int32)}
    assert reference.op(SLS.format("sum(T[i] for i in b)"), none, {}).shape == (0, 4)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_are_those_of_pytorch(mode: str) -> None:
    torch = pytest.importorskip("torch", reason="the peer is PyTorch, which this machine does without")
    random = np.random.default_rng(3)
    ptr = np.concatenate([[0], np.cumsum(random.integers(0, 5, 30))])
    idx = random.integers(0, 9, int(ptr[-1]))
    T = random.standard_normal((9, 4), dtype=np.float32)
    bag = torch.nn.EmbeddingBag(9, 4, mode=mode, include_last_offset=True, _weight=torch.from_numpy(T).double())
    want = bag(torch.from_numpy(idx), torch.from_numpy(ptr)).detach().numpy()
    got = reference.op(SLS.format(f"{mode}(T[i] for i in b)"), {"ptr": ptr, "idx": idx, "T": T}, {})
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.usefixtures("chunks")
def test_a_matrix_product_is_the_dense_one() -> None:
    got = reference.op(SPMM.format("csr", "sum"), MATRIX, {})
    np.testing.assert_allclose(got, DENSE @ MATRIX["X"], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(reference.op(SPMM.format("coo", "sum"), AS_COO, {}), got, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("mode", ["mean", "max", "min"])
def test_rows_without_nonzeros_give_zero(mode: str) -> None:
    got = reference.op(SPMM.format("csr", mode), MATRIX, {})
    rows = MATRIX["value"][:, None] * MATRIX["X"][MATRIX["col"]].astype(float)
    for i, (start, stop) in enumerate(zip(MATRIX["rowptr"], MATRIX["rowptr"][1:], strict=False)):
        want = getattr(np, mode)(rows[start:stop], axis=0) if stop > start else np.zeros(4)
        np.testing.assert_allclose(got[i], want, rtol=1e-12)


def test_a_product_without_values_counts_each_nonzero_once() -> None:
    text = SPMM.format("csr", "sum").replace("a * X[u] for u, a in", "X[u] for u in")
    ones = embedding.dense(MATRIX["rowptr"], MATRIX["col"], np.ones(6), (4, 5))
    without = {name: value for name, value in MATRIX.items() if name != "value"}
    np.testing.assert_allclose(reference.op(text, without, {}), ones @ MATRIX["X"], rtol=1e-12)


SDDMM = """
dim D = 4

op SDDMM(A: {}[i, j]):
    param Y[i, D], X[j, D]
    for z in A.nonzeros():
        z["s"] = z.value * dot(Y[z.row], X[z.col])
    return z["s"]
"""


@pytest.mark.usefixtures("chunks")
def test_sampled_products_come_in_the_order_of_the_nonzeros_given() -> None:
    Y = np.random.default_rng(4).standard_normal((4, 4), dtype=np.float32)
    products = Y.astype(float) @ MATRIX["X"].T.astype(float)
    rows = np.repeat(np.arange(4), np.diff(MATRIX["rowptr"]))
    got = reference.op(SDDMM.format("csr"), {**MATRIX, "Y": Y}, {})
    np.testing.assert_allclose(got, MATRIX["value"] * products[rows, MATRIX["col"]], rtol=1e-12)
    got = reference.op(SDDMM.format("coo"), {**AS_COO, "Y": Y}, {})
    np.testing.assert_allclose(got, AS_COO["value"] * products[AS_COO["row"], AS_COO["col"]], rtol=1e-12)


@pytest.mark.usefixtures("chunks")
def test_nonzeros_may_add_to_their_rows() -> None:
    text = """
dim D = 4

op SpMM(A: coo[i, j]):
    param X[j, D]
    for z in A.nonzeros():
        z.row["y"] += z.value * X[z.col]
    for v in A.rows():
        v["out"] = 2 * v["y"]
    return v["out"]
"""
    np.testing.assert_allclose(reference.op(text, AS_COO, {}), 2 * DENSE @ MATRIX["X"], rtol=1e-12, atol=1e-15)


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("form", ["comprehension", "loop"])
def test_message_passing_multiplies_by_the_vertex(form: str) -> None:
    product = "a * dot(x[v], x[u]) * x[v]"
    body = {
        "comprehension": f'v["z"] = sum({product} for u, a in A.row(v))',
        "loop": f'for u, a in A.row(v):\n            v["z"] += {product}',
    }[form]
    text = f"""
dim D = 4

op MP(A: csr[vertex, vertex]):
    param x[vertex, D]
    for v in A.rows():
        {body}
    return v["z"]
"""
    want = embedding.message_passing(*(SQUARE[name] for name in ("x", "rowptr", "col", "value")))
    np.testing.assert_allclose(reference.op(text, SQUARE, {}), want, rtol=1e-6)  # the oracle's dot is float32


@pytest.mark.usefixtures("chunks")
def test_data_of_entries_may_be_normalised_by_their_row() -> None:
    text = """
dim D = 4

op Attention(A: csr[vertex, vertex]):
    param x[vertex, D]
    for v in A.rows():
        for u in A.row(v):
            u["e"] = exp(dot(x[v], x[u]))
        v["total"] = sum(u["e"] for u in A.row(v))
        v["h"] = sum(u["e"] * x[u] for u in A.row(v)) / v["total"]
    return v["h"]
"""
    got, x = reference.op(text, SQUARE, {}), SQUARE["x"].astype(float)
    for v, (start, stop) in enumerate(zip(SQUARE["rowptr"], SQUARE["rowptr"][1:], strict=False)):
        near = SQUARE["col"][start:stop]
        weights = np.exp(x[near] @ x[v])
        if stop > start:
            np.testing.assert_allclose(got[v], weights @ x[near] / weights.sum(), rtol=1e-12)


BLOCKS: dict[str, Any] = {
    "ptr": np.array([0, 2, 2, 5]),
    "blocks": np.array([3, 0, 0, 1, 3]),
    "K": np.random.default_rng(5).standard_normal((4, 2, 3), dtype=np.float32),
}


@pytest.mark.usefixtures("chunks")
def test_a_block_gather_copies_every_block_that_a_query_names() -> None:
    text = """
dim S = 2, D = 3

op SpAttn(q: blocks of block):
    param K[block, S, D]
    for j in q:
        j["k"] = K[j]
    return j["k"]
"""
    np.testing.assert_array_equal(reference.op(text, BLOCKS, {}), BLOCKS["K"][BLOCKS["blocks"]])


def test_sizes_may_differ_from_the_defaults() -> None:
    narrow = {**BAGS, "T": BAGS["T"][:, :3]}
    got = reference.op(SLS.format("sum(T[i] for i in b)"), narrow, {"D": 3})
    assert got.shape == (6, 3)


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        (SLS.format("sum(w * T[i] for i, w in b)"), {**BAGS, "weight": None}),
        (SLS.format("sum(T[i] for i in c)"), BAGS),
        (SLS.format("T[b]").replace("[row, D]", "[row, bag, D]"), BAGS),
        (SPMM.format("csr", "sum").replace("A.rows()", "A.columns()"), MATRIX),
    ],
)
def test_what_it_does_not_know_is_said(text: str, inputs: dict[str, Any]) -> None:
    with pytest.raises(ReferenceFailure):
        reference.op(text, inputs, {})


@pytest.mark.usefixtures("chunks")
def test_a_column_of_a_square_matrix_has_the_data_of_its_row() -> None:
    text = """
dim D = 4

op TwoHops(A: csr[vertex, vertex]):
    param x[vertex, D]
    for v in A.rows():
        v["y"] = sum(a * x[u] for u, a in A.row(v))
    for v in A.rows():
        v["z"] = sum(a * u["y"] for u, a in A.row(v))
    return v["z"]
"""
    dense = embedding.dense(*(SQUARE[name] for name in ("rowptr", "col", "value")), (4, 4))
    np.testing.assert_allclose(reference.op(text, SQUARE, {}), dense @ (dense @ SQUARE["x"]), rtol=1e-5)
