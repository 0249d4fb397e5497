"""The built-in functions by name: their parameters and what kind of operation they are."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.compiler.ir.functions import FUNCTIONS, TABLE, Function

OWN_RULES = ("min", "max", "pow")
ELEMENTWISE = [function.name for function in TABLE if function.about and function.name not in OWN_RULES]
"""The functions of numbers that a text can call."""
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

MATRIX_WORD = "matrix"
"""What a helper of the prelude calls an op's csr or coo."""

LATER = {
    "softmax": 'a softmax over the edges of a node is edge_softmax(g, "att")',
    "edge_softmax": "edge_softmax belongs to layers: a score has no edges",
}

INSTEAD = {
    "cat": "concat(a, b)",
    "detach": "stop_gradient(x)",
    "clamp": "min(max(x, low), high)",
    "clip": "min(max(x, low), high)",
    "len": "sum(1 for i in b), or n.in_degree for the edges into a node",
    "logaddexp": "max(x, y) + log1p(exp(-abs(x - y)))",
    "matmul": "a @ b",
    "mish": "x * tanh(softplus(x))",
    "normalize": "x / norm(x)",
    "permute": "x.T",
    "product": "prod(x)",
    "rsqrt": "1 / sqrt(x)",
    "square": "x ** 2",
    "transpose": "x.T",
    "view": "reshape(x, extent, ...)",
}
"""What the language has for functions that NumPy, PyTorch and Python have."""

FORMULAS = {
    "acos": "atan2(sqrt((1 - x) * (1 + x)), x)",
    "arccos": "atan2(sqrt((1 - x) * (1 + x)), x)",
    "arcsin": "atan2(x, sqrt((1 - x) * (1 + x)))",
    "arctan": "atan2(x, 1)",
    "arctan2": "atan2(x, y)",
    "asin": "atan2(x, sqrt((1 - x) * (1 + x)))",
    "atan": "atan2(x, 1)",
    "cosine_similarity": "dot(x, y) / (norm(x) * norm(y))",
    "cosh": "(exp(x) + exp(-x)) / 2",
    "dot_product": "dot(x, y)",
    "elu": "relu(x) + exp(min(x, 0)) - 1",
    "exp2": "exp(x * log(2))",
    "expm1": "exp(x) - 1",
    "hardtanh": "min(max(x, -1), 1)",
    "heaviside": "sign(relu(x))",
    "inner": "dot(x, y)",
    "ln": "log(x)",
    "log10": "log(x) / log(10)",
    "log2": "log(x) / log(2)",
    "maximum": "max(x, y)",
    "minimum": "min(x, y)",
    "outer_product": "outer(x, y)",
    "prelu": "relu(x) + y * min(x, 0)",
    "reciprocal": "1 / x",
    "relu6": "min(relu(x), 6)",
    "signum": "sign(x)",
    "sinh": "(exp(x) - exp(-x)) / 2",
    "sqr": "x * x",
    "std": "sqrt(mean((x - mean(x)) * (x - mean(x))))",
    "swish": "silu(x)",
    "tan": "sin(x) / cos(x)",
    "var": "mean((x - mean(x)) * (x - mean(x)))",
}
"""The same where a formula of x, and of y for a second argument, is all that it takes."""

_NORMALISED = "has no statistics of a batch: in evaluation it is a scale and a shift, x * scale + shift, of inputs"
_STEPS = "has floor(x) alone: floor(x + 0.5) rounds, -floor(-x) rounds up, x - y * floor(x / y) is what is left"
_ORDERS = "has no order and no choice of elements: max and min give the largest and the least"
_CONVOLUTIONS = "has no convolutions of its own: one of a vector x and a filter w of n weights is windows(x, n) @ w"
_SHIFTS = "has elements by numbers, x[2] and x[0:4], and roll, windows and circulant: not by values of a run"
MISSING = {
    **dict.fromkeys(("dropout", "alpha_dropout"), "has no dropout: it is of training, and would be left out here"),
    **dict.fromkeys(("batchnorm", "batch_norm", "batchnorm1d", "instancenorm"), _NORMALISED),
    **dict.fromkeys(
        ("layernorm", "layer_norm", "rmsnorm", "rms_norm"),
        "has no normalisation of its own: with m = mean(x), it is (x - m) / sqrt(mean((x - m) * (x - m)) + 0.00001)",
    ),
    "angle": "has no complex numbers: the angle of one with the parts a and b is atan2(b, a)",
    **dict.fromkeys(("round", "ceil", "trunc", "mod", "fmod", "remainder"), _STEPS),
    **dict.fromkeys(("argmax", "argmin", "topk", "sort", "argsort", "median", "unique"), _ORDERS),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _CONVOLUTIONS),
    **dict.fromkeys(("fft", "ifft"), "has no Fourier transform: ccorr(a, b) is a circular correlation, as in HolE"),
    **dict.fromkeys(("gather", "scatter", "index_select", "take"), _SHIFTS),
    **dict.fromkeys(("cumsum", "cumprod"), "has no running sums: of a few elements, x[0], x[0] + x[1] and so on"),
    **dict.fromkeys(("range", "arange", "enumerate", "zip", "map"), "has loops over numbers that are known before"
                    " the run, for k in 0..K, and over what a definition is over, as in sum(T[i] for i in b)"),
    **dict.fromkeys(("zeros", "ones", "eye", "one_hot", "full"), "makes no tensors: declare one, as in input x[D]"),
    **dict.fromkeys(("embedding", "embeddingbag", "embedding_bag"), "has tables: param E[entity, D], and E[h]"),
    "print": "prints nothing: every stage is there to look at",
}  # fmt: skip
"""What the language has not, as the end of `the language ...`."""


