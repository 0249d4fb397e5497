"""Runs of ops: on both targets, at every level, with what they say of their data, sizes and limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.ir.graph import Graph
from explorer.runtime.data.index_lists import SparseRows
from explorer.runtime.run import RunRequest, execute
from explorer.runtime.runs import fitting
from explorer.runtime.runs import op as run_op
from explorer.runtime.runs import request as setup
from explorer.runtime.runs import simulate as dae_run
from tests.oracles import embedding

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples" / "embedding").glob("*.emb"))
RANDOM = np.random.default_rng(0)
BAGS = {
    "ptr": np.array([0, 0, 3, 4, 4, 20, 20]),  # the first, a middle and the last bag are empty
    "idx": RANDOM.integers(0, 9, 20),
    "num_rows": 9,
}
MATRIX = {"row": RANDOM.integers(0, 6, 25), "col": RANDOM.integers(0, 6, 25), "num_rows": 7, "num_cols": 7}
BLOCKS = {"ptr": np.array([0, 2, 2, 5]), "blocks": np.array([3, 0, 0, 1, 3]), "num_blocks": 4}
SMALL = {"D": 19, "F": 5, "S": 2, "Q": 3}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with lists of each kind, with empty ones among them."""
    for name, arrays in (("bags", BAGS), ("matrix", MATRIX), ("blocks", BLOCKS)):
        np.savez(tmp_path / f"{name}.npz", **arrays)
    return tmp_path


def request(text: str, folder: Path | None, **changes: Any) -> RunRequest:
    kind = "bags" if ": bag of" in text else "blocks" if ": blocks of" in text else "matrix"
    sizes = {name: size for name, size in SMALL.items() if f"{name} =" in text}
    fields: dict[str, Any] = {"data": f"{kind}.npz", "sizes": sizes, "repeat": 1, "on": "cpu"} | changes
    return RunRequest(text=text, data_dir=None if folder is None else str(folder), **fields)


def last(asked: RunRequest) -> dict[str, Any]:
    return list(execute(asked))[-1]


def ops() -> list[Path]:
    return [path for path in EXAMPLES if "\nop " in path.read_text()]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("path", ops(), ids=lambda path: path.stem)
def test_every_example_is_right_on_the_machine_at_every_level(path: Path, level: int, data: Path) -> None:
    found = last(request(path.read_text(), data, on="dae", options={"opt": level}))
    assert found["event"] == "result", found
    assert found["matches_reference"], found["max_relative_error"]
    assert found["cycles"] > 0
    assert found["speedup_over"]["opt0"] == 1 if level == 0 else found["speedup_over"]["opt0"] > 0
    assert min(found["speedup_over"]["core_alone"].values()) > 0


UNTAKEN = {
    "bags": """dim D = 8
op Max(b: bag of row):
    param T[row, D]
    return max(T[i] for i, w in b)
""",
    "matrix": """dim D = 8
op Near(A: csr[node, node]):
    param x[node, D]
    for i in A.rows():
        left = sum(a * x[j] for j, a in A.row(i))
        i["y"] = sum(dot(x[i], x[j]) * x[j] for j, a in A.row(i))
    return i["y"]
""",
}


@pytest.mark.parametrize("lists", UNTAKEN)
def test_weights_may_be_named_and_not_taken(lists: str, data: Path) -> None:
    found = last(request(UNTAKEN[lists], data, data=f"{lists}.npz"))
    assert found["event"] == "result", found
    assert found["matches_reference"], found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("on", ["cpu", "dae"])
@pytest.mark.parametrize("path", ops(), ids=lambda path: path.stem)
def test_every_example_and_its_gradients_are_right(path: Path, on: str, data: Path) -> None:
    found = last(request(path.read_text(), data, on=on, options={"grad": True}))
    assert found["event"] == "result", found
    assert found["matches_reference"], found
    assert found["gradients"]
    assert len(found["samples_ms"]) == 1 if on == "cpu" else found["cycles"] > 0


