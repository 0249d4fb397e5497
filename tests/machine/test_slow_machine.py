"""The simulator against a machine that looks at every nanosecond: the same times, to the last."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.compiler.ir.access import dlc
from explorer.machine.assembly.costs import CLASSES
from explorer.machine.parameters import MachineParameters
from explorer.machine.simulation import Simulation
from tests.machine import programs as make
from tests.machine.slow_machine import SlowMachine, Step, Timing

ROWS = 40
STRIDE = 7


def rows(count: int, length: int, width: int, buffered: bool, near: bool) -> dlc.DlcProgram:
    """Loads every seventh row of a table of rows of whole lines, and squares what it pops."""
    pitch = -(-length // 16) * 16
    square, popped = make.compute("u", "mul", "x", "x"), make.vector_pop("x", width)
    if buffered:
        event: dlc.Event = "end"
        body = [make.vector_each("e", "L", width, popped, square)]
    else:
        event, body = "ite", [popped, square]
    return make.program(
        {"L": length},
        [make.buffer("table", "param", "words"), make.buffer("out", "output", 1)],
        [
            make.loop("b_tr", None, 0, count),
            make.alu("b7", "b_tr", "mul", "b_tr.ite", STRIDE),
            make.alu("row", "b_tr", "mod", "b7", ROWS),
            make.alu("a", "b_tr", "mul", "row", pitch),
            make.loop("e_tr", "b_tr", 0, "L", width),
            make.alu("q", "e_tr", "add", "a", "e_tr.ite"),
            replace(make.vector_mem("v", "e_tr", "table", "q", width), level="L2" if near else ""),
            make.push("v", "e_tr", "ite"),
            make.callback("e_tr", event, "token"),
        ],
        make.case("token", *body),
    )


def steps(count: int, length: int, width: int, buffered: bool) -> list[Step]:
    pitch = -(-length // 16) * 16
    return [
        Step(
            line=(row * STRIDE % ROWS * pitch + first) // 16,
            words=width,
            first=first == 0,
            token=not buffered or first + width >= length,
            turns=1 if buffered else int(first == 0 and row > 0),
        )
        for row in range(count)
        for first in range(0, length, width)
    ]


small = st.integers(1, 6)


@settings(max_examples=150, deadline=None)
@given(
    count=st.integers(1, 12),
    length=st.sampled_from([1, 3, 16, 17, 33, 48]),
    shape=st.sampled_from([(1, False), (1, True), (4, True), (16, True)]),
    start=st.integers(0, 30),
    request=st.integers(1, 3),
    latencies=st.tuples(st.integers(0, 9), st.integers(0, 20), st.integers(0, 60)),
    line=small,
    storage=small,
    mshrs=small,
    spare=st.integers(0, 40),
    tokens=small,
    costs=st.tuples(st.integers(0, 4), st.integers(0, 30), st.integers(0, 5), st.integers(0, 9)),
    ways=st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from([1, 4, 8])),
    near=st.booleans(),
)
def test_times_are_those_of_a_machine_that_looks_every_nanosecond(
    count: int,
    length: int,
    shape: tuple[int, bool],
    start: int,
    request: int,
    latencies: tuple[int, int, int],
    line: int,
    storage: int,
    mshrs: int,
    spare: int,
    tokens: int,
    costs: tuple[int, int, int, int],
    ways: tuple[int, int],
    near: bool,
) -> None:
    width, buffered = shape
    l2, llc, hbm = latencies
    token, turn, pop, work = costs
    work = 2 * pop if width > 1 else work
    words = (-(-length // width) * width if buffered else width) + spare
    timing = Timing(
        start=start, request=request, l2=l2, llc=llc, hbm=hbm, line=line, storage=storage, mshrs=mshrs, words=words,
        tokens=tokens, token=token, turn=turn, pop=pop, work=work, l2_shape=(16 // ways[0], ways[0]),
        llc_shape=(32 // ways[1], ways[1]), near=near,
    )  # fmt: skip
    slow = SlowMachine(steps(count, length, width, buffered), timing)
    slow.run()
    free = {f"{name}_cycles": 0.0 for name in CLASSES}
    queue = {"token_cycles": float(token), "traversal_cycles": float(turn)}
    parameters = MachineParameters(
        core_ghz=1.0, access_ghz=1.0, start_cycles=float(start), request_cycles=float(request), l2_ns=float(l2),
        llc_ns=float(llc), hbm_ns=float(hbm), hbm_gbs=64.0 / line, storage_bytes=64 * storage, mshrs=mshrs,
        queue_bytes=4 * words, control_tokens=tokens, marshal_bytes=4.0, l2_kib=1, l2_ways=ways[0], llc_kib=2,
        llc_ways=ways[1],
        **free | queue | core_costs(width, buffered, pop, work),
    )  # fmt: skip
    program = rows(count, length, width, buffered, near)
    table = np.zeros(ROWS * (-(-length // 16) * 16), np.float32)
    simulation = Simulation(program, {"table": table}, parameters)
    records = simulation.watch(1 << 20)[:-1]
    assert [record["cycle"] for record in records] == slow.pushed
    assert [record["popped"] for record in records] == slow.popped
    account = simulation.account()
    assert account["memory"]["misses"] == slow.misses
    assert slow.most_in_flight <= min(storage, mshrs)
    assert account["queues"]["data"]["peak_bytes"] <= 4 * words


def core_costs(width: int, buffered: bool, pop: int, work: int) -> dict[str, float]:
    """With which a step takes `pop`, then `work`: a multiplication, and in a buffered record a step of its loop. A
    vector's cost the same as its pop."""
    if width > 1:
        return {"vector_cycles": float(pop)}
    return {"pop_cycles": float(pop), "scalar_cycles": work / 2 if buffered else float(work)}
