"""opt1: what may run a vector at a time, and why not (Ember §7.1)."""

import numpy as np
import pytest

from explorer.compiler.interpret.dlc import run_dlc
from explorer.compiler.interpret.loops import run_kernel
from explorer.compiler.interpret.slc import run_slc
from explorer.compiler.ir.access.slc import MemStream, SlcFor, print_slc, verify_slc
from explorer.compiler.ir.node import walk
from explorer.compiler.ir.parse import parse_kernel
from explorer.compiler.options import Options
from explorer.compiler.passes.access.decouple import decouple
from explorer.compiler.passes.access.separate import separate
from explorer.compiler.passes.access.vectorize import vectorize
from explorer.compiler.report import Report
from tests.compiler.models import TRANSR, compiled
from tests.compiler.sls import levels, sls

KERNEL = """kernel f  template traversal
  size D = 5
  index col[rows, D]
  param x[rows, D]
  param z[D, rows]
  param q[D, D]
  output out[rows, D]
  output total[rows]
  for b in 0..rows
    acc s = 0.0
    row y[D]
    for k in 0..D
      y[k] = 1.0
    for d in 0..D
      v = x[b, d]
      {body}
    total[b] = s
"""
INPUTS = {
    "col": np.array([[4, 3, 2, 1, 0], [1, 1, 2, 2, 3]]),
    "x": np.arange(10, dtype=np.float32).reshape(2, 5),
    "z": np.arange(10, dtype=np.float32).reshape(5, 2),
    "q": np.arange(25, dtype=np.float32).reshape(5, 5),
    "rows": 2,
}


def vectorized(body, vlen=2):
    """The kernel with that body, vectorised; it computes the same."""
    report = Report(Options(vlen=vlen))
    kernel = parse_kernel(KERNEL.format(body=body.replace("; ", "\n      ")))
    program = vectorize(decouple(kernel, report), report)
    verify_slc(program)
    want = run_kernel(kernel, INPUTS)
    for got in (run_slc(program, INPUTS), run_dlc(separate(program, report), INPUTS)):
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array)
    return program, report


@pytest.mark.parametrize("vlen", [2, 3, 5, 8])
@pytest.mark.parametrize(
    "body",
    [
        "out[b, d] = v",
        "out[b, d] += v",
        "s += v * v",
        "s max= v",
        "u = exp(v); y[d] += u; w = y[d]; out[b, d] = w",
        "u = v * 2.0; s += 1.0; out[b, d] = u",
        "u = x[b, 0]; w = u * v; out[b, d] = w",
    ],
)
def test_what_is_the_same_in_all_lanes_at_once(body, vlen):
    program, report = vectorized(body, vlen)
    assert f"f, loop d: {vlen} lanes" in report.done
    assert {node.vector for node in walk(program) if isinstance(node, SlcFor)} == {1, vlen}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("u = z[d, b]; s += u * v", "z[%d, %b] strides: %d is not its last index"),
        ("i = col[b, d]; u = x[b, i]; s += u * v", "x[%b, %i] is a gather: its index was itself loaded by the lanes"),
        ("u = q[d, d]; s += u * v", "q[%d, %d] goes along a diagonal"),
        ("index i = d * 1; u = x[b, i]; s += u * v", "%i does not go up by one from lane to lane"),
        ("s += v; u = s * v; out[b, d] = u", "s is read while it is summed up"),
        ("y[0] += v", "all lanes add to the one element y[0]"),
        ("y[0] = v", "all lanes store to y[0]"),
        ("out[b, d] = v; u = y[0]; y[d] = u", "y is read and written in different places"),
        ("u = y[0]; y[d] = u; s += v", "y is read and written in different places"),
        ("acc p = 0.0; p += v; s += p", "it holds `acc p = 0.0`"),
    ],
)
def test_what_is_not_stays_scalar(body, reason):
    program, report = vectorized(body)
    assert any(refusal.startswith("f, loop d stays scalar: ") and reason in refusal for refusal in report.refusals)
    assert {node.vector for node in walk(program) if isinstance(node, SlcFor)} == {1}


def test_shifted_indices_are_computed_where_they_are_needed():
    program, _ = vectorized("index i = d + 0; u = x[b, i]; out[b, i] = u")
    assert "index i = d + 0" in "\n".join(line.text for line in print_slc(program))


def test_what_is_the_same_for_all_lanes_is_loaded_once():
    program, _ = vectorized("u = x[b, 0]; w = u * v; out[b, d] = w")
    widths = {node.result: node.vector for node in walk(program) if isinstance(node, MemStream)}
    assert widths == {"%u": 1, "%v": 2}


def test_the_loops_of_the_execute_unit_are_vectorised_too():
    report = next(p for p in compiled(TRANSR).stages["slc.opt1"].passes if p.name == "vectorize")
    assert "TransR, loop k1 of the execute unit: 16 lanes" in report.summary


def test_vectors_of_one_are_scalars():
    opt0, opt1, *_ = levels(sls(), vlen=1)
    assert opt0 == opt1


def test_without_interchange_a_projection_strides():
    compilation = compiled(TRANSR, options={"interchange": False})
    refusals = compilation.stages["slc.opt1"].passes[0].refusals
    assert "TransR, loop d stays scalar: P[%ir, %d, %k] strides: %d is not its last index" in refusals
