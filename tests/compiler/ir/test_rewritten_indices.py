"""Elements of an array of indices that the kernel itself writes: what is known of one is known until it is written."""

from __future__ import annotations

import pytest

from explorer.compiler.ir.facts import Fact
from explorer.compiler.ir.parse import parse_scheduled
from explorer.compiler.ir.verify.accesses import Extents

ENTRIES = (Fact("0 <= x[_0]", "given"),)
HEAD = """\
scheduled Rewrites  template rows  threads 32
  index x[N], places[N]
  output y[M]
  for t in 0..N @block
"""
ASKED = """\
    a = x[t]
    where a < M
"""


def missing_of(body: str, facts: tuple[Fact, ...] = ENTRIES) -> list[str]:
    """The indices of a kernel that are not shown to be inside."""
    return [str(each.index) for each in Extents(facts).unproved(parse_scheduled(HEAD + body))]


@pytest.mark.parametrize(
    ("steps", "inside"),
    [
        ("b = x[t]; y[b] = 0.0", True),
        ("x[t] = 99; b = x[t]; y[b] = 0.0", False),
        ("x[t] = a; b = x[t]; y[b] = 0.0", False),  # what is stored is not followed: only what is loaded is
        ("b = x[t]; y[b] = 0.0; x[t] = 99", True),
        ("places[t] = 99; b = x[t]; y[b] = 0.0", True),
        ("x[t] += 1; b = x[t]; y[b] = 0.0", False),
        ("before = atomic x[t] += 1; b = x[t]; y[b] = 0.0", False),
        ("where 3 < a;   x[t] = 99; b = x[t]; y[b] = 0.0", False),
        ("for k in 0..2;   b = x[t];   y[b] = 0.0;   x[t] = 99", False),  # the second time round
        ("for k in 0..2;   x[t] = 99; b = x[t]; y[b] = 0.0", False),
        ("for k in 0..2;   b = x[t];   y[b] = 0.0", True),
        ("barrier block; b = x[t]; y[b] = 0.0; x[t] = 99", False),  # by another thread, before the barrier
        ("c = places[a]; x[t] = 99; d = places[a]; where d < M;   y[c] = 0.0", True),
    ],
)
def test_an_element_is_what_it_was_until_it_is_written(steps: str, inside: bool) -> None:
    facts = (*ENTRIES, Fact("0 <= places[_0]", "given"), Fact("x[_0] < N", "given"))
    body = ASKED + "".join(f"      {step}\n" for step in steps.split("; "))
    assert (missing_of(body, facts) == []) == inside


def test_what_two_arrays_are_together_is_of_one_time() -> None:
    """`x[t] + places[t] <= M - 1` says nothing of an element now and another before it was written."""
    facts = (*ENTRIES, Fact("0 <= places[_0]", "given"), Fact("x[_0] + places[_0] < M", "given"))
    both = "    a = x[t]\n    b = places[t]\n    index c = a + b\n    y[c] = 0.0\n"
    assert missing_of(both, facts) == []
    assert missing_of(both.replace("    b =", "    x[t] = 0\n    places[t] = 0\n    b ="), facts) == ["c"]


SEARCHED = """\
    low = x[0]
    where low <= t
      STEP
      index found = last x[0..N] <= t
      z = x[found]
      index room = t - z
      where t < M
        y[room] = 0.0
"""


def test_a_search_finds_what_is_there_when_it_looks() -> None:
    right = SEARCHED.replace("      STEP\n", "")
    assert missing_of(right) == []
    assert missing_of(SEARCHED.replace("STEP", "x[t] = 99")) == ["found", "room"]
    assert missing_of(right.replace("      z =", "      x[t] = 99\n      z =")) == ["room"]
