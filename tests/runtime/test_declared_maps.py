"""Maps that a text declares, and ids that it divides, on the way to the programs: runs, whole and of a part, modules
of PyTorch, and what does not fit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.runtime.data.triples import InputError
from explorer.runtime.export.folder import export
from explorer.runtime.reference import sampling
from explorer.runtime.run import RunRequest, execute
from explorer.runtime.runs import layer as run_layer
from explorer.runtime.runs import op as run_op
from tests.compiler.by_form.facts import FACTS
from tests.compiler.by_form.facts import inputs_of as fact_inputs
from tests.compiler.by_form.mapped_forms import MAPPED_BODIES
from tests.compiler.by_form.set_forms import SET_FORMS, inputs_of
from tests.compiler.by_form.set_structures import SHAPES
from tests.compiler.by_form.test_set_forms import exact, gradients_of
from tests.compiler.models import compiled
from tests.compiler.slopes import assert_gives

forms = pytest.mark.parametrize("name", MAPPED_BODIES)


def run(text: str, **changes: Any) -> list[dict[str, Any]]:
    fields: dict[str, Any] = {"data": "tiny", "sizes": {}, "repeat": 1, "on": "cpu", "options": {"grad": True}}
    return list(execute(RunRequest(text=text, data_dir=None, **(fields | changes))))


@pytest.mark.sampled(3)
@forms
def test_a_run_draws_them_and_is_right(name: str) -> None:
    found = run(SET_FORMS[name].text)[-1]
    assert found["matches_reference"], found
    assert found["limits"]["compulsory_bytes"] > 0


@forms
def test_rows_of_a_large_result_are_right_on_the_part_that_they_depend_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (run_op, run_layer):
        monkeypatch.setattr(module, "MEMORY_LIMIT", 0)
    monkeypatch.setattr(sampling, "MOST_ROWS", 16)
    monkeypatch.setattr(sampling, "HUBS", 2)
    found = run(SET_FORMS[name].text, options={})[-1]
    assert found["matches_reference"], found
    assert found["sampled"]["rows"] < found["sampled"]["of"] or name == "sums by type"  # of which all are checked


@pytest.mark.parametrize("name", ["hashed ids", "multiplied and added ids", "halves of times"])
@pytest.mark.parametrize("options", [{}, {"grad": True}, {"negatives": "tail:3"}], ids=str)
def test_a_run_of_a_score_divides_its_ids(name: str, options: dict[str, Any]) -> None:
    found = run(FACTS[name].text, data="WN18", batch=64, options=options)[-1]
    assert found["matches_reference"], found


@pytest.mark.sampled(3)
@forms
def test_a_module_of_pytorch_takes_them_by_name(name: str) -> None:
    torch = pytest.importorskip("torch")
    form = SET_FORMS[name]
    inputs = inputs_of(form)
    want = form.means(exact(inputs))
    upstream = np.random.default_rng(2).normal(size=want.shape).astype(np.float32)
    module = compiled(form.text, on_demand=True).torch()
    unused = {"weight", "value"} - {tensor.name for tensor in module.compilation.stages["graph"].program.tensors}
    given = {each: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for each, v in inputs.items()}
    learnt = {each: given[each].requires_grad_() for each in SHAPES[form.header] if each != "x"}
    found = module(**{each: v for each, v in given.items() if each not in unused})
    found.backward(torch.from_numpy(upstream))
    gradients = {each: tensor.grad.numpy() for each, tensor in learnt.items() if tensor.grad is not None}
    assert_gives((found.detach().numpy(), gradients), want, gradients_of(form, inputs, upstream), "torch")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("times of entries", {"when": np.zeros(5, np.int32)}, "when has 5 entries, but there are 6 entries."),
        ("times of entries", {"when": np.full(6, 2, np.int32)}, "when[0] is 2, which is not in 0 to 1."),
        ("times of entries", {"twin": np.full(6, 6, np.int32)}, "twin[0] is 6, which is not in 0 to 5."),
        ("times of entries", {"owner": np.zeros(3, np.int32)}, "owner has 3 entries, but there are 4 bags."),
        ("times of entries", {"sort": None}, "There is no array for sort."),
        ("times of nonzeros", {"like": np.full(4, -1, np.int32)}, "like[0] is -1, which is not in 0 to 3."),
        ("times that are divided", {"when": np.full(6, 4, np.int32)}, "when[0] is 4, which is not in 0 to 3."),
        ("times that are divided", {"P": np.zeros((1, 3), np.float32)}, "when[0] is 3, which is not in 0 to 1."),
        ("hashed nodes", {"Q": np.zeros((2, 4), np.float32)}, "Q has the shape [2, 4], but is declared [3, 4]."),
    ],
)
def test_ids_that_do_not_fit_are_refused(name: str, change: dict[str, Any], message: str) -> None:
    inputs = {each: value for each, value in (inputs_of(SET_FORMS[name]) | change).items() if value is not None}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        compiled(SET_FORMS[name].text, on_demand=True).run(inputs, "cpu")


def test_a_table_of_a_score_has_a_row_for_each_id_that_may_be() -> None:
    text, random = FACTS["halves of times"].text, np.random.default_rng(0)
    shapes = {"E": (7, 5), "R": (2, 5), "T": (2, 5), "M": (2, 5), "Q": (3,)}
    inputs: dict[str, Any] = {each: random.normal(size=shape).astype(np.float32) for each, shape in shapes.items()}
    inputs |= {each: np.array([0, 1], np.int32) for each in "hrt"} | {"w": np.array([3, 0], np.int32)}
    for options in ({}, {"grad": True}):
        with pytest.raises(ValueError, match="t_div_2 leads to 4 rows, but Q has 3"):
            compiled(text, options=options, on_demand=True).run(inputs, "cpu", **options and {"grad": np.ones(2)})


def test_an_extension_has_no_maps_of_a_scores_own_yet(tmp_path: Path) -> None:
    message = "an extension of a score has the maps of facts alone, and this one declares kind"
    with pytest.raises(InputError, match=message):
        export(compiled(FACTS["types of entities"].text), tmp_path / "made", grad=False)


def test_ids_of_a_set_without_a_table_are_as_many_as_any_of_them_need() -> None:
    torch = pytest.importorskip("torch")
    fact = FACTS["hashed ids"]
    inputs = fact_inputs(fact) | {"h": np.zeros(4, np.int32), "t": np.array([1, 5, 0, 2], np.int32)}
    module = compiled(fact.text, on_demand=True).torch()
    with torch.no_grad():
        found = module(**{each: torch.from_numpy(value) for each, value in inputs.items()})
    np.testing.assert_allclose(found.numpy(), fact.means(exact(inputs)), rtol=1e-4, atol=1e-5)


SUMS_BY_TIME = """dim F = 3
layer Times(g: graph):
    input x[node, F]
    param T[time, F]
    map when: edge -> time
    for e in g.edges():
        e.when["c"] += x[e.src] * T[e.when]
    return time["c"]
