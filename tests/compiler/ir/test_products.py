"""Products that a warp takes on tensor cores: what they mean, what is asked of them, and how precise they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.compiler.interpret import run_program
from explorer.compiler.interpret.tensor_cores import product, rounded
from explorer.compiler.ir.kernels import Multiply, Precision
from explorer.compiler.ir.node import VerificationError, walk
from explorer.compiler.ir.parse import parse_scheduled
from explorer.compiler.ir.parse.reader import ParseError
from explorer.compiler.ir.print.kernels import print_scheduled
from explorer.compiler.ir.verify.kernels import verify_scheduled
from tests.compiler.ir.test_round_trip import text_of

PRODUCT = """\
scheduled Product  template gemm  threads 64
  param X[2, 8, 16], W[2, 8, 32]
  output out[B, 16, 32]
  for b in 0..B @block
    shared left[8, 16] padded 4
    shared right[8, 32] padded 4
    register y[2, 1, 8, 2, 1, 16]
    for strip in 0..2 @warp
      for down in 0..8 @lane
        for x in 0..16 step 4 @lane
          for i in 0..2 unroll all
            y[strip, 0, down, i, 0, x] = 0.0
    for slab in 0..2
      for d in 0..8 @thread
        for q in 0..8 @thread
          for pass in 0..2 unroll all
            index before = pass * 8
            index row = before + q
            u = X[slab, d, row]
            left[d, row] = u
          for pass1 in 0..4 unroll all
            index before1 = pass1 * 8
            index k = before1 + q
            w = W[slab, d, k]
            right[d, k] = w
      barrier block
      for strip1 in 0..2 @warp
        index column = strip1 * 16
        multiply y[strip1] += left * right from column over 16 x 16 x 8 in tf32x3
      barrier block
    for strip2 in 0..2 @warp
      index column1 = strip2 * 16
      for down1 in 0..8 @lane
        for i1 in 0..2 unroll all
          index pair = down1 * 2
          index row1 = pair + i1
          for x1 in 0..16 step 4 @lane
            index k1 = column1 + x1
            s = y[strip2, 0, down1, i1, 0, x1]
            out[b, row1, k1] = s
