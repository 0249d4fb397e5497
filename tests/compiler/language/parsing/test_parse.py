"""Text to syntax: layout, every error with its place, and how far one error reaches."""

import sys
from pathlib import Path

import pytest

from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import DiagnosticsError
from explorer.compiler.language.parsing import parse as parsing
from explorer.compiler.language.parsing import syntax
from explorer.compiler.language.parsing.parse import LARGEST_TEXT, parse
from explorer.compiler.language.parsing.pasted import is_python

from ..helpers import check, errors_of, found, graph_of, model, place

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
SCORE = "score f(h: entity, r: relation, t: entity):\n"


def syntax_errors(text: str) -> list[tuple[str, str]]:
    """Each syntax error's place and message."""
    return [(place(entry.span), entry.message) for entry in parse(text).errors]


def test_spans_are_of_operators_and_extents_of_whole_expressions() -> None:
    program = parse(SCORE + "    return norm((E[h] - E[t]) @ P[r].T, 2)\n")
    returned = program.definitions[0].statements[0]
    assert isinstance(returned, syntax.Return)
    call = returned.values[0]
    assert isinstance(call, syntax.Call)
    assert (call.function.extent, call.extent) == (Span(2, 12, 2, 16), Span(2, 12, 2, 43))
    product = call.arguments[0].value
    assert isinstance(product, syntax.Binary)
    assert (product.operator, product.span, product.extent) == ("@", Span(2, 31, 2, 32), Span(2, 17, 2, 39))
    assert isinstance(product.left, syntax.Parentheses)
    assert product.left.inner.extent == Span(2, 18, 2, 29)
    assert isinstance(product.right, syntax.Attribute)
    assert product.right.span == Span(2, 37, 2, 39)


def test_precedence_and_associativity_are_those_of_python() -> None:
    graph = graph_of("x = -E[h] * 2 + E[t] - E[h] / 2\nreturn sum(x)")
    assert [value.operator.function for value in graph.values if hasattr(value.operator, "function")] == [
        "neg", "mul", "add", "div", "sub", "sum",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        SCORE + "    return norm(E[h])",
        SCORE.replace("\n", "\r\n") + '    "doc"\r\n\r\n    return norm(E[h])\r\n',
        "# a comment\n\n" + SCORE + "# at the margin\n\n        # deep\n    return norm(E[h])  # behind\n    # last",
        SCORE + "\treturn norm(E[h])\n",
        SCORE + "    return norm(\nE[h]\n        )\n",
        SCORE + "    return norm( # why\n      E[h])\n",
        SCORE + "    return \\\n  norm(E[h])\n",
        "score f(\n    h: entity,\n    r: relation,\n    t: entity,\n):\n    return norm(E[h],)\n",
        "\ufeff" + SCORE + '    """Several\nlines"""\n    return norm(E[h])\n',
        SCORE.replace("\n", " return norm(E[h])\n"),
    ],
)
def test_layouts_that_parse(text: str) -> None:
    program = parse(text)
    assert [definition.name.text for definition in program.definitions] == ["f"]


def test_an_empty_text_parses_to_nothing() -> None:
    assert parse("") == parse("\n\n# only\n") == syntax.Program()


