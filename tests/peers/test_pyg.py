"""The example layers beside code that no one here wrote: PyTorch Geometric forward, its autograd backward.

Where conventions differ, the parameters or the text are brought to what both can say: RGATConv shares its attention
vectors among all types of edges; HGTConv ends in a GELU and a product, which is the identity here; the mean of a GCN
is SAGEConv without a root.
"""

from pathlib import Path

import numpy as np
import pytest

import explorer

torch = pytest.importorskip("torch")

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "rgnn"
NODES, EDGES, ETYPES, NTYPES = 23, 140, 4, 3
F, G, H, D = 6, 5, 2, 4

pytestmark = pytest.mark.timeout(600)  # a backward pass is many kernels to compile to machine code


@pytest.fixture(scope="module")
def pyg():
    """PyTorch Geometric. It takes seconds to import, which processes that only collect these tests need not spend."""
    pytest.importorskip("torch_geometric")
    import torch_geometric.backend
    import torch_geometric.nn

    return torch_geometric


def draw(*shape, scale=0.7):
    return (scale * RANDOM.normal(size=shape)).astype(np.float32)


RANDOM = np.random.default_rng(11)
NTYPE = np.sort(RANDOM.integers(0, NTYPES, NODES)).astype(np.int32)


def relational_graph():
    """Nodes of types in a row; each type of edge joins two types of nodes; parallel edges, and nodes without any."""
    ends = [(t % NTYPES, (t + 1) % NTYPES) for t in range(ETYPES)]
    etype = RANDOM.integers(0, ETYPES, EDGES).astype(np.int32)
    members = [np.flatnonzero(t == NTYPE)[:-1] for t in range(NTYPES)]
    src = np.array([RANDOM.choice(members[ends[t][0]]) for t in etype], np.int32)
    dst = np.array([RANDOM.choice(members[ends[t][1]]) for t in etype], np.int32)
    src[1], dst[1], etype[1] = src[0], dst[0], etype[0]
    return {"src": src, "dst": dst, "etype": etype, "ntype": NTYPE, "num_etypes": ETYPES, "num_ntypes": NTYPES}


GRAPH = relational_graph()
X = draw(NODES, F, scale=1.0)


def ours(text, tensors, upstream, **options):
    """The result and the gradients on the CPU."""
    sizes = {name: size for name, size in {"F": F, "G": G, "H": H, "D": D}.items() if f"{name} =" in text}
    compilation = explorer.compile(text, sizes=sizes, options={"grad": True, **options}, on_demand=True)
    assert compilation.ok, [diagnostic.message for diagnostic in compilation.diagnostics]
    return compilation.run({**GRAPH, **tensors}, "cpu", grad=upstream)


def text_of(name):
    return (FOLDER / f"{name}.emb").read_text()


def edge_index():
    return torch.from_numpy(np.stack([GRAPH["src"], GRAPH["dst"]]).astype(np.int64))


def etypes():
    return torch.from_numpy(GRAPH["etype"].astype(np.int64))


def leaf(array):
    return torch.nn.Parameter(torch.from_numpy(np.ascontiguousarray(array)))


def close(got, want):
    want = want.detach().numpy() if hasattr(want, "detach") else want
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5)


def test_rgcn(pyg, monkeypatch):
    monkeypatch.setattr(pyg.backend, "use_segment_matmul", False)  # its slow path takes the mean by type
    weight, root, upstream = draw(ETYPES, F, G), draw(F, G), draw(NODES, G)
    layer = pyg.nn.RGCNConv(F, G, ETYPES, aggr="mean", bias=False)
    layer.weight, layer.root = leaf(weight), leaf(root)
    want = layer(torch.from_numpy(X), edge_index(), etypes()).relu()
    (want * torch.from_numpy(upstream)).sum().backward()
    got, gradients = ours(text_of("rgcn"), {"x": X, "W": weight, "w0": root}, upstream)
    close(got, want)
    close(gradients["W"], layer.weight.grad)
    close(gradients["w0"], layer.root.grad)


@pytest.mark.parametrize("switch", [False, True])
def test_rgat(pyg, switch):
    weight, ours_s, ours_t, upstream = draw(ETYPES, F, G), draw(G), draw(G), draw(NODES, G)
    layer = pyg.nn.RGATConv(F, G, ETYPES, bias=False)
    layer.weight, layer.k, layer.q = leaf(weight), leaf(ours_s[:, None]), leaf(ours_t[:, None])
    want = layer(torch.from_numpy(X), edge_index(), etypes())
    (want * torch.from_numpy(upstream)).sum().backward()
    tensors = {"feature": X, "W": weight, "w_s": np.tile(ours_s, (ETYPES, 1)), "w_t": np.tile(ours_t, (ETYPES, 1))}
    got, gradients = ours(text_of("rgat"), tensors, upstream, reorder=switch, compact=switch)
    close(got, want)
    close(gradients["W"], layer.weight.grad)
    close(gradients["w_s"].sum(axis=0), layer.k.grad[:, 0])
    close(gradients["w_t"].sum(axis=0), layer.q.grad[:, 0])


