"""A layer's edges in memory by source: the numbers that they have by destination, and the mirrored kernels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.ir.set_maps import sorted_maps
from explorer.compiler.options import EDGES, OptionError, read_options
from tests.compiler.models import compiled
from tests.compiler.slopes import assert_gives, slopes
from tests.emulator.launch import launch

EXAMPLES = Path(explorer.__file__).parents[1] / "examples"
NODES, EDGE_COUNT, ETYPES, TIMES, D = 6, 17, 3, 4, 4

ATTENTION = f"""dim D = {D}
layer Attention(g: graph):
    map when: edge -> time
    param x[node, D], W[etype, D, D], w[edge, D], T[time, D]
    for e in g.edges():
        e["m"] = (e.src.x @ W[e.etype]) * w[e] + T[e.when]
        e["a"] = dot(e["m"], e.dst.x)
    edge_softmax(g, "a")
    for n in g.dst_nodes():
        n["h"] = sum(e["a"] * e["m"] for e in n.incoming_edges())
        n["out"] = n["h"] + sum(w[e] * e.norm for e in n.outgoing_edges())
    return n["out"]
"""
ON_EDGES = f"""dim D = {D}
layer OnEdges(g: graph):
    param x[node, D], W[etype, D, D], w[edge, D], T[time, D]
    map when: edge -> time
    for n in g.nodes():
        n["sent"] = mean(w[e] for e in n.outgoing_edges())
        n["most"] = max(x[e.src] for e in n.incoming_edges())
    for e in g.edges():
        e["y"] = (e.src["sent"] @ W[e.etype]) * e.dst["most"] + w[e] * T[e.when]
    return e["y"]
"""


def means_attention(i: dict[str, Any]) -> Any:
    """Messages weighed by a softmax over the edges into a node, and what goes out, in float64."""
    src, dst, etype = i["src"], i["dst"], i["etype"]
    m = np.einsum("ed,edk->ek", i["x"][src], i["W"][etype]) * i["w"] + i["T"][i["when"]]
    a = np.exp((m * i["x"][dst]).sum(-1))
    totals = np.bincount(dst, a, NODES)
    norm = 1 / np.array([((dst == d) & (etype == r)).sum() for d, r in zip(dst, etype, strict=True)])
    found = np.zeros((NODES, D))
    np.add.at(found, dst, (a / totals[dst])[:, None] * m)
    np.add.at(found, src, i["w"] * norm[:, None])
    return found


def means_on_edges(i: dict[str, Any]) -> Any:
    """What each edge makes of a mean over its source's edges and a maximum over its destination's, in float64."""
    src, dst = i["src"], i["dst"]
    sent, most = np.zeros((NODES, D)), np.full((NODES, D), -np.inf)
    np.add.at(sent, src, i["w"])
    sent /= np.maximum(np.bincount(src, minlength=NODES), 1)[:, None]
    np.maximum.at(most, dst, i["x"][src])
    return np.einsum("ed,edk->ek", sent[src], i["W"][i["etype"]]) * most[dst] + i["w"] * i["T"][i["when"]]


CASES = {"attention": (ATTENTION, means_attention, NODES), "on edges": (ON_EDGES, means_on_edges, EDGE_COUNT)}


def drawn(seed: int) -> dict[str, Any]:
    """A graph with parallel edges, whose last node has none, in an order of the caller's; every tensor."""
    random = np.random.default_rng(seed)
    given: dict[str, Any] = {name: random.integers(0, NODES - 1, EDGE_COUNT) for name in ("src", "dst")}
    given["etype"], given["when"] = random.integers(0, ETYPES, EDGE_COUNT), random.integers(0, TIMES, EDGE_COUNT)
    for name in ("src", "dst", "etype"):
        given[name][1] = given[name][0]
    shapes = {"x": (NODES, D), "W": (ETYPES, D, D), "w": (EDGE_COUNT, D), "T": (TIMES, D)}
    given |= {name: random.uniform(-1, 1, size=shape).astype(np.float32) for name, shape in shapes.items()}
    return given | {"num_nodes": NODES, "num_etypes": ETYPES}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("encoding", ["coo", "compressed"])
