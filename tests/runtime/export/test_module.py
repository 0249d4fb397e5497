"""The module of an extension, with operators of PyTorch's in the place of compiled ones."""

from __future__ import annotations

import re
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
    outputs, output_sets, upstreams = ("out",), ("batch",), ("up",)
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


def test_what_a_run_has_left_goes_with_its_backward_pass():
    class Squared(Exponential):
        """exp(E) ** 2, whose gradient is made of what the caller does not get."""

        result = program(operator(lambda E: [(2 * E).exp()], ("E",), "out"))
        gradients = program(
            operator(lambda E: [(2 * E).exp(), 2 * (2 * E).exp()], ("E",), "out", "left"),
            operator(slope, ("left", "up"), "grad_E"),
        )

    result = Squared()()
    assert [*result.grad_fn.left] == ["left"]
    first = torch.autograd.grad(result.sum(), result.grad_fn.module.E, retain_graph=True)
    assert result.grad_fn.left
    torch.testing.assert_close(torch.autograd.grad(result.sum(), result.grad_fn.module.E), first)
    assert not result.grad_fn.left


def test_gradients_of_gradients_are_refused_where_somebody_asks_for_them():
    made = Exponential()
    result = made().sum()
    (found,) = torch.autograd.grad(result, [made.E], create_graph=True)
    torch.testing.assert_close(found, made.E.exp())
    with pytest.raises(RuntimeError, match="Compiled gradients have no gradients themselves"):
        (result + found.square().sum()).backward()


def test_a_tensor_that_stands_for_its_negative_is_read_as_that():
    made, given = Exponential(), torch.randn(LENGTH, 2)
    negative = torch.view_as_complex(given).conj().imag
    assert negative.is_neg()
    torch.testing.assert_close(made(E=negative), (-given[:, 1]).exp())


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
    again = narrow(found, "h", True)
    found.zero_()
    assert torch.equal(again, ids), "the caller may write another batch over its own"


def test_an_inverse_is_made_again_where_the_sets_have_other_sizes():
    first, second = torch.tensor([0, 1, 2]), torch.tensor([1, 0, 1])
    made = Indices(torch.device("cpu"), {}, {})
    for sizes in ((3, 4), (6, 2), (3, 2)):  # of which two have as many pairs
        made.found["inspected"] = {}
        for found in ({}, {"inspected": {}}):
            ids = first * sizes[1] + second
            made.invert(ids, sizes, "ends", "order")
            assert made.arrays["order"].tolist() == [0, 1, 2]
            assert made.arrays["ends"].diff().nonzero().reshape(-1).tolist() == ids.tolist()
            assert len(made.arrays["ends"]) == sizes[0] * sizes[1] + 1
            assert made.found == found, "what inspectors found of another"
            made.found["inspected"] = {}


class Scaled(Compiled):
    """2 E."""

    tensors = (Declared("E", ("row", "col"), (3,), True, True), Declared("S", ("other",), (), True, False))
    maps = ()
    outputs, output_sets, upstreams = ("out",), ("row",), ("up",)
    slopes: ClassVar = {"E": "grad_E"}
    result = program(operator(lambda E: [2 * E], ("E",), "out"))
    gradients = program(operator(lambda up: [2 * up], ("up",), "grad_E"))

    def prepare(self, **given) -> Indices:
        return Indices(torch.device("cpu"), {}, {})

    def extents(self, counts) -> dict[str, int]:
        return {}


def test_rows_of_padding_are_zeros_and_have_no_gradient():
    made = Scaled(row=4, col=2, padding={"row": 1, "col": 0})
    live = torch.ones(4, 2, 3)
    live[1] = live[:, 0] = 0
    assert torch.equal((made.E != 0).float(), live)
    for given in ({}, {"E": torch.randn(4, 2, 3, requires_grad=True)}):
        made(S=torch.zeros(1), **given).sum().backward()
        torch.testing.assert_close({"E": made.E, **given}["E"].grad, 2 * live)
    with pytest.raises(ValueError, match=r"^the padding of row is row 1, but there are 1\.$"):
        Scaled(padding={"row": 1})(S=torch.zeros(1), E=torch.zeros(1, 2, 3))


@pytest.mark.parametrize(
    ("padding", "message"),
    [
        ({"rows": 0}, "Scaled has no parameter over rows to pad: they are over col, row."),
        ({"other": 0}, "Scaled has no parameter over other to pad: they are over col, row."),
        ({"row": 4}, "the padding of row is one of its rows, not 4."),
        ({"row": -1}, "the padding of row is one of its rows, not -1."),
        ({"col": True}, "the padding of col is one of its rows, not True."),
    ],
)
def test_padding_that_is_no_row_is_refused(padding, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Scaled(row=4, col=2, padding=padding)
