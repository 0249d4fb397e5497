"""Access code and execute code, joined by the queues (Ember §6.3)."""

import numpy as np

from explorer.compiler.interpret.dlc import pushed
from tests.compiler.models import TRANSR, compiled, draw_inputs

DOT = """dim D = 2
score Dot(h: entity, r: relation, t: entity):
    param E[entity, D]
    return dot(E[h], E[t])
"""


def test_a_projection_in_two_programs(golden):
    golden(compiled(TRANSR).stages["dlc"].text)


def test_what_the_queues_hold_to_the_token():
    compilation = compiled(DOT)
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
