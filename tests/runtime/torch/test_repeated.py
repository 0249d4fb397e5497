"""Calls of a score like an earlier one on a GPU, which is pretended: what they give, and what they refuse."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import explorer

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")

from explorer.runtime.torch import cuda as torch_cuda  # noqa: E402
from explorer.runtime.torch import device_ids, repeated, structure  # noqa: E402
from explorer.runtime.torch import module as torch_module  # noqa: E402

ENTITIES, RELATIONS, BATCH = 9, 3, 6
TEXT = """
score Dots(h: entity, r: relation, t: entity):
    param E[entity, 4], R[relation, 4]
    return sum(E[h] * R[r] * E[t])
"""
TWO_RESULTS = """
score Two(h: entity, t: entity):
    param E[entity, 4]
    near = sigmoid(dot(E[h], E[t]))
    return near, near * near
"""
COMPUTED = """
score Hashed(h: entity, t: entity):
    param E[entity, 4], Q[row, 4]
    return sum(E[h] * Q[h % 3] * E[t])
"""


@pytest.fixture
def calls(
    pretended_gpu: Any, ids_library: Any, fake_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[tuple[str, ...]]]:
    """The repeated calls, by the names of their ids."""
    import cupy

    plain = torch_module.narrowed
    of_kernels, found = cupy.cuda.driver.launchKernel, list[tuple[str, ...]]()

    def launch(symbol: str, blocks: int, columns: int, *rest: int) -> None:
        if symbol != "narrow_ids":
            of_kernels(symbol, blocks, columns, *rest)
            return
        ids_library.launch(blocks, columns, rest[1], ctypes.c_void_p(rest[6]))

    def told(tensor: Any) -> None:
        if tensor.numel():
            memory = cupy.Pointer(tensor.numpy().reshape(-1).view(np.uint8))
            fake_cuda.arrays[tensor.data_ptr()] = cupy.ndarray(tuple(tensor.shape), np.int32, memory)

    narrow_as, call = device_ids.DeviceIds.narrow_as, repeated.Batches.call

    def narrowed_as(self: Any, layout: Any, *given: Any) -> Any:
        memory, checked = narrow_as(self, layout, *given)
        for part in layout.parts(memory):
            told(part)
        return memory, checked

    def called(self: Any, ids: Any) -> Any:
        found.append((*ids,))
        return call(self, ids)

    monkeypatch.setattr(cupy.cuda.driver, "launchKernel", launch)
    monkeypatch.setattr(device_ids.DeviceIds, "narrow_as", narrowed_as)
    monkeypatch.setattr(repeated.Batches, "call", called)
    monkeypatch.setattr(repeated, "address_of", lambda name, tensor: torch_cuda.address_of(name, tensor))
    monkeypatch.setattr(
        torch_module, "narrowed", lambda given, rows: (structure._on_device if rows else plain)(given, rows)
    )
    monkeypatch.setattr(torch_module, "repeats_on", lambda device: True)
    device_ids.device_ids.cache_clear()
    yield found
    device_ids.device_ids.cache_clear()


def dots(**changed: Any) -> Any:
    return explorer.compile(TEXT, on_demand=True).torch(entity=ENTITIES, relation=RELATIONS, **changed)


def ids(batch: int = BATCH) -> list[Any]:
    return [torch.randint(0, rows, (batch,)) for rows in (ENTITIES, RELATIONS, ENTITIES)]


def wanted(made: Any, h: Any, r: Any, t: Any) -> Any:
    h, r, t = (each.long() for each in (h, r, t))
    return (made.E[h] * made.R[r] * made.E[t]).sum(1)


def test_calls_like_an_earlier_one_have_its_kernels_and_other_ids(calls: Any) -> None:
    made = dots()
    for number in range(5):
        given = ids()
        if number == 4:  # as a batch of triples has them, and of 32 bits
            given = [each.contiguous() for each in given[:1]] + [*torch.stack(given[1:], 1).unbind(1)]
        result, want = made(*given), wanted(made, *given)
        torch.testing.assert_close(result, want)
        weight = torch.randn(BATCH)
        found = torch.autograd.grad((result * weight).sum(), [made.E, made.R])
        torch.testing.assert_close(found, torch.autograd.grad((want * weight).sum(), [made.E, made.R]))
    assert calls == [("h", "r", "t")] * 3
    with torch.no_grad():
        for _ in range(3):
            given = ids()
            torch.testing.assert_close(made(*given), wanted(made, *given))
    assert len(calls) == 4


def test_other_sizes_types_and_needs_of_gradients_are_other_calls(calls: Any) -> None:
    made = dots()
    for batch in (BATCH, 2 * BATCH, BATCH):
        for kind in (torch.int64, torch.int32):
            for trains in (True, False):
                made.E.requires_grad_(trains)
                for _ in range(3):
                    given = [each.to(kind) for each in ids(batch)]
                    result, want = made(*given), wanted(made, *given)
                    torch.testing.assert_close(result, want)
                    leaves = [made.E, made.R] if trains else [made.R]
                    found = torch.autograd.grad(result.sum(), leaves)
                    torch.testing.assert_close(found, torch.autograd.grad(want.sum(), leaves))
    assert len(calls) == 8 + 4 * 3


def test_ids_without_a_row_are_refused_and_the_next_call_is_right(calls: Any) -> None:
    made = dots()
    for _ in range(3):
        h, r, t = ids()
        made(h, r, t)
    assert calls
    for wrong in (-1, ENTITIES, 2**40):
        bad = h.clone()
        bad[BATCH // 2] = wrong
        with pytest.raises(ValueError, match=f"h holds {wrong}"):
            made(bad, r, t)
        torch.testing.assert_close(made(h, r, t), wanted(made, h, r, t))


def test_what_changes_before_the_backward_pass_is_noticed(calls: Any) -> None:
    made = dots()
    for _ in range(3):
        given = ids()
        result = made(*given)
    want = torch.autograd.grad(wanted(made, *given).sum(), [made.E, made.R])
    made.E.data = torch.zeros_like(made.E)  # what it had is held
    torch.testing.assert_close(torch.autograd.grad(result.sum(), [made.E, made.R]), want)
    result = made(*given)
    with torch.no_grad():
        made.E.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()
    assert len(calls) == 2


def test_results_that_gradients_read_are_watched(calls: Any) -> None:
    made = explorer.compile(TWO_RESULTS, on_demand=True).torch(entity=ENTITIES)
    for _ in range(3):
        h, _, t = ids()
        near, square = made(h, t)
        want = torch.sigmoid((made.E[h] * made.E[t]).sum(1))
        torch.testing.assert_close((near, square), (want, want * want))
        found = torch.autograd.grad((near * 2 + square).sum(), made.E)
        torch.testing.assert_close(found, torch.autograd.grad((want * 2 + want * want).sum(), made.E))
    assert calls == [("h", "t")]


def test_what_is_made_of_ids_goes_the_usual_way(calls: Any) -> None:
    made = explorer.compile(COMPUTED, on_demand=True).torch(entity=ENTITIES, row=3)
    for _ in range(4):
        h, _, t = ids()
        result, want = made(h, t), (made.E[h] * made.Q[h % 3] * made.E[t]).sum(1)
        torch.testing.assert_close(result, want)
        found = torch.autograd.grad(result.sum(), [made.E, made.Q])
        torch.testing.assert_close(found, torch.autograd.grad(want.sum(), [made.E, made.Q]))
    assert not calls


def test_tables_that_begin_between_vectors_are_read_as_they_were(calls: Any) -> None:
    made = dots()
    for _ in range(3):
        given = ids()
        table = torch.randn(ENTITIES * 4 + 1)[1:].view(ENTITIES, 4)
        torch.testing.assert_close(made(*given, E=table), (table[given[0]] * made.R[given[1]] * table[given[2]]).sum(1))
    assert len(calls) == 1


def test_of_many_kinds_of_calls_the_last_are_repeated(calls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_module, "MOST_CALLS", 3)
    made = dots()
    for batch in (2, 3, 4, 5, 6):
        for _ in range(3):
            given = ids(batch)
            torch.testing.assert_close(made(*given), wanted(made, *given))
        assert len(made._calls) <= 3
        assert made._repeated.keys() <= made._calls.keys()
    assert len(calls) == 5


def test_calls_without_checks_wait_for_nothing(calls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = dots(check_indices=False)
    monkeypatch.setattr(device_ids.Checked, "wait", lambda self: pytest.fail("nobody asked for a check"))
    for number in range(5):
        given = ids()
        if number == 4:  # what has no row has that of 0
            given[0][2] = ENTITIES
        result = made(*given)
        given[0] = given[0] % ENTITIES
        want = wanted(made, *given)
        torch.testing.assert_close(result, want)
        found = torch.autograd.grad(result.sum(), [made.E, made.R])
        torch.testing.assert_close(found, torch.autograd.grad(want.sum(), [made.E, made.R]))
    assert len(calls) == 3


def test_calls_are_checked_from_when_somebody_asks_for_it(calls: Any) -> None:
    made = dots(check_indices=False)
    for _ in range(3):
        made(*ids())
    assert calls
    made.check_indices = True
    h, r, t = ids()
    h[1] = ENTITIES
    for _ in range(3):
        with pytest.raises(ValueError, match=f"h holds {ENTITIES}"):
            made(h, r, t)
        torch.testing.assert_close(made(h % ENTITIES, r, t), wanted(made, h % ENTITIES, r, t))


def test_functions_are_found_on_the_tensors_device(calls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of plans that others have been forgotten for: a thread's own device may be another."""
    made, inside, current = dots(), list[bool](), torch_cuda.current
    found = torch_cuda.GpuProgram.function_of

    @contextmanager
    def entered(device: Any) -> Iterator[int]:
        with current(device) as stream:
            inside.append(True)
            yield stream
            inside.pop()

    def function_of(self: Any, launch: Any) -> Any:
        assert inside
        return found(self, launch)

    monkeypatch.setattr(torch_cuda, "current", entered)
    monkeypatch.setattr(torch_cuda.GpuProgram, "function_of", function_of)
    for _ in range(3):
        given = ids()
        torch.testing.assert_close(made(*given), wanted(made, *given))
        for program in (made._forward, *made._backward):
            for executor in program._executors.values():
                executor._plans.clear()
    assert len(calls) == 1


