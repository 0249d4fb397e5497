"""What is stored: an edge's weight and the gradient of its logit once, for all the loops that would compute them."""

import numpy as np
import pytest

import explorer
from benchmarks._growing import GROWING
from explorer.compiler.ir.loops import Compute, Load
from explorer.compiler.ir.node import walk
from tests.compiler.layers import layer


def kernels_of(name, **options):
    return layer(name, aggregate=False, **options).stages["loops"].program.programs


def stored_over(kernels, extent):
    """The arrays over a set that kernels store."""
    return [b.name for k in kernels for b in k.buffers if b.kind == "output" and b.extents[:1] == (extent,)]


@pytest.mark.parametrize("name", ["rgat", "rgat_heads", "hgt"])
def test_a_softmax_takes_each_exponential_once(name):
    kernels = kernels_of(name, grad=True)
    found = [node for kernel in kernels for node in walk(kernel) if isinstance(node, Compute)]
    assert sum(node.function == "exp" for node in found) == 1


def test_the_gradient_of_a_logit_is_computed_once():
    kernels = kernels_of("rgat", grad=True)
    assert len(stored_over(kernels, "edges")) == 2  # the weight, and the gradient of the logit
    found = [node for kernel in kernels for node in walk(kernel) if isinstance(node, Compute)]
    assert sum(node.function == "step" for node in found) == 1


def test_what_a_load_is_enough_for_is_not_stored():
    assert len(stored_over(kernels_of("hgt", grad=True), "edges")) == 3  # the logit, its weight, its gradient


@pytest.mark.parametrize(("name", "arrays"), [("rgat", 0), ("hgt", 1)])
def test_without_gradients_nothing_more_is_stored(name, arrays):
    assert len(stored_over(kernels_of(name), "edges")) == arrays


def test_sums_by_the_same_map_are_taken_by_one_kernel():
    kernels = kernels_of("hgt", grad=True)
    (kernel,) = [
        k for k in kernels if stored_over([k], "src_pairs") and "src_pair_order" in {b.name for b in k.buffers}
    ]
    assert len(stored_over([kernel], "src_pairs")) == 2
    assert not [n for n in walk(kernel) if isinstance(n, Load) and n.buffer == "src_pair"]


def test_a_chain_of_softmaxes_stores_what_each_would_begin_anew_and_is_right():
    text, _ = GROWING["softmaxes"]
    compilation = explorer.compile(text(12).replace("F = 64, H = 4, D = 16", "F = 8, H = 2, D = 4"), on_demand=True)
    assert stored_over(compilation.stages["loops"].program.programs, "edges")
    rng = np.random.default_rng(0)
    nodes, edges = 12, 40
    src, dst = rng.integers(0, nodes, edges), rng.integers(0, nodes - 2, edges)
    etype, ntype = rng.integers(0, 3, edges), rng.integers(0, 2, nodes)
    shapes = {"x": (nodes, 8), "K": (2, 2, 8, 4), "Q": (2, 2, 8, 4), "V": (2, 2, 8, 4)}
    shapes |= {"A": (3, 2, 4, 4), "M": (3, 2, 4, 4), "mu": (3, 2)}
    given = {name: (rng.standard_normal(shape) * 0.5).astype(np.float32) for name, shape in shapes.items()}
    x, k, q, v, a, m, mu = (each.astype(np.float64) for each in given.values())
    keys, queries, messages = (np.einsum("nf,nhfd->nhd", x, weight[ntype]) for weight in (k, q, v))
    att = (np.einsum("ehd,ehdc->ehc", keys[src], a[etype]) * queries[dst]).sum(-1) * mu[etype] / 2
    for _ in range(12):
        weights, total = np.exp(att), np.zeros((nodes, 2))
        np.add.at(total, dst, weights)
        att = weights / total[dst]
    wanted = np.zeros((nodes, 2, 4))
    np.add.at(wanted, dst, np.einsum("ehd,ehdc->ehc", messages[src], m[etype]) * att[..., None])
    graph = {"src": src, "dst": dst, "etype": etype, "ntype": ntype}
    graph |= {"num_nodes": nodes, "num_etypes": 3, "num_ntypes": 2}
    for stage in ("loops", "dlc", "kernels"):
        result = compilation.run(given | graph, on=stage)
        assert np.abs(result - wanted.reshape(nodes, 8)).max() < 1e-6 * np.abs(wanted).max(), stage
