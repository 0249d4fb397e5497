"""The module of an extension, with operators of PyTorch's in the place of compiled ones."""

from __future__ import annotations

from typing import ClassVar

import pytest

torch = pytest.importorskip("torch", reason="extensions are PyTorch's, which this machine does without")

from explorer.runtime.export.files.indices import Indices  # noqa: E402
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
