"""What a caller of `Compilation.run` may leave out for a layer, what is refused, and the order of edges."""

import numpy as np
import pytest

import explorer

SUM = """dim F = 2
layer Sum(g: graph):
    input x[node, F]
    param w[etype]
    for n in g.nodes():
        n["h"] = sum(w[e.etype] * x[e.src] for e in n.incoming_edges())
    return n["h"]
"""
SCALED = """dim F = 2
layer Scaled(g: graph):
    input x[node, F]
    input y[edge]
    for e in g.edges():
        e["m"] = y[e] * x[e.src]
    return e["m"]
"""
SRC, DST = np.array([0, 1, 2, 0]), np.array([2, 0, 2, 1])
X = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def run(text, inputs, **arguments):
    options = {"grad": True} if "grad" in arguments else {}
    return explorer.compile(text, options=options).run(inputs, "graph", **arguments)


def test_what_follows_from_the_tensors_need_not_be_given():
    got = run(SUM, {"src": SRC, "dst": DST, "x": X, "w": np.ones(1, np.float32)})
    np.testing.assert_array_equal(got, [[3, 4], [1, 2], [6, 8]])


def test_rows_of_edges_come_back_in_the_order_given():
    y = np.array([1, 10, 100, 1000], np.float32)
    got = run(SCALED, {"src": SRC, "dst": DST, "x": X, "y": y})
    np.testing.assert_array_equal(got, X[SRC] * y[:, None])


def test_gradients_come_by_name_in_the_shapes_of_their_tensors():
    inputs = {"src": SRC, "dst": DST, "etype": np.array([0, 1, 0, 1]), "x": X, "w": np.ones(3, np.float32)}
    upstream = np.ones((3, 2), np.float32)
    got, gradients = run(SUM, inputs, grad=upstream)
    assert got.shape == (3, 2)
    np.testing.assert_allclose(gradients["w"], [3 + 11, 7 + 3, 0])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"src": None}, "There is no array for src"),
        ({"x": None}, "There is no array for x"),
        ({"src": np.array([0, 1, 2, 3])}, r"src\[3\] is 3, which is not in 0 to 2"),
        ({"etype": np.array([0, 0, -1, 0])}, r"etype\[2\] is -1"),
        ({"etype": np.array([0, 0, 0])}, "4, 4 and 3 edges"),
        ({"src": SRC.astype(float)}, "not a list of ids"),
        ({"ntype": np.zeros(2, int)}, "ntype has 2 entries, but there are 3 nodes"),
        ({"num_etypes": 2}, r"w has the shape \[1\], but is declared \[2\]"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(changed, said):
    inputs = {"src": SRC, "dst": DST, "x": X, "w": np.ones(1, np.float32), **changed}
    with pytest.raises(ValueError, match=said):
        run(SUM, {name: array for name, array in inputs.items() if array is not None})


def test_a_backward_pass_needs_the_gradient_of_the_result():
    inputs = {"src": SRC, "dst": DST, "x": X, "w": np.ones(1, np.float32)}
    with pytest.raises(ValueError, match="give grad"):
        explorer.compile(SUM, options={"grad": True}).run(inputs, "graph")
    with pytest.raises(ValueError, match="compile with the option grad"):
        explorer.compile(SUM).run(inputs, "graph", grad=np.ones((3, 2)))
