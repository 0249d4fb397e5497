"""Sorted edges, compact maps and inverses of maps: by hand on a small graph, by brute force on random ones."""

import json
from dataclasses import replace

import numpy as np
import pytest

from explorer.compiler.ir.graph import NODES
from explorer.compiler.ir.set_maps import graph_maps
from explorer.runtime.data.graphs import RelationalGraph, graph_from_edges, load_graph
from explorer.runtime.data.ordering import order_by
from explorer.runtime.data.triples import InputError
from explorer.runtime.encode import graph as encodings
from explorer.runtime.encode.graph import encode, segments

DOMAINS = graph_maps(NODES)
SMALL = graph_from_edges([(0, 1, 2), (0, 0, 2), (1, 1, 0), (0, 1, 2), (0, 1, 0)], [0, 1, 0, 1], num_etypes=3)
"""Edges in no order, a parallel pair (rows 0 and 3), node 3 alone, edge type 2 unused."""


def random_graph(seed, nodes=9, edges=60, etypes=4):
    """A graph with parallel edges, and nodes and types that nothing uses."""
    random = np.random.default_rng(seed)
    ends = random.integers(0, nodes - 2, (2, edges))
    rows = zip(ends[0].tolist(), random.integers(0, etypes - 1, edges).tolist(), ends[1].tolist(), strict=True)
    return graph_from_edges(rows, random.integers(0, 3, nodes), etypes)


GRAPHS = [SMALL, *(random_graph(seed) for seed in range(5)), random_graph(9, nodes=3, edges=1), load_graph("small")]
EMPTY = graph_from_edges([], [0, 1], 2)


def mirrored(name):
    """The map of the other end: `dst_pair` of `src_pair`."""
    end, rest = name[:3], name[3:]
    return {"src": "dst", "dst": "src"}.get(end, end) + rest


def test_a_small_graph_by_hand():
    found = encode(SMALL)
    assert found.edge_order.tolist() == [4, 2, 1, 0, 3]
    assert {name: array.tolist() for name, array in found.maps.items()} == {
        "src": [0, 1, 0, 0, 0],
        "dst": [0, 0, 2, 2, 2],
        "etype": [1, 1, 0, 1, 1],
        "ntype": [0, 1, 0, 1],
        "dst_pair": [0, 0, 1, 2, 2],
        "dst_pair_node": [0, 2, 2],
        "dst_pair_etype": [1, 0, 1],
        "src_pair": [1, 2, 0, 1, 1],
        "src_pair_node": [0, 0, 1],
        "src_pair_etype": [0, 1, 1],
    }
    assert found.counts == {"node": 4, "edge": 5, "etype": 3, "ntype": 2, "src_pair": 3, "dst_pair": 3}
    assert found.dst_ptr.tolist() == [0, 2, 2, 5, 5]
    assert found.norm.tolist() == [0.5, 0.5, 1, 0.5, 0.5]
    assert found.in_degree.tolist() == [2, 0, 3, 0]
    assert found.ratio("src_pair") == 3 / 5
    assert found.degrees() == encodings.Degrees(mean=1.25, max=3, without=2)
    assert found.degrees("src") == encodings.Degrees(mean=1.25, max=4, without=2)
    by_source = found.segments("src")
    assert by_source.ptr.tolist() == [0, 4, 5, 5, 5]
    assert by_source.order.tolist() == [0, 2, 3, 4, 1]
    assert found.segments("src_pair").members(1).tolist() == [0, 3, 4]
    assert found.segments("dst").members(2).tolist() == [2, 3, 4]


def test_a_small_graph_by_source_by_hand():
    """Its in-degrees are the same; pairs of sources are numbered as the edges are, those of destinations by type."""
    found = encode(SMALL, edges="src")
    assert found.edge_order.tolist() == [1, 4, 0, 3, 2]
    assert {name: array.tolist() for name, array in found.maps.items()} == {
        "src": [0, 0, 0, 0, 1],
        "dst": [2, 0, 2, 2, 0],
        "etype": [0, 1, 1, 1, 1],
        "ntype": [0, 1, 0, 1],
        "src_pair": [0, 1, 1, 1, 2],
        "src_pair_node": [0, 0, 1],
        "src_pair_etype": [0, 1, 1],
        "dst_pair": [0, 1, 2, 2, 1],
        "dst_pair_node": [2, 0, 2],
        "dst_pair_etype": [0, 1, 1],
    }
    assert found.counts == encode(SMALL).counts
    assert found.norm.tolist() == [1, 0.5, 0.5, 0.5, 0.5]
    assert found.in_degree.tolist() == [2, 0, 3, 0]
    assert found.segments("src").order is None
    assert found.segments("src").ptr.tolist() == [0, 4, 5, 5, 5]
    assert found.segments("dst").order.tolist() == [1, 4, 0, 2, 3]
    assert found.segments("dst_pair").members(1).tolist() == [1, 4]
    assert found.steps[0].name == "sort edges by (src, etype, dst)"


