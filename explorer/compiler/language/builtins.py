"""The built-in functions by name: their parameters and what kind of operation they are."""

from __future__ import annotations

from dataclasses import dataclass

ELEMENTWISE = ["exp", "log", "log1p", "sqrt", "abs", "sign", "relu", "sigmoid", "tanh", "gelu", "sin", "cos"]
REDUCTIONS = ("sum", "mean")
REDUCTIONS_OR_PAIRS = ("min", "max")
ALIASES = {
    "inner_prod": "dot",
    "dot_prd": "dot",
    "dot_prod": "dot",
    "outer_prod": "outer",
    "leakyrelu": "leaky_relu",
}
"""Hector's spellings (Hector, Listing 1)."""

SETS_OF_FAMILIES = {"score": ("entity", "relation"), "layer": ("node", "edge", "etype", "ntype")}
"""The index sets that a definition's header brings; an op's header names its own."""

RUNNING_KINDS = (*SETS_OF_FAMILIES, "op")

INDEX_SETS = tuple(index_set for sets in SETS_OF_FAMILIES.values() for index_set in sets)

GRAPH_WORD = "graph"
"""What a layer's parameter is; not an index set, but annotated like one."""

DEFAULT_SLOPE = 0.01
LATER = {
    "softmax": 'softmax is a softmax over the edges of a node, in a layer: edge_softmax(g, "att")',
    "edge_softmax": "edge_softmax belongs to layers: a score has no edges",
}

INSTEAD = {
    "cat": "concat(a, b)",
    "clamp": "min(max(x, low), high)",
    "clip": "min(max(x, low), high)",
    "einsum": "a @ b, dot(a, b) or outer(a, b)",
    "len": "sum(1 for i in b), or n.in_degree for the edges into a node",
    "logaddexp": "max(x, y) + log1p(exp(-abs(x - y)))",
    "matmul": "a @ b",
    "mish": "x * tanh(softplus(x))",
    "normalize": "x / norm(x)",
    "permute": "x.T",
    "pow": "x * x, or exp and log",
    "rsqrt": "1 / sqrt(x)",
    "silu": "x * sigmoid(x)",
    "square": "x * x",
    "stack": "concat(a, b), and reshape",
    "transpose": "x.T",
    "view": "reshape(x, extent, ...)",
    "where": "relu, sign, min and max, which choose",
}
"""What the language has for functions that NumPy, PyTorch and Python have."""


@dataclass(frozen=True, slots=True)
class Builtin:
    """`kind` picks the rule in elaborate.py; the last `optional` parameters may be left out; `many`: any number."""

    name: str
    kind: str
    parameters: tuple[str, ...]
    optional: int = 0
    many: bool = False


BUILTINS: dict[str, Builtin] = {
    **{name: Builtin(name, "elementwise", ("x",)) for name in ELEMENTWISE},
    **{name: Builtin(name, "reduce", ("x",)) for name in REDUCTIONS},
    **{name: Builtin(name, "reduce_or_pair", ("x", "y"), optional=1) for name in REDUCTIONS_OR_PAIRS},
    "dot": Builtin("dot", "inner", ("a", "b")),
    "outer": Builtin("outer", "outer", ("a", "b")),
    "linear": Builtin("linear", "linear", ("x", "W")),
    "norm": Builtin("norm", "norm", ("x", "p"), optional=1),
    "leaky_relu": Builtin("leaky_relu", "leaky_relu", ("x", "slope"), optional=1),
    "concat": Builtin("concat", "concat", ("a", "b"), many=True),
    "reshape": Builtin("reshape", "reshape", ("x", "extent"), many=True),
    "repeat": Builtin("repeat", "repeat", ("x", "count")),
}


def builtin(name: str) -> Builtin | None:
    """The function of that name or alias."""
    return BUILTINS.get(ALIASES.get(name, name))


def function_names() -> tuple[str, ...]:
    """All names that a call may use."""
    return (*BUILTINS, *ALIASES)
