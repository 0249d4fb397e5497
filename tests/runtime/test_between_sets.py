"""Layers whose edges lead from users to items, of which there are three and seven: both sets' results and gradients on
every target and as a module of PyTorch, what does not fit, and runs on data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.runtime.data.graphs import graph_counts, load_graph
from explorer.runtime.reference import sampling
from explorer.runtime.run import RunRequest, execute
from explorer.runtime.runs import layer as run_layer
from explorer.runtime.runs.console import summary
from tests.between_sets import LIKES, OPTIONS, SHAPES, given, likes, upstreams, wanted
from tests.compiler.by_form.between_forms import BETWEEN_BODIES
from tests.compiler.by_form.set_forms import SET_FORMS, inputs_of
from tests.compiler.by_form.test_set_forms import exact
from tests.compiler.models import compiled


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("target", ["graph", "loops", "kernels", "cpu", "dae"])
def test_both_sets_have_results_and_gradients(target: str, options: dict[str, Any]) -> None:
    inputs, upstream = given(), upstreams()
    want = likes(exact(inputs))
    forward = compiled(LIKES, options=options, on_demand=True).run(inputs, target)
    got, gradients = compiled(LIKES, options={**options, "grad": True}, on_demand=True).run(
        inputs, target, grad=upstream
    )
    for results in (forward, got):
        assert [each.shape for each in results] == [(3, 4), (7, 3)]
        for one, other in zip(results, want, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    for name, slope in wanted().items():
        np.testing.assert_allclose(gradients[name], slope, rtol=1e-3, atol=1e-4, err_msg=name)


def test_a_module_is_told_of_both_sets() -> None:
    torch = pytest.importorskip("torch", reason="modules are PyTorch's, which this machine does without")
    inputs = given()
    module = compiled(LIKES, on_demand=True).torch(user=3, item=7, etype=2)
    assert {name: tuple(each.shape) for name, each in module.named_parameters()} == SHAPES
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(torch.from_numpy(inputs[name]))
    src, dst, etype = (torch.from_numpy(inputs[name]) for name in ("src", "dst", "etype"))
    results = module(src, dst, etype)
    for one, other in zip(results, likes(exact(inputs)), strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other, rtol=1e-4, atol=1e-5)
    sum((one * torch.from_numpy(by)).sum() for one, by in zip(results, upstreams(), strict=True)).backward()
    for name, slope in wanted().items():
        np.testing.assert_allclose(getattr(module, name).grad.numpy(), slope, rtol=1e-3, atol=1e-4, err_msg=name)


def test_a_module_takes_the_numbers_with_its_call() -> None:
    torch = pytest.importorskip("torch", reason="modules are PyTorch's, which this machine does without")
    text = 'layer Degrees(g: graph[user, item]):\n    for n in g.dst_nodes():\n        n["d"] = n.in_degree\n'
    module = compiled(text + '    return n["d"]\n', on_demand=True).torch()
    src, dst = torch.tensor([0, 2, 2]), torch.tensor([1, 1, 0])
    assert module(src, dst).tolist() == [1, 2]
    assert module(src, dst, num_users=3, num_items=4).tolist() == [1, 2, 0, 0]
    structure = module.prepare(src, dst, num_items=3)
    assert (structure.counts["user"], structure.counts["item"]) == (3, 3)
    with pytest.raises((TypeError, ValueError), match="num_nodes"):
        module(src, dst, num_nodes=4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_users": 2, "X": np.zeros((2, 4), np.float32)}, "src[1] is 2, which is not in 0 to 1."),
        ({"num_items": 5, "Y": np.zeros((5, 4), np.float32)}, "dst[0] is 5, which is not in 0 to 4."),
        ({"Y": np.zeros((3, 4), np.float32)}, "Y has the shape [3, 4], but is declared [7, 4]."),
        (
            {"ntype": np.zeros(3, np.int32)},
            "Likes is of a graph from users to items, which have no types: ntype is of one set of nodes.",
        ),
    ],
    ids=["users", "items", "rows", "types"],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        compiled(LIKES, on_demand=True).run(given() | changes, "cpu")


def test_numbers_are_read_off_tensors_or_ids() -> None:
    inputs = {name: value for name, value in given().items() if not name.startswith("num_")}
    for one, other in zip(compiled(LIKES, on_demand=True).run(inputs, "cpu"), likes(exact(given())), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


# Runs on data


def run(text: str = LIKES, **changes: Any) -> list[dict[str, Any]]:
    fields: dict[str, Any] = {"data": "tiny", "sizes": {}, "repeat": 1, "on": "cpu", "options": {"grad": True}}
    return list(execute(RunRequest(text=text, **(fields | changes))))


@pytest.mark.parametrize("target", ["cpu", "dae"])
def test_a_run_takes_the_nodes_of_a_graph_for_both(target: str) -> None:
    found = run(on=target)[-1]
    assert found["matches_reference"], found
    assert found["data"]["source"] == "preset, generated, its nodes as users and as items"
    assert found["data"]["ends"] == {"user": 12, "item": 12}
    assert found["gradients"].keys() >= SHAPES.keys()
    assert found["limits"]["compulsory_bytes"] > 0


def test_a_run_takes_heads_and_tails_of_a_file(tmp_path: Path) -> None:
    lines = ["ann likes book", "ann likes pen", "bob hates pen", "cy likes cup", "bob likes ink", "ann hates jar"]
    (tmp_path / "likes.tsv").write_text("".join(line.replace(" ", "\t") + "\n" for line in lines))
    found = run(data="likes.tsv", data_dir=str(tmp_path))[-1]
    assert found["matches_reference"], found
    assert found["data"]["source"] == "file, heads as users and tails as items"
    assert (found["data"]["ends"], found["data"]["edges"]) == ({"user": 3, "item": 5}, 6)
    graph = load_graph("likes.tsv", tmp_path, ("user", "item"))
    named = graph_counts("likes.tsv", tmp_path, ("user", "item"))
    assert {name: named[name] for name in ("users", "items", "edges", "etypes")} == {
        **{"users": 3, "items": 5},
        **{"edges": 6, "etypes": 2},
    }
    assert (graph.src.tolist(), graph.sizes) == (
        [0, 0, 1, 2, 1, 0],
        {"user": 3, "item": 5, "edge": 6, "etype": 2},
    )
    assert "3 users and 5 items, 6 edges of 2 types" in summary(found)


@pytest.mark.parametrize("data", ["tiny", "small"])
def test_counts_of_presets_are_those_of_their_graphs(data: str) -> None:
    graph, counts = load_graph(data, ends=("user", "item")), graph_counts(data, ends=("user", "item"))
    assert (counts["users"], counts["items"], counts["edges"], counts["etypes"]) == tuple(graph.sizes.values())
    pairs = [len(np.unique(np.stack([ids, graph.etype]), axis=1).T) for ids in (graph.src, graph.dst)]
    assert [counts["src_pairs"], counts["dst_pairs"]] == pairs


@pytest.mark.parametrize("name", BETWEEN_BODIES)
def test_rows_of_a_large_result_are_right_on_the_part_that_they_depend_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_layer, "MEMORY_LIMIT", 0)
    monkeypatch.setattr(sampling, "MOST_ROWS", 8)
    monkeypatch.setattr(sampling, "HUBS", 2)
    found = run(SET_FORMS[name].text, options={})[-1]
    assert found["matches_reference"], found
    assert found["sampled"]["rows"] < found["sampled"]["of"] or name == "a map from one of two sets"


def test_gradients_of_a_large_graph_are_checked_on_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_layer, "GRADIENT_EDGES", 10)
    found = run(data="small")[-1]
    assert found["matches_reference"], found
    assert found["gradients"].keys() >= SHAPES.keys()


def test_a_form_reads_what_it_is_given_twice() -> None:
    """The same call again, of other numbers: nothing of the first graph is kept."""
    name = "a term of its own between two sets"
    inputs = inputs_of(SET_FORMS[name])
    compilation = compiled(SET_FORMS[name].text, on_demand=True)
    first = compilation.run(inputs, "cpu")
    turned = inputs | {"src": inputs["src"][::-1].copy()}
    np.testing.assert_allclose(
        compilation.run(turned, "cpu"), BETWEEN_BODIES[name][1](exact(turned)), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_array_equal(compilation.run(inputs, "cpu"), first)
