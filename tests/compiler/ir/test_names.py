"""The graph's operators have the names of cuKE's Table III, and mean what those say."""

from __future__ import annotations

import re

import numpy as np

import explorer
from explorer.compiler.ir.graph import CONTRACTION_NAMES

TEXT = """
dim D = 3, K = 5

score S(h: entity, r: relation, t: entity):
    param E[entity, D]
    param R[relation, K]
    param P[relation, D, K]
    return norm((E[h] - E[t]) @ P[r] + R[r], 2)
"""


def test_a_backward_pass_is_of_named_operators() -> None:
    """cuKE §VII-C: those of a product with a matrix are the product with it transposed, and an outer product."""
    text = explorer.compile(TEXT, options={"grad": True}).stages["graph"].text
    assert re.findall(r"= (b\w+) ", text) == ["bmv", "bmv_t", "bov_t"]
    assert "contract<" not in text


def test_what_is_transposed_is_so() -> None:
    random = np.random.default_rng(0)
    a, b, matrix = random.random(3), random.random(5), random.random((3, 5))
    signature = {name: signature for signature, name in CONTRACTION_NAMES.items()}
    assert np.allclose(np.einsum(signature["bmv_t"], b, matrix), np.einsum(signature["bmv"], b, matrix.T))
    assert np.allclose(np.einsum(signature["bov_t"], b, a), np.einsum(signature["bov"], b, a).T)
