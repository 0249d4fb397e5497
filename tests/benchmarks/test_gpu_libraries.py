"""Libraries as peers: what is asked of each, pretended by PyTorch's own operators, and what is told without them."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from benchmarks.gpu_suite import libraries
from benchmarks.timing.device import Clock, Samples


def pretend(monkeypatch: pytest.MonkeyPatch, **modules: Any) -> None:
    for name, content in modules.items():
        module = ModuleType(name.replace("__", "."))
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, module.__name__, module)


def segment_csr(rows: Any, ptr: Any) -> Any:
    assert ptr.dtype == torch.int64
    return torch.segment_reduce(rows, "sum", offsets=ptr, axis=0)


@pytest.fixture
def matrix() -> tuple[Any, ...]:
    """Offsets, columns and values of a matrix [4, 6], and rows for its columns and its rows."""
    torch.manual_seed(0)
    ptr, col = torch.tensor([0, 2, 2, 5, 6], dtype=torch.int32), torch.tensor([5, 0, 1, 2, 5, 3], dtype=torch.int32)
    return ptr, col, torch.rand(6), torch.rand(4, 8), torch.rand(6, 8)


def dense(matrix: tuple[Any, ...]) -> Any:
    ptr, col, value, *_ = matrix
    return torch.sparse_csr_tensor(ptr, col, value, (4, 6)).to_dense()


def test_bags(monkeypatch: pytest.MonkeyPatch) -> None:
    table, ptr, idx = torch.rand(9, 4), torch.tensor([0, 3, 3, 5]), torch.tensor([8, 1, 1, 0, 4])
    want = torch.stack([table[idx[:3]].sum(0), torch.zeros(4), table[idx[3:]].sum(0)])

    class Bag:
        def __init__(self, embedding_specs: Any) -> None:
            assert embedding_specs == [(9, 4, "device", "cuda")]
            self.weights = torch.zeros(9, 4)

        def split_embedding_weights(self) -> Any:
            return [self.weights]

        def eval(self) -> None: ...

        def __call__(self, indices: Any, offsets: Any) -> Any:
            return segment_csr(self.weights[indices], offsets)

    common = {"EmbeddingLocation": SimpleNamespace(DEVICE="device")}
    training = {
        "ComputeDevice": SimpleNamespace(CUDA="cuda"),
        "SplitTableBatchedEmbeddingBagsCodegen": Bag,
    }
    pretend(monkeypatch, fbgemm_gpu={}, torch_scatter={"segment_csr": segment_csr})
    pretend(monkeypatch, fbgemm_gpu__split_table_batched_embeddings_ops_common=common)
    pretend(monkeypatch, fbgemm_gpu__split_table_batched_embeddings_ops_training=training)
    for run in libraries.bags(table, ptr, idx).values():
        assert torch.allclose(run(), want)
        assert torch.allclose(run(), want)


def test_sparse_products(monkeypatch: pytest.MonkeyPatch, matrix: tuple[Any, ...]) -> None:
    ptr, col, value, rows, x = matrix

    def sparse_tensor(rowptr: Any, col: Any, value: Any, sparse_sizes: Any) -> Any:
        return torch.sparse_csr_tensor(rowptr, col, value, sparse_sizes)

    def graph(of: Any, num_nodes: int, idtype: Any) -> Any:
        kind, (ends, sources, numbers) = of
        assert (kind, len(ends), len(numbers), idtype) == ("csc", num_nodes + 1, 0, torch.int32)
        return torch.repeat_interleave(torch.arange(num_nodes), ends.diff()), sources

    def u_mul_e_sum(graph: Any, rows: Any, weight: Any) -> Any:
        dst, src = graph
        return torch.zeros(6, 8).index_add(0, dst, rows[src] * weight)

    def u_dot_v(graph: Any, of_source: Any, of_destination: Any) -> Any:
        dst, src = graph
        return (of_source[src] * of_destination[dst]).sum(1, keepdim=True)

    pretend(monkeypatch, torch_sparse={"SparseTensor": sparse_tensor, "matmul": torch.sparse.mm})
    pretend(monkeypatch, torch_scatter={"segment_csr": segment_csr}, dgl={"graph": graph})
    pretend(monkeypatch, dgl__ops={"u_mul_e_sum": u_mul_e_sum, "u_dot_v": u_dot_v})
    for name, run in libraries.sparse_product(ptr, col, value, x).items():
        assert torch.allclose(run()[:4], dense(matrix) @ x), name
    (run,) = libraries.sampled_product(ptr, col, value, rows, x).values()
    dst = torch.tensor([0, 0, 2, 2, 2, 3])
    assert torch.allclose(run(), value * (rows[dst] * x[col.long()]).sum(1))


def test_scores_take_the_rows_of_their_triples(monkeypatch: pytest.MonkeyPatch) -> None:
    class TransR:
        def __init__(self, p: int) -> None:
            self.p = p

        def __call__(self, h: Any, r: Any, t: Any) -> Any:
            return -(torch.einsum("bd,bdk->bk", h - t, r[1]) + r[0]).norm(p=self.p, dim=1)

    pretend(monkeypatch, pykeen={}, pykeen__nn={}, pykeen__nn__modules={"TransRInteraction": TransR})
    x = {"E": torch.rand(7, 4), "R": torch.rand(3, 5), "P": torch.rand(3, 4, 5)}
    h, r, t = torch.tensor([0, 6]), torch.tensor([2, 2]), torch.tensor([1, 3])
    (run,) = libraries.scores("transr", x, h, r, t).values()
    want = (torch.einsum("bd,dk->bk", x["E"][h] - x["E"][t], x["P"][2]) + x["R"][2]).norm(dim=1)
    assert torch.allclose(run(), -want)
    assert libraries.scores("transf", x, h, r, t) == {}


def test_a_library_that_is_not_there_is_told_where_its_time_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_scatter", None)
    runs = libraries.bags(torch.rand(3, 2), torch.tensor([0, 1]), torch.tensor([2]))
    samples = Samples()
    Clock._try(SimpleNamespace(_torch=torch), samples, runs["torch_scatter"])  # type: ignore[arg-type]
    assert "torch_scatter" in samples.error
