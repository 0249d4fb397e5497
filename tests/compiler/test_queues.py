"""What the queues hold at each level, to the token: Ember's figures 10 and 14, and what they do not show."""

import numpy as np
import pytest

from explorer.compiler.interpret.dlc import pushed, run_dlc
from explorer.compiler.interpret.loops import run_kernel
from tests.compiler.sls import bags, lettered, separated, sls

FIGURE = bags([0, 2, 3], [0, 2, 5])
FIGURES = {
    0: [("e_ite", f"{b},{e},{'ABCDIJKLUVWX'[4 * n + e]}") for n, b in enumerate((0, 0, 1)) for e in range(4)],
    1: [("e_ite", t) for t in ("0,0,AB", "0,2,CD", "0,0,IJ", "0,2,KL", "1,0,UV", "1,2,WX")],
    2: [("e_end", t) for t in ("0,ABCD", "0,IJKL", "1,UVWX")],
    3: [("e_end", "ABCD"), ("e_end", "IJKL"), ("p_end", ""), ("e_end", "UVWX"), ("p_end", "")],
}


@pytest.mark.parametrize("level", FIGURES)
def test_the_queues_of_the_figures(level):
    program = separated(sls(), vlen=2)[level]
    assert lettered(pushed(program, FIGURE)) == [*FIGURES[level], ("done", "")]


@pytest.mark.parametrize("level", FIGURES)
@pytest.mark.parametrize(
    "pointers", [[0, 0, 2, 2], [0, 0, 2], [0, 2, 2], [0, 0, 0, 0], [0], [0, 3], [0, 1, 2, 3]], ids=str
)
def test_empty_bags_shift_nothing(level, pointers):
    kernel, inputs = sls(), bags(pointers, [1, 3, 3, 5][: pointers[-1]])
    program = separated(kernel, vlen=2)[level]
    np.testing.assert_array_equal(run_dlc(program, inputs)["out"], run_kernel(kernel, inputs)["out"])


def test_an_empty_bag_has_its_segment_end():
    records = pushed(separated(sls(), vlen=2)[3], bags([0, 0, 2, 2], [1, 3]))
    assert [token for token, _ in records] == ["p_end", "e_end", "e_end", "p_end", "p_end", "done"]


@pytest.mark.parametrize("length", [1, 15, 16, 17, 100])
@pytest.mark.parametrize("vlen", [1, 2, 3, 8, 15, 16, 17, 31, 64])
def test_tails_are_masked(length, vlen):
    kernel, inputs = sls(length), bags([0, 0, 2, 5], [1, 3, 3, 0, 5], length)
    want = run_kernel(kernel, inputs)["out"]
    for program in separated(kernel, vlen):
        np.testing.assert_array_equal(run_dlc(program, inputs)["out"], want)


@pytest.mark.parametrize(("length", "segments", "lookups"), [(32, 8, 16), (64, 4, 32), (128, 2, 64)])
def test_the_counts_of_table_3(length, segments, lookups):
    """RM1, RM2 and RM3, an eighth of their segments and a quarter of the lookups in each: tokens and bytes follow
    from the numbers of lookups and elements (dae.md)."""
    rows = segments * lookups
    inputs = bags(range(0, rows + 1, lookups), np.arange(rows) % 6, length)
    tokens, words = [], []
    for program in separated(sls(length)):
        *records, done = pushed(program, inputs)
        assert done == ("done", ())
        tokens.append(len(records))
        words.append(sum(len(operands) for _, operands in records))
    elements = rows * length
    vectors = elements // 16
    assert tokens == [elements, vectors, rows, rows + segments]
    assert words == [3 * elements, 18 * vectors, elements + rows, elements]
