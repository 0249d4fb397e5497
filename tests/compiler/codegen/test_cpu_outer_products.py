"""Sums of outer products on the CPU, some at a visit: segments of every length, against the formula in float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.compiler.codegen.cpu.program import UNROLLED, generate_host
from explorer.runtime.arrays import kernels_of

TRANSR = Path(__file__).resolve().parents[3] / "examples" / "kge" / "transr.emb"
MODEL = """dim D = {depth}, K = {width}

score Model(h: entity, r: relation, t: entity):
    param E[entity, D]
    param P[relation, D, K]
    param Q[entity, K]
    return dot(E[h] @ P[r], Q[t])
"""
LENGTHS = (0, 1, 3, 4, 5, 7, 8, 9)
"""Triples of each relation: shorter than a block, whole blocks, and blocks with something left."""


@pytest.mark.parametrize(("negatives", "depth", "width"), [(0, 5, 7), (0, 4, 16), (3, 4, 5), (17, 3, 33)])
def test_gradients_of_matrices_are_the_formulas_for_all_lengths_of_segments(
    negatives: int, depth: int, width: int
) -> None:
    random = np.random.default_rng(depth)
    r = random.permutation(np.repeat(np.arange(len(LENGTHS)), LENGTHS)).astype(np.int32)
    h, t = (random.integers(6, size=shape, dtype=np.int32) for shape in (len(r), (len(r), max(1, negatives))))
    E, P, Q = (
        random.standard_normal(shape, np.float32) for shape in ((6, depth), (len(LENGTHS), depth, width), (6, width))
    )
    upstream = random.standard_normal(t.shape, np.float32)
    options = {"grad": True, **({"negatives": f"tail:{negatives}"} if negatives else {})}
    compilation = explorer.compile(MODEL.format(depth=depth, width=width), options=options, on_demand=True)

    given = {"h": h, "r": r, "t": t if negatives else t[:, 0], "E": E, "P": P, "Q": Q}
    _, gradients = compilation.run(given, on="cpu", grad=upstream if negatives else upstream[:, 0])

    terms = np.einsum("bn,bd,bnk->bdk", upstream.astype(np.float64), E[h], Q[t].astype(np.float64))
    want, most = np.zeros(P.shape), np.zeros(P.shape)
    np.add.at(want, r, terms)
    np.add.at(most, r, np.einsum("bn,bd,bnk->bdk", *(np.abs(a.astype(np.float64)) for a in (upstream, E[h], Q[t]))))
    # Two roundings of each term, and one of each sum that it is in: at most so many as there are terms of a relation.
    terms_of_a_sum = max(LENGTHS) * max(1, negatives)
    assert (np.abs(gradients["P"] - want) <= (terms_of_a_sum + 2) * 2.0**-24 * most).all()
    assert (gradients["P"][0] == 0).all()


def test_an_outer_product_is_summed_with_three_others_and_what_is_left_alone() -> None:
    compilation = explorer.compile(TRANSR.read_text(), options={"grad": True}, on_demand=True)
    texts = [generate_host(kernel).text for kernel in kernels_of(compilation.stages["loops"].program)]
    (text,) = (text for text in texts if "grad_P[" in text)

    assert text.count("grad_P[") == 3, "zeros, four at a time, one at a time"
    assert text.count("// 4") == 1


def test_loops_that_are_to_use_vectors_do_not_say_how_long_they_are() -> None:
    for width, bound in ((UNROLLED, f"one * {UNROLLED}"), (UNROLLED - 1, str(UNROLLED - 1))):
        compilation = explorer.compile(MODEL.format(depth=3, width=width), on_demand=True)
        (kernel,) = kernels_of(compilation.stages["loops"].program)
        text = generate_host(kernel).text

        assert f"in range({bound}):" in text
        assert "in range(3):" in text, "which is around another loop"
