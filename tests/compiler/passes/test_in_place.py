"""Sums that go to the output itself."""

import numpy as np
import pytest

from explorer.compiler.interpret.loops import run_kernel
from explorer.compiler.ir.loops import verify_kernel
from explorer.compiler.ir.parse import parse_kernel
from explorer.compiler.options import Options
from explorer.compiler.passes.loops.in_place import in_place
from explorer.compiler.report import Report
from tests.compiler.sls import bags, sls

ROW = """kernel sls  template traversal
  size L = 4
  index ptrs[bag_ends]
  index idxs[entries]
  param vals[rows, L]
  output out[bags, L]
  parallel for b in 0..bags
    row y[L]
    for e1 in 0..L
      y[e1] = 0.0
    beg = ptrs[b]
    index b1 = b + 1
    end = ptrs[b1]
    for p in beg..end
      i = idxs[p]
      for e in 0..L
        v = vals[i, e]
        y[e] += v
    for e2 in 0..L
      s = y[e2]
      out[b, e2] = s
"""
INPUTS = bags([0, 0, 2, 3], [0, 2, 5])


def optimised(text):
    report = Report(Options())
    kernel = parse_kernel(text)
    changed = in_place(kernel, report)
    verify_kernel(changed)
    np.testing.assert_array_equal(run_kernel(changed, INPUTS)["out"], run_kernel(kernel, INPUTS)["out"])
    return changed, report


def test_a_row_that_is_only_copied_disappears():
    changed, report = optimised(ROW)
    assert changed == sls()
    assert report.done == ["sls: y is summed in out itself"]


def test_an_output_is_not_cleared_again():
    cleared = ROW.replace("    row y[L]\n", "").replace("y[e1]", "out[b, e1]").replace("y[e]", "out[b, e]")
    changed, report = optimised(cleared[: cleared.index("    for e2")])
    assert changed == sls()
    assert report.done == ["sls: out starts as zeros, and is not cleared"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("out[b, e2] = s", "u = relu(s)\n      out[b, e2] = u", "its sums are computed on, not just copied"),
        ("y[e] += v", "y[e] max= v", "an output starts as zeros, which is no start for a max"),
        ("out[bags, L]", "out[bags, 3]", "only a part of it is copied to out"),
        ("out[b, e2] = s", "out[0, e2] = s", "out[0, e2] may be written in several iterations"),
    ],
)
def test_other_rows_stay(old, new, reason):
    text = ROW.replace(old, new)
    text = text.replace("e2 in 0..L", "e2 in 0..3") if "bags, 3" in new else text
    changed, report = optimised(text)
    assert changed == parse_kernel(text)
    assert reason in report.refusals[0]
