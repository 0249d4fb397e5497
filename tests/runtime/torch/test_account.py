"""The account of memory of a layer: every byte that its module asks PyTorch for, counted before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

import explorer
from benchmarks import memory
from explorer.runtime.data.graphs import load_graph

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")

SIZES = {"rgcn": {"F": 12, "G": 20}, "rgat": {"F": 12, "G": 20}, "hgt": {"F": 12, "H": 2, "D": 6}}


@pytest.fixture
def asked(pretended_gpu: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each allocation of a module's memory, in order."""
    from explorer.runtime.torch import cuda as torch_cuda

    found: list[int] = []
    empty = torch.empty

    def counted(*shape: Any, **of: Any) -> Any:
        tensor = empty(*shape, **of)
        found.append(tensor.nbytes)
        return tensor

    class Counting:
        """PyTorch as the module has it, whose allocations are counted."""

        empty = staticmethod(counted)

        def __getattr__(self, name: str) -> Any:
            return getattr(torch, name)

    monkeypatch.setattr(torch_cuda, "torch", Counting())
    return found


def tensors_of(module: Any, counts: dict[str, int]) -> dict[str, Any]:
    from explorer.runtime.encode.layers import tensor_shape

    graph = module.compilation.stages["graph"].program
    given = [tensor for tensor in graph.tensors if tensor.kind != "structure"]
    found = {tensor.name: torch.rand(tensor_shape(graph, tensor, counts)) for tensor in given}
    return {name: each.requires_grad_(name in module.learnt) for name, each in found.items()}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("name", SIZES)
def test_a_module_asks_for_what_is_counted(asked: list[int], name: str, compact: bool, grad: bool) -> None:
    data = load_graph("tiny")
    counts = memory.set_sizes(data)
    row = memory.account(name, counts, {"reorder": True, "compact": compact, "grad": grad}, SIZES[name])
    text = (memory.CHECKOUT / "examples" / "rgnn" / f"{name}.emb").read_text()
    module = explorer.compile(text, sizes=SIZES[name], options={"compact": compact}).torch()
    given = {key: torch.from_numpy(array) for key, array in data.arrays().items()}
    numbers = {f"num_{key}s": getattr(data, f"num_{key}s") for key in ("node", "etype", "ntype")}
    structure = module.prepare(**given, **numbers)
    with torch.set_grad_enabled(grad):
        result = module(structure, **tensors_of(module, counts))
    held = row["inspected_bytes"] + row["forward_bytes"]
    assert sum(asked) == held
    if grad:
        result.sum().backward()
    assert sum(asked) == row["peak_bytes"] == held + row["backward_bytes"]
    assert (row["backward_bytes"] > 0) == grad


def test_what_launches_hand_on_is_counted() -> None:
    """Plain products of HGT are made in several launches, which hand on an array of edges by features."""
    counts = memory.set_sizes(load_graph("small"))
    row = memory.account("hgt", counts, {"reorder": True, "compact": False, "grad": False}, {"H": 1, "D": 64})
    by_edges = [each["bytes"] for each in row["temporaries"].values() if each["extents"][0] == "edges"]
    rows = [size for size in by_edges if size == 4 * counts["edge"] * 64]
    assert len(rows) == 3
    assert row["peak_bytes"] > 2 * rows[0]  # so many of them are needed at once
