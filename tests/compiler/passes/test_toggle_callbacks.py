"""Coordinates cross the queue when they change (Ember §7.4)."""

import numpy as np

from explorer.compiler.interpret.dlc import pushed
from tests.compiler import ops


def tokens_and_words(**options):
    """The records of a product of five nonzeros, in rows 0, 0, 2, 2 and 3."""
    compilation = ops.compiled((ops.FOLDER / "spmm_coo.emb").read_text(), vlen=4, **options)
    (program,) = compilation.stages["dlc"].program.programs
    graph = compilation.stages["graph"].program
    arrays = ops.encoded(graph, *ops.structure_of(graph, (2, 0, 2, 1)))
    return [(token, len(words)) for token, words in pushed(program, arrays)], arrays


def test_a_row_is_sent_once():
    records, arrays = tokens_and_words(toggle_callbacks=True)
    np.testing.assert_array_equal(arrays["row"], [0, 0, 2, 2, 3])
    row, product = ("z_ite", 4), ("d_end", 4 + 8)
    assert records == [row, product, product, row, product, product, row, product, ("done", 0)]


def test_without_the_option_it_goes_with_each_nonzero():
    records, _ = tokens_and_words()
    assert records == [("d_end", 4 + 4 + 8)] * 5 + [("done", 0)]


def test_an_unvectorised_coordinate_is_not_sent_with_each_element():
    records, _ = tokens_and_words(toggle_callbacks=True, opt=0)
    assert records[:7] == [("z_ite", 1), *[("d_ite", 3)] * 5, ("d_ite", 3)]


def test_segments_have_no_coordinates():
    compilation = ops.compiled((ops.FOLDER / "spmm.emb").read_text(), toggle_callbacks=True)
    assert not next(r for r in compilation.stages["slc"].passes if r.name == "toggle_callbacks").changed
