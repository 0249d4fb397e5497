"""Copies into shared memory that go on beside the threads: what they mean, and what must wait for them."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.compiler.interpret import run_program
from explorer.compiler.ir.node import VerificationError
from explorer.compiler.ir.parse import parse_scheduled
from explorer.compiler.ir.print.kernels import print_scheduled
from explorer.compiler.ir.verify.kernels import verify_scheduled
from tests.compiler.ir.test_round_trip import text_of

RING = """\
scheduled Ring  template gemm  threads 32
  param X[4, 8, 32]
  output out[B, 8, 32]
  for b in 0..B @block
    shared left[2, 8, 32] padded 4
    register y[4, 2, 32]
    for ty in 0..4 @thread
      for q in 0..32 step 4 @thread
        for pass in 0..2 unroll all
          index above = pass * 4
          index row = above + ty
          y[ty, pass, q] = 0.0
          copy left[0, row, q] = X[0, row, q]
    for slab in 0..4
      index stage = slab % 2
      barrier block after copies
      index next = slab + 1
      index stage1 = next % 2
      where next < 4
        for ty1 in 0..4 @thread
          for q1 in 0..32 step 4 @thread
            for pass1 in 0..2 unroll all
              index above1 = pass1 * 4
              index row1 = above1 + ty1
              copy left[stage1, row1, q1] = X[next, row1, q1]
      for ty2 in 0..4 @thread
        for q2 in 0..32 step 4 @thread
          for pass2 in 0..2 unroll all
            index below2 = pass2 * 4
            index row2 = 7 - below2
            index other = row2 - ty2
            u = left[stage, other, q2]
            y[ty2, pass2, q2] += u
    for ty3 in 0..4 @thread
      for q3 in 0..32 step 4 @thread
        for pass3 in 0..2 unroll all
          index above3 = pass3 * 4
          index row3 = above3 + ty3
          s = y[ty3, pass3, q3]
          out[b, row3, q3] = s
"""
"""Sums of four slabs, upside down: while one is added, the next is copied."""

COPY = "copy left[stage1, row1, q1] = X[next, row1, q1]"
LOOP = "            for pass1 in 0..2 unroll all\n"
IN_LOOP = RING[RING.index(LOOP) : RING.index("      for ty2")]
BROKEN = [
    (
        "barrier block after copies",
        "barrier block",
        "left was copied to, with no barrier block after copies between: u",
    ),
    ("      barrier block after copies\n", "", "left was read by other threads, with no barrier block between: copy"),
    ("after copies", "after copies\n      barrier warp after copies", "what threads copied is waited for by all"),
    ("stage1 = next % 2", "stage1 = slab % 2", "left was copied to, with no barrier block after copies between: u"),
    ("stage1 = next % 2", "stage1 = next % 3", "left was copied to, with no barrier block after copies between: u"),
    (COPY, f"{COPY}\n              v = left[stage1, row1, q1]", "left was copied to, .* after copies between: v"),
    (COPY, f"{COPY}\n              {COPY}", "left was copied to, with no barrier block after copies between: copy"),
    (
        "above1 = pass1 * 4",
        "above1 = pass1 * 2",
        "some iterations over ty1 write to the same element: copy left",
    ),
    ("X[next, row1, q1]", "out[b, row1, q1]", "out is no array of numbers that the kernel only reads"),
    ("X[next, row1, q1]", "left[stage, row1, q1]", "left is no array of numbers that the kernel only reads"),
    ("copy left[0, row, q] =", "copy y[ty, pass, q] =", "y is no tile of numbers in shared memory"),
    ("X[next, row1, q1]", "X[next, q1, row1]", "a copy is of 4 consecutive elements"),
    ("padded 4", "padded 2", "the rows of left are no multiple of 4 elements"),
]


def test_it_verifies_and_prints_as_it_was_read() -> None:
    kernel = parse_scheduled(RING)
    verify_scheduled(kernel)
    assert text_of(print_scheduled(kernel)) == RING


def test_a_copy_is_a_load_and_a_store() -> None:
    given = np.random.default_rng(0).normal(size=(4, 8, 32)).astype("f4")
    out, _ = run_program(parse_scheduled(RING), {"X": given, "B": 2})
    np.testing.assert_allclose(out, np.broadcast_to(given.sum(0)[::-1], (2, 8, 32)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("old", "new", "message"), BROKEN)
def test_a_broken_rule(old: str, new: str, message: str) -> None:
    assert old in RING
    with pytest.raises(VerificationError, match=message):
        verify_scheduled(parse_scheduled(RING.replace(old, new, 1)))


def test_a_loop_that_begins_again_copies_to_the_same_elements() -> None:
    """What tells the passes apart does not tell the first run of their loop from the second."""
    lines = [f"  {line}\n" for line in IN_LOOP.splitlines()]
    again = f"            for again in 0..2\n{''.join(lines)}"
    with pytest.raises(VerificationError, match="left was copied to, with no barrier block after copies between: copy"):
        verify_scheduled(parse_scheduled(RING.replace(IN_LOOP, again)))


def test_a_name_may_be_the_word() -> None:
    text = RING.replace("      index next", "      copy = 1.0 + 2.0\n      index next", 1)
    assert text_of(print_scheduled(parse_scheduled(text))) == text
