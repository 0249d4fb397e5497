"""Cuts a nest behind what chunks of edges can do of it: in a backward pass, a score's product, what follows from it,
and the product with the transpose are one nest, of which each part fits by itself."""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.node import Names
from explorer.compiler.ir.statements import pure
from explorer.compiler.report import Report
from explorer.compiler.schedule.chunks.plan import Unfit, of_triples, plan_of
from explorer.compiler.schedule.chunks.strategy import schedule_chunks
from explorer.compiler.schedule.distribute.products.split_products import cut
from explorer.compiler.schedule.edit.nests import only_loop


def chunks_first(kernel: loops.Kernel, names: Names, report: Report) -> tuple[ScheduledKernel | loops.Kernel, ...]:
    """The kernel by chunks of a nest, or of the longest part that it can begin with, and the nest of what follows;
    none, with the reason reported, where no part fits."""
    part, *rest = _longest(kernel, names) or (kernel,)
    scheduled = schedule_chunks(part, names, report)
    return (*scheduled, *rest) if scheduled else ()


def _longest(kernel: loops.Kernel, names: Names) -> tuple[loops.Kernel, ...]:
    """The longest part of a nest that fits, and what follows; none where all of it does, or nothing."""
    rows = only_loop(kernel)
    if rows is None or not of_triples(kernel) or _fits(kernel):
        return ()
    for at in range(len(rows.body) - 1, 0, -1):
        if pure(rows.body[at - 1]):
            continue  # the cut before it is as good
        parts = cut(kernel, rows, rows.body[:at], rows.body[at:], names)
        if parts is not None and _fits(parts[0]):
            first, second = parts
            return replace(first, name=kernel.name), replace(second, name=names.new(f"{kernel.name}_rest"))
    return ()


def _fits(kernel: loops.Kernel) -> bool:
    try:
        plan_of(kernel)
    except Unfit:
        return False
    return True
