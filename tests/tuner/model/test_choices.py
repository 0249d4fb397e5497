"""Trees, and what they are given of points: on made-up times, and on the spaces that come with the explorer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from explorer.checkout import CHECKOUT
from explorer.compiler.schedule.strategies import STRATEGY
from explorer.tuner import shipped
from explorer.tuner.held_out import others_of
from explorer.tuner.model.choices import (
    NUMBERS,
    OF_KERNELS,
    WEIGHTS,
    WORDS,
    Model,
    choices_of,
    expected,
    recorded_choices,
    unseen,
)
from explorer.tuner.model.estimates import Work, estimates
from explorer.tuner.model.growing import Growing, grow, grow_together
from explorer.tuner.model.learning import learn
from explorer.tuner.model.parts import parts_of
from explorer.tuner.model.trees import PART, Trees, together
from explorer.tuner.points import Gene, Points
from tests.tuner.model.counting import calls

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


def test_forests_say_in_the_mean_what_each_says() -> None:
    random = np.random.default_rng(0)
    inputs = random.normal(size=(300, 4)).astype(np.float32)
    wanted = inputs[:, 0] * inputs[:, 1] + 2.0
    forests = [grow(inputs, wanted, np.ones(300), Growing(trees=5, depth=3, seed=seed)) for seed in range(3)]
    mean = np.mean([forest.predict(inputs) for forest in forests], axis=0)
    np.testing.assert_allclose(Trees.mean(forests).predict(inputs), mean, rtol=1e-5)


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


def test_rounding_does_not_choose_among_questions_that_gain_alike() -> None:
    """Each input is there from both ends, so that each question has its mirror, and all times move by a last bit."""
    random = np.random.default_rng(0)
    own = random.integers(0, 6, (400, 4)).astype(np.float32)
    inputs, weights = np.concatenate([own, 5 - own], 1), random.uniform(0.5, 1.5, 400)
    wanted = own @ np.array([1.0, 0.3, -0.5, 0.1]) + random.standard_normal(400)
    how = Growing(trees=20, columns=1.0)
    one, other = (grow(inputs, each, weights, how) for each in (wanted, np.nextafter(wanted, np.inf)))
    np.testing.assert_array_equal(one.places, other.places)
    np.testing.assert_array_equal(one.limits, other.limits)


def test_kernels_of_a_point_take_what_they_take_one_after_another() -> None:
    """Of points of two kernels, of which some have one, only the sum is told; what each takes is learnt of it."""
    random = np.random.default_rng(2)
    inputs = random.integers(0, 8, (3_000, 2, 3)).astype(np.float32)
    each = 0.5 * inputs[:, :, 0].astype(np.float64)
    inputs[::5, 1] = np.nan
    each[::5, 1] = -np.inf
    wanted = np.log(np.exp(each).sum(1) / np.isfinite(each).sum(1))
    how = Growing(trees=120, depth=3, rate=0.2, columns=1.0)
    trees = grow_together(inputs[:2_000], wanted[:2_000], np.ones(2_000), how)
    assert (trees.predict_together(inputs[2_000:]) - wanted[2_000:]).std() < 0.05 * wanted.std()
    steps = trees.predict(np.array([[value, 3, 3] for value in range(8)], np.float32))
    np.testing.assert_allclose(np.diff(steps), 0.5, atol=0.1)


def test_shares_are_what_the_sum_moves_by() -> None:
    each, of = np.log(np.array([1.0, 3.0, 5.0])), np.array([0, 0, 1])
    told, shares = together(each, of, 2)
    np.testing.assert_allclose(np.exp(told), [2.0, 5.0])
    for kernel in range(3):
        moved = each + 1e-6 * (np.arange(3) == kernel)
        np.testing.assert_allclose((together(moved, of, 2)[0] - told)[of[kernel]], 1e-6 * shares[kernel], rtol=1e-3)


def test_choices_are_of_each_kernel_that_a_point_has() -> None:
    genes = (
        *(Gene(f"{kernel}.lanes", (1, 3)) for kernel in ("A_0", "A_1")),
        *(Gene("A_0.strategy", ("rows", "dots")), Gene("compact", (False, True))),
    )
    points = Points(genes, np.array([[0, 0, 0, 0], [1, 0, 1, 0], [-1, -1, 0, 1]], np.int16), 0)
    found = choices_of(points, {}, {"D": 8})
    lanes, dots = NUMBERS.index("lanes"), len(NUMBERS) + WORDS.index(("strategy", "dots"))
    assert found[:, 0, lanes].tolist() == [1.0, 1.5, -1.0], "of the whole point in the mean"
    assert found[:, 1, lanes].tolist() == [1.0, 2.0, -1.0]
    assert found[:2, 2, lanes].tolist() == [1.0, 1.0]
    assert np.isnan(found[2, 2]).all(), "which has no such kernel"
    assert found[:, 0, WIDTH + lanes].tolist() == [0.0, 0.5, 0.0]
    assert found[:, 1, WIDTH + lanes].tolist() == [0.0, 1.0, 0.0]
    assert found[:, 1, dots].tolist() == found[:, 0, dots].tolist() == [0.0, 1.0, 0.0]
    assert (found[:, :2, NUMBERS.index("chunk")] == -2.0).all()
    assert (found[0, :, WIDTH : 2 * WIDTH] == 0).all()


def test_what_a_kernel_was_cut_into_goes_by_the_decisions_of_the_whole() -> None:
    genes = (
        Gene("T.strategy", ("gemm", "rows")),
        Gene("T.resident", (2, 4)),
        Gene("T_product.columns", (16, 64)),
        Gene("T_product.resident", (3, 8)),
        Gene("Tail.lanes", (8, 16)),
    )
    ordinals = [[0, -1, 1, 0, 0], [1, 1, -1, -1, 0], [0, 1, 0, -1, 1], [-1, -1, -1, -1, -1]]
    whole, product, tail, none = parts_of(Points(genes, np.array(ordinals, np.int16), 0))
    assert whole.present.tolist() == [False, True, False, False]
    assert product.present.tolist() == [True, False, True, False]
    assert product.is_word("strategy", "gemm").tolist() == [True, False, True, False]
    assert product.number("resident", 0.0).tolist() == [3.0, 4.0, 4.0, 0.0], "its own before the whole's"
    assert tail.present.tolist() == [True, True, True, False], "which is no part of T"
    assert none.present.tolist() == [False, False, False, True]


def test_estimates_are_of_what_is_to_do() -> None:
    """A kernel by pieces has elements / chunk groups of lanes, and each takes its piece one after another."""
    genes = (Gene("A.strategy", ("nonzeros", "rows")), Gene("A.chunk", (64, 256)), Gene("A.lanes", (8, 16)))
    points = Points(genes, np.array([[0, 0, 0], [0, 1, 0], [0, 1, 1], [1, -1, 1]], np.int16), 0)
    work = Work.of({"p.lists": 1_000.0, "p.mean": 64.0, "p.longest": 512.0, "i.picks": 64_000.0}, {"D": 128})
    assert work == Work(64_000.0, 1_000.0, 64.0, 512.0, 128.0)
    (part,) = parts_of(points)
    told = estimates(part, work)
    assert np.isfinite(told).all()
    _, _, passes, wasted, serial, longest, *_, groups = (2.0 ** told[:, :13]).T
    np.testing.assert_allclose(passes, [4, 4, 2, 2])
    np.testing.assert_allclose(wasted, 1.0)
    np.testing.assert_allclose(serial, [64, 256, 256, 64])
    np.testing.assert_allclose(longest, [64, 256, 256, 512], err_msg="by rows the longest is waited for")
    np.testing.assert_allclose(groups, [1_000, 250, 250, 1_000])


def test_a_product_that_needs_more_registers_than_it_has_is_short() -> None:
    """64 rows of 128 columns by 8 x 16 threads are 64 sums each; of eight such blocks a thread has 64 registers."""
    genes = (Gene("P.across", (8, 16)), Gene("P.columns", (64, 128)), Gene("P.resident", (2, 8)))
    points = Points(genes, np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 0, 1]], np.int16), 0)
    (part,) = parts_of(points)
    told = estimates(part, Work.of({"h.picks": 8_192.0}, {"D": 128}))
    each, _, short = told[:, 13:16].T
    np.testing.assert_allclose(2**each, [64, 64, 128, 64])
    assert short[0] < 0 < short[1]
    assert (told[:, :13] == 0).all(), "no lists of lanes"


def test_the_shipped_trees_are_asked_what_they_were_trained_on() -> None:
    """Of the spaces that they saw they know the order; with inputs moved by one new strategy's they do not."""
    spaces = [shipped.load(name).without_repeats() for name in shipped.names()]
    trees, known, moved = Model.load(), list[float](), list[float]()
    for space in spaces:
        inputs, times = recorded_choices(space), np.log(space.times())
        valid = np.isfinite(times)
        for found, given in ((known, inputs), (moved, np.roll(inputs, 2, axis=2))):
            found.append(float(np.corrcoef(trees.predict(given)[valid], times[valid])[0, 1]))
    assert np.median(known) > 0.9
    assert np.nanmedian(moved) < 0.7
    assert {word for _, word in WORDS} <= set(STRATEGY.domain)


