"""Layers over two graphs of the same nodes: as modules of PyTorch, what does not fit, and runs on data."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from explorer.compiler.counts import CountError
from explorer.runtime.reference import sampling
from explorer.runtime.run import RunRequest, execute
from explorer.runtime.runs import layer as run_layer
from tests.compiler.by_form.graph_forms import GRAPH_BODIES, OF_GRAPHS
from tests.compiler.by_form.set_forms import SET_FORMS, inputs_of
from tests.compiler.by_form.set_structures import SHAPES
from tests.compiler.by_form.test_set_forms import exact, gradients_of
from tests.compiler.models import compiled

names = pytest.mark.parametrize("name", GRAPH_BODIES)
ATTENDED = "a softmax over a second graph"


@names
def test_a_module_takes_the_edges_of_both(name: str) -> None:
    torch = pytest.importorskip("torch", reason="modules are PyTorch's, which this machine does without")
    form = SET_FORMS[name]
    inputs = inputs_of(form)
    want = form.means(exact(inputs))
    upstream = np.random.default_rng(2).normal(size=want.shape).astype(np.float32)
    given = {each: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for each, v in inputs.items()}
    learnt = [each for each in SHAPES[form.header] if each not in ("x", "y")]
    for each in learnt:
        given[each].requires_grad_()
    result = compiled(form.text, on_demand=True).torch()(**given)
    np.testing.assert_allclose(result.detach().numpy(), want, rtol=1e-4, atol=1e-5)
    result.backward(torch.from_numpy(upstream))
    for tensor, slope in gradients_of(form, inputs, upstream).items():
        got = given[tensor].grad
        np.testing.assert_allclose(0 if got is None else got.numpy(), slope, rtol=1e-3, atol=1e-4, err_msg=tensor)


def test_a_call_gives_the_second_graph_behind_the_first() -> None:
    torch = pytest.importorskip("torch", reason="modules are PyTorch's, which this machine does without")
    text = "layer Degrees(g: graph, q: graph):\n    for n in q.nodes():\n        for e in q.incoming_edges(n):\n"
    module = compiled(f'{text}            n["d"] += 1\n    return n["d"]\n', on_demand=True).torch()
    src, dst, none = torch.tensor([0, 2, 2]), torch.tensor([1, 1, 0]), torch.zeros(0, dtype=torch.int64)
    ntype = torch.zeros(5, dtype=torch.int64)
    to = torch.tensor([4, 0, 4, 4])
    assert module(src, dst, torch.zeros_like(src), ntype, to, to).tolist() == [1, 0, 0, 0, 3]
    assert module(src, dst, q_src=to, q_dst=to).tolist() == [1, 0, 0, 0, 3]
    assert module(src, dst, q_src=none, q_dst=none).tolist() == [0, 0, 0]
    assert module(none, none, q_src=none, q_dst=none, num_nodes=2).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q_dst": np.array([0, 9, 4, 0, 0, 2, 1, 2])}, "q_dst[1] is 9, which is not in 0 to 4."),
        ({"q_dst": np.array([0, 1])}, "q_dst has 2 entries, but there are 8 q_edges."),
        ({"q_etype": np.array([2, 3, 0, 1, 1, 2, 0, 0])}, "q_etype[1] is 3, which is not in 0 to 2."),
        ({"w": np.zeros(7, np.float32)}, "w has the shape [7], but is declared [8]."),
    ],
    ids=["node", "ends", "type", "edges"],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    form = SET_FORMS[ATTENDED]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        compiled(form.text, on_demand=True).run(inputs_of(form) | changes, "cpu")


def test_a_second_graph_is_not_left_out() -> None:
    form = SET_FORMS[ATTENDED]
    inputs = {name: value for name, value in inputs_of(form).items() if name != "q_src"}
    with pytest.raises(ValueError, match=r"^There is no array for q_src\.$"):
        compiled(form.text, on_demand=True).run(inputs, "cpu")


def test_types_that_are_not_given_are_all_0() -> None:
    form = SET_FORMS[ATTENDED]
    inputs = inputs_of(form)
    zeros = inputs | {"q_etype": np.zeros(8, np.int32)}
    found = compiled(form.text, on_demand=True).run({n: v for n, v in inputs.items() if n != "q_etype"}, "cpu")
    np.testing.assert_allclose(found, form.means(exact(zeros)), rtol=1e-4, atol=1e-5)


def test_counts_may_say_how_many_edges_each_has() -> None:
    text = SET_FORMS[ATTENDED].text
    counts = {"nodes": 100, "edges": 900, "etypes": 3, "q_edges": 500}
    rows = compiled(text, on_demand=True).with_counts(counts).rows
    assert (rows["q_edge"], rows.of("q_edges"), rows["q_etype"]) == (500, 500, 3)
    assert rows.about.startswith("the given graph (100 nodes, 900 edges, 3 edge types, 500 q_edges, ")
    with pytest.raises(CountError, match=r"there is nothing called 'r_edges' to count: .*, q_edges, q_etypes$"):
        compiled(text, on_demand=True).with_counts(counts | {"r_edges": 3})


@pytest.mark.parametrize("stage", ["graph", "loops", "slc", "kernels"])
@pytest.mark.parametrize("name", [ATTENDED, "friends and items"])
def test_a_stage_that_is_edited_is_read_back_and_proven(name: str, stage: str) -> None:
    compilation = compiled(SET_FORMS[name].text, on_demand=True)
    text = "\n".join(line.text for line in compilation.stages[stage].lines)
    (edit,) = compilation.with_edited({stage: text}).edits
    assert edit.verdict.status == "same", edit.verdict
    assert "matches the reference on 5 small inputs" in edit.verdict.message


# Runs on data


def run(text: str, **changes: Any) -> list[dict[str, Any]]:
    fields: dict[str, Any] = {"data": "tiny", "sizes": {}, "repeat": 1, "on": "cpu", "options": {"grad": True}}
    return list(execute(RunRequest(text=text, **(fields | changes))))


@pytest.mark.parametrize("target", ["cpu", "dae"])
@pytest.mark.parametrize("name", [ATTENDED, "friends and items"])
def test_a_run_draws_the_second_graph(target: str, name: str) -> None:
    found = run(SET_FORMS[name].text, on=target)[-1]
    assert found["matches_reference"], found
    over = "users and items" if name == "friends and items" else "nodes"
    assert found["data"]["source"].endswith(f", q drawn over the same {over}")
    assert found["gradients"].keys() >= {"W", "V", "a"} & SHAPES[SET_FORMS[name].header].keys()
    assert found["limits"]["compulsory_bytes"] > 0


@pytest.mark.parametrize("name", [*OF_GRAPHS, "friends and items", "both ends of friends"])
def test_rows_of_a_large_result_are_right_on_the_part_that_they_depend_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_layer, "MEMORY_LIMIT", 0)
    monkeypatch.setattr(sampling, "MOST_ROWS", 8)
    monkeypatch.setattr(sampling, "HUBS", 2)
    found = run(SET_FORMS[name].text, options={})[-1]
    assert found["matches_reference"], found


def test_gradients_of_a_large_graph_are_checked_on_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_layer, "GRADIENT_EDGES", 10)
    found = run(SET_FORMS[ATTENDED].text, data="small")[-1]
    assert found["matches_reference"], found
    assert found["gradients"].keys() >= {"V", "a", "R", "w"}
