"""`gcompile` for graphs as DGL and PyTorch Geometric have them: every message function under every reduction against
float64 edge by edge, and shapes and short ways beside PyTorch's own expressions in float64."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import explorer
from explorer.runtime.gcompile import MESSAGES
from tests.message_cases import ON_EDGES, Case, check, every_case
from tests.message_cases import SOURCES as FEW_SOURCES
from tests.message_cases import TARGETS as FEW_TARGETS

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


def as_dgl(case: Case):
    """The graph of a case with the methods of DGL's."""
    edges = torch.from_numpy(case.source), torch.from_numpy(case.target)
    return SimpleNamespace(edges=lambda: edges, num_src_nodes=lambda: FEW_SOURCES, num_dst_nodes=lambda: FEW_TARGETS)


def as_pyg(case: Case):
    """The same with the fields of PyTorch Geometric's, whose nodes are sources and targets."""
    edge_index = torch.stack([torch.from_numpy(case.source), torch.from_numpy(case.target)])
    return SimpleNamespace(edge_index=edge_index, num_nodes=max(FEW_SOURCES, FEW_TARGETS))


@pytest.mark.sampled(40)
@every_case
def test_a_message_under_a_reduction(message, reduce):
    held_on(as_dgl, message, reduce)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_of_a_graph_as_pyg_has_it(message):
    """Its kernels are those of the other: what differs is how the graph is read."""
    held_on(as_pyg, message, "sum")


def held_on(graph_of, message, reduce):
    def run(case: Case):
        graph, rows = graph_of(case), {letter: torch.from_numpy(x).requires_grad_() for letter, x in case.rows.items()}
        kernels, given = explorer.gcompile(graph), dict(rows)
        if graph_of is as_pyg and "u" in given:  # the other nodes have no outgoing edge
            given["u"] = torch.nn.functional.pad(given["u"], (0, 0, 0, kernels.sources - FEW_SOURCES))
        own = (
            kernels.apply_edges(message, **given)
            if reduce == ON_EDGES
            else kernels.update_all(message, reduce, **given)
        )
        own.backward(torch.from_numpy(case.upstream))
        return own.detach().numpy(), {letter: tensor.grad.numpy() for letter, tensor in rows.items()}

    check(message, reduce, run)


SHAPES = [
    ((), ()),
    ((4,), ()),
    ((4,), (1,)),
    ((3, 4), (3, 1)),
    ((4, 4), (4,)),
    ((3, 1), (1, 4)),
    ((3, 1, 2), (1, 5, 1)),
]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("message", ["u_sub_e", "e_dot_u"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_shapes_are_broadcast_as_numpys(shapes, message):
    (source, target), (u, e) = edges(), (rows(SOURCES, *shapes[0]), rows(EDGES, *shapes[1]))

    def want(u, e):
        rank = max(u.ndim, e.ndim)
        u, e = (x.reshape(EDGES, *(1,) * (rank - x.ndim), *x.shape[1:]) for x in (u[source], e))
        every = u - e if message == "u_sub_e" else u * e
        every = every.sum(-1) if message == "e_dot_u" and rank > 1 else every
        return torch.zeros(TARGETS, *every.shape[1:]).double().index_add(0, target, every)

    same(explorer.gcompile(dgl_style()).update_all(message, u=u, e=e), want, (u, e))


@pytest.mark.sampled(2)
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
    with pytest.raises(ValueError, match="a message is copy_u, copy_e, or two of"):
        kernels.sddmm(rows(SOURCES, D), rows(TARGETS, D), "pow")
    with pytest.raises(ValueError, match="u_add_v takes u and v, as rows"):
        kernels.apply_edges("u_add_v", u=rows(SOURCES, D))
    with pytest.raises(ValueError, match=r"broadcast, not u \[6\] and v \[2, 7\]"):
        kernels.apply_edges("u_add_v", u=rows(SOURCES, D), v=rows(TARGETS, 2, D + 1))
    with pytest.raises(ValueError, match="has the shape"):
        kernels.spmm(rows(SOURCES + 1, D))


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_a_graph_of_dgl_and_its_own_results(reduce):
    dgl = pytest.importorskip("dgl", reason="the graph is DGL's, which this machine does without")
    graph = dgl.heterograph({("u", "e", "v"): edges()}, num_nodes_dict={"u": SOURCES, "v": TARGETS})
    x, weight = rows(SOURCES, D), rows(EDGES)
    got = explorer.gcompile(graph).update_all("u_mul_e", reduce, u=x, e=weight)
    graph.srcdata["x"], graph.edata["w"] = x.detach(), weight.detach()[:, None]
    graph.update_all(dgl.function.u_mul_e("x", "w", "m"), getattr(dgl.function, reduce)("m", "h"))
    torch.testing.assert_close(got, graph.dstdata["h"], rtol=1e-5, atol=1e-6)
    scores = explorer.gcompile(graph).apply_edges("u_dot_v", u=x, v=rows(TARGETS, D))
    graph.dstdata["y"] = rows(TARGETS, D).detach()
    graph.apply_edges(dgl.function.u_dot_v("x", "y", "s"))
    torch.testing.assert_close(scores.reshape(-1), graph.edata["s"].reshape(-1), rtol=1e-5, atol=1e-6)
