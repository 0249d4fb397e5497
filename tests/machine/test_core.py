"""The clock of the core without an access unit: closed forms, what its limits bound, and that each limit matters."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.machine.parameters import MachineParameters
from explorer.runtime.targets.dae import simulate
from tests.machine import programs as make

DEFAULT = MachineParameters()
AT_ONCE: dict[str, Any] = dict.fromkeys(
    ("l1_cycles", "l2_ns", "llc_ns", "hbm_ns", "walk_cycles", "float_cycles", "mispredict_cycles"), 0.0
)
FREE_MEMORY = replace(DEFAULT, **AT_ONCE, hbm_gbs=1e9)
BAGS, LOOKUPS = 8, 24


@cache
def core(parameters: MachineParameters = DEFAULT, length: int = 128, opt: int = 1, rows: int = 16_384) -> Any:
    """The core alone on bags of rows drawn from a table; opt 1 is a vector a step, opt 0 scalar code."""
    inputs = make.bags_of(BAGS, LOOKUPS, length, rows)
    return simulate(make.sls(length, opt), inputs, parameters, core_alone=True).account["core_alone"]


@pytest.mark.parametrize(("opt", "lanes"), [(1, 16), (0, 1)])
def test_a_step_of_the_loop_is_seven_instructions(opt: int, lanes: int) -> None:
    """Load of the row, load of the output, addition, store; addition, comparison, branch of the loop."""
    short, long = core(length=32, opt=opt), core(length=64, opt=opt)
    steps = BAGS * LOOKUPS * 32 // lanes
    assert long["instructions"] - short["instructions"] == 7 * steps
    assert long["loads"] - short["loads"] == 2 * steps
    assert long["stores"] - short["stores"] == steps


@pytest.mark.parametrize("opt", [0, 1])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_with_a_memory_that_answers_at_once_the_width_is_the_bound(width: int, opt: int) -> None:
    found = core(replace(FREE_MEMORY, issue_width=width), opt=opt)
    assert found["cycles"] == pytest.approx(found["instructions"] / width, rel=0.01)


def test_one_miss_at_a_time_with_one_register() -> None:
    """Little's law at its least: the latencies follow each other, and nothing else matters."""
    found = core(replace(DEFAULT, l1_mshrs=1, walk_cycles=0.0, prefetch_lines=0, hbm_gbs=1e9))
    latency = DEFAULT.hbm_ns * DEFAULT.core_ghz
    assert found["misses"] > 1_000
    assert found["cycles"] >= found["misses"] * latency
    assert found["miss_cycles"] <= found["cycles"]
    assert found["cycles"] == pytest.approx(found["miss_cycles"], rel=0.05)


@pytest.mark.parametrize("mshrs", [2, 4, 8])
def test_no_more_misses_are_in_flight_than_registers(mshrs: int) -> None:
    found = core(replace(DEFAULT, l1_mshrs=mshrs, rob_entries=1 << 12, lsq_entries=1 << 12, walk_cycles=0.0))
    assert 0.7 * mshrs <= found["miss_cycles"] / found["cycles"] <= mshrs


def test_a_window_of_one_instruction_does_everything_one_after_another() -> None:
    """Each load then waits for its latency: of the L1D, or of the memory."""
    slow = replace(DEFAULT, rob_entries=1, walk_cycles=0.0, hbm_gbs=1e9, l2_ns=10.0, llc_ns=10.0, hbm_ns=10.0)
    slow = replace(slow, prefetch_lines=0, mispredict_cycles=0.0, float_cycles=0.0)
    found = core(slow)
    hits = found["loads"] - found["loads_missed"]
    waits = hits * slow.l1_cycles + found["loads_missed"] * 10.0 * slow.core_ghz
    assert found["cycles"] >= waits
    # The rest is an instruction or two at a time, with latencies of 1, of 3 for an address.
    assert found["cycles"] <= waits + 3 * (found["instructions"] - found["loads"])


def test_walks_follow_each_other() -> None:
    slow = replace(DEFAULT, walk_cycles=5_000.0, tlb_entries=5)
    found = core(slow)
    assert found["walks"] >= BAGS * LOOKUPS
    assert 1 <= found["cycles"] / (found["walks"] * 5_000) < 1.05
    assert core(replace(slow, page_bytes=1 << 24))["walks"] < 10


def test_lines_are_never_brought_faster_than_the_memory_does() -> None:
    for gigabytes in (1.0, 4.0):
        found = core(replace(DEFAULT, hbm_gbs=gigabytes, walk_cycles=0.0, prefetch_lines=0))
        nanoseconds = found["cycles"] / DEFAULT.core_ghz
        assert found["hbm_bytes"] / nanoseconds <= gigabytes
        assert found["hbm_bytes"] / nanoseconds == pytest.approx(gigabytes, rel=0.1)


