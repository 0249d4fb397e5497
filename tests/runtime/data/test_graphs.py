"""Graphs from presets and files of triples, and a clear message where there is none."""

import time
from pathlib import Path

import numpy as np
import pytest

from explorer.runtime.data import graphs
from explorer.runtime.data.graphs import GRAPH_PRESETS, available_graphs, graph_counts, graph_from_edges, load_graph
from explorer.runtime.data.triples import InputError
from explorer.runtime.encode.graph import encode

TRIPLES = "a\tknows\tb\nb\tlikes\tc\na\tknows\tb\n"
LARGE = ("am", "mag", "wikikg2", "biokg")

TABLE_3 = {
    "aifb": ("7.3K", "49K", 7, 104),
    "mutag": ("27K", "148K", 5, 50),
    "bgs": ("95K", "673K", 27, 122),
    "am": ("1.9M", "5.7M", 7, 108),
    "mag": ("1.9M", "21M", 4, 4),
    "wikikg2": ("2.5M", "16M", 1, 535),
    "fb15k": ("15K", "620K", 1, 474),
    "biokg": ("94K", "4.8M", 5, 51),
}
"""Hector's Table 3, as printed: nodes, edges, types of nodes, types of edges."""


def rounded(count):
    """A count as the table prints it: thousands or millions, with a decimal where there is one digit before it."""
    scaled, unit = (count / 1e6, "M") if count >= 1e6 else (count / 1e3, "K")
    return f"{scaled:.1f}{unit}" if scaled < 9.95 else f"{scaled:.0f}{unit}"


@pytest.mark.parametrize("name", TABLE_3)
def test_presets_have_the_sizes_of_hectors_table(name):
    preset = GRAPH_PRESETS[name]
    assert (rounded(preset.num_nodes), rounded(preset.num_edges), preset.num_ntypes, preset.num_etypes) == TABLE_3[name]


@pytest.mark.parametrize("name", [name for name in GRAPH_PRESETS if name not in LARGE])
def test_generated_graphs_are_whole_typed_and_skewed(name):
    preset, graph = GRAPH_PRESETS[name], load_graph(name.upper())
    assert (graph.name, graph.source) == (name, "preset, generated")
    assert (graph.num_nodes, graph.num_edges) == (preset.num_nodes, preset.num_edges)
    assert (graph.num_ntypes, graph.num_etypes) == (preset.num_ntypes, preset.num_etypes)
    for array, length, limit in (
        (graph.src, graph.num_edges, graph.num_nodes),
        (graph.dst, graph.num_edges, graph.num_nodes),
        (graph.etype, graph.num_edges, graph.num_etypes),
        (graph.ntype, graph.num_nodes, graph.num_ntypes),
    ):
        assert array.dtype == np.int32
        assert len(array) == length
        assert array.min() == 0 or array.min() < limit
        assert array.max() < limit
    assert np.bincount(graph.etype, minlength=graph.num_etypes).all()
    assert np.bincount(graph.ntype, minlength=graph.num_ntypes).all()
    assert (np.diff(graph.ntype) >= 0).all()


@pytest.mark.parametrize("name", ["small", "aifb", "mutag", "bgs"])
def test_an_edge_type_joins_one_type_of_nodes_with_one(name):
    graph = load_graph(name)
    for end in (graph.src, graph.dst):
        pairs = set(zip(graph.etype.tolist(), graph.ntype[end].tolist(), strict=True))
        assert len(pairs) == graph.num_etypes
        assert {ntype for _, ntype in pairs} == set(range(graph.num_ntypes))


@pytest.mark.parametrize("name", [name for name, preset in GRAPH_PRESETS.items() if preset.joins])
def test_known_types_add_up_to_the_published_sizes(name):
    preset = GRAPH_PRESETS[name]
    assert (len(preset.node_counts), sum(preset.node_counts)) == (preset.num_ntypes, preset.num_nodes)
    assert (len(preset.joins), sum(edges for _, _, edges in preset.joins)) == (preset.num_etypes, preset.num_edges)