@pytest.mark.parametrize(
    ("line", "where", "message"),
    [
        ("return norm(E[h] + )", "1:20-21", "expected an expression after '+', not ')'"),
        ("return E[h] +", "1:13-14", "expected an expression after '+'"),
        ("return", "1:1-7", "expected an expression after 'return'"),
        ("x =", "1:3-4", "expected an expression after '='"),
        ("return dot(E[h], , E[t])", "1:18-19", "expected an expression after ',', not ','"),
        ("return norm()+ * 3", "1:16-17", "expected an expression after '+', not '*'"),
        ("return E[]", "1:10-11", "expected an expression inside '[', not ']'"),
        ("return E[h] E[t]", "1:13-14", "expected ',' or an operator between ']' and 'E'"),
        ("return 2 x", "1:10-11", "expected ',' or an operator between '2' and 'x'"),
        ("return 2x", "1:9-10", "expected ',' or an operator between '2' and 'x'"),
        ("return norm(E[h]", "1:12-13", "'(' is never closed"),
        ("return norm(E[h)", "1:14-15", "'[' is never closed"),
        ("return E[h])", "1:12-13", "')' has no bracket that it closes"),
        ("return E[h] ** ** 2", "1:16-18", "expected an expression after '**', not '**'"),
        ("return E[h] > 0 > 1", "1:17-18", "a comparison has two sides: '>' cannot follow another"),
        ("return E[h] $ 2", "1:13-14", "the language has no character '$'"),
        ("return é", "1:8-9",
         "the language has no character 'é' (U+00E9): names are of ASCII letters, digits and '_'"),
        ("return \x00", "1:8-9",
         "the language has no character U+0000: names are of ASCII letters, digits and '_'"),
        ('return "a', "1:8-9", "this string is never closed"),
        ("return 'a'", "1:8-9", "strings stand in double quotes"),
        ("return lambda", "1:8-14", "the language has no 'lambda': a helper is a 'def'"),
        ("return param", "1:8-13", "'param' is a word of the language and cannot be a name"),
        ("dim = 3", "1:1-4",
         "'dim' begins no statement: a definition has 'param', 'input', assignments, 'for' and 'return'"),
        ("x -+ E[h]", "1:3-4", "expected '=' after 'x', not '-'"),
        ("x = y += E[h]", "1:7-9", "'+=' stands behind a name or data, as in x += y"),
        ("x @= E[h]", "1:3-4", "expected '=' after 'x', not '@'"),
        ("x", "1:1-2", "'x' begins no statement: a definition has 'param', 'input', assignments, 'for' and 'return'"),
        ("parm X[entity, D]", "1:1-5", "no line begins with 'parm': did you mean 'param'?"),
        ("retrun E[h]", "1:1-7", "no line begins with 'retrun': did you mean 'return'?"),
        ("param X Y", "1:9-10", "expected ':', ',' or '[' after 'X', not 'Y'"),
        ("param X[entity, D", "1:8-9", "'[' is never closed"),
        ("if x:", "1:1-3", "the language has no branches: every row computes the same, and where(c, a, b) chooses"),
        ("for e g.edges():", "1:7-8", "expected 'in' after 'e', not 'g'"),
        ("import numpy", "1:1-7", "the language has no imports"),
        ("return E[h] for i in b()", "1:13-16",
         "a 'for' stands in the brackets of sum, mean, prod, min, max, logsumexp, stack or concat"),
        ("return x[1:2:3:4]", "1:15-16", "expected ']' after '3', not ':'"),
        ("return E[h]; x = 2", "1:12-13", "the language has no character ';'"),
    ],
)  # fmt: skip
def test_an_error_in_the_middle_of_a_line(line: str, where: str, message: str) -> None:
    assert errors_of(line) == [(where, message)]


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("score <script>alert(1)</script>(h: entity):\n    return 1\n", "1:7-8",
         "expected a name after 'score', not '<'"),
        ("score f(h entity):\n    return 1\n", "1:11-17", "expected ':', ',', '=' or ')' after 'h', not 'entity'"),
        ("score f(h: entity)\n    return 1\n", "1:18-19", "expected ':' after ')'"),
        ("score (h: entity):\n    return 1\n", "1:7-8", "expected a name after 'score', not '('"),
        ("score f(h: entity):\nreturn 1\n", "1:1-20",
         "the definition has no body: its lines stand below it, indented"),
        ("score f(h: entity):", "1:1-20", "the definition has no body: its lines stand below it, indented"),
        ("dim D\n", "1:5-6", "expected '=' after 'D'"),
        ("dim D = 3 K = 4\n", "1:11-12", "expected ',' or an operator between '3' and 'K'"),
        ("scor f(h: entity):\n    return 1\n", "1:1-5", "no line begins with 'scor': did you mean 'score'?"),
        ("x = 3\n", "1:1-2",
         "'x' cannot stand here: outside of definitions a text has 'dim', 'score', 'layer', 'op' and 'def'"),
        ("return 3\n", "1:1-7",
         "'return' cannot stand here: outside of definitions a text has 'dim', 'score', 'layer', 'op' and 'def'"),
    ],
)  # fmt: skip
def test_an_error_outside_of_a_body(text: str, where: str, message: str) -> None:
    assert (where, message) in syntax_errors(text)


def test_each_line_has_its_own_error_and_names_are_still_checked() -> None:
    assert errors_of("x = E[h] +\ny = Eemb[h]\nz = (\nreturn norm(y) + x + z + q") == [
        ("1:10-11", "expected an expression after '+'"),
        ("2:5-9", "unknown name 'Eemb': did you mean 'E'?"),
        ("3:5-6", "'(' is never closed"),
        ("4:26-27", "unknown name 'q'"),
    ]


def test_what_a_broken_line_may_have_defined_is_not_reported() -> None:
    assert errors_of("param Q[entity D]\nx = Q[h] E[h]\nreturn norm(Q[h] + x)") == [
        ("1:16-17", "expected ',' or an operator between 'entity' and 'D'"),
        ("2:10-11", "expected an operator between ']' and 'E'"),
    ]


def test_a_broken_header_hides_its_body_only() -> None:
    text = "score f(h entity):\n    return nothing here\n" + SCORE + "    return nothing2\n"
    assert found(check(text)) == [
        ("1:11-17", "expected ':', ',', '=' or ')' after 'h', not 'entity'"),
        ("2:20-24", "expected ',' or an operator between 'nothing' and 'here'"),
        ("4:12-20", "unknown name 'nothing2'"),
    ]


