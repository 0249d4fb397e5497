"""`gcompile(g)`: the g-SpMM and g-SDDMM of another library's graph, by compiled kernels (G-Sparse §III-A).

A graph's edges are encoded once. A kernel is compiled when an operator is first called for rows of a shape.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Any

from explorer.runtime.compiling import compile

REDUCTIONS = ("sum", "mean", "max", "min")
SETS = {"u": "col", "e": "nonzero", "v": "row"}
"""What each letter of a message has rows of: an edge's source, the edge itself, its target."""
FUNCTIONS = {"add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "div": "{} / {}"}
COPIES = ("copy_u", "copy_e")
BINARY = tuple(f"{a}_{function}_{b}" for function in (*FUNCTIONS, "dot") for a, b in permutations(SETS, 2))
MESSAGES = (*COPIES, *BINARY)
"""DGL's message functions, by its names."""

Shape = tuple[int, ...]
"""Of what one node or edge has."""

SPMM = """{dims}
op SpMM(A: csr[row, col]):
    param {tensors}
    for i in A.rows():
        i["y"] = {reduce}({term} for j in A.row(i))
    return i["y"]
"""
SDDMM = """{dims}
op SDDMM(A: csr[row, col]):
    param {tensors}
    for z in A.nonzeros():
        z["y"] = {term}
    return z["y"]
"""


def spmm_text(message: str, reduce: str, shapes: Mapping[str, Shape]) -> str:
    """The model text of an update of all targets, of rows of these shapes by the message's letters: one shape, or one
    the beginning of the other. Raises ValueError."""
    if reduce not in REDUCTIONS:
        raise ValueError(f"reduce is one of {', '.join(REDUCTIONS)}, not {reduce!r}")
    term = _term(message, {"u": "u[j]", "e": "e[j]", "v": "v[i]"}, shapes)
    return SPMM.format(reduce=reduce, term=term, **_declared(shapes))


def sddmm_text(message: str, shapes: Mapping[str, Shape]) -> str:
    """The model text of what each edge gets; see `spmm_text`."""
    term = _term(message, {"u": "u[z.col]", "e": "e[z]", "v": "v[z.row]"}, shapes)
    return SDDMM.format(term=term, **_declared(shapes))


def letters_of(message: str) -> tuple[str, ...]:
    """The letters of what a message reads, in its order: `u_sub_v` has u and v. Raises ValueError."""
    if message not in MESSAGES:
        known = (
            f"{', '.join(COPIES)}, or two of u, e and v with {', '.join((*FUNCTIONS, 'dot'))} between, as in u_mul_e"
        )
        raise ValueError(f"a message is {known}, not {message!r}")
    return tuple(re.findall(r"\b[uev]\b", message.replace("_", " ")))


def _term(message: str, rows: Mapping[str, str], shapes: Mapping[str, Shape]) -> str:
    operands = [rows[letter] for letter in letters_of(message)]
    if message in COPIES:
        return operands[0]
    function = message[2:-2]
    if function != "dot":
        return FUNCTIONS[function].format(*operands)
    product = FUNCTIONS["mul"].format(*operands)
    return f"sum({product}, axis=-1)" if any(shapes.values()) else product


def _declared(shapes: Mapping[str, Shape]) -> dict[str, str]:
    """What a text says of sizes and tensors. Extents at one place have one name, so that a shape is a beginning."""
    longest = max(shapes.values(), key=len)
    tensors = (
        f"{letter}[{', '.join([SETS[letter], *(f'D{place}' for place in range(len(shape)))])}]"
        for letter, shape in shapes.items()
    )
    dims = ", ".join(f"D{place} = {size}" for place, size in enumerate(longest))
    return {"dims": f"dim {dims}\n" if dims else "", "tensors": ", ".join(tensors)}


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
    """Operators on tensors of a graph's nodes and edges, where these lie, with autograd. Edges are in its own order.

    A message is one of DGL's functions by its name: `copy_u`, `copy_e`, or two of u (an edge's source), e (the edge)
    and v (its target) with add, sub, mul, div or dot between, as in `u_mul_e`. What nodes and edges have is of any
    shape, and two shapes are broadcast as NumPy's; a number each, [nodes] or [edges], goes with any. dot is the sum of
    products along the last dimension, which it leaves out."""

    source: Any  # [edges], of int32 or int64
    target: Any
    sources: int
    targets: int
    _modules: dict[str, Any] = field(default_factory=dict)

    def update_all(self, message: str, reduce: str = "sum", **rows: Any) -> Any:
        """g-SpMM: for each target, the `reduce` over its in-edges of their messages; 0 where no edge leads. `rows` are
        what the message reads, u [sources, ...], e [edges, ...], v [targets, ...]. Raises ValueError."""
        rows = _met(message, rows)
        return self._module(spmm_text(message, reduce, _shapes(rows)))(self._structure, **rows)

    def apply_edges(self, message: str, **rows: Any) -> Any:
        """g-SDDMM: for each edge its message, [edges, ...]. Raises ValueError."""
        rows = _met(message, rows)
        return self._module(sddmm_text(message, _shapes(rows)))(self._structure, **rows)

    def spmm(self, x: Any, weight: Any = None, reduce: str = "sum") -> Any:
        """`update_all` by the sources' rows x, times the weight [edges] where there is one."""
        if weight is None:
            return self.update_all("copy_u", reduce, u=x)
        return self.update_all("u_mul_e", reduce, u=x, e=weight)

    def sddmm(self, x: Any, y: Any, function: str = "dot") -> Any:
        """`apply_edges` by a function of the source's row of x and the target's of y."""
        return self.apply_edges(f"u_{function}_v", u=x, v=y)

    @cached_property
    def _structure(self) -> Any:
        """The edges by target, encoded for all operators: they have the same sets."""
        given: Mapping[str, Any] = {"row": self.target, "col": self.source}
        module = self._module(spmm_text("copy_u", "sum", {"u": ()}))
        return module.prepare(**given, num_rows=self.targets, num_cols=self.sources)

    def _module(self, text: str) -> Any:
        if text not in self._modules:
            self._modules[text] = compile(text, on_demand=True).torch()
        return self._modules[text]


def _shapes(rows: Mapping[str, Any]) -> dict[str, Shape]:
    return {letter: tuple(tensor.shape[1:]) for letter, tensor in rows.items()}


def _met(message: str, rows: Mapping[str, Any]) -> dict[str, Any]:
    """What a message reads, each [n, ...], with shapes that a text has words for: one that broadcasts otherwise than
    from a beginning is expanded, which takes memory. Raises ValueError."""
    from numpy import broadcast_shapes  # which the import of the explorer does without

    letters = letters_of(message)
    if set(rows) != set(letters) or not all(getattr(tensor, "ndim", 0) for tensor in rows.values()):
        raise ValueError(f"{message} takes {' and '.join(letters)}, as rows [nodes, ...] or [edges, ...]")
    shapes = _shapes({letter: rows[letter] for letter in letters})
    try:
        wanted: Shape = broadcast_shapes(*shapes.values())
    except ValueError:
        told = " and ".join(f"{letter} [{', '.join(map(str, shape))}]" for letter, shape in shapes.items())
        raise ValueError(f"{message} takes shapes that broadcast, not {told}") from None
    return {letter: _beginning(rows[letter], shape, wanted) for letter, shape in shapes.items()}


def _beginning(tensor: Any, shape: Shape, wanted: Shape) -> Any:
    """The rows in a shape that is the beginning of the one that is wanted."""
    whole = (1,) * (len(wanted) - len(shape)) + shape
    first = len(whole)
    while whole != wanted and first and whole[first - 1] == 1:
        first -= 1
    rows = tensor.reshape(len(tensor), *whole)
    if whole[:first] == wanted[:first]:
        return rows.reshape(len(tensor), *whole[:first])
    return rows.expand(len(tensor), *wanted)
