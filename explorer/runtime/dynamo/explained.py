"""`explorer.explain`: which graphs of a model the explorer runs, and why the others run as they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from explorer.runtime.dynamo.backend import Compiled, Outcome


@dataclass(frozen=True)
class Explanation:
    """What became of each graph, in their order, and why Dynamo broke the model's code into several."""

    graphs: tuple[Outcome, ...]
    breaks: tuple[str, ...]

    def __str__(self) -> str:
        """All of it, to be read."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        ours = sum(bool(graph.text) for graph in self.graphs)
        yield f"{ours} of {len(self.graphs)} graphs run by the explorer"
        for number, graph in enumerate(self.graphs, 1):
            yield f"graph {number}, {graph.operators} operators: {'a text' if graph.text else 'as it was'}"
            yield from (f"    {line}" for line in (graph.text or graph.reason).splitlines())
        for reason in self.breaks:
            yield f"a graph ends: {reason}"


def explain(function: Any, *args: Any, **named: Any) -> Explanation:
    """See `explorer.explain`."""
    from torch._dynamo.utils import counters

    found: list[Outcome] = []
    before = Counter(counters["graph_break"])
    compiled = torch.compile(function, backend=lambda graph, _: Compiled(graph, found.append), dynamic=True)
    compiled(*args, **named)
    breaks = tuple((Counter(counters["graph_break"]) - before).keys())
    explanation = Explanation(tuple(found), tuple(reason.strip().splitlines()[0] for reason in breaks))
    print(explanation)
    return explanation