@pytest.mark.sweep
def test_rgat_with_heads(pyg):
    weight, ours_s, ours_t, upstream = draw(ETYPES, H, F, G), draw(H, G), draw(H, G), draw(NODES, H * G)
    layer = pyg.nn.RGATConv(F, G, ETYPES, heads=H, bias=False)
    layer.weight = leaf(weight.transpose(0, 2, 1, 3).reshape(ETYPES, F, H * G))
    layer.k, layer.q = leaf(block_diagonal(ours_s)), leaf(block_diagonal(ours_t))
    want = layer(torch.from_numpy(X), edge_index(), etypes())
    (want * torch.from_numpy(upstream)).sum().backward()
    tensors = {"x": X, "W": weight, "w_s": np.tile(ours_s, (ETYPES, 1, 1)), "w_t": np.tile(ours_t, (ETYPES, 1, 1))}
    got, gradients = ours(text_of("rgat_heads"), tensors, upstream)
    close(got, want)
    close(gradients["W"], layer.weight.grad.reshape(ETYPES, F, H, G).permute(0, 2, 1, 3))
    for name, theirs in (("w_s", layer.k.grad), ("w_t", layer.q.grad)):
        blocks = np.stack([theirs[h * G : (h + 1) * G, h].numpy() for h in range(H)])
        close(gradients[name].sum(axis=0), blocks)


def block_diagonal(heads):
    """[H, G] as the matrix [H * G, H] that keeps the heads apart."""
    matrix = np.zeros((H * G, H), np.float32)
    for head in range(H):
        matrix[head * G : (head + 1) * G, head] = heads[head]
    return matrix


def test_gcn(pyg):
    weight, upstream = draw(F, G), draw(NODES, G)
    layer = pyg.nn.SAGEConv(F, G, aggr="mean", root_weight=False, bias=False)
    layer.lin_l.weight = leaf(weight.T)
    want = layer(torch.from_numpy(X), edge_index()).relu()
    (want * torch.from_numpy(upstream)).sum().backward()
    got, gradients = ours(text_of("gcn"), {"x": X, "W": weight}, upstream)
    close(got, want)
    close(gradients["W"], layer.lin_l.weight.grad.T)


@pytest.mark.sweep
def test_hgt(pyg):
    tensors = {name: draw(NTYPES, H, F, D) for name in "KQV"}
    tensors |= {"A": draw(ETYPES, H, D, D), "M": draw(ETYPES, H, D, D), "mu": draw(ETYPES, H)}
    upstream = draw(NODES, H * D)
    layer, by_type, indices = aligned_hgt(pyg, tensors)
    found = layer({name: torch.from_numpy(X[rows]) for name, rows in by_type.items()}, indices)
    want = torch.cat([found[name] for name in by_type])
    (want * torch.from_numpy(upstream)).sum().backward()
    text = text_of("hgt").replace('return reshape(n["h"], H * D)', 'return gelu(reshape(n["h"], H * D))')
    assert "gelu" in text
    got, gradients = ours(text, {"x": X, **tensors}, upstream)
    close(got, want)
    for part, name in enumerate("KQV"):
        theirs = torch.stack([layer.kqv_lin.lins[kind].weight.grad for kind in by_type])
        close(gradients[name], theirs.reshape(NTYPES, 3, H, D, F)[:, part].permute(0, 1, 3, 2))
    for name, theirs in (("A", layer.k_rel.weight.grad), ("M", layer.v_rel.weight.grad)):
        close(gradients[name], theirs.reshape(H, ETYPES, D, D).transpose(0, 1))
    close(gradients["mu"], torch.cat([layer.p_rel["__".join(kind)].grad for kind in indices]))


def aligned_hgt(pyg, tensors):
    """HGTConv with our parameters; the rows of each type of node; and the edges by type, counted within types."""
    by_type = {f"n{t}": np.flatnonzero(t == NTYPE) for t in range(NTYPES)}
    kinds = [(f"n{t % NTYPES}", f"e{t}", f"n{(t + 1) % NTYPES}") for t in range(ETYPES)]
    layer = pyg.nn.HGTConv(F, H * D, (list(by_type), kinds), heads=H)
    for t, name in enumerate(by_type):
        rows = [tensors[part][t].transpose(0, 2, 1).reshape(H * D, F) for part in "KQV"]
        layer.kqv_lin.lins[name].weight = leaf(np.concatenate(rows))
        torch.nn.init.zeros_(layer.kqv_lin.lins[name].bias)
        layer.out_lin.lins[name].weight = leaf(np.eye(H * D, dtype=np.float32))
        torch.nn.init.zeros_(layer.out_lin.lins[name].bias)
    layer.k_rel.weight = leaf(tensors["A"].transpose(1, 0, 2, 3).reshape(H * ETYPES, D, D))
    layer.v_rel.weight = leaf(tensors["M"].transpose(1, 0, 2, 3).reshape(H * ETYPES, D, D))
    starts = {name: rows[0] for name, rows in by_type.items()}
    indices = {}
    for t, kind in enumerate(kinds):
        layer.p_rel["__".join(kind)] = leaf(tensors["mu"][t][None])
        edges = t == GRAPH["etype"]
        ends = [GRAPH["src"][edges] - starts[kind[0]], GRAPH["dst"][edges] - starts[kind[2]]]
        indices[kind] = torch.from_numpy(np.stack(ends).astype(np.int64))
    return layer, by_type, indices
