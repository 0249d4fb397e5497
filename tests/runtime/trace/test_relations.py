"""Loops over relations, and arrays of edges for each, are one typed sum: in the text, and in results and gradients."""

from __future__ import annotations

import pytest

import explorer

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")

from tests.runtime.trace.held import hold, redraw  # noqa: E402
from tests.runtime.trace.relation_modules import RELATIONS, kinds  # noqa: E402


def traced(name):
    make, takes = RELATIONS[name]
    torch.manual_seed(0)
    module = make()
    return module, explorer.trace(module, *tensors(takes, 7, 13, 0)), takes


def tensors(takes, nodes, edges, seed):
    drawn = kinds(nodes, edges, seed)
    return [drawn[each] for each in takes.split()]


@pytest.mark.parametrize("name", RELATIONS)
def test_a_replacement_has_the_results_and_gradients_on_another_graph(name) -> None:
    module, found, takes = traced(name)
    redraw(module, 3)
    for nodes, edges in ((23, 61), (12, 12), (9, 2)):  # in the last one most relations have no edges
        hold(module, found.module(), tensors(takes, nodes, edges, nodes))


def test_each_layer_is_one_product_of_types() -> None:
    _, found, _ = traced("many")
    assert found.text.count("for e in n.incoming_edges()") == 2
    assert "sum(first_weight[e.etype] @ x[e.src] + first_bias[e.etype] for e in n.incoming_edges())" in found.text
    assert 'sum(second[e.etype] @ e.src["hidden"] for e in n.incoming_edges())' in found.text
    assert found.tensors["first_weight"].shape == (9, 5, 4)
    assert sorted(set(found.maps["etype"].tolist())) == sorted(set(kinds(7, 13, 0)["many"].tolist()))


def test_a_mean_over_each_relation_counts_the_edges_of_a_type() -> None:
    text = traced("arrays")[1].text
    assert "input count[edge]" in text
    assert "sum(weight[e.etype] @ x[e.src] / max(count[e], 1) for e in n.incoming_edges())" in text


def test_rows_of_a_table_keep_their_numbers() -> None:
    text = traced("gated")[1].text  # whose loop goes backwards
    assert "matrices[etype, 4, 3], gates[etype, 4]" in text
    assert traced("gated")[1].maps["etype"].tolist() == sorted(kinds(7, 13, 0)["four"].tolist(), reverse=True)


def test_what_a_stack_is_made_of_is_learnt() -> None:
    module, found, takes = traced("linears")
    replacement = found.module()
    replacement(*tensors(takes, 8, 30, 2)).sum().backward()
    assert all(linear.weight.grad.abs().sum() > 0 for linear in module.second)


def test_a_picked_set_is_not_taken_for_another_of_its_size() -> None:
    class Picked(torch.nn.Module):
        """Without loops, and with the others among them: equal in number where an example has as many of both."""

        def forward(self, x, edge_index):
            src, dst = edge_index
            out = torch.zeros_like(x)
            for kept, factor in ((src < dst, 2.0), (src > dst, 2.0)):
                out = out + factor * torch.zeros_like(x).index_add_(0, dst[kept], x[src[kept]] * x[dst[kept]])
            return out

    drawn = kinds(7, 13, 0)
    found = explorer.trace(Picked(), drawn["x"], drawn["edges"])
    other = kinds(23, 61, 5)
    hold(Picked(), found.module(), [other["x"], other["edges"]])


class Put(torch.nn.Module):
    """Rows that `put` puts into a tensor, and a sum over edges of them."""

    def __init__(self):
        super().__init__()
        self.linears = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x, edge_index, node_type):
        rows = self.put(x, node_type)
        return torch.zeros_like(x).index_add_(0, edge_index[1], rows[edge_index[0]])


class Twice(Put):
    """Kinds that overlap: what is put last counts."""

    def put(self, x, kind):
        out = torch.zeros_like(x)
        for here, linear in zip((kind >= 0, kind <= 1, kind == 1), self.linears, strict=True):
            out[here] = linear(x[here])
        return out


class Some(Put):
    """Two of three kinds, so that a row may be of none."""

    def put(self, x, kind):
        out = torch.zeros_like(x)
        for number, linear in enumerate(self.linears[:2]):
            out[kind == number] = linear(x[kind == number])
        return out


class Onto(Put):
    """Rows on those that are there."""

    def put(self, x, kind):
        out = 2 * x
        for number, linear in enumerate(self.linears):
            out[kind == number] = linear(x[kind == number])
        return out


class Chained(Put):
    """Rows of what was put before."""

    def put(self, x, kind):
        out = torch.zeros_like(x)
        for number, linear in enumerate(self.linears):
            out[kind == number] = linear((out + x)[kind == number])
        return out


class Swapped(Put):
    """Rows of one kind in the places of another, as many in the example."""

    def put(self, x, kind):
        out = torch.zeros_like(x)
        for number, linear in enumerate(self.linears):
            out[kind == number] = linear(x.flip(0)[kind.flip(0) == number].flip(0))
        return out


class Repeated(Put):
    """Ids that may name a row twice."""

    def put(self, x, kind):
        return torch.zeros_like(x).index_copy(0, kind, self.linears[0](x))


class Picked(Put):
    """The mean of some rows."""

    def put(self, x, kind):
        return x - self.linears[0](x[kind == 1]).mean(0)


class Unput(Put):
    """A tensor of which a part is left as it is."""

    def put(self, x, kind):
        return torch.empty_like(x) * 0 + self.linears[0](x)


def sorts(nodes, edges, seed):
    return tensors("x edges sorts", nodes, edges, seed)


def test_of_rows_that_are_put_twice_the_last_count() -> None:
    module = Twice()
    found = explorer.trace(module, *sorts(7, 13, 0))
    assert "linears_weight[ntype, 4, 4]" in found.text
    for nodes, edges in ((23, 61), (12, 12)):
        hold(module, found.module(), sorts(nodes, edges, nodes))


def test_a_row_of_no_kind_is_refused() -> None:
    x, edges, kind = sorts(7, 13, 0)
    module = Some()
    with pytest.raises(ValueError, match="a row is of no kind"):
        explorer.trace(module, x, edges, kind)
    replacement = explorer.trace(module, x, edges, kind % 2).module()
    hold(module, replacement, [x, edges, kind % 2])
    with pytest.raises(ValueError, match="a row is of no kind"):
        replacement(x, edges, kind % 2 + 1)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (Onto, "rows are put into others that are there"),
        (Chained, "it computes gather and number"),
        (Swapped, "picked by their place"),
        (Repeated, "one place twice"),
        (Picked, "2 sets of edges"),
        (Unput, "all rows be put"),
    ],
)
def test_rows_that_are_put_otherwise_are_refused(made, why) -> None:
    with pytest.raises(ValueError, match=why):
        explorer.trace(made(), *sorts(7, 13, 0))


def test_loops_over_kinds_are_products_of_types() -> None:
    text = traced("kinds")[1].text
    assert "keys_weight[n.ntype] @ x[n] + keys_bias[n.ntype]" in text
    assert 'e.src["h"] @ attention[e.etype]' in text
    assert 'e.src["h4"] @ message[e.etype]' in text
