"""What users run today for the rows of the GPU suite, and the same mathematics in float64 to hold results against.

The functions take tensors by the names of the example's text; in float64 they are the reference, in float32 the plain
way to write the model with PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

Tensor = torch.Tensor
Tensors = Mapping[str, Tensor]
Run = Callable[[], Any]

SCORES: dict[str, Callable[[Tensors, Tensor, Tensor, Tensor], Tensor]] = {
    "transe_l2": lambda x, h, r, t: (x["E"][h] - x["E"][t] + x["R"][r]).norm(dim=-1),
    "transh": lambda x, h, r, t: _transh(x["E"][h] - x["E"][t], x["R"][r], x["w"][r]),
    "transf": lambda x, h, r, t: 2 * _dot(x["E"][h], x["E"][t]) + _dot(x["E"][t] - x["E"][h], x["R"][r]),
    "transr": lambda x, h, r, t: (_rows_times(x["E"][h] - x["E"][t], x["P"][r]) + x["R"][r]).norm(dim=-1),
    "rescal": lambda x, h, r, t: _dot(_rows_times(x["E"][h], x["P"][r]), x["E"][t]),
}
"""Each score in PyTorch, of h, r and t: [B]; with negatives t is [B, N], h and r [B, 1], and so is the score."""


def torch_script(model: str, tensors: Tensors, h: Tensor, r: Tensor, t: Tensor) -> Run:
    """A score traced into TorchScript by its first call; TorchScript fuses what it has in the calls after that."""
    given, made = (h, r, t, *tensors.values()), list[Run]()

    def score(h: Tensor, r: Tensor, t: Tensor, *tables: Tensor) -> Tensor:
        return SCORES[model](dict(zip(tensors, tables, strict=True)), h, r, t)

    def run() -> Any:
        if not made:
            script = torch.jit.trace(score, given, check_trace=False)
            made.append(lambda: script(*given))
        return made[0]()

    return run


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)


def _rows_times(rows: Tensor, matrices: Tensor) -> Tensor:
    """A triple's row [B, D], or its negatives' [B, N, D], times its matrix: [B, D, K], with negatives [B, 1, D, K]."""
    if rows.dim() == 3:
        return torch.bmm(rows, matrices.squeeze(1))
    return torch.bmm(rows.unsqueeze(1), matrices).squeeze(1)


def _transh(e: Tensor, r: Tensor, w: Tensor) -> Tensor:
    return (e + r - _dot(w, e).unsqueeze(-1) * w).norm(dim=-1)


class Edges:
    """A graph's edges sorted by type, so that those of a type are one slice: int64."""

    def __init__(self, src: Tensor, dst: Tensor, etype: Tensor, ntype: Tensor, etypes: int) -> None:
        order = torch.argsort(etype, stable=True)
        self.src, self.dst, self.etype = (ids[order].long() for ids in (src, dst, etype))
        self.ntype, self.etypes = ntype.long(), etypes
        self.counts = torch.bincount(self.etype, minlength=etypes).tolist()
        self.nodes = len(ntype)
        _, places, sizes = torch.unique(self.dst * etypes + self.etype, return_inverse=True, return_counts=True)
        self.norm = (1 / sizes.double())[places].unsqueeze(1)  # 1 / the in-edges of the destination of that type

    def by_type(self, rows: Tensor, matrices: Tensor) -> Tensor:
        """Each edge's row times its type's matrix, a product a type."""
        parts = zip(rows.split(self.counts), matrices, strict=True)
        return torch.cat([part @ matrix for part, matrix in parts if len(part)])

    def softmax(self, logits: Tensor) -> Tensor:
        """Over the edges into each edge's destination."""
        most = torch.full((self.nodes,), -torch.inf, dtype=logits.dtype, device=logits.device)
        most = most.scatter_reduce(0, self.dst, logits.detach(), "amax")
        share = torch.exp(logits - most[self.dst])
        total = torch.zeros_like(most).index_add(0, self.dst, share)
        return share / total[self.dst]

    def into(self, messages: Tensor) -> Tensor:
        """The sum of the messages of each node's in-edges."""
        zeros = torch.zeros(self.nodes, messages.shape[1], dtype=messages.dtype, device=messages.device)
        return zeros.index_add(0, self.dst, messages)


def rgcn(x: Tensors, edges: Edges) -> Tensor:
    """Schlichtkrull et al. 2018, a product a type: no row of an edge is kept."""
    out, norm = x["x"] @ x["w0"], edges.norm.to(x["x"].dtype)
    parts = zip(*(ids.split(edges.counts) for ids in (edges.src, edges.dst, norm)), x["W"], strict=True)
    for src, dst, share, matrix in parts:
        if len(src):
            out.index_add_(0, dst, share * (x["x"][src] @ matrix))
    return out.relu()


def rgat(x: Tensors, edges: Edges) -> Tensor:
    """Busbridge et al. 2019, one head, attention over all in-edges."""
    source, target = (edges.by_type(x["feature"][ids], x["W"]) for ids in (edges.src, edges.dst))
    logits = _dot(source, x["w_s"][edges.etype]) + _dot(target, x["w_t"][edges.etype])
    return edges.into(edges.softmax(F.leaky_relu(logits, 0.2)).unsqueeze(1) * source)


