"""Layers that several tests compile."""

from pathlib import Path

from tests.compiler.models import compiled

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "rgnn"
LAYERS = sorted(FOLDER.glob("*.emb"))
SETTINGS = [{"reorder": r, "compact": c} for r in (False, True) for c in (False, True)]

FEW_PAIRS = {"nodes": 14_541, "edges": 620_232, "etypes": 474, "src_pairs": 161_260, "dst_pairs": 9_000}
"""A graph of so few pairs of destination and type that sums come first even where a softmax weighs them."""


def layer(name, counts=None, **options):
    """The compilation of an example."""
    return compiled((FOLDER / f"{name}.emb").read_text(), counts=counts, options=options)


def report(compilation, name, stage="graph"):
    """What a pass said of a compilation."""
    return next(report for report in compilation.stages[stage].passes if report.name == name)


def values_on(compilation, index_set):
    """The operators' names of the graph's values on a set."""
    graph = compilation.stages["graph"].program
    return [value for value in graph.values if value.index_set == index_set]


def buffers(compilation):
    """All arrays that the kernels write, by name, with their extents."""
    programs = compilation.stages["loops"].program.programs
    return {buffer.name: buffer.extents for p in programs for buffer in p.buffers if buffer.kind == "output"}
