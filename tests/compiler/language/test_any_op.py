"""Ops put together or taken apart at random: a graph, or diagnostics; nothing else is ever raised."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from .test_any_text import check_anything

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples" / "embedding").glob("*.emb"))
TEXTS = [path.read_text() for path in EXAMPLES]

PARAMETERS = [
    *["b: bag of row", "q: blocks of row", "A: csr[row, col]", "A: coo[row, row]", "A: csr[col, row]", "b: bag"],
    *["A: csr[row]", "b: bag of entry", "b: row", "b", "", "b: bag of row, c: bag of row", "g: graph", "b: bag of b"],
]
EXPRESSIONS = [
    *["T[i]", "T[j]", "T[b]", "T[z.row]", "T[z.col]", "e[i]", "e[z]", "w", "a", "z.value", "i.col", "D", "2"],
    *['b["s"]', 'i["s"]', 'z["s"]', 'j["y"]', "b", "A", "q", "y", "A.rows", "z.row", "b.T", "p", '"s"', "repeat(y, D)"],
    *["sum(T[i] for i in b)", "mean(w * T[i] for i, w in b)", "sum(a * T[j] for j, a in A.row(i))", "repeat(T[j], 3)"],
    *["max(T[z.col] for z in A.nonzeros())", "min(p for j in q)", "sum(T[j] for j in A.row(j))", "dot(T[i], p)"],
]
TARGETS = ["y", 'b["s"]', 'i["s"]', 'z["s"]', 'j["y"]', 'z["value"]', "b", "w", 'A["s"]', 'q["y"]']
HEADERS = [
    *["for i in b:", "for i, w in b:", "for i, w, v in b:", "for j in q:", "for i in A.rows():"],
    *["for z in A.nonzeros():", "for i in T:"],
    *["for j, a in A.row(i):", "for j in A.row(i):", "for z in A.row():", "for i in A:", "for b in b:"],
]
assignments = st.builds(
    lambda target, operator, left, join, right: f"{target} {operator} {left}{join}{right}",
    st.sampled_from(TARGETS),
    st.sampled_from(["=", "=", "+=", "-=", "*="]),
    st.sampled_from(EXPRESSIONS),
    st.sampled_from([" + ", " * ", " @ "]),
    st.sampled_from(EXPRESSIONS),
)
LINES = st.one_of(assignments, st.sampled_from(HEADERS), st.sampled_from(["return y", "param q[row, D]"]))


@settings(max_examples=300)
@given(
    st.sampled_from(PARAMETERS),
    st.lists(st.tuples(st.integers(0, 3), LINES), max_size=10),
    st.sampled_from(EXPRESSIONS),
)
def test_any_statements(parameters: str, lines: list[tuple[int, str]], result: str) -> None:
    head = ["dim D = 4", f"op f({parameters}):", "    param T[row, D], e[entry], p[D]"]
    body = [f"    {'    ' * depth}{line}" for depth, line in lines]
    check_anything("\n".join([*head, *body, f"    return {result}", ""]))


@settings(max_examples=200)
@given(st.sampled_from(TEXTS), st.floats(0, 1), st.integers(0, 60))
def test_any_part_taken_out(text: str, place: float, length: int) -> None:
    start = int(place * len(text))
    check_anything(text[:start] + text[start + length :])


@settings(max_examples=200)
@given(st.sampled_from(TEXTS), st.data())
def test_any_two_lines_exchanged(text: str, data: st.DataObject) -> None:
    lines = text.split("\n")
    first, second = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    lines[first], lines[second] = lines[second], lines[first]
    check_anything("\n".join(lines))
