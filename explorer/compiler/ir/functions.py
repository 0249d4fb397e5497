"""The elementwise functions, one entry each: what they are called, cost, mean, and how each target writes them.

This is the only list of them in the compiler, the machine and the language: parsing, checking, the interpreters, the
derivatives, Numba's, the machine's and CUDA's code and the lists of names are all made from it. What is a composition
of others (softplus, silu) is a helper in `language/names/prelude.emb` instead, and needs no entry.

Texts are patterns of operands, `{0}` and `{1}`; a parameter comes behind them. `CONTRIBUTING.md` adds one.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Cost = Literal["free", "plain", "divide", "transcendental"]


class Function(NamedTuple):
    """One function of f32 numbers.

    `python` and `cuda` take and give f32; a NaN passes through all of them but CUDA's fminf and fmaxf, which return
    the other operand. `numpy` and `torch` are expressions for a function of arrays that keeps their type."""

    name: str
    numpy: str
    python: str
    """For Numba, on the CPU and in the machine: float32(), abs() and the functions of `math` by their names."""
    cuda: str
    torch: str = ""  # "" for what only a backward pass has
    arity: int = 1
    sign: str = ""  # of an infix function
    parameter: tuple[str, float] | None = None
    """The name and default of a number behind the operands, known before the run."""
    derivative: tuple[str, ...] = ()
    """By each operand: a formula of x, y, the parameter and `result`, in functions of this table and their signs; FLAT
    where the result does not change with it but for jumps, so that no gradient goes there."""
    corner: str = ""
    """The slope by the first operand where it has two sides, at x = 0, of two operands at x = y: a formula likewise."""
    cost: Cost = "plain"
    """The class of the machine's instructions. What divides or is transcendental takes many times as long as a load."""
    flop: int = 1  # floating-point operations that are counted for it
    finite: bool = True
    """Whether values and slopes exist, and are not infinite by definition, for all finite operands."""
    about: str = ""  # what the language says of it; "" where a text cannot call it
    domain: str = ""  # the operands that have a value, where not all do

    @property
    def operand_count(self) -> int:
        """Operands and parameters together, as the loops have them."""
        return self.arity + (self.parameter is not None)


FLAT = "0.0"
"""The derivative of what is constant between its jumps."""


def _infix(name: str, sign: str, numpy: str, torch: str, derivative: tuple[str, str]) -> Function:
    """A function that every target writes with the same sign between its operands."""
    text = f"{{0}} {sign} {{1}}"
    return Function(name, numpy, text, text, torch, arity=2, sign=sign, derivative=derivative)


def _comparison(name: str, sign: str) -> Function:
    """1 where a comparison holds and 0 where it does not; one with a NaN holds for != alone."""
    return Function(
        name,
        numpy=f"lambda x, y: (x {sign} y).astype(x.dtype)",
        python=f"float32(1.0) if {{0}} {sign} {{1}} else float32(0.0)",
        cuda=f"{{0}} {sign} {{1}} ? 1.0f : 0.0f",
        torch=f"lambda x, y: (x {sign} y).to(x.dtype)",
        arity=2,
        derivative=(FLAT, FLAT),
    )


