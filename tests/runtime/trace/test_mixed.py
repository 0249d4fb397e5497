"""Several sets of edges whose sums are no one sum of typed edges: one graph of all of them, each sum of its own."""

from __future__ import annotations

import pytest

import explorer

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")

from tests.runtime.trace.held import hold, redraw  # noqa: E402
from tests.runtime.trace.relation_modules import kinds  # noqa: E402


def summed(nodes, dst, message):
    return torch.zeros(nodes, *message.shape[1:]).index_add_(0, dst, message)


class Several(torch.nn.Module):
    """Relations that `message` computes something else for."""

    def forward(self, x, edge_index, edge_type):
        out = torch.zeros(x.size(0), 4)
        for relation in range(3):
            src, dst = edge_index[:, edge_type == relation]
            out = out + self.summed(relation, x, src, dst)
        return out

    def summed(self, relation, x, src, dst):
        message = torch.relu(x[src]) if relation else x[src]
        return torch.zeros_like(x).index_add_(0, dst, message)


class Softmax(Several):
    """Attention within each relation."""

    def summed(self, relation, x, src, dst):
        weight = torch.exp((x[src] * x[dst]).sum(-1) * (relation + 1.0))
        total = torch.zeros(x.size(0)).index_add_(0, dst, weight)
        return torch.zeros_like(x).index_add_(0, dst, (weight / total[dst])[:, None] * x[src])


class Squared(Several):
    """A square of each relation's sum, which is no sum over edges."""

    def summed(self, relation, x, src, dst):
        return torch.zeros_like(x).index_add_(0, dst, x[src]) ** 2


class Largest(Several):
    """The largest of each relation, of which the sum is taken."""

    def summed(self, relation, x, src, dst):
        ids = dst[:, None].expand(-1, 4)
        return torch.zeros_like(x).scatter_reduce_(0, ids, x[src], "amax", include_self=False)


class Undefined(Several):
    """A mean that is no number where a relation has no edges."""

    def summed(self, relation, x, src, dst):
        count = torch.zeros(x.size(0)).index_add_(0, dst, torch.ones(len(dst)))
        return torch.zeros_like(x).index_add_(0, dst, x[src]) / count[:, None]


class Attention(torch.nn.Module):
    """A softmax within each of two arrays of edges, whose features are of other widths."""

    def __init__(self):
        super().__init__()
        self.rows, self.edges = torch.nn.Linear(4, 3), torch.nn.Linear(2, 3)

    def forward(self, x, follows, likes, strengths, opinions):
        return self.one(x, follows, self.edges(strengths)).relu() + self.one(x, likes, opinions).tanh()

    def one(self, x, edges, message):
        src, dst = edges
        score = (message * self.rows(x)[src]).sum(-1)
        most = torch.zeros(len(x)).scatter_reduce(0, dst, score, "amax", include_self=False)
        weight = torch.exp(score - most[dst])
        return summed(len(x), dst, (weight / summed(len(x), dst, weight)[dst])[:, None] * message)


class Loops(torch.nn.Module):
    """A graph with loops added beside the one without, for a normalised sum and a mean."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)

    def forward(self, x, edge_index):
        src, dst = torch.cat([edge_index, torch.arange(len(x)).expand(2, -1)], 1)
        degree = summed(len(x), dst, torch.ones(len(dst))) ** -0.5
        normed = summed(len(x), dst, self.first(x)[src] * (degree[src] * degree[dst])[:, None])
        count = summed(len(x), edge_index[1], torch.ones(edge_index.size(1))).clamp(min=1)
        return torch.relu(normed) * (summed(len(x), edge_index[1], self.second(x)[edge_index[0]]) / count[:, None])


class Typed(torch.nn.Module):
    """Edges of types beside edges without."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 4, 4))

    def forward(self, x, edge_index, edge_type, more):
        message = torch.bmm(x[edge_index[0]].unsqueeze(1), self.weight[edge_type]).squeeze(1)
        smallest = torch.zeros_like(x).scatter_reduce(
            0, more[1, :, None].expand(-1, 4), x[more[0]] * x[more[1]], "amin", include_self=False
        )
        mean = torch.zeros_like(x).scatter_reduce(
            0, edge_index[1, :, None].expand(-1, 4), message, "mean", include_self=False
        )
        return mean * torch.sigmoid(smallest)


class Scores(torch.nn.Module):
    """Scores of some edges, of rows that went along others, and two types of an edge: there and back."""

    def __init__(self):
        super().__init__()
        self.there, self.table = torch.nn.Linear(4, 4), torch.nn.Parameter(torch.randn(6, 4))

    def forward(self, x, edge_index, edge_type, more):
        src, dst = edge_index
        rows = summed(len(x), dst, self.there(x)[src] * self.table[edge_type])
        rows = torch.tanh(rows + summed(len(x), src, x[dst] * self.table[edge_type + 3]))
        return (rows[more[0]] * rows[more[1]]).sum(-1)


