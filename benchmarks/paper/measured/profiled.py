"""Figures of the papers that need a profiler: what kernels take of a multiprocessor, and how they use it.

What a kernel takes is counted from the assembler's own figures anywhere; the warps and the instructions per cycle that
it reaches are read off a GPU's counters with Nsight Compute, where there is one and this user may read them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.paper.figure import Published, Row, Table
from benchmarks.paper.measured import counters, on_gpu
from benchmarks.paper.measured import rows as timed_rows
from benchmarks.paper.measured.counters import Case, Counted
from benchmarks.paper.measured.rows import missing
from benchmarks.profiling.counters import (
    DRAM,
    FITS,
    IPC,
    L2,
    REACHED,
    REGISTERS,
    SHARED,
    TIME,
    Kernel,
    by_time,
    total_ms,
)
from benchmarks.profiling.ncu import NoCounters
from explorer.compiler.codegen.resources import occupancy as fitting

GEMM = frozenset({"gemm", "outer_products"})
"""Templates that are Hector's GEMM, which makes weights' gradients too (§4.4); all others are its traversal."""
WORD = 4
L1 = "l1tex__throughput.avg.pct_of_peak_sustained_active"
PER_THREAD = ("registers, B a thread", "shared memory, B a thread")
FITTING, ACHIEVED = "theoretical occupancy, %", "achieved occupancy, %"
PUBLISHED_BYTES = dict(zip(PER_THREAD, (160.0, 36.0), strict=True))
PUBLISHED_OCCUPANCY = (75.0, 93.0)
"""cuKE's §VII-B: at most so many bytes a thread, and warps by Nsight over all its kernels, on an RTX 3090."""
OF_MACHINES = (
    "An RTX 3090's multiprocessor has 65,536 registers for 48 warps, an H200's for 64, so the same kernel fills less of"
    " it: all 64 warps fit up to 32 registers (128 B) a thread."
)
THROUGHPUTS = {"DRAM, %": DRAM, "L2, %": L2, "L1, %": L1}
IPC_COLUMNS = ("ms", "IPC", "IPC, GEMM", "IPC, traversal", "GEMM, % of the time", *THROUGHPUTS)


def resources(compilations: Mapping[str, Any]) -> Table:
    """What the kernels of compilations take a thread, and how many warps fit, by the assembler and the rules of CUDA's
    occupancy calculator."""
    rows = []
    for name, compilation in compilations.items():
        code = compilation.stages["ptx"].program
        for launch, taken in zip(code.launches, code.binary.resources, strict=True):
            shared = taken.shared_bytes + launch.shared_bytes
            fits = fitting(taken.arch, launch.threads, taken.registers, shared)
            own = _bytes_of(taken.registers, shared, launch.threads)
            rows.append(Row(f"{name}: {launch.symbol}", {**own, FITTING: 100 * fits.warps / fits.most_warps}))
    note = (
        "Registers and shared memory as ptxas gives them, for compute capability 9.0; the warps that fit over those an"
        f" SM has, at most. {OF_MACHINES} What warps a run reaches is in `achieved`, on a GPU."
    )
    return Table("counted", (*PER_THREAD, FITTING), [_most(rows), *rows], note, "bytes, and %", ",.1f")


def _bytes_of(registers: float, shared: float, threads: int) -> dict[str, float]:
    return dict(zip(PER_THREAD, (WORD * registers, shared / threads), strict=True))


def _most(rows: Sequence[Row]) -> Row:
    """The most bytes of all kernels, beside the most that the paper has."""
    most = {name: max(row.ours[name] for row in rows if name in row.ours) for name in PER_THREAD}
    return Row("all kernels, at most", most, PUBLISHED_BYTES)


