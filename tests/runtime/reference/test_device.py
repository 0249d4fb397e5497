"""The reference on a device of PyTorch's, here its processor: what NumPy gives, bounds and gradients included."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.runtime.reference import evaluate
from explorer.runtime.reference.numbers.arithmetic import BOUNDED
from explorer.runtime.reference.numbers.bounds import CONSTANT, Bounded
from tests.compiler.by_form.forms import FORMS
from tests.compiler.by_form.set_forms import SET_FORMS, inputs_of
from tests.compiler.by_form.set_structures import SHAPES
from tests.compiler.models import compiled, draw_inputs
from tests.runtime.peers.test_torch import EXAMPLES, set_up

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
ROUNDOFF_64 = 2.0**-53
TORCH_CPU = "cpu"


@pytest.fixture(autouse=True)
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of a GPU, where there is none; and small examples taken for large ones."""
    monkeypatch.setattr("explorer.runtime.targets.gpu.device.available_bytes", lambda: 8 << 30)
    monkeypatch.setattr(evaluate, "LEAST_ON_DEVICE", 0)


def hold(there: Bounded, here: Bounded) -> None:
    """Their values differ by no more than float64 rounds, by the bounds' own count of roundings; the bounds, which are
    float32, by some roundings of their own."""
    assert there.computed_on == TORCH_CPU
    assert here.computed_on == ""
    assert there.shape == here.shape
    with np.errstate(invalid="ignore"):
        far = np.abs(there.value - here.value) > CONSTANT * ROUNDOFF_64 * here.error
    assert not far.any()
    assert (np.isnan(there.value) == np.isnan(here.value)).all()
    for name in ("own", "shared"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-5)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("chunk", ["whole", "small"])
def test_every_example_means_the_same_there(
    path: Path, chunk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if chunk == "small":  # what is put and added into arrays chunk by chunk
        for module in ("evaluate", "rows"):
            monkeypatch.setattr(f"explorer.runtime.reference.{module}.CHUNK_BYTES", 1)
            monkeypatch.setattr("explorer.runtime.reference.rows.FIRST_CHUNK", 2)
    setup = set_up(path.read_text(), tmp_path)
    here = setup.meaning
    there = replace(here, device=TORCH_CPU)
    assert here.device == "cuda"  # which is not here
    hold(there.result(), here.result())
    wanted = here.gradients(setup.upstream, setup.learnt)
    found = there.gradients(setup.upstream, setup.learnt)
    assert found.keys() == wanted.keys()
    for name in wanted:
        hold(found[name], wanted[name])
    random = np.random.default_rng(3)
    direction = {name: random.standard_normal(setup.tensors[name].shape) for name in setup.learnt}
    hold(there.change(direction), here.change(direction))
    assert there.overflows() == here.overflows()


ODD = """op Odd(b: bag of row):
    param T[row, 6]
    x = sum(T[i] for i in b)
    y = gelu(x) + softplus(x) + sin(x) * cos(x) + tanh(x) / (1.5 + abs(x)) + sqrt(abs(x)) + log(1.0 + exp(-abs(x)))
    y = y + atan2(x, 1.5 + abs(x))
    return concat(y + sign(x) + max(x, 0.1 * x), min(x, relu(x)) - leaky_relu(x, 0.2) + norm(x) + sigmoid(x))
"""


@pytest.mark.parametrize("scale", [1.0, 1e30, 0.0])
def test_functions_that_no_example_has_mean_the_same_there(scale: float, tmp_path: Path) -> None:
    """Also at their corners, and where float32 overflows."""
    setup = set_up(ODD, tmp_path, vlen=4)
    inputs = {**setup.meaning.inputs, "T": np.asarray(setup.tensors["T"]) * np.float32(scale)}
    here = replace(setup.meaning, inputs=inputs)
    there = replace(here, device=TORCH_CPU)
    hold(there.result(), here.result())
    hold(there.gradients(setup.upstream, ["T"])["T"], here.gradients(setup.upstream, ["T"])["T"])
    assert there.overflows() == here.overflows() == (scale > 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [*FORMS, *SET_FORMS])
def test_every_form_means_the_same_there(name: str) -> None:
    if name in FORMS:
        text, learnt = FORMS[name].text, ["E", "R", "P", "w", "M", "gamma"]
        inputs = draw_inputs(compiled(text, on_demand=True), batch=4, entities=5, relations=2)
    else:
        form = SET_FORMS[name]
        text, learnt, inputs = form.text, list(SHAPES[form.header]), inputs_of(form)
    here = evaluate.Meaning(text, inputs, {})
    there = replace(here, device=TORCH_CPU)
    result = here.result()
    hold(there.result(), result)
    upstream = np.random.default_rng(2).normal(size=result.shape)
    wanted, found = here.gradients(upstream, learnt), there.gradients(upstream, learnt)
    for tensor in learnt:
        hold(found[tensor], wanted[tensor])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_all_of_it_is_computed_there(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On PyTorch's device without memory, where what is on another device meets nothing: as a GPU would have it. Taken
    from there are columns alone, by which the terms of sums are told apart."""
    from explorer.runtime.reference.numbers import device

    taken = []

    def fetched(array: device.OnDevice) -> Any:
        taken.append(array.shape)
        return np.ones(array.shape, array.dtype)

    monkeypatch.setattr(device.OnDevice, "fetched", fetched)
    monkeypatch.setattr(device.OnDevice, "any", lambda array: False)
    setup = set_up(path.read_text(), tmp_path)
    meaning, there = setup.meaning, device.on_device(BOUNDED, "meta")
    random = np.random.default_rng(3)
    direction = {name: random.standard_normal(setup.tensors[name].shape) for name in setup.learnt}
    slopes = meaning.gradients(setup.upstream, setup.learnt, there)
    for found in (meaning.result(there), meaning.change(direction, there), *slopes.values()):
        assert str(found.value.tensor.device) == "meta"
    assert all(len(shape) == 1 for shape in taken), taken


def test_it_is_computed_here_where_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from explorer.runtime.reference.numbers import device

    def short(*_: Any) -> None:
        raise RuntimeError("out of memory")

    setup = set_up(EXAMPLES[0].read_text(), tmp_path)
    monkeypatch.setattr(device, "uploaded", short)
    found = replace(setup.meaning, device=TORCH_CPU).result()
    assert found.computed_on == ""
    assert (found.value == setup.meaning.result().value).all()


def test_a_defect_of_it_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from explorer.runtime.reference.numbers import device

    setup = set_up(ODD.replace("abs(x)", "floor(x)"), tmp_path, vlen=4)
    there = replace(setup.meaning, device=TORCH_CPU)
    assert there.result().computed_on == TORCH_CPU
    monkeypatch.delitem(device.UFUNCS, "floor")
    with pytest.raises(TypeError):
        there.result()


def test_what_is_small_is_computed_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "LEAST_ON_DEVICE", 1 << 12)
    setup = set_up(EXAMPLES[0].read_text(), tmp_path)
    assert replace(setup.meaning, device=TORCH_CPU).result().computed_on == ""


def test_where_it_was_computed_is_told(tmp_path: Path) -> None:
    setup = set_up(EXAMPLES[0].read_text(), tmp_path)
    check = setup.check(setup.want.astype(np.float32))
    assert setup.description(check, "a device")["reference_on"] == "cpu"
    on_gpu = replace(setup, bounds=replace(setup.bounds, computed_on="cuda"))
    assert on_gpu.description(check, "a device")["reference_on"] == "gpu"
