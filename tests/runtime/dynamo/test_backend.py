"""torch.compile with the explorer's backend: eager's results and gradients, and what is not ours said."""

from __future__ import annotations

import tomllib
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import explorer

torch = pytest.importorskip("torch", reason="the backend is PyTorch's, which this machine does without")

from explorer.runtime.dynamo.backend import Compiled, backend  # noqa: E402
from tests.runtime.trace.held import outcomes  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
nn = torch.nn


class Score(nn.Module):
    """DistMult over heads, behind a batch norm, times a number of Python's."""

    def __init__(self):
        super().__init__()
        self.entities, self.relations = nn.Embedding(30, 8), nn.Embedding(5, 8)
        self.norm = nn.BatchNorm1d(8)
        self.scale = 0.75

    def forward(self, h, r, t):
        product = self.norm(self.entities(h)) * self.relations(r) * self.entities(t)
        return product.view(h.shape[0], 2, 4).sum((1, 2)) * self.scale


class Mean(nn.Module):
    """A layer of the mean of neighbours, in PyTorch's own words."""

    def __init__(self, width):
        super().__init__()
        self.own, self.others = nn.Linear(4, width), nn.Linear(4, width, bias=False)

    def forward(self, x, edges):
        src, dst = edges[0], edges[1]
        total = torch.zeros_like(x).index_add(0, dst, x[src])
        count = torch.zeros(x.size(0)).index_add(0, dst, torch.ones(edges.size(1)))
        return torch.relu(self.own(x) + self.others(total / count.clamp(min=1)[:, None]))


class Mixed(nn.Module):
    """A layer, and behind a break of the graph a convolution, which no text has."""

    def __init__(self):
        super().__init__()
        self.layer, self.convolution = Mean(6), nn.Conv1d(1, 2, 3, stride=2)

    def forward(self, x, edges):
        x = self.layer(x, edges)
        torch._dynamo.graph_break()
        return self.convolution(x[:, None])


def triples(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, most, (count,), generator=generator) for most in (30, 5, 30)]


def graph(nodes, edges, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(nodes, 4, generator=generator), torch.randint(0, nodes, (2, edges), generator=generator)]


def told(module, *args):
    """What is told of the graphs of a module, compiled for any sizes; and the compiled module."""
    found = []
    compiled = torch.compile(module, backend=lambda graph, _: Compiled(graph, found.append), dynamic=True)
    compiled(*args)
    return found, compiled


def same(compiled, module, arguments):
    """Raises AssertionError where results, or gradients by the module's parameters and the inputs, are others."""
    found = []
    for each in (module, compiled):
        result = outcomes_of(each, module, arguments)
        found.append(result)
    for wanted, got in zip(*found, strict=True):  # results, and gradients
        assert got.keys() == wanted.keys()
        for name, want in wanted.items():
            size = max(1e-3, float(want.detach().abs().max()))
            torch.testing.assert_close(got[name] / size, want / size, rtol=0, atol=1e-5, msg=str(name))


def outcomes_of(each, module, arguments):
    class As(nn.Module):
        def forward(self, *given):
            return each(*given)

        def named_parameters(self, *_, **__):
            return module.named_parameters()

    return outcomes(As(), arguments)


def test_a_score_of_any_batch_is_ours() -> None:
    torch.manual_seed(0)
    module = Score().eval()
    found, compiled = told(module, *triples(7))
    assert [bool(each.text) for each in found] == [True]
    assert "param entities_weight[entity, 8]" in found[0].text
    for count in (7, 12, 33):
        same(compiled, module, triples(count, count))
    assert len(found) == 1


def test_graphs_between_breaks_are_ours_where_they_can_be() -> None:
    torch.manual_seed(0)
    module = Mixed()
    found, compiled = told(module, *graph(9, 20))
    assert [bool(each.text) for each in found] == [True, False]
    assert "a convolution has steps" in found[1].reason
    assert "test_backend.py, line" in found[1].reason
    assert "return self.convolution(x[:, None])" in found[1].reason
    for nodes, edges in ((9, 20), (23, 61), (8, 40)):
        same(compiled, module, graph(nodes, edges, nodes))


