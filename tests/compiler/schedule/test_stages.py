"""Nests of few long iterations, taken apart into long sums and what is between them, mean what they meant."""

from __future__ import annotations

import numpy as np

import explorer
from explorer.compiler.interpret.loops import run_kernel
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.node import Names
from explorer.compiler.ir.parse import parse_kernel
from explorer.compiler.ir.statements import all_names
from explorer.compiler.schedule.distribute.fission import split_stages

BETWEEN = """
layer Between(g: graph):
    param mu[etype, 4, 2], b[2]
    for e in g.edges():
        e["a"] = sum(max(mu[e.etype])) + b
        e["z"] = norm(reshape(mu[e.etype] + mu[e.etype], 2, 4)) + e["a"]
    return e["z"]
"""
PART = """kernel Part  template gemm
  input x[nodes, 4]
  output out[1, 3]
  parallel for u in 0..1
    row y[4]
    for i in 0..4
      y[i] = 0.0
    for n in 0..nodes
      for i1 in 0..4
        x1 = x[n, i1]
        y[i1] += x1
    for i2 in 0..3
      y1 = y[i2]
      out[u, i2] = y1
"""


def run_in_turn(kernels: tuple[Kernel, ...], given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the kernels write, each after the ones before it."""
    for kernel in kernels:
        given = given | run_kernel(kernel, given)
    return given


def test_a_scalar_between_two_stages_is_read_behind_what_adds_to_it() -> None:
    """The slope of a maximum is shared among those that are as large, by a number that is itself a sum."""
    compilation = explorer.compile(BETWEEN, options={"grad": True}, on_demand=True)
    random = np.random.default_rng(0)
    mu, b = random.normal(size=(2, 4, 2)).astype(np.float32), np.ones(2, np.float32)
    edges = {"src": [0, 1, 2], "dst": [1, 1, 0], "etype": [0, 1, 1], "num_nodes": 3, "num_etypes": 2}
    inputs = {**edges, "mu": mu, "b": b}
    _, want = compilation.run(inputs, on="loops", grad=np.ones((3, 2), np.float32))
    _, got = compilation.run(inputs, on="kernels", grad=np.ones((3, 2), np.float32))
    np.testing.assert_allclose(got["mu"], want["mu"], rtol=1e-5)


def test_a_sum_of_which_a_part_is_stored_keeps_its_own_array() -> None:
    kernel = parse_kernel(PART)
    kernels = split_stages(kernel, Names(all_names(kernel)))
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    assert len(kernels) == 2
    np.testing.assert_array_equal(run_in_turn(kernels, {"x": x})["out"], x.sum(axis=0)[None, :3])
