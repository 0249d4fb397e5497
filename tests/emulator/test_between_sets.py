"""Kernels of a layer from one set to another, on threads: results of both sets and gradients are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.between_sets import LIKES, OPTIONS, given, likes, upstreams, wanted
from tests.compiler.by_form.test_set_forms import exact
from tests.compiler.models import compiled
from tests.emulator.launch import launch


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("options", [*OPTIONS, {"split": "nonzeros"}], ids=str)
def test_kernels_give_results_and_gradients_of_both_sets(options: dict[str, Any], grad: bool) -> None:
    compilation = compiled(LIKES, options={**options, "grad": grad}, on_demand=True)
    inputs = given()
    assert compilation.encode is not None
    arrays, finish = compilation.encode(compilation, inputs, upstreams() if grad else None)
    got, gradients = finish(*launch(compilation, arrays))
    for one, other in zip(got, likes(exact(inputs)), strict=True):
        np.testing.assert_allclose(one.reshape(other.shape), other, rtol=1e-4, atol=1e-5)
    for name, slope in (wanted() if grad else {}).items():
        np.testing.assert_allclose(gradients[name], slope, rtol=1e-3, atol=1e-4, err_msg=name)
