"""What nobody reads is left out of kernels, and nothing else is."""

from __future__ import annotations

import pytest

from explorer.compiler.ir.parse.kernels import parse_scheduled
from explorer.compiler.ir.print.kernels import print_scheduled
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.schedule.edit.dead_code import without_unread

HEAD = """scheduled Some  template rows  threads 32
  size D = 32
  param x[N, D]
  index order[N]
  output out[N]
  for n in 0..N @block
"""
READ = """    acc s = 0.0
    for d in 0..D @lane
      x1 = x[n, d]
      s += x1
    reduce s sum over 32 lanes
    out[n] = s
"""
SUM = """    acc t = 0.0
    for e in 0..D @lane
      x2 = x[n, e]
      t += x2
    reduce t sum over 32 lanes
"""
UNREAD = {
    "a scalar": "    r = order[n]\n",
    "what only such a scalar needs": "    r = order[n]\n    index r1 = r + 1\n",
    "a sum": SUM,
    "a row": "    register y[D]\n    for d1 in 0..D @lane\n      x2 = x[n, d1]\n      y[d1] = x2\n",
    "a condition": "    r = order[n]\n    where n < r\n      index r1 = r + 1\n",
}


def left(body: str) -> str:
    """The lines that are left of a body."""
    kernel = parse_scheduled(HEAD + body)
    verify_scheduled(kernel)
    lines = [f"{line.text}\n" for line in print_scheduled(without_unread(kernel))]
    return "".join(lines[HEAD.count("\n") :])


@pytest.mark.parametrize("before", UNREAD.values(), ids=UNREAD)
def test_what_nobody_reads_is_left_out(before: str) -> None:
    assert left(before + READ) == READ


def test_what_is_all_read_stays_the_same_object() -> None:
    kernel = parse_scheduled(HEAD + READ)
    assert without_unread(kernel) is kernel


def test_what_others_may_read_stays() -> None:
    shared = "    shared y[D]\n    for d1 in 0..D @lane\n      x2 = x[n, d1]\n      y[d1] = x2\n"
    ranked = "    rank = atomic order[n] += 1\n"
    assert left(shared + READ) == shared + READ
    assert left(ranked + READ) == ranked + READ
