"""The sizes that costs are counted on: read, told, and decided by."""

from __future__ import annotations

import pytest

import explorer
from explorer.checkout import CHECKOUT
from explorer.compiler.counts import ASSUMED, CountError, read_counts

HGT = (CHECKOUT / "examples/rgnn/hgt.emb").read_text()
RGAT = (CHECKOUT / "examples/rgnn/rgat.emb").read_text()
SPMM = (CHECKOUT / "examples/embedding/spmm.emb").read_text()
AIFB = {"nodes": 7_262, "edges": 48_810, "etypes": 104, "ntypes": 7, "src_pairs": 21_814, "dst_pairs": 21_608}


def told(text: str, name: str, **arguments: object) -> str:
    """What a pass of the graph stage says."""
    passes = explorer.compile(text, **arguments).stages["graph"].passes  # type: ignore[arg-type]
    (report,) = [report for report in passes if report.name == name]
    return "; ".join([report.summary, *report.refusals])


def test_a_report_names_the_graph_and_its_sizes() -> None:
    said = told(RGAT, "compact", counts=AIFB, counted_on="aifb")
    assert "counted on aifb (7,262 nodes, 48,810 edges, 104 edge types, 7 node types, 21,814 and 21,608 pairs)" in said


def test_without_a_graph_the_sizes_are_called_assumed() -> None:
    assert f"counted on {ASSUMED.about}: " in told(RGAT, "compact")
    assert "assumed" in ASSUMED.about


def test_pairs_that_are_not_given_are_called_estimated() -> None:
    counts = read_counts({"nodes": 10, "edges": 100, "etypes": 2})
    assert (counts["src_pair"], counts["ntype"]) == (20, 1)
    assert counts.about == "the given graph (10 nodes, 100 edges, 2 edge types, 20 and 20 pairs, estimated)"


def test_what_pays_depends_on_the_graph() -> None:
    few_types = {"nodes": 1_000, "edges": 1_000_000, "etypes": 2, "src_pairs": 2_000, "dst_pairs": 100}
    many_types = {"nodes": 1_000, "edges": 2_000, "etypes": 1_500}
    assert "multiplies W and w_s first" in told(RGAT, "reorder", counts=few_types)
    assert "keeps its order" in told(RGAT, "reorder", counts=many_types, counted_on="a graph of rare types")
    assert "on a graph of rare types" in told(RGAT, "reorder", counts=many_types, counted_on="a graph of rare types")


def test_other_options_are_counted_on_the_same_graph() -> None:
    compilation = explorer.compile(RGAT, counts=AIFB, counted_on="aifb", sizes={"F": 8}).with_options(grad=True)
    assert (compilation.options.grad, compilation.sizes["F"], compilation.name) == (True, 8, "RGAT")
    assert any("counted on aifb" in report.summary for report in compilation.stages["graph"].passes)


def test_an_empty_graph_is_one() -> None:
    assert explorer.compile(HGT, counts={"nodes": 0, "edges": 0, "etypes": 0, "ntypes": 0}).stages["loops"].available


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"nodes": 1, "edges": -1}, "the count of edges is a whole number from 0 to 1,000,000,000,000, not -1"),
        ({"nodes": True, "edges": 1}, "the count of nodes is a whole number"),
        ({"nodes": 1.5, "edges": 1}, "the count of nodes is a whole number"),
        ({"nodes": 10**13, "edges": 1}, "the count of nodes is a whole number"),
        ({"nodes": 1, "edges": 1, "bags": 1}, "there is nothing called 'bags' to count: counts are of nodes, edges"),
        ({"etypes": 1}, "the counts lack nodes and edges"),
        ({"rows": 1, "cols": 1}, "the counts lack nonzeros"),
        ({"nonzeros": 1}, "the counts lack rows"),
    ],
)
def test_counts_of_no_graph_are_refused(counts: dict[str, int], message: str) -> None:
    with pytest.raises(CountError, match=message):
        read_counts(counts)
    (diagnostic,) = explorer.compile(RGAT, counts=counts).diagnostics
    assert diagnostic.message.startswith(message)


def test_a_matrix_has_counts_of_its_own() -> None:
    counts = read_counts({"rows": 10, "nonzeros": 100}, "a matrix")
    assert [counts.of(extent) for extent in ("rows", "nonzeros", "cols", "edges", "D")] == [10, 100, None, None, None]
    assert read_counts({"nodes": 10, "nonzeros": 100}).of("nodes") == 10
    words = read_counts({"words": 10, "contexts": 20, "nonzeros": 100})
    assert [words.of(extent) for extent in ("words", "contexts", "nonzeros", "rows")] == [10, 20, 100, None]
    assert read_counts({"bags": 10, "rows": 5, "entries": 100}).of("bags") == 10
    assert (ASSUMED.of("nonzeros"), ASSUMED.of("edges")) == (None, ASSUMED["edge"])


def test_a_layer_is_not_counted_on_a_matrix() -> None:
    (diagnostic,) = explorer.compile(RGAT, counts={"rows": 10, "nonzeros": 100}).diagnostics
    assert diagnostic.message == "the counts of a layer are of nodes and edges, not of a matrix"


@pytest.mark.parametrize("name", sorted(path.stem for path in (CHECKOUT / "examples/embedding").glob("*.emb")))
def test_an_op_compiles_for_a_matrix(name: str) -> None:
    text = (CHECKOUT / f"examples/embedding/{name}.emb").read_text()
    made = explorer.compile(text, counts={"rows": 5_000, "nodes": 5_000, "cols": 7, "nonzeros": 20_000_000})
    assert made.ok
    assert made.stages["kernels"].available


@pytest.mark.parametrize(
    ("text", "counts"), [(RGAT, AIFB), (SPMM, {"nodes": 40_000, "nonzeros": 9_000_000})], ids=["layer", "op"]
)
def test_other_counts_of_the_same_model_make_what_compiling_for_them_makes(text: str, counts: dict[str, int]) -> None:
    plain = explorer.compile(text, on_demand=True)
    before = plain.stages["kernels"].text
    found = plain.with_counts(counts, "some")
    wanted = explorer.compile(text, counts=counts, counted_on="some", on_demand=True)
    for name in ("graph", "loops", "dlc", "kernels", "cuda"):
        assert found.stages[name].text == wanted.stages[name].text
    assert (found.counts, found.counted_on) == (counts, "some")
    assert plain.stages["kernels"].text == before
    with pytest.raises(CountError):
        plain.with_counts({"moons": 1}, "some")