ATTENDED = """
dim F = 4
layer Attended(g: graph):
    input x[node, F]
    param W[F, F], a[F]
    for n in g.nodes():
        n["z"] = n.x @ W
    for e in g.edges():
        e["w"] = leaky_relu(dot(e.src["z"], a) + dot(e.dst["z"], a))
    edge_softmax(g, "w")
    for n in g.dst_nodes():
        n["h"] = sum(e["w"] * e.src["z"] for e in n.incoming_edges())
    return n["h"]
"""
WEIGHTED = """
dim F = 4
layer Weighted(g: graph):
    param x[node, F], w[edge]
    for n in g.dst_nodes():
        n["h"] = sum(e.w * e.src.x for e in n.incoming_edges())
    return n["h"]
"""


@pytest.fixture
def on_structures(calls: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What repeated calls on structures have in common, a call an element."""
    found, call = list[Any](), repeated.OnStructure.call

    def called(self: Any) -> Any:
        found.append(self)
        return call(self)

    monkeypatch.setattr(repeated.OnStructure, "call", called)
    return found


def attended(x: Any, W: Any, a: Any, src: Any, dst: Any) -> Any:
    x, W, a = x.double(), W.double(), a.double()
    z = x @ W
    score = torch.nn.functional.leaky_relu((z[src] * a).sum(1) + (z[dst] * a).sum(1), 0.01)
    weight = score.exp()
    total = torch.zeros(len(x), dtype=torch.float64).index_add(0, dst, weight)
    return torch.zeros_like(z).index_add(0, dst, (weight / total[dst])[:, None] * z[src]).float()


def of_attended(trains: bool = True) -> tuple[Any, Any, Any]:
    """`x`, `W` and `a` whose scores stay near 1, so that no softmax loses float32's places."""
    x, W, a = torch.randn(7, 4), torch.randn(4, 4) / 2, torch.randn(4) / 2
    return x, W.requires_grad_(trains), a.requires_grad_(trains)


def test_a_layer_on_the_same_graph_is_repeated_with_other_tensors(on_structures: Any) -> None:
    made = explorer.compile(ATTENDED, on_demand=True).torch()
    src, dst = torch.randint(0, 7, (20,)), torch.randint(0, 7, (20,))
    for number in range(6):
        if number == 4:
            dst[3] = (dst[3] + 1) % 7  # another graph
        x, W, a = of_attended()
        result, want = made(src, dst, x=x, W=W, a=a), attended(x, W, a, src, dst)
        torch.testing.assert_close(result, want)
        weight = torch.randn(7, 4)
        found, expected = (torch.autograd.grad((each * weight).sum(), [W, a]) for each in (result, want))
        torch.testing.assert_close(found, expected)
    assert len(on_structures) == 3 + 1
    assert len({*map(id, on_structures)}) == 2


def test_modules_that_share_a_structure_are_repeated_apart(on_structures: Any) -> None:
    first, second = (explorer.compile(text, on_demand=True).torch() for text in (ATTENDED, ATTENDED))
    src, dst = torch.randint(0, 7, (20,)), torch.randint(0, 7, (20,))
    graph = first.prepare(src, dst, num_nodes=7)
    for number in range(12):
        made = (first, second)[number % 2]
        x, W, a = of_attended(trains=number % 4 < 2)
        torch.testing.assert_close(made(graph, x=x, W=W, a=a), attended(x, W, a, src, dst))
    assert len(on_structures) == 8
    assert len({*map(id, on_structures)}) == 4


def test_rows_of_edges_that_are_sorted_go_the_usual_way(on_structures: Any) -> None:
    made = explorer.compile(WEIGHTED, on_demand=True).torch()
    src, dst = torch.randint(0, 7, (20,)), torch.randint(0, 7, (20,))
    for _ in range(4):
        x, w = torch.randn(7, 4, requires_grad=True), torch.randn(20, requires_grad=True)
        result = made(src, dst, x=x, w=w)
        want = torch.zeros(7, 4).index_add(0, dst, w[:, None] * x[src])
        torch.testing.assert_close(result, want)
        found, expected = (torch.autograd.grad(each.square().sum(), [x, w]) for each in (result, want))
        torch.testing.assert_close(found, expected)
    assert not on_structures


def test_what_is_repeated_holds_no_tensor_of_a_call(on_structures: Any) -> None:
    made = explorer.compile(ATTENDED, on_demand=True).torch()
    graph = made.prepare(torch.randint(0, 7, (20,)), torch.randint(0, 7, (20,)), num_nodes=7)
    given = {"x": torch.randn(7, 4), "W": torch.randn(4, 4), "a": torch.randn(4)}
    for _ in range(3):
        made(graph, **given)
    assert on_structures
    memory = {each.data_ptr() for each in given.values()}
    held = gc.get_referents(on_structures[0].held[0])
    assert memory.isdisjoint(each.data_ptr() for each in held if isinstance(each, torch.Tensor))
