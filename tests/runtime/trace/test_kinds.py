"""Several kinds of nodes are one set of nodes with a type: in the text, and in results and gradients."""

from __future__ import annotations

import pytest

import explorer

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")

from tests.runtime.trace.held import hold, redraw  # noqa: E402
from tests.runtime.trace.kind_modules import MODULES, Bought, Kinds, drawn  # noqa: E402

EXAMPLE = (7, 9, 12), (13, 17, 15, 19)
OTHERS = ((23, 31, 8), (61, 40, 7, 30)), ((12, 12, 12), (12, 5, 3, 1)), ((3, 50, 1), (9, 0, 9, 20))
"""How many nodes and edges there are of each kind; the last one has no edges of one."""


def traced(name):
    make, *of = MODULES[name]
    torch.manual_seed(0)
    module = make()
    return module, explorer.trace(module, *drawn(*of, *EXAMPLE, 0)), of


@pytest.mark.parametrize("name", MODULES)
def test_a_replacement_has_the_results_and_gradients_on_another_graph(name) -> None:
    module, found, of = traced(name)
    redraw(module, 3)
    for seed, (nodes, edges) in enumerate(OTHERS):
        hold(module, found.module(), drawn(*of, nodes, edges, seed))


def test_linears_of_kinds_are_one_product_and_matrices_of_relations_another() -> None:
    _, found, _ = traced("kinds")
    assert 'n["k"] = keys_weight[n.ntype] @ x[n] + keys_bias[n.ntype]' in found.text
    assert 'e.src["k"] @ matrices[e.etype]' in found.text
    assert "+ out_bias[n.ntype] + x[n]" in found.text
    assert found.text.splitlines()[-1].count("n[") == 1  # which all kinds' results are slices of
    assert found.tensors["keys_weight"].shape == (3, 3, 4)
    assert found.maps["ntype"].tolist() == [0] * 7 + [1] * 9 + [2] * 12
    assert found.maps["etype"].tolist() == [0] * 13 + [1] * 17 + [2] * 15 + [3] * 19


def test_rows_of_other_widths_are_arrays_of_their_own() -> None:
    text = traced("widths")[1].text
    assert "x_user_[node, 4]" in text
    assert "x_tag_[node, 6]" in text
    assert "where(kind1[n], keys_user_weight @ x_user_[n], where(kind2[n], " in text
    assert text.count("where(kind1[n], ") == 3  # keys, queries, and the rows that are added
    assert "+ keys_bias[n.ntype]" in text


class Divided(torch.nn.Module):
    """Each kind's rows, divided by how many edges lead there."""

    def forward(self, x, edges):
        counts = {
            end: torch.zeros(len(x[end])).index_add(0, dst, torch.ones(len(dst)))
            for (_, _, end), (_, dst) in edges.items()
        }
        return {kind: x[kind] / counts[kind].clamp(min=1)[:, None] for kind in x}


def test_edges_of_each_relation_are_counted_apart_where_the_example_has_one_a_node() -> None:
    of = MODULES["two sums"][1:]
    x, edges = drawn(*of, (40, 50), (13, 17), 0)
    for (_, _, end), (_, dst) in edges.items():
        dst.copy_(torch.randperm(len(x[end]))[: len(dst)])
    replacement = explorer.trace(Divided(), x, edges).module()
    for seed, (nodes, counts) in enumerate(OTHERS):
        hold(Divided(), replacement, drawn(*of, nodes, counts, seed))


def test_an_id_of_another_kind_is_refused() -> None:
    of = MODULES["one sum"][1:]
    replacement = explorer.trace(Bought(), *drawn(*of, *EXAMPLE, 0)).module()
    x, edges = drawn(*of, *OTHERS[0], 0)
    edges["user", "buys", "item"][1, 3] = len(x["item"])
    with pytest.raises(ValueError, match="a node of another kind"):
        replacement(x, edges)


class Twice(Kinds):
    """All rows of one kind are put behind others twice, and edges lead to these."""

    def forward(self, x, edges):
        rows = torch.cat([x["user"], x["item"], x["user"]])
        src, dst = edges["user", "buys", "item"]
        return torch.zeros_like(rows).index_add(0, dst + len(x["user"]), rows[src])


class Picked(Kinds):
    """Rows from one behind where a kind begins."""

    def forward(self, x, edges):
        rows = torch.cat(list(x.values()))
        src, dst = edges["user", "knows", "user"]
        return torch.zeros_like(rows).index_add(0, dst, rows[src])[1 : 1 + len(x["user"])]


class Largest(Kinds):
    """The largest of all rows of a kind."""

    def forward(self, x, edges):
        return {kind: rows - x["user"].amax(0) for kind, rows in super().forward(x, edges).items()}


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (Twice, "behind others twice"),
        (Picked, "picked by their place"),
        (Largest, "a max goes over all rows of a kind"),
    ],
)
def test_what_is_refused(made, says) -> None:
    with pytest.raises(ValueError, match=says):
        explorer.trace(made(), *drawn(*MODULES["kinds"][1:], *EXAMPLE, 0))


def test_kinds_of_one_number_in_the_example_are_refused() -> None:
    with pytest.raises(ValueError, match="trace with an example whose kinds differ in their numbers"):
        explorer.trace(Kinds(), *drawn(*MODULES["kinds"][1:], (9, 9, 12), EXAMPLE[1], 0))
