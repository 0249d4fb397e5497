"""Spaces of schedules: their points are what kernels take, each once, with the usual one among them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.compiler.compilation import Compilation
from explorer.tuner.points import ABSENT, Gene, Points
from explorer.tuner.space import MOST_POINTS, TooManyPoints, points_of, widest

EXAMPLES = Path(__file__).parents[2] / "examples"


def compiled(example: str, **options: str | int | bool) -> Compilation:
    return explorer.compile((EXAMPLES / f"{example}.emb").read_text(), options=options, on_demand=True)


def test_all_decisions_together_have_as_many_points_as_the_space_counts() -> None:
    """Where decisions depend on one another: blocks of more warps have fewer of them on a multiprocessor."""
    compilation = compiled("embedding/spattn")
    (nest,) = compilation.choosable().values()
    first, *_ = nest.traced(()) or ()
    names = {choice.decision.name for _, taken in nest.valid(first, ()) for choice in taken}
    found = points_of(compilation, dict.fromkeys(names, ()))
    assert len(found) == compilation.space().count > 500
    assert len({row.tobytes() for row in found.ordinals}) == len(found)


@pytest.mark.parametrize(
    ("example", "varied"),
    [
        ("embedding/sls", ("strategy", "lanes", "block_rows", "preload")),
        ("kge/transr", ("strategy", "columns", "across", "along")),
        ("rgnn/gcn", ("GCN_0_sums.strategy", "GCN_0_sums.lanes", "columns", "across")),
    ],
)
def test_points_are_schedules_that_kernels_take_as_they_are(example: str, varied: tuple[str, ...]) -> None:
    compilation = compiled(example)
    points = points_of(compilation, dict.fromkeys(varied, ()))
    assert points.schedule_at(points.usual).items() <= compilation.schedule.items()
    for number in random.Random(0).sample(range(len(points)), 12):
        wanted = points.schedule_at(number)
        made = compilation.with_schedule(wanted)
        assert made.stages["cuda"].available
        assert wanted.items() <= made.schedule.items()


def test_values_that_are_not_allowed_are_not_taken_but_the_usual_one() -> None:
    compilation = compiled("kge/transr")
    all_of_them = points_of(compilation, {"columns": ()})
    usual = compilation.schedule["TransR_product.columns"]
    values = {all_of_them.at(number)["TransR_product.columns"] for number in range(len(all_of_them))}
    other = next(iter(values - {usual}))
    assert len(values) > 2
    points = points_of(compilation, {"columns": (other,)})
    every = [points.at(number) for number in range(len(points))]
    assert {each["TransR_product.columns"] for each in every} == {usual, other}


def test_options_of_the_model_are_genes_too() -> None:
    compilation = compiled("rgnn/rgat")
    points = points_of(compilation, {"RGAT_1.warps": ()}, {"compact": (True, False)})
    assert points.genes[0] == Gene("compact", (False, True))
    assert points.options_at(points.usual) == {"compact": True}
    every = [points.at(number) for number in range(len(points))]
    assert {each["compact"] for each in every} == {False, True}
    for chosen in every:
        version = compilation.with_options(compact=chosen["compact"])
        schedule = {key: value for key, value in chosen.items() if "." in key}
        assert schedule.items() <= version.with_schedule(schedule).schedule.items()


def test_the_widest_space_of_so_many_points_varies_the_first_decisions() -> None:
    compilation = compiled("kge/transr")
    small, large = widest(compilation, 30), widest(compilation, 300)
    assert 1 < len(small) <= 30 < len(large) <= 300
    assert {gene.key for gene in small.genes} < {gene.key for gene in large.genes}


def test_too_many_points_are_refused_before_they_are_listed() -> None:
    with pytest.raises(TooManyPoints, match=f"{MOST_POINTS:,}"):
        points_of(compiled("rgnn/gcn", grad=True), dict.fromkeys(("resident", "rounds", "kept", "warps", "loads"), ()))


WORDS = Gene("K.strategy", ("rows", "warps"))
WIDE = Gene("K.wide", (1, 2, 4, 8, 16))
DEEP = Gene("K.deep", (0, 1))


def a_toy() -> Points:
    """Rows have any width and a depth, of which the widest has but one; warps have no depth, and widths to 4."""
    points = [{"K.strategy": "rows", "K.wide": wide, "K.deep": deep} for wide in WIDE.values for deep in DEEP.values]
    points = [point for point in points if point["K.wide"] != 16 or point["K.deep"] == 0]
    points += [{"K.strategy": "warps", "K.wide": wide} for wide in WIDE.values[:3]]
    return Points.of([WORDS, WIDE, DEEP], points, {"K.strategy": "warps", "K.wide": 2})


def test_ordinals_are_normalised_gene_by_gene() -> None:
    toy = a_toy()
    assert toy.at(toy.usual) == {"K.strategy": "warps", "K.wide": 2}
    assert toy.ordinals[toy.usual].tolist() == [1, 1, ABSENT]
    strategy, wide, deep = toy.coordinates[toy.usual]
    assert (strategy, wide) == (1.0, 0.25)
    assert np.isnan(deep)


def test_a_point_is_repaired_to_the_first_that_differs_in_one_gene() -> None:
    toy = a_toy()
    own = toy.repaired(np.array([0, 3, 1]))
    assert toy.at(own) == {"K.strategy": "rows", "K.wide": 8, "K.deep": 1}
    assert toy.at(toy.repaired(np.array([0, 4, 1]))) == {"K.strategy": "rows", "K.wide": 1, "K.deep": 1}, "the first"


def test_a_point_is_repaired_to_the_nearest_where_none_differs_in_one_gene() -> None:
    toy = a_toy()
    among = (toy.ordinals[:, 2] == 0) & (toy.ordinals[:, 1] < 4)
    assert toy.at(toy.repaired(np.array([0, 4, 1]), among)) == {"K.strategy": "rows", "K.wide": 8, "K.deep": 0}


def test_only_points_that_are_left_repair_another() -> None:
    toy = a_toy()
    among = np.ones(len(toy), np.bool_)
    among[toy.usual] = False
    assert toy.repaired(toy.ordinals[toy.usual], among) != toy.usual
    with pytest.raises(ValueError, match="no point is left"):
        toy.repaired(toy.ordinals[0], np.zeros(len(toy), np.bool_))


def test_neighbours_differ_in_one_gene() -> None:
    toy = a_toy()
    near = [toy.at(int(number)) for number in toy.neighbours(toy.usual)]
    assert near == [{"K.strategy": "warps", "K.wide": 1}, {"K.strategy": "warps", "K.wide": 4}]


def test_points_are_kept_as_json() -> None:
    toy = a_toy()
    again = Points.from_json(toy.to_json())
    assert again.genes == toy.genes
    assert again.usual == toy.usual
    assert (again.ordinals == toy.ordinals).all()
    assert again.find(toy.ordinals[5]) == 5
