"""The primitives one by one: what they make of a nest, the line that they leave, and what they refuse."""

import pytest

from explorer.compiler.ir.kernels import Statement
from explorer.compiler.ir.node import walk
from explorer.compiler.ir.print.kernels import print_step
from explorer.compiler.schedule.edit import primitives
from explorer.compiler.schedule.edit.queries import ScheduleError, begin
from explorer.compiler.schedule.edit.reductions import reduce_parts
from explorer.compiler.schedule.warps.row_registers import stage
from tests.compiler.codegen import kernels


def nest(kernel):
    return begin(kernel, kernel.body)


def lines(scheduled):
    """The schedule's lines, and each statement by itself."""
    statements = [print_step(node) for node in walk(scheduled) if isinstance(node, Statement)]
    return [*(f"schedule {line}" for line in scheduled.schedule), *statements]


def test_a_split_computes_the_index_and_guards_what_is_too_much():
    split = primitives.split(nest(kernels.transe(8)), "b", 8, "b0", "b1")
    assert split.schedule == ("split b by 8 into b0, b1",)
    text = lines(split)
    head = text.index("for b0 in 0..ceil(B / 8)")
    assert text[head : head + 5] == [
        "for b0 in 0..ceil(B / 8)",
        "for b1 in 0..8",
        "index b_base = b0 * 8",
        "index b = b_base + b1",
        "where b < B",
    ]


def test_a_split_that_divides_needs_no_guard():
    text = lines(primitives.split(nest(kernels.transe(8)), "d", 4, "d0", "d1"))
    assert "for d0 in 0..2" in text
    assert not [line for line in text if line.startswith("where")]


def test_a_bound_loop_says_who_shares_it():
    bound = primitives.bind(nest(kernels.transe(8)), "d", "lane", 8)
    assert bound.schedule == ("bind d to lane of 8",)
    assert "for d in 0..D @lane 8" in lines(bound)


def test_a_loop_is_bound_once_and_to_no_wider_level_than_those_around_it():
    bound = primitives.bind(nest(kernels.transe(8)), "b", "lane")
    with pytest.raises(ScheduleError, match="bound to lane already"):
        primitives.bind(bound, "b", "warp")
    with pytest.raises(ScheduleError, match="inside a loop that lane share"):
        primitives.bind(bound, "d", "warp")


def test_vectors_are_of_consecutive_elements_of_rows_of_a_known_length():
    vectors = primitives.vectorise(nest(kernels.transe(8)), "d", 4)
    assert vectors.schedule == ("vectorise d by 4",)
    assert "for d in 0..D step 4" in lines(vectors)
    with pytest.raises(ScheduleError, match="not known multiples of 4"):
        primitives.vectorise(nest(kernels.transe(6)), "d", 4)
    with pytest.raises(ScheduleError, match="not known multiples of 2"):
        primitives.vectorise(nest(kernels.transe(8)), "b", 2)
    with pytest.raises(ScheduleError, match="there is loop in the loop"):
        primitives.vectorise(nest(kernels.transr(8, 8)), "d", 4)
    across = kernels.loop("i", 4, kernels.load("w", "W", "i", 0), kernels.accumulate("s", "copy", "w"))
    body = (kernels.accumulator("s"), across, kernels.store("out", ("b",), "copy", "s"))
    column = kernels.kernel("Column", {}, [kernels.buffer("param", "W", 4, 4), kernels.RESULT], *body)
    with pytest.raises(ScheduleError, match="W is not read or written at consecutive elements"):
        primitives.vectorise(nest(column), "i", 4)


def test_all_iterations_stand_side_by_side_only_where_they_are_counted():
    unrolled = primitives.unroll(nest(kernels.transe(8)), "d")
    assert unrolled.schedule == ("unroll d",)
    assert "for d in 0..D unroll all" in lines(unrolled)
    with pytest.raises(ScheduleError, match="known only at run time"):
        primitives.unroll(nest(kernels.transe(8)), "b")
    assert "for b in 0..B unroll 4" in lines(primitives.unroll(nest(kernels.transe(8)), "b", 4))


def test_a_row_goes_to_registers_where_each_element_is_one_lanes():
    transr = nest(kernels.transr(8, 8))
    with pytest.raises(ScheduleError, match="lanes read y from one another"):
        primitives.place(transr, "y", "register")
    for variable in ("k", "k1", "k2"):
        transr = primitives.bind(transr, variable, "lane")
    placed = primitives.place(transr, "y", "register")
    assert placed.schedule[-1] == "place y in registers"
    assert "register y[K]" in lines(placed)


def test_a_row_is_staged_only_where_two_loops_read_it():
    transe = primitives.bind(nest(kernels.transe(8)), "d", "lane")
    with pytest.raises(ScheduleError, match="only one loop reads this row of E"):
        stage(transe, "E", ("ih",), "row")


def test_a_sum_of_lanes_is_reduced_after_its_last_loop():
    bound = primitives.bind(nest(kernels.transe(8)), "d", "lane")
    text = lines(reduce_parts(bound, 32))
    assert "schedule reduce s over 32 lanes" in text
    assert text.index("reduce s sum over 32 lanes") == text.index("s += v * v") + 1


def test_a_sum_that_is_asked_for_between_its_loops_is_reduced_after_each():
    kernel = nest(kernels.not_interchanged(4, 5))
    inner = [line.split()[1] for line in lines(kernel) if line.startswith("for ")]
    bound = primitives.bind(kernel, inner[2], "lane")
    text = lines(reduce_parts(bound, 32))
    place = text.index("reduce y_part sum over 32 lanes")
    assert text[place + 1] == "y[k] += y_part"


def test_a_name_that_is_no_loop_or_no_tile_is_refused():
    for refused in (lambda n: primitives.unroll(n, "x"), lambda n: primitives.place(n, "x", "shared")):
        with pytest.raises(ScheduleError, match=r"there is no (loop|tile) x"):
            refused(nest(kernels.transe(8)))


def test_rows_in_another_order_are_read_through_it():
    kernel = kernels.kernel(
        "Ordered",
        {},
        [kernels.buffer("index", "order", "B"), kernels.RESULT],
        kernels.store("out", ("b",), "copy", 1.0),
    )
    ordered = primitives.bind_buffer(nest(kernel), "b", "order")
    text = lines(ordered)
    assert text[-3:] == ["for b_at in 0..B", "b = order[b_at]", "out[b] = 1.0"]
    with pytest.raises(ScheduleError, match="out is not an index buffer of B elements"):
        primitives.bind_buffer(nest(kernel), "b", "out")


def test_rows_that_were_split_are_read_through_an_order():
    kernel = kernels.kernel(
        "Ordered",
        {},
        [kernels.buffer("index", "order", "B"), kernels.RESULT],
        kernels.store("out", ("b",), "copy", 1.0),
    )
    ordered = primitives.bind_buffer(primitives.split(nest(kernel), "b", 8, "b0", "b1"), "b", "order")
    text = lines(ordered)
    assert text[-4:] == ["index b_at = b_base + b1", "where b_at < B", "b = order[b_at]", "out[b] = 1.0"]