def test_wrong_gradients_have_no_times(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = run_op.finish

    def doubled(*arguments: Any) -> Any:
        got, gradients = finish(*arguments)
        return got, {name: 2 * gradient for name, gradient in gradients.items()}

    monkeypatch.setattr(run_op, "finish", doubled)
    for on, figure in (("cpu", "samples_ms"), ("dae", "cycles")):
        found = last(request(SLS, data, on=on, options={"grad": True}))
        assert not found["matches_reference"]
        assert found["message"]
        assert found[figure] is None


SLS = (Path(__file__).resolve().parents[3] / "examples" / "embedding" / "sls.emb").read_text()
SPMM = (Path(__file__).resolve().parents[3] / "examples" / "embedding" / "spmm.emb").read_text()


def test_a_run_says_what_it_ran_on_and_the_least_that_it_needs() -> None:
    found = last(request(SLS, None, data="RM1:L0", sizes={}))
    assert found["matches_reference"]
    assert found["sizes"] == {"D": 32}
    assert found["sizes_from"] == {"D": "RM1:L0"}
    assert found["data"]["lists"] == 128
    assert found["data"]["entries"] == 8_192
    assert found["reuse"]["within_1000"] == pytest.approx(0.053, abs=0.001)
    assert found["preprocessing"]
    limits, distinct = found["limits"], found["reuse"]["distinct"]
    # bounds.md: b D (u(idx) + S) + nnz q + (S + 1) q; stream b nnz D; nnz D operations.
    assert limits["compulsory_bytes"] == 4 * 32 * (distinct + 128) + 4 * 8_192 + 4 * 129
    assert limits["stream_bytes"] == 4 * 32 * (8_192 + 128) + 4 * 8_192 + 4 * 129
    assert limits["flop"] == 8_192 * 32


def test_a_size_that_is_set_wins_over_the_data() -> None:
    found = last(request(SLS, None, data="RM1:L0", sizes={"D": 8}))
    assert (found["sizes"], found["sizes_from"]) == ({"D": 8}, {"D": "given"})


def test_data_without_rows_of_its_own_leaves_the_texts_sizes(data: Path) -> None:
    found = last(request(SPMM, data, sizes={}))
    assert (found["sizes"], found["sizes_from"]) == ({"D": 128}, {"D": "the text"})
    assert found["limits"]["flop"] == 2 * 25 * 128


@pytest.mark.parametrize(("text", "name"), [(SLS, "RM1:L0"), (SPMM, "com-Youtube/500")])
def test_an_op_has_data_where_none_is_named(text: str, name: str) -> None:
    compilation = explorer.compile(text)
    assert run_op.default_data(compilation) == name
    assert last(request(text, None, data="", sizes={"D": 4}))["data"]["name"] == name


def test_lists_that_are_no_square_are_refused_where_the_op_needs_one() -> None:
    text = SPMM.replace("[row, col]", "[node, node]").replace("X[col, D]", "X[node, D]")
    found = last(request(text, None, data="RM1:L0"))
    assert found["kind"] == "refused"
    assert "128 rows and 32,768 columns" in found["message"]


def test_memory_is_counted_before_anything_is_drawn() -> None:
    found = last(request(SLS, None, data="RM3:L0", sizes={"D": 65_536}))
    assert found["kind"] == "refused"
    assert "more than the limit of 2.00 GiB" in found["message"]
    assert "T[32768, 65536]" in found["message"]


def test_a_queue_that_holds_no_record_is_refused() -> None:
    found = last(request(SLS, None, data="RM1:L0", sizes={}, on="dae", machine={"queue_bytes": 8}))
    assert found["kind"] == "refused"


def test_a_large_program_is_not_simulated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dae_run, "MOST_COMPARED", 1_000)
    found = last(request(SLS, None, data="RM1:L0", sizes={}, on="dae"))
    assert found["matches_reference"]
    assert found["speedup_over"] == {"opt0": None, "core_alone": {"vectorised": None, "scalar": None}}


def test_what_is_done_for_a_model_in_particular_is_compared_with_the_op_without_it(data: Path) -> None:
    text = (EXAMPLES[0].parent / "spattn.emb").read_text()
    cycles = {
        stores: last(request(text, data, on="dae", options={"store_streams": stores})) for stores in (False, True)
    }
    ratio = cycles[False]["cycles"] / cycles[True]["cycles"]
    over = {stores: found["speedup_over"] for stores, found in cycles.items()}
    assert over[True]["opt0"] == pytest.approx(over[False]["opt0"] * ratio)
    for code, found in over[True]["core_alone"].items():
        assert found == pytest.approx(over[False]["core_alone"][code] * ratio)


def test_a_part_of_large_lists_is_their_first_ones() -> None:
    lists = SparseRows("some", "test", 9, np.array([0, 2, 2, 5], np.int32), np.array([8, 1, 0, 7, 3], np.int32))
    part = run_op.first_lists(lists, 4, square=False)
    assert (part.ptr.tolist(), part.idx.tolist(), part.num_cols) == ([0, 2, 2], [0, 1], 4)
    cut = run_op.first_lists(lists, 1, square=True)
    assert (cut.ptr.tolist(), cut.idx.tolist(), cut.num_cols) == ([0, 1], [0], 1)