def test_ends_of_loaded_loops_are_unforeseen_and_of_long_ones() -> None:
    """Each bag's end; and each row's where it is longer than the core foresees."""
    assert core(length=128)["mispredicts"] == BAGS + 1
    assert core(length=128, opt=0)["mispredicts"] == BAGS + 1 + BAGS * LOOKUPS
    assert core(replace(DEFAULT, predicted_steps=128), opt=0)["mispredicts"] == BAGS + 1
    costs = [core(replace(FREE_MEMORY, mispredict_cycles=cycles), opt=0)["cycles"] for cycles in (0.0, 50.0)]
    assert costs[1] - costs[0] >= 45.0 * BAGS * LOOKUPS


def test_a_table_in_the_l1_is_fetched_once() -> None:
    found = core(rows=16)
    assert found["misses"] <= 16 * 8 + 200
    assert found["cycles"] < core()["cycles"] / 2


@pytest.mark.parametrize("opt", [0, 1])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("rob_entries", (1, 8, 64, 224, 448, 4096)),
        ("lsq_entries", (1, 4, 24, 96, 192, 1024)),
        ("l1_mshrs", (1, 2, 8, 32, 64)),
        ("issue_width", (1, 2, 4, 8)),
        ("hbm_gbs", (1.0, 8.0, 37.5)),
    ],
)
def test_more_of_a_resource_is_never_slower(name: str, values: tuple[float, ...], opt: int) -> None:
    times = [core(replace(DEFAULT, **{name: value}), opt=opt)["cycles"] for value in values]
    assert times == sorted(times, reverse=True)
    assert times[0] > times[-1]


@pytest.mark.parametrize("name", ["rob_entries", "lsq_entries", "l1_mshrs"])
def test_a_quarter_of_what_keeps_misses_in_flight_matters(name: str) -> None:
    halved = core(replace(DEFAULT, **{name: getattr(DEFAULT, name) // 4}))["cycles"]
    assert halved > 1.02 * core()["cycles"]


def test_doubling_all_of_it_matters_where_pages_are_known() -> None:
    near = replace(DEFAULT, walk_cycles=0.0)
    doubled = replace(near, rob_entries=448, lsq_entries=192, l1_mshrs=64)
    assert core(near)["cycles"] > 1.1 * core(doubled)["cycles"]


@pytest.mark.parametrize("name", ["l1_cycles", "l2_ns", "llc_ns", "hbm_ns", "walk_cycles", "mispredict_cycles"])
def test_longer_latencies_are_never_faster(name: str) -> None:
    times = [core(replace(DEFAULT, **{name: value}))["cycles"] for value in (0.0, 1.0, 30.0, 500.0)]
    assert times == sorted(times)


@settings(max_examples=30, deadline=None)
@given(
    small=st.fixed_dictionaries(
        {
            "rob_entries": st.integers(1, 300),
            "lsq_entries": st.integers(1, 100),
            "l1_mshrs": st.integers(1, 40),
            "walk_cycles": st.floats(0, 400),
            "prefetch_lines": st.integers(0, 6),
            "l1_kib": st.sampled_from([1, 64]),
        }
    ),
    more=st.sampled_from(["rob_entries", "lsq_entries", "l1_mshrs"]),
    opt=st.sampled_from([0, 1]),
    seed=st.integers(0, 9),
)
def test_conservation_and_monotony_of_random_cores(small: dict[str, Any], more: str, opt: int, seed: int) -> None:
    program, inputs = make.sls(40, opt), make.bags_of(5, 7, 40, rows=300, seed=seed)
    parameters = MachineParameters(**small)
    found = simulate(program, inputs, parameters, core_alone=True).account["core_alone"]
    assert found["cycles"] >= found["instructions"] / parameters.issue_width
    assert found["miss_cycles"] <= found["cycles"] * parameters.l1_mshrs
    larger = replace(parameters, **{more: 2 * small[more] + 1})
    other = simulate(program, inputs, larger, core_alone=True).account["core_alone"]
    assert other["cycles"] <= found["cycles"]
    assert {name: other[name] for name in ("instructions", "misses", "walks", "mispredicts")} == {
        name: found[name] for name in ("instructions", "misses", "walks", "mispredicts")
    }


def test_the_clock_changes_nothing_of_the_machine_beside_it() -> None:
    program, inputs = make.sls(40, 1), make.bags_of(5, 7, 40)
    with_clock, without = (simulate(program, inputs, core_alone=alone) for alone in (True, False))
    np.testing.assert_array_equal(with_clock.output, without.output)
    assert {name: value for name, value in with_clock.account.items() if name != "core_alone"} == without.account


def test_several_cores_alone_share_the_work() -> None:
    inputs = make.bags_of(64, 24, 128)
    one, eight = (
        simulate(make.sls(128, 1), inputs, MachineParameters(cores=cores), core_alone=True).account["core_alone"]
        for cores in (1, 8)
    )
    assert 4 < one["cycles"] / eight["cycles"] <= 8, "each with cold caches of its own"
