"""Which resource kernels exhaust, by what Nsight Compute counts of them; or that they exhaust none, and what they do
instead. Needs nothing but Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.profiling.counters import DRAM, L2, REACHED, TIME, Json, Kernel, by_time, total_ms

OF_PEAK = "avg.pct_of_peak_sustained_elapsed"
RESOURCES: Mapping[str, str] = {
    "memory": DRAM,
    "L2": L2,
    "L1": f"l1tex__throughput.{OF_PEAK}",
    "issue": f"sm__inst_issued.{OF_PEAK}",
    "FMA": f"sm__pipe_fma_cycles_active.{OF_PEAK}",
    "ALU": f"sm__pipe_alu_cycles_active.{OF_PEAK}",
    "LSU": f"sm__inst_executed_pipe_lsu.{OF_PEAK}",
    "XU": f"sm__inst_executed_pipe_xu.{OF_PEAK}",
    "tensor": f"sm__pipe_tensor_cycles_active.{OF_PEAK}",
}
"""What has a peak, in % of what it can sustain over the kernel's whole time, also where multiprocessors are idle: the
device's memory; the caches, L1 with shared memory; schedulers' slots; pipes of multiply-adds, of integers and compares,
of loads and stores, of special functions, and of the tensor cores."""
IN_WORDS = {
    "memory": "the bandwidth of the device's memory",
    "L2": "L2",
    "L1": "L1 and shared memory",
    "issue": "issue slots",
    "FMA": "the pipe of multiply-adds",
    "ALU": "the pipe of integers and compares",
    "LSU": "the pipe of loads and stores",
    "XU": "the pipe of special functions",
    "tensor": "the tensor cores",
}
WAVES, MOVED = "launch__waves_per_multiprocessor", "dram__bytes.sum"
"""Blocks over those that the device holds at once; bytes read from and written to its memory."""
STALLS: Mapping[str, str] = {
    reason: f"smsp__warp_issue_stalled_{name}_per_warp_active.pct"
    for reason, name in (
        ("loads through L1", "long_scoreboard"),
        ("shared memory or special functions", "short_scoreboard"),
        ("room among loads through L1", "lg_throttle"),
        ("room among accesses of shared memory", "mio_throttle"),
        ("a busy pipe", "math_pipe_throttle"),
        ("a barrier", "barrier"),
        ("a fixed latency", "wait"),
        ("instructions", "no_instruction"),
        ("other warps' turns", "not_selected"),
    )
}
"""What warps wait for, in % of the cycles in which they are active."""
METRICS = (TIME, *RESOURCES.values(), REACHED, WAVES, MOVED, *STALLS.values())

BAR = 60.0
"""% of its peak from which on a resource is called exhausted: below it, ncu's own rule says, latency is the limit."""
HIGH = 80.0
"""% from which on that rule has nothing more to gain but by less use of the resource."""
MOST_OF_TIME = 80.0
"""% of a row's time that kernels which exhaust different resources have to take together."""
SHORT_MS, FEW_WAVES, FEW_WARPS = 0.020, 2.0, 50.0
"""Below these a row that exhausts nothing has latency to show for it: times of launches that start-up is a large part
of, waves of blocks that do not hide one another's ends, and % of the warps that multiprocessors have room for."""


@dataclass(frozen=True)
class Verdict:
    """What limits a row. `kind`: `exhausted`, a resource weighed over all its kernels; `in turns`, different resources
    by different kernels; `latency`; or `none`. `resource` is the busiest of the row, `percent` how busy; `None` where
    ncu had no value of any."""

    kind: str
    resource: str | None
    percent: float | None
    words: str


def percent_of(kernels: Sequence[Kernel], metric: str) -> float | None:
    """A percentage weighed by the kernels' times, None where none has it. Where only some have it, the others count as
    0: that may find too little exhausted, and never too much."""
    if not any(metric in kernel.values for kernel in kernels) or not total_ms(kernels):
        return None
    return sum(kernel.values.get(metric, 0.0) * kernel.values.get(TIME, 0.0) for kernel in kernels) / total_ms(kernels)


