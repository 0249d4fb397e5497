"""Which loops go to the access unit, and which stay (Ember §6.2)."""

import re

import numpy as np
import pytest

from explorer.compiler.interpret.dlc import run_dlc
from explorer.compiler.interpret.loops import run_kernel
from explorer.compiler.ir.access.slc import MemStream, SlcFor, verify_slc
from explorer.compiler.ir.node import walk
from explorer.compiler.ir.parse import parse_kernel
from explorer.compiler.options import Options
from explorer.compiler.passes.access.decouple import decouple
from explorer.compiler.passes.access.separate import separate
from explorer.compiler.report import Report
from tests.compiler import ops
from tests.compiler.models import TRANSR, compiled

IN_PLACE = """kernel step  template traversal
  size D = 3
  index idx[entries]
  param x[entries, D]
  output table[rows, D]
  for p in 0..entries
    i = idx[p]
    for d in 0..D
      old = table[i, d]
      u = 0.5 * old
      v = x[p, d]
      w = u + v
      table[i, d] = w
    for e in 0..D
      new = table[i, e]
      half = 0.5 * new
      table[i, e] = half
"""
"""Reads what it wrote: no loop over the table may run ahead."""


def reported(compilation):
    return next(report for report in compilation.stages["slc"].passes if report.name == "decouple")


def offloaded(compilation):
    """The decisions for each loop, by its variable."""
    report = reported(compilation)
    found = dict.fromkeys(re.findall(r"loop (\w+) offloaded", report.summary), True)
    return found | {
        re.search(r"loop (\w+) stays", r)[1]: False for r in report.refusals if " stays with" in r and "loop" in r
    }


def test_lookups_become_streams_and_compute_becomes_callbacks(golden):
    golden(compiled(TRANSR).stages["slc"].text)


def test_loops_that_work_on_rows_stay_with_the_execute_unit():
    assert reported(compiled(TRANSR)).refusals == (
        "TransR, loop k1 stays with the execute unit: a workspace loop, it loads nothing new",
    )


def test_loops_that_follow_one_another_are_told():
    assert "the loops d, k follow one another in b; Ember takes one a level" in reported(compiled(TRANSR)).summary


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sls", {"b": True, "p": True, "d": True}),
        ("sls_weighted", {"b": True, "p": True, "d": True}),
        ("sls_mean", {"b": True, "p": True, "d": True, "d1": False}),
        ("spmm", {"r": True, "z": True, "d": True}),
        ("spmm_coo", {"z": True, "d": True}),
        ("sddmm", {"z": True, "d": True}),
        ("mp", {"n": True, "d2": True, "z": True, "d1": True, "d": False}),
        ("mp_sigmoid", {"n": True, "d2": True, "z": True, "d1": True, "d": False}),
        ("kg_lookup", {"b": True, "d": True}),
        ("spattn", {"p": True, "s": True, "d": True}),
    ],
)
def test_the_loops_that_are_offloaded(name, expected):
    """MP's second loop over an edge's row works on what was read already (trap 20)."""
    assert offloaded(compiled((ops.FOLDER / f"{name}.emb").read_text())) == expected


def test_what_the_execute_unit_writes_is_not_looked_up():
    kernel, report = parse_kernel(IN_PLACE), Report(Options())
    program = decouple(kernel, report)
    verify_slc(program)
    loads = {node.buffer for node in walk(program) if isinstance(node, MemStream)}
    assert loads == {"idx", "x"}
    assert {node.stream for node in walk(program) if isinstance(node, SlcFor)} == {"%p", "%d"}
    assert "step: what is loaded from table stays with the execute unit, which writes it" in report.refusals
    assert "step, loop e stays with the execute unit: a workspace loop, it loads nothing new" in report.refusals
    inputs = {"idx": np.array([1, 0, 1]), "x": np.ones((3, 3), np.float32), "rows": 2}
    want = run_kernel(kernel, inputs)["table"]
    np.testing.assert_array_equal(run_dlc(separate(program, report), inputs)["table"], want)


def test_a_loop_whose_bound_is_computed_stays():
    text = IN_PLACE.replace("for e in 0..D", "last = table[i, 0]\n    for e in 0..last").replace(
        "table[i, e]", "table[i, e]"
    )
    report = Report(Options())
    decouple(parse_kernel(text.replace("half = 0.5 * new", "half = 0.5 * new\n      z = x[p, e]")), report)
    assert "step, loop e stays with the execute unit, which computes its bound last" in report.refusals


def test_every_line_belongs_to_a_unit():
    lines = compiled(TRANSR).stages["slc"].lines
    body = lines[next(n for n, line in enumerate(lines) if "slc.for" in line.text) :]
    assert {line.unit for line in body} == {"access", "execute"}
