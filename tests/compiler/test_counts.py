"""The sizes that costs are counted on: read, told, and decided by."""

from __future__ import annotations

import pytest

import explorer
from explorer.checkout import CHECKOUT
from explorer.compiler.counts import ASSUMED, CountError, read_counts

HGT = (CHECKOUT / "examples/rgnn/hgt.emb").read_text()
RGAT = (CHECKOUT / "examples/rgnn/rgat.emb").read_text()
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
    few_types = {"nodes": 1_000, "edges": 1_000_000, "etypes": 2}
    many_types = {"nodes": 1_000, "edges": 2_000, "etypes": 1_500}
    assert "multiplies W and w_s first" in told(RGAT, "reorder", counts=few_types)
    assert "keeps its order" in told(RGAT, "reorder", counts=many_types, counted_on="a graph of rare types")
    assert "on a graph of rare types" in told(RGAT, "reorder", counts=many_types, counted_on="a graph of rare types")


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
    ],
)
def test_counts_of_no_graph_are_refused(counts: dict[str, int], message: str) -> None:
    with pytest.raises(CountError, match=message):
        read_counts(counts)
    (diagnostic,) = explorer.compile(RGAT, counts=counts).diagnostics
    assert diagnostic.message.startswith(message)
