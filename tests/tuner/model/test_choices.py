"""Trees, and what they are given of points: on made-up times, and on the spaces that come with the explorer."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import numpy as np
import pytest

from explorer.tuner import shipped
from explorer.tuner.held_out import others_of
from explorer.tuner.model.choices import NUMBERS, WEIGHTS, WORDS, choices_of, expected, recorded_choices
from explorer.tuner.model.growing import Growing, grow
from explorer.tuner.model.learning import learn
from explorer.tuner.model.trees import Trees
from explorer.tuner.points import Gene, Points

WIDTH = len(NUMBERS) + len(WORDS)


def test_trees_learn_what_inputs_make_together(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    inputs = random.normal(0, 1, (4_000, 8)).astype(np.float32)
    inputs[:, 7] = 3.0  # which says nothing
    wanted = np.sign(inputs[:, 0]) * inputs[:, 1].astype(np.float64) + 5.0
    trees = grow(inputs[:3_000], wanted[:3_000], np.ones(3_000), Growing(trees=80, rate=0.2, columns=1.0))
    errors = trees.predict(inputs[3_000:]) - wanted[3_000:]
    assert errors.std() < 0.3 * wanted.std()
    assert not (trees.places == 7).any()
    trees.save(tmp_path / "trees.npz")
    np.testing.assert_array_equal(Trees.load(tmp_path / "trees.npz").predict(inputs), trees.predict(inputs))


def test_a_tree_asks_what_leaves_the_least_squares() -> None:
    """Of one tree of depth 1 that is not held back, the best split is found by trying all."""
    random = np.random.default_rng(1)
    inputs = random.integers(0, 6, (200, 3)).astype(np.float32)
    wanted = random.normal(0, 1, 200) + (inputs[:, 1] > 2)
    trees = grow(inputs, wanted, np.ones(200), Growing(trees=1, depth=1, rate=1.0, rows=1.0, columns=1.0, pull=1e-9))

    def squares(place: int, limit: float) -> float:
        above = inputs[:, place] > limit
        return sum(float(((part - part.mean()) ** 2).sum()) for part in (wanted[above], wanted[~above]))

    best = min((squares(place, cut + 0.5), place, cut + 0.5) for place in range(3) for cut in range(5))
    assert (int(trees.places[0, 0]), float(trees.limits[0, 0])) == best[1:]
    assert ((trees.predict(inputs) - wanted) ** 2).sum() == pytest.approx(best[0], rel=1e-5)


def test_choices_are_the_same_whichever_kernels_have_them() -> None:
    genes = (
        *(Gene(f"{kernel}.lanes", (1, 3)) for kernel in ("A_0", "A_1")),
        *(Gene("A_0.strategy", ("rows", "dots")), Gene("compact", (False, True))),
    )
    points = Points(genes, np.array([[0, 0, 0, 0], [1, 0, 1, 0], [-1, -1, 0, 1]], np.int16), 0)
    found = choices_of(points, {})
    lanes, dots = NUMBERS.index("lanes"), len(NUMBERS) + WORDS.index(("strategy", "dots"))
    assert found[:, lanes].tolist() == [1.0, 1.5, -1.0]
    assert found[:, WIDTH + lanes].tolist() == [0.0, 0.5, 0.0]
    assert found[:, dots].tolist() == [0.0, 1.0, 0.0]
    assert (found[:, NUMBERS.index("chunk")] == -2.0).all()
    assert (found[0, WIDTH : 2 * WIDTH] == 0).all()


def test_it_predicts_fast() -> None:
    space = shipped.load("spmm/arxiv-128")
    inputs, trees = recorded_choices(space), Trees.load(WEIGHTS)
    trees.predict(inputs[:10])
    took = []
    for _ in range(5):
        begin = perf_counter()
        trees.predict(inputs)
        took.append((perf_counter() - begin) / len(inputs))
    assert min(took) < 50e-6
    assert WEIGHTS.stat().st_size < 100_000


@pytest.mark.sweep
@pytest.mark.parametrize(("file", "with_twins"), [(shipped.LEFT_OUT, False), (shipped.KERNEL_LEFT_OUT, True)])
def test_what_is_shipped_is_what_training_gives(file: str, with_twins: bool) -> None:
    names = shipped.names()
    spaces = [shipped.load(name).without_repeats() for name in names]
    examples = [(recorded_choices(space), space.times()) for space in spaces]
    for name, space, (inputs, _) in zip(names, spaces, examples, strict=True):
        trees = learn(others_of(space, spaces, examples, with_twins=with_twins))
        told = shipped.left_out(name, file)
        np.testing.assert_allclose(expected(trees, inputs), told, rtol=1e-2, err_msg=name)
    if not with_twins:
        whole, own = Trees.load(WEIGHTS), learn(examples)
        np.testing.assert_allclose(own.predict(examples[0][0]), whole.predict(examples[0][0]), rtol=1e-4, atol=1e-5)