def test_an_unclosed_bracket_ends_where_the_next_statement_begins() -> None:
    assert errors_of("x = norm((E[h]\nreturn norm(E[t] + zz)") == [
        ("1:9-10", "'(' is never closed"),
        ("1:10-11", "'(' is never closed"),
        ("2:20-22", "unknown name 'zz'"),
    ]


def test_unexpected_indentation_is_one_error() -> None:
    text = SCORE + "    param E[entity, 4]\n        x = E[h]\n    y = E[t]\n    return dot(x, y)\n"
    assert found(check(text)) == [("3:9-17", "this line is indented, but the line above opens no block")]
    text = SCORE + "        param E[entity, 4]\n    return norm(E[h])\n"
    message = "this line stands less deep than its block and deeper than the block around it"
    assert found(check(text)) == [("3:1-5", message)]


def test_a_body_at_the_margin_is_one_error_and_is_checked() -> None:
    text = SCORE + "param E[entity, 4]\nreturn norm(E[h] + zz)\ndef f2(x):\nscore g(h: entity):\n"
    message = "the definition has no body: its lines stand below it, indented"
    errors = found(check(text))
    assert errors[:4] == [
        ("1:1-44", message),
        ("3:20-22", "unknown name 'zz'"),
        ("4:1-11", message),
        ("5:1-20", message),
    ]


def test_tabs_and_spaces_do_not_mix() -> None:
    text = SCORE + "    param E[entity, 4]\n\tx = E[h]\n    return norm(x)\n"
    message = "this line is indented with tabs, the lines above with spaces"
    assert ("3:1-2", message) in found(check(text))


def test_the_text_is_limited() -> None:
    comment = "#" * (LARGEST_TEXT - len(model("return b[r]")))
    assert check(model("return b[r]") + comment).graph
    assert found(check(model("return b[r]") + comment + "é")) == [("", "a text has at most 64 KiB, this one 65 KiB")]


def test_brackets_nest_to_a_limit() -> None:
    assert check(model("return " + "(" * 20 + "2 * 3" + ")" * 20 + " * b[r]")).graph
    assert errors_of("return " + "(" * 10_000 + "b[r]" + ")" * 10_000) == [("1:28-29", "brackets nest deeper than 20")]
    assert errors_of("return " + "(" * 10_000) == [("1:28-29", "brackets nest deeper than 20")]


def test_names_and_numbers_have_a_length() -> None:
    assert graph_of(f"{'x' * 64} = b[r]\nreturn {'x' * 64}")
    assert errors_of(f"{'x' * 65} = 3\nreturn b[r]") == [("1:1-66", "a name has at most 64 characters, this one 65")]
    assert errors_of(f"return b[r] + {'9' * 5000}") == [("1:15-5015", "a number has at most 64 digits")]


def test_errors_are_collected_to_a_limit() -> None:
    assert len(errors_of("x = \n" * 5000 + "return 1")) == 50


def test_parse_keeps_the_lines_that_parse() -> None:
    program = parse(SCORE + "    x = \n    y = 3\n    return (\n")
    assert [place(entry.span) for entry in program.errors] == ["2:7-8", "4:12-13"]
    assert [type(statement) for statement in program.definitions[0].statements] == [
        syntax.Broken,
        syntax.Assignment,
        syntax.Broken,
    ]


def test_parse_raises_for_a_text_beyond_the_limits() -> None:
    with pytest.raises(DiagnosticsError) as raised:
        parse("(" * 30)
    assert [place(entry.span) for entry in raised.value.diagnostics] == ["1:21-22"]


def test_a_parser_of_kept_tables_reads_as_the_one_that_made_them(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [path.read_text() for path in sorted(EXAMPLES.glob("*/*.emb"))] + ["score ("]
    trees = []
    for without in (True, False, False):  # none; made where there are none; read
        monkeypatch.setattr(sys, "dont_write_bytecode", without)
        parsing._lark.cache_clear()
        trees.append([parsing.parse(text) for text in texts])
    assert trees[0] == trees[1] == trees[2]


@pytest.mark.parametrize(
    ("text", "is_its"),
    [
        ("import torch\n", True),
        ("x = 1\nfrom torch import nn\n", True),
        ("class TransE(nn.Module):\n    pass\n", True),
        ("    def forward(self, h, r, t):\n        return h\n", True),
        ("# import of a class\nscore Classes(h: entity):\n    classy = E[h]\n    return important\n", False),
        ("def half(x):\n    return x / 2\n", False),
    ],
)
def test_a_text_of_python_is_told_from_one_with_mistakes(text: str, is_its: bool) -> None:
    assert is_python(text) is is_its