@pytest.mark.parametrize("case", CASES)
def test_every_target_gives_what_it_means_with_gradients(case: str, encoding: str, compact: bool) -> None:
    """Tensors, results and gradients over edges are in the caller's order."""
    text, means, rows = CASES[case]
    given = drawn(3)
    upstream = np.random.default_rng(1).uniform(-1, 1, (rows, D)).astype(np.float32)
    gradients = slopes(means, given, ("x", "W", "w", "T"), upstream)
    options = {"edges": "src", "encoding": encoding, "compact": compact}
    plain = compiled(text, options=options, on_demand=True)
    made = compiled(text, options={**options, "grad": True}, on_demand=True)
    for target in ("graph", "loops", "kernels", "slc", "slc.opt3", "dlc", "dae"):
        np.testing.assert_allclose(plain.run(given, target), means(given), rtol=1e-4, atol=1e-5, err_msg=target)
        assert_gives(made.run(given, target, grad=upstream), means(given), gradients, target)
    arrays, finish = made.encode(made, given, upstream)
    assert_gives(finish(*launch(made, arrays)), means(given), gradients, "emulated GPU")


@pytest.mark.parametrize("case", CASES)
def test_machine_code_of_a_processor(case: str) -> None:
    text, means, rows = CASES[case]
    given, upstream = drawn(4), np.random.default_rng(2).uniform(-1, 1, (rows, D)).astype(np.float32)
    made = compiled(text, options={"edges": "src", "grad": True}, on_demand=True)
    gradients = slopes(means, given, ("x", "W", "w", "T"), upstream)
    assert_gives(made.run(given, "cpu", grad=upstream), means(given), gradients, "cpu")


