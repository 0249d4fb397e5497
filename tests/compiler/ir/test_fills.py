"""Tiles of indices that are read where nothing may have been stored: what they began with is no place of any array."""

from __future__ import annotations

import pytest

from explorer.compiler.ir.facts import Fact
from explorer.compiler.ir.parse import parse_scheduled
from explorer.compiler.ir.verify.accesses import Extents
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.guards import within_extents
from explorer.compiler.unsupported import Unsupported

FACTS = tuple(Fact(text, "given") for text in ("0 <= src[_0]", "src[_0] < nodes"))
STAGED = """\
scheduled Staged  template rows  threads 32
  index src[edges]
  input x[nodes]
  output out[edges]
  for n in 0..ceil(edges / 64) @block
    index from = n * 64
    index upto = min(from + 64, edges)
    shared tile[64] i32
    for e in from..upto @lane 32
      i = src[e]
      index at = e - from
      tile[at] = i
    barrier warp
    for e1 in from..upto
      index at1 = e1 - from
      j = tile[at1]
      v = x[j]
      out[e1] = v
"""
ALWAYS = "      tile[at] = i\n"
READ = "      j = tile[at1]\n"


def unwritten(text: str) -> list[str]:
    """The tiles of a kernel of which an element is not shown to be stored before it is read."""
    return [each.array for each in Extents(FACTS).unproved(parse_scheduled(text)) if each.unwritten]


def test_what_is_staged_is_there() -> None:
    assert Extents(FACTS).unproved(parse_scheduled(STAGED)) == ()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("at1 = e1 - from", "at1 = max(e1 - from, 5)"),
        ("at1 = e1 - from", "at1 = e1 - n * 64 + 1"),
        ("for e1 in from..upto", "for e1 in from..(from + 64)"),
        ("for e in from..upto", "for e in from..(upto - 1)"),
        ("index at = e - from", "index at = e - from + 1"),
        (ALWAYS, "      where e < 5\n  " + ALWAYS),
    ],
)
def test_what_may_not_be_there_is_found(right: str, wrong: str) -> None:
    assert right in STAGED
    assert unwritten(STAGED.replace(right, wrong)) == ["tile"]


@pytest.mark.parametrize(
    ("right", "other"),
    [
        ("at1 = e1 - from", "at1 = min(e1 - from + 3, upto - from - 1)"),  # the last one again
        (ALWAYS, "      where e < edges\n  " + ALWAYS),
        ("tile[64] i32", "tile[2, 64] i32"),  # a row of two
    ],
)
def test_what_is_there_all_the_same_is_shown(right: str, other: str) -> None:
    text = STAGED.replace(right, other)
    if "[2," in other:
        text = text.replace("tile[at", "tile[1, at")
    assert unwritten(text) == []


def test_another_row_of_a_tile_is_not_there() -> None:
    text = STAGED.replace("tile[64]", "tile[2, 64]").replace("tile[at]", "tile[0, at]")
    assert unwritten(text.replace("tile[at1]", "tile[1, at1]")) == ["tile"]


def test_no_guard_helps_where_nothing_was_stored() -> None:
    kernel = parse_scheduled(STAGED.replace("for e in from..upto", "for e in from..(upto - 1)"))
    object.__setattr__(kernel, "facts", FACTS)
    with pytest.raises(Unsupported, match="something stored before in tile: j = tile"):
        within_extents((), (kernel,), Report.silent())
