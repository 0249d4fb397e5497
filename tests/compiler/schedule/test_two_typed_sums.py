"""Sums of messages by two matrices of the edge's type: what is left behind the first finds its segments again."""

import numpy as np
import pytest

import explorer
from benchmarks.cases.growing import GROWING


@pytest.mark.parametrize("count", [2, 3])
def test_kernels_of_several_typed_products_are_right(count):
    text, _ = GROWING["typed_products"]
    compilation = explorer.compile(text(count).replace("F = 32", "F = 16"), on_demand=True)
    assert compilation.stages["cuda"].available, compilation.stages["cuda"].reason
    rng = np.random.default_rng(0)
    nodes, edges = 9, 30
    src, dst, etype = rng.integers(0, nodes, edges), rng.integers(0, nodes - 2, edges), rng.integers(0, 3, edges)
    x = rng.standard_normal((nodes, 16)).astype(np.float32)
    weights = {f"W{i}": rng.standard_normal((3, 16, 16)).astype(np.float32) for i in range(count)}
    graph = {"src": src, "dst": dst, "etype": etype, "num_nodes": nodes, "num_etypes": 3}
    result = compilation.run({"x": x, **weights, **graph}, on="kernels")
    whole = sum(weight.astype(np.float64) for weight in weights.values())
    wanted = np.zeros((nodes, 16))
    np.add.at(wanted, dst, np.einsum("ef,efg->eg", x[src].astype(np.float64), whole[etype]))
    assert np.abs(result - wanted).max() < 1e-6 * np.abs(wanted).max()
