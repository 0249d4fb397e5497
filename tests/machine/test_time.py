"""What the clocks must obey whatever the parameters: order, bounds, monotony and conservation (dae.md)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from explorer.machine.alone import access_alone, execute_alone
from explorer.machine.assembly.costs import CLASSES
from explorer.machine.memory.memory import find, make_cache, put_first
from explorer.machine.parameters import MachineParameters
from explorer.machine.simulation import Simulation
from explorer.runtime.targets.dae import simulate
from tests.machine import programs as make

DEFAULT = MachineParameters()
MACHINES = {
    "as it is": DEFAULT,
    "small queue": MachineParameters(queue_bytes=16, control_tokens=3),
    "slow memory": MachineParameters(hbm_ns=900.0, hbm_gbs=2.0, mshrs=4),
    "slow access": MachineParameters(access_ghz=0.05),
    "tiny caches": MachineParameters(l2_kib=1, llc_kib=2, storage_bytes=256),
}


@cache
def account(parameters: MachineParameters, d: int = 16, k: int = 24) -> dict[str, Any]:
    return simulate(make.transr(d, k), make.transr_inputs(32, d, k), parameters).account


def counting(*streams: Any) -> Any:
    """Two iterations that push their positions, and what the streams are."""
    pushes = [make.push(stream.result, "b_tr", "ite") for stream in streams]
    pops = [make.pop(f"v{number}", "f32") for number, _ in enumerate(streams)]
    return make.program(
        {},
        [make.buffer("x", "input", "N"), make.buffer("out", "output", 1)],
        [
            make.loop("b_tr", None, 0, 2),
            *streams,
            make.push("b_tr.ite", "b_tr", "ite"),
            *pushes,
            make.callback("b_tr", "ite", "b_ite"),
        ],
        make.case("b_ite", make.pop("b", "i32"), *pops),
    )


COSTS = {f"{name}_cycles": 0.0 for name in CLASSES} | {"token_cycles": 2.0, "pop_cycles": 1.0}


def test_times_of_two_records_worked_by_hand() -> None:
    """The traversal starts at 0; a record of one operand takes 4 / 64 ns; the core needs 2 + 1 cycles for each and 2
    for `done`. It begins at 0.0625 ns and never waits again."""
    result = simulate(counting(), {"x": np.zeros(1, np.float32)}, MachineParameters(**COSTS)).account
    assert [record["cycle"] for record in result["pushed_first"]] == pytest.approx([0.15, 0.3, 0.3])
    assert [record["popped"] for record in result["pushed_first"]] == pytest.approx([0.15 + 2, 0.15 + 5, 0.15 + 8])
    assert result["cycles"] == pytest.approx(0.15 + 3 + 3 + 2)
    assert result["execute"]["busy"] == pytest.approx(8)
    assert result["execute"]["stalls"] == pytest.approx({"queue_empty": 0.15})
    assert result["access"]["busy"] == pytest.approx(0.3)
    assert result["tokens"] == {"b_ite": 2, "done": 1}


def test_time_of_a_miss_worked_by_hand() -> None:
    """A line is asked for at 0: it takes 64 / 37.5 ns of the channel, then 100. The second load finds it."""
    load = make.mem("v", "b_tr", "x", "b_tr.ite")
    result = simulate(counting(load), {"x": np.zeros(2, np.float32)}).account
    first = 64 / 37.5 + 100 + 8 / 64
    assert [record["cycle"] for record in result["pushed_first"]] == pytest.approx(
        [2.4 * time for time in (first, first + 8 / 64, first + 8 / 64)]
    )
    memory = result["memory"]
    assert (memory["requests"], memory["misses"], memory["hbm_bytes"]) == (1, 1, 64)
    assert result["access"]["loads"] == 2
    assert result["access"]["stalls"]["memory"] == pytest.approx(2.4 * (100 + 64 / 37.5))


def test_innermost_traversal_that_ends_costs_the_core_a_turn() -> None:
    """Two rows of four elements: two turns, paid at the next row's first token and at `done`."""
    costs = {f"{name}_cycles": 0.0 for name in CLASSES} | {"traversal_cycles": 50.0}
    parameters = MachineParameters(**costs)
    records = simulate(make.sls(4), make.sls_inputs(), parameters).account["pushed_first"]
    waits = [record["popped"] - record["cycle"] for record in records]
    assert [round(wait) for wait in waits[:4]] == [0, 0, 0, 0]
    assert waits[4] == pytest.approx(50)
    assert records[-1]["popped"] - records[-2]["popped"] == pytest.approx(50)


@pytest.mark.parametrize("machine", MACHINES)
def test_between_the_longer_unit_and_both_one_after_the_other(machine: str) -> None:
    parameters = MACHINES[machine]
    together = account(parameters)["cycles"]
    access = account(access_alone(parameters))["cycles"]
    execute = account(execute_alone(parameters))["cycles"]
    assert max(access, execute) * (1 - 1e-6) <= together <= (access + execute) * (1 + 1e-6)


