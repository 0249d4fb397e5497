"""The effect of a pass a kernel: how many rows each has, and its operations and bytes a row, before and after.

Counted as `effect` counts: loops over sizes of the model run to their end, those over a batch, a graph or a list once.
Bytes are those of loads from memory and of stores to it, by what elements are stored in; caches are not thought of.
"""

from __future__ import annotations

from typing import Any

from explorer.compiler.effects.effect import BYTES, Known, Measure, counted, figures_of, programs_of
from explorer.compiler.ir.access import slc
from explorer.compiler.ir.loops import For, Kernel
from explorer.compiler.stages import PassReport, Program

MOST_KERNELS = 60
FIGURES = ("rows", "computations a row", BYTES, "tokens a row", "operands a row")
"""What a row of the table says, of what a program has: a graph of units has none of them."""

Json = dict[str, Any]


def by_kernel(report: PassReport, measure: Measure) -> list[Json]:
    """By kernel that a pass changed its figures before and after, None where it was not there: nothing of a pass that
    changed no figure, or between stages that are not both of loops."""
    if not report.changed:
        return []
    before, after = _figures(report.read, measure), _figures(report.made, measure)
    if not after or not before:
        return []
    changed = [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]
    return [
        {
            "kernel": name,
            "figures": [
                {"what": what, "before": old.get(what), "after": new.get(what)}
                for old, new in [(before.get(name, {}), after.get(name, {}))]
                for what in FIGURES
                if what in old or what in new
            ],
        }
        for name in changed[:MOST_KERNELS]
    ]


def _figures(program: Program, measure: Measure) -> dict[str, Known]:
    """The figures of each program that loops, by its name."""
    loops = [each for each in programs_of(program) if isinstance(each, (Kernel, slc.SlcProgram))]
    return {each.name: _of_kernel(each, measure) for each in loops}


def _of_kernel(kernel: Kernel | slc.SlcProgram, measure: Measure) -> Known:
    found = figures_of(kernel, measure)
    known = {what: found[what] for what in FIGURES if what in found} | {BYTES: counted(kernel)[BYTES]}
    outer = [node for node in kernel.body if isinstance(node, (For, slc.SlcFor))]
    extent = outer[0].extent if len(outer) == 1 else None
    rows = extent if isinstance(extent, int) else measure.counts.of(extent) if isinstance(extent, str) else None
    return known if rows is None else {"rows": rows, **known}
