"""Statements as Python: names that mean something to Python, arrays as one row, and what rows hold at first."""

from __future__ import annotations

import numpy as np

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
