"""What each operation of a compilation is predicted to take of the GPU that it is compiled for.

The bytes and operations of all add up to those of the whole graph, for every value is one operation's own, or of none
but the pass that made it. Times are those of each alone, one after another: what moves bytes while another computes is
no shorter for it, so their sum is an upper bound of what the same figures give for the whole at once."""

from __future__ import annotations

from explorer.compiler.compilation import Compilation
from explorer.compiler.effects.figures import Predicted, own_values, predicted, rows_by_set
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.node import Span
from explorer.compiler.passes.stored.storage import stored_values
from explorer.compiler.target import TARGETS, GpuTarget


@dataclass(frozen=True)
class Costs:
    """What each operation takes, by its place in the text; `rest` are the values that are no operation's own."""

    operations: dict[Span, Predicted]
    rest: Predicted

    @property
    def seconds(self) -> float:
        """Of all, one after another."""
        return sum((each.seconds for each in self.operations.values()), self.rest.seconds)


def predicted_costs(compilation: Compilation) -> Costs | None:
    """What all operations take by published figures, of a score for one triple; None where nobody knows its rows."""
    graph, negatives = compilation.stages["graph"].program, compilation.options.negatives
    if not isinstance(graph, Graph):
        return None
    rows = rows_by_set(graph, compilation.rows, negatives.count if negatives else 0)
    if rows is None:
        return None
    stored, target = stored_by_kernels(graph, compilation), target_of(compilation)
    spans = [operation.span for operation in compilation.operations]
    known = set(spans)
    others = [value for value in graph.values if not (value.origin and value.origin[0] in known)]
    return Costs(
        {span: predicted(graph, own_values(graph, span), stored, rows, target) for span in spans},
        predicted(graph, others, stored, rows, target),
    )


def stored_by_kernels(graph: Graph, compilation: Compilation) -> list[str]:
    """The values that kernels store: of a score without a backward pass, which is one nest, the result alone."""
    is_one_nest = isinstance(compilation.stages["loops"].program, Kernel)
    return [graph.result] if is_one_nest else stored_values(graph)


def counted_on(compilation: Compilation) -> str:
    """The same in words."""
    return "one triple" if compilation.family == "score" else compilation.rows.name


def target_of(compilation: Compilation) -> GpuTarget:
    """The GPU that a compilation's kernels are for."""
    return TARGETS[compilation.options.arch]


def device_of(target: GpuTarget) -> str:
    """Which published figures a prediction rests on."""
    return f"{target.arch}: {target.memory_gbs:,} GB/s, {target.float32_gflops / 1000:g} TFLOP/s in float32"
