"""`gcompile` beside PyTorch's own expressions in float64, for graphs as DGL and PyTorch Geometric have them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import explorer

torch = pytest.importorskip("torch", reason="gcompile runs on PyTorch's tensors, which this machine does without")

SOURCES, TARGETS, EDGES, D = 7, 9, 40, 6


def edges(sources=SOURCES, targets=TARGETS):
    generator = torch.Generator().manual_seed(3)
    return tuple(torch.randint(0, count - 1, (EDGES,), generator=generator) for count in (sources, targets))


def dgl_style():
    source, target = edges()
    return SimpleNamespace(edges=lambda: (source, target), num_src_nodes=lambda: SOURCES, num_dst_nodes=lambda: TARGETS)


def rows(count, *shape):
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(count), requires_grad=True)


def same(got, want, tensors):
    """Holds a result and its gradients against those of the float64 expression of copies."""
    copies = [tensor.detach().double().requires_grad_() for tensor in tensors]
    expected = want(*copies)
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-6)
    upstream = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1)).double()
    expected.backward(upstream)
    for found, copy in zip(torch.autograd.grad(got, tensors, upstream.float()), copies, strict=True):
        torch.testing.assert_close(found.double(), copy.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("weighted", [False, True])
def test_spmm_on_a_graph_as_dgl_has_it(reduce, weighted):
    (source, target), x, weight = edges(), rows(SOURCES, D), rows(EDGES)

    def want(x, weight=None):
        messages = x[source] if weight is None else x[source] * weight[:, None]
        empty = torch.zeros(TARGETS, D, dtype=torch.float64)
        name = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin"}[reduce]
        return empty.scatter_reduce(0, target[:, None].expand(-1, D), messages, name, include_self=False)

    tensors = (x, weight) if weighted else (x,)
    same(explorer.gcompile(dgl_style()).spmm(*tensors, reduce=reduce), want, tensors)


@pytest.mark.parametrize("function", ["dot", "add", "sub", "mul", "div"])
def test_sddmm_has_the_graphs_order_of_edges(function):
    (source, target), x, y = edges(), rows(SOURCES, D), rows(TARGETS, D)
    of_rows = {
        "dot": lambda a, b: (a * b).sum(-1),
        "add": torch.add,
        "sub": torch.sub,
        "mul": torch.mul,
        "div": torch.div,
    }[function]
    same(explorer.gcompile(dgl_style()).sddmm(x, y, function), lambda x, y: of_rows(x[source], y[target]), (x, y))


def test_a_graph_of_pytorch_geometric_is_encoded_once():
    data = pytest.importorskip("torch_geometric.data", reason="PyTorch Geometric is not here")
    source, target = edges(TARGETS, TARGETS)
    kernels = explorer.gcompile(data.Data(edge_index=torch.stack([source, target]), num_nodes=TARGETS))
    x = rows(TARGETS, D)
    same(kernels.spmm(x), lambda x: torch.zeros(TARGETS, D).double().index_add(0, target, x[source]), (x,))
    structure = kernels._structure
    assert kernels.sddmm(x, x).shape == (EDGES,)
    assert kernels._structure is structure


def test_what_is_no_graph_or_no_operator_is_refused():
    with pytest.raises(TypeError, match="a list has neither"):
        explorer.gcompile([])
    kernels = explorer.gcompile(dgl_style())
    with pytest.raises(ValueError, match="reduce is one of"):
        kernels.spmm(rows(SOURCES, D), reduce="median")
    with pytest.raises(ValueError, match="the function is one of"):
        kernels.sddmm(rows(SOURCES, D), rows(TARGETS, D), "pow")
    with pytest.raises(ValueError, match="rows"):
        kernels.spmm(rows(SOURCES))
    with pytest.raises(ValueError, match="has the shape"):
        kernels.spmm(rows(SOURCES + 1, D))