def test_known_types_are_those_of_the_generated_graph():
    joins = ((0, 1, 40), (1, 1, 2), (1, 0, 8))
    graph = graphs.generate("known", graphs.GraphPreset(12, 50, 2, 3, node_counts=(9, 3), joins=joins))
    assert np.bincount(graph.ntype).tolist() == [9, 3]
    for etype, (source, target, edges) in enumerate(joins):
        rows = graph.etype == etype
        assert rows.sum() == edges
        assert (graph.ntype[graph.src[rows]] == source).all()
        assert (graph.ntype[graph.dst[rows]] == target).all()


def test_a_few_nodes_and_types_have_many_edges_some_none_and_some_edges_are_parallel():
    graph = load_graph("aifb")
    in_degrees = np.sort(np.bincount(graph.dst, minlength=graph.num_nodes))[::-1]
    assert in_degrees[0] > 20 * in_degrees.mean()
    assert in_degrees[-1] == 0
    assert np.bincount(graph.etype).max() > 4 * graph.num_edges / graph.num_etypes
    edges = set(zip(graph.src.tolist(), graph.etype.tolist(), graph.dst.tolist(), strict=True))
    assert len(edges) < graph.num_edges


def test_generated_graphs_are_the_same_on_every_call_and_differ_from_each_other():
    first, again = load_graph("mutag"), load_graph("mutag")
    for name, array in first.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name])
    renamed = graphs.generate("another", GRAPH_PRESETS["mutag"])
    assert not np.array_equal(first.src, renamed.src)


def test_millions_of_edges_take_seconds():
    began = time.process_time()
    graph = load_graph("biokg")
    assert time.process_time() - began < 10  # of the processor: about 1 s
    assert graph.num_edges == 4_762_678


# Files


def write(folder, content=TRIPLES, name="graph.tsv"):
    """A file of this text."""
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return str(path)


def test_triples_become_edges_and_their_inverses(tmp_path):
    graph = load_graph(write(tmp_path))
    edges = list(zip(graph.src.tolist(), graph.etype.tolist(), graph.dst.tolist(), strict=True))
    assert edges == [(0, 0, 1), (1, 1, 2), (0, 0, 1), (1, 2, 0), (2, 3, 1), (1, 2, 0)]
    assert (graph.num_nodes, graph.num_etypes, graph.num_ntypes) == (3, 4, 1)
    assert graph.ntype.tolist() == [0, 0, 0]
    assert graph.etype.dtype == np.int32
    assert (graph.name, graph.source) == ("graph.tsv", "file, with inverse triples")


def test_archives_keep_entities_and_relations_that_no_triple_has(tmp_path):
    path = tmp_path / "graph.npz"
    np.savez(path, train=np.array([[0, 2, 1]]), num_entities=4, num_relations=5)
    graph = load_graph("graph.npz", tmp_path)
    assert (graph.num_nodes, graph.num_etypes) == (4, 10)
    assert graph.etype.tolist() == [2, 7]


def test_a_preset_of_triples_is_a_graph_too():
    graph = load_graph("WN18")
    assert (graph.num_nodes, graph.num_edges, graph.num_etypes) == (40_943, 302_884, 36)
    assert graph.source == "preset, with inverse triples"


