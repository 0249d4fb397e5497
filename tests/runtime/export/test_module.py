"""The module of an extension, with operators of PyTorch's in the place of compiled ones."""

from __future__ import annotations

from typing import ClassVar

import pytest

torch = pytest.importorskip("torch", reason="extensions are PyTorch's, which this machine does without")

from explorer.runtime.export.files.indices import Indices, narrow  # noqa: E402
from explorer.runtime.export.files.module import Compiled, Declared, Operator, Program  # noqa: E402

LENGTH = 12


def program(run, rest=None) -> Program:
    return Program(lambda made, counts: None, None, run, rest)


def operator(call, arrays, *made) -> Operator:
    return Operator(call, arrays, (), made)


def exponential(E):
    assert not E.data_ptr() % 16, "the kernels read vectors of 16 bytes"
    return [E.exp()]


def slope(out, up):
    assert not up.data_ptr() % 16, "the kernels read vectors of 16 bytes"
    return [out * up]


class Exponential(Compiled):
    """exp(E), whose gradient is made of the result."""

    tensors = (Declared("E", (), (LENGTH,), True, True),)
    maps = ()
    output, output_set, upstream = "out", "batch", "up"
    slopes: ClassVar = {"E": "grad_E"}
    result = program(operator(exponential, ("E",), "out"))
    gradients = program(operator(exponential, ("E",), "out"), operator(slope, ("out", "up"), "grad_E"))

    def prepare(self, **given) -> Indices:
        return Indices(torch.device("cpu"), {}, {"batch": LENGTH})

    def extents(self, counts) -> dict[str, int]:
        return {}


def test_gradients_of_a_result_that_was_changed_in_place_are_refused():
    made = Exponential()
    result = made()
    result.sum().backward()
    torch.testing.assert_close(made.E.grad, made.E.detach().exp())
    result = made()
    result.mul_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_tensors_and_gradients_that_begin_anywhere_are_read():
    made = Exponential()
    given = torch.randn(LENGTH + 1, requires_grad=True)
    weights = torch.arange(2.0 * LENGTH + 5)
    (torch.cat([torch.zeros(5), made(E=given[1:]), made(E=given[1:])]) * weights).sum().backward()
    want = given.detach()[1:].exp() * (weights[5 : 5 + LENGTH] + weights[5 + LENGTH :])
    torch.testing.assert_close(given.grad[1:], want)


def test_ids_that_begin_anywhere_are_narrowed_to_ones_that_kernels_read():
    ids = torch.arange(9, dtype=torch.int32)[1:]
    found = narrow(ids, "h", True)
    assert not found.data_ptr() % 16
    assert torch.equal(found, ids)
    assert narrow(found, "h", True).data_ptr() == found.data_ptr(), "what kernels can read stays where it is"
