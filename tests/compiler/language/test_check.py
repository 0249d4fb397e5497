"""Names, sizes, index sets and definitions: what is accepted, and each mistake with its place and fix."""

import pytest

from explorer.compiler.ir.graph import Gather
from explorer.compiler.ir.node import Span
from explorer.compiler.language.elaborate.result import CheckResult
from explorer.compiler.options import Negatives

from .helpers import HEADER, check, check_body, errors_of, found, graph_of, model, place


def labels(result: CheckResult) -> list[tuple[str, str]]:
    """Each operation's label and the place of its span."""
    return [(site.label, place(site.span)) for site in result.operations]


@pytest.mark.parametrize(
    ("body", "where", "message"),
    [
        ("return norm(Eemb[h])", "1:13-17", "unknown name 'Eemb': did you mean 'E'?"),
        ("return norm(E[hh])", "1:15-17", "unknown name 'hh': did you mean 'h'?"),
        ("return nrm(E[h])", "1:8-11", "unknown function 'nrm': did you mean 'norm'?"),
        ("return E(h)", "1:8-9", "'E' is not a function"),
        ("return softmax(b[r])", "1:16-20", "'softmax' works along the last dimension, but this is a number"),
        ("return norm(E[r])", "1:13-17", "E is indexed by entity, but r is a relation"),
        ("return norm(P[h] @ R[r])", "1:13-17", "P is indexed by relation, but h is an entity"),
        ("return norm(M[t, h])", "1:18-19", "M is indexed by relation, but h is an entity"),
        ("return norm(M[h])", "1:14-17", "M is indexed by an entity and a relation: 2 in all, not 1"),
        ("return norm(E[2])", "1:15-16", "E is indexed by entity, but '2' is not an index"),
        ("return norm(E[E[h]])", "1:15-19", "E is indexed by entity, but 'E[h]' is not an index"),
        ("return norm(E)", "1:13-14", "'E' has a row for each entity: take one, as in E[h]"),
        ("return norm(w0[h][0])", "1:13-18", "w0 is the same for every row and takes no index"),
        ("return E[h][r]", "1:8-15",
         "'E[h]' is a value, already taken for each row, and only tensors are indexed"),
        ("return norm(h[E])", "1:13-17", "'h' is an index, and only tensors are indexed"),
        ("return b[r] + h", "1:15-16", "'h' is an index of an entity, not a value"),
        ("return b[r] + entity", "1:15-21", "'entity' is an index set, not a value"),
        ("return b[r] + norm", "1:15-19", "'norm' is a function: call it with its arguments"),
        ("return sum(P.T[r] @ E[h])", "1:12-15", "'P' is transposed row by row: P[r].T"),
        ("return dot(E[h])", "1:8-17", "'dot' takes 2 arguments, not 1: dot(a, b)"),
        ("return norm(E[h], 1, 2)", "1:8-24", "'norm' takes 1 or 2 arguments, not 3: norm(x, p)"),
        ("return norm(E[h], q=1)", "1:19-20", "'norm' has no parameter 'q'"),
        ("return norm(E[h], x=1)", "1:21-22", "'norm' is given 'x' twice"),
        ("return norm(p=1)", "1:8-17", "'norm' takes 1 or 2 arguments, not 1: norm(x, p)"),
        ("return sum(concat(E[h]))", "1:12-24", "'concat' takes 2 or more arguments, not 1: concat(a, b, ...)"),
        ("E = b[r]\nreturn E", "1:1-2", "'E' is a declared param and cannot be assigned: choose another name"),
        ("h = b[r]\nreturn b[r]", "1:1-2", "'h' is an index and cannot be assigned: choose another name"),
        ("D = 3\nreturn b[r]", "1:1-2", "'D' is a size and cannot be assigned: choose another name"),
        ("return b[r]\nx = 3", "2:1-6", "nothing after 'return' is computed"),
        ("return 3", "1:8-9", "the score is the same for every triple: it uses none of h, r, t"),
        ("return sum(sum(w0))", "1:8-20", "the score is the same for every triple: it uses none of h, r, t"),
        ("param E[entity, D]\nreturn b[r]", "1:7-8", "'E' is declared in line 3 already: choose another name"),
        ("param h[entity, D]\nreturn b[r]", "1:7-8", "'h' is an index of the definition: choose another name"),
        ("param D[entity]\nreturn b[r]", "1:7-8", "'D' is a size: choose another name"),
        ("param norm[entity]\nreturn b[r]", "1:7-11", "'norm' is a built-in function: choose another name"),
        ("param entity[D]\nreturn b[r]", "1:7-13", "'entity' is an index set: choose another name"),
        ("param X[entty, D]\nreturn norm(X[h])", "1:9-14",
         "unknown size or index set 'entty': did you mean 'entity'?"),
        ("param X[entity, Q]\nreturn norm(X[h])", "1:17-18", "unknown size or index set 'Q'"),
        ("param X[D, entity]\nreturn norm(X[h])", "1:12-18",
         "index sets come first: 'entity' stands behind a dimension"),
        ("param X[entity, D / 2]\nreturn b[r]", "1:17-22", "a dimension is a whole number, known before the run"),
        ("param X[entity, D - 8]\nreturn b[r]", "1:17-22", "a dimension is from 1 to 65,536, not 0"),
        ("param X[entity, 10000 * 10000]\nreturn b[r]", "1:17-30",
         "a dimension is from 1 to 65,536, not 100,000,000"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_diagnostic_at_its_place(body: str, where: str, message: str) -> None:
    assert errors_of(body) == [(where, message)]


def test_all_errors_of_a_text_come_together() -> None:
    assert errors_of("x = Eemb[h] - E[r]\ny = P[h] @ 3\nreturn norm(x) + nrm(y) + E[h].shape") == [
        ("1:5-9", "unknown name 'Eemb': did you mean 'E'?"),
        ("1:15-19", "E is indexed by entity, but r is a relation"),
        ("2:5-9", "P is indexed by relation, but h is an entity"),
        ("3:18-21", "unknown function 'nrm': did you mean 'norm'?"),
        ("3:31-37", "a value has no '.shape': there is '.T', the transpose"),
    ]


def test_what_depends_on_an_error_is_not_reported() -> None:
    body = "x = Eemb[h]\ny = x @ P[r] + R[r]\nz = concat(y, y)[0:3].T\nreturn dot(z, x) + x[2]"
    assert errors_of(body) == [("1:5-9", "unknown name 'Eemb': did you mean 'E'?")]


def test_a_wrong_declaration_is_reported_once() -> None:
    assert errors_of("param X[entity, Q]\nreturn norm(X[h] - X[r]) + dot(X, 3)") == [
        ("1:17-18", "unknown size or index set 'Q'")
    ]


def test_fixes_name_what_to_use() -> None:
    def fixes(body: str) -> list[tuple[str, str, str]]:
        (diagnostic,) = check_body(body).diagnostics
        return [(fix.label, place(fix.span), fix.replacement) for fix in diagnostic.fixes]

    assert fixes("return norm(E[r])") == [("Use E[h]", "5:19-20", "h"), ("Use E[t]", "5:19-20", "t")]
    assert fixes("return norm(Eemb[h])") == [("Use E", "5:17-21", "E")]
    assert fixes("return norm(R)") == [("Use R[r]", "5:17-18", "R[r]")]
    assert fixes("return norm(E)") == []  # of h or of t?
    declared = "w0[entity, D, K]"
    assert fixes("return norm(sum(w0[h]))") == [(f"Declare {declared}", "4:59-67", declared)]
    assert fixes("return b[r] // 2") == []
    assert fixes("param w[Q]\nreturn dot(E[h], w)") == [("Declare dim Q = 64", "2:1-1", "dim Q = 64\n")]


def test_sizes_are_overridden() -> None:
    graph = graph_of("return norm(E[h])", sizes={"D": 100})
    assert graph.sizes == (("D", 100), ("K", 4), ("H", 2))


@pytest.mark.parametrize(
    ("declaration", "where", "message"),
    [
        ("D = 1000000000", "1:9-19", "the size 'D' is from 1 to 65,536, not 1,000,000,000"),
        ("D = 0", "1:9-10", "the size 'D' is from 1 to 65,536, not 0"),
        ("D = -3", "1:9-11", "the size 'D' is from 1 to 65,536, not -3"),
        ("D = 1.5", "1:9-12", "the size 'D' is a whole number from 1 to 65,536"),
        ("D = 1e3", "1:9-12", "the size 'D' is a whole number from 1 to 65,536"),
        ("D = K", "1:9-10", "unknown size 'K'"),
        ("K = 2, D = 2 * k", "1:20-21", "unknown size 'k': did you mean 'K'?"),
        ("K = 2, D = K / 2", "1:18-19", "a size is computed with +, -, *, // and %"),
        ("D = 4 // (2 - 2)", "1:11-13", "division by zero"),
        ("D = 4 - 5", "1:9-14", "the size 'D' is from 1 to 65,536, not -1"),
        ("D = 999999999 * 999999999", "1:9-30", "a size is at most 65,536, and 999999999 * 999999999 is far more"),
        ("D = norm(2)", "1:9-16", "the size 'D' is a whole number from 1 to 65,536"),
        ("D = --2.5", "1:9-14", "the size 'D' is a whole number from 1 to 65,536"),
        ("D = 4, D = 5", "1:12-13", "the size 'D' is declared twice"),
        ("D = 4, norm = 5", "1:12-16", "'norm' is a built-in function: choose another name"),
        ("D = 4, relation = 5", "1:12-20", "'relation' is an index set: choose another name"),
    ],
)
def test_sizes_are_checked(declaration: str, where: str, message: str) -> None:
    header = "score f(h: entity, r: relation, t: entity):"
    text = f"dim {declaration}\n{header}\n    param E[entity, D]\n    return norm(E[h])\n"
    assert found(check(text)) == [(where, message)]


@pytest.mark.parametrize(
    ("declaration", "sizes", "want"),
    [
        ("D = 4, K = 2 * D", {}, {"D": 4, "K": 8}),
        ("D = 4, K = 2 * D", {"D": 6}, {"D": 6, "K": 12}),
        ("D = 4, K = 2 * D", {"K": 3}, {"D": 4, "K": 3}),
        ("D = 9, K = -(1 - D) // 2 + 3 * D - 1", {}, {"D": 9, "K": 30}),
    ],
)
def test_a_size_is_computed_of_those_before_it(declaration: str, sizes: dict[str, int], want: dict[str, int]) -> None:
    header = "score f(h: entity, r: relation, t: entity):"
    graph = check(f"dim {declaration}\n{header}\n    param E[entity, K]\n    return norm(E[h])\n", sizes=sizes).graph
    assert graph is not None
    assert dict(graph.sizes) == want


def test_a_size_of_a_run_is_checked_at_its_declaration() -> None:
    text = model("return norm(E[h])")
    assert found(check(text, sizes={"D": 10**9})) == [("1:5-6", "the size 'D' is from 1 to 65,536, not 1,000,000,000")]
    assert check(text, sizes={"D": 65_536}).graph
    assert found(check(text, sizes={"Dd": 3})) == [("", "the text declares no size 'Dd': did you mean 'D'?")]


@pytest.mark.parametrize(
    ("parameters", "where", "message"),
    [
        ("()", "1:8-10", "a score is of ids, each of a set: f(h: entity, r: relation, t: entity)"),
        ("(h: entity, t: blocks of entity)", "1:23-39", "an id of a score is of a set, not of 'blocks': t: entity"),
        ("(h: entity, t: batch)", "1:23-28",
         "'batch' is a set that every score has: choose another name for the index set"),
        ("(h: entity, t: norm)", "1:23-27", "'norm' is a built-in function: choose another name for the index set"),
        ("(h: entity, r, t: entity)", "1:20-21", "'r' needs its index set: 'r: entity' or 'r: relation'"),
        ("(h: entity, r: rel, t: entity)", "1:23-26", "unknown index set 'rel': did you mean 'relation'?"),
        ("(h: entity, r: node, t: entity)", "1:23-27",
         "unknown index set 'node': no tensor is over it"),
        ("(h: entity, h: relation, t: entity)", "1:20-21", "the parameter 'h' is there twice"),
    ],
)  # fmt: skip
def test_a_score_is_of_ids(parameters: str, where: str, message: str) -> None:
    text = f"score f{parameters}:\n    param E[entity, 4]\n    return norm(E[t])\n"
    assert (where, message) in found(check(text))


@pytest.mark.parametrize(
    ("header", "fixed"),
    [
        ("h, r, t", "h: entity, r: relation, t: entity"),
        ("h: entity, r, t: entity", "h: entity, r: relation, t: entity"),
        ("h, r, t: when", "h: entity, r: relation, t: when"),
    ],
)
def test_ids_are_of_the_sets_whose_tensors_they_index(header: str, fixed: str) -> None:
    over = "when" if "when" in header else "entity"
    text = (
        f"score f({header}):\n    param E[entity, 4], R[relation, 4], T[{over}, 4]\n    return dot(E[h] * R[r], T[t])\n"
    )
    told = check(text).diagnostics
    assert told
    assert all("needs its index set" in each.message for each in told)
    (fix,) = {fix for each in told for fix in each.fixes}
    lines = text.split("\n")
    assert fix.span.line == fix.span.end_line == 1
    line = lines[0][: fix.span.column - 1] + fix.replacement + lines[0][fix.span.end_column - 1 :]
    assert line == f"score f({fixed}):"
    assert check("\n".join([line, *lines[1:]])).graph


def test_an_id_that_indexes_nothing_is_of_no_set() -> None:
    text = "score f(h, r):\n    param E[entity, 4]\n    return dot(E[h], E[h])\n"
    assert [each.fixes for each in check(text).diagnostics] == [(), ()]


def test_the_maps_may_have_any_names() -> None:
    text = "score f(s: entity, p: relation, o: entity):\n    param E[entity, 4]\n    return dot(E[o], E[s])\n"
    graph = check(text).graph
    assert graph is not None
    assert [(entry.name, entry.domain, entry.codomain) for entry in graph.maps] == [
        ("s", "batch", "entity"),
        ("p", "batch", "relation"),
        ("o", "batch", "entity"),
    ]
    assert graph.values[-1].depends == ("s", "o")


@pytest.mark.parametrize(("end", "negative"), [("tail", "t"), ("head", "h")])
def test_negatives_make_a_set_of_their_own(end: str, negative: str) -> None:
    graph = graph_of("return norm((E[h] - E[t]) @ P[r] + R[r] + sum(w0.T))", negatives=Negatives(end, 4))
    assert {entry.name: entry.domain for entry in graph.maps}[negative] == "negative"
    for value in graph.values:
        expected = "negative" if negative in value.depends else "batch" if value.depends else "unit"
        assert value.index_set == expected
    assert graph.values[-1].index_set == "negative"


def test_operations_know_their_operator_and_extent() -> None:
    result = check_body("x = E[h] - E[t]\nreturn norm(-x @ P[r] + R[r] * 2, 2)")
    assert labels(result) == [
        ("E[h]", "5:9-13"), ("-", "5:14-15"), ("E[t]", "5:16-20"),
        ("norm", "6:12-16"), ("-", "6:17-18"), ("@", "6:20-21"), ("P[r]", "6:22-26"),
        ("+", "6:27-28"), ("R[r]", "6:29-33"), ("*", "6:34-35"), ("2", "6:36-37"),
    ]  # fmt: skip
    extents = {site.label: site.extent for site in result.operations}
    assert extents["@"] == Span(6, 17, 6, 26)
    assert extents["norm"] == Span(6, 12, 6, 41)


def test_every_value_comes_from_a_listed_operation() -> None:
    result = check_body("x = w0[0:2].T @ E[h][:D]\ny = mats[r] @ E[t]\nreturn sum(x) + sum(sum(y)) + sqrt(K) * b[r]")
    assert result.graph is not None
    spans = {site.span for site in result.operations}
    assert {value.origin for value in result.graph.values} <= {(span,) for span in spans}
    assert {value.origin[0] for value in result.graph.values} == spans


def test_values_are_numbered_and_each_use_has_its_own() -> None:
    graph = graph_of("return dot(E[h], E[h])")
    assert [value.name for value in graph.values] == ["%1", "%2", "%3"]
    assert [value.origin for value in graph.values[:2]] == [(Span(5, 16, 5, 20),), (Span(5, 22, 5, 26),)]


def test_a_name_may_be_assigned_again() -> None:
    graph = graph_of("x = E[h]\nx = x - E[t]\nreturn norm(x)")
    assert len(graph.values) == 4


def test_a_name_that_was_assigned_a_tensor_or_an_index_may_be_assigned_again() -> None:
    graph_of("x = heads\nx = w0\nreturn norm(E[h] @ x)")
    graph_of("x = h\nx = t\nreturn norm(E[x])")


def test_a_parameter_of_a_helper_is_a_name_of_its_own() -> None:
    text = model("return halved(E[h], w0)").replace(
        "score", "def halved(x, w0):\n    w0 = w0 / 2\n    return norm(x @ w0)\nscore"
    )
    assert found(check(text)) == []
    inside = model("w0 = w0 / 2\nreturn halved(E[h], w0)").replace(
        "score", "def halved(x, w):\n    w = w / 2\n    return norm(x @ w)\nscore"
    )
    assert [message for _, message in found(check(inside))] == [
        "'w0' is a declared param and cannot be assigned: choose another name"
    ]


def test_a_helper_is_inlined_and_keeps_its_spans() -> None:
    text = "def gap(T, i, j):\n    d = T[i] - T[j]\n    return d\n" + model("return dot(gap(E, h, t), gap(E, t, h))")
    result = check(text)
    assert result.graph is not None
    assert [value.origin[0].line for value in result.graph.values] == [2, 2, 2, 2, 2, 2, 8]
    assert [value.operator.indices for value in result.graph.values if isinstance(value.operator, Gather)] == [
        ("h",), ("t",), ("t",), ("h",),
    ]  # fmt: skip
    assert labels(result) == [("T[i]", "2:9-13"), ("-", "2:14-15"), ("T[j]", "2:16-20"), ("dot", "8:12-15")]


def test_helpers_have_defaults_keywords_and_index_sets() -> None:
    text = "def half(x, by=K // 2):\n    return x / by\ndef row(T, i: entity):\n    return T[i]\n"
    assert check(text + model("return sum(half(E[h])) + sum(half(by=3, x=row(E, t)))")).graph
    assert found(check(text + model("return norm(row(R, r))"))) == [
        ("9:17-26", "'row' needs an index of entity for 'i'")
    ]
    assert found(check(text + model("return half() + half(1, 2, 3) + half(y=2)"))) == [
        ("9:12-18", "'half' takes 1 or 2 arguments, not 0: half(x, by)"),
        ("9:21-34", "'half' takes 1 or 2 arguments, not 3: half(x, by)"),
        ("9:42-43", "'half' has no parameter 'y'"),
    ]


def test_a_helper_sees_its_parameters_only() -> None:
    text = "def f2(x):\n    return x + b[r]\n" + model("return f2(b[r])")
    said = "a helper sees its parameters alone: 'b' is declared where it is called"
    assert found(check(text)) == [("2:16-17", said), ("2:18-19", "unknown name 'r'")]


def test_an_error_in_a_helper_is_reported_once_and_where_it_stands() -> None:
    text = "def g(x):\n    return x @ x.T\n" + model("return norm(g(E[h])) + norm(g(E[t]))")
    assert found(check(text)) == [("2:17-19", "'.T' needs two dimensions, but the value is [D]")]


def test_helpers_do_not_recurse() -> None:
    text = "def p(x):\n    return q(x)\ndef q(x):\n    return p(x)\n" + model("return p(b[r])")
    assert found(check(text)) == [("4:12-13", "'p' calls itself: the language has no recursion")]


def test_a_helper_declares_nothing() -> None:
    text = "def p(x):\n    param Q[entity]\n    return x\n" + model("return p(b[r])")
    assert found(check(text)) == [
        ("2:11-20", "a helper declares no tensors: declare the 'param' where it is called, and pass it")
    ]


def test_a_body_needs_its_return() -> None:
    assert found(check_body("x = b[r]")) == [("2:1-43", "'f' has no 'return'")]
    assert found(check("def p(x):\n    y = x\n" + model("return p(b[r])"))) == [("1:1-9", "'p' has no 'return'")]


def test_the_last_score_runs_or_the_named_one() -> None:
    other = HEADER.replace("dim D = 8, K = 4, H = 2\n", "").replace("score f", "score g")
    text = model("return b[r]") + other + "    return norm(E[h])\n" + "def last(x):\n    return x\n"
    for name, expected in ((None, "g"), ("f", "f"), ("g", "g")):
        graph = check(text, name=name).graph
        assert graph is not None
        assert graph.name == expected
    assert found(check(text, name="gg")) == [("", "the text defines no score, layer or op 'gg': did you mean 'g'?")]


def test_the_other_scores_are_checked_too() -> None:
    text = model("return nothing") + HEADER.split("\n", 1)[1].replace("score f", "score g") + "    return b[r]\n"
    assert found(check(text)) == [("5:12-19", "unknown name 'nothing'")]


def test_names_of_definitions_are_taken_once() -> None:
    text = "def f(x):\n    return x\n" + model("return b[r]") + "def norm(x):\n    return x\n"
    assert found(check(text)) == [
        ("4:7-8", "'f' is defined twice"),
        ("8:5-9", "'norm' is a built-in function: choose another name"),
    ]


def test_a_text_without_a_score() -> None:
    for text in ("", "dim D = 3\n", "def f(x):\n    return x\n"):
        message = "the text defines no score, no layer and no op: there is nothing to compile"
        assert found(check(text)) == [("1:1-1", message)]


def test_operations_are_limited() -> None:
    assert graph_of("return " + " + ".join(["b[r]"] * 500))
    assert errors_of("return " + " + ".join(["b[r]"] * 501)) == [
        ("1:3506-3507", "a definition has at most 1,000 operations")
    ]


def test_dimensions_are_limited() -> None:
    """A product names those of both sides by letters: of 27, some were left without one, and counting failed."""
    eight = ", ".join(["2"] * 8)
    declared = f"param X[entity, {eight}], Y[relation, {eight}]\n"
    assert graph_of(f"{declared}return {'sum(' * 8}X[h] @ Y[r]{')' * 8}")
    assert errors_of(f"param X[entity, {eight}, 2]\nreturn b[r]") == [
        ("1:7-43", "a row has at most 8 dimensions; these would have 9")
    ]
    errors = errors_of(f"{declared}return {'sum(' * 9}repeat(X[h], 2){')' * 9}")
    assert [message for _, message in errors] == ["a row has at most 8 dimensions; this one would have 9"]


@pytest.mark.parametrize(
    "expression",
    ["-" * 30_000 + "b[r]", " + ".join(["1"] * 15_000), "w0" + ".T" * 20_000, "b[r]" + " + b[r]" * 8_000],
)
def test_long_expressions_end_in_the_limit(expression: str) -> None:
    (error,) = errors_of("return " + expression)
    assert error[1] == "a definition has at most 1,000 operations"


def test_helpers_that_double_end_in_the_limit() -> None:
    doubling = "".join(f"def p{i}(x):\n    y = p{i + 1}(x)\n    return p{i + 1}(y)\n" for i in range(30))
    text = doubling + "def p30(x):\n    return x\n" + model("return p0(b[r])")
    assert [message for _, message in found(check(text))] == ["a definition has at most 1,000 operations"]


def test_a_long_chain_of_helpers_is_no_recursion_error() -> None:
    chain = "".join(f"def p{i}(x):\n    return p{i + 1}(x)\n" for i in range(900))
    text = chain + "def p900(x):\n    return x\n" + model("return p0(b[r])")
    assert [message for _, message in found(check(text))] == [
        "this expression nests too deeply, with the helpers that it calls"
    ]


def test_the_deepest_expression_that_is_allowed() -> None:
    expression = "b[r]"
    for _ in range(19):
        expression = f"abs(1 + 2 * -{expression})"
    assert graph_of(f"return {expression}")