@dataclass(frozen=True, slots=True)
class Builtin:
    """`kind` picks the rule in calls.py; the last `optional` parameters may be left out; `many`: any number, also as a
    list; `axis`: it may be told along which dimension it works."""

    name: str
    kind: str
    parameters: tuple[str, ...]
    about: str
    optional: int = 0
    many: bool = False
    axis: int | None = None
    """The dimension where a call says none; None where it cannot say one."""

    @property
    def call(self) -> str:
        """How it is written."""
        if self.many and self.axis is not None:
            return f"{self.name}([{', '.join(self.parameters)}, ...], axis={self.axis})"
        axis = () if self.axis is None else (f"axis={self.axis}",)
        return f"{self.name}({', '.join((*self.parameters, *axis))}{', ...' if self.many else ''})"

    def takes(self, count: int) -> bool:
        """Whether it can be called with so many arguments."""
        most = len(self.parameters)
        return count >= most - self.optional and (self.many or count <= most)


def _elementwise(function: Function) -> Builtin:
    """Operands, and a parameter that may be left out behind them."""
    optional = () if function.parameter is None else function.parameter[:1]
    parameters = (*"xy"[: function.arity], *optional)
    return Builtin(function.name, "elementwise", parameters, function.about, len(optional))


BUILTINS: dict[str, Builtin] = {
    **{name: _elementwise(FUNCTIONS[name]) for name in ELEMENTWISE},
    "sum": Builtin("sum", "reduce", ("x",), "the sum of a dimension, or of what a comprehension goes over", axis=-1),
    "mean": Builtin("mean", "reduce", ("x",), "the sum divided by the number of elements", axis=-1),
    "prod": Builtin("prod", "reduce", ("x",), "the product of a dimension, or of what a comprehension has", axis=-1),
    "min": Builtin("min", "reduce_or_pair", ("x", "y"), "the least of a dimension, or of two numbers", 1, axis=-1),
    "max": Builtin("max", "reduce_or_pair", ("x", "y"), "the largest of a dimension, or of two numbers", 1, axis=-1),
    "logsumexp": Builtin("logsumexp", "logsumexp", ("x",), "log(sum(exp(x))), without overflow", axis=-1),
    "softmax": Builtin("softmax", "softmax", ("x",), "exp(x) / sum(exp(x)) along a dimension, stable", axis=-1),
    "dot": Builtin("dot", "inner", ("a", "b"), "the inner product over the last dimension"),
    "outer": Builtin("outer", "outer", ("a", "b"), "every product of an element of one and an element of the other"),
    "einsum": Builtin("einsum", "einsum", ('"ab,b->a"', "x", "y"), "products by a letter a dimension", 1, many=True),
    "linear": Builtin("linear", "linear", ("x", "W"), "x @ W"),
    "norm": Builtin("norm", "norm", ("x", "p"), "the 2-norm of a dimension, or with p = 1 the 1-norm", 1, axis=-1),
    "pow": Builtin("pow", "pow", ("x", "exponent"), FUNCTIONS["pow"].about),
    "where": Builtin("where", "where", ("c", "a", "b"), "a where c is not 0, else b: c is x > 0, or its like"),
    "concat": Builtin("concat", "concat", ("a", "b"), "one after another along a dimension", many=True, axis=-1),
    "stack": Builtin("stack", "stack", ("a", "b"), "side by side along a new dimension", many=True, axis=0),
    "reshape": Builtin("reshape", "reshape", ("x", "extent"), "the same elements in another shape", many=True),
    "repeat": Builtin("repeat", "repeat", ("x", "count"), "so many copies along a new first dimension"),
    "roll": Builtin("roll", "roll", ("x", "count"), "the last dimension's elements so many places on, in a ring"),
    "windows": Builtin("windows", "windows", ("x", "length"), "a row for each run of so many neighbours of a vector"),
    "circulant": Builtin("circulant", "circulant", ("x",), "a row for each k: the vector from element k on, in a ring"),
}


def builtin(name: str) -> Builtin | None:
    """The function of that name or alias."""
    return BUILTINS.get(ALIASES.get(name, name))


def function_names() -> tuple[str, ...]:
    """All names that a call may use."""
    return (*BUILTINS, *ALIASES)
