"""What a call on a GPU holds until its backward pass, and what it leaves to others: memory, and no more than that."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest

import explorer

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")

from explorer.runtime.torch.streams import current, is_capturing  # noqa: E402

TEXT = """dim D = 4
score Mult(h: entity, t: entity):
    param E[entity, D]
    return sum(E[h] * E[t])
"""
EDGES = """layer F(g: graph):
    input w[edge]
    param s[node]
    for n in g.nodes():
        n["h"] = sum(w[e] * s[e.src] for e in n.incoming_edges())
    return n["h"]
"""
ENTITIES, BATCH = 5, 8


def scored(**sizes: int) -> tuple[Any, list[Any]]:
    draw = torch.Generator().manual_seed(0)
    ids = [torch.randint(ENTITIES, (BATCH,), generator=draw) for _ in range(2)]
    return explorer.compile(TEXT, on_demand=True).torch(**sizes), ids


def test_a_parameter_may_have_other_memory_before_its_gradient_is_asked_for(pretended_gpu: Any) -> None:
    module, (h, t) = scored(entity=ENTITIES)
    before, at = module.E.detach().clone(), module.E.data_ptr()
    result = module(h, t)
    module.E.data = torch.full_like(before, torch.nan)  # as Module.to does, and sharded training
    assert at in {each.data_ptr() for each in result.grad_fn.run.started.held if each is not None}
    result.sum().backward()
    want = torch.zeros_like(before).index_add(0, h, before[t]).index_add(0, t, before[h])
    torch.testing.assert_close(module.E.grad, want)


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_a_loss_that_is_kept_keeps_no_memory_of_its_backward_pass(request: Any, device: str) -> None:
    if device == "gpu":
        request.getfixturevalue("pretended_gpu")
    module, (h, t) = scored(entity=ENTITIES)
    result = module(h, t)
    loss = result.sum()
    assert result.grad_fn.run is not None
    loss.backward()
    assert result.grad_fn.run is None
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()


def test_a_graph_that_is_retained_has_its_gradients_again() -> None:
    module, (h, t) = scored(entity=ENTITIES)
    loss = module(h, t).sum()
    first, again = (torch.autograd.grad(loss, module.E, retain_graph=retained) for retained in (True, False))
    torch.testing.assert_close(again, first)


def test_a_copy_of_a_structure_knows_nothing_by_what_the_other_held() -> None:
    module, (h, t) = scored()
    structure = module.prepare(h, t)
    module(structure, E=torch.rand(ENTITIES, 4, requires_grad=True)).sum().backward()
    assert structure.asked
    assert not copy.deepcopy(structure).asked


def test_what_a_cuda_graph_makes_is_kept_for_no_other_call(pretended_gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = explorer.compile(EDGES, on_demand=True).torch()
    src, dst = torch.tensor([0, 1, 2, 0]), torch.tensor([2, 0, 1, 2])
    structure = module.prepare(src, dst, num_nodes=3)
    weights, numbers = torch.arange(4.0), torch.rand(3, requires_grad=True)
    want = torch.zeros(3).index_add(0, dst, weights * numbers[src].detach())
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    known = {**structure.maps}, {**structure.inverses}
    for _ in range(3):
        result = module(structure, w=weights, s=numbers)
        result.sum().backward()
        torch.testing.assert_close(result.reshape(-1), want)
    assert ({**structure.maps}, {**structure.inverses}) == known
    assert not structure.asked
    assert not structure.again._seen


def test_a_machine_without_a_gpu_is_not_asked_whether_it_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> bool:
        raise RuntimeError("Found no NVIDIA driver on your system.")

    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)  # as the usual wheels are
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", refused)
    assert not is_capturing()


def test_each_thread_takes_the_devices_context_once(pretended_gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's threads of backward passes have none where nothing of PyTorch's was launched in them before."""
    import cupy

    given: list[int] = []
    monkeypatch.setattr(cupy.cuda.runtime, "setDevice", given.append)

    def launches() -> None:
        for _ in range(2):
            with current(torch.device("cuda", 0)):
                pass

    for _ in range(2):
        thread = threading.Thread(target=launches)
        thread.start()
        thread.join()
    assert given == [0, 0]


def test_what_is_in_the_place_of_a_parameter_is_taken() -> None:
    made = explorer.compile(TEXT, on_demand=True).torch(entity=5)
    ids = torch.tensor([0, 3, 4]), torch.tensor([1, 3, 2])
    plain = made(*ids)
    replica = made._replicate_for_data_parallel()  # as DataParallel makes one for each GPU
    replica._parameters.clear()
    replica.E = 2 * made.E
    torch.testing.assert_close(replica(*ids), 4 * plain)
    replica(*ids).sum().backward()
    through = made.E.grad.clone()
    made.zero_grad()
    torch.nn.utils.parametrize.register_parametrization(made, "E", _Doubled())
    torch.testing.assert_close(made(*ids), 4 * plain)
    made(*ids).sum().backward()
    torch.testing.assert_close(made.parametrizations.E.original.grad, through)


class _Doubled(torch.nn.Module):  # type: ignore[misc]
    def forward(self, table: Any) -> Any:
        return 2 * table
