"""Few triples with many candidates each: runs of a triple's candidates, for warps of their own.

A warp that has a triple and all of its candidates is one of as many warps as there are triples: 64 of them, four a
block, are 16 blocks for 132 multiprocessors. Where a batch is known to be so small, the loop inside an iteration is
cut into runs, each an iteration by itself, and what is the triple's own is computed again for each run:

    parallel for b in 0..B                      parallel for p in 0..16 * B
      row q[D] = ...                              b = p / 16; first = p % 16 * 4
      for j in 0..64                      ->      row q[D] = ...
        out[b, j] = f(q, t[b, j])                 for u in 0..4 { j = first + u; out[b, j] = f(q, t[b, j]) }

Iterations that put anything together, such as the sum of a loss, stay one warp's.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.counts import BATCH_EXTENT
from explorer.compiler.decisions import Decision
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Count
from explorer.compiler.ir.node import Names, walk
from explorer.compiler.ir.statements import alive, names_read, written_names
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.nests import Body, only_loop, static_loop
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.fitting import nearest

RUN = Decision(
    name="run",
    domain=(0, 1, 2, 4, 8, 16, 32),
    why="iterations of a loop inside, such as candidates, that a warp has where those of the batch keep few warps busy:"
    " each run computes again what is the triple's own; 0 for all of them",
    source="the most that keep all multiprocessors busy",
)


@dataclass(frozen=True)
class InRuns:
    """The kernel, and how many runs all iterations have, by name."""

    kernel: loops.Kernel
    count: tuple[str, Count]


def in_runs(kernel: loops.Kernel, names: Names, report: Report) -> InRuns | None:
    """The kernel with an iteration for each run; None where the batch is not known to be small, or no loop of its
    iterations can be cut."""
    loop, batch = only_loop(kernel), report.counts.batch
    if loop is None or batch is None or loop.extent != BATCH_EXTENT or batch >= report.target.busy_warps:
        return None
    last = loop.body[-1]
    if not isinstance(last, loops.For) or not _is_cuttable(kernel, loop, last):
        return None
    size = int(dict(kernel.sizes).get(str(last.extent), last.extent))
    fitting = tuple(run for run in map(int, RUN.domain) if not run or (run < size and size % run == 0))
    if len(fitting) == 1:
        return None
    busy = [run for run in fitting if run and batch * (size // run) >= report.target.busy_warps]
    usual = max(busy, default=fitting[1])
    run = nearest(kernel.name, RUN, usual, fitting, report, f"{last.variable} has {size} iterations")
    if not run:
        return None
    report.did(f"{kernel.name}: {last.variable} in {size // run} runs of {run}, for a batch of {batch:,} is few warps")
    return _cut(kernel, loop, last, size // run, run, names)


def _is_cuttable(kernel: loops.Kernel, loop: loops.For, last: loops.For) -> bool:
    """Whether the iterations of the loop that ends an iteration are independent, and all that comes before is soon
    computed again."""
    own = loop.body[:-1]
    if not static_loop(kernel, last) or not _holds_loop(last):
        return False
    if any(isinstance(s, loops.For) and (_holds_loop(s) or not static_loop(kernel, s)) for s in own):
        return False
    outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
    inside = {loops.result_of(node) for node in walk(last)}
    if outputs & (written_names(own) | names_read(loop.body)) or not written_names([last]) <= outputs | inside:
        return False
    at = (loop.variable, last.variable)
    writes = [node for node in walk(last) if isinstance(node, (loops.Store, loops.Accumulate))]
    of_outputs = [write for write in writes if write.target in outputs]
    return all(isinstance(write, loops.Store) and write.indices[:2] == at for write in of_outputs)


def _holds_loop(statement: loops.For) -> bool:
    return any(isinstance(node, loops.For) for child in statement.body for node in walk(child))


def _cut(kernel: loops.Kernel, loop: loops.For, last: loops.For, runs: int, run: int, names: Names) -> InRuns:
    """The kernel with its last loop cut into so many runs of so many iterations."""
    write, count = Writer(kernel, last.origin), names.new(f"{kernel.name}_runs")
    each = write.names.new("p")
    before = (write.define(loop.variable, "div", each, runs),)
    after = _run(last, each, runs, run, write)
    cut = replace(loop, variable=each, extent=count, body=alive((*before, *loop.body[:-1], *after)))
    return InRuns(replace(kernel, body=(cut,)), (count, Count(((BATCH_EXTENT, 1),), runs)))


def _run(last: loops.For, each: str, runs: int, run: int, write: Writer) -> Body:
    """The iterations of one run; a run of one is no loop."""
    if run == 1:
        return write.define(last.variable, "mod", each, runs), *last.body
    number = write.index("part", "mod", each, runs)
    first, step = write.index("first", "mul", number.result, run), write.names.new("u")
    at = write.define(last.variable, "add", first.result, step)
    return number, first, replace(last, variable=step, extent=run, body=(at, *last.body))