class Parts(nn.Module):
    """A row for each node, and one for each edge."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, edge_index):
        message = torch.tanh(self.linear(x))[edge_index[0]]
        return x.new_zeros(x.size(0), 3).index_add(0, edge_index[1], message), message.exp()


def test_a_graph_of_several_results_is_ours() -> None:
    torch.manual_seed(0)
    module = Parts()
    found, compiled = told(module, *graph(9, 20))
    assert [bool(each.text) for each in found] == [True]
    for nodes, edges in ((9, 20), (23, 61), (8, 40)):
        same(compiled, module, graph(nodes, edges, nodes))


def test_it_is_found_by_its_name() -> None:
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    module, _, name = entries["torch_dynamo_backends"]["explorer"].partition(":")
    assert getattr(import_module(module), name) is backend
    if "explorer" not in torch._dynamo.list_backends():  # where it is not installed anew
        torch._dynamo.register_backend(backend, name="explorer")
    module = Mean(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(torch.compile(module, backend="explorer", dynamic=True), module, graph(9, 20))


def test_what_is_not_ours_is_said() -> None:
    module = nn.Conv1d(1, 2, 3, stride=2)
    with pytest.warns(UserWarning, match="a graph of 1 operators runs as it was: convolution: a convolution has steps"):
        found = torch.compile(module, backend=backend, dynamic=True)(torch.ones(4, 1, 6))
    torch.testing.assert_close(found, module(torch.ones(4, 1, 6)))


def test_sizes_that_are_numbers_are_said() -> None:
    module = Score().eval()
    compiled = torch.compile(module, backend=backend)
    with pytest.warns(UserWarning, match="dynamic=True"):
        compiled(*triples(7))
    same(compiled, module, triples(7))


def test_dropout_in_training_runs_as_it_was() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
    found, compiled = told(module, torch.ones(50, 4))
    assert not found[0].text
    assert "random" in found[0].reason
    assert (compiled(torch.ones(50, 4)) == 0).any()


def test_another_module_of_the_same_code_has_its_own_parameters() -> None:
    torch.manual_seed(0)
    for module in (Score().eval(), Score().eval()):
        same(torch.compile(module, backend=backend, dynamic=True), module, triples(9))


def test_parameters_that_are_learnt_or_replaced_are_read() -> None:
    torch.manual_seed(0)
    module = Score().eval()
    compiled = torch.compile(module, backend=backend, dynamic=True)
    compiled(*triples(9))
    with torch.no_grad():
        module.entities.weight.mul_(2)
    same(compiled, module, triples(9))
    module.relations.weight = nn.Parameter(torch.randn(5, 8))
    same(compiled, module, triples(9))


def test_a_number_of_python_is_not_kept() -> None:
    module = Score().eval()
    compiled = torch.compile(module, backend=backend, dynamic=True)
    for scale in (0.75, 0.5, 3.25, 0.75):
        module.scale = scale
        same(compiled, module, triples(9))


def test_a_number_of_graphs_is_one_trace() -> None:
    class Read(nn.Module):
        """A sum over the nodes of each graph of a batch."""

        def __init__(self):
            super().__init__()
            self.out = nn.Linear(4, 3)

        def forward(self, x, edges, batch, graphs):
            h = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]]).tanh()
            return self.out(torch.zeros(graphs, 4).index_add(0, batch, h))

    module = Read()
    found, compiled = told(module, *graph(9, 20), torch.arange(9) // 3, 3)
    for nodes, edges, graphs in ((9, 20, 4), (23, 61, 5), (8, 40, 9)):
        same(compiled, module, [*graph(nodes, edges, nodes), torch.arange(nodes) % graphs, graphs])
    assert ["batch.incoming_edges(m)" in each.text for each in found] == [
        True,
        True,
    ]  # rows without gradients, and with


def test_ids_without_a_row_are_refused_as_eager_does() -> None:
    module = Score().eval()
    compiled = torch.compile(module, backend=backend, dynamic=True)
    compiled(*triples(9))
    h, r, t = triples(9)
    with pytest.warns(UserWarning, match="in this call"), pytest.raises(IndexError):
        compiled(h + 30, r, t)


def test_it_is_explained(capsys) -> None:
    found = explorer.explain(Mixed(), *graph(9, 20))
    said = capsys.readouterr().out
    assert said.strip() == str(found).strip()
    assert "1 of 2 graphs run by the explorer" in said
    assert "sum(x[e.src] for e in n.incoming_edges())" in said
    assert "a convolution has steps" in said
    assert "graph_break" in said.splitlines()[-1]


def test_a_class_of_message_passing_is_compiled() -> None:
    pyg = pytest.importorskip("torch_geometric.nn", reason="message passing is torch_geometric's")

    class Weighted(pyg.MessagePassing):
        def __init__(self):
            super().__init__(aggr="add")
            self.linear = nn.Linear(4, 3)

        def forward(self, x, edges):
            return self.propagate(edges, x=self.linear(x))

        def message(self, x_i, x_j):
            return torch.sigmoid(x_i) * x_j

    torch.manual_seed(0)
    plain = Weighted()
    compiled = explorer.compile(Weighted)()
    compiled.load_state_dict(plain.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compiled(*graph(9, 20))
    torch.testing.assert_close(found, plain(*graph(9, 20)))
    assert isinstance(compiled, Weighted)


def test_a_function_is_compiled() -> None:
    @explorer.compile
    def total(x, edges):
        return torch.zeros_like(x).index_add(0, edges[1], torch.tanh(x[edges[0]]))

    x, edges = graph(9, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = total(x, edges)
    torch.testing.assert_close(found, torch.zeros_like(x).index_add(0, edges[1], torch.tanh(x[edges[0]])))


def test_a_class_of_something_else_is_not() -> None:
    with pytest.raises(TypeError, match=r"no class of torch\.nn\.Module"):
        explorer.compile(dict)