def test_the_page_is_offered_presets_and_readable_files(tmp_path):
    write(tmp_path)
    write(tmp_path, "a b c", "broken.tsv")
    offered = available_graphs(tmp_path)
    assert [entry["name"] for entry in offered] == ["graph.tsv", *GRAPH_PRESETS]
    assert offered[0] == {
        "name": "graph.tsv",
        "label": "graph.tsv (file, with inverse triples)",
        "generated": False,
        "nodes": 3,
        "edges": 6,
        "ntypes": 1,
        "etypes": 4,
    }
    assert offered[3]["edges"] == 48_810
    assert [entry["name"] for entry in available_graphs(None)] == list(GRAPH_PRESETS)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("fb15", r"there is no data set named 'fb15': did you mean 'fb15k'\? Those there are: tiny, small, aifb"),
        ("/nowhere/graph.tsv", r"/nowhere/graph\.tsv: no such file"),
        ("x" * 5000, r"too long|there is no data set named"),
    ],
)
def test_what_is_no_graph_is_said(source, message):
    with pytest.raises(InputError, match=message):
        load_graph(source)


def test_a_directory_of_data_hides_everything_else(tmp_path):
    outside = write(tmp_path, name="outside.tsv")
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder)
    for source in (outside, "../outside.tsv", "outside.tsv"):
        with pytest.raises(InputError, match=r"no data set named .*biokg, graph\.tsv$"):
            load_graph(source, folder)
    assert load_graph("graph.tsv", folder).num_edges == 6


def test_a_file_with_a_bad_line_is_refused_at_that_line(tmp_path):
    with pytest.raises(InputError, match=r"graph\.tsv: line 2: expected head TAB relation TAB tail"):
        load_graph(write(tmp_path, "a\tr\tb\na b\n"))


def test_relations_whose_inverses_would_not_fit_are_refused(tmp_path):
    np.savez(tmp_path / "g.npz", train=np.array([[0, 0, 1]]), num_entities=2, num_relations=2**31 - 1)
    with pytest.raises(InputError, match=r"g\.npz: 2,147,483,647 relations and their inverses are more than"):
        load_graph("g.npz", tmp_path)


def test_more_nodes_than_fit_in_memory_are_refused_before_they_are_made(tmp_path):
    np.savez(tmp_path / "g.npz", train=np.array([[0, 0, 1]]), num_entities=2**31 - 1, num_relations=1)
    with pytest.raises(InputError, match=r"g\.npz: the types of 2,147,483,647 nodes would take 8\.00 GiB"):
        load_graph("g.npz", tmp_path)


# Graphs written out


def test_edges_written_out():
    graph = graph_from_edges([(0, 1, 2), (2, 0, 0)], [0, 3, 1], num_etypes=2)
    assert graph.src.tolist() == [0, 2]
    assert graph.etype.tolist() == [1, 0]
    assert graph.dst.tolist() == [2, 0]
    assert (graph.num_nodes, graph.num_ntypes, graph.num_edges) == (3, 4, 2)
    assert graph_from_edges([], [0], 1).num_edges == 0


@pytest.mark.parametrize(
    ("edge", "message"),
    [
        ((0, 0, 3), r"row 1 has destination 3, which is not in 0\.\.2"),
        ((-1, 0, 0), r"row 1 has source -1"),
        ((0, 2, 0), r"row 1 has edge type 2, which is not in 0\.\.1"),
    ],
)
def test_edges_out_of_range_are_refused(edge, message):
    with pytest.raises(InputError, match=message):
        graph_from_edges([(0, 0, 0), edge], [0, 0, 0], num_etypes=2)


@pytest.mark.parametrize("name", ["tiny", "small", "aifb", "mutag", "bgs", "fb15k"])
def test_the_counts_of_a_preset_are_those_of_its_graph(name: str) -> None:
    counts = encode(load_graph(name)).counts
    assert graph_counts(name) == {f"{index_set}s": count for index_set, count in counts.items()}


def test_the_counts_of_a_file_are_those_of_its_graph(tmp_path: Path) -> None:
    path = tmp_path / "some.tsv"
    path.write_text("a\tlikes\tb\na\tlikes\tc\nb\tknows\ta\n")
    counts = encode(load_graph(str(path))).counts
    assert graph_counts(str(path)) == {f"{index_set}s": count for index_set, count in counts.items()}
    assert graph_counts("some.tsv", tmp_path) == graph_counts(str(path))
