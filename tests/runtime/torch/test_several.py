"""Modules of PyTorch whose model returns several values: a tuple, with the gradients of the eager expressions."""

from __future__ import annotations

import pytest

import explorer
from tests.several_results import CASES, DST, SRC, given

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")


def made(name, **options):
    """A case's module, the tensors of its structure and what is learnt."""
    case = CASES[name]
    compilation = explorer.compile(case.text, options={**case.options, **options}, on_demand=True)
    graph = compilation.stages["graph"].program
    inputs = given(case, graph)
    learnt = {tensor.name for tensor in graph.tensors if tensor.kind == "param"}
    tensors = {each: torch.tensor(inputs.pop(each), requires_grad=True) for each in sorted(learnt)}
    ids = {each: torch.as_tensor(value) for each, value in inputs.items() if not isinstance(value, int)}
    return compilation.torch(), ids, tensors


def gated(x, f):
    gate = f + x[SRC] + x[DST]
    return torch.zeros_like(x).index_add(0, torch.tensor(DST), torch.sigmoid(gate) * x[SRC]), gate


def differences(results, tensors, weights):
    """The gradients of the weighted sum of some results."""
    pairs = [(result * weight).sum() for result, weight in zip(results, weights, strict=True) if weight is not None]
    return torch.autograd.grad(sum(pairs), list(tensors.values()), allow_unused=True, materialize_grads=True)


def check_gated(weights):
    module, ids, tensors = made("gated")
    doubled = {name: tensor.detach().double().requires_grad_() for name, tensor in tensors.items()}
    got, want = module(**ids, **tensors), gated(**doubled)
    assert isinstance(got, tuple)
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5)
    weights = [torch.randn(5, 3) if weights[0] else None, torch.randn(8, 3) if weights[1] else None]
    found = differences(got, tensors, weights)
    wanted = differences(want, doubled, weights)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weights", [(True, True), (True, False), (False, True)])
def test_gradients_of_all_results_and_of_some(weights):
    torch.manual_seed(0)
    check_gated(weights)


@pytest.mark.parametrize("weights", [(True, True), (False, True)])
def test_a_gpus_kernels_give_them_too(weights, pretended_gpu, fake_cuda):
    torch.manual_seed(0)
    check_gated(weights)
    assert fake_cuda.log


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_the_same_result_twice_is_two_tensors(device, request):
    if device == "gpu":
        request.getfixturevalue("pretended_gpu")
    module, ids, tensors = made("twice")
    with torch.no_grad():
        first, second, third, double = module(**ids, **tensors)
        first += 1
        torch.testing.assert_close(second, first - 1)
        torch.testing.assert_close(third, second)
        torch.testing.assert_close(double, 2 * second)
    weights = [torch.tensor(float(weight)) for weight in (1, 2, 3, 4)]
    found = differences(module(**ids, **tensors), tensors, weights)
    plain = {name: tensor.detach().double().requires_grad_() for name, tensor in tensors.items()}
    h, r, t = (ids[name] for name in "hrt")
    score = (plain["E"][h] * plain["R"][r] * plain["E"][t]).sum(-1)
    for one, other in zip(found, differences([score], plain, [14.0]), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)


def test_a_module_without_gradients_returns_all():
    module, ids, tensors = made("negatives")
    with torch.no_grad():
        scores, norms = module(**ids, **tensors)
    assert scores.shape == norms.shape == (4, 3)