@pytest.mark.parametrize("machine", MACHINES)
def test_each_unit_is_busy_or_waits_for_a_cause(machine: str) -> None:
    whole = account(MACHINES[machine])
    for unit in ("access", "execute"):
        part = whole[unit]
        assert part["busy"] + sum(part["stalls"].values()) == pytest.approx(part["cycles"], rel=1e-6)
        assert min(part["busy"], *part["stalls"].values()) >= -1e-6
    assert whole["cycles"] >= max(whole["access"]["cycles"], whole["execute"]["cycles"])
    assert whole["microseconds"] == pytest.approx(whole["cycles"] / DEFAULT.core_ghz / 1000)


@pytest.mark.parametrize("machine", MACHINES)
def test_occupancy_never_exceeds_capacity(machine: str) -> None:
    whole = account(MACHINES[machine])
    data, control = whole["queues"]["data"], whole["queues"]["control"]
    assert data["peak_bytes"] <= data["capacity_bytes"]
    assert control["peak"] <= control["capacity"]
    for point in whole["occupancy"]:
        assert 0 <= point["queue_bytes"] <= data["peak_bytes"] * (1 + 1e-9)
        assert 0 <= point["control_tokens"] <= control["peak"] * (1 + 1e-9)
        assert 0 <= point["access_busy"] <= 1 + 1e-9
        assert 0 <= point["execute_busy"] <= 1 + 1e-9


def test_queue_fills_when_the_execute_unit_is_slow_and_not_when_access_is() -> None:
    slow_execute = account(replace(DEFAULT, core_ghz=0.1))
    assert slow_execute["queues"]["data"]["peak_bytes"] == DEFAULT.queue_bytes
    assert slow_execute["access"]["stalls"]["queue_full"] > 0.5 * slow_execute["access"]["cycles"]
    slow_access = account(replace(DEFAULT, access_ghz=0.01))
    assert slow_access["queues"]["data"]["peak_bytes"] <= 64
    assert slow_access["execute"]["stalls"]["queue_empty"] > 0.5 * slow_access["execute"]["cycles"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("storage_bytes", (64, 128, 1024, 8192)),
        ("mshrs", (1, 2, 3, 16, 256)),
        ("hbm_gbs", (0.5, 1.0, 8.0, 37.5, 1000.0)),
        ("core_ghz", (0.1, 1.0, 2.4)),
        ("access_ghz", (0.1, 1.0, 2.0)),
    ],
)
@pytest.mark.parametrize("base", [DEFAULT, MachineParameters(core_ghz=8.0, l2_kib=1, llc_kib=2)], ids=["", "bare"])
def test_more_of_a_resource_is_never_slower(base: MachineParameters, name: str, values: tuple[float, ...]) -> None:
    times = [account(replace(base, **{name: value}))["microseconds"] for value in values]
    assert times == sorted(times, reverse=True)
    assert times[0] > times[-1]


@pytest.mark.parametrize(
    ("name", "values"),
    [("queue_bytes", (8, 12, 64, 100, 1000, 8192, 1 << 20)), ("control_tokens", (1, 2, 7, 64, 2048))],
)
def test_longer_queue_is_never_slower_and_helps_where_nothing_else_holds_lines(
    name: str, values: tuple[int, ...]
) -> None:
    bound = [account(replace(DEFAULT, **{name: value}))["cycles"] for value in values]
    assert bound == sorted(bound, reverse=True)
    even = MachineParameters(access_ghz=1.2, storage_bytes=64)
    times = [account(replace(even, **{name: value}))["cycles"] for value in values]
    assert times == sorted(times, reverse=True)
    assert times[0] > 1.01 * times[-1]


@pytest.mark.parametrize(
    "name", ["hbm_ns", "llc_ns", "l2_ns", "request_cycles", "start_cycles", *(f"{name}_cycles" for name in CLASSES)]
)
def test_longer_latencies_and_costs_are_never_faster(name: str) -> None:
    times = [account(replace(DEFAULT, **{name: value}))["cycles"] for value in (0.0, 1.0, 10.0, 100.0, 1000.0)]
    assert times == sorted(times)


def test_everything_twice_as_slow_takes_exactly_twice_as_long() -> None:
    names = ("l2_ns", "llc_ns", "hbm_ns")
    slower = {name: 2 * getattr(DEFAULT, name) for name in names}
    slower |= {name: getattr(DEFAULT, name) / 2 for name in ("core_ghz", "access_ghz", "hbm_gbs")}
    assert account(replace(DEFAULT, **slower))["microseconds"] == 2 * account(DEFAULT)["microseconds"]


@pytest.mark.parametrize("machine", MACHINES)
def test_slices_do_not_change_anything(machine: str) -> None:
    d, k = 5, 6
    program, inputs = make.transr(d, k), make.transr_inputs(8, d, k)
    whole = Simulation(program, inputs, MACHINES[machine])
    assert whole.advance(1 << 40)
    for tokens in (1, 7, 100):
        sliced = Simulation(program, inputs, MACHINES[machine])
        while not sliced.advance(tokens):
            pass
        assert sliced.account() == whole.account()
        np.testing.assert_array_equal(sliced.outputs["out"], whole.outputs["out"])


