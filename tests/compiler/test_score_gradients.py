"""The gradients of scores: every example against PyTorch's autograd, random ones against differences, and corners.

Everything runs at every stage and on the simulated machine; the reference and PyTorch count in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import explorer
from explorer.runtime.reference import evaluate as reference
from tests.compiler.models import EXAMPLES, compiled, draw_inputs
from tests.compiler.random_models import model_texts

STAGES = ("graph", "loops", "slc", "dlc", "dae")
NEGATIVES = ("none", "tail:3", "head:2")
SIZES = {"D": 5, "K": 3}

examples = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
any_negatives = pytest.mark.parametrize("negatives", NEGATIVES)


def prepared(text: str, negatives: str = "none", **shape: int) -> tuple[explorer.Compilation, dict[str, Any], Any]:
    """A compilation with gradients, inputs for it, and a gradient of its scores."""
    sizes = {name: size for name, size in SIZES.items() if f"{name} =" in text}
    compilation = compiled(text, sizes=sizes, options={"negatives": negatives, "grad": True}, on_demand=True)
    inputs = draw_inputs(compilation.with_options(grad=False), **shape)
    rows = max((array.shape for array in inputs.values() if array.dtype == np.int32), key=len)
    return compilation, inputs, np.random.default_rng(2).uniform(-1, 1, rows).astype(np.float32)


def by_torch(name: str, inputs: dict[str, Any], upstream: Any) -> tuple[Any, dict[str, Any]]:
    """The scores and gradients that autograd gives for an example, in float64."""
    torch = pytest.importorskip("torch")
    leaves = {
        key: torch.tensor(array, dtype=torch.float64, requires_grad=True)
        for key, array in inputs.items()
        if array.dtype != np.int32
    }
    ids = {key: torch.tensor(inputs[key].astype(np.int64)) for key in "hrt"}
    if upstream.ndim == 2:
        ids = {key: index if index.ndim == 2 else index[:, None] for key, index in ids.items()}
    rows = {f"{key}_{end}": leaves[key][ids[end]] for key in leaves for end in ("hrt" if key == "E" else "r")}
    scores = TORCH[name](torch, rows)
    (scores * torch.tensor(upstream, dtype=torch.float64)).sum().backward()
    return scores.detach().numpy(), {key: leaf.grad.numpy() for key, leaf in leaves.items() if leaf.grad is not None}


def _norm(torch: Any, x: Any, p: int = 2) -> Any:
    return torch.linalg.vector_norm(x, p, dim=-1)


def _transh(torch: Any, x: dict[str, Any]) -> Any:
    e, w = x["E_h"] - x["E_t"], x["w_r"]
    return _norm(torch, e + x["R_r"] - (w * e).sum(-1, keepdim=True) * w)


TORCH: dict[str, Any] = {
    "distmult": lambda torch, x: (x["E_h"] * x["R_r"] * x["E_t"]).sum(-1),
    "rescal": lambda torch, x: torch.einsum("...d,...dk,...k->...", x["E_h"], x["P_r"], x["E_t"]),
    "transe_l1": lambda torch, x: _norm(torch, x["E_h"] - x["E_t"] + x["R_r"], 1),
    "transe_l2": lambda torch, x: _norm(torch, x["E_h"] - x["E_t"] + x["R_r"]),
    "transf": lambda torch, x: ((x["E_h"] + x["R_r"]) * x["E_t"]).sum(-1) + (x["E_h"] * (x["E_t"] - x["R_r"])).sum(-1),
    "transh": _transh,
    "transr": lambda torch, x: _norm(torch, torch.einsum("...d,...dk->...k", x["E_h"] - x["E_t"], x["P_r"]) + x["R_r"]),
}


@pytest.mark.sampled(2)
@examples
@any_negatives
def test_every_example_has_the_gradients_of_autograd_at_every_stage(path: Any, negatives: str) -> None:
    compilation, inputs, upstream = prepared(path.read_text(), negatives)
    scores, want = by_torch(path.stem, inputs, upstream)
    for on in STAGES:
        got, gradients = compilation.run(inputs, on, grad=upstream)
        np.testing.assert_allclose(got, scores, rtol=1e-4, atol=1e-5, err_msg=on)
        assert set(gradients) == set(want)
        for name, gradient in gradients.items():
            np.testing.assert_allclose(gradient, want[name], rtol=1e-4, atol=1e-5, err_msg=f"{on} {name}")


@pytest.mark.sampled(2)
@examples
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_every_example_compiles_for_a_gpu_with_its_gradients(path: Any, arch: str) -> None:
    compilation = compiled(path.read_text(), options={"grad": True, "arch": arch, "negatives": "tail:3"})
    assert compilation.stages["ptx"].available, compilation.stages["ptx"].reason


def test_machine_code_gives_the_gradients() -> None:
    text = next(path for path in EXAMPLES if path.stem == "transr").read_text()
    compilation, inputs, upstream = prepared(text, "tail:3")
    _, want = by_torch("transr", inputs, upstream)
    first, second = (compilation.run(inputs, "cpu", grad=upstream)[1] for _ in range(2))
    for name, gradient in first.items():
        np.testing.assert_allclose(gradient, want[name], rtol=1e-4, atol=1e-5, err_msg=name)
        np.testing.assert_array_equal(gradient, second[name])  # the sums have one order


@pytest.mark.timeout(420)
@pytest.mark.parametrize(
    "count", [5, pytest.param(20, marks=pytest.mark.sweep), pytest.param(60, marks=pytest.mark.exhaustive)]
)
def test_the_gradients_of_a_random_score_are_its_slopes(count: int) -> None:
    @settings(max_examples=count, deadline=None)
    @given(model_texts(), st.sampled_from(NEGATIVES))
    def agrees(text: str, negatives: str) -> None:
        note(text)
        compilation, drawn, upstream = prepared_as_written(text, negatives)
        # Within -1 and 1, and no two alike: where they tie, a largest element has no slope.
        inputs = {name: array if array.dtype == np.int32 else np.tanh(array) for name, array in drawn.items()}
        want = reference.score(text, inputs, {}, negatives=negatives)
        names = [name for name, _ in compilation.stages["graph"].program.gradients]
        slopes = reference.directional_difference(text, inputs, {}, upstream, names, negatives=negatives)
        for on in STAGES:
            got, gradients = compilation.run(inputs, on, grad=upstream)
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4, err_msg=on)
            assert list(gradients) == names
            for slope in slopes:
                terms = gradients[slope.tensor] * slope.direction
                error = abs(float(terms.sum()) - slope.value)
                assert error <= 1e-3 * (1 + np.abs(terms).sum()), (on, slope.tensor, slope.value)

    agrees()


def prepared_as_written(text: str, negatives: str) -> tuple[explorer.Compilation, dict[str, Any], Any]:
    plain = compiled(text, options={"negatives": negatives}, on_demand=True)
    inputs = draw_inputs(plain, batch=3, entities=4, relations=2)
    rows = {"none": (3,), "tail:3": (3, 3), "head:2": (3, 2)}[negatives]
    upstream = np.random.default_rng(3).uniform(-1, 1, rows).astype(np.float32)
    return plain.with_options(grad=True), inputs, upstream


CORNERS = {
    "norm(x)": lambda torch, x: torch.linalg.vector_norm(x, 2, dim=-1),
    "norm(x, 1)": lambda torch, x: torch.linalg.vector_norm(x, 1, dim=-1),
    "sum(abs(x))": lambda torch, x: x.abs().sum(-1),
    "sum(sign(x) + x)": lambda torch, x: (x.sign() + x).sum(-1),
    "sum(relu(x))": lambda torch, x: torch.relu(x).sum(-1),
    "sum(leaky_relu(x, 0.2))": lambda torch, x: torch.nn.functional.leaky_relu(x, 0.2).sum(-1),
    "max(x)": lambda torch, x: torch.amax(x, -1),
    "min(x)": lambda torch, x: torch.amin(x, -1),
    "sum(max(x, -x))": lambda torch, x: torch.maximum(x, -x).sum(-1),
    "sum(min(x, 2 * x))": lambda torch, x: torch.minimum(x, 2 * x).sum(-1),
}


@pytest.mark.parametrize("expression", CORNERS)
def test_corners_have_the_slopes_of_pytorch(expression: str) -> None:
    torch = pytest.importorskip("torch")
    text = f"""dim D = 3
