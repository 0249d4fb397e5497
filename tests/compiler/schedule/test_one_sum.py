"""A product of which only a sum of sums is wanted is ended in registers: no kernel stores its columns."""

from __future__ import annotations

import pytest

import explorer
from explorer.compiler.ir.kernels import Loop
from explorer.compiler.ir.node import walk
from tests.compiler.schedule.product_models import MODELS

NONLINEAR = """
dim D = 20, K = 6
score Slices(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, K], W[K, D, D]
    return dot(tanh(R[r] @ (E[h] @ W)), E[t])
"""


def outputs(text: str) -> list[tuple[int | str, ...]]:
    """The extents of what the kernels that go through the batch store."""
    program = explorer.compile(text).stages["kernels"].program
    batch = [kernel for kernel in program.programs if any(buffer.extents == ("B",) for buffer in kernel.buffers)]
    return [buffer.extents for kernel in batch for buffer in kernel.buffers if buffer.kind == "output"]


@pytest.mark.parametrize("name", ["slices", "odd_slices"])
def test_columns_are_added_up_where_they_are_computed(name: str) -> None:
    assert ("B",) in outputs(MODELS[name])
    assert not [extents for extents in outputs(MODELS[name]) if len(extents) > 2 or "K" in extents or "D" in extents]


def test_what_is_no_sum_of_sums_is_stored() -> None:
    assert [extents for extents in outputs(NONLINEAR) if len(extents) > 2]


def test_rows_of_whole_vectors_are_read_as_vectors() -> None:
    """A column's place in its row is a rest by its row's length, and of a vector's columns all are in one row."""

    def steps(name: str) -> set[int]:
        program = explorer.compile(MODELS[name]).stages["kernels"].program
        return {node.step for node in walk(program) if isinstance(node, Loop)}

    assert 4 in steps("slices")
    assert steps("odd_slices") == {1}