def busiest(kernels: Sequence[Kernel]) -> tuple[str | None, float | None]:
    """The resource that is nearest to its peak, and its percentage."""
    return _largest({name: percent_of(kernels, metric) for name, metric in RESOURCES.items()})


def _largest(found: Mapping[str, float | None]) -> tuple[str | None, float | None]:
    known = {name: percent for name, percent in found.items() if percent is not None}
    name = max(known, key=known.__getitem__, default=None)
    return name, None if name is None else known[name]


def verdict(kernels: Sequence[Kernel]) -> Verdict:
    """What limits kernels that run one after another."""
    name, percent = busiest(kernels)
    if name is None or percent is None:
        return Verdict("none", None, None, "none is known to be exhausted: ncu has no value of any resource")
    if percent >= BAR:
        words = f"{IN_WORDS[name]}: {percent:.0f} % of what it sustains"
        return Verdict("exhausted", name, percent, f"exhausted: {words}")
    turns = _turns(kernels)
    if sum(share for share, _ in turns.values()) >= MOST_OF_TIME:
        told = [f"{IN_WORDS[each]} {own:.0f} % for {share:.0f} % of the time" for each, (share, own) in turns.items()]
        return Verdict("in turns", name, percent, f"exhausted in turns: {', '.join(told)}")
    signs = latency(kernels)
    nearest = f"{IN_WORDS[name]} is the busiest with {percent:.0f} %"
    words = ": ".join(filter(None, ("none is exhausted", f"latency ({', '.join(signs)})" if signs else "")))
    return Verdict("latency" if signs else "none", name, percent, f"{words}; {nearest}{_waits(kernels)}")


def _turns(kernels: Sequence[Kernel]) -> dict[str, tuple[float, float]]:
    """By the resource that kernels exhaust on their own, their share of the time of all, and how busy it is then."""
    own: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        name, percent = busiest([kernel])
        if name is not None and percent is not None and percent >= BAR:
            own.setdefault(name, []).append(kernel)
    return {
        name: (100 * total_ms(each) / total_ms(kernels), percent_of(each, RESOURCES[name]) or 0.0)
        for name, each in own.items()
    }


def latency(kernels: Sequence[Kernel]) -> list[str]:
    """The signs of latency in words, with their numbers; none where a row is long, of many waves, and full of warps."""
    ms, waves, warps = total_ms(kernels), by_time(kernels, WAVES), by_time(kernels, REACHED)
    found = [f"{1e3 * ms:.1f} us in all"] if ms < SHORT_MS else []
    found += [f"{waves:.1f} waves of blocks"] if waves is not None and waves < FEW_WAVES else []
    found += [f"{warps:.0f} % of the warps"] if warps is not None and warps < FEW_WARPS else []
    return found


def _waits(kernels: Sequence[Kernel]) -> str:
    """What warps wait for most, where ncu says."""
    reason, percent = dominant(kernels)
    return "" if reason is None else f"; warps wait for {reason} in {percent:.0f} % of their cycles"


def dominant(kernels: Sequence[Kernel]) -> tuple[str | None, float | None]:
    """What warps wait for most, and in how many % of their cycles."""
    return _largest({reason: by_time(kernels, metric) for reason, metric in STALLS.items()})


def told(kernels: Sequence[Kernel]) -> Json:
    """A row's or a kernel's figures, those that ncu has: ms one after another, % of resources, of warps and of what
    they wait for, waves, bytes."""
    waits = {reason: by_time(kernels, metric) for reason, metric in STALLS.items()}
    moved = [kernel.values[MOVED] for kernel in kernels if MOVED in kernel.values]
    return {
        "ms": round(total_ms(kernels), 5),
        "of_peak": _known({name: percent_of(kernels, metric) for name, metric in RESOURCES.items()}),
        "stalled_on": _known(waits),
        **_known({"warps": by_time(kernels, REACHED), "waves": by_time(kernels, WAVES)}),
        **({"bytes": int(sum(moved))} if len(moved) == len(kernels) else {}),
    }


def _known(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in values.items() if value is not None}
