"""Any text at all is parsed and checked, or has diagnostics: nothing else is ever raised."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from explorer.compiler.ir.graph import verify_graph

from .helpers import check, model

TOKENS = [
    *["dim", "score", "def", "param", "input", "return", "layer", "op", "for", "in", "entity", "relation"],
    *["bag", "of", "csr", "coo", "blocks", "row"],
    *["h", "r", "t", "E", "R", "P", "b", "w0", "D", "K", "H", "f", "x", "y"],
    *[
        "..",
        "**",
        ">",
        "<=",
        "==",
        "!=",
        "::",
        "range",
        "stack",
        "where",
        "softmax",
        "roll",
        "axis=0",
        "windows",
        "pow",
    ],
    *["norm", "dot", "sum", "max", "concat", "reshape", "leaky_relu", "sqrt", "outer", "p=", "slope="],
    *["(", ")", "[", "]", ",", ":", "=", "+", "-", "*", "/", "//", "@", ".T", ".", "1", "2", "0.5", "1e9", '"d"'],
    *["\n", "\n    ", "\n        ", "\n\t", "\r\n", " ", "#", '"', "'", "é", "\x00", "if", "\\", "$", "<script>"],
]
PIECES = ["E[h]", "E[t]", "R[r]", "P[r]", "b[r]", "w0", "heads[r]", "mats[r]", "M[h, r]", "D", "2", "h", "E", "q"]


def check_anything(text: str) -> None:
    """Parses and checks a text and renders whatever is reported."""
    result = check(text)
    assert (result.graph is None) == bool(result.diagnostics)
    for diagnostic in result.diagnostics:
        assert diagnostic.message in diagnostic.render(text)
        diagnostic.to_json(text)
        if diagnostic.span:
            start = (diagnostic.span.line, diagnostic.span.column)
            assert (1, 1) <= start <= (diagnostic.span.end_line, diagnostic.span.end_column)
    if result.graph is not None:
        verify_graph(result.graph)


@given(st.text(max_size=200))
@example("\ud800")
@example("score f(h: entity, r: relation, t: entity): return")
@example("\r\r\n \r")
@example("\x1e")
def test_any_characters(text: str) -> None:
    check_anything(text)


@settings(max_examples=150)
@given(st.lists(st.sampled_from(TOKENS), max_size=60))
def test_any_sequence_of_the_language_s_words(tokens: list[str]) -> None:
    check_anything("".join(tokens))
    check_anything(" ".join(tokens))
    check_anything(model(" ".join(tokens)))


def combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions made of expressions, with and without sense."""
    operator = st.sampled_from(["+", "-", "*", "/", "@", "//", "**", ">", "==", "<="])
    called = ["norm", "sum", "dot", "outer", "concat", "max", "relu", "linear", "leaky_relu", "g", "stack", "where"]
    called += ["softmax", "logsumexp", "roll", "windows", "circulant", "pow", "floor", "masked", "ccorr"]
    call = st.sampled_from(called)
    return st.one_of(
        st.tuples(inner, operator, inner).map(lambda part: f"({part[0]} {part[1]} {part[2]})"),
        st.tuples(call, st.lists(inner, max_size=3)).map(lambda part: f"{part[0]}({', '.join(part[1])})"),
        inner.map(lambda part: f"{part}.T"),
        inner.map(lambda part: f"-{part}"),
        inner.map(lambda part: f"reshape({part}, -1)"),
        inner.map(lambda part: f"sum({part}, axis=0)"),
        inner.map(lambda part: f"stack({part} for k in 0..3)"),
        inner.map(lambda part: f"concat([{part}, E[h]])"),
        st.tuples(
            inner, st.sampled_from(["[0:2]", "[h]", "[:K]", "[-1:]", "[r, t]", "[0]", "[::-1]", "[1, 0]", "[::3]"])
        ).map("".join),
    )


@settings(max_examples=150)
@given(st.lists(st.recursive(st.sampled_from(PIECES), combine, max_leaves=12), min_size=1, max_size=4))
def test_any_expressions(expressions: list[str]) -> None:
    lines = [f"x{position} = {text}" for position, text in enumerate(expressions)]
    text = "def g(a, b=2):\n    return a * b\n" + model("\n".join([*lines, "return b[r] + sum(x0)"]))
    check_anything(text)


@settings(max_examples=100)
@given(st.integers(0, 200), st.sampled_from(TOKENS))
def test_any_word_put_into_a_model(place: int, token: str) -> None:
    text = model("x = E[h] - E[t]\nreturn norm(x @ P[r] + R[r], 2)")
    place = min(place + 70, len(text))
    check_anything(text[:place] + token + text[place:])


@settings(max_examples=100)
@given(st.integers(0, 350), st.integers(0, 40))
def test_any_part_taken_out_of_a_model(start: int, length: int) -> None:
    text = model("x = E[h] - E[t]\nreturn norm(x @ P[r] + R[r], 2)")
    check_anything(text[:start] + text[start + length :])
