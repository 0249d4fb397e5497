"""Stages of shared memory: one barrier an iteration is enough where the next iteration has another stage."""

import numpy as np
import pytest

from explorer.compiler.interpret import run_program
from explorer.compiler.ir.node import VerificationError
from explorer.compiler.ir.parse import parse_scheduled
from explorer.compiler.ir.print.kernels import print_scheduled
from explorer.compiler.ir.verify.kernels import verify_scheduled
from tests.compiler.ir.test_round_trip import text_of

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


ADDED = SCATTERED.replace("  input x[B]\n", "  index adding[B]\n  input x[B]\n").replace(
    "        out[b] = v\n",
    """        n = adding[own]
        where 1 < n
          atomic out[b] += v
        where n == 1
          out[b] = v
""",
)
"""Rows that several add to are added to, others are stored."""


def test_memory_says_which_scattered_rows_are_stored_and_which_added_to():
    verify_scheduled(parse_scheduled(ADDED))


def test_rows_that_are_stored_may_be_mirrored():
    mirrored = ADDED.replace("where 1 < n", "where 0 <= b").replace(
        "where n == 1", "where b < 0\n          index m = -1 - b"
    )
    verify_scheduled(parse_scheduled(mirrored.replace("out[b] = v", "out[m] = v")))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("where 1 < n", "where 1 <= n"),
        ("where 1 < n", "where n <= 1"),
        ("where n == 1", "where n <= 2"),
        ("where n == 1", "where n == 2"),
        ("n = adding[own]", "index n = own % 3"),  # nobody has said which rows those are
        ("atomic out[b]", "index c = b // 2\n          atomic out[c]"),
    ],
)
def test_rows_that_may_be_stored_and_added_to_are_refused(old, new):
    assert old in ADDED
    with pytest.raises(VerificationError, match="out was written by other threads"):
        verify_scheduled(parse_scheduled(ADDED.replace(old, new)))


TURNS = """scheduled Turns  template rows  threads 64
  size D = 64
  input E[B, D]
  output out[B, D]
  for b in 0..B @block
    shared a[64]
    for turn in 0..2 rolled
      for d in 0..64 @thread
        where turn == 0
          e = E[b, d]
          a[d] = e
        where turn == 1
          index other = 63 - d
          x = a[other]
          out[b, d] = x
      barrier block
"""


def test_what_is_done_in_different_iterations_has_the_barrier_at_their_end_between():
    verify_scheduled(parse_scheduled(TURNS))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("where turn == 1", "where turn == 0"),
        ("where turn == 1", "where turn < 2"),
        ("        where turn == 0", "        where d == 0"),
        ("      barrier block\n", ""),
        ("      barrier block\n", "      barrier warp\n"),
        ("for turn in 0..2 rolled", "for turn in 0..2 @warp"),
    ],
)
def test_what_may_be_done_in_one_iteration_needs_a_barrier_in_it(old, new):
    assert old in TURNS
    with pytest.raises(VerificationError):
        verify_scheduled(parse_scheduled(TURNS.replace(old, new)))


def test_a_choice_of_indices_prints_parses_and_counts():
    chosen = TURNS.replace("index other = 63 - d", "index back = 63 - d\n          index other = select(turn, back, d)")
    kernel = parse_scheduled(chosen)
    verify_scheduled(kernel)
    assert text_of(print_scheduled(kernel)) == chosen
    rows = np.arange(128, dtype=np.float32).reshape(2, 64)
    out, _ = run_program(kernel, {"E": rows, "B": 2})
    assert np.array_equal(out, rows[:, ::-1])