class Back(Scores):
    """One set of edges, of two types."""

    def forward(self, x, edge_index, edge_type):
        src, dst = edge_index
        there = summed(len(x), dst, self.there(x)[src] * self.table[edge_type])
        return there + summed(len(x), src, x[dst] * self.table[edge_type + 3])


def drawn(takes, nodes, edges, seed):
    generator = torch.Generator().manual_seed(seed + 9)
    made = kinds(nodes, edges, seed)
    made["strengths"] = torch.randn(edges, 2, generator=generator)
    made["opinions"] = torch.randn(edges + 5, 3, generator=generator)
    return [made[each] for each in takes.split()]


MIXED = {
    Several: "x edges types",
    Softmax: "x edges types",
    Squared: "x edges types",
    Largest: "x edges types",
    Attention: "x edges more strengths opinions",
    Loops: "x edges",
    Typed: "x edges types more",
    Back: "x edges types",
}


@pytest.mark.parametrize("made", MIXED)
def test_a_replacement_has_the_results_and_gradients_on_another_graph(made) -> None:
    torch.manual_seed(0)
    module = made()
    found = explorer.trace(module, *drawn(MIXED[made], 7, 13, 0))
    assert found.text.count("g: graph") == 1
    redraw(module, 3)
    for nodes, edges in ((23, 61), (12, 14), (9, 2)):  # in the last one some sets have no edges
        hold(module, found.module(), drawn(MIXED[made], nodes, edges, nodes))


def test_the_text_says_which_edges_are_summed() -> None:
    text = explorer.trace(Squared(), *drawn("x edges types", 7, 13, 0)).text
    assert "input own1[edge], own2[edge], own3[edge]" in text
    assert "sum(where(own2[e], x[e.src], 0) for e in n.incoming_edges()) ** 2" in text


def test_the_ids_are_of_all_sets_one_after_another() -> None:
    x, edges, types = drawn("x edges types", 7, 13, 0)
    maps = explorer.trace(Squared(), x, edges, types).maps
    order = types.argsort(stable=True)
    assert maps["dst"].tolist() == edges[1, order].tolist()
    assert maps["src"].tolist() == edges[0, order].tolist()


def test_the_result_has_rows_for_the_edges_of_one_set() -> None:
    class Decoded(Scores):
        def forward(self, x, edge_index, more):
            rows = torch.tanh(summed(len(x), edge_index[1], self.there(x)[edge_index[0]]))
            return (rows[more[0]] * rows[more[1]] * self.table[0]).sum(-1)

    module = Decoded()
    found = explorer.trace(module, *drawn("x edges more", 7, 13, 0))
    redraw(module, 3)
    for nodes, edges in ((23, 61), (12, 14), (9, 2)):
        hold(module, found.module(), drawn("x edges more", nodes, edges, nodes))


def test_rows_of_a_second_type_are_fetched() -> None:
    text = explorer.trace(Back(), *drawn("x edges types", 7, 13, 0)).text
    assert "table[etype, 4]" in text
    assert "table2[edge, 4]" in text


def test_two_types_of_edges_of_several_sets_are_refused() -> None:
    with pytest.raises(ValueError, match="2 sets of edges"):
        explorer.trace(Scores(), *drawn("x edges types more", 7, 13, 0))


def test_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="the gradient of x"):
        explorer.trace(Undefined(), *drawn("x edges types", 7, 13, 0))


class Bought(torch.nn.Module):
    """Users' and items' rows, each the sum of what edges lead from: `sets` are edges by their ends."""

    def forward(self, rows, sets):
        return {
            end: torch.relu(summed(len(rows[end]), edges[1], rows[start][edges[0]]))
            for (start, end), edges in sets.items()
        }


@pytest.mark.parametrize("counts", [(50, 900), (900, 50)])
@pytest.mark.parametrize("ends", [[("user", "item")], [("user", "item"), ("item", "user")]])
def test_several_sets_of_nodes_are_one(counts, ends) -> None:
    """The ids of either end are drawn of its own rows: else the module would raise an error of its own."""

    def bought(counts, edges):
        generator = torch.Generator().manual_seed(0)
        count = dict(zip(("user", "item"), counts, strict=True))

        def ids(end, edges):
            return torch.randint(0, count[end], (edges,), generator=generator)

        rows = {name: torch.randn(size, 4, generator=generator) for name, size in count.items()}
        return rows, {pair: torch.stack([ids(end, edges + 40 * at) for end in pair]) for at, pair in enumerate(ends)}

    found = explorer.trace(Bought(), *bought(counts, 2000))
    hold(Bought(), found.module(), bought((23, 12), 61))
