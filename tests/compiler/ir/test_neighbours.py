"""Loops whose members are apart: neighbouring threads that share an iteration, and joins of lanes between others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.compiler.codegen.cuda.program import generate_cuda
from explorer.compiler.interpret import run_program
from explorer.compiler.ir.node import VerificationError
from explorer.compiler.ir.parse import parse_scheduled
from explorer.compiler.ir.print.kernels import print_scheduled
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.options import Options
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.primitives import edit_loop
from tests.compiler.ir.test_round_trip import text_of

NEIGHBOURS = """\
scheduled Neighbours  template gemm  threads 64
  size K = 64
  param X[R, K]
  output out[R]
  for r0 in 0..ceil(R / 4) @block
    for ty in 0..2 @thread 2 apart 32
      for near in 0..2 @thread 2 apart 1
        index r1 = r0 * 4
        index above = ty * 2
        index r2 = r1 + above
        index row = r2 + near
        index last = R - 1
        index own = min(row, last)
        acc s = 0.0
        for x in 0..K step 4 @thread 16 apart 2
          e = X[own, x]
          s += e * e
        reduce s sum over 16 lanes apart 2
        where row < R
          for lane in 0..16 @thread 16 apart 2
            where lane == 0
              out[row] = s
"""
"""Two rows a warp, of which neighbouring lanes have the same columns."""

REDUCE = "        reduce s sum over 16 lanes apart 2\n"
BROKEN = [
    (
        "@thread 2 apart 1",
        "@thread 2 apart 4",
        "no thread has one iteration each of it and of the loop over near: for x",
    ),
    (
        "@thread 2 apart 32",
        "@thread 2 apart 2",
        "no thread has one iteration each of it and of the loop over ty: for x",
    ),
    ("@thread 2 apart 32", "@thread 2 apart 64", "128 threads are needed, and there are 64: for ty"),
    ("step 4 @thread 16 apart 2", "step 4 @thread 16", "the thread loops inside are shared by different numbers"),
    ("16 lanes apart 2", "32 lanes", "the loop over near takes the lanes that it joins apart: reduce s"),
    ("16 lanes apart 2", "8 lanes apart 4", "it joins fewer than all that hold parts of s: reduce s"),
    (
        f"{REDUCE}        where row < R\n",
        f"        where row < R\n  {REDUCE}",
        "some of the lanes between, by near, may not come there: reduce s",
    ),
]


def test_the_kernel_verifies_and_prints_as_it_was_read() -> None:
    kernel = parse_scheduled(NEIGHBOURS)
    verify_scheduled(kernel)
    assert text_of(print_scheduled(kernel)) == NEIGHBOURS


def test_rows_of_neighbours_are_summed_each() -> None:
    X = np.random.default_rng(0).normal(size=(7, 64)).astype("f4")
    sums, _ = run_program(parse_scheduled(NEIGHBOURS), {"X": X})
    np.testing.assert_allclose(sums, (X * X).sum(1), rtol=1e-5)


def test_places_in_cuda_are_digits_of_the_thread() -> None:
    code = generate_cuda(parse_scheduled(NEIGHBOURS), Report(Options()))
    text = "\n".join(line.text for line in code.lines)
    for place in ("thread / 32", "thread % 2", "thread / 2 % 16", "lanes_sum<16, 2>(s)"):
        assert place in text


@pytest.mark.parametrize(("old", "new", "rule"), BROKEN)
def test_a_broken_rule_is_told(old: str, new: str, rule: str) -> None:
    assert old in NEIGHBOURS
    with pytest.raises(VerificationError, match=rule):
        verify_scheduled(parse_scheduled(NEIGHBOURS.replace(old, new, 1)))


def test_members_that_are_apart_are_counted() -> None:
    kernel = edit_loop(parse_scheduled(NEIGHBOURS), "near", lambda loop: replace(loop, width=0))
    with pytest.raises(VerificationError, match="how many members are so far apart is not said: for near"):
        verify_scheduled(kernel)
