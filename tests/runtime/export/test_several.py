"""Extensions of definitions that return several values: a tuple, with a gradient for each."""

from __future__ import annotations

from typing import ClassVar

import pytest

import explorer
from explorer.runtime.export.folder import export, package_of
from tests.several_results import CASES

torch = pytest.importorskip("torch", reason="extensions are PyTorch's, which this machine does without")

from explorer.runtime.export.files.indices import Indices  # noqa: E402
from explorer.runtime.export.files.module import Compiled, Declared, Operator, Program  # noqa: E402

LENGTH, ORDER = 4, [2, 0, 3, 1]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", ["gated", "twice", "negatives", "read out", "coo"])
def test_an_extension_of_several_results_passes_its_own_test_on_the_emulator(name, tmp_path):
    from tests.runtime.export.emulated import build, tried

    compilation = explorer.compile(CASES[name].text, options=CASES[name].options, on_demand=True)
    export(compilation, tmp_path, grad=True)
    build(tmp_path, package_of(compilation.name))
    done = tried(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "5 inputs match the float64 reference" in done.stdout


def program(run, rest=None) -> Program:
    return Program(lambda made, counts: None, None, run, rest)


def both(E):
    return [E.exp(), 3 * E]


def start(E):
    return [*both(E), E.clone()]


def finish(e, kept, up_1, up_2, up_3):
    assert kept.tolist() == kept.sort().values.tolist()
    return [e * (up_1 + up_3) + 3 * up_2]


class Thrice(Compiled):
    """exp(E), 3 E and exp(E) again, of edges, whose kernels have them in another order than the caller."""

    tensors = (Declared("E", ("edge",), (), True, True),)
    maps = ()
    outputs, output_sets, upstreams = ("e", "m", "e"), ("batch", "edge", "batch"), ("u", "v", "w")
    slopes: ClassVar = {"E": "grad_E"}
    result = program(Operator(both, ("E",), (), ("e", "m")))
    gradients = program(
        Operator(start, ("E",), (), ("e", "m", "kept")),
        Operator(finish, ("e", "kept", "u", "v", "w"), (), ("grad_E",)),
    )

    def prepare(self, **given) -> Indices:
        order = torch.tensor(ORDER)
        return Indices(torch.device("cpu"), {}, {"edge": LENGTH}, order=order, ordered="edge")

    def extents(self, counts) -> dict[str, int]:
        return {}


def made():
    """The module, whose parameter the kernels see in rising order."""
    module = Thrice(edge=LENGTH)
    with torch.no_grad():
        module.E[torch.tensor(ORDER)] = torch.arange(float(LENGTH))
    return module


def test_each_result_is_a_tensor_of_its_own_in_the_callers_order():
    module = made()
    with torch.no_grad():
        alone = module()
    for first, second, third in (module(), alone):
        in_order = module.E.detach()[torch.tensor(ORDER)]
        torch.testing.assert_close(first.detach(), in_order.exp())
        torch.testing.assert_close(second.detach(), 3 * module.E.detach())
        torch.testing.assert_close(third, first)
        assert third.data_ptr() != first.data_ptr()


@pytest.mark.parametrize("weights", [(2.0, 5.0, 7.0), (0, 5.0, 0), (0, 0, 7.0), (2.0, 0, 0)])
def test_gradients_of_all_results_and_of_some(weights):
    module = made()
    total = sum(weight * each.sum() for weight, each in zip(weights, module(), strict=True) if weight)
    total.backward()
    first, second, third = weights
    want = module.E.detach().exp() * (first + third) + 3 * second
    torch.testing.assert_close(module.E.grad, want)


def test_a_result_that_the_backward_pass_reads_may_not_be_changed_before_it():
    module = made()
    first, second, third = module()
    first.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        (second + third).sum().backward()
    first, second, third = module()
    second.mul_(2)
    third.mul_(2)
    first.sum().backward()
    torch.testing.assert_close(module.E.grad, module.E.detach().exp())
