"""Runs of ops that have several bags: the first is the data, the others are drawn; what is given is checked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.compilation import Compilation
from explorer.runtime.data.triples import InputError
from explorer.runtime.export.plan import Plan
from explorer.runtime.proof import inputs as proof
from explorer.runtime.run import RunRequest, execute
from explorer.runtime.runs import op as run_op

TOWERS = """dim D = 6

op Towers(a: bag of item, b: bag of item, c: bag of word):
    param T[item, D], U[word, D], A[age, D]
    map age: b_entry -> age
    return dot(sum(T[i] for i in a) + mean(T[j] * A[j.age] for j in b), sum(w * U[k] for k, w in c))
"""
TWO = """op f(a: bag of item, b: bag of item):
    param T[item, 4]
    return sum(T[i] for i in a) + sum(T[j] for j in b)
"""
GIVEN: dict[str, Any] = {
    "a_ptr": np.array([0, 2, 3]),
    "a_idx": np.array([0, 4, 1]),
    "b_ptr": np.array([0, 0, 1]),
    "b_idx": np.array([2]),
    "T": np.ones((5, 4), np.float32),
}
WRONG = {
    "one bag is of others": ({"b_ptr": np.array([0, 0, 0, 1])}, "a_ptr is of 2 bags and b_ptr of 3, not one number"),
    "an id has no row": ({"b_idx": np.array([5])}, "b_idx[0] is 5, but b_num_rows is 5"),
    "an id is negative": ({"a_idx": np.array([0, -1, 1])}, "a_idx[1] is -1, not between 0"),
    "a bag does not begin with 0": ({"a_ptr": np.array([1, 2, 3])}, "a_ptr must begin with 0"),
    "a bag ends elsewhere": ({"b_ptr": np.array([0, 0, 2])}, "b_ptr ends with 2, but b_idx has 1 entries"),
    "two numbers of one set": (
        {"a_num_rows": 5, "b_num_rows": 6},
        "a_num_rows is 5 and b_num_rows 6, which are of the same rows",
    ),
    "one number is too low": ({"a_num_rows": 3, "a_idx": np.array([0, 2, 1])}, "a_num_rows is 3, but others of its"),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    ends, random = np.array([0, 0, 3, 4, 4, 20, 20]), np.random.default_rng(0)
    np.savez(tmp_path / "bags.npz", ptr=ends, idx=random.integers(0, 9, 20), num_rows=9)
    return tmp_path


def last(data: Path, **fields: Any) -> dict[str, Any]:
    asked = RunRequest(text=TOWERS, data="bags.npz", data_dir=str(data), repeat=1, **fields)
    return list(execute(asked))[-1]


@pytest.mark.parametrize("on", ["cpu", "dae"])
@pytest.mark.parametrize("grad", [False, True])
def test_a_run_of_several_bags_is_right(on: str, grad: bool, data: Path) -> None:
    found = last(data, on=on, options={"grad": grad})
    assert found["matches_reference"], found
    assert {"T", "U", "A", "c_weight"} <= found["gradients"].keys() if grad else not found["gradients"]


def test_a_large_run_has_the_gradients_of_a_part_checked(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_op, "GRADIENT_TERMS", 40)
    found = last(data, on="cpu", options={"grad": True})
    assert found["matches_reference"], found
    assert found["gradients"]


def test_a_large_run_has_some_of_its_bags_checked(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_op, "takes_long", lambda data: True)
    found = last(data, on="cpu")
    assert found["matches_reference"], found
    assert found["sampled"]


@pytest.mark.parametrize("on", ["cpu", "dae", "graph"])
@pytest.mark.parametrize("name", WRONG)
def test_bags_that_do_not_fit_are_refused_in_words(name: str, on: str) -> None:
    changed, message = WRONG[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        explorer.compile(TWO, on_demand=True).run({**GIVEN, **changed}, on)


@pytest.mark.parametrize("missing", ["a_ptr", "b_idx"])
def test_a_bag_that_is_missing_is_named(missing: str) -> None:
    inputs = {name: array for name, array in GIVEN.items() if name != missing}
    with pytest.raises(ValueError, match=f"There is no array for {missing}"):
        explorer.compile(TWO, on_demand=True).run(inputs, "cpu")


@pytest.mark.parametrize(("changed", "message"), [
    ({"b_ptr": np.array([0, 0, 0, 1])}, "a_ptr is of 2 bags and b_ptr of 3, not one number"),
    ({"b_idx": np.array([5])}, "b_idx"),
    ({"a_ptr": np.array([0, 2, 4])}, "a_ptr ends with 4, but a_idx has 3 entries"),
    ({"b_idx": None}, "b_idx"),
])  # fmt: skip
def test_a_module_says_which_bag_does_not_fit(changed: dict[str, Any], message: str) -> None:
    torch = pytest.importorskip("torch")
    inputs = {name: array for name, array in {**GIVEN, **changed}.items() if array is not None}
    with pytest.raises((ValueError, TypeError), match=message):
        explorer.compile(TWO, on_demand=True).torch()(**{n: torch.from_numpy(array) for n, array in inputs.items()})


def test_rows_that_nothing_picks_are_told_by_the_tensor() -> None:
    compilation = explorer.compile(TWO, options={"grad": True}, on_demand=True)
    upstream = np.ones((2, 4), np.float32)
    got, gradients = compilation.run(GIVEN, "cpu", grad=upstream)
    np.testing.assert_array_equal(got, np.full((2, 4), 2))
    np.testing.assert_array_equal(gradients["T"], np.array([1, 1, 1, 0, 1])[:, None] * np.ones(4))


def test_an_extension_of_several_bags_is_refused_in_words() -> None:
    with pytest.raises(InputError, match=r"an extension of an op has one bag, and f several: c.torch\(\) takes them"):
        Plan.of(explorer.compile(TWO, on_demand=True), grad=False)


@pytest.mark.parametrize("case", proof.CASES, ids=lambda case: str(case.lengths))
def test_inputs_of_a_proof_have_every_bag(case: proof.Case) -> None:
    compilation: Compilation = explorer.compile(TOWERS, on_demand=True)
    given = proof.draw(compilation, case)
    got, want = (compilation.run(given, on) for on in ("kernels", "graph"))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert len(got) == len(case.lengths)
