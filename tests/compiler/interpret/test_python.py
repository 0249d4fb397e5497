"""Statements as Python: names that mean something to Python, arrays as one row, and what rows hold at first."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.compiler.interpret.guarded import OutsideError, guarding
from explorer.compiler.interpret.loops import run_kernel
from explorer.compiler.ir.parse import parse_kernel

SQUARES = """kernel lambda  template traversal
  size D = 2
  param import[rows, D]
  index None[rows]
  output environment[rows]
  parallel for is in 0..rows
    at = None[is]
    acc True = 0.5
    for Größe in 0..D
      range = import[at, Größe]
      True += range * range
    environment[is] = sqrt(True)
"""
FLAT = """kernel f  template traversal
  size D = 3
  param x[rows, D]
  output out[rows, D]
  parallel for n in 0..rows
    row y[D, 2]
    index first = n * 3
    for d in 0..2
      index at = first + d
      e = x[at]
      y[d, 1] = e
      index place = d * 2
      index other = place + 1
      v = y[other]
      out[at] = v
    w = y[2, 1]
    out[n, 2] = w
"""


def test_no_name_of_a_program_is_a_word_of_python() -> None:
    table = np.array([[1, 2], [3, 4], [0, 1]], np.float32)
    found = run_kernel(parse_kernel(SQUARES), {"import": table, "None": np.array([1, 1, 0], np.int32)})["environment"]
    np.testing.assert_allclose(found, np.sqrt(np.array([25.5, 25.5, 5.5], np.float32)))
    assert found.dtype == np.float32


def test_one_index_reaches_into_all_of_an_array_and_what_was_never_stored_is_no_number() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = run_kernel(parse_kernel(FLAT), {"x": x})["out"]
    np.testing.assert_array_equal(found, [[0, 1, np.nan], [3, 4, np.nan]])


ROWS = """kernel f  template traversal
  size D = 4
  param x[n, D]
  output out[n]
  parallel for i in 0..n
    row y[D, 2]
    acc s = 0.0
    for d in {first}..{last}
      for z in 0..2
        index p = d {moved}
        e = x[i, d]
        y[{at}] = e
        v = y[{at}]
        s += v
    out[i] = s
"""


@pytest.mark.parametrize(
    ("first", "last", "moved", "at", "outside"),
    [
        (0, "D", "+ 0", "p, z", ""),
        (0, "D", "+ 1", "p, z", "y[4, 0..2] of y[4, 2]"),
        (0, "D", "- 1", "p, z", "y[-1, 0..2] of y[4, 2]"),
        (1, "D", "- 1", "p, z", ""),
        (0, 3, "+ 1", "p, z", ""),
        (0, "D", "* 2", "p, z", "y[4, 0..2] of y[4, 2]"),
        (0, 2, "* 2", "p, 1", ""),
        (0, "D", "* 0", "z, d", "y[0..2, 2] of y[4, 2]"),
        (0, "D", "// 2", "p, z", ""),
        (0, "D", "- d", "4, z", "y[4, 0..2] of y[4, 2]"),
    ],
)
def test_a_row_is_checked_wherever_an_index_is_not_known_to_be_inside(
    first: int, last: str | int, moved: str, at: str, outside: str
) -> None:
    program = parse_kernel(ROWS.format(first=first, last=last, moved=moved, at=at))
    x = np.ones((3, 4), np.float32)
    with guarding():
        if not outside:
            assert run_kernel(program, {"x": x})["out"][0] > 0
            return
        with pytest.raises(OutsideError) as error:
            run_kernel(program, {"x": x})
    assert str(error.value) == outside
