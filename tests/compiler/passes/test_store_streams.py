"""What is only copied does not cross the queues (Ember §7.4)."""

import numpy as np
import pytest

from explorer.compiler.interpret.dlc import pushed, run_dlc
from explorer.compiler.ir.access.dlc import StoreStream
from explorer.compiler.ir.node import walk
from tests.compiler import ops


def report(compilation):
    return next(r for r in compilation.stages["slc"].passes if r.name == "store_streams")


@pytest.mark.parametrize("name", ["spattn", "spattn_replicated"])
@pytest.mark.parametrize(("opt", "width"), [(0, 1), (1, 4), (2, 4), (3, 4)])
def test_a_gather_is_left_to_the_access_unit(name, opt, width):
    compilation = ops.compiled((ops.FOLDER / f"{name}.emb").read_text(), opt=opt, vlen=4, store_streams=True)
    (program,) = compilation.stages["dlc"].program.programs
    graph = compilation.stages["graph"].program
    arrays = ops.encoded(graph, *ops.structure_of(graph))
    assert pushed(program, arrays) == [("done", ())]
    assert [node.vector for node in walk(program) if isinstance(node, StoreStream)] == [width]
    rows = arrays["K"][arrays["idx"]]
    got = run_dlc(program, arrays)["out"]
    np.testing.assert_array_equal(got, rows if got.ndim == 3 else np.repeat(rows[:, None], 3, axis=1))


def test_what_computes_stays():
    compilation = ops.compiled((ops.FOLDER / "sls.emb").read_text(), store_streams=True)
    assert report(compilation).refusals == ("SLS_0: a callback stays, since it computes",)
    assert not report(compilation).changed


def test_the_option_is_off_unless_asked_for():
    assert not report(ops.compiled((ops.FOLDER / "spattn.emb").read_text())).changed
