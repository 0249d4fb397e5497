"""What a graph costs: counted work and stored rows, for the reports of the passes that trade them."""

from __future__ import annotations

from explorer.compiler.counts import Counts
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.set_maps import total_work
from explorer.compiler.ir.work import elements
from explorer.compiler.passes.stored.storage import stored_values
from explorer.compiler.report import Report

FLOAT_BYTES = 4


@dataclass(frozen=True)
class Cost:
    """Floating-point operations of all values; bytes and rows of those stored between kernels."""

    flop: int
    bytes: int
    rows: int

    def __str__(self) -> str:
        return f"{_short(self.flop)}FLOP, {_short(self.bytes)}B stored in {_short(self.rows)}rows"


def cost_of(graph: Graph, counts: Counts) -> Cost:
    """The cost of a graph on sets of these sizes."""
    stored = [value for value in map(graph.value, stored_values(graph)) if value.name not in graph.results]
    rows = [counts[value.index_set] for value in stored]
    sizes = [elements(graph, value) for value in stored]
    stored_bytes = sum(FLOAT_BYTES * count * size for count, size in zip(rows, sizes, strict=True))
    return Cost(total_work(graph, counts), stored_bytes, sum(rows))


def report_costs(before: Graph, after: Graph, report: Report) -> None:
    """Notes what a change costs and saves, and on whose sizes that is counted."""
    if before != after:
        counts = report.counts
        report.did(f"counted on {counts.about}: {cost_of(before, counts)} -> {cost_of(after, counts)}")


def _short(number: int) -> str:
    """`45.3 M`, with the space before the unit that follows."""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g} {letter}"
    return f"{number} "
