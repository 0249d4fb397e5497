"""How many lanes share an iteration that only gathers rows, and how much of these a lane asks for at once."""

import pytest

from explorer.checkout import CHECKOUT
from explorer.compiler.ir.kernels import Loop
from explorer.compiler.ir.node import walk
from explorer.compiler.schedule.warps.gathered import fewer_lanes, rounds_together
from tests.compiler.models import compiled

SUM = """dim D = {D}
score Sum(h: entity, r: relation, t: entity):
    param {rows}
    return norm(E[h] + {relations} - E[t], 2)
"""


def of_rows(size, rows):
    """The score of a fact of so many rows of a size."""
    names = [f"R{number}" for number in range(rows - 2)]
    declared = ", ".join(["E[entity, D]", *(f"{name}[relation, D]" for name in names)])
    return SUM.format(D=size, rows=declared, relations=" + ".join(f"{name}[r]" for name in names))


def chosen(text, *decisions, **arguments):
    schedule = compiled(text, **arguments).schedule
    (kernel,) = {key.partition(".")[0] for key in schedule}
    return tuple(schedule[f"{kernel}.{decision}"] for decision in decisions)


@pytest.mark.parametrize(
    ("size", "lanes"),
    [(1, 2), (3, 4), (7, 4), (16, 4), (20, 4), (32, 4), (41, 16), (48, 8), (64, 8), (100, 16), (128, 16), (256, 32)],
)
def test_a_lane_has_two_or_three_vectors_of_each_row(size, lanes):
    """One where that is 64 bytes of a row or less; four or more where a warp has no more lanes."""
    assert chosen(of_rows(size, 3), "lanes", "rounds") == (lanes, 4)


@pytest.mark.parametrize(("size", "rows", "lanes"), [(128, 4, 16), (128, 5, 32), (48, 5, 8), (48, 6, 16), (41, 12, 16)])
def test_a_lane_has_no_more_of_all_rows_than_32_floats(size, rows, lanes):
    assert chosen(of_rows(size, rows), "lanes") == (lanes,)


@pytest.mark.parametrize(
    ("size", "rows", "rounds"), [(602, 3, 16), (640, 3, 8), (682, 3, 16), (684, 3, 4), (1024, 3, 4), (602, 4, 4)]
)
def test_all_loads_of_a_lane_are_issued_together_where_they_are_of_64_floats(size, rows, rounds):
    text = of_rows(size, rows)
    assert chosen(text, "lanes", "rounds") == (32, rounds)
    kernel = compiled(text).stages["kernels"].program
    (loop,) = [node for node in walk(kernel) if isinstance(node, Loop) and node.extent == "D"]
    assert loop.unroll == (0 if -(-size // (loop.step * 32)) <= rounds else 1)


def test_lanes_that_keep_a_row_are_no_fewer_than_have_registers_for_it():
    """TransH keeps three rows, which are 24 numbers of each of 16 lanes, and 12 of 32."""
    text = (CHECKOUT / "examples" / "kge" / "transh.emb").read_text()
    for kept, lanes in ((64, 16), (32, 16), (16, 32)):
        assert chosen(text, "lanes", sizes={"D": 128}, schedule={"TransH.kept": kept}) == (lanes,)


@pytest.mark.parametrize(
    ("options", "counts", "lanes"),
    [({}, {}, 16), ({"negatives": "tail:64"}, {}, 32), ({"negatives": "tail:64"}, {"batch": 64}, 16)],
)
def test_iterations_with_a_loop_of_their_own_have_a_vector_a_lane(options, counts, lanes):
    """Of 64 candidates a lane asks for several rows as it is; where each is an iteration, there is no such loop."""
    given = {"counts": counts} if counts else {}
    assert chosen(of_rows(128, 3), "lanes", options=options, **given) == (lanes,)


def test_iterations_that_store_rows_have_a_vector_a_lane():
    """The sums of gradients, by triple; the scores beside them do not."""
    schedule = compiled(of_rows(128, 3), options={"grad": True}).schedule
    lanes = {key.partition(".")[0]: value for key, value in schedule.items() if key.endswith(".lanes")}
    assert lanes.pop("Sum_0") == 16
    assert lanes
    assert set(lanes.values()) == {32}


def test_other_numbers_of_lanes_and_rounds_are_taken_where_they_are_asked_for():
    for lanes, rounds in ((2, 1), (8, 32), (32, 4)):
        asked = {"Sum.lanes": lanes, "Sum.rounds": rounds}
        assert chosen(of_rows(48, 3), "lanes", "rounds", schedule=asked) == (lanes, rounds)


def test_what_is_not_only_gathered_stays_as_it_is():
    assert fewer_lanes(usual=32, vectors=32, floats=0) == 32
    assert rounds_together(iterations=10, lanes=32, floats=0) == 4
