"""Layers put together or taken apart at random: a graph, or diagnostics; nothing else is ever raised."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from .layers import LISTING_1, layer
from .test_any_text import check_anything

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples" / "rgnn").glob("*.emb"))
TEXTS = [LISTING_1, *(path.read_text() for path in EXAMPLES)]

EXPRESSIONS = [
    *["x[n]", "x[e.src]", "e.src.x", 'e["a"]', 'n["h"]', 'e.dst["h"]', "W[e.etype]", "V[n.ntype]", "V[e.dst.ntype]"],
    *["w[e]", "e.norm", "n.in_degree", "w0", "y", "z", "g", "e", "n", "F", "2", '"a"', "e.src.id", "e.etype", "e.T"],
    *["sum(e.w for e in n.incoming_edges())", "max(x[e.src] for e in n.outgoing_edges())", "sum(y)", "relu(e.w)"],
    *["sum(f.w * y for f in n.incoming_edges())", "mean(f.w for f in e.src.incoming_edges())", "dot(n.x, e.src.x)"],
]
TARGETS = ["y", "z", 'e["a"]', 'n["h"]', 'e["h"]', 'e.dst["h"]', 'n["norm"]', "e", "e[y]", 'g["x"]']
HEADERS = [
    *["for e in g.edges():", "for n in g.nodes():", "for n in g.dst_nodes():", "for e in n.incoming_edges():"],
    *["for e in n.outgoing_edges():", "for e in e.edges():", "for f in n.incoming_edges():", "for in g.edges():"],
]
assignments = st.builds(
    lambda target, operator, left, join, right: f"{target} {operator} {left}{join}{right}",
    st.sampled_from(TARGETS),
    st.sampled_from(["=", "=", "+=", "-=", "*=", "/="]),
    st.sampled_from(EXPRESSIONS),
    st.sampled_from([" + ", " * ", " @ "]),
    st.sampled_from(EXPRESSIONS),
)
LINES = st.one_of(
    assignments,
    st.sampled_from(HEADERS),
    st.sampled_from(['edge_softmax(g, "a")', "edge_softmax(g, y)", 'return n["h"]', "return y", "param q[etype, F]"]),
)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 3), LINES), min_size=1, max_size=12), st.sampled_from(EXPRESSIONS))
def test_any_statements(lines: list[tuple[int, str]], result: str) -> None:
    body = "\n".join(f"{'    ' * depth}{line}" for depth, line in lines)
    check_anything(layer(f"{body}\nreturn {result}"))


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
