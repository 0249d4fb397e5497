"""opt3: nothing but whole vectors in the data queue (Ember §7.3)."""

import numpy as np
import pytest

from explorer.compiler.interpret.dlc import pushed
from explorer.compiler.ir.access.execute import Increment, Reset
from explorer.compiler.ir.access.slc import SlcFor, ToVal
from explorer.compiler.ir.node import walk
from explorer.compiler.pipeline import STAGES
from tests.compiler import ops
from tests.compiler.models import TRANSR, compiled, draw_inputs
from tests.compiler.sls import bags, levels, separated, sls


def aligned(name, **options):
    return ops.compiled((ops.FOLDER / f"{name}.emb").read_text(), **options)


def test_a_position_is_counted():
    program = levels(sls())[3]
    (outer,) = (node for node in walk(program) if isinstance(node, SlcFor) and node.counter)
    assert (outer.stream, outer.counter) == ("%b", "o")
    assert sum(isinstance(node, Increment) for node in walk(program)) == 1
    assert not any(isinstance(node, Reset) for node in walk(program))


def test_an_inner_counter_starts_anew():
    program = aligned("spattn").stages["slc.opt3"].program.programs[0]
    counters = {node.stream: node.counter for node in walk(program) if isinstance(node, SlcFor) and node.counter}
    assert counters == {"%p": "o", "%s": "o1"}
    assert [node.target for node in walk(program) if isinstance(node, Reset)] == ["o1"]


def test_other_scalars_are_padded():
    program = aligned("spmm").stages["slc.opt3"].program.programs[0]
    assert {node.result: node.splat for node in walk(program) if isinstance(node, ToVal)} == {"value1": 16, "buf": 1}


@pytest.mark.parametrize("path", ops.OPS, ids=lambda path: path.stem)
def test_every_record_of_an_op_is_whole_vectors(path):
    compilation = ops.compiled(path.read_text(), vlen=4)
    arrays = ops.encoded(compilation.stages["graph"].program, *ops.structure_of(compilation.stages["graph"].program))
    program = compilation.stages["dlc"].program
    for inner in program.programs:
        assert all(len(words) % 4 == 0 for _, words in pushed(inner, arrays))


def test_a_score_has_nothing_but_its_rows():
    compilation = compiled(TRANSR)
    records = pushed(compilation.stages["dlc"].program, draw_inputs(compilation, batch=3))
    assert all(len(words) % 16 == 0 for _, words in records)


def test_without_vectors_nothing_is_padded():
    opt2, opt3 = levels(sls(), vlen=1)[2:]
    assert opt2 == opt3


def test_the_words_of_a_vector_stay_together():
    """Masked lanes travel as zeros."""
    records = pushed(separated(sls(3), vlen=2)[3], bags([0, 1], [1], 3))
    np.testing.assert_array_equal(records[0][1], [3, 4, 5, 0])


def test_levels_follow_one_another():
    names = [spec.name for spec in STAGES if spec.name.startswith("slc")]
    assert names == ["slc", "slc.opt1", "slc.opt2", "slc.opt3"]
    assert next(spec for spec in STAGES if spec.name == "dlc").levels == tuple(names)
