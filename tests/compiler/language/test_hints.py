"""What a message says of texts as they are written for NumPy, PyTorch or Python: what is wrong, and what to write."""

import re

import pytest

from explorer.compiler.language.diagnostics import Diagnostic
from explorer.compiler.language.names.builtins import BUILTINS, INSTEAD
from explorer.compiler.language.names.prelude import prelude

from .helpers import check

SCORE = "dim D = 4\nscore f(h: entity, r: relation, t: entity):\n    param E[entity, D], P[relation, D, D]\n"
LAYER = "dim F = 4\nlayer f(g: graph):\n    input x[node, F]\n"
BAG = "dim D = 4\nop f(b: bag of row):\n    param T[row, D]\n"
MATRIX = "dim D = 4\nop f(A: csr[row, col]):\n    param X[col, D]\n"
NODES = 'for n in g.nodes():\n    n["h"] = {}\nreturn n["h"]'
EDGES = 'for e in g.edges():\n    e["h"] = {}\nreturn e["h"]'
METHOD = "A function stands before what it takes, as in sum(x), and its name has no dot."
TRUTH = "the language has no truth values: a comparison is 0 or 1, c * d is both, max(c, d) either, 1 - c not"
BRANCHES = "the language has no branches: every row computes the same, and where(c, a, b) chooses"


def first(head: str, body: str) -> Diagnostic:
    """The first diagnostic of a body under a header."""
    result = check(head + "".join(f"    {line}\n" for line in body.split("\n")))
    assert result.graph is None
    return result.diagnostics[0]


@pytest.mark.parametrize(("head", "body", "message", "detail"), [
    (SCORE, "return (E[h] * E[t]).sum()", "the language has no methods", METHOD),
    (SCORE, "return torch.norm(E[h] - E[t])", "functions stand without their module: norm(...)", ""),
    (SCORE, "return sum(E[h]) if D else 0", BRANCHES, ""),
    (SCORE, "f = lambda x: x\nreturn f(D)", "the language has no 'lambda': a helper is a 'def'", ""),
    (SCORE, "return sum(E[h]) and 1", TRUTH, ""),
    (SCORE, "return not sum(E[h])", TRUTH, ""),
    (SCORE, "lambda = E[h]\nreturn sum(E[h])", "the language has no 'lambda': a helper is a 'def'", ""),
    (SCORE, "param lambda[D]\nreturn sum(E[h])", "'lambda' is a word of Python and cannot be a name", ""),
    (SCORE, "return matmul(E[h], P[r])", "unknown function 'matmul'", "Write a @ b."),
    (SCORE, "return mish(sum(E[h]))", "unknown function 'mish'", "Write x * tanh(softplus(x))."),
    (SCORE, "return einsum(E[h], E[t])",
     'einsum has its letters first, and then its values: einsum("hd,hde->he", x, W)', ""),
    (SCORE, "return E[h] for e in h",
     "a 'for' stands in the brackets of sum, mean, prod, min, max, logsumexp, stack or concat",
     "As in sum(x[e.src] for e in n.incoming_edges()) or stack(W[k] for k in 0..K)."),
    (LAYER, "param W[F]\nreturn sum(W for n in g.nodes())",
     "this is the same for every node: a reduction of all of them is of what they have",
     "How many there are is sum(x[n] == x[n] for n in g.nodes()), with any number x of each: it is 1."),
    (LAYER, NODES.format("n.out_degree"), "unknown data 'out_degree' of a node: nodes have x",
     "The graph gives n.ntype, n.id, n.in_degree."),
    (LAYER, EDGES.format("e.weight"), "unknown data 'weight' of an edge: nothing is written on edges",
     "The graph gives e.src, e.dst, e.etype, e.id, e.norm."),
    (LAYER, "return x", "'x' has a row for each node",
     "An index takes one, as in x[i], where a loop or the header has it."),
    (LAYER, "return g[x]", "'g' is the graph, and only tensors are indexed",
     "A reduction goes over the edges of a node, or over all nodes or edges."),
    (LAYER, "param upstream[F]\nreturn x",
     "'upstream' is what the gradient of the result is called: choose another name", ""),
    (BAG, "return mean(T)", "'T' has a row for each row",
     "An index takes one, as in T[i], where a loop or the header has it."),
    (BAG, "return sum(T[i] for i in b) / len(b)", "unknown function 'len'",
     "Write sum(1 for i in b), or n.in_degree for the edges into a node."),
    (MATRIX, 'for i in A.rows():\n    i["y"] = sum(A[i, j] * X[j] for j in A.row(i))\nreturn i["y"]',
     "'A' is the matrix, and only tensors are indexed",
     "A reduction goes over the nonzeros of a row: sum(a * X[j] for j, a in A.row(i)), in a loop for i in A.rows()."),
])  # fmt: skip
def test_what_is_wrong_and_what_to_write(head: str, body: str, message: str, detail: str) -> None:
    found = first(head, body)
    assert (found.message, found.detail) == (message, detail)


def test_a_size_may_not_have_the_name_of_the_gradient() -> None:
    found = check(LAYER.replace("F", "upstream") + "    return x\n").diagnostics[0]
    assert found.message == "'upstream' is what the gradient of the result is called: choose another name"


def test_no_function_is_said_to_be_missing_that_is_there() -> None:
    assert not INSTEAD.keys() & {*BUILTINS, *prelude()}


@pytest.mark.parametrize("word", sorted(INSTEAD))
def test_what_to_write_is_in_the_language(word: str) -> None:
    """Every function that an advice names is one that can be called."""
    called = set(re.findall(r"(\w+)\(", INSTEAD[word]))
    assert called <= {*BUILTINS, *prelude()}


def test_a_function_of_the_prelude_is_found_by_its_spelling() -> None:
    found = first(SCORE, "return sum(softpluss(E[h]))")
    assert found.message == "unknown function 'softpluss': did you mean 'softplus'?"


def test_a_pasted_module_is_told_who_writes_its_text_and_what_becomes_of_each_method() -> None:
    """The forms of a definition are told once, and not again at each method."""
    methods = "    def __init__(self, n):\n        pass\n    def forward(self, h):\n        return h\n"
    found = {diagnostic.span.line: diagnostic for diagnostic in check(f"class Net(nn.Module):\n{methods}").diagnostics}
    assert "`explorer import model.py:example` writes the text" in found[1].detail
    assert found[2].detail == "What it makes is declared at the beginning of the definition, as in param E[entity, D]."
    assert found[4].detail == "Its lines are the body of the definition."