score f(h: entity, r: relation, t: entity):
    param R[relation, D]
    x = R[r]
    return {expression}
"""
    compilation = compiled(text, options={"grad": True}, on_demand=True)
    table = np.array([[0, 0, 0], [1, -1, 0], [2, 2, 1]], dtype=np.float32)
    ids = np.array([0, 1, 2, 1], dtype=np.int32)
    upstream = np.array([1, 2, 3, -5], dtype=np.float32)
    leaf = torch.tensor(table, dtype=torch.float64, requires_grad=True)
    rows = leaf[torch.tensor(ids.astype(np.int64))]
    (CORNERS[expression](torch, rows) * torch.tensor(upstream)).sum().backward()
    for on in STAGES:
        _, gradients = compilation.run({"h": ids, "r": ids, "t": ids, "R": table}, on, grad=upstream)
        np.testing.assert_allclose(gradients["R"], leaf.grad.numpy(), rtol=1e-5, atol=1e-6, err_msg=on)


SHARED = """dim F = 4
score f(h: entity, r: relation, t: entity):
    param E[entity, F], A[F, F], bias[1]
    input x[entity, F]
    return dot((E[h] + x[t]) @ A, E[t]) + sum(bias)
"""


@any_negatives
def test_what_belongs_to_no_set_is_summed_over_the_batch(negatives: str) -> None:
    compilation, inputs, upstream = prepared(SHARED, negatives)
    for on in STAGES:
        _, gradients = compilation.run(inputs, on, grad=upstream)
        assert set(gradients) == {"E", "A", "bias"}
        assert gradients["bias"].shape == (1,)
        assert gradients["bias"][0] == pytest.approx(upstream.sum(), abs=1e-5)
        assert gradients["A"].shape == (4, 4)


@any_negatives
def test_a_score_that_ignores_the_corrupted_end_has_a_gradient_for_each_score(negatives: str) -> None:
    text = """dim D = 4