@pytest.mark.parametrize("graph", [*GRAPHS, EMPTY])
def test_by_source_is_the_reversed_graph_by_destination(graph):
    found, turned = encode(graph, edges="src"), encode(replace(graph, src=graph.dst, dst=graph.src))
    assert found.edge_order.tolist() == turned.edge_order.tolist()
    for name in DOMAINS:
        other = mirrored(name)
        assert found.maps[name].tolist() == turned.maps[other].tolist()
        assert (found.segments(name).order is None) == bool((np.diff(found.maps[name]) >= 0).all())
        assert found.segments(name).ptr.tolist() == turned.segments(other).ptr.tolist()


def test_figure_7_of_hector_in_small():
    """§3.2.2: seven edges, five unique pairs of source and edge type, so five rows instead of seven."""
    edges = [(0, 0, 1), (0, 0, 2), (1, 0, 2), (0, 1, 3), (0, 1, 2), (2, 1, 3), (3, 1, 0)]
    found = encode(graph_from_edges(edges, [0] * 4, 2))
    assert found.counts["src_pair"] == 5
    assert found.maps["src_pair_node"].tolist() == [0, 1, 0, 2, 3]
    assert found.segments("src_pair_etype").ptr.tolist() == [0, 2, 5]
    assert found.segments("src_pair_etype").order is None


@pytest.mark.parametrize("graph", [*GRAPHS, EMPTY])
def test_the_sorted_edges_are_the_given_ones(graph):
    found = encode(graph)
    rows = list(zip(*(found.maps[name].tolist() for name in ("dst", "etype", "src")), strict=True))
    given = list(zip(graph.dst.tolist(), graph.etype.tolist(), graph.src.tolist(), strict=True))
    assert rows == sorted(given)
    assert [given[edge] for edge in found.edge_order.tolist()] == rows
    for edge, following, row, next_row in zip(found.edge_order, found.edge_order[1:], rows, rows[1:], strict=False):
        assert row < next_row or edge < following  # parallel edges keep their order
    for name, (domain, _) in DOMAINS.items():
        assert found.maps[name].dtype == np.int32
        assert len(found.maps[name]) == found.counts[domain]


@pytest.mark.parametrize("graph", [*GRAPHS, EMPTY])
def test_pairs_are_the_unique_ones_and_lead_where_their_edges_do(graph):
    found = encode(graph)
    for end in ("src", "dst"):
        pair, node, etype = (found.maps[f"{end}_pair{part}"] for part in ("", "_node", "_etype"))
        pairs = list(zip(node.tolist(), etype.tolist(), strict=True))
        given = set(zip(getattr(graph, end).tolist(), graph.etype.tolist(), strict=True))
        assert len(pairs) == found.counts[f"{end}_pair"] == len(given)
        assert set(pairs) == given
        np.testing.assert_array_equal(node[pair], found.maps[end])
        np.testing.assert_array_equal(etype[pair], found.maps["etype"])
    by_weight = list(zip(found.maps["src_pair_etype"], found.maps["src_pair_node"], strict=True))
    assert by_weight == sorted(by_weight)
    by_node = list(zip(found.maps["dst_pair_node"], found.maps["dst_pair_etype"], strict=True))
    assert by_node == sorted(by_node)
    assert (np.diff(found.maps["dst_pair"]) >= 0).all()


@pytest.mark.parametrize("graph", [*GRAPHS, EMPTY])
@pytest.mark.parametrize("name", DOMAINS)
def test_segments_are_the_inverse_of_their_map(graph, name):
    found = encode(graph)
    inverse, array = found.segments(name), found.maps[name]
    count = found.counts[DOMAINS[name][1]]
    assert len(inverse.ptr) == count + 1
    assert inverse.ptr.dtype == np.int32
    for place in range(count):
        members = inverse.members(place)
        assert members.dtype == np.int32
        assert members.tolist() == np.flatnonzero(array == place).tolist()
    assert (inverse.order is None) == bool((np.diff(array) >= 0).all())
    assert found.segments(name) is inverse


