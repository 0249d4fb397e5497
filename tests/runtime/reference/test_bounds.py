"""Bounds of rounding errors, held against float32 computed in every lawful way; gradients against differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from explorer.compiler.language.names.builtins import BUILTINS, ELEMENTWISE
from explorer.machine.assembly import opcodes
from explorer.machine.units import arithmetic
from explorer.runtime.reference import evaluate as reference
from explorer.runtime.reference import functions as reference_functions
from explorer.runtime.reference.compare import compare, error_over_bound
from explorer.runtime.reference.numbers import primitives as plain
from explorer.runtime.reference.numbers.arithmetic import BOUNDED, FLOAT32, FLOAT64, ONE_BY_ONE
from explorer.runtime.reference.numbers.bounds import RULES, bounded, products_coarser
from explorer.runtime.reference.numbers.primitives import FUNCTIONS
from tests.functions import EXACT, OPERANDS

RANDOM = np.random.default_rng(0)
ROWS = 400
F32 = np.float32
LOG2_E = F32(1 / math.log(2))

ARGUMENTS = {
    "ordinary": RANDOM.standard_normal(20_000).astype(F32),
    "large": (RANDOM.standard_normal(20_000) * 40).astype(F32),
    "small": (RANDOM.standard_normal(20_000) * 1e-4).astype(F32),
    "at corners": np.array([0, 1, -1, 2, 88, -88, -104, 1e-20, -1e-20, 1e-38], F32),
}
POSITIVE = ("log", "sqrt")


def exp2(x: Any) -> Any:
    return np.exp2(x * LOG2_E)


def erf(x: Any) -> Any:
    return np.array([math.erf(value) for value in x.astype(np.float64).ravel()]).reshape(x.shape).astype(F32)


LAWFUL: dict[str, tuple[Callable[[Any], Any], ...]] = {
    "exp": (np.exp, exp2),
    "log": (np.log, lambda x: np.log2(x) * F32(math.log(2))),
    "log1p": (np.log1p,),
    "sqrt": (np.sqrt,),
    "abs": (np.abs,),
    "sign": (np.sign,),
    "relu": (lambda x: np.maximum(x, F32(0)),),
    "sigmoid": (
        lambda x: F32(1) / (F32(1) + np.exp(-x)),
        lambda x: F32(1) / (F32(1) + exp2(-x)),
        plain.sigmoid,
    ),
    "tanh": (np.tanh,),
    "gelu": (lambda x: F32(0.5) * x * (F32(1) + erf(x * F32(0.70710678))),),
    "sin": (np.sin,),
    "cos": (np.cos,),
    "softplus": (
        lambda x: np.maximum(x, F32(0)) + np.log1p(np.exp(-np.abs(x))),
        lambda x: np.maximum(x, F32(0)) + np.log1p(exp2(-np.abs(x))),
    ),
    "logsigmoid": (lambda x: np.minimum(x, F32(0)) - np.log1p(np.exp(-np.abs(x))),),
    "silu": (lambda x: x * (F32(1) / (F32(1) + np.exp(-x))), lambda x: x * plain.sigmoid(x)),
}
LAWFUL |= {name: (EXACT[name],) for name in ELEMENTWISE if OPERANDS[name] == 1 and name not in LAWFUL}
"""Each function as float32 may compute it."""


def largest(got: Any, want: Any) -> float:
    return float(np.max(error_over_bound(got, want), initial=0.0))


def test_every_function_of_the_language_is_held_against_lawful_float32() -> None:
    assert set(reference_functions.ELEMENTWISE) == LAWFUL.keys()
    assert BUILTINS.keys() - set(LAWFUL) <= {*STRUCTURED, *REDUCED}


@pytest.mark.parametrize("kind", ARGUMENTS)
@pytest.mark.parametrize("name", LAWFUL)
def test_a_function_of_exact_numbers_is_within_its_bound(name: str, kind: str) -> None:
    x = ARGUMENTS[kind]
    x = np.abs(x) if name in POSITIVE else np.maximum(x, F32(-0.999)) if name == "log1p" else x
    want = reference_functions.ELEMENTWISE[name](bounded(x))
    with np.errstate(all="ignore"):
        for function in LAWFUL[name]:
            assert largest(function(x).astype(F32), want) <= 1


@pytest.mark.parametrize("name", [name for name in LAWFUL if name in opcodes.UNARY_FUNCTIONS])
def test_the_machine_is_within_the_bound(name: str) -> None:
    x = ARGUMENTS["ordinary"][:500]
    x = np.abs(x) if name in POSITIVE else np.maximum(x, F32(-0.999)) if name == "log1p" else x
    got = np.array([arithmetic.unary(opcodes.UNARY_FUNCTIONS[name], value, value) for value in x], F32)
    assert largest(got, reference_functions.ELEMENTWISE[name](bounded(x))) <= 1


@pytest.mark.parametrize("name", LAWFUL)
def test_a_function_of_rounded_numbers_is_within_its_bound(name: str) -> None:
    """The argument is a difference of products, so it carries errors of its own, near corners too."""
    a, b, c = (RANDOM.standard_normal(20_000).astype(F32) for _ in range(3))
    near = (np.round(a * 64) / 64).astype(F32)  # many differences that cancel to nothing

    def argument(p: Any, q: Any, r: Any) -> Any:
        x = p * q - r
        return x * x + (1 if name == "log" else 0) if name in (*POSITIVE, "log1p") else x

    for third in (c, (near.astype(np.float64) * b).astype(F32)):
        exact = [bounded(each) for each in (near, b, third)]
        want = reference_functions.ELEMENTWISE[name](argument(*exact))
        with np.errstate(all="ignore"):
            for function in LAWFUL[name]:
                assert largest(function(argument(near, b, third)).astype(F32), want) <= 1


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_an_angle_of_exact_numbers_is_within_its_bound(kind: str) -> None:
    x, y = (grid.ravel() for grid in np.meshgrid(*[ARGUMENTS[kind][:140]] * 2))
    want = plain.atan2(bounded(x), bounded(y))
    assert largest(np.arctan2(x, y), want) <= 1
    elsewhere = (x != 0) | (y > 0)
    assert error_over_bound(np.arctan2(x, y) + F32(1e-3), want)[elsewhere].min() > 1


def test_an_angle_of_rounded_numbers_is_within_its_bound() -> None:
    """Of differences of products: of some that cancel to nothing, before the negative axis and at the origin."""
    a, b, c, d = (RANDOM.standard_normal(20_000).astype(F32) for _ in range(4))
    near = (np.round(a * 64) / 64).astype(F32)
    cancels = (near.astype(np.float64) * b).astype(F32)
    for x, y in (((near, b, c), (c, d, a)), ((near, b, cancels), (c, d, a)), ((near, b, cancels), (near, b, cancels))):
        want = plain.atan2(*(bounded(p) * bounded(q) - bounded(r) for p, q, r in (x, y)))
        got = np.arctan2(*(p * q - r for p, q, r in (x, y)))
        assert largest(got, want) <= 1


# Sums and products

TERMS = {
    "of one sign": np.abs(RANDOM.standard_normal((ROWS, 500))).astype(F32),
    "that cancel": RANDOM.standard_normal((ROWS, 500)).astype(F32),
    "sorted": np.sort(RANDOM.standard_normal((ROWS, 500)), axis=1).astype(F32),
    "alike": np.repeat(RANDOM.standard_normal((ROWS, 1)), 500, axis=1).astype(F32),
}


def one_by_one(x: Any) -> Any:
    return np.add.accumulate(x, axis=-1, dtype=F32)[..., -1]


def by_lanes(lanes: int) -> Callable[[Any], Any]:
    def summed(x: Any) -> Any:
        padded = np.concatenate([x, np.zeros((*x.shape[:-1], -x.shape[-1] % lanes), F32)], axis=-1)
        parts = np.add.accumulate(padded.reshape(*x.shape[:-1], -1, lanes), axis=-2, dtype=F32)[..., -1, :]
        while parts.shape[-1] > 1:
            parts = parts[..., : parts.shape[-1] // 2] + parts[..., parts.shape[-1] // 2 :]
        return parts[..., 0]

    return summed


SUMS: dict[str, Callable[[Any], Any]] = {
    "NumPy": lambda x: x.sum(axis=-1),
    "one by one": one_by_one,
    "backwards": lambda x: one_by_one(x[..., ::-1]),
    "8 lanes": by_lanes(8),
    "32 lanes": by_lanes(32),
}
REDUCED: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "sum": lambda add, x: add(x),
    "mean": lambda add, x: add(x) / F32(x.shape[-1]),
    "max": lambda add, x: x.max(axis=-1),
    "min": lambda add, x: x.min(axis=-1),
    "norm": lambda add, x: np.sqrt(add(x * x)),
    "prod": lambda add, x: np.multiply.accumulate(x, axis=-1, dtype=F32)[..., -1],
    "logsumexp": lambda add, x: x.max(axis=-1) + np.log(add(np.exp(x - x.max(axis=-1, keepdims=True)))),
}
STRUCTURED = (
    *("dot", "outer", "linear", "leaky_relu", "concat", "reshape", "repeat", "stack", "roll", "windows", "circulant"),
    *("softmax", "where", "masked", "pow", "einsum", "atan2"),
)


@pytest.mark.parametrize("order", SUMS)
@pytest.mark.parametrize("kind", TERMS)
@pytest.mark.parametrize("name", REDUCED)
def test_a_reduction_is_within_its_bound_in_every_order(name: str, kind: str, order: str) -> None:
    x = TERMS[kind]
    want = {**reference_functions.REDUCTIONS, "norm": reference_functions.norm}[name](bounded(x))
    assert largest(REDUCED[name](SUMS[order], x), want) <= 1


@pytest.mark.parametrize("order", SUMS)
def test_a_product_is_within_its_bound_in_every_order(order: str) -> None:
    x, w = (RANDOM.standard_normal(shape).astype(F32) for shape in ((100, 300), (300, 20)))
    got = SUMS[order]((x[:, None, :] * w.T[None]).astype(F32))
    assert largest(got, plain.matmul(bounded(x), bounded(w))) <= 1


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("order", SUMS)
def test_a_sum_over_edges_is_within_its_bound(order: str, alike: bool) -> None:
    """Hubs of thousands of edges; with terms of six types, which are added up one type after another or mixed."""
    places = np.sort(np.concatenate([np.repeat(0, 3000), np.repeat(1, 800), RANDOM.integers(2, 50, 1000)]))
    types = RANDOM.standard_normal((6, 4)).astype(F32)
    values = types[RANDOM.integers(0, 6, len(places))] if alike else RANDOM.standard_normal((4800, 4)).astype(F32)
    want = plain.segment_sum(bounded(values), places, 50)
    for place in range(50):
        got = SUMS[order](np.moveaxis(values[places == place], 0, -1))
        assert largest(got, want[place]) <= 1


def test_sums_that_are_cut_off_are_within_the_bounds_of_tensor_cores() -> None:
    """A norm of sums of 1,000 terms that have all lost some of their size: most of what rounding may make by itself."""
    random = np.random.default_rng(0)
    x, y = random.standard_normal((16, 1000)), random.standard_normal((1000, 1004))
    exact = x.astype(np.float32).astype(np.float64), y.astype(np.float32).astype(np.float64)
    total = np.zeros((16, 1004))
    for start in range(0, 1000, 8):
        total += exact[0][:, start : start + 8] @ exact[1][start : start + 8]
        unit = 2.0 ** (np.floor(np.log2(np.abs(total))) - 23)
        total = np.trunc(total / unit) * unit
    got = np.sqrt(np.sum(total * total, axis=-1))
    rounded = plain.norm(plain.matmul(*map(bounded, exact)))
    with products_coarser(2.0**3):
        cut_off = plain.norm(plain.matmul(*map(bounded, exact)))
    assert np.all(got < rounded.value)
    assert error_over_bound(got, rounded).max() > 0.7 > 0.2 > error_over_bound(got, cut_off).max() > 0.1


def test_products_of_coarser_factors_have_wider_bounds() -> None:
    x, w = (RANDOM.standard_normal(shape).astype(F32) for shape in ((100, 64), (64, 20)))
    rounded = [(values.view(np.uint32) + 0x1000 & 0xFFFFE000).view(F32) for values in (x, w)]  # 11 bits, as TF32 has
    assert largest(rounded[0] @ rounded[1], plain.matmul(bounded(x), bounded(w))) > 10
    with products_coarser(2.0**13):
        assert 0.01 < largest(rounded[0] @ rounded[1], plain.matmul(bounded(x), bounded(w))) <= 1


def test_every_primitive_has_a_rule() -> None:
    assert RULES.keys() == FUNCTIONS.keys()


# Corners

CORNER = """dim D = 4
score Corner(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D]
    return sum({})
