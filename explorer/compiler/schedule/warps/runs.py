"""Few triples with many candidates each: runs of a triple's candidates, for warps of their own.

A warp that has a triple and all of its candidates is one of as many warps as there are triples: 64 of them, four a
block, are 16 blocks for 132 multiprocessors. Where a batch is known to be so small, the loop inside an iteration is
cut into runs, each an iteration by itself, and what is the triple's own is computed again for each run:

    parallel for b in 0..B                      parallel for p in 0..16 * B
      row q[D] = ...                              b = p / 16; first = p % 16 * 4
      for j in 0..64                      ->      row q[D] = ...
        out[b, j] = f(q, t[b, j])                 for u in 0..4 { j = first + u; out[b, j] = f(q, t[b, j]) }

What is made of all of a triple's candidates, such as the sum of a loss, is left to a kernel of its own (`apart`).
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.counts import BATCH_EXTENT
from explorer.compiler.decisions import Decision
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Count
from explorer.compiler.ir.node import Names
from explorer.compiler.ir.statements import alive
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.nests import Body, only_loop
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.fitting import nearest
from explorer.compiler.schedule.lanes.mapping import LANES, Nest
from explorer.compiler.schedule.warps.apart import Apart, apart

RUN = Decision(
    name="run",
    domain=(0, 1, 2, 4, 8, 16, 32),
    why="iterations of a loop inside, such as candidates, that a warp has where those of the batch keep few warps busy:"
    " each run computes again what is the triple's own; 0 for all of them",
    source="the most that leave twice as many warps as keep all multiprocessors busy, measured on an H200",
)
FULL = 2
"""With lanes that share a warp: TransE's 1,024 triples with 64 candidates of 32 numbers take 6.4 us in runs of 2, which
are 8,192 warps, and 12.4 in runs of 16; of 512 25.3 in runs of 8 and 24.4 of 16, but TransF's 28 and 30 (H200)."""
WORTH_TWO, LONG = 4, 16
"""How many times a batch must fit into the warps that keep a GPU busy, and how many iterations there must be, for a
nest to be two kernels: a warp that is alone takes some 0.6 us an iteration (64 of them 0.044 ms, measured on an H200),
and another kernel a few."""


@dataclass(frozen=True)
class InRuns:
    """The kernel, how many runs all iterations have, by name, and what is `left` of the nest behind it, if anything."""

    kernel: loops.Kernel
    count: tuple[str, Count]
    left: loops.Kernel | None


def in_runs(kernel: loops.Kernel, names: Names, report: Report) -> InRuns | None:
    """The kernel with an iteration for each run; None where the batch is not known to be small, or no loop of its
    iterations can be cut."""
    loop, batch = only_loop(kernel), report.counts.batch
    if batch is None or loop is None or loop.extent != BATCH_EXTENT or BATCH_EXTENT in dict(kernel.sizes):
        return None
    if batch >= _busy(kernel, loop, report):
        return None
    named = names.mark()
    found = apart(kernel, loop, names)
    run = _chosen(kernel, loop, found, report) if found is not None else 0
    if found is None or not run:
        names.back_to(named)
        return None
    runs, last = _size(found) // run, _last(found.kernel)
    few = f"for a batch of {batch:,} is few warps"
    report.did(f"{found.kernel.name}: {last.variable} in {runs} runs of {run}, {few}")
    return _cut(found, runs, run, names)


def _busy(kernel: loops.Kernel, loop: loops.For, report: Report) -> int:
    """Iterations that keep all multiprocessors busy, of which a warp has as many as lanes have room for."""
    lanes = min(LANES, 1 << (Nest(kernel, loop).vectors[1] - 1).bit_length())
    return report.target.busy_warps * (LANES // lanes)


def _chosen(kernel: loops.Kernel, loop: loops.For, found: Apart, report: Report) -> int:
    """How many iterations a run has; 0 for all, and where that is not asked."""
    size, busy, batch = _size(found), _busy(kernel, loop, report), report.counts.batch or 0
    if found.left is not None and (batch * WORTH_TWO > busy or size < LONG):
        return 0
    fitting = tuple(run for run in map(int, RUN.domain) if not run or (run < size and size % run == 0))
    if len(fitting) == 1:
        return 0
    usual = max((run for run in fitting if run and batch * (size // run) >= FULL * busy), default=fitting[1])
    return nearest(kernel.name, RUN, usual, fitting, report, f"{_last(found.kernel).variable} has {size} iterations")


def _size(found: Apart) -> int:
    """How many iterations the long loop has."""
    extent = _last(found.kernel).extent
    return int(dict(found.kernel.sizes).get(str(extent), extent))


def _last(kernel: loops.Kernel) -> loops.For:
    """The loop that ends an iteration."""
    loop = only_loop(kernel)
    last = loop.body[-1] if loop is not None else None
    assert isinstance(last, loops.For)
    return last


def _cut(found: Apart, runs: int, run: int, names: Names) -> InRuns:
    """The kernel with its last loop cut into so many runs of so many iterations."""
    kernel, last, loop = found.kernel, _last(found.kernel), only_loop(found.kernel)
    assert loop is not None
    write, count = Writer(kernel, last.origin), names.new(f"{kernel.name}_runs")
    each = write.names.new("p")
    before = (write.define(loop.variable, "div", each, runs),)
    after = _run(last, each, runs, run, write)
    cut = replace(loop, variable=each, extent=count, body=alive((*before, *loop.body[:-1], *after)))
    return InRuns(replace(kernel, body=(cut,)), (count, Count(((BATCH_EXTENT, 1),), runs)), found.left)


def _run(last: loops.For, each: str, runs: int, run: int, write: Writer) -> Body:
    """The iterations of one run; a run of one is no loop."""
    if run == 1:
        return write.define(last.variable, "mod", each, runs), *last.body
    number = write.index("part", "mod", each, runs)
    first, step = write.index("first", "mul", number.result, run), write.names.new("u")
    at = write.define(last.variable, "add", first.result, step)
    return number, first, replace(last, variable=step, extent=run, body=(at, *last.body))
