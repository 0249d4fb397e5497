"""Kernels of definitions with several results, on threads: all results and the gradients of their sum are NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import explorer
from tests.compiler.slopes import slopes
from tests.emulator.launch import launch
from tests.several_results import CASES, given, in_one, upstreams


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("name", ["gated", "negatives", "twice", "read out", "coo", "bags", "handed on, in f16"])
def test_kernels_give_all_results_and_the_gradients_of_their_sum(name: str) -> None:
    case = CASES[name]
    for grad in (False, True):
        compilation = explorer.compile(case.text, options={**case.options, "grad": grad})
        inputs = given(case, compilation.stages["graph"].program)
        want = case.means({key: np.asarray(array) for key, array in inputs.items()})
        upstream = upstreams(want) if grad else None
        assert compilation.encode is not None
        arrays, finish = compilation.encode(compilation, inputs, upstream)
        got, gradients = finish(*launch(compilation, arrays))
        for one, other in zip(got, want, strict=True):
            np.testing.assert_allclose(one.reshape(other.shape), other, rtol=1e-4, atol=1e-5)
        learnt = dict(gradients)
        wanted = (
            slopes(lambda i, case=case: in_one(case.means(i)), inputs, learnt, in_one(upstream)) if upstream else {}
        )
        for key, slope in wanted.items():
            np.testing.assert_allclose(learnt[key], slope, rtol=1e-3, atol=1e-4, err_msg=key)