"""
"""Two slabs of 8, two warps of 16 columns each."""

ASKED = "multiply y[strip1] += left * right from column over 16 x 16 x 8 in tf32x3"
BROKEN = [
    ("over 16 x 16 x 8", "over 8 x 16 x 8", "rows, columns and depth are multiples of 16, 16 and 8"),
    ("over 16 x 16 x 8", "over 16 x 16 x 0", "rows, columns and depth are multiples of 16, 16 and 8"),
    ("over 16 x 16 x 8", "over 32 x 16 x 8", "y is no tile of such sums"),
    ("over 16 x 16 x 8", "over 16 x 32 x 8", "y is no tile of such sums"),
    ("over 16 x 16 x 8", "over 16 x 16 x 16", "left is not of depth by 16"),
    ("+= left * right", "+= right * W", "W is no tile of numbers in shared memory"),
    ("+= left * right", "+= y * right", "y is no tile of numbers in shared memory"),
    ("multiply y[strip1]", "multiply left", "left is no tile of numbers in register memory"),
    ("multiply y[strip1]", "multiply y[0]", "y is spread over other threads elsewhere"),
    ("index column = strip1 * 16", "index column = strip1 * 15", "column is not known to be even"),
    ("left[8, 16] padded 4", "left[8, 16] padded 3", "a pair of left does not begin where one may"),
    (ASKED, f"for l in 0..2 @lane\n          {ASKED}", "a warp multiplies together, in no loop over lanes"),
    ("x in 0..16 step 4 @lane", "x in 0..16 @lane", "y is spread over other threads elsewhere|64 lanes|128 lanes"),
    (
        "      barrier block\n      for strip1",
        "      for strip1",
        "left was written by other threads, with no barrier block",
    ),
    ("8 in tf32x3\n      barrier block\n", "8 in tf32x3\n", "left was read by other threads, with no barrier block"),
    ("            right[d, k] = w\n", "", "right is read before anything is stored in it"),
    ("            y[strip, 0, down, i, 0, x] = 0.0\n", "            index o = i + 1\n", "y is read before anything"),
]


def inputs() -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {"X": random.normal(size=(2, 8, 16)).astype("f4"), "W": random.normal(size=(2, 8, 32)).astype("f4"), "B": 2}


def test_it_verifies_and_prints_as_it_was_read() -> None:
    kernel = parse_scheduled(PRODUCT)
    verify_scheduled(kernel)
    assert text_of(print_scheduled(kernel)) == PRODUCT
    (found,) = (node for node in walk(kernel) if isinstance(node, Multiply))
    assert (found.rows, found.columns, found.depth, found.precision) == (16, 16, 8, "tf32x3")


@pytest.mark.parametrize(("precision", "least", "most"), [("tf32x3", 0, 2e-6), ("tf32", 1e-5, 2e-3)])
def test_it_multiplies(precision: str, least: float, most: float) -> None:
    given = inputs()
    out, _ = run_program(parse_scheduled(PRODUCT.replace("tf32x3", precision)), given)
    want = np.einsum("sdr,sdk->rk", given["X"].astype("f8"), given["W"].astype("f8"))
    assert least <= np.abs(out - want).max() / np.abs(want).max() <= most


@pytest.mark.parametrize(("old", "new", "message"), BROKEN)
def test_a_broken_rule(old: str, new: str, message: str) -> None:
    assert old in PRODUCT
    with pytest.raises(VerificationError, match=message):
        verify_scheduled(parse_scheduled(PRODUCT.replace(old, new, 1)))


@pytest.mark.parametrize(("old", "new"), [("+= left *", "*= left *"), ("left * right", "left + right"), ("x3", "x5")])
def test_what_no_product_is(old: str, new: str) -> None:
    with pytest.raises(ParseError):
        parse_scheduled(PRODUCT.replace(ASKED, ASKED.replace(old, new)))


def test_a_name_may_be_the_word() -> None:
    text = PRODUCT.replace("        multiply y", "        multiply = 1.0 + 2.0\n        multiply y")
    assert text_of(print_scheduled(parse_scheduled(text))) == text


def test_numbers_are_rounded_to_11_bits() -> None:
    near, half = np.float32(1 + 2**-10), np.float32(1 + 2**-11)
    given = np.array([1, near, half, -half, 1 + 2**-12, 3e38, np.inf, -np.inf], np.float32)
    want = np.array([1, near, near, -near, 1, 3e38, np.inf, -np.inf], np.float32)
    np.testing.assert_allclose(rounded(given), want, rtol=0 if given[5] == 0 else 3e-4)
    assert rounded(given)[:5].tolist() == want[:5].tolist()
    every_nan = np.array([0x7FFFFFFF, 0x7FC00000, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert np.isnan(rounded(every_nan)).all()


@pytest.mark.parametrize("precision", ["tf32", "tf32x3"])
def test_a_product_of_nan_is_nan(precision: Precision) -> None:
    left = np.full((8, 16), np.uint32(0x7FFFFFFF)).view(np.float32)
    assert np.isnan(product(left, np.ones((8, 16), np.float32), precision)).all()


TOGETHER = """\
scheduled Together  template gemm  threads 128
  param X[2, 16, 32], W[2, 32, 128]
  output out[B, 16, 128]
  for b in 0..B @block
    shared left[16, 32] swizzled
    shared right[32, 128] padded 8
    register y[4, 2, 4, 2, 1, 32]
    for strip in 0..4 @warp
      for down in 0..4 @lane 4 apart 1
        for x in 0..32 step 4 @lane 8 apart 4
          for tall in 0..2 unroll all
            for i in 0..2 unroll all
              y[strip, tall, down, i, 0, x] = 0.0
    for slab in 0..2
      for row in 0..16 @thread
        for q in 0..32 step 4 @thread
          u = X[slab, row, q]
          v = as_tf32(u)
          left[row, q] = v
      for d in 0..4 @thread
        for k in 0..128 step 4 @thread
          for pass in 0..8 unroll all
            index before = pass * 4
            index deep = before + d
            w = W[slab, deep, k]
            right[deep, k] = w
      barrier block
      for strip1 in 0..4 @warp
        index column = strip1 * 32
        multiply y[strip1] += left * right from column over 16 x 32 x 32 in tf32 by 4 warps
      barrier block
    for strip2 in 0..4 @warp
      index column1 = strip2 * 32
      for down1 in 0..4 @lane 4 apart 1
        for x1 in 0..32 step 4 @lane 8 apart 4
          index k1 = column1 + x1
          for tall1 in 0..2 unroll all
            for i1 in 0..2 unroll all
              index above = tall1 * 8
              index pair = down1 * 2
              index first = pair + i1
              index row1 = above + first
              s = y[strip2, tall1, down1, i1, 0, x1]
              out[b, row1, k1] = s
