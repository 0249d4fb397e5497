"""Access code and execute code, joined by the queues (Ember §6.3)."""

import numpy as np

from explorer.compiler.interpret.dlc import pushed, run_dlc
from explorer.compiler.ir.access.dlc import verify_dlc
from explorer.compiler.ir.parse import parse_kernel
from tests.compiler.models import TRANSR, compiled, draw_inputs
from tests.compiler.sls import separated

DOT = """dim D = 2
score Dot(h: entity, r: relation, t: entity):
    param E[entity, D]
    return dot(E[h], E[t])
"""


def test_a_projection_in_two_programs(golden):
    golden(compiled(TRANSR).stages["dlc"].text)


def test_what_the_queues_hold_to_the_token():
    compilation = compiled(DOT, options={"opt": 0})
    inputs = draw_inputs(compilation, batch=2)
    table, heads, tails = inputs["E"], inputs["h"], inputs["t"]
    want = []
    for b in range(2):
        want.append(("b_ite", ()))
        want += [("d_ite", (table[heads[b], d], table[tails[b], d])) for d in range(2)]
        want.append(("d_end", (b,)))
    records = pushed(compilation.stages["dlc"].program, inputs, tokens=100)
    assert records == [*want, ("done", ())]


def test_an_empty_batch_pushes_nothing_but_done():
    compilation = compiled(DOT)
    inputs = draw_inputs(compilation, batch=0)
    assert pushed(compilation.stages["dlc"].program, inputs, tokens=5) == [("done", ())]
    assert compilation.run(inputs, on="dlc").shape == (0,)
    assert compilation.run(inputs, on="dlc").dtype == np.float32


def test_a_projection_is_a_token_a_row():
    """The listing for TransR (ir.md 3.3): a token to begin with, one a row of P behind its splats, one with R."""
    compilation = compiled(TRANSR)
    inputs = draw_inputs(compilation, batch=1)
    records = pushed(compilation.stages["dlc"].program, inputs)
    assert [token for token, _ in records] == ["b_ite", *["k2_end"] * 4, "k_end", "done"]
    head, tail, relation = (int(inputs[name][0]) for name in "htr")
    for d, (_, words) in enumerate(records[1:5]):
        assert words[:16] == (inputs["E"][head, d],) * 16
        assert words[16:32] == (inputs["E"][tail, d],) * 16
        assert words[32:] == (*inputs["P"][relation, d], *[0.0] * 13)
    assert records[5][1] == (*inputs["R"][relation], *[0.0] * 13)


def test_what_stands_in_no_loop_runs_once():
    kernel = parse_kernel(
        """kernel scale  template traversal
  size D = 3
  param s[D]
  param x[rows, D]
  output total
  acc sum = 0.0
  first = s[0]
  for r in 0..rows
    for d in 0..D
      v = x[r, d]
      sum += v * first
  total = sum
"""
    )
    inputs = {"s": np.array([2, 3, 4], np.float32), "x": np.arange(6, dtype=np.float32).reshape(2, 3), "rows": 2}
    for program in separated(kernel):
        verify_dlc(program)
        assert run_dlc(program, inputs)["total"] == 30.0
