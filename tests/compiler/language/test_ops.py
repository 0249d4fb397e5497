"""What is wrong with an op, in the user's words and at its place; and what ops may do that layers cannot."""

import pytest

from explorer.compiler.ir.graph import Gather, Segment

from .helpers import check, found

BAG = "dim D = 4\nop f(b: bag of row):\n    param T[row, D]\n"
MATRIX = "dim D = 4\nop f(A: csr[row, col]):\n    param X[col, D]\n"
BLOCKS = "dim D = 4\nop f(q: blocks of block):\n    param K[block, 2, D]\n"
FIRST_LINE = 4
"""Where a body under one of these begins."""

IN_BAGS = [
    ("return T", [("4:12-13", "'T' has a row for each row")]),
    ("return sum(T[i] for i in T)", [("4:30-31", "'T' is no bag: a loop has nothing to go over")]),
    ("return sum(T[b] for i in b)", [("4:16-20", "T is indexed by row, but b is a bag")]),
    ("return sum(T[i] for i, w, v in b)", [("4:31-32", "a loop over b has one variable, or two")]),
    ("return sum(w * T[i] for i in b)", [("4:16-17", "unknown name 'w'")]),
    (
        "return 3",
        [("4:12-13", "the result is the same for every bag and entry: an op returns data of bags and entries")],
    ),
    (
        'for i in b.rows():\n    b["s"] += T[i]\nreturn b["s"]',
        [("4:14-22", "a loop over the entries of 'b' is: for i in b")],
    ),
    (
        'for i in b:\n    T[i] = 3\nreturn b["s"]',
        [
            ("5:11-12", 'data is named in quotes: ["i"]'),
            ("6:14-17", "unknown data 's' of a bag: nothing is written on bags"),
        ],
    ),
    (
        "b = 3\nreturn sum(T[i] for i in b)",
        [("4:5-6", "'b' is an index and cannot be assigned: choose another name")],
    ),
    ("return b", [("4:12-13", "'b' is an index of a bag, not a value")]),
    ("for i in b:\n    s += T[i]\nreturn s", [("5:9-10", "unknown name 's'"), ("6:12-13", "unknown name 's'")]),
    (
        "s = 0\nfor i in b:\n    s += T[i]\nreturn s",
        [("6:9-10", "'s' stands outside of this loop and cannot be assigned in it: choose another name")],
    ),
    (
        "return T[i] for i in b",
        [("4:17-20", "a 'for' stands in the brackets of sum, mean, prod, min, max, logsumexp, stack or concat")],
    ),
    (
        'return edge_softmax(b, "x")',
        [("4:12-32", "'edge_softmax' is of the edges of a graph or the nonzeros of a matrix")],
    ),
    (
        "return max(T[i], T[i] for i in b)",
        [("4:12-38", "what takes a 'for' is one of sum, mean, max, min, prod, logsumexp, with nothing else")],
    ),
    (
        'for i in b:\n    b["s"] *= T[i]\nreturn b["s"]',
        [("5:16-18", "a loop over the entries of a bag sums with '+=': there is no '*='")],
    ),
    (
        'for i in b:\n    b["s"] += T[i]\n    b["t"] += b["s"]\nreturn b["t"]',
        [("6:19-25", "'s' is summed in this loop: its value is known behind the loop")],
    ),
]
IN_MATRICES = [
    ("return sum(a * X[j] for j, a in A.row(i))", [("4:43-44", "unknown name 'i'")]),
    (
        'for i in A.rows():\n    i["y"] = sum(a * X[i] for j, a in A.row(i))\nreturn i["y"]',
        [("5:26-30", "X is indexed by col, but i is a row")],
    ),
    (
        'for i in A.rows():\n    i["y"] = sum(a * X[j] for j, a in A.row(j))\nreturn i["y"]',
        [("5:49-50", "unknown name 'j'")],
    ),
    (
        'for i in A.rows():\n    i["y"] = sum(X[j] for j in A.row())\nreturn i["y"]',
        [("5:36-43", "'A.row' lacks its row: it is A.row(i)")],
    ),
    (
        'for i in A:\n    i["y"] = sum(X[j] for j in A.row(i))\nreturn i["y"]',
        [("4:14-15", "a loop goes over elements, as in A.rows(): 'A' is not called")],
    ),
    (
        'for i in A.rows(2):\n    i["y"] = sum(X[j] for j in A.row(i))\nreturn i["y"]',
        [("4:14-23", "'A.rows' takes nothing in its brackets: it is A.rows()")],
    ),
    (
        'for i in A.row():\n    i["y"] = sum(X[j] for j in A.row(i))\nreturn i["y"]',
        [("4:14-21", "'A.row' lacks its row: it is A.row(i)")],
    ),
    ('for i in A.columns():\n    i["y"] = 1\nreturn i["y"]', [("4:16-23", "'A' has no 'columns'")]),
    (
        'for i in A.rows():\n    i["y"] = sum(a for k, a in A.col(i))\nreturn i["y"]',
        [("5:36-44", "A.col(j) goes over the nonzeros of a column j, in a loop: for j in A.cols()")],
    ),
    (
        'for j in A.cols():\n    j["y"] = sum(a for k, a in A.col())\nreturn j["y"]',
        [("5:36-43", "'A.col' lacks its column: it is A.col(j)")],
    ),
    (
        'for j in A.cols():\n    for i, a in A.col(j):\n        j["y"] += a\n        i["z"] = j["y"]\nreturn j["y"]',
        [("7:22-28", "'y' is summed in this loop: its value is known behind the loop")],
    ),
    ('for i, a in A.rows():\n    i["y"] = 1\nreturn i["y"]', [("4:12-13", "a loop over A.rows() has one variable")]),
    (
        'for z in A.nonzeros():\n    z["s"] = dot(X[z], X[z.col])\nreturn z["s"]',
        [("5:22-26", "X is indexed by col, but z is a nonzero")],
    ),
    (
        'for z in A.nonzeros():\n    z["s"] = z.weight\nreturn z["s"]',
        [("5:20-26", "unknown data 'weight' of a nonzero: nothing is written on nonzeros")],
    ),
    (
        'for z in A.nonzeros():\n    z["value"] = z.value\nreturn z["value"]',
        [("5:11-18", "'value' is given by the matrix: choose another name for the data")],
    ),
    (
        "return sum(X[z.col] for z in A.nonzeros())",
        [
            (
                "4:12-47",
                "the result is the same for every row and nonzero: an op returns data of rows and nonzeros",
            ),
        ],
    ),
    (
        'for i in A.rows():\n    for z in A.nonzeros():\n        i["y"] += z.value\nreturn i["y"]',
        [("5:18-30", "a loop over A.nonzeros() stands in no other loop")],
    ),
    (
        'for i in A.rows():\n    for j, a in A.row(i):\n        j["y"] += a * X[j]\nreturn i["y"]',
        [
            ("6:13-19", "'y' has no value yet: '+=' changes what is there"),
            ("7:14-17", "'y' is data of a nonzero, but i is a row"),
        ],
    ),
    (
        "for i in A.rows():\n    for j, a in A.row(i):\n"
        '        for k in A.row(i):\n            i["y"] += a * X[j]\nreturn i["y"]',
        [("6:22-30", "A.row(i) goes over the nonzeros of a row i, in a loop: for i in A.rows()")],
    ),
    (
        'for i in A.rows():\n    for j, a in A.row(i):\n        i["y"] = a * X[j]\nreturn i["y"]',
        [("6:13-30", """'i["y"]' would be written once for each nonzero: += sums over the nonzeros""")],
    ),
    (
        'for i in A.rows():\n    i["y"] = sum(A * X[j] for j, a in A.row(i))\nreturn i["y"]',
        [("5:22-23", "'A' is the matrix, not a value")],
    ),
    (
        'for i in A.rows():\n    i["y"] = A @ X\nreturn i["y"]',
        [("5:18-19", "'A' is the matrix, not a value"), ("5:22-23", "'X' has a row for each col")],
    ),
]
IN_BLOCKS = [
    ('for j, w in q:\n    j["k"] = K[j]\nreturn j["k"]', [("4:12-13", "a loop over q has one variable")]),
    (
        'for j in q:\n    j["k"] = repeat(K[j], D * 0)\nreturn j["k"]',
        [("5:31-36", "the number of copies is from 1 to 65,536, not 0")],
    ),
    (
        'for j in q:\n    j["k"] = repeat(K[j], K[j])\nreturn j["k"]',
        [("5:31-35", "the number of copies is a whole number, known before the run")],
    ),
    (
        "for j in q:\n    k = K[j]\nreturn k",
        [("6:12-13", """'k' is local to the loop in line 4: what leaves a loop is data, as in j["k"]""")],
    ),
]
WHOLE = [
    (
        "dim D = 4\nop f(b: bag of row):\n    param T[rows, D]\n    return sum(T[i] for i in b)\n",
        [("3:13-17", "unknown size or index set 'rows': did you mean 'row'?")],
    ),
    (
        "dim D = 4\nop f(b: bag of row):\n    param weight[row, D]\n    return sum(weight[i] for i in b)\n",
        [("3:11-17", "'weight' is a part of the bags: choose another name")],
    ),
    (
        "dim D = 4\nop f(b: bag in row):\n    param T[row, D]\n    return sum(T[i] for i in b)\n",
        [("2:13-15", "'in' is a word of the language and cannot be a name")],
    ),
    (
        "dim D = 4\nop f(b: bag):\n    param T[row, D]\n    return sum(T[i] for i in b)\n",
        [("2:9-12", "'bag' is followed by what it is of: bag of row")],
    ),
    (
        "dim D = 4\nop f(b: bags of row):\n    param T[row, D]\n    return sum(T[i] for i in b)\n",
        [("2:9-13", "an op is over bags, blocks or a sparse matrix, not over 'bags': did you mean 'bag'?")],
    ),
    (
        "dim D = 4\nop f(b: row):\n    param T[row, D]\n    return sum(T[i] for i in b)\n",
        [("2:9-12", "an op is over bags, blocks or a sparse matrix, not over 'row'")],
    ),
    (
        "dim D = 4\nop f(b):\n    param T[row, D]\n    return sum(T[i] for i in b)\n",
        [("2:5-8", "an op is over bags, blocks or a sparse matrix")],
    ),
    (
        "dim D = 4\nop f():\n    param T[row, D]\n    return sum(T[i] for i in b)\n",
        [("2:5-7", "an op is over bags, blocks or a sparse matrix")],
    ),
    (
        "dim D = 4\nop f(b: bag of row, c: blocks of row):\n    param T[row, D]\n    return sum(T[i] for i in b)\n",
        [("2:5-38", "an op is over bags, blocks or a sparse matrix")],
    ),
    (
        "dim D = 4\nop f(b: bag of entry):\n    param T[entry, D]\n    return sum(T[i] for i in b)\n",
        [("2:16-21", "'entry' is an index set of ops already: choose another name")],
    ),
    (
        "dim D = 4\nop f(A: csr[row]):\n    param X[row, D]\n    return X\n",
        [("2:9-17", "'csr' is followed by what it is of: csr[row, col]")],
    ),
    (
        "dim D = 4\nop f(A: csr of row):\n    param X[row, D]\n    return X\n",
        [("2:9-19", "'csr' is followed by what it is of: csr[row, col]")],
    ),
    (
        "dim D = 4\nop f(b: bag of row, n: node):\n    param T[row, D]\n    return sum(T[i] for i in b)\n",
        [("2:24-28", "unknown index set 'node': no tensor is over it")],
    ),
    (
        "dim D = 4\nop f(b: graph):\n    return 3\n",
        [("2:9-14", "an op is over bags, blocks or a sparse matrix, not over 'graph'")],
    ),
    (
        "dim D = 4, bags = 3\nop f(b: bag of row):\n    param T[row, D]\n    return sum(T[i] for i in b)\n",
        [("1:12-16", "'bags' is a part of the bags: choose another name")],
    ),
    (
        "dim D = 4\nop f(b: bag of D):\n    param T[D, D]\n    return sum(T[i] for i in b)\n",
        [("2:16-17", "'D' is a size: choose another name")],
    ),
    (
        "dim D = 4\nlayer f(b: bag of row):\n    param T[row, D]\n    return sum(T[i] for i in b)\n",
        [
            ("2:12-22", "unknown index set 'bag': a layer has node, edge, etype, ntype and graph"),
            ("3:13-16", "unknown size or index set 'row'"),
        ],
    ),
    (
        "dim D = 4\nop f(b: bag of T):\n    param T[T, D]\n    return sum(T[i] for i in b)\n",
        [("3:11-12", "'T' is an index set: choose another name")],
    ),
    (
        "dim D = 4\nop f(b: bag of b):\n    param T[b, D]\n    return sum(T[i] for i in b)\n",
        [("2:16-17", "'b' is what the op is over: choose another name")],
    ),
    (
        "dim D = 4\nop f(b: bag of row):\n    input e[entry, D]\n    return sum(e[b] for i in b)\n",
        [("4:16-20", "e is indexed by entry, but b is a bag")],
    ),
    (
        "dim D = 4\nop f(A: csr[row, sum]):\n    param X[row, D]\n"
        '    for z in A.nonzeros():\n        z["s"] = 1\n    return z["s"]\n',
        [("2:18-21", "'sum' is a built-in function: choose another name")],
    ),
    (
        "dim D = 4\nop f(A: csr[node, node]):\n    param x[node, D]\n    for i in A.rows():\n"
        '        i["h"] = x[i]\n        i["y"] = sum(j["h"] for j in A.row(i))\n    return i["y"]\n',
        [("6:22-28", "'h' of j is written in this same loop: read it in a loop of its own, behind")],
    ),
]