"""
"""Two slabs of 32, four warps of 32 columns each, which multiply together."""

IN_PARTS = (
    TOGETHER.replace("left[16, 32]", "left[2, 16, 32]")
    .replace("v = as_tf32(u)\n          left[row, q] = v", "v = below_tf32(u)\n          left[0, row, q] = u")
    .replace("left[0, row, q] = u\n", "left[0, row, q] = u\n          left[1, row, q] = v\n")
    .replace("in tf32 by", "in tf32x3 by")
)

BY_FOUR = "multiply y[strip1] += left * right from column over 16 x 32 x 32 in tf32 by 4 warps"
BROKEN_TOGETHER = [
    ("by 4 warps", "by 2 warps", "each 4 warps multiply together, in a loop over all warps of the block"),
    ("threads 128", "threads 256", "each 4 warps multiply together, in a loop over all warps of the block"),
    (BY_FOUR, f"where strip1 < 2\n          {BY_FOUR}", "some of the warps that multiply together may not come there"),
    (BY_FOUR, f"for again in 0..strip1\n          {BY_FOUR}", "some of the warps that multiply together may not come"),
    ("over 16 x 32 x 32", "over 12 x 32 x 32", "rows are a multiple of 8, columns one of 32, and the depth is 32"),
    ("over 16 x 32 x 32", "over 16 x 32 x 16", "rows are a multiple of 8, columns one of 32, and the depth is 32"),
    ("over 16 x 32 x 32", "over 24 x 32 x 32", "y is no tile of such sums"),
    ("left[16, 32] swizzled", "left[16, 32]", "left is not rows x depth, swizzled"),
    ("in tf32 by", "in tf32x3 by", "left is not 2 parts x rows x depth, swizzled"),
    ("+= left * right", "+= left[strip1] * right", "the warps that multiply together have different left"),
    ("+= left * right", "+= X * right", "X is no tile of numbers in shared memory"),
    ("right[32, 128] padded 8", "right[32, 128] swizzled", "what is swizzled are rows of 32 numbers"),
    ("strip1 * 32", "strip1 * 30", "column is not known to be a multiple of 4"),
    ("for down in 0..4 @lane 4 apart 1", "for down in 0..4 @lane 4 apart 8", "no lane has one iteration each of it"),
    (
        "      barrier block\n      for strip1",
        "      for strip1",
        "was written by other threads, with no barrier block",
    ),
    ("tf32 by 4 warps\n      barrier block\n", "tf32 by 4 warps\n", "was read by other threads, with no barrier block"),
]


def given_together() -> dict[str, Any]:
    random = np.random.default_rng(0)
    shapes = {"X": (2, 16, 32), "W": (2, 32, 128)}
    return {**{name: random.normal(size=shape).astype("f4") for name, shape in shapes.items()}, "B": 2}


@pytest.mark.parametrize(("text", "least", "most"), [(TOGETHER, 1e-5, 2e-3), (IN_PARTS, 0, 2e-6)])
def test_four_warps_multiply_together(text: str, least: float, most: float) -> None:
    kernel = parse_scheduled(text)
    verify_scheduled(kernel)
    assert text_of(print_scheduled(kernel)) == text
    given = given_together()
    out, _ = run_program(kernel, given)
    want = np.einsum("srd,sdk->rk", given["X"].astype("f8"), given["W"].astype("f8"))
    assert least <= np.abs(out - want).max() / np.abs(want).max() <= most


def test_a_part_that_is_missing_shows() -> None:
    text = IN_PARTS.replace("left[1, row, q] = v", "left[1, row, q] = 0.0")
    given = given_together()
    out, _ = run_program(parse_scheduled(text), given)
    want = np.einsum("srd,sdk->rk", given["X"].astype("f8"), given["W"].astype("f8"))
    assert np.abs(out - want).max() / np.abs(want).max() > 1e-5


@pytest.mark.parametrize(("old", "new", "message"), BROKEN_TOGETHER)
def test_a_broken_rule_of_four_warps(old: str, new: str, message: str) -> None:
    assert old in TOGETHER
    with pytest.raises(VerificationError, match=message):
        verify_scheduled(parse_scheduled(TOGETHER.replace(old, new, 1)))
