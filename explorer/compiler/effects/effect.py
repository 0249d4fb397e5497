"""The effect of a pass in figures: the same ones before and after it, those that it changed.

Counted, not measured. Of a graph they are its operations and rows at the data that is compiled for; of what runs, how
often its statements do for one row: loops over sizes of the model run to their end, those over a batch, a graph or a
list, whose length only data tells, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import singledispatch
from math import ceil

from explorer.compiler.codegen.text import Code
from explorer.compiler.counts import Counts
from explorer.compiler.effects.figures import array_bytes, figures, rows_by_set, stored_bytes
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.access import dlc, slc
from explorer.compiler.ir.access.execute import Lanes
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.loops import Accumulate, Compute, For, Kernel, Load, Store
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Extent, Node, once
from explorer.compiler.passes.stored.storage import stored_values
from explorer.compiler.stages import PassReport, Program

Json = dict[str, str | int | None]
Known = dict[str, int]
LOADS, STORES = "loads a row", "stores a row"
"""Of memory: rows and records that a program keeps for itself are none."""
BYTES = "bytes a row"
"""Those of both, by what elements are stored in."""
NESTED = {
    Compute: "computations a row",
    Accumulate: "computations a row",
    slc.AluStream: "computations a row",
    slc.AccStream: "computations a row",
    slc.Callback: "tokens a row",
    slc.ToVal: "operands a row",
}
"""What an execution of a statement is, in programs whose loops contain what they repeat; a vector is one."""
FLAT = {
    dlc.Traversal: "traversals",
    dlc.MemStream: "load streams",
    dlc.PushOp: "pushes",
    dlc.Case: "cases",
}
"""The same of those that are graphs of units: how many there are."""


@dataclass(frozen=True)
class Measure:
    """What graphs are counted on: the rows of sets, and how many negatives a triple of a score has."""

    counts: Counts
    negatives: int


def effect(report: PassReport, measure: Measure) -> list[Json]:
    """What a pass changed: by figure its number before, None where what it read has no such figure, and after. Nothing
    of a pass that changed nothing."""
    if not report.changed:
        return []
    if isinstance(report.read, Graph) and isinstance(report.made, (Kernel, Module)):
        return _fused(report.read, report.made, measure)
    before, after = figures_of(report.read, measure), figures_of(report.made, measure)
    changed = {what: before.get(what) for what in after if before.get(what) != after[what]}
    found = [_entry(what, number, after[what]) for what, number in changed.items()]
    return found or [_rewritten([line.text for line in report.before], [line.text for line in report.after])]


def _entry(what: str, before: int | None, after: int) -> Json:
    return {"what": what, "before": before, "after": after}


def _rewritten(before: Sequence[str], after: Sequence[str]) -> Json:
    """The lines of a text that the one before it has not; where there are none, those in another place."""
    if new := (Counter(after) - Counter(before)).total():
        return _entry("lines rewritten", None, new)
    return _entry("lines moved", None, sum(old != new for old, new in zip(before, after, strict=False)) or 1)


def _fused(graph: Graph, made: Kernel | Module, measure: Measure) -> list[Json]:
    """Of the pass that fuses: into how many nests, and the bytes that its arrays no longer take in memory."""
    nests = _entry("nests", None, len(programs_of(made)))
    rows = rows_by_set(graph, measure.counts, measure.negatives)
    if rows is None:
        return [nests]
    stored = [graph.result] if isinstance(made, Kernel) else stored_values(graph)
    arrays = array_bytes(graph, graph.values, rows)
    return [_entry("bytes in memory", arrays, stored_bytes(graph, graph.values, stored, rows)), nests]


@singledispatch
def figures_of(program: Program, measure: Measure) -> Known:
    """The figures of a program, by what they count."""
    del measure
    found: Counter[str] = Counter()
    programs = programs_of(program)
    for each in programs:
        assert isinstance(each, (Kernel, slc.SlcProgram, dlc.DlcProgram, ScheduledKernel))
        if isinstance(each, (Kernel, slc.SlcProgram)):
            found.update({what: count for what, count in counted(each).items() if what != BYTES})
        elif isinstance(each, dlc.DlcProgram):
            found.update(FLAT[type(node)] for node in (*each.access, *each.execute) if type(node) in FLAT)
    if isinstance(programs[0], ScheduledKernel):
        found["kernels"] = len(programs)
    return dict(found)


@figures_of.register
def _of_graph(graph: Graph, measure: Measure) -> Known:
    found = {"values": len(graph.values)}
    rows = rows_by_set(graph, measure.counts, measure.negatives)
    if rows is None:
        return found
    whole = figures(graph, graph.values, rows)
    return {"FLOP": whole.flop, "rows": whole.rows, **found}


@figures_of.register
def _of_code(code: Code, measure: Measure) -> Known:
    del measure
    return {"lines": len(code.lines), "kernels": len(code.launches)}


def programs_of(program: object) -> tuple[object, ...]:
    """Those of a module, or the one."""
    return program.programs if isinstance(program, Module) else (program,)


@once
def counted(program: Kernel | slc.SlcProgram) -> Counter[str]:
    """How often the statements of a program run, its outermost loops once where they are over no size of the model, and
    the bytes that they move."""
    found: Counter[str] = Counter()
    _count(program.body, 1, {each.name: each.element_bytes for each in program.buffers}, dict(program.sizes), found)
    return +found  # a loop that never runs adds nothing


def _count(body: Iterable[Node], times: int, memory: Known, sizes: Known, found: Counter[str]) -> None:
    """Adds the statements of a body that runs so many times; `memory` has the bytes of an element of each array."""
    for node in body:
        if type(node) in NESTED:
            found[NESTED[type(node)]] += times
        kind, array = _memory_access(node)
        if array in memory:
            found[kind] += times
            found[BYTES] += times * memory[array]
        if isinstance(node, (For, slc.SlcFor)):
            _count(node.body, times * _trips(node, sizes), memory, sizes, found)
        elif isinstance(node, (slc.Callback, Lanes)):
            _count(node.body, times, memory, sizes, found)


def _memory_access(node: Node) -> tuple[str, str]:
    """What an execution of a statement does with an array or a row: LOADS or STORES, and its name; "" for others."""
    match node:
        case Load(buffer=buffer) | slc.MemStream(buffer=buffer):
            return LOADS, buffer
        case Store(target=target) | Accumulate(target=target) | slc.StoreStream(buffer=target):
            return STORES, target
    return "", ""


def _trips(loop: For | slc.SlcFor, sizes: Known) -> int:
    """The iterations of a loop over a size of the model, a vector at a time; 1 of any other."""
    lower, extent = _number(loop.lower, sizes), _number(loop.extent, sizes)
    step = loop.step if isinstance(loop, For) else loop.vector
    return 1 if lower is None or extent is None else ceil((extent - lower) / step)


def _number(extent: Extent, sizes: Known) -> int | None:
    return extent if isinstance(extent, int) else sizes.get(extent)
