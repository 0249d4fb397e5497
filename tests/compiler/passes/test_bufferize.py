"""opt2: a row is a record (Ember §7.2)."""

from itertools import pairwise

import numpy as np
import pytest

from explorer.compiler.interpret.dlc import pushed
from explorer.compiler.interpret.loops import run_kernel
from explorer.compiler.interpret.slc import run_slc
from explorer.compiler.ir.access.dlc import QUEUE_BYTES
from explorer.compiler.ir.access.slc import BufStream, Callback, SlcFor
from explorer.compiler.ir.node import walk
from explorer.compiler.ir.parse import parse_kernel
from explorer.compiler.passes.access.records import number_of_parts
from explorer.machine.parameters import MachineParameters
from explorer.runtime.reference import evaluate as reference
from explorer.runtime.targets.dae import simulate
from tests.compiler.models import compiled, draw_inputs
from tests.compiler.sls import bags, levels, separated, sls

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


LONG = (2047, 2048, 2049, 4096, 5003)


@pytest.mark.parametrize(("length", "vlen"), [(2049, 1), (2048, 16), (2049, 16), (5003, 17), (4096, 64)])
def test_a_row_longer_than_the_queue_is_several_records(length, vlen):
    kernel, inputs = sls(length), bags([0, 1, 1, 2], [1, 0], length, rows=2)
    want = run_kernel(kernel, inputs)["out"]
    for program in levels(kernel, vlen):
        np.testing.assert_array_equal(run_slc(program, inputs)["out"], want)
    for program in separated(kernel, vlen):
        assert max(4 * sum(map(np.size, words)) for _, words in pushed(program, inputs)) <= QUEUE_BYTES
        np.testing.assert_array_equal(simulate(program, inputs, MachineParameters()).output, want)


@pytest.mark.parametrize("vlen", [1, 3, 16, 64])
@pytest.mark.parametrize("streams", [1, 3, 25])
@pytest.mark.parametrize("length", [*LONG, 1, 64, 65, 262_144])
def test_the_parts_of_a_record_fit_and_are_all_of_it(vlen, streams, length):
    for others in (0, 2 * vlen, 5 * vlen):
        parts = number_of_parts(length, vlen, streams, others)
        bounds = [part * length // parts for part in range(parts + 1)]
        assert (bounds[0], bounds[-1]) == (0, length)
        longest = max(-(-(end - first) // vlen) * vlen for first, end in pairwise(bounds))
        assert others + streams * longest <= QUEUE_BYTES // 4
        assert parts == 1 or min(np.diff(bounds)) > 0


def test_what_fits_is_one_record_and_what_never_fits_none():
    assert number_of_parts(2048, 16, 1, 0) == 1
    assert number_of_parts(2048, 16, 1, 1) == 4
    assert number_of_parts(4096, 16, 1, 32) == 8  # of 512, which is whole vectors; five would not be
    assert number_of_parts(64, 64, 33, 0) == 0


WIDE = """dim D = 70
score Wide(h: entity, r: relation, t: entity):
{params}
    return {terms}
"""


@pytest.mark.parametrize("opt", range(4))
def test_vectors_of_many_streams_fit_the_queue(opt):
    """40 rows and 40 numbers a triple: 80 x 64 words are more than the queue holds, and 40 x 64 too."""
    names = range(40)
    params = "\n".join(f"    param A{n}[entity, D]\n    param c{n}[relation]" for n in names)
    text = WIDE.format(params=params, terms="sum(" + " + ".join(f"c{n}[r] * A{n}[h]" for n in names) + ")")
    compilation = compiled(text, options={"opt": opt, "vlen": 64}, on_demand=True)
    inputs = draw_inputs(compilation, batch=3)
    want = reference.score(text, inputs, {})
    np.testing.assert_allclose(compilation.run(inputs, on="dlc"), want, rtol=1e-4, atol=1e-4)
    got = simulate(compilation.stages["dlc"].program, inputs, MachineParameters()).output
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_tensor_named_as_a_buffer_is_none():
    text = """dim D = 5
score M(h: entity, r: relation, t: entity):
    param buf[entity, D], buf1[entity, D], buffer[relation]
    return sum(buf[h] * buf1[t]) * buffer[r] + sum(buf[t] * buffer[r]) * buffer[r]
"""
    compilation = compiled(text, on_demand=True)
    inputs = draw_inputs(compilation)
    got = compilation.run(inputs, on="dlc")
    np.testing.assert_allclose(got, reference.score(text, inputs, {}), rtol=1e-5, atol=1e-5)