def op(header: str, body: str) -> str:
    """A body (without indentation) under a header, as a text."""
    return header + "".join(f"    {line}\n" for line in body.split("\n"))


def op_graph(text: str):
    """The graph of a text that must be right."""
    result = check(text)
    assert result.graph is not None, [entry.message for entry in result.diagnostics]
    return result.graph


@pytest.mark.parametrize(("body", "errors"), IN_BAGS)
def test_errors_in_bags(body: str, errors: list[tuple[str, str]]) -> None:
    assert found(check(op(BAG, body))) == errors


@pytest.mark.parametrize(("body", "errors"), IN_MATRICES)
def test_errors_in_matrices(body: str, errors: list[tuple[str, str]]) -> None:
    assert found(check(op(MATRIX, body))) == errors


@pytest.mark.parametrize(("body", "errors"), IN_BLOCKS)
def test_errors_in_blocks(body: str, errors: list[tuple[str, str]]) -> None:
    assert found(check(op(BLOCKS, body))) == errors


@pytest.mark.parametrize(("text", "errors"), WHOLE)
def test_errors_in_headers_and_declarations(text: str, errors: list[tuple[str, str]]) -> None:
    assert found(check(text)) == errors


def test_a_bag_s_entries_and_weights() -> None:
    graph = op_graph(op(BAG, "return sum(w * T[i] for i, w in b)"))
    assert (graph.family, graph.structure) == ("op", "bags")
    assert [(m.name, m.domain, m.codomain) for m in graph.maps] == [("bag", "entry", "bag"), ("idx", "entry", "row")]
    assert [(t.name, t.sets, t.kind) for t in graph.tensors] == [
        ("T", ("row",), "param"),
        ("weight", ("entry",), "structure"),
    ]
    assert graph.value(graph.result).index_set == "bag"


