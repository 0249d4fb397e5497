"""Options that say when they have no effect: what a user chose, and no kernel of a program has read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

from explorer.compiler.decisions import Replay, Value, printed_value
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.module import Module
from explorer.compiler.options import Options
from explorer.compiler.report import Report

CHUNK_OPTIONS = tuple(field.name for field in fields(Options) if field.name.startswith("inspect_"))
ROWS = ("block_columns", "preload", "balance")
"""Options of sums over segments whose rows are shared out."""
WHY_NOT = {
    "encoding": "no kernel reads which row, destination or list an element is of",
    "split": "no sum over segments, such as a matrix's rows or a node's edges, is shared out among lanes",
    "chunk": "no sum over segments is split by nonzeros",
    "lanes": "no sum over segments and no dot product of rows is shared out among lanes",
    "lane_vectors": "no sum over segments and no dot product of rows is shared out among lanes",
    "block_rows": "no sum over segments is split by rows (split=rows), and no dot product is an edge's",
    "popular": "no sum over segments is split by nonzeros, and no dot product is an edge's",
} | dict.fromkeys(ROWS, "no sum over segments is split by rows (split=rows)")
"""Why an option that nothing has heeded has no effect."""
NEEDS = {
    ("warps", "run"): "no batch is known that is small, of a loop that ends an iteration",
    ("rows", "sharing"): "no groups of a warp's lanes can share its rows",
}
"""By strategy and decision why nobody asked for what the strategy has of some nests alone."""


def say_unread(program: loops.Kernel | Module, kernels: Sequence[ScheduledKernel], report: Report) -> None:
    """That options have no effect on what was made of a program, where they have none."""
    name = program.name
    for key, value, reason in unasked(report):
        report.refused(f"{key}={printed_value(value)}: nothing, for {reason}")
    templates = {kernel.template for kernel in kernels}
    precision = report.options.precision
    chosen = _chosen(report, CHUNK_OPTIONS)
    chosen += ["inspect=chunks"] if report.options.inspect == "chunks" else []
    if chosen and "chunks" not in templates:
        report.refused(f"{name}: {', '.join(chosen)}: nothing, for {_why_no_chunks(report.options)}")
    if precision != "float32" and "gemm" not in templates:
        report.refused(f"{name}: multiply in {precision}: nothing, for no product of rows and matrices is by tiles")
    by_reason: dict[str, list[str]] = {}
    for option in _chosen(report, WHY_NOT):
        if option not in report.heeded:
            by_reason.setdefault(WHY_NOT[option], []).append(option)
    for reason, options in by_reason.items():
        report.refused(f"{name}: {', '.join(options)}: nothing, for {reason}")


def unasked(report: Report) -> Iterator[tuple[str, Value, str]]:
    """What a schedule that is replayed has and nobody asked for, and why."""
    if not isinstance(report.policy, Replay):
        return
    asked = {choice.key for choice in report.choices}
    strategies = {c.kernel: c.value for c in report.choices if c.decision.name == "strategy"}
    for key, value in report.policy.schedule.items():
        kernel, _, name = key.rpartition(".")
        if key not in asked:
            strategy = strategies.get(kernel)
            known = f"{kernel} is scheduled by {strategy}" if strategy else f"no {kernel} is made"
            yield key, value, NEEDS.get((str(strategy), name), known)


def _why_no_chunks(options: Options) -> str:
    """Why nothing is inspected by chunks, which are of a batch's triples; what a score's own nests lack is said of
    each."""
    if options.inspect != "chunks":
        return "inspect is not chunks"
    return "no chunks are made of it, which are of a batch of triples"


def _chosen(report: Report, options: Sequence[str] | dict[str, str]) -> list[str]:
    """Those of the options that are not as usual."""
    usual = Options()
    return [name for name in options if getattr(report.options, name) != getattr(usual, name)]
