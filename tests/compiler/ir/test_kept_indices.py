"""Indices that threads keep in registers: what is stored by them is told apart by where they come from."""

from __future__ import annotations

import pytest

from explorer.compiler.ir.node import VerificationError
from explorer.compiler.ir.parse import parse_scheduled
from explorer.compiler.ir.verify.kernels import verify_scheduled

SCATTER = """\
scheduled Scatter  template gemm  threads 32
  index place[B, 32]
  output out[N]
  for b in 0..B @block
    register kept[32] i32
    for t in 0..32 @thread
      p = place[b, t]
      kept[t] = p
    for t1 in 0..32 @thread
      p1 = kept[t1]
      out[p1] = 1.0
"""


def test_a_kept_index_comes_from_what_was_stored() -> None:
    verify_scheduled(parse_scheduled(SCATTER))


def test_blocks_that_keep_the_same_indices_may_not_store_by_them() -> None:
    kernel = parse_scheduled(SCATTER.replace("place[b, t]", "place[0, t]"))
    with pytest.raises(VerificationError, match="all iterations over b write to the same element"):
        verify_scheduled(kernel)