def test_it_predicts_fast() -> None:
    """In 12 us a point, of the 50 that it may take. What is counted is the same on every host, however busy it is: the
    comparisons of a point, and that no call of Python is for one point, but for as many as are taken together."""
    inputs, model = recorded_choices(shipped.load("spmm/arxiv-128")), Model.load()
    model.predict(inputs[:10])
    assert model.whole.places.size + model.kernels.places.size <= 2_400, "comparisons of a point of one kernel"
    assert len(inputs) > PART
    assert calls(model.predict, inputs[:PART]) == calls(model.predict, inputs[:1])
    assert calls(model.predict, inputs) <= -(-len(inputs) // PART) * calls(model.predict, inputs[:1])
    assert WEIGHTS.stat().st_size + OF_KERNELS.stat().st_size < 100_000


NOT_TRAINED_WITH = "X86_V4 AVX512_ICL AVX512_SPR"
"""NumPy's code for AVX-512 rounds logarithms and sums otherwise, by which a tree asks another question."""


@pytest.mark.parametrize(
    ("file", "with_twins", "every"),
    [
        pytest.param(shipped.LEFT_OUT, False, 4, marks=pytest.mark.sweep),
        pytest.param(shipped.LEFT_OUT, False, 1, marks=pytest.mark.exhaustive),
        pytest.param(shipped.KERNEL_LEFT_OUT, True, 1, marks=pytest.mark.exhaustive),
    ],
)
def test_what_is_shipped_is_what_training_gives(file: str, with_twins: bool, every: int) -> None:
    """For each space that is left out, or for one in so many; by the arithmetic that the shipped was trained with."""
    compare = f"from tests.tuner.model.test_choices import compare; compare({file!r}, {with_twins}, {every})"
    alike = {**os.environ, "NPY_DISABLE_CPU_FEATURES": NOT_TRAINED_WITH}
    subprocess.run([sys.executable, "-c", compare], env=alike, cwd=CHECKOUT, check=True)


def compare(file: str, with_twins: bool, every: int) -> None:
    names = shipped.names()
    spaces = [shipped.load(name).without_repeats() for name in names]
    examples = [(recorded_choices(space), space.times()) for space in spaces]
    for name, space, (inputs, _) in [*zip(names, spaces, examples, strict=True)][::every]:
        trees = learn(others_of(space, spaces, examples, with_twins=with_twins))
        told = shipped.left_out(name, file)
        np.testing.assert_allclose(expected(trees, inputs), told, rtol=1e-2, err_msg=name)
    if not with_twins:
        whole, own = Model.load(), learn(examples)
        np.testing.assert_allclose(own.predict(examples[0][0]), whole.predict(examples[0][0]), rtol=1e-4, atol=1e-5)


def test_what_the_model_is_not_given_is_named() -> None:
    """What changes nothing of its inputs, gene by gene, and no other."""
    keys = {"compact": (False, True), "A.lanes": (4, 8), "B.lanes": (4, 8), "A.threads": (64, 128), "B.threads": (1, 2)}
    genes = (
        *(Gene(key, values) for key, values in keys.items()),
        Gene("A.strategy", ("rows", "scores")),
        Gene("x", (1,)),
    )
    ordinals = np.zeros((len(genes) + 1, len(genes)), np.int16)
    for number, gene in enumerate(genes):
        ordinals[number + 1, number] = len(gene.values) - 1
    points = Points(genes, ordinals, 0)
    inputs = choices_of(points, {}, {"D": 8})
    same = {genes[at].key for at in range(len(keys) + 1) if np.array_equal(inputs[at + 1], inputs[0], equal_nan=True)}
    assert same == {"compact", "A.threads", "B.threads"}
    assert unseen(points) == ["compact", "threads"]
