"""What the machine computes: values really pass through the queues, and every one is accounted for."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.ir import loops
from explorer.compiler.ir.access.dlc import DlcProgram, verify_dlc
from explorer.compiler.ir.module import Module
from explorer.machine.assembly.binding import InputError
from explorer.machine.faults import MachineError, QueueError
from explorer.machine.parameters import MachineParameters, ParameterError
from explorer.runtime.targets.dae import simulate
from tests.functions import EXACT, OPERANDS
from tests.machine import programs as make

SMALL = {"batch": 5, "d": 3, "k": 4, "entities": 9, "relations": 2}


def small(**changes: int) -> tuple[DlcProgram, dict[str, Any]]:
    sizes = {**SMALL, **changes}
    return make.transr(sizes["d"], sizes["k"]), make.transr_inputs(**sizes)


def test_programs_by_hand_are_dlc() -> None:
    verify_dlc(make.sls(4))
    verify_dlc(make.transr(3, 4))


def test_queue_holds_the_golden_content_of_sls() -> None:
    result = simulate(make.sls(4), make.sls_inputs())
    letters = {1.0: "A", 2.0: "B", 3.0: "C", 4.0: "D", 9.0: "I", 10.0: "J", 11.0: "K", 12.0: "L"}
    letters |= {21.0: "U", 22.0: "V", 23.0: "W", 24.0: "X"}
    records = result.account["pushed_first"]
    assert [record["token"] for record in records] == ["ei"] * 12 + ["done"]
    pushed = [f"{b},{e},{letters[v]}" for b, e, v in (record["values"] for record in records[:-1])]
    assert " ".join(pushed) == "0,0,A 0,1,B 0,2,C 0,3,D 0,0,I 0,1,J 0,2,K 0,3,L 1,0,U 1,1,V 1,2,W 1,3,X"
    assert records[-1]["values"] == []
    np.testing.assert_array_equal(result.output, [[10, 12, 14, 16], [21, 22, 23, 24]])


def test_empty_bags_keep_their_rows() -> None:
    inputs = make.sls_inputs() | {"ptrs": np.array([0, 0, 3], np.int32)}
    result = simulate(make.sls(4), inputs)
    np.testing.assert_array_equal(result.output, [[0, 0, 0, 0], [31, 34, 37, 40]])


@pytest.mark.parametrize(("d", "k"), [(1, 1), (1, 33), (33, 1), (16, 17), (64, 64)])
@pytest.mark.parametrize("queue_bytes", [8, 20, 8192])
def test_transr_equals_float64(d: int, k: int, queue_bytes: int) -> None:
    inputs = make.transr_inputs(7, d, k)
    result = simulate(make.transr(d, k), inputs, MachineParameters(queue_bytes=queue_bytes))
    np.testing.assert_allclose(result.output, make.transr_reference(inputs), rtol=1e-5)
    assert result.output.dtype == np.float32


def test_every_push_is_popped_and_counted() -> None:
    program, inputs = small()
    batch, d, k = SMALL["batch"], SMALL["d"], SMALL["k"]
    control, data = (simulate(program, inputs).account["queues"][name] for name in ("control", "data"))
    assert control["pushes"] == control["pops"] == batch * (1 + k + d + d * k + 1) + 1
    assert data["pushes"] == data["pops"] == batch * (2 * k + 2 * d + 2 * d * k + 1)
    assert data["bytes_pushed"] == data["bytes_popped"] == 4 * data["pushes"]
    assert 8 <= data["peak_bytes"] <= data["capacity_bytes"]
    assert 1 <= control["peak"] <= control["capacity"]


def test_dropping_an_operand_shows_in_the_counts() -> None:
    program, inputs = small()
    fewer = replace(
        program,
        access=tuple(s for s in program.access if s != make.push("rk", "k0_tr", "ite")),
        execute=tuple(
            make.case("k0_ite", make.pop("k0", "i32"), make.store("y", ("k0",), "copy", 0.0))
            if case.token == "k0_ite"
            else case
            for case in program.execute
        ),
    )
    whole, less = simulate(program, inputs).account, simulate(fewer, inputs).account
    dropped = SMALL["batch"] * SMALL["k"]
    assert whole["queues"]["data"]["pushes"] - less["queues"]["data"]["pushes"] == dropped
    assert less["cycles"] < whole["cycles"]


def test_batch_of_none_pushes_only_done() -> None:
    program, inputs = small(batch=0)
    result = simulate(program, inputs)
    assert result.output.shape == (0,)
    assert result.account["queues"]["control"]["pushes"] == 1
    assert [record["token"] for record in result.account["pushed_first"]] == ["done"]


@pytest.mark.parametrize("queue_bytes", [4, 7])
def test_record_larger_than_the_queue_is_rejected(queue_bytes: int) -> None:
    program, inputs = small()
    with pytest.raises(QueueError, match=rf"token k0_ite is 8 bytes; the data queue holds {queue_bytes}: make the"):
        simulate(program, inputs, MachineParameters(queue_bytes=queue_bytes))


@pytest.mark.parametrize("parameters", [{"queue_bytes": 0}, {"control_tokens": 0}])
def test_queue_of_nothing_is_rejected(parameters: dict[str, int]) -> None:
    program, inputs = small()
    with pytest.raises(QueueError, match=r"it needs"):
        simulate(program, inputs, MachineParameters.of(parameters))


@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_narrowest_queues_still_finish(tokens: int) -> None:
    program, inputs = small()
    result = simulate(program, inputs, MachineParameters(queue_bytes=8, control_tokens=tokens))
    np.testing.assert_allclose(result.output, make.transr_reference(inputs), rtol=1e-5)
    assert result.account["queues"]["data"]["peak_bytes"] == 8


def test_index_out_of_range_is_an_error_with_a_place() -> None:
    program, inputs = small()
    inputs["h"][3] = SMALL["entities"]
    with pytest.raises(MachineError, match=r"access unit reaches for element 27 of an array of 27, at `e1 = d_tr"):
        simulate(program, inputs)
    inputs["h"][3] = -1
    with pytest.raises(MachineError, match=r"element -3 of an array of 27"):
        simulate(program, inputs)


def test_store_out_of_range_is_an_error() -> None:
    program = make.sls(4)
    wrong = make.case(
        "ei",
        make.pop("b", "i32"),
        make.pop("e", "i32"),
        make.pop("x", "f32"),
        make.loops.Index(origin=make.HERE, result="f", function="add", operands=("e", 1)),
        make.add_to("out", ("b", "f"), "copy", "x"),
    )
    with pytest.raises(MachineError, match=r"execute unit uses index 4 in a dimension of 4, at `out\[b, f\] \+= x`"):
        simulate(replace(program, execute=(wrong,)), make.sls_inputs())


def test_position_too_wide_for_the_queue_is_an_error() -> None:
    program = make.program(
        {},
        [make.buffer("out", "output", 1)],
        [
            make.loop("b_tr", None, 2**31, 2**31 + 1),
            make.push("b_tr.ite", "b_tr", "ite"),
            make.callback("b_tr", "ite", "b_ite"),
        ],
        make.case("b_ite", make.pop("b", "i32")),
    )
    with pytest.raises(MachineError, match="2,147,483,648, which does not fit"):
        simulate(program, {})


def test_pops_and_pushes_that_differ_are_found() -> None:
    program = make.sls(4)
    body = program.execute[0].body
    with pytest.raises(MachineError, match="12 operands were pushed and never popped"):
        simulate(replace(program, execute=(make.case("ei", *body[:2]),)), make.sls_inputs())
    greedy = make.case("ei", *body[:3], make.pop("y", "f32"), *[make.pop(f"z{n}", "f32") for n in range(40)])
    with pytest.raises(MachineError, match="pops an operand from an empty data queue"):
        simulate(replace(program, execute=(greedy,)), make.sls_inputs())


def test_inputs_that_do_not_fit() -> None:
    program, inputs = small()
    with pytest.raises(InputError, match="the input R is missing"):
        simulate(program, {name: array for name, array in inputs.items() if name != "R"})
    with pytest.raises(InputError, match="dimension 0 of t is 4, but should be B = 5"):
        simulate(program, inputs | {"t": inputs["t"][:4]})
    with pytest.raises(InputError, match="h has 2 dimensions, but the program reads 1"):
        simulate(program, inputs | {"h": inputs["h"][None]})
    with pytest.raises(InputError, match="must hold whole numbers"):
        simulate(program, inputs | {"h": inputs["h"].astype(np.float32)})


def test_parameters_are_checked_by_name_and_range() -> None:
    with pytest.raises(ParameterError, match="no parameter 'queue'"):
        MachineParameters.of({"queue": 1})
    with pytest.raises(ParameterError, match="mshrs is 0, but must lie between 1 and"):
        MachineParameters(mshrs=0)
    with pytest.raises(ParameterError, match=r"queue_bytes is 1\.5, but must be a whole number"):
        MachineParameters.of({"queue_bytes": 1.5})
    described = MachineParameters(mshrs=8).describe()
    assert described["mshrs"]["source"] == "set for this run"
    assert described["hbm_ns"] == {
        "value": 100.0,
        "unit": "ns",
        "source": "assumed",
        "meaning": "latency of the memory, unloaded",
    }


VALUES = np.array([-200.0, -1.5, -0.0, 0.0, 0.25, 1.0, 3.0, 90.0], np.float32)


def one_function(function: str, operands: tuple[Any, ...]) -> DlcProgram:
    return make.program(
        {},
        [make.buffer("x", "input", "B"), make.buffer("out", "output", "B")],
        [
            make.loop("b_tr", None, 0, "B"),
            make.mem("e", "b_tr", "x", "b_tr.ite"),
            make.push("b_tr.ite", "b_tr", "ite"),
            make.push("e", "b_tr", "ite"),
            make.callback("b_tr", "ite", "b_ite"),
        ],
        make.case("b_ite", make.pop("b", "i32"), make.pop("v", "f32"), make.store("out", ("b",), function, *operands)),
    )


@pytest.mark.parametrize("function", [name for name, count in OPERANDS.items() if count == 1])
def test_functions_of_one_operand(function: str) -> None:
    with np.errstate(all="ignore"):
        want = EXACT[function](VALUES.astype(np.float64)).astype(np.float32)
    got = simulate(one_function(function, ("v",)), {"x": VALUES}).output
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-37)


@pytest.mark.parametrize("function", [name for name, count in OPERANDS.items() if count == 2])
@pytest.mark.parametrize("right", [0.0, -2.5])
def test_functions_of_two_operands(function: str, right: float) -> None:
    with np.errstate(all="ignore"):
        want = EXACT[function](VALUES, np.float32(right))
    got = simulate(one_function(function, ("v", right)), {"x": VALUES}).output
    if function == "atan2":  # of which float32 has no one value: within that of float64, as functions of one operand
        np.testing.assert_allclose(got, EXACT[function](VALUES.astype(np.float64), right), rtol=2e-6)
    else:
        np.testing.assert_array_equal(got, want)


def test_maximum_keeps_what_is_not_a_number() -> None:
    values = np.array([np.nan, 1.0], np.float32)
    got = simulate(one_function("max", ("v", 0.0)), {"x": values}).output
    np.testing.assert_array_equal(got, values)


def test_account_is_json_whatever_the_values() -> None:
    values = np.array([np.nan, np.inf, 1.5], np.float32)
    account = simulate(one_function("copy", ("v",)), {"x": values}).account
    assert json.loads(json.dumps(account, allow_nan=False)) == account
    assert [record["values"] for record in account["pushed_first"]] == [[0, "nan"], [1, "inf"], [2, 1.5], []]


def test_rows_of_two_dimensions_and_reductions() -> None:
    """A [2, 3] workspace is filled with x * (i - j), then its maximum and minimum are stored as one sum."""
    index = loops.Index(origin=make.HERE, result="m", function="sub", operands=("i", "j"))
    extremes = [
        loops.Accumulate(origin=make.HERE, target=f"a_{r}", indices=(), reduction=r, function="copy", operands=("z",))
        for r in ("max", "min")
    ]
    program = replace(
        one_function("copy", ("v",)),
        execute=(
            make.case(
                "b_ite",
                make.pop("b", "i32"),
                make.pop("v", "f32"),
                make.row("w", 2, 3),
                make.each("i", 2, make.each("j", 3, index, make.store("w", ("i", "j"), "mul", "v", "m"))),
                make.accumulator("a_max", float("-inf")),
                make.accumulator("a_min", float("inf")),
                make.each("k", 2, make.each("l", 3, make.load("z", "w", "k", "l"), *extremes)),
                make.store("out", ("b",), "add", "a_max", "a_min"),
            ),
        ),
    )
    got = simulate(program, {"x": np.array([1.0, -4.0], np.float32)}).output
    np.testing.assert_array_equal(got, [-1.0, 4.0])


REDUCTIONS = {
    "sum": (0.0, np.add),
    "product": (1.0, np.multiply),
    "max": (-math.inf, np.maximum),
    "min": (9.0, np.minimum),
}


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_rows_and_accumulators_take_every_reduction_in_lanes_too(reduction: str, width: int) -> None:
    """Into a row of six elements j + x goes x, by a reduction; then all six into one number. The last lanes are two."""
    start, function = REDUCTIONS[reduction]
    into_row, into_one = (
        loops.Accumulate(
            origin=make.HERE, target=name, indices=at, reduction=reduction, function="copy", operands=(value,)
        )
        for name, at, value in (("w", ("j",), "v"), ("a", (), "z"))
    )
    body = (make.store("w", ("j",), "add", "j", "v"), into_row, make.load("z", "w", "j"), into_one)
    loop = make.each("j", 6, *body) if width == 1 else make.vector_each("j", 6, width, *body)
    pops = (make.pop("b", "i32"), make.pop("v", "f32"))
    statements = (*pops, make.row("w", 6), make.accumulator("a", start), loop, make.store("out", ("b",), "copy", "a"))
    x = np.array([0.5, -2.0], np.float32)
    got = simulate(replace(one_function("copy", ("v",)), execute=(make.case("b_ite", *statements),)), {"x": x}).output
    want = [function.reduce(function(np.arange(6) + one, one), initial=start) for one in x]
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_row_read_before_it_is_written_is_not_a_number() -> None:
    body = (make.pop("b", "i32"), make.pop("v", "f32"), make.row("w", 2), make.load("z", "w", 1))
    program = replace(
        one_function("copy", ("v",)), execute=(make.case("b_ite", *body, make.store("out", ("b",), "copy", "z")),)
    )
    assert np.isnan(simulate(program, {"x": np.ones(1, np.float32)}).output).all()


def test_a_record_names_what_it_holds() -> None:
    """Bags 0 and 1 of SLS by hand: elements of the rows that `make.sls_inputs` looks up; `done` holds nothing."""
    inputs = make.sls_inputs()
    records = simulate(make.sls(4), inputs).account["pushed_first"]
    rows = [int(row) for row in inputs["idxs"] for _ in range(4)]
    assert [record["held"] for record in records[:-1]] == [[f"vals[{row}, {at % 4}]"] for at, row in enumerate(rows)]
    assert records[-1]["held"] == []


def test_a_record_of_vectors_names_their_row_and_an_empty_one_nothing(root: Path) -> None:
    text = (root / "examples" / "embedding" / "sls.emb").read_text()
    compiled = explorer.compile(text, options={"opt": 3})
    table = np.arange(8 * 128, dtype=np.float32).reshape(8, 128)
    inputs = {"T": table, "idx": np.array([5, 2, 7], np.int32), "bag_ptr": np.array([0, 2, 2, 3], np.int32)}
    program = compiled.stages["dlc"].program
    assert isinstance(program, Module)
    records = simulate(program, inputs).account["pushed_first"]
    assert [record["held"] for record in records if record["values"]] == [["T[5]"], ["T[2]"], ["T[7]"]]
    assert all(record["values"][0] == table[int(record["held"][0][2:-1]), 0] for record in records if record["values"])
    assert all(not record["held"] for record in records if not record["values"])
