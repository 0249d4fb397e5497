"""The shape rules, on the graph that they lead to."""

import pytest

from explorer.compiler.ir.functions import FUNCTIONS
from explorer.compiler.ir.graph import Constant, Contract, Elementwise, Gather, Slice, Transpose, operands
from explorer.compiler.language.names.builtins import ELEMENTWISE

from .helpers import errors_of, graph_of, shape_of, signature_of, value_of


@pytest.mark.parametrize(
    ("expression", "signature", "shape"),
    [
        ("E[h] @ P[r]", "a,ab->b", ("K",)),
        ("P[r] @ R[r]", "a,ab->b", ("D",)),
        ("E[h] @ w0", "a,ab->b", ("K",)),
        ("w0 @ R[r]", "a,ab->b", ("D",)),
        ("P[r].T @ w0", "ab,bc->ac", ("K", "K")),
        ("heads[r] @ mats[r]", "ca,cab->cb", ("H", "D")),
        ("R[r] @ mats[r]", "a,cab->cb", ("H", "D")),
        ("heads[r] @ P[r].T", "ab,bc->ac", ("H", "D")),
        ("mats[r] @ E[h]", "a,cab->cb", ("H", "K")),
        ("mats[r] @ w0", "dab,bc->dac", ("H", "K", "K")),
        ("w0 @ mats[r]", "ab,dbc->dac", ("H", "D", "D")),
        ("linear(E[h], P[r])", "a,ab->b", ("K",)),
    ],
)
def test_matrix_products(expression: str, signature: str, shape: tuple[str, ...]) -> None:
    assert (signature_of(expression), shape_of(expression)) == (signature, shape)


@pytest.mark.parametrize(
    ("expression", "signature", "shape"),
    [
        ("dot(heads[r], heads[r])", "ca,ca->c", ("H",)),
        ("dot(R[r], heads[r])", "a,ca->c", ("H",)),
        ("dot(heads[r], R[r])", "ca,a->c", ("H",)),
        ("outer(E[h], R[r])", "a,b->ab", ("D", "K")),
        ("outer_prod(E[h], R[r])", "a,b->ab", ("D", "K")),
        ("outer(heads[r], R[r])", "ca,b->cab", ("H", "K", "K")),
    ],
)
def test_dot_and_outer(expression: str, signature: str, shape: tuple[str, ...]) -> None:
    assert (signature_of(expression), shape_of(expression)) == (signature, shape)


@pytest.mark.parametrize("name", ["dot", "inner_prod", "dot_prd", "dot_prod"])
def test_spellings_of_the_inner_product(name: str) -> None:
    graph = graph_of(f"return {name}(E[h], E[t])")
    assert graph.values[-1].operator == Contract(origin=(), signature="a,a->", left="%1", right="%2")


def test_two_vectors_with_at_are_an_inner_product() -> None:
    """As in NumPy; RESCAL is often written so."""
    graph = graph_of("return E[h] @ P[r] @ R[r]")
    assert [value.operator.signature for value in graph.values if isinstance(value.operator, Contract)] == [
        "a,ab->b",
        "a,a->",
    ]


def test_a_matrix_by_a_row_transposes_the_matrix() -> None:
    graph = graph_of("return sum(P[r] @ R[r])")
    assert graph.values[2].operator == Transpose(origin=(), operand="%1")
    assert graph.values[2].shape == ("K", "D")
    assert graph.values[3].operator == Contract(origin=(), signature="a,ab->b", left="%2", right="%3")


@pytest.mark.parametrize("sign", ["+", "-", "*", "/"])
@pytest.mark.parametrize(
    ("left", "right"), [("E[h]", "E[t]"), ("P[r]", "w0"), ("b[r]", "b[r]"), ("E[h]", "2"), ("2", "P[r]")]
)
def test_equal_shapes_and_numbers_are_elementwise(left: str, right: str, sign: str) -> None:
    function = {"+": "add", "-": "sub", "*": "mul", "/": "div"}[sign]
    assert signature_of(f"{left} {sign} {right}") == function


@pytest.mark.parametrize(
    ("expression", "signature", "shape"),
    [
        ("b[r] * E[h]", ",a->a", ("D",)),
        ("E[h] * b[r]", ",a->a", ("D",)),
        ("b[r] * P[r]", ",ab->ab", ("D", "K")),
        ("E[h] * P[r]", "a,ab->ab", ("D", "K")),
        ("heads[r] * mats[r]", "ab,abc->abc", ("H", "K", "D")),
    ],
)
def test_a_prefix_scales_rows(expression: str, signature: str, shape: tuple[str, ...]) -> None:
    assert (signature_of(expression), shape_of(expression)) == (signature, shape)