def test_runs_are_the_same_every_time() -> None:
    d, k = 8, 8
    first, second = (simulate(make.transr(d, k), make.transr_inputs(8, d, k)) for _ in range(2))
    assert first.account == second.account
    np.testing.assert_array_equal(first.output, second.output)


@pytest.mark.parametrize("machine", MACHINES)
def test_occupancy_is_the_sum_of_all_stays(machine: str) -> None:
    """Little's law, record by record; and no pop before its push."""
    simulation = Simulation(make.transr(5, 6), make.transr_inputs(8, 5, 6), MACHINES[machine])
    queues = simulation.machines[0].queues
    stays: list[tuple[float, float]] = []
    word_stays: list[tuple[float, float]] = []
    while not simulation.finished:
        simulation.advance(1)
        slot = queues.tokens[(queues.state.tokens_popped - 1) % queues.tokens.size]
        assert slot.freed >= slot.filled
        stays.append((slot.filled, slot.freed))
        for word in range(queues.state.words_popped - slot.words, queues.state.words_popped):
            word_stays.append((slot.filled, queues.word_freed[word % queues.words.size]))
    last = queues.state.seen
    assert queues.state.token_time == pytest.approx(sum(min(last, freed) - filled for filled, freed in stays))
    assert queues.state.word_time == pytest.approx(sum(min(last, freed) - filled for filled, freed in word_stays))
    for moment, _ in word_stays[::7]:
        inside = sum(filled <= moment < freed for filled, freed in word_stays)
        assert inside <= queues.state.words_peak <= queues.state.word_capacity


@pytest.mark.parametrize("machine", MACHINES)
def test_lines_are_conserved_and_bandwidth_is_kept(machine: str) -> None:
    whole = account(MACHINES[machine])
    memory = whole["memory"]
    assert memory["l2_hits"] + memory["llc_hits"] + memory["misses"] == memory["requests"]
    assert memory["hbm_bytes"] == 64 * (memory["misses"] + 2 * memory["output_misses"])
    assert memory["hbm_bytes"] <= MACHINES[machine].hbm_gbs * whole["microseconds"] * 1000 * (1 + 1e-9)
    # Three indices and, of two rows of E, one of R and one of P, all lines: what any order must bring at least once.
    assert memory["requests"] <= whole["access"]["loads"]


def test_misses_in_flight_obey_littles_law() -> None:
    """With one register, misses follow each other: the time is at least their number times the latency."""
    whole = account(MachineParameters(mshrs=1))
    assert whole["microseconds"] * 1000 >= whole["memory"]["misses"] * DEFAULT.hbm_ns
    for mshrs in (2, 8):
        several = account(MachineParameters(mshrs=mshrs))
        assert several["microseconds"] * 1000 * mshrs >= several["memory"]["misses"] * DEFAULT.hbm_ns


def test_cache_is_least_recently_used() -> None:
    """Against a list kept in order of use, for random lines."""
    table = make_cache(1, 4)  # 1 KiB: 4 sets of 4 ways
    sets, ways = table.lines.shape
    order: list[list[int]] = [[] for _ in range(sets)]
    hits = 0
    for line in np.random.default_rng(3).integers(0, 40, 500):
        kept = order[line % sets]
        way = find(table.lines, line)
        assert (way >= 0) == (line in kept)
        hits += way >= 0
        put_first(table.lines, table.arrivals, line, way if way >= 0 else ways - 1, float(line))
        order[line % sets] = [line, *(other for other in kept if other != line)][:ways]
        assert [line for line in table.lines[line % sets] if line >= 0] == order[line % sets]
        assert (table.arrivals[line % sets] == np.maximum(table.lines[line % sets], 0)).all()
    assert 0 < hits < 500


def test_samples_stream_while_it_runs() -> None:
    seen: list[dict[str, Any]] = []
    d, k = 16, 16
    result = simulate(make.transr(d, k), make.transr_inputs(64, d, k), on_sample=seen.append)
    assert 50 <= len(seen) <= 200
    assert result.account["occupancy"] == seen
    assert [point["cycle"] for point in seen] == sorted(point["cycle"] for point in seen)
    assert seen[-1]["triples"] == 64
    assert seen[-1]["cycle"] <= result.account["cycles"]


def test_run_of_unknown_length_is_sampled_all_the_same() -> None:
    """Bags of many rows: how many records there are depends on data."""
    rows = 60_000
    inputs = {
        "ptrs": np.array([0, rows, 2 * rows], np.int32),
        "idxs": np.zeros(2 * rows, np.int32),
        "vals": np.ones((1, 16), np.float32),
    }
    seen: list[dict[str, Any]] = []
    result = simulate(make.sls(16), inputs, on_sample=seen.append)
    assert 20 <= len(seen) <= 400
    assert result.account["occupancy"][-1] == seen[-1]
    assert (result.output == rows).all()
