"""What is stored: an edge's weight and the gradient of its logit once, for all the loops that would compute them."""

import pytest

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
