"""Steps of training by a module on a pretended GPU whose kernels are the real ones, at the addresses that they are
given: of ids and tensors, of what one phase leaves for the next, and of what is bound once and launched again."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import explorer
from tests.runtime.torch.kernels_in_memory import launched, library_of

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")

from explorer.runtime.torch import cuda as torch_cuda  # noqa: E402
from explorer.runtime.torch import device_ids, repeated, structure  # noqa: E402
from explorer.runtime.torch import module as torch_module  # noqa: E402
from tests.runtime.torch.test_repeated import ATTENDED, attended  # noqa: E402

ENTITIES, RELATIONS, BATCH, STEPS = 30, 5, 24, 6
RESCAL = """
score Rescal(h: entity, r: relation, t: entity, a: entity, b: entity):
    param E[entity, 12], M[relation, 12, 12]
    return relu(1 + dot(E[a] @ M[r], E[b]) - dot(E[h] @ M[r], E[t]))
"""
TRANSE = """
score TransE(h: entity, r: relation, t: entity, a: entity, b: entity):
    param E[entity, 12], R[relation, 12]
    return relu(1 + norm(E[h] + R[r] - E[t], 1) - norm(E[a] + R[r] - E[b], 1))
"""


@pytest.fixture
def repeats(pretended_gpu: Any, ids_library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """How many calls launched what was bound before."""
    import cupy

    texts, libraries, program_of = dict[int, Any](), dict[int, Any](), torch_cuda.GpuProgram.of

    def recorded(compilation: Any) -> Any:
        program = program_of(compilation)
        texts[id(program.code)] = compilation.stages["cuda"].program
        return program

    def launch(symbol: Any, *rest: int) -> None:
        if symbol == "narrow_ids":
            ids_library.launch(rest[0], rest[1], rest[3], ctypes.c_void_p(rest[8]))
            return
        code, _ = cupy._program_of(symbol)
        if id(code) not in libraries:
            folder = tmp_path / str(len(libraries))
            folder.mkdir()
            libraries[id(code)] = library_of(texts[id(code)], folder)
        launched(libraries[id(code)], symbol, *rest)

    found, plain = SimpleNamespace(count=0), torch_module.narrowed
    original = repeated.RepeatedCall._launched

    def counted(self: Any, tensors: Any) -> Any:
        found.count += 1
        return original(self, tensors)

    def address(name: str, tensor: Any) -> int:
        assert not tensor.data_ptr() % 16
        return int(tensor.data_ptr())

    monkeypatch.setattr(cupy.cuda.driver, "launchKernel", launch)
    monkeypatch.setattr(torch_cuda.GpuProgram, "of", recorded)
    monkeypatch.setattr(torch_cuda, "address_of", address)
    monkeypatch.setattr(repeated, "address_of", address)
    monkeypatch.setattr(repeated.RepeatedCall, "_launched", counted)
    monkeypatch.setattr(torch_module, "repeats_on", lambda device: True)
    monkeypatch.setattr(
        torch_module, "narrowed", lambda ids, rows: (structure._on_device if rows else plain)(ids, rows)
    )
    device_ids.device_ids.cache_clear()
    yield found
    device_ids.device_ids.cache_clear()


def trained(loss: Callable[[dict[str, Any], Any], Any], tensors: dict[str, Any], batches: list[Any]) -> list[Any]:
    """The losses of steps, and the parameters behind them."""
    own = {name: torch.nn.Parameter(each.clone()) for name, each in tensors.items()}
    optimizer, losses = torch.optim.SGD(own.values(), lr=0.1), []
    for batch in batches:
        optimizer.zero_grad()
        value = loss(own, batch)
        value.backward()
        optimizer.step()
        losses.append(value.detach())
    return [*losses, *(each.detach() for each in own.values())]


def triples() -> Any:
    rows = (ENTITIES, RELATIONS, ENTITIES, ENTITIES, ENTITIES)
    return torch.stack([torch.randint(0, each, (BATCH,)) for each in rows], 1)


def rescal(own: dict[str, Any], batch: Any) -> Any:
    h, r, t, a, b = batch.unbind(1)

    def score(one: Any, other: Any) -> Any:
        return torch.einsum("bi,bij,bj->b", own["E"][one], own["M"][r], own["E"][other])

    return torch.relu(1 + score(a, b) - score(h, t)).mean()


def transe(own: dict[str, Any], batch: Any) -> Any:
    h, r, t, a, b = batch.unbind(1)

    def distance(one: Any, other: Any) -> Any:
        return (own["E"][one] + own["R"][r] - own["E"][other]).abs().sum(1)

    return torch.relu(1 + distance(h, t) - distance(a, b)).mean()


@pytest.mark.parametrize(
    ("text", "meant", "shapes"),
    [
        (RESCAL, rescal, {"E": (ENTITIES, 12), "M": (RELATIONS, 12, 12)}),
        (TRANSE, transe, {"E": (ENTITIES, 12), "R": (RELATIONS, 12)}),
    ],
    ids=["grouped by relation", "rows alone"],
)
def test_a_training_by_repeated_calls_is_eagers(text: str, meant: Any, shapes: Any, repeats: Any) -> None:
    torch.manual_seed(0)
    tensors, batches = {n: torch.randn(shape) for n, shape in shapes.items()}, [triples() for _ in range(STEPS)]
    made = explorer.compile(text, on_demand=True).torch()
    found = trained(lambda own, batch: made(*batch.unbind(1), **own).mean(), tensors, batches)
    assert repeats.count == STEPS - 2
    torch.testing.assert_close(found, trained(meant, tensors, batches), rtol=1e-4, atol=1e-4)


def test_a_training_on_one_graph_is_eagers(repeats: Any) -> None:
    torch.manual_seed(0)
    tensors = {"W": torch.randn(4, 4), "a": torch.randn(4)}
    src, dst = torch.randint(0, 20, (60,)), torch.randint(0, 20, (60,))
    batches = [torch.randn(20, 4) for _ in range(STEPS)]
    made = explorer.compile(ATTENDED, on_demand=True).torch()
    found = trained(lambda own, x: made(src, dst, x=x, **own).square().mean(), tensors, batches)
    assert repeats.count == STEPS - 1
    meant = trained(lambda own, x: attended(x, src=src, dst=dst, **own).square().mean(), tensors, batches)
    torch.testing.assert_close(found, meant, rtol=1e-4, atol=1e-4)


def repeating(repeats: Any) -> tuple[Any, Callable[[Any, Any], Any]]:
    """A module whose calls are repeated already, and what it means."""
    made = explorer.compile(TRANSE, on_demand=True).torch(entity=ENTITIES, relation=RELATIONS)
    for _ in range(4):
        made(*triples().unbind(1)).sum().backward()
    assert repeats.count == 2
    return made, lambda module, batch: transe({"E": module.E, "R": module.R}, batch)


def test_copies_begin_anew_and_calls_may_overlap(repeats: Any) -> None:
    made, meant = repeating(repeats)
    other = copy.deepcopy(made)
    with torch.no_grad():
        other.E.add_(1.0)
    for _ in range(3):
        batch = triples()
        for module in (made, other):
            torch.testing.assert_close(module(*batch.unbind(1)).mean(), meant(module, batch))
    first, second, leaves = triples(), triples(), [made.E, made.R]
    both = made(*first.unbind(1)).mean() + 2 * made(*second.unbind(1)).mean()
    want = torch.autograd.grad(meant(made, first) + 2 * meant(made, second), leaves)
    for _ in range(2):
        torch.testing.assert_close(torch.autograd.grad(both, leaves, retain_graph=True), want)


def test_a_batch_of_nothing_has_gradients_of_zero(repeats: Any) -> None:
    made, _ = repeating(repeats)
    for _ in range(4):
        result = made(*triples()[:0].unbind(1))
        assert result.shape == (0,)
        assert not any(each.any() for each in torch.autograd.grad(result.sum(), [made.E, made.R]))