@pytest.mark.parametrize("edges", ["dst", "src"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_norm_and_degrees_count_every_parallel_edge(graph, edges):
    """Trap 6."""
    found = encode(graph, edges=edges)
    into = list(zip(graph.dst.tolist(), graph.etype.tolist(), strict=True))
    want = [np.float32(1) / np.float32(into.count(pair)) for pair in into]
    np.testing.assert_array_equal(found.restore_edges(found.norm), want)
    assert found.norm.dtype == found.in_degree.dtype == np.float32
    assert found.in_degree.tolist() == [graph.dst.tolist().count(node) for node in range(graph.num_nodes)]


def test_rows_of_edges_go_to_the_sorted_order_and_back():
    found = encode(random_graph(3))
    rows = np.random.default_rng(0).standard_normal((60, 2))
    there = found.sort_edges(rows)
    np.testing.assert_array_equal(there[5], rows[found.edge_order[5]])
    np.testing.assert_array_equal(found.restore_edges(there), rows)


def test_wide_maps_are_inverted_as_narrow_ones_are():
    array = np.array([70_000, 3, 70_000, 0, 65_536], dtype=np.int32)
    found = segments(array, 70_001)
    assert found.order.tolist() == [3, 1, 4, 0, 2]
    assert (found.ptr[0], found.ptr[1], found.ptr[70_000], found.ptr[70_001]) == (0, 1, 3, 5)


def test_keys_that_do_not_fit_in_64_bits_are_sorted_all_the_same():
    """Trap 27: 2 ** 31 nodes and edge types; only the keys are that large, not the arrays."""
    limit = 2**31 - 1
    ends = np.array([5, limit - 1, 5, 0], dtype=np.int32)
    graph = RelationalGraph("wide", "test", limit, limit, 1, ends[::-1].copy(), ends, ends, np.zeros(0, np.int32))
    assert encodings._edge_order(graph, "dst", "src").tolist() == [3, 0, 2, 1]
    assert encodings._edge_order(graph, "src", "dst").tolist() == [0, 3, 1, 2]
    with pytest.raises(
        InputError, match=r"wide: 2,147,483,647 nodes and 4 edges might take .* GiB with their encodings"
    ):
        encode(graph)


def test_the_limit_covers_what_is_made():
    graph = load_graph("aifb")
    found = encode(graph)
    for name in DOMAINS:
        found.segments(name)
    with pytest.raises(InputError, match="more than the limit"):
        encode(graph, limit=found.bytes)


def test_pre_processing_is_timed_and_described():
    found = encode(random_graph(1))
    before = [step.name for step in found.steps]
    assert before[0] == "sort edges by (dst, etype, src)"
    found.segments("src")
    found.segments("src")
    assert [step.name for step in found.steps] == [*before, "nodes to edges by src"]
    assert all(step.ms >= 0 and step.found for step in found.steps)
    shown = json.loads(json.dumps(found.describe()))
    assert shown["edges"] == 60
    assert shown["etypes"] == 4
    assert shown["etypes_used"] == 3
    assert shown["in_degree"]["without"] >= 2
    assert shown["compaction_ratio"] == shown["src_pairs"] / 60
    assert shown["preprocessing"][-1]["found"] == "edges reordered (CSR)"


def test_fb15k_has_the_ratio_that_hector_prints(shared_data):
    """§4.3: "The entity compaction ratio of AM and FB15k are 57% and 26%, respectively"."""
    found = encode(load_graph("fb15k-237.npz", shared_data))
    assert found.counts | {"src_pair": 0, "dst_pair": 0} == {
        "node": 14_541,
        "edge": 620_232,
        "etype": 474,
        "ntype": 1,
        "src_pair": 0,
        "dst_pair": 0,
    }
    assert found.ratio("src_pair") == pytest.approx(0.26, abs=0.01)
    assert found.counts["src_pair"] == found.counts["dst_pair"]  # inverses are in it


@pytest.mark.parametrize("limits", [(5, 4, 7), (2**31 - 1, 2**31 - 1, 2**20), (1, 1, 1), (2**20, 3, 2**31 - 1)])
@pytest.mark.parametrize("count", [0, 1, 1_000, 300_000])
def test_rows_are_ordered_by_their_columns_however_wide(limits, count):
    """By columns that fit into 64 bits together, and one after another; rows that are alike stay in order."""
    random = np.random.default_rng(count)
    columns = [random.integers(0, min(limit, 50), count, dtype=np.int32) for limit in limits]
    for column, limit in zip(columns, limits, strict=True):
        column[: count // 2] = limit - 1 - column[: count // 2] % min(limit, 50)
    np.testing.assert_array_equal(order_by(*zip(columns, limits, strict=True)), np.lexsort(columns[::-1]))


def test_the_generated_fb15k_has_this_ratio_too():
    assert encode(load_graph("fb15k")).ratio("src_pair") == pytest.approx(0.26, abs=0.01)


@pytest.mark.sweep
def test_millions_of_edges_are_encoded_and_am_has_its_ratio():
    found = encode(load_graph("am"))
    assert found.ratio("src_pair") == pytest.approx(0.57, abs=0.01)