@pytest.mark.parametrize("expression", ["P[r] / E[h]", "E[h] - P[r]", "b[r] + P[r]", "P[r] / b[r]"])
def test_a_prefix_of_the_other_operators_is_an_operand_as_it_is(expression: str) -> None:
    value = value_of(expression)
    assert isinstance(value.operator, Elementwise)
    assert value.shape == ("D", "K")


def test_the_operands_keep_their_order() -> None:
    graph = graph_of("return sum(1 - E[h]) / 2")
    assert [operands(value.operator) for value in graph.values] == [(), (), ("%2", "%1"), ("%3",), (), ("%4", "%5")]


def test_shapes_compare_by_value_and_print_by_name() -> None:
    assert shape_of("concat(R[r], R[r]) + E[h]") == ("D",)
    assert shape_of("E[h] + concat(R[r], R[r])") == ("D",)


@pytest.mark.parametrize(
    ("bounds", "start", "stop"),
    [("0:4", 0, 4), (":K", 0, 4), ("K:", 4, 8), ("D//2:D", 4, 8), ("-3:-1", 5, 7), ("2:100", 2, 8), (":", 0, 8)],
)
def test_slices_follow_numpy(bounds: str, start: int, stop: int) -> None:
    value = value_of(f"E[h][{bounds}]")
    assert value.operator == Slice(origin=(), operand="%1", start=start, stop=stop)
    assert value.shape == (("D",) if stop - start == 8 else (stop - start,))


def test_reshape_keeps_names_and_finds_what_is_left() -> None:
    assert shape_of("reshape(E[h], H, K)") == ("H", "K")
    assert shape_of("reshape(P[r], -1, 2)") == (16, 2)
    assert shape_of("concat(E[h], R[r], R[r])") == (16,)


@pytest.mark.parametrize("function", ["sum", "mean", "max", "min", "norm"])
def test_reductions_drop_the_last_dimension(function: str) -> None:
    assert shape_of(f"{function}(P[r])") == ("D",)


@pytest.mark.parametrize(
    ("call", "function"),
    [("norm(E[h])", "norm2"), ("norm(E[h], 2)", "norm2"), ("norm(E[h], 1)", "norm1"), ("norm(E[h], p=1)", "norm1")],
)
def test_norms(call: str, function: str) -> None:
    assert graph_of(f"return {call}").values[-1].operator.function == function


@pytest.mark.parametrize("name", [name for name in ELEMENTWISE if FUNCTIONS[name].arity == 1])
def test_functions_keep_the_shape(name: str) -> None:
    assert (signature_of(f"{name}(P[r])"), shape_of(f"{name}(P[r])")) == (name, ("D", "K"))


@pytest.mark.parametrize(
    ("call", "slope"),
    [
        ("leaky_relu(E[h])", 0.01),
        ("leaky_relu(E[h], 0.2)", 0.2),
        ("leakyrelu(E[h], slope=1/4)", 0.25),
    ],
)
def test_leaky_relu_has_a_slope(call: str, slope: float) -> None:
    value = value_of(call)
    assert isinstance(value.operator, Elementwise)
    assert (value.operator.function, value.operator.parameter) == ("leaky_relu", slope)


def test_min_and_max_of_two_are_elementwise() -> None:
    assert signature_of("max(E[h], 0)") == "max"
    assert signature_of("min(1, b[r])") == "min"
    assert shape_of("max(E[h], P[r])") == ("D", "K")


@pytest.mark.parametrize(
    ("expression", "number"),
    [
        ("2 * 3 + 1", 7.0),
        ("-D", -8.0),
        ("D // 3", 2.0),
        ("1 / sqrt(K)", 0.5),
        ("-(2 - K) / 4", 0.5),
        ("max(D, 3)", 8.0),
        ("exp(0) + 1e-3", 1.001),
    ],
)
def test_numbers_are_computed_now(expression: str, number: float) -> None:
    graph = graph_of(f"return b[r] * ({expression})")
    assert [value.operator for value in graph.values if isinstance(value.operator, Constant)] == [
        Constant(origin=(), value=number)
    ]
    assert len(graph.values) == 3


def test_tensors_of_several_sets_and_of_none() -> None:
    graph = graph_of("return sum(M[t, r] + E[h]) + sum(sum(w0))")
    gathers = [value for value in graph.values if isinstance(value.operator, Gather)]
    assert [(value.operator.indices, value.index_set, value.depends) for value in gathers] == [
        (("t", "r"), "batch", ("r", "t")),
        (("h",), "batch", ("h",)),
        ((), "unit", ()),
    ]