def occupancy(cases: Sequence[Case]) -> Table:
    """The same as the device says, and the warps that are active on average, beside cuKE's range."""
    columns = (*PER_THREAD, FITTING, ACHIEVED)

    def made(found: Counted) -> Table:
        rows = [
            Row(f"{name}: {kernel.symbol}", _occupied(kernel), _beside(kernel))
            for name, kernels in found.kernels.items()
            for kernel in kernels
        ]
        note = (
            "Each kernel launched once with cold caches; achieved: the warps that are active on average over an SM's"
            f" active cycles, over those it can have. {OF_MACHINES} {_told(found)}"
        )
        first = [_most(rows)] if rows else []
        return Table("measured", columns, [*first, *rows], note, "bytes, and %", ",.1f", right=not found.failed)

    return _measured(cases, (REACHED, FITS, REGISTERS, *SHARED), columns, made)


def _occupied(kernel: Kernel) -> dict[str, float]:
    values = kernel.values
    shared = sum(values[name] for name in SHARED if name in values)
    ours = {FITTING: values.get(FITS), ACHIEVED: values.get(REACHED)}
    known = {name: value for name, value in ours.items() if value is not None}
    return _bytes_of(values[REGISTERS], shared, kernel.threads) | known


def _beside(kernel: Kernel) -> dict[str, Published]:
    """The paper's range stands beside the kernels of a score; what groups a batch first is none of its."""
    return {} if kernel.template == "inspector" else {ACHIEVED: PUBLISHED_OCCUPANCY}


def instructions(cases: Sequence[Case]) -> Table:
    """Hector's Figure 12: instructions per cycle, forward and backward, by template."""

    def made(found: Counted) -> Table:
        rows = []
        for name, kernels in found.kernels.items():
            for backward, part in ((False, "forward"), (True, "backward")):
                own = [kernel for kernel in kernels if kernel.backward == backward]
                rows += [Row(f"{name}, {part}", _issued(own))] if own else []
        note = (
            "Instructions that a multiprocessor executes per active cycle, and throughputs of memory and caches of the"
            " most that they have, each kernel's weighted by its time; launched once with cold caches. GEMM is"
            " products of tiles and, backward, the outer products that are weights' gradients; traversal is all else."
            " What depends on the graph alone has been made before. The paper's bars, of RGAT on bgs and am, are a"
            f" drawing; its text has 4 as ideal, and less backward. {_told(found)}"
        )
        return Table("measured", IPC_COLUMNS, rows, note, "ms, instructions a cycle, and %", right=not found.failed)

    return _measured(cases, (IPC, TIME, *THROUGHPUTS.values()), IPC_COLUMNS, made)


def _issued(kernels: Sequence[Kernel]) -> dict[str, float]:
    """A row's values, each weighted by the kernels' times; those of no kernels are left out."""
    products = [kernel for kernel in kernels if kernel.template in GEMM]
    others = [kernel for kernel in kernels if kernel.template not in GEMM]
    ms = total_ms(kernels)
    weighted = {"IPC": by_time(kernels, IPC), "IPC, GEMM": by_time(products, IPC)}
    weighted |= {"IPC, traversal": by_time(others, IPC)}
    weighted |= {name: by_time(kernels, metric) for name, metric in THROUGHPUTS.items()}
    found = {name: value for name, value in weighted.items() if value is not None}
    return found | ({"ms": ms, "GEMM, % of the time": 100 * total_ms(products) / ms} if ms else {})


def _measured(
    cases: Sequence[Case], metrics: Sequence[str], columns: tuple[str, ...], made: Callable[[Counted], Table]
) -> Table:
    """The table of what is counted; one without rows that says why where counters cannot be read."""
    on_gpu.give_back()
    try:
        found = counters.counted(cases, metrics, timed_rows.SECONDS)
    except NoCounters as error:
        return Table("measured", columns, [], f"Not measured: {error}")
    return made(found)


def _told(found: Counted) -> str:
    """On what it was measured, and what was not."""
    return " ".join([f"Measured on {found.on}.", *missing(found.late, found.failed)])
