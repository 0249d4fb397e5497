"""Every example op, at every stage and on the CPU: what PyTorch computes, and the gradients of its autograd.

The structures have what goes wrong: empty bags and rows, the first or the last or all of them, one row, nothing.
"""

import numpy as np
import pytest
import torch
from torch.nn.functional import embedding_bag

from explorer.runtime.targets.cpu import prepare_once
from tests.compiler.ops import INTERPRETED, OPS, compiled, encoded, results, structure_of

ops = pytest.mark.parametrize("path", OPS, ids=lambda path: path.stem)
LENGTHS = [(2, 0, 3, 1, 0), (0, 4), (0, 0, 0), (7,), (), (1, 1, 1, 1)]


def bags(arrays, mode, weights=None):
    ids = torch.from_numpy(arrays["idx"]).long()
    offsets = torch.from_numpy(arrays["bag_ptr"]).long()
    return embedding_bag(ids, arrays["T"], offsets, mode=mode, per_sample_weights=weights, include_last_offset=True)


def segments(arrays, rows, function, count):
    """A reduction of rows by matrix row, by PyTorch's scatter; 0 where there are none."""
    index = torch.from_numpy(arrays["row"]).long()
    spread = index.reshape(-1, *[1] * (rows.ndim - 1)).expand_as(rows)
    start = torch.zeros(count, *rows.shape[1:], dtype=rows.dtype)
    return start.scatter_reduce(0, spread, rows, function, include_self=False)


def matrix(arrays):
    row, col = (torch.from_numpy(arrays[name]).long() for name in ("row", "col"))
    return row, col


def message(arrays, weight, second):
    row, col = matrix(arrays)
    x = arrays["x"]
    scores = (x[row] * arrays[second][col]).sum(-1)
    return weight(arrays, scores), x[row], arrays[second][col], len(x)


def expected(name, arrays):
    """What an example computes, written with PyTorch on float64."""
    row_count = len(arrays["row_ptr"]) - 1 if "row_ptr" in arrays else 0
    if "col" in arrays:
        row, col = matrix(arrays)
    match name:
        case "sls" | "sls_mean" | "sls_max":
            return bags(arrays, {"sls": "sum", "sls_mean": "mean", "sls_max": "max"}[name])
        case "sls_weighted":
            return bags(arrays, "sum", arrays["weight"])
        case "bag_dot":
            return (bags(arrays, "sum") @ arrays["P"] * arrays["dense"]).sum(-1)
        case "spmm" | "spmm_coo":
            return segments(arrays, arrays["value"][:, None] * arrays["X"][col], "sum", row_count)
        case "spmm_unweighted":
            return segments(arrays, arrays["X"][col], "sum", row_count)
        case "spmm_mean" | "spmm_max":
            function = {"spmm_mean": "mean", "spmm_max": "amax"}[name]
            return segments(arrays, arrays["value"][:, None] * arrays["X"][col], function, row_count)
        case "sddmm":
            return arrays["value"] * (arrays["X"][row] * arrays["Y"][col]).sum(-1)
        case "mp":
            scores = arrays["value"] * (arrays["x"][row] * arrays["x"][col]).sum(-1)
            return segments(arrays, scores[:, None] * arrays["x"][row], "sum", row_count)
        case "mp_sigmoid":
            scores = torch.sigmoid((arrays["x"][row] * arrays["y"][col]).sum(-1))
            return segments(arrays, scores[:, None] * arrays["y"][col], "sum", row_count)
        case "spattn":
            return arrays["K"][torch.from_numpy(arrays["idx"]).long()]
        case "spattn_replicated":
            blocks = arrays["K"][torch.from_numpy(arrays["idx"]).long()]
            return blocks[:, None].expand(-1, 3, -1, -1)
    raise AssertionError(f"no PyTorch for {name}")


def inputs_of(path, lengths, **options):
    compilation = compiled(path.read_text(), **options)
    graph = compilation.stages["graph"].program
    maps, counts = structure_of(graph, lengths)
    return compilation, graph, encoded(graph, maps, counts)


def in_torch(graph, arrays):
    """The arrays, those that are learnt or given with the structure as float64 tensors that want gradients."""
    tensors = {}
    for tensor in graph.tensors:
        wanted = tensor.kind in ("param", "structure")
        tensors[tensor.name] = torch.from_numpy(arrays[tensor.name]).double().requires_grad_(wanted)
    return arrays | tensors


@pytest.mark.sampled(6)
@ops
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_every_stage_computes_what_pytorch_does(path, lengths):
    compilation, graph, arrays = inputs_of(path, lengths)
    wanted = expected(path.stem, in_torch(graph, arrays)).detach().numpy()
    for stage, (result, _) in results(compilation, arrays).items():
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5, err_msg=stage)
    result, _ = prepare_once(compilation.stages["loops"].program).bind(arrays).run()
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.sampled(12)
@ops
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_gradients_are_those_of_autograd(path, lengths):
    compilation, graph, arrays = inputs_of(path, lengths, grad=True)
    tensors = in_torch(graph, arrays)
    wanted = expected(path.stem, tensors)
    wanted.backward(torch.from_numpy(arrays["upstream"]).double())
    names = [name for name, _ in graph.gradients]
    assert names == [tensor.name for tensor in graph.tensors if tensor.kind in ("param", "structure")]
    outcomes = [gradients for _, gradients in results(compilation, arrays).values()]
    outcomes.append(prepare_once(compilation.stages["loops"].program).bind(arrays).run()[1])
    for gradients in outcomes:
        for name in names:
            shape = arrays[name].shape
            got = gradients[name].reshape(shape)
            np.testing.assert_allclose(got, tensors[name].grad.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


def test_all_stages_are_looked_at():
    assert {"graph", "loops", "slc", "dlc"} <= set(INTERPRETED)


@pytest.mark.parametrize("on", ["graph", "loops", "kernels", "cpu", "dae"])
def test_vectors_of_nonzeros_in_the_callers_order(on):
    """A tensor over nonzeros is read by the variable of a row's loop, and has a gradient for each."""
    text = """dim D = 5
op EdgeVectors(A: coo[row, col]):
    param E[nonzero, D]
    input X[col, D]
    for i in A.rows():
        i["y"] = sum(E[j] * X[j] for j in A.row(i))
    return i["y"]
"""
    random = np.random.default_rng(0)
    row, col = random.integers(0, 6, 20), random.integers(0, 7, 20)
    table, rows = random.normal(size=(20, 5)), random.normal(size=(7, 5))
    upstream = random.normal(size=(6, 5)).astype(np.float32)
    want = np.zeros((6, 5))
    np.add.at(want, row, table * rows[col])
    given = {"row": row, "col": col, "num_rows": 6, "num_cols": 7, "E": table, "X": rows}
    result, gradients = compiled(text, grad=True).run(given, on, grad=upstream)
    np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradients["E"], upstream[row] * rows[col], rtol=1e-5, atol=1e-6)