score f(h: entity, r: relation, t: entity):
    param R[relation, D]
    return sum(R[r])
"""
    compilation, inputs, upstream = prepared(text, negatives)
    want = np.zeros_like(inputs["R"])
    np.add.at(want, inputs["r"], upstream.reshape(len(inputs["r"]), -1).sum(axis=1)[:, None])
    for on in STAGES:
        got, gradients = compilation.run(inputs, on, grad=upstream)
        assert got.shape == upstream.shape
        np.testing.assert_allclose(gradients["R"], want, rtol=1e-5, atol=1e-6, err_msg=on)


def test_an_empty_batch_has_gradients_of_zeros() -> None:
    compilation, inputs, _ = prepared(SHARED)
    empty = {name: array[:0] if array.dtype == np.int32 else array for name, array in inputs.items()}
    for on in ("graph", "loops", "cpu"):
        scores, gradients = compilation.run(empty, on, grad=np.zeros(0, np.float32))
        assert scores.shape == (0,)
        assert not any(gradient.any() for gradient in gradients.values())


def test_names_of_a_models_own_are_not_taken() -> None:
    text = """dim B = 4, BN = 4
score upstream(h: entity, r: relation, t: entity):
    param upstream[entity, B], h_ptr[relation, BN], negative_batch[entity, BN], h_order[relation, B]
    return dot(upstream[h] * h_ptr[r], negative_batch[t] - h_order[r])
"""
    for negatives in NEGATIVES:
        compilation, inputs, upstream = prepared(text, negatives)
        names = [name for name, _ in compilation.stages["graph"].program.gradients]
        slopes = reference.directional_difference(text, inputs, {}, upstream, names, negatives=negatives)
        for on in STAGES:
            _, gradients = compilation.run(inputs, on, grad=upstream)
            for slope in slopes:
                got = float((gradients[slope.tensor] * slope.direction).sum())
                assert got == pytest.approx(slope.value, rel=1e-3, abs=1e-4), (on, slope.tensor)


def test_a_gradient_of_another_shape_is_refused() -> None:
    compilation, inputs, _ = prepared(SHARED)
    with pytest.raises(ValueError, match="grad has the shape"):
        compilation.run(inputs, "loops", grad=np.zeros(3, np.float32))


def test_a_score_without_a_param_takes_no_gradient_of_its_result() -> None:
    text = "score M(h: entity, t: entity):\n    input R[entity, 3]\n    return dot(R[h], R[t])\n"
    compilation = explorer.compile(text, options={"grad": True}, on_demand=True)
    inputs = draw_inputs(compilation.with_options(grad=False), batch=5, entities=4, relations=1)
    want = np.sum(inputs["R"][inputs["h"]] * inputs["R"][inputs["t"]], axis=-1)
    for on in ("graph", "loops", "slc", "dae"):
        got, gradients = compilation.run(inputs, on, grad=np.ones(5, np.float32))
        np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=on)
        assert not gradients, on
