"""`gcompile(g)`: the g-SpMM and g-SDDMM of another library's graph, by compiled kernels (G-Sparse §III-A).

A graph's edges are encoded once. A kernel is compiled when an operator is first called for rows of a length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from explorer.runtime.compiling import compile

REDUCTIONS = ("sum", "mean", "max", "min")
ON_EDGES = {"dot": "dot({}, {})", "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "div": "{} / {}"}
"""By g-SDDMM's operator, what an edge has of its source's row and its target's."""

SPMM = """dim D = {size}

op SpMM(A: csr[row, col]):
    param X[col, D]
    for i in A.rows():
        i["y"] = {reduce}({term} in A.row(i))
    return i["y"]
"""
SDDMM = """dim D = {size}

op SDDMM(A: csr[row, col]):
    param X[col, D]
    param Y[row, D]
    for z in A.nonzeros():
        z["y"] = {term}
    return z["y"]
"""


def gcompile(graph: Any) -> GraphKernels:
    """The operators of a DGL-style graph (`edges()`, `num_src_nodes()`, `num_dst_nodes()`) or a PyG-style one
    (`edge_index` [2, edges], `num_nodes`). Raises TypeError for what is neither."""
    if hasattr(graph, "edge_index"):
        source, target = graph.edge_index
        return GraphKernels(source, target, int(graph.num_nodes), int(graph.num_nodes))
    if callable(getattr(graph, "edges", None)) and hasattr(graph, "num_src_nodes"):
        source, target = graph.edges()
        return GraphKernels(source, target, int(graph.num_src_nodes()), int(graph.num_dst_nodes()))
    raise TypeError(f"a {type(graph).__name__} has neither edge_index nor edges() and num_src_nodes()")


@dataclass(eq=False)
class GraphKernels:
    """Operators on tensors of a graph's nodes and edges, where these lie, with autograd. Edges are in its own order."""

    source: Any  # [edges], of int32 or int64
    target: Any
    sources: int
    targets: int
    _modules: dict[str, Any] = field(default_factory=dict)

    def spmm(self, x: Any, weight: Any = None, reduce: str = "sum") -> Any:
        """For each target, the `reduce` over its in-edges of the source's row of x [sources, D], times the weight
        [edges] where there is one; 0 where no edge leads. Raises ValueError."""
        if reduce not in REDUCTIONS:
            raise ValueError(f"reduce is one of {', '.join(REDUCTIONS)}, not {reduce!r}")
        term = "X[j] for j" if weight is None else "a * X[j] for j, a"
        module = self._module(SPMM.format(size=_length(x), reduce=reduce, term=term))
        return module(self._structure, X=x, **({} if weight is None else {"value": weight}))

    def sddmm(self, x: Any, y: Any, function: str = "dot") -> Any:
        """For each edge, the function of its source's row of x [sources, D] and its target's of y [targets, D]: dot
        gives [edges], the others [edges, D]. Raises ValueError."""
        if function not in ON_EDGES:
            raise ValueError(f"the function is one of {', '.join(ON_EDGES)}, not {function!r}")
        term = ON_EDGES[function].format("X[z.col]", "Y[z.row]")
        return self._module(SDDMM.format(size=_length(x), term=term))(self._structure, X=x, Y=y)

    @cached_property
    def _structure(self) -> Any:
        """The edges by target, encoded for all operators: they have the same sets."""
        module = self._module(SPMM.format(size=1, reduce="sum", term="X[j] for j"))
        given: Mapping[str, Any] = {"row": self.target, "col": self.source}
        return module.prepare(**given, num_rows=self.targets, num_cols=self.sources)

    def _module(self, text: str) -> Any:
        if text not in self._modules:
            self._modules[text] = compile(text, on_demand=True).torch()
        return self._modules[text]


def _length(x: Any) -> int:
    """D of a tensor of rows [nodes, D]."""
    if getattr(x, "ndim", 0) != 2:
        raise ValueError("operators take rows [nodes, D]")
    return int(x.shape[1])
