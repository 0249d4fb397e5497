"""What the machine must do whatever its costs: knees of the memory side, closed forms, and responses to the program
(dae.md, Tests 2 to 4)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.machine.alone import access_alone, execute_alone
from explorer.machine.faults import QueueError
from explorer.machine.parameters import MachineParameters
from explorer.runtime.targets.dae import simulate
from tests.machine import programs as make

DEFAULT = MachineParameters()
FAST_CORE = access_alone(DEFAULT)


@cache
def account(
    parameters: MachineParameters, length: int = 128, opt: int = 3, rows: int = 32768, lookups: int = 64
) -> Any:
    return simulate(make.sls(length, opt), make.bags_of(16, lookups, length, rows), parameters).account


def cycles(parameters: MachineParameters, **changes: int) -> float:
    return float(account(parameters, **changes)["cycles"])


@pytest.mark.parametrize("opt", range(4))
@pytest.mark.parametrize("vlen", [1, 2, 5, 8, 16, 32, 64])
@pytest.mark.parametrize("length", [1, 15, 16, 17, 100])
def test_sums_are_right_at_every_level_and_vector_length(opt: int, vlen: int, length: int) -> None:
    if opt == 0 and vlen > 1:
        return
    inputs = make.bags_of(5, 3, length, rows=9) | {"ptrs": np.array([0, 0, 4, 4, 14, 15], np.int32)}
    result = simulate(make.sls(length, opt if vlen > 1 else 0, vlen), inputs)
    np.testing.assert_allclose(result.output, make.sls_reference(inputs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opt", range(4))
@pytest.mark.parametrize("ptrs", [[0], [0, 0], [0, 0, 0, 0], [0, 1], [0, 2, 2]])
def test_empty_batches_and_bags(opt: int, ptrs: list[int]) -> None:
    inputs = make.bags_of(1, 2, 16, rows=4) | {"ptrs": np.array(ptrs, np.int32)}
    inputs["idxs"] = inputs["idxs"][: ptrs[-1]]
    result = simulate(make.sls(16, opt), inputs, MachineParameters(cores=2))
    assert result.output.shape == (len(ptrs) - 1, 16)
    np.testing.assert_allclose(result.output, make.sls_reference(inputs), rtol=1e-5, atol=1e-6)


def test_queue_of_one_record_runs_and_a_smaller_one_is_a_deadlock() -> None:
    record = 4 * 128
    tight = account(replace(DEFAULT, queue_bytes=record))
    assert tight["queues"]["data"]["peak_bytes"] == record
    assert tight["cycles"] > cycles(DEFAULT)
    with pytest.raises(QueueError, match=r"deadlock at `push_op\(v, e_tr, ite\)`: .* 512 bytes or more .* holds 508"):
        account(replace(DEFAULT, queue_bytes=record - 4))
    with pytest.raises(QueueError, match="it needs 4 for one operand"):
        account(replace(DEFAULT, queue_bytes=0))


@pytest.mark.parametrize(("name", "values"), [("storage_bytes", (2048, 1024)), ("mshrs", (16, 8, 4))])
def test_lines_in_flight_below_latency_times_bandwidth_slow_it_in_proportion(
    name: str, values: tuple[int, ...]
) -> None:
    times = [cycles(replace(FAST_CORE, **{name: value})) for value in values]
    assert times[0] > 1.3 * cycles(FAST_CORE)
    for fewer, more in zip(times[1:], times, strict=False):
        assert fewer / more == pytest.approx(2, rel=0.15)


def test_bandwidth_below_demand_slows_it_in_proportion() -> None:
    times = [cycles(replace(DEFAULT, hbm_gbs=value)) for value in (10.0, 5.0, 2.5)]
    assert times[0] > 2 * cycles(DEFAULT)
    for slower, faster in zip(times[1:], times, strict=False):
        assert slower / faster == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize("change", [{"storage_bytes": 2048}, {"mshrs": 16}, {"hbm_gbs": 10.0}])
def test_with_high_locality_the_memory_does_not_matter(change: dict[str, Any]) -> None:
    near = {"rows": 64, "lookups": 512}
    assert cycles(replace(DEFAULT, **change)) > 1.2 * cycles(DEFAULT)
    assert cycles(replace(DEFAULT, **change), **near) == pytest.approx(cycles(DEFAULT, **near), rel=0.03)


def test_longer_start_hurts_short_rows_and_not_long_ones() -> None:
    slow = replace(FAST_CORE, start_cycles=16.0, hbm_gbs=1000.0)
    quick = replace(FAST_CORE, start_cycles=8.0, hbm_gbs=1000.0)
    assert cycles(slow, length=16) > 1.7 * cycles(quick, length=16)
    assert cycles(slow, length=512) == pytest.approx(cycles(quick, length=512), rel=0.02)


@pytest.mark.parametrize("length", [16, 48, 96, 256])
def test_unseen_row_lengths_follow_the_closed_form(length: int) -> None:
    """A row costs the end of its traversal, its token, and what its elements or vectors take."""
    p = execute_alone(DEFAULT)
    rows, vectors, scalar = 16 * 64, length // 16, DEFAULT.scalar_cycles
    element = DEFAULT.token_cycles + 3 * DEFAULT.pop_cycles + 4 * scalar
    lanes = DEFAULT.token_cycles + 2 * DEFAULT.pop_cycles + scalar + DEFAULT.unbuffered_cycles
    step = 5 * DEFAULT.vector_cycles
    want = {
        0: length * element,
        1: vectors * (lanes + 4 * DEFAULT.vector_cycles + 7 / 8 * DEFAULT.misaligned_cycles),
        2: DEFAULT.token_cycles + DEFAULT.pop_cycles + vectors * (step + 15 / 16 * DEFAULT.misaligned_cycles),
        3: DEFAULT.token_cycles + vectors * step + (DEFAULT.traversal_cycles + 2 * scalar) / 64,
    }
    for opt, row in want.items():
        got = cycles(p, length=length, opt=opt) / rows
        assert got == pytest.approx(DEFAULT.traversal_cycles + row, rel=0.01)


@pytest.mark.parametrize("opt", range(4))
def test_new_rows_of_an_output_cost_bandwidth_and_no_time(opt: int) -> None:
    """Bags of one row each, so every row of the output is new: the core waits for tokens alone, and a memory that is
    900 ns farther delays the whole by the few loads that come one after another, not by 900 ns a bag."""
    bags, inputs = 64, make.bags_of(64, 1, 128, rows=64)
    near, far = (
        simulate(make.sls(128, opt), inputs, replace(DEFAULT, hbm_ns=ns, mshrs=1 << 16, storage_bytes=1 << 22)).account
        for ns in (100.0, 1000.0)
    )
    for found in (near, far):
        memory, core = found["memory"], found["execute"]
        assert memory["output_misses"] == bags * 128 // 16
        assert memory["hbm_bytes"] == 64 * (memory["misses"] + 2 * memory["output_misses"])
        assert core["busy"] + core["stalls"]["queue_empty"] == pytest.approx(core["cycles"])
    assert far["cycles"] - near["cycles"] < 0.1 * bags * 900 * DEFAULT.core_ghz


def test_counts_come_from_the_program_and_names_do_not_matter() -> None:
    """Vectors of 8 are twice as many; without an operand there are fewer bytes; another callback is another token."""
    inputs = make.bags_of(4, 8, 32)
    sixteen, eight = (simulate(make.sls(32, 1, vlen), inputs).account for vlen in (16, 8))
    assert eight["tokens"]["ei"] == 2 * sixteen["tokens"]["ei"]
    assert eight["cycles"] > sixteen["cycles"]
    buffered, aligned = (simulate(make.sls(32, opt), inputs).account for opt in (2, 3))
    rows = 4 * 8
    assert buffered["queues"]["data"]["pushes"] - aligned["queues"]["data"]["pushes"] == rows
    assert aligned["queues"]["control"]["pushes"] - buffered["queues"]["control"]["pushes"] == 4
    assert buffered["execute"]["costs"]["misaligned"]["count"] > 0 == aligned["execute"]["costs"]["misaligned"]["count"]
    renamed = replace(make.sls(32, 3), name="another level")
    account = simulate(renamed, inputs).account
    (kernel,), (other,) = account.pop("kernels"), aligned.pop("kernels")
    assert account == aligned
    assert {**kernel, "name": other["name"]} == other


machines = st.fixed_dictionaries(
    {
        "queue_bytes": st.integers(132, 4000),
        "control_tokens": st.integers(1, 64),
        "storage_bytes": st.sampled_from([64, 128, 512, 8192]),
        "mshrs": st.integers(1, 64),
        "hbm_gbs": st.floats(1.0, 100.0),
        "hbm_ns": st.floats(0.0, 400.0),
        "start_cycles": st.floats(0.0, 40.0),
        "core_ghz": st.floats(0.5, 8.0),
        "l2_kib": st.sampled_from([1, 4, 64]),
        "llc_kib": st.sampled_from([1, 16, 1024]),
    }
)


@settings(max_examples=30, deadline=None)
@given(machine=machines, opt=st.integers(0, 3), length=st.sampled_from([1, 16, 17, 24]), seed=st.integers(0, 99))
def test_conservation_and_bounds(machine: dict[str, Any], opt: int, length: int, seed: int) -> None:
    parameters = MachineParameters(**machine)
    program, inputs = make.sls(length, opt), make.bags_of(6, 9, length, rows=200, seed=seed)
    whole = simulate(program, inputs, parameters).account
    memory, data, control = whole["memory"], whole["queues"]["data"], whole["queues"]["control"]
    assert memory["l2_hits"] + memory["llc_hits"] + memory["misses"] == memory["requests"]
    assert memory["hbm_bytes"] == 64 * (memory["misses"] + 2 * memory["output_misses"])
    assert memory["hbm_bytes"] <= parameters.hbm_gbs * whole["microseconds"] * 1000 * (1 + 1e-9)
    assert data["pushes"] == data["pops"]
    assert data["peak_bytes"] <= data["capacity_bytes"]
    assert control["peak"] <= control["capacity"]
    for unit in ("access", "execute"):
        part = whole[unit]
        assert part["busy"] + sum(part["stalls"].values()) == pytest.approx(part["cycles"], rel=1e-6)
        assert min(part["busy"], *part["stalls"].values()) >= -1e-6
    alone = [simulate(program, inputs, unit(parameters)).account["cycles"] for unit in (access_alone, execute_alone)]
    assert max(alone) * (1 - 1e-6) <= whole["cycles"] <= sum(alone) * (1 + 1e-6)
    better = replace(parameters, mshrs=parameters.mshrs + 3, queue_bytes=parameters.queue_bytes + 64)
    assert simulate(program, inputs, better).account["cycles"] <= whole["cycles"] * (1 + 1e-12)


def test_several_cores_share_the_work_and_the_memory() -> None:
    inputs = make.bags_of(64, 128, 128)
    one, eight = (simulate(make.sls(128, 3), inputs, replace(FAST_CORE, cores=cores)) for cores in (1, 8))
    np.testing.assert_allclose(eight.output, one.output, rtol=1e-5, atol=1e-5)
    assert 6 < one.account["cycles"] / eight.account["cycles"] <= 8
    assert len(eight.account["cores"]) == 8
    # The same bandwidth for eight as for one: it is what they share.
    starved = replace(FAST_CORE, cores=8, hbm_gbs=37.5 / 8)
    contended = simulate(make.sls(128, 3), inputs, starved).account
    assert contended["rates"]["hbm_gbs"] == pytest.approx(37.5, rel=0.05)
    assert contended["cycles"] > 5 * eight.account["cycles"]
    assert contended["access"]["stalls"]["memory"] > 0.5 * contended["access"]["cycles"]


@pytest.mark.parametrize("opt", range(4))
@pytest.mark.parametrize("cores", [2, 3, 8])
def test_cores_take_equal_slices_of_the_bags(cores: int, opt: int) -> None:
    inputs = make.bags_of(7, 5, 20, rows=30)
    result = simulate(make.sls(20, opt), inputs, MachineParameters(cores=cores))
    np.testing.assert_allclose(result.output, make.sls_reference(inputs), rtol=1e-5, atol=1e-5)
    rows = [core["access"]["payload_bytes"] for core in result.account["cores"]]
    assert sum(rows) == result.account["access"]["payload_bytes"]
    assert max(rows) - min(rows) <= 4 * 5 * 32
