"""opt2: a row is a record (Ember §7.2)."""

from explorer.compiler.interpret.dlc import pushed
from explorer.compiler.ir.node import walk
from explorer.compiler.ir.parse import parse_kernel
from explorer.compiler.ir.slc import BufStream, Callback, SlcFor
from tests.compiler.models import compiled, draw_inputs
from tests.compiler.sls import levels, sls

TRANSH = """dim D = 4
score TransH(h: entity, r: relation, t: entity):
    param E[entity, D]
    param R[relation, D]
    param w[relation, D]
    return norm(E[h] - dot(w[r], E[h]) * w[r] + R[r] - (E[t] - dot(w[r], E[t]) * w[r]), 2)
"""


def bufferized(compilation):
    return next(report for report in compilation.stages["slc.opt2"].passes if report.name == "bufferize")


def test_the_callback_stands_behind_the_loop():
    program = levels(sls(), vlen=2)[2]
    inner = [node for node in walk(program) if isinstance(node, SlcFor)][-1]
    assert inner.vector == 2
    assert not [node for node in walk(inner) if isinstance(node, Callback)]
    assert [node.vector for node in walk(program) if isinstance(node, BufStream)] == [2]


def test_callbacks_that_follow_one_another_become_one():
    """Three rows a triple, and nothing but them: what came before the first and after the last is done with them."""
    compilation = compiled(TRANSH, options={"opt": 2})
    records = pushed(compilation.stages["dlc"].program, draw_inputs(compilation, batch=2))
    assert [token for token, _ in records] == ["d1_end", "d2_end", "d_end"] * 2 + ["done"]


def test_several_streams_of_a_loop_have_a_buffer_each():
    program = compiled(TRANSH).stages["slc.opt2"].program
    assert "one record of D x (w2, e, r1, e2), and one token" in bufferized(compiled(TRANSH)).summary
    assert len([node for node in walk(program) if isinstance(node, BufStream)]) == 8


def test_a_loop_whose_length_is_loaded_is_not_buffered():
    text = """kernel total  template traversal
  index ptr[bag_ends]
  param weight[entries]
  output out[bags]
  for b in 0..bags
    acc s = 0.0
    begin = ptr[b]
    index n = b + 1
    end = ptr[n]
    for p in begin..end
      w = weight[p]
      s += w
    out[b] = s
"""
    opt0, opt1, opt2, _ = levels(parse_kernel(text))
    assert opt1 != opt0
    assert opt2 == opt1