def test_a_large_op_has_the_gradients_of_a_part_checked(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_op, "GRADIENT_TERMS", 64)
    found = last(request(SLS, data, options={"grad": True}))
    assert found["matches_reference"], found["message"]
    assert 0 <= found["gradients"]["T"]["error_over_bound"] < 1


@pytest.mark.parametrize("on", ["graph", "loops", "slc", "slc.opt1", "slc.opt2", "slc.opt3", "dlc", "cpu", "dae"])
def test_the_library_takes_lists_by_the_names_of_the_contract(on: str) -> None:
    T = np.random.default_rng(1).standard_normal((9, 19), dtype=np.float32)
    got = explorer.compile(SLS, sizes={"D": 19}).run({"ptr": BAGS["ptr"], "idx": BAGS["idx"], "T": T}, on=on)
    np.testing.assert_allclose(got, embedding.bag(T, BAGS["ptr"], BAGS["idx"]), rtol=1e-5, atol=1e-6)


def test_nonzeros_come_back_in_the_callers_order() -> None:
    text = (Path(__file__).resolve().parents[3] / "examples" / "embedding" / "sddmm.emb").read_text()
    random = np.random.default_rng(2)
    X, Y = random.standard_normal((2, 7, 19), dtype=np.float32)
    value = random.standard_normal(25, dtype=np.float32)
    got = explorer.compile(text, sizes={"D": 19}).run({**MATRIX, "value": value, "X": X, "Y": Y}, on="cpu")
    want = value * (X[MATRIX["row"]] * Y[MATRIX["col"]]).sum(axis=1)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_gradients_come_back_by_tensor() -> None:
    upstream = np.random.default_rng(3).standard_normal((6, 19)).astype(np.float32)
    T = np.zeros((9, 19), np.float32)
    compilation = explorer.compile(SLS, sizes={"D": 19}, options={"grad": True})
    _, gradients = compilation.run({"ptr": BAGS["ptr"], "idx": BAGS["idx"], "T": T}, on="cpu", grad=upstream)
    want = np.zeros((9, 19))
    np.add.at(want, BAGS["idx"], np.repeat(upstream, np.diff(BAGS["ptr"]), axis=0))
    np.testing.assert_allclose(gradients["T"], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"idx": [0], "T": np.zeros((9, 4))}, "there are no lists of indices"),
        ({"ptr": [0, 1], "idx": [9], "T": np.zeros((9, 4))}, "idx\\[0\\] is 9, but num_rows is 9"),
        ({"ptr": [0, 1], "idx": [0]}, "There is no array for T"),
        ({"ptr": [0, 1], "idx": [0], "T": np.zeros((9, 5))}, "T has the shape \\[9, 5\\], but is declared \\[9, 4\\]"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_in_a_sentence(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explorer.compile(SLS, sizes={"D": 4}).run(inputs, on="loops")


def test_a_result_that_is_no_number_has_the_gradients_that_are_numbers(data: Path) -> None:
    text = """dim D = 8
op Mean(b: bag of row):
    param T[row, D]
    return sum(T[i] for i in b) / sum(1 for i in b)
"""
    assert last(request(text, data, on="dae"))["matches_reference"]
    found = last(request(text, data, on="dae", options={"grad": True}))
    assert found["matches_reference"], found["message"]
    mended = last(request(text.replace("sum(1 for i in b)", "max(sum(1 for i in b), 1)"), data, options={"grad": True}))
    assert mended["matches_reference"], mended["message"]


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("spmm", {"rows": 4, "cols": 9, "nonzeros": 1024}),
        ("mp", {"nodes": 4, "nonzeros": 1024}),
        ("sls", {"bags": 4, "rows": 9, "entries": 1024}),
    ],
)
def test_lists_are_counted_by_the_names_of_the_ops_sets(name: str, counts: dict[str, int]) -> None:
    (path,) = (path for path in EXAMPLES if path.stem == name)
    graph = explorer.compile(path.read_text(), on_demand=True).stages["graph"].program
    assert isinstance(graph, Graph)
    ptr, idx = np.array([0, 1000, 1000, 1024, 1024], np.int32), np.zeros(1024, np.int32)
    columns = 4 if name == "mp" else 9
    assert fitting.op_counts(graph, SparseRows("lists", "test", columns, ptr, idx)) == counts


def test_an_op_is_compiled_for_the_matrix_that_it_runs_on(data: Path) -> None:
    (path,) = (path for path in EXAMPLES if path.stem == "spmm")
    asked = request(path.read_text(), data)
    steps = run_op.prepare(asked, setup.compile_request(asked))
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made = done.value
            break
    said = [each.summary for each in made.compilation.stages["kernels"].passes]
    assert any("32 nonzeros a warp, of 25 in matrix" in each for each in said)
