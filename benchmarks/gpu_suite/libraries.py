"""Libraries that a reader expects beside ours, each as a run: FBGEMM, torch_scatter, torch_sparse, DGL, PyKEEN.

None is needed: a library is imported, and what it wants of the inputs is made, when its run is first called, untimed.
Where it is not installed that call says so, and the table has the sentence in the place of a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import torch

Tensor = torch.Tensor
Run = Callable[[], Any]


def when_called(module: str, build: Callable[[Any], Run]) -> Run:
    """A run that is built of a module by its first call; raises ImportError where there is none."""
    made: list[Run] = []

    def run() -> Any:
        if not made:
            made.append(build(import_module(module)))
        return made[0]()

    return run


def bags(table: Tensor, ptr: Tensor, idx: Tensor) -> dict[str, Run]:
    """Sums of the rows of bags: int64 offsets, with the end, and indices."""

    def batched(fbgemm: Any) -> Run:
        host = import_module("fbgemm_gpu.split_table_batched_embeddings_ops_common").EmbeddingLocation.DEVICE
        compute = import_module("fbgemm_gpu.split_table_batched_embeddings_ops_training")
        spec = [(len(table), table.shape[1], host, compute.ComputeDevice.CUDA)]
        bag = compute.SplitTableBatchedEmbeddingBagsCodegen(embedding_specs=spec)
        bag.split_embedding_weights()[0].data.copy_(table)
        bag.eval()
        return without_gradients(lambda: bag(idx, ptr))

    return {
        "FBGEMM TBE": when_called("fbgemm_gpu", batched),
        "torch_scatter": when_called("torch_scatter", lambda scatter: lambda: scatter.segment_csr(table[idx], ptr)),
    }


def sparse_product(ptr: Tensor, col: Tensor, value: Tensor, x: Tensor) -> dict[str, Run]:
    """A sparse matrix times a dense one; ptr and col are int32."""

    def of_torch_sparse(sparse: Any) -> Run:
        shape = (len(ptr) - 1, len(x))
        matrix = sparse.SparseTensor(rowptr=ptr.long(), col=col.long(), value=value, sparse_sizes=shape)
        return without_gradients(lambda: sparse.matmul(matrix, x))

    def of_torch_scatter(scatter: Any) -> Run:
        places, offsets = col.long(), ptr.long()
        return lambda: scatter.segment_csr(value.unsqueeze(1) * x[places], offsets)

    def of_dgl(dgl: Any) -> Run:
        graph, ops = incoming(dgl, ptr, col, len(x)), import_module("dgl.ops")
        return without_gradients(lambda: ops.u_mul_e_sum(graph, x, value.unsqueeze(1)))

    return {
        "torch_sparse": when_called("torch_sparse", of_torch_sparse),
        "torch_scatter": when_called("torch_scatter", of_torch_scatter),
        "DGL SpMM": when_called("dgl", of_dgl),
    }


def sampled_product(ptr: Tensor, col: Tensor, value: Tensor, x: Tensor, y: Tensor) -> dict[str, Run]:
    """The dot product of two rows for each nonzero, times its value."""

    def of_dgl(dgl: Any) -> Run:
        graph, ops = incoming(dgl, ptr, col, len(y)), import_module("dgl.ops")
        return without_gradients(lambda: value * ops.u_dot_v(graph, y, x).squeeze(1))

    return {"DGL SDDMM": when_called("dgl", of_dgl)}


def incoming(dgl: Any, ptr: Tensor, col: Tensor, columns: int) -> Any:
    """The graph with an edge for each nonzero, from its column to its row, numbered as the nonzeros are."""
    nodes, none = max(columns, len(ptr) - 1), torch.empty(0, dtype=ptr.dtype, device=ptr.device)
    ends = torch.cat([ptr, ptr[-1:].expand(nodes + 1 - len(ptr))])
    return dgl.graph(("csc", (ends, col, none)), num_nodes=nodes, idtype=torch.int32)


def scores(model: str, x: Mapping[str, Tensor], h: Tensor, r: Tensor, t: Tensor) -> dict[str, Run]:
    """PyKEEN's interaction of a score, on rows that are gathered as its models do; it has higher scores for likelier
    triples, so that of distances the sign is another. None of those that it has no interaction of the same arguments
    for."""
    entities = x["E"]
    relation: dict[str, tuple[str, Callable[[], Any]]] = {
        "transe_l2": ("TransEInteraction", lambda: x["R"][r]),
        "rescal": ("RESCALInteraction", lambda: x["P"][r]),
        "transr": ("TransRInteraction", lambda: (x["R"][r], x["P"][r])),
    }
    if model not in relation:
        return {}
    name, of_relation = relation[model]

    def of_pykeen(_: Any) -> Run:
        kind = getattr(import_module("pykeen.nn.modules"), name)
        interaction = kind() if model == "rescal" else kind(p=2)
        return without_gradients(lambda: interaction(entities[h], of_relation(), entities[t]))

    return {f"PyKEEN {name.removesuffix('Interaction')}": when_called("pykeen", of_pykeen)}


def without_gradients(call: Run) -> Run:
    """A call of which PyTorch records nothing."""

    def run() -> Any:
        with torch.no_grad():
            return call()

    return run