@pytest.mark.parametrize("count", [0, 1])
def test_graphs_of_hardly_any_edges(count: int) -> None:
    over = ("src", "dst", "etype", "when", "w")
    given = {name: each[:count] if name in over else each for name, each in drawn(0).items()}
    made = compiled(ATTENTION, options={"edges": "src", "encoding": "compressed"}, on_demand=True)
    for target in ("graph", "loops", "kernels", "dlc"):
        np.testing.assert_allclose(made.run(given, target), means_attention(given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_a_module_of_pytorch(case: str) -> None:
    torch = pytest.importorskip("torch")
    text, means, rows = CASES[case]
    given, upstream = drawn(5), np.random.default_rng(3).uniform(-1, 1, (rows, D)).astype(np.float32)
    layer = compiled(text, options={"edges": "src"}, on_demand=True).torch()
    tensors = {name: torch.from_numpy(given[name]).requires_grad_() for name in ("x", "W", "w", "T")}
    ids = {name: torch.from_numpy(each) for name, each in given.items() if name in ("src", "dst", "etype", "when")}
    graph = layer.prepare(**ids, num_nodes=NODES, num_etypes=ETYPES)
    out = layer(graph, **tensors)
    out.backward(torch.from_numpy(upstream))
    found = {name: tensor.grad.numpy() for name, tensor in tensors.items()}
    assert_gives((out.detach().numpy(), found), means(given), slopes(means, given, tensors, upstream), "torch")
    by_destination = compiled(text, on_demand=True).torch()
    with pytest.raises(ValueError, match=r"prepared with its edges by src, and .* has them by dst"):
        by_destination(graph, **tensors)


# What lies how, and which kernels that makes


def turned(text: str) -> str:
    """The same with every edge the other way round."""
    names = {"src": "dst", "dst": "src"}
    return re.sub(r"src|dst", lambda found: names[found[0]], text)


def lines_of(text: str) -> list[str]:
    """The lines in any order, with one name for all variables, whose letters are those of their sets."""
    return sorted(re.sub(r"(?<![A-Za-z])[a-z]\d*(?![A-Za-z\d])", "i", line) for line in text.splitlines())


OUTWARD = """dim K = 8
layer Turned(g: graph):
    input x[node, K]
    param W[etype, K, K]
    for e in g.edges():
        e["m"] = e.{far}.x @ W[e.etype]
        e["a"] = dot(e["m"], e.{near}.x)
    for n in g.nodes():
        n["top"] = max(e["a"] for e in n.{way}_edges())
    for e in g.edges():
        e["z"] = exp(e["a"] - e.{near}["top"])
    for n in g.nodes():
        n["h"] = sum(e["z"] * e["m"] for e in n.{way}_edges())
    return n["h"]
"""


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("stage", ["loops", "kernels", "dlc"])
def test_a_reversed_layer_by_source_has_the_mirrored_program(stage: str, compact: bool) -> None:
    """Segments are in order where edges are sorted by their end, whichever that is; only declarations change places."""
    options = {"compact": compact, "encoding": "compressed"}
    inward = compiled(OUTWARD.format(far="src", near="dst", way="incoming"), options=options, on_demand=True)
    outward = OUTWARD.format(far="dst", near="src", way="outgoing")
    made = compiled(outward, options={**options, "edges": "src"}, on_demand=True)
    text = made.stages[stage].text.replace("GetSrcId of CSR", "GetDstId of CSC")
    assert lines_of(turned(text)) == lines_of(inward.stages[stage].text)
    unlike = compiled(outward, options=options, on_demand=True)
    assert "src_order" in unlike.stages["loops"].text
    assert "src_order" not in made.stages["loops"].text


def test_pairs_of_the_end_that_edges_are_by_are_numbered_as_they_are() -> None:
    mirrored = {turned(name): turned(domain) for name, domain in sorted_maps("dst").items()}
    assert sorted_maps("src") == mirrored
    assert {"src": "edge", "src_pair_node": "src_pair", "dst_pair_etype": "dst_pair"}.items() <= mirrored.items()


def test_a_graph_is_csr_where_its_sources_are_searched() -> None:
    text = (EXAMPLES / "rgnn" / "gcn.emb").read_text()
    options = {"edges": "src", "encoding": "compressed"}
    made = explorer.compile(text, options=options, on_demand=True)
    assert "src by a search of src_ptr: GetSrcId of CSR" in made.stages["kernels"].text
    assert "edges by src" in made.stages["graph"].text
    by_destination = explorer.compile(text, options={"encoding": "compressed"}, on_demand=True)
    assert "GetSrcId" not in by_destination.stages["kernels"].text
    assert "edges by" not in by_destination.stages["graph"].text


def test_a_softmax_over_edges_that_lie_apart_by_pair_stays_several_visits() -> None:
    """Where edges are by source, a node's in-edges are not one after another as those of its pairs are."""
    text = ATTENTION.replace('n["h"] = sum(e["a"] * e["m"] for e in n.incoming_edges())', BY_PAIR)
    given = drawn(6)
    for edges in EDGES:
        made = compiled(text, options={"edges": edges}, on_demand=True)
        for target in ("graph", "loops", "kernels", "dlc"):
            np.testing.assert_allclose(made.run(given, target), means_attention(given), rtol=1e-4, atol=1e-5)


BY_PAIR = 'n["h"] = sum(sum(e["a"] * e["m"] for e in n.incoming_edges(r)) for r in n.incoming_etypes())'


@pytest.mark.parametrize("name", ["kge/transr", "embedding/spmm_coo", "embedding/sls"])
def test_what_has_no_graph_is_the_same_and_says_so(name: str) -> None:
    text = (EXAMPLES / f"{name}.emb").read_text()
    plain = explorer.compile(text, on_demand=True)
    made = explorer.compile(text, options={"edges": "src"}, on_demand=True)
    for stage in ("graph", "loops", "kernels", "cuda", "dlc"):
        assert made.stages[stage].text == plain.stages[stage].text
    said = [sentence for report in made.stages["loops"].passes for sentence in report.refusals]
    assert f"{made.name}: edges=src: nothing, for only a layer has a graph's edges" in said


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("  edges by src\n", "same", ""),
        ("", "refused", "the model's edges are by src"),
        ("  edges by dst\n", "refused", "the model's edges are by src"),
        ("  edges by etype\n", "refused", "edges are by dst or src, not etype"),
    ],
)
def test_an_edited_graph_keeps_its_order(line: str, status: str, said: str) -> None:
    made = compiled(ATTENTION, options={"edges": "src"}, on_demand=True)
    (edit,) = made.with_edited({"graph": made.stages["graph"].text.replace("  edges by src\n", line)}).edits
    assert edit.verdict.status == status
    assert said in edit.verdict.message


def test_edges_are_by_an_end() -> None:
    with pytest.raises(OptionError, match="edges is one of dst, src"):
        read_options({"edges": "etype"})