def test_a_sum_as_a_statement_is_the_comprehension() -> None:
    statements = op_graph(op(BAG, 'for i, w in b:\n    b["s"] += w * T[i]\nreturn b["s"]'))
    expression = op_graph(op(BAG, "return sum(w * T[i] for i, w in b)"))
    assert [value.operator for value in statements.values] == [value.operator for value in expression.values]


def test_weights_that_are_not_used_are_not_asked_for() -> None:
    graph = op_graph(op(BAG, "return sum(T[i] for i, w in b)"))
    assert [tensor.name for tensor in graph.tensors] == ["T"]


def test_a_matrix_whose_sets_have_the_names_of_its_maps() -> None:
    graph = op_graph(
        "dim D = 4\nop f(A: csr[col, row]):\n    param X[row, D], Y[col, D]\n    for i in A.rows():\n"
        '        i["y"] = sum(X[j] - Y[i] for j in A.row(i)) + Y[i]\n    return i["y"]\n'
    )
    gathers = [
        (v.operator.tensor, v.operator.indices, v.index_set) for v in graph.values if isinstance(v.operator, Gather)
    ]
    assert gathers == [("X", ("col",), "nonzero"), ("Y", ("row",), "nonzero"), ("Y", ("col",), "col")]


def test_data_of_nonzeros_is_read_in_the_loop_over_a_row() -> None:
    body = (
        'for z in A.nonzeros():\n    z["s"] = exp(z.value)\n'
        'for i in A.rows():\n    i["y"] = sum(j["s"] * X[j] for j in A.row(i))\nreturn i["y"]'
    )
    graph = op_graph(op(MATRIX, body))
    (total,) = (v for v in graph.values if isinstance(v.operator, Segment))
    assert (total.index_set, total.operator.map) == ("row", "row")


def test_a_column_of_a_square_matrix_has_the_data_of_its_row() -> None:
    text = (
        "dim D = 4\nop f(A: csr[node, node]):\n    param x[node, D]\n"
        '    for i in A.rows():\n        i["h"] = exp(x[i])\n'
    )
    text += '    for i in A.rows():\n        i["y"] = sum(j["h"] for j in A.row(i))\n    return i["y"]\n'
    graph = op_graph(text)
    assert any(isinstance(v.operator, Gather) and v.operator.indices == ("col",) for v in graph.values)


def test_tensors_over_entries_are_indexed_by_the_loop_s_variable() -> None:
    graph = op_graph(op(BAG, "return sum(e[i] * T[i] for i in b)").replace("T[row, D]", "T[row, D], e[entry]"))
    assert graph.values[0].operator.indices == ("entry",)


def test_a_helper_takes_a_bag_or_a_matrix() -> None:
    text = (
        "dim D = 4\ndef total(b, T):\n    return sum(T[i] for i in b)\n\n"
        + op(BAG, "return relu(total(b, T))").partition("\n")[2]
    )
    assert op_graph(text).value(op_graph(text).result).index_set == "bag"