def hgt(x: Tensors, edges: Edges) -> Tensor:
    """Hu et al. 2020, with heads side by side."""
    heads, size = x["A"].shape[1:3]
    k, q, v = (_by_ntype(x["x"], x[name], edges.ntype) for name in "KQV")
    found = []
    for head in range(heads):
        keys = edges.by_type(k[edges.src, head], x["A"][:, head])
        logits = _dot(keys, q[edges.dst, head]) * x["mu"][edges.etype, head] / size**0.5
        messages = edges.by_type(v[edges.src, head], x["M"][:, head])
        found.append(edges.into(edges.softmax(logits).unsqueeze(1) * messages))
    return torch.stack(found, 1).flatten(1)


def _by_ntype(rows: Tensor, matrices: Tensor, ntype: Tensor) -> Tensor:
    """Each node's row times the matrices of its type: rows [N, F], matrices [T, H, F, D]; the result is [N, H, D]."""
    places = [(ntype == kind).nonzero().squeeze(1) for kind in range(len(matrices))]
    parts = [torch.einsum("nf,hfd->nhd", rows[ids], each) for ids, each in zip(places, matrices, strict=True)]
    return torch.cat(parts)[torch.argsort(torch.cat(places))]


LAYERS: dict[str, Callable[[Tensors, Edges], Tensor]] = {"rgcn": rgcn, "rgat": rgat, "hgt": hgt}


def pyg_layers(model: str, x: Tensors, edges: Edges, training: bool) -> dict[str, Run]:
    """PyTorch Geometric's ways to a layer, ready to run; none where it is not installed."""
    try:
        import torch_geometric  # noqa: F401
    except ImportError:
        return {}
    if model == "hgt":
        return {"PyG HGTConv": _pyg_hgt(x, edges, training)} if len(x["K"]) == 1 else {}
    from benchmarks.rgnn import CASES

    case = next(case for case in CASES if case.model == model)
    features = x["feature" if model == "rgat" else "x"]
    ends, runs = torch.stack((edges.src, edges.dst)), {}
    for variant in case.variants:
        layer = variant.build(dict(x), edges.etypes)
        runs[f"PyG {variant.name}"] = _trained(lambda layer=layer: layer(features, ends, edges.etype), training)
    return runs


def _trained(call: Callable[[], Tensor], training: bool) -> Run:
    """A call without gradients, or with its backward pass."""

    def inference() -> Tensor:
        with torch.no_grad():
            return call()

    return (lambda: call().sum().backward()) if training else inference


def _pyg_hgt(x: Tensors, edges: Edges, training: bool) -> Run:
    """HGTConv on one type of node, an edge type for each relation."""
    from torch_geometric.nn import HGTConv

    ends = torch.stack((edges.src, edges.dst)).split(edges.counts, dim=1)
    kinds = {("node", f"r{kind}", "node"): part for kind, part in enumerate(ends) if part.shape[1]}
    width = x["A"].shape[1] * x["A"].shape[2]
    layer = HGTConv(x["x"].shape[1], width, (["node"], list(kinds)), heads=x["A"].shape[1]).to(x["x"].device)
    return _trained(lambda: layer({"node": x["x"]}, kinds)["node"], training)


def bags(table: Tensor, ptr: Tensor, idx: Tensor, length: int) -> dict[str, Run]:
    """Sums of the rows of bags of one length: PyTorch's kernel, and the gather that is compiled."""
    compiled = torch.compile(lambda ids: table[ids].view(-1, length, table.shape[1]).sum(1))
    return {
        "EmbeddingBag": lambda: F.embedding_bag(idx, table, ptr, mode="sum", include_last_offset=True),
        "torch.compile": lambda: compiled(idx),
    }


def sparse_product(ptr: Tensor, col: Tensor, value: Tensor, x: Tensor) -> dict[str, Run]:
    """A sparse matrix times a dense one: cuSPARSE through PyTorch, and through CuPy."""
    matrix = torch.sparse_csr_tensor(ptr, col, value, (len(ptr) - 1, len(x)))
    runs: dict[str, Run] = {"torch.sparse.mm": lambda: torch.sparse.mm(matrix, x)}
    if x.is_cuda:
        import cupy
        from cupyx.scipy.sparse import csr_matrix

        given = tuple(cupy.from_dlpack(array) for array in (value, col, ptr))
        theirs, dense = csr_matrix(given, shape=matrix.shape), cupy.asfortranarray(cupy.from_dlpack(x))
        runs["CuPy csr @ dense"] = lambda: theirs @ dense
    return runs


def sampled_product(ptr: Tensor, col: Tensor, value: Tensor, x: Tensor, y: Tensor) -> dict[str, Run]:
    """The dot product of two rows for each nonzero: cuSPARSE through PyTorch."""
    matrix = torch.sparse_csr_tensor(ptr, col, value, (len(x), len(y)))
    transposed = y.t().contiguous()
    return {"torch.sampled_addmm": lambda: torch.sparse.sampled_addmm(matrix, x, transposed, beta=0.0)}
