"""A definition that returns several values: every stage and target gives all of them, and the gradients of their sum,
as NumPy in float64 has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
from tests.compiler.slopes import slopes
from tests.several_results import CASES, Case, given, in_one, upstreams

INTERPRETED = ("graph", "loops", "slc", "slc.opt1", "slc.opt3", "dlc", "kernels")


def compiled(case: Case, **options: Any) -> tuple[explorer.Compilation, dict[str, Any]]:
    """The compilation, and what it is given."""
    compilation = explorer.compile(case.text, options={**case.options, **options}, on_demand=True)
    assert compilation.ok, compilation.diagnostics
    return compilation, given(case, compilation.stages["graph"].program)


def assert_close(got: tuple[Any, ...], want: tuple[Any, ...], target: str) -> None:
    assert isinstance(got, tuple)
    for one, other in zip(got, want, strict=True):
        assert np.shape(one) == np.shape(other), target
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=target)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_stage_gives_all_results(case: Case) -> None:
    compilation, inputs = compiled(case)
    want = case.means(arrays(inputs))
    for target in INTERPRETED:
        assert_close(compilation.run(inputs, target), want, target)


def arrays(inputs: dict[str, Any]) -> dict[str, Any]:
    """What is given, its floats in float64."""
    found = {name: np.asarray(array) for name, array in inputs.items()}
    return {name: array.astype(float) if array.dtype.kind == "f" else array for name, array in found.items()}


def check_gradients(case: Case, targets: tuple[str, ...]) -> None:
    """Holds what targets give, with the gradients of the results' sum, against differences of what the case means."""
    compilation, inputs = compiled(case, grad=True)
    learnt = [name for name, _ in compilation.stages["graph"].program.gradients]
    want = case.means(arrays(inputs))
    grad = upstreams(want)
    wanted = slopes(lambda i: in_one(case.means(i)), arrays(inputs), learnt, in_one(grad))
    assert all(np.abs(slope).max() > 0.1 for slope in wanted.values())
    for target in targets:
        got, found = compilation.run(inputs, target, grad=grad)
        assert_close(got, want, target)
        assert found.keys() == wanted.keys()
        for name, slope in wanted.items():
            np.testing.assert_allclose(found[name], slope, rtol=1e-3, atol=1e-4, err_msg=f"{target} {name}")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_stage_gives_the_gradients_of_their_sum(case: Case) -> None:
    check_gradients(case, INTERPRETED)


@pytest.mark.parametrize("name", ["gated", "negatives"])
def test_targets_give_the_gradients_of_their_sum(name: str) -> None:
    check_gradients(CASES[name], ("cpu", "dae"))


@pytest.mark.swept(3)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_targets_give_the_gradients_of_the_sum_of_each_case(case: Case) -> None:
    check_gradients(case, ("cpu", "dae"))


def test_one_gradient_for_each_result_is_asked_for() -> None:
    compilation, inputs = compiled(CASES["gated"], grad=True)
    for grad, said in ((np.ones(3), "one gradient"), ((np.ones(3),), "1 gradients"), (None, "give grad")):
        with pytest.raises(ValueError, match=f"{said}.*a tuple of those of its 2 results"):
            compilation.run(inputs, "cpu", grad=grad)


def test_a_printed_stage_reads_back_with_all_its_results() -> None:
    for name in ("gated", "twice"):
        text, options = CASES[name].text, {"grad": True}
        plain = explorer.compile(text, options=options)
        for stage in ("graph", "loops", "kernels", "dlc"):
            lines = "".join(f"{line.text}\n" for line in plain.stages[stage].lines)
            edited = explorer.compile(text, options=options, edited={stage: lines})
            (edit,) = edited.edits
            assert edit.verdict.status == "same", (stage, edit.verdict)


def test_an_edited_stage_is_held_against_each_result() -> None:
    text = CASES["two steps"].text
    plain = explorer.compile(text)
    lines = [line.text for line in plain.stages["graph"].lines]
    (place,) = [at for at, line in enumerate(lines) if line.startswith("  return ")]
    first, second, third = lines[place].removeprefix("  return ").split(", ")
    for returned, said in (
        (f"{first}, {first}, {third}", "result 2"),
        (f"{first}, {second}", "returns 3 values, not 2"),
    ):
        lines[place] = f"  return {returned}"
        edited = explorer.compile(text, edited={"graph": "\n".join(lines)})
        assert said in edited.edits[0].verdict.message