"""
NEAR = (
    "relu(E[h] * R[r] - E[t])",
    "abs(E[h] * R[r] - E[t])",
    "max(E[h] * R[r], E[t])",
    "min(E[h] * R[r], E[t])",
    "leaky_relu(E[h] * R[r] - E[t], 0.2)",
    "E[h] * max(concat(E[h] * R[r], E[t]))",
    "where(E[h] * R[r] > E[t], E[h], R[r] * R[r])",
    "where(E[h] * R[r] <= E[t], E[h], R[r]) * E[t]",
    "E[h] * (E[h] * R[r] == E[t])",
)


@pytest.mark.parametrize("text", NEAR)
def test_at_a_corner_either_sides_gradient_is_right(text: str) -> None:
    """The argument is 0 but for rounding: a nudge to either side moves it over the corner."""
    h, r = RANDOM.uniform(0.5, 1, (2, 1, 4)).astype(F32)
    t = (h.astype(np.float64) * r).astype(F32)
    ids = {"h": np.array([0], np.int32), "r": np.array([0], np.int32), "t": np.array([1], np.int32)}
    upstream = np.ones(1, F32)

    def gradients(nudge: float, arithmetic: Any) -> Any:
        inputs = {"E": np.concatenate([h, t * (1 + nudge)]), "R": r, **ids}
        inputs |= {name: inputs[name].astype(np.float64) for name in ("E", "R")}
        return reference.gradients(CORNER.format(text), inputs, {}, upstream, ["E", "R"], arithmetic=arithmetic)[1]

    want = gradients(0.0, BOUNDED)
    for nudge in (-1e-6, 1e-6):
        side = gradients(nudge, FLOAT64)
        for name in want:
            # The nudge itself changes smooth factors by a millionth, which is not the corner's.
            ratio = np.abs(side[name] - want[name].value) / (3 * 2.0**-24 * want[name].error + 1e-5)
            assert ratio.max() <= 1, name
    far = reference.gradients(
        CORNER.format(text), {"E": np.concatenate([h, t * F32(1.1)]), "R": r, **ids}, {}, upstream, ["E", "R"]
    )[1]
    assert max(float(found.error.max()) for found in far.values()) < 100, "away from the corner there is one gradient"


# Gradients

MODELS = {
    "softplus": "softplus(sum(E[h] * R[r] * E[t]))",
    "functions": "sum(sigmoid(E[h]) * tanh(R[r]) + gelu(E[t]) * sin(E[h]) - cos(E[t]) * exp(-abs(R[r])))",
    "logs": "sum(log(abs(E[h]) + 1) * log1p(E[t] * E[t]) * sqrt(abs(R[r]) + 0.5)) + logsigmoid(sum(E[h]))",
    "angles": "sum(atan2(E[h] - E[t], R[r]) * R[r] + atan2(sum(E[h]), 2) - atan2(1, E[t]) * atan2(1, 2))",
    "quotients": "norm(E[h] / (norm(E[h]) + 1) - E[t], 1) + norm(E[h] + R[r] - E[t]) / 3",
    "products": "dot(E[h] @ outer(R[r], E[t]), E[h]) + sum(sum(reshape(E[h], 2, 2) @ reshape(E[t], 2, 2)))",
    "choices": "sum(where(E[h] > R[r], E[t] * E[h], exp(R[r]) - E[t]) * (E[t] - floor(E[t] * 3) * R[r]))",
    "powers": "sum((E[h] - E[t]) ** 3 * (abs(R[r]) + 0.5) ** 1.7 + pow(abs(E[t]) + 0.2, -0.3) * R[r] ** -2)",
    "softmaxes": "dot(softmax(E[h] * 3), R[r]) + logsumexp(E[t]) * sum(roll(E[h], 1) * (circulant(R[r]) @ E[t]))",
    "shapes": "sum(concat(E[h][1:3], R[r]) * concat(R[r], E[t][:2])) + max(E[h]) - sum(mean(repeat(E[t], 3).T))",
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("negatives", ["none", "tail:3"])
def test_gradients_are_the_slopes_of_the_result(name: str, negatives: str) -> None:
    text = f"""dim D = 4