TABLE = (
    Function("copy", numpy="lambda x: x", python="{0}", cuda="{0}", derivative=("1.0",), cost="free"),
    Function(
        "stop_gradient",
        numpy="lambda x: x",
        python="{0}",
        cuda="{0}",
        torch="torch.Tensor.detach",
        derivative=(FLAT,),
        cost="free",
        flop=0,
        about="x itself, through which no gradient goes",
    ),
    _infix("add", "+", "np.add", "torch.add", ("1.0", "1.0")),
    _infix("sub", "-", "np.subtract", "torch.sub", ("1.0", "-1.0")),
    _infix("mul", "*", "np.multiply", "torch.mul", ("y", "x")),
    _infix("div", "/", "np.divide", "torch.div", ("1.0 / y", "-(result / y)"))._replace(
        cost="divide", finite=False, domain="y != 0"
    ),
    Function(
        "min",
        numpy="np.minimum",
        python="{0} if {0} < {1} or {0} != {0} else {1}",
        cuda="fminf({0}, {1})",
        torch="torch.minimum",
        arity=2,
        derivative=("equal(x, result) - 0.5 * equal(x, y)", "equal(y, result) - 0.5 * equal(y, x)"),
        corner="0.5",
        about="the smaller of two numbers",
    ),
    Function(
        "max",
        numpy="np.maximum",
        python="{0} if {0} > {1} or {0} != {0} else {1}",
        cuda="fmaxf({0}, {1})",
        torch="torch.maximum",
        arity=2,
        derivative=("equal(x, result) - 0.5 * equal(x, y)", "equal(y, result) - 0.5 * equal(y, x)"),
        corner="0.5",
        about="the larger of two numbers",
    ),
    _comparison("equal", "=="),
    _comparison("not_equal", "!="),
    _comparison("greater", ">"),
    _comparison("at_least", ">="),
    Function(
        "masked",  # a choice that leaves what is not chosen out, infinite or not: where(c, a, b) is the sum of two
        numpy="lambda x, y: np.where(x != 0, y, np.zeros_like(y)).astype(x.dtype)",
        python="{1} if {0} != 0 else float32(0.0)",
        cuda="{0} != 0.0f ? {1} : 0.0f",
        torch="lambda x, y: torch.where(x != 0, y, torch.zeros_like(y))",
        arity=2,
        derivative=(FLAT, "masked(x, 1.0)"),
        about="y where x is not 0, else 0",
    ),
    Function(
        "div_or_zero",  # 0 where the divisor is: the gradient of a norm at 0, the share of an empty segment
        numpy="lambda x, y: np.where(y == 0, 0, np.divide(x, np.where(y == 0, 1, y))).astype(np.result_type(x))",
        python="float32(0.0) if {1} == 0 else {0} / {1}",
        cuda="{1} == 0.0f ? 0.0f : {0} / {1}",
        torch="lambda x, y: torch.where(y == 0, 0.0, x / torch.where(y == 0, 1.0, y))",
        arity=2,
        derivative=("div_or_zero(1.0, y)", "-div_or_zero(result, y)"),
        cost="divide",
    ),
    Function("neg", numpy="np.negative", python="-{0}", cuda="-{0}", torch="torch.neg", derivative=("-1.0",)),
    Function(
        "exp",  # overflows to infinity, so sigmoid ends at 0 and never at NaN
        numpy="np.exp",
        python="exp({0})",
        cuda="expf({0})",
        torch="torch.exp",
        derivative=("result",),
        cost="transcendental",
        finite=False,
        about="e to the power x",
    ),
    Function(
        "log",
        numpy="np.log",
        python="log({0})",
        cuda="logf({0})",
        torch="torch.log",
        derivative=("1.0 / x",),
        cost="transcendental",
        finite=False,
        about="the natural logarithm",
        domain="x > 0",
    ),
    Function(
        "log1p",
        numpy="np.log1p",
        python="log1p({0})",
        cuda="log1pf({0})",
        torch="torch.log1p",
        derivative=("1.0 / (1.0 + x)",),
        cost="transcendental",
        finite=False,
        about="log(1 + x), to the last digits where x is small",
        domain="x > -1",
    ),
    Function(
        "sqrt",
        numpy="np.sqrt",
        python="sqrt({0})",
        cuda="sqrtf({0})",
        torch="torch.sqrt",
        derivative=("div_or_zero(0.5, result)",),
        corner="0.0",
        cost="divide",
        finite=False,
        about="the square root",
        domain="x >= 0",
    ),
    Function(
        "pow",
        numpy="lambda x, exponent: np.power(x, x.dtype.type(exponent))",
        python="{0} ** {1}",
        cuda="powf({0}, {1})",
        torch="torch.pow",
        parameter=("exponent", 2.0),
        derivative=("exponent * pow(x, exponent - 1.0)",),
        cost="transcendental",
        finite=False,
        about="x ** exponent, a number that is known before the run",
        domain="x > 0",
    ),
    Function(
        "floor",
        numpy="np.floor",
        python="float32(floor({0})) if abs({0}) < float32(8388608.0) else {0}",  # beyond, all f32 are whole
        cuda="floorf({0})",
        torch="torch.floor",
        derivative=(FLAT,),
        about="the largest whole number that is not above x",
    ),
    Function(
        "abs",
        numpy="np.abs",
        python="abs({0})",
        cuda="fabsf({0})",
        torch="torch.abs",
        derivative=("sign(x)",),
        corner="0.0",
        about="the absolute value",
    ),
    Function(
        "sign",
        numpy="np.sign",
        python="float32(1.0) if {0} > 0 else (float32(-1.0) if {0} < 0 else {0})",
        cuda="{0} > 0.0f ? 1.0f : {0} < 0.0f ? -1.0f : {0}",
        torch="torch.sign",
        derivative=("0.0 * x",),
        corner="0.0",
        about="-1, 0 or 1",
    ),
    Function(
        "relu",
        numpy="lambda x: np.maximum(x, x.dtype.type(0))",
        python="float32(0.0) if {0} < 0 else {0}",
        cuda="{0} < 0.0f ? 0.0f : {0}",
        torch="torch.relu",
        derivative=("step(x)",),
        corner="0.0",
        about="x where it is positive, else 0",
    ),
    Function(
        "leaky_relu",
        numpy="lambda x, slope: np.where(x >= 0, x, x * x.dtype.type(slope)).astype(x.dtype)",
        python="{1} * {0} if {0} < 0 else {0}",
        cuda="{0} < 0.0f ? {1} * {0} : {0}",
        torch="torch.nn.functional.leaky_relu",
        parameter=("slope", 0.01),
        derivative=("slope + (1.0 - slope) * step(x)",),
        corner="slope",
        about="x where it is positive, else slope * x",
    ),
    Function(
        "sigmoid",
        numpy="lambda x: np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x)))",  # exp of no number above 0
        python="float32(1.0) / (float32(1.0) + exp(-{0}))",
        cuda="1.0f / (1.0f + expf(-{0}))",
        torch="torch.sigmoid",
        derivative=("result * (1.0 - result)",),
        cost="transcendental",
        about="1 / (1 + exp(-x))",
    ),
    Function(
        "tanh",
        numpy="np.tanh",
        python="tanh({0})",
        cuda="tanhf({0})",
        torch="torch.tanh",
        derivative=("1.0 - result * result",),
        cost="transcendental",
        about="the hyperbolic tangent",
    ),
    Function(
        "gelu",  # the exact form, PyTorch's default
        numpy="lambda x: (x * 0.5 * (1.0 + erf(x / math.sqrt(2.0)))).astype(x.dtype)",
        python="float32(0.5) * {0} * (float32(1.0) + erf({0} * float32(0.7071067811865476)))",
        cuda="0.5f * {0} * (1.0f + erff({0} * 0.70710678f))",
        torch="torch.nn.functional.gelu",
        derivative=("gelu_slope(x)",),
        cost="transcendental",
        about="x times the normal distribution's share of numbers below x",
    ),
    Function(
        "sin",
        numpy="np.sin",
        python="sin({0})",
        cuda="sinf({0})",
        torch="torch.sin",
        derivative=("cos(x)",),
        cost="transcendental",
        about="the sine of an angle in radians",
    ),
    Function(
        "cos",
        numpy="np.cos",
        python="cos({0})",
        cuda="cosf({0})",
        torch="torch.cos",
        derivative=("-sin(x)",),
        cost="transcendental",
        about="the cosine of an angle in radians",
    ),
    Function(
        "atan2",  # 0 at the origin, as its slopes
        numpy="np.arctan2",
        python="atan2({0}, {1})",
        cuda="atan2f({0}, {1})",
        torch="torch.atan2",
        arity=2,
        derivative=("div_or_zero(y, x * x + y * y)", "-div_or_zero(x, x * x + y * y)"),
        cost="transcendental",
        about="the angle in radians, from -pi to pi, whose tangent is x / y and whose cosine has the sign of y",
    ),
    Function(
        "step",  # the slope of relu
        numpy="lambda x: (x > 0).astype(x.dtype)",
        python="float32(1.0) if {0} > 0 else float32(0.0)",
        cuda="{0} > 0.0f ? 1.0f : 0.0f",
        torch="lambda x: (x > 0).to(x.dtype)",
    ),
    Function(
        "gelu_slope",  # the normal distribution's share below x, and x times its density there
        numpy="lambda x: (0.5 * (1.0 + erf(x / math.sqrt(2.0)))"
        " + x * (np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi))).astype(x.dtype)",
        python="float32(0.5) * (float32(1.0) + erf({0} * float32(0.7071067811865476)))"
        " + float32(0.3989422804014327) * {0} * exp(float32(-0.5) * {0} * {0})",
        cuda="0.5f * (1.0f + erff({0} * 0.70710678f)) + 0.39894228f * {0} * expf(-0.5f * {0} * {0})",
        cost="transcendental",
    ),
)

FUNCTIONS: dict[str, Function] = {function.name: function for function in TABLE}


def callees(column: Literal["python", "cuda"]) -> frozenset[str]:
    """The names of the target's own functions that a column's texts call."""
    texts = " ".join(getattr(function, column) for function in TABLE)
    return frozenset(re.findall(r"\b([a-z_]\w*)\(", texts))


COSTLY = frozenset(function.name for function in TABLE if function.cost in ("divide", "transcendental"))
"""What takes many times as long as a load."""

SIGNS = {function.name: function.sign for function in TABLE if function.sign}
"""`+` of add and its like."""