@pytest.mark.parametrize(
    ("body", "place", "message"),
    [
        ("return sum(E[h] + R[r])", "1:12-23",
         "'+' needs equal shapes, or one that is the beginning or the end of the other: [8] + [4]"),
        ("return sum(R[r] * mats[r])", "1:12-26",
         "'*' needs equal shapes, or one that is the beginning or the end of the other: [4] * [2, 4, 8]"),
        ("return sum(R[r] @ P[r])", "1:12-23",
         "'@' needs K of the left to equal the first dimension of the right: [4] @ [8, 4]"),
        ("return sum(E[h] @ mats[r])", "1:12-26",
         "'@' needs D of the left to equal the second to last dimension of the right: [8] @ [2, 4, 8]"),
        ("return sum(P[r] @ E[h])", "1:12-23",
         "'@' needs K of the left to equal the dimension of the right: [8, 4] @ [8]"),
        ("return E[h] @ R[r]", "1:8-19", "'@' needs D of the left to equal the length of the right: [8] @ [4]"),
        ("return E[h][0:3] @ R[r]", "1:8-24",
         "'@' needs the last dimension of the left to equal the length of the right: [3] @ [4]"),
        ("return sum(2 @ E[h])", "1:12-20", "'@' multiplies vectors and matrices, but the left is a number"),
        ("return b[r] + 2 @ 3", "1:17-18", "'@' multiplies vectors and matrices: numbers take '*'"),
        ("return dot(E[h], R[r])", "1:8-23", "'dot' needs equal last dimensions: [8] and [4]"),
        ("return dot(b[r], E[h])", "1:8-23", "'dot' needs vectors, but the first argument is a number"),
        ("return sum(b[r])", "1:12-16", "'sum' works along the last dimension, but this is a number"),
        ("return norm(E[h], 3)", "1:19-20", "the p of 'norm' is 1 or 2"),
        ("return norm(E[h], b[r])", "1:19-23", "the p of 'norm' is 1 or 2"),
        ("return sum(leaky_relu(E[h], b[r]))", "1:29-33",
         "the slope of leaky_relu is a number, known before the run"),
        ("return sum(E[h].T)", "1:16-18", "'.T' needs two dimensions, but the value is [D]"),
        ("return sum(E[h].shape)", "1:16-22", "a value has no '.shape': there is '.T', the transpose"),
        ("return sum(E[h][5:2])", "1:16-21", "this slice is empty"),
        ("return sum(E[h][D/2:])", "1:17-20", "a bound of a slice is a whole number, known before the run"),
        ("return sum(b[r][0:2])", "1:12-21", "a number has no dimension to slice"),
        ("return sum(reshape(E[h], 3, 3))", "1:12-31",
         "'reshape' keeps the number of elements: [D] has 8, not as many as [3, 3]"),
        ("return sum(reshape(E[h], -1, 3))", "1:12-32",
         "'reshape' keeps the number of elements: [D] has 8, not as many as [2, 3]"),
        ("return sum(reshape(E[h], 2.0, 4))", "1:26-29",
         "an extent of 'reshape' is a whole number, known before the run"),
        ("return sum(sum(concat(P[r], E[h])))", "1:29-33",
         "'concat' needs equal dimensions beside the one that it goes along: [D, K] and [D]"),
        ("return b[r] + 1 / (D - 8)", "1:17-18", "division by zero"),
        ("return b[r] + sqrt(-1)", "1:20-22", "sqrt of -1 is no number"),
        ("return b[r] + 1e39", "1:15-19", "this number is too large for a 32-bit float (3.4e38 is the largest)"),
        ("return sum(max(E[h], 0, axis=0))", "1:12-32",
         "'max' of two values goes element by element: an axis is of one value"),
        ("x = reshape(repeat(P[r], 40), -1)\nreturn sum(x[::-1])", "2:13-19",
         "'[::-1]' would make 1,638,400 elements of a row: 1,048,576 are the most"),
        ("x = reshape(repeat(repeat(P[r], 8), 32), K, -1)\nreturn sum(sum(x[::-1]))", "2:17-23",
         "'[::-1]' would make 16,777,216 elements of a row: 1,048,576 are the most"),
        ("x = reshape(repeat(P[r], 40), -1)\nreturn sum(sum(windows(x, 40)))", "2:16-30",
         "'windows' would make 1,589,721 elements of a row: 1,048,576 are the most"),
        ("return b[r] // 2", "1:13-15", "'//' divides sizes and indices, and values divide by '/'"),
    ],
)  # fmt: skip
def test_what_does_not_fit(body: str, place: str, message: str) -> None:
    assert errors_of(body) == [(place, message)]