"""


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("edges", [[(0, 1, 2), (2, 1, 0)], []])
def test_a_set_has_as_many_elements_as_its_table_whichever_ids_a_call_of_a_module_has(
    held: bool, edges: list[tuple[int, int, int]]
) -> None:
    torch = pytest.importorskip("torch")
    src, dst, when = (torch.tensor([edge[at] for edge in edges], dtype=torch.int64) for at in range(3))
    random = np.random.default_rng(0)
    x, table, upstream = (random.normal(size=(rows, 3)).astype(np.float32) for rows in (5, 4, 4))
    module = compiled(SUMS_BY_TIME, on_demand=True).torch(**({"time": 4} if held else {}))
    T = module.T if held else torch.nn.Parameter(torch.empty(4, 3))
    with torch.no_grad():
        T.copy_(torch.from_numpy(table))
    given = {} if held else {"T": T}
    found = module(src, dst, torch.zeros_like(src), when=when, x=torch.from_numpy(x), **given)
    found.backward(torch.from_numpy(upstream))
    want, slope = np.zeros((4, 3)), np.zeros((4, 3))
    for source, _, time in edges:
        want[time] += x[source].astype(np.float64) * table[time]
        slope[time] += x[source].astype(np.float64) * upstream[time]
    np.testing.assert_allclose(found.detach().numpy(), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(T.grad.numpy(), slope, rtol=1e-5, atol=1e-6)


def test_a_module_may_hold_a_table_of_no_rows() -> None:
    pytest.importorskip("torch")
    text = "op Weighed(b: bag of row):\n    param T[row], w[entry]\n    return sum(w[i] * T[i] for i in b)\n"
    assert compiled(text, on_demand=True).torch(row=4, entry=0).w.shape == (0,)
