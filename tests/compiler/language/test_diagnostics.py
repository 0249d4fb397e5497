"""How a diagnostic reads on a terminal and in JSON."""

from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import Collector, Diagnostic, Fix, closest

from .helpers import check


def test_a_message_with_source_carets_detail_and_fixes() -> None:
    text = """dim D = 64, K = 32

score TransR(h: entity, r: relation, t: entity):
    "Lin et al. 2015; cuKE Table II"
    param E[entity, D]
    param R[relation, K]
    param P[relation, K, D]
    return norm((E[h] - E[t]) @ P[r] + Rr[r], 2)
"""
    first, second = check(text).diagnostics
    assert (
        first.render(text)
        == """8:17: '@' needs D of the left to equal the first dimension of the right: [64] @ [32, 64]
      return norm((E[h] - E[t]) @ P[r] + Rr[r], 2)
                  ^^^^^^^^^^^^^^^^^^^^
  The left is E[h] - E[t], [D] from line 5. The right is P[r], [K, D] from line 7.
  fix: Use P[r].T
  fix: Declare P[relation, D, K]"""
    )
    assert (
        second.render(text)
        == """8:40: unknown name 'Rr': did you mean 'R'?
      return norm((E[h] - E[t]) @ P[r] + Rr[r], 2)
                                         ^^
  fix: Use R"""
    )
    assert first.to_json(text) == {
        "message": "'@' needs D of the left to equal the first dimension of the right: [64] @ [32, 64]",
        "line": 8,
        "column": 17,
        "end_line": 8,
        "end_column": 37,
        "detail": "The left is E[h] - E[t], [D] from line 5. The right is P[r], [K, D] from line 7.",
        "source": "    return norm((E[h] - E[t]) @ P[r] + Rr[r], 2)",
        "fixes": [
            {
                "label": "Use P[r].T",
                "line": 8,
                "column": 33,
                "end_line": 8,
                "end_column": 37,
                "replacement": "P[r].T",
            },
            {
                "label": "Declare P[relation, D, K]",
                "line": 7,
                "column": 11,
                "end_line": 7,
                "end_column": 28,
                "replacement": "P[relation, D, K]",
            },
        ],
        "severity": "error",
    }


def test_applying_a_fix_mends_the_text() -> None:
    text = """dim D = 64, K = 32
score f(h: entity, r: relation, t: entity):
    param E[entity, D], P[relation, K, D]
    return norm(E[h] @ P[r])
"""
    (diagnostic,) = check(text).diagnostics
    lines = text.split("\n")
    for fix in diagnostic.fixes:
        line = lines[fix.span.line - 1]
        mended = line[: fix.span.column - 1] + fix.replacement + line[fix.span.end_column - 1 :]
        assert check(text.replace(line, mended)).graph is not None


def test_carets_stand_under_tabs_and_wide_characters() -> None:
    assert Diagnostic("m", Span(1, 3, 1, 4)).render("\t\tx = 1") == "1:3: m\n  \t\tx = 1\n  \t\t^"
    assert Diagnostic("m", Span(1, 3, 1, 5)).render("漢字ab") == "1:3: m\n  漢字ab\n      ^^"
    assert Diagnostic("m", Span(1, 1, 1, 3)).render("漢字ab") == "1:1: m\n  漢字ab\n  ^^^^"


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in Diagnostic("m", Span(1, 1, 1, 2)).render("\x1b[31mred")


def test_of_a_long_line_the_part_around_the_span_is_shown() -> None:
    text = "a" * 5000 + "X" + "b" * 5000
    _, source, carets = Diagnostic("m", Span(1, 5001, 1, 5002)).render(text).split("\n")
    assert len(source) < 120
    assert source[carets.index("^")] == "X"
    assert source.strip().startswith("…")
    assert source.endswith("…")


def test_a_span_of_several_lines_is_marked_on_its_first() -> None:
    text = "x = (a +\n   b)"
    assert Diagnostic("m", Span(1, 5, 2, 6)).render(text).split("\n")[2] == "      ^^^^"


def test_a_span_behind_the_end_and_none_at_all() -> None:
    assert Diagnostic("m", Span(1, 3, 1, 4)).render("ab").split("\n")[2] == "    ^"
    assert Diagnostic("m", Span(9, 1, 9, 2)).render("ab").split("\n")[0] == "9:1: m"
    assert Diagnostic("m", None, "why").render("ab") == "m\n  why"
    assert Diagnostic("m", None).to_json("ab")["line"] is None


def test_a_diagnostic_is_collected_once_and_in_the_order_of_the_text() -> None:
    collector = Collector()
    collector.report("b", Span(2, 1, 2, 2))
    collector.report("a", Span(1, 1, 1, 2), fixes=[Fix("f", Span(1, 1, 1, 2), "x")])
    collector.report("b", Span(2, 1, 2, 2))
    collector.report("whole", None)
    assert [entry.message for entry in collector.diagnostics] == ["whole", "a", "b"]


def test_the_closest_name() -> None:
    assert closest("Eemb", ["R", "E", "P"], abbreviates=True) == "E"
    assert closest("Pm", ["R", "E", "P"], abbreviates=True) == "P"
    assert closest("Pm", ["R", "E", "P"]) is None
    assert closest("e", ["R", "E", "P"]) == "E"
    assert closest("realtion", ["entity", "relation"]) == "relation"
    assert closest("zz", ["E", "P"]) is None
    assert closest("hh", ["H", "h", "r"]) == "h"
    assert closest("entities", ["entity", "relation"]) == "entity"
    assert closest("leakyReLU", ["relu", "leaky_relu"]) == "leaky_relu"
    assert closest("type", ["etype", "ntype"]) is None
    assert closest("x2", ["x1", "x"]) is None
    assert closest("RR", ["R", "Rr"]) is None
    assert closest("dropout", ["dot", "outer", "repeat"]) is None
    assert closest("print", ["param", "input", "return"]) is None
    assert closest("x", []) is None
