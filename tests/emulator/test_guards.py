"""Accesses of which nothing shows that they are inside, of arrays that may be empty: guarded, no kernel touches what is
not there, which the emulator checks, and what is loaded from nowhere is 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.compiler.codegen.cuda.program import generate_cuda
from explorer.compiler.interpret.kernels import run_scheduled
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.parse import parse_scheduled
from explorer.compiler.ir.print.kernels import print_scheduled
from explorer.compiler.options import Options
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.guards import within_extents
from tests.compiler.ir.test_round_trip import text_of
from tests.emulator.emulate import emulate

pytestmark = pytest.mark.usefixtures("compiler")

LOADED = """\
scheduled Loaded  template rows  threads 32
  size D = 8
  index which[wanted]
  index follows[rows]
  input x[rows, D]
  input flat[elements]
  output out[wanted, D]
  output more[wanted, D]
  for n in 0..wanted @block
    i = which[n]
    j = follows[i]
    index before = n * 8
    for d in 0..D step 4 @lane 2
      s = x[j, d]
      out[n, d] = s
      index q = before + d
      f = flat[q]
      more[n, d] = f
"""
COPIED = """\
scheduled Copied  template rows  threads 32
  size D = 8
  index which[wanted]
  input x[rows, D]
  output out[wanted, D]
  for n in 0..wanted @block
    i = which[n]
    shared tile[D]
    for d in 0..D step 4 @thread 2
      copy tile[d] = x[i, d]
    barrier block after copies
    for d1 in 0..D @lane 8
      s = tile[d1]
      out[n, d1] = s
"""
SCATTERED = """\
scheduled Scattered  template rows  threads 32
  size D = 8
  index which[wanted]
  input x[wanted, D]
  output out[rows, D]
  for n in 0..wanted @block
    i = which[n]
    for d in 0..D step 4 @lane 2
      s = x[n, d]
      out[i, d] = s
"""
WANTED = np.array([2, 0, -1, 1, 7, 5], np.int32)
ROWS = pytest.mark.parametrize("rows", [0, 1, 6])


def guarded(text: str) -> ScheduledKernel:
    """A kernel with its guards, which the stage's text says as well."""
    report = Report.silent()
    (kernel,) = within_extents((), (parse_scheduled(text),), report)
    assert any(line.startswith("guard ") for line in kernel.schedule)
    assert len(report.done) == 1
    assert parse_scheduled(text_of(print_scheduled(kernel))) == kernel
    return kernel


def outputs(kernel: ScheduledKernel, given: dict[str, Any], extents: dict[Any, int], results: set[str]) -> Any:
    """What the emulator's kernel writes, the same as the interpreter's."""
    got = emulate(generate_cuda(kernel, Report(Options())), given, extents, results=results)
    want = run_scheduled([kernel], {**given, **extents})
    for name in got:
        np.testing.assert_array_equal(got[name], want[name])
    return got


def rows_at(x: Any, at: Any) -> Any:
    """The rows at some places, 0 where there is none."""
    return np.array([x[i] if 0 <= i < len(x) else np.zeros(x.shape[1:], x.dtype) for i in at])


@ROWS
@pytest.mark.parametrize("elements", [0, 20, 48])
def test_a_checked_load_of_nothing_is_0(rows: int, elements: int) -> None:
    draw = np.random.default_rng(rows)
    x, flat = draw.random((rows, 8)).astype(np.float32), draw.random(elements).astype(np.float32)
    follows = draw.permutation(rows).astype(np.int32)
    kernel = guarded(LOADED)
    extents = {"rows": rows, "wanted": len(WANTED), "elements": elements, "D": 8}
    given = {"which": WANTED, "follows": follows, "x": x, "flat": flat}
    got = outputs(kernel, given, extents, {"out", "more"})
    np.testing.assert_array_equal(got["out"], rows_at(x, rows_at(follows, WANTED)))
    np.testing.assert_array_equal(got["more"], np.pad(flat, (0, 48 - elements)).reshape(6, 8))


@ROWS
def test_a_copy_of_nothing_is_0(rows: int) -> None:
    x = np.random.default_rng(rows).random((rows, 8)).astype(np.float32)
    kernel = guarded(COPIED)
    given, extents = {"which": WANTED, "x": x}, {"rows": rows, "wanted": len(WANTED), "D": 8}
    np.testing.assert_array_equal(outputs(kernel, given, extents, {"out"})["out"], rows_at(x, WANTED))


@ROWS
def test_what_has_no_place_is_not_stored(rows: int) -> None:
    x = np.random.default_rng(0).random((len(WANTED), 8)).astype(np.float32)
    given, extents = {"which": WANTED, "x": x}, {"rows": rows, "wanted": len(WANTED), "D": 8}
    got = outputs(guarded(SCATTERED), given, extents, set())["out"]
    for place, row in zip(WANTED, x, strict=True):
        if 0 <= place < rows:
            np.testing.assert_array_equal(got[place], row)