score Model(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D]
    return {MODELS[name]}
"""
    inputs: dict[str, Any] = {
        "E": RANDOM.standard_normal((6, 4)).astype(F32),
        "R": RANDOM.standard_normal((2, 4)).astype(F32),
        "h": RANDOM.integers(0, 6, 5),
        "r": RANDOM.integers(0, 2, 5),
        "t": RANDOM.integers(0, 6, 5 if negatives == "none" else (5, 3)),
    }
    upstream = RANDOM.standard_normal(inputs["t"].shape)
    asked = (text, inputs, {}, upstream, ["E", "R"])
    exact = reference.gradients(*asked, negatives=negatives, arithmetic=FLOAT64)[1]
    for slope in reference.finite_difference(*asked, count=40, negatives=negatives):
        assert exact[slope.tensor][slope.index] == pytest.approx(slope.value, rel=1e-6, abs=1e-7)
    meaning = reference.Meaning(text, inputs, {}, negatives=negatives)
    direction = {tensor: RANDOM.standard_normal(inputs[tensor].shape) for tensor in exact}
    along = sum(np.sum(exact[tensor] * direction[tensor]) for tensor in exact)
    for found in (meaning.change(direction, FLOAT64), meaning.change(direction).value):
        assert np.sum(upstream * found) == pytest.approx(along, rel=1e-9)
    want = reference.gradients(*asked, negatives=negatives)[1]
    for arithmetic_ in (FLOAT32, ONE_BY_ONE):
        for tensor, got in reference.gradients(*asked, negatives=negatives, arithmetic=arithmetic_)[1].items():
            np.testing.assert_allclose(want[tensor].value, exact[tensor], rtol=1e-9, atol=1e-12)
            assert largest(np.asarray(got), want[tensor]) <= 1


def test_a_sum_may_be_taken_in_another_order() -> None:
    """What a triple shares with its negatives is added first: `(a - b) + c` is exact where a and b are alike, and
    `(a + c) - b`, which is as good a program, is not."""
    random = np.random.default_rng(0)
    a, c = (random.uniform(-1, 1, 1000).astype(np.float32) for _ in range(2))
    want = plain.add(plain.subtract(bounded(a), bounded(a)), bounded(c * np.float32(0.01)))
    got = (a + c * np.float32(0.01)) - a
    assert compare(got, want).matches


def test_terms_of_parallel_edges_have_the_same_error() -> None:
    """Forty edges from one node to another, and as many from others: what the forty lose does not cancel."""
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape).astype(F32) for shape in ((41, 64), (64, 2000)))
    picked = np.concatenate([np.zeros(40, int), np.arange(1, 41)])
    rounded = [(values.view(np.uint32) + 0x1000 & 0xFFFFE000).view(F32) for values in (x, w)]
    got = (rounded[0].astype(np.float64) @ rounded[1])[picked].sum(axis=0)
    with products_coarser(2.0**13):
        want = plain.segment_sum(plain.matmul(bounded(x[picked]), bounded(w)), np.zeros(80, int), 1)
    assert 0.3 < largest(got, want[0]) <= 1
