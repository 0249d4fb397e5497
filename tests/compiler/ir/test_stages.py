"""Stages of shared memory: one barrier an iteration is enough where the next iteration has another stage."""

import pytest

from explorer.compiler.ir.node import VerificationError
from explorer.compiler.ir.parse import parse_scheduled
from explorer.compiler.ir.verify_kernels import verify_scheduled

STAGED = """scheduled Staged  template rows  threads 64
  size D = 64
  input E[B, D]
  output out[B, D]
  for b in 0..B @block
    shared a[2, 64]
    for slab in 0..8
      index stage = slab % 2
      for d in 0..64 @thread
        e = E[b, d]
        a[stage, d] = e
      barrier block
      for d1 in 0..64 @thread
        index other = 63 - d1
        x = a[stage, other]
        out[b, d1] = x
"""


SCATTERED = """scheduled Scattered  template rows  threads 64
  index order[B]
  input x[B]
  output out[B]
  for z in 0..B @block
    for i in 0..4
      for t in 0..64 @thread
        index base = z * 256
        index place = t * 4
        index first = base + place
        index own = first + i
        b = order[own]
        v = x[b]
        out[b] = v
"""


def test_a_stage_for_the_next_slab_needs_no_second_barrier():
    verify_scheduled(parse_scheduled(STAGED))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("index stage = slab % 2", "index stage = slab % 1"),  # there is one stage
        ("index stage = slab % 2", "index stage = slab // 2"),  # two slabs after each other share a stage
        ("        x = a[stage, other]", "        x = a[0, other]"),  # it reads another slab's
        ("      barrier block\n", ""),
    ],
)
def test_a_stage_that_is_still_read_is_not_stored(old, new):
    assert old in STAGED
    with pytest.raises(VerificationError, match="with no barrier block between"):
        verify_scheduled(parse_scheduled(STAGED.replace(old, new)))


def test_memory_says_where_scattered_rows_go():
    verify_scheduled(parse_scheduled(SCATTERED))
    with pytest.raises(VerificationError, match="out was written by other threads"):
        verify_scheduled(parse_scheduled(SCATTERED.replace("out[b] = v", "index c = b // 2\n        out[c] = v")))
