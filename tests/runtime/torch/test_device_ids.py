"""The kernel that narrows and checks the ids of a call on a GPU, compiled as C++, and calls that wait for it last."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import explorer

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")

from explorer.runtime.torch import device_ids, structure  # noqa: E402
from explorer.runtime.torch import module as torch_module  # noqa: E402


@pytest.fixture
def launches(ids_library: Any, fake_cuda: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The kernel's launches: blocks, maps, and the stream."""
    import cupy

    found: list[tuple[int, ...]] = []

    def launch(symbol: str, blocks: int, maps: int, _: int, threads: int, *rest: int) -> None:
        assert symbol == "narrow_ids"
        found.append((blocks, maps, rest[3]))
        ids_library.launch(blocks, maps, threads, ctypes.c_void_p(rest[4]))

    monkeypatch.setattr(cupy.cuda.driver, "launchKernel", launch)
    return found


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8])
def test_ids_are_narrowed_with_their_shapes_and_strides(dtype: Any, launches: Any) -> None:
    triples = torch.randint(0, 100, (1_000, 3)).to(dtype)
    lists = torch.randint(0, 50, (40, 7)).to(dtype)
    given = {"h": (triples[:, 0], 100), "t": (triples[:, 2], 100), "n": (lists.t(), 50), "none": (triples[:0, 1], 3)}
    found, checked = device_ids.DeviceIds().narrow(given, 7)
    assert checked.wait()
    assert launches == [(4, 4, 7)]
    for name, (ids, _) in given.items():
        assert found[name].dtype == torch.int32
        assert found[name].equal(ids.to(torch.int32))


@pytest.mark.parametrize("bad", [-1, 100, 2**32, 2**40 + 3, -(2**33)])
@pytest.mark.parametrize("place", [0, 299, 300_000])
def test_an_id_without_a_row_is_told_once_and_reads_the_first(bad: int, place: int, launches: Any) -> None:
    ids = torch.randint(0, 100, (300_001,))
    ids[place] = bad
    narrow = device_ids.DeviceIds().narrow
    found, checked = narrow({"fine": (ids.clamp(0, 99), 100), "h": (ids, 100)}, 0)
    assert not checked.wait()
    assert found["h"][place] == 0
    assert (found["h"] == ids.to(torch.int32)).sum() >= len(ids) - 1
    assert narrow({"h": (ids.clamp(0, 99), 100)}, 0)[1].wait()


def test_checks_of_calls_that_overlap_are_apart_and_more_maps_than_one_launch_takes(launches: Any) -> None:
    narrow = device_ids.DeviceIds().narrow
    many = {f"m{number}": (torch.full((5,), number), 11) for number in range(11)}
    first = narrow({"h": (torch.tensor([3]), 3)}, 0)[1]
    found, second = narrow(many, 0)
    assert second.wait()
    assert not first.wait()
    assert [int(found[f"m{number}"].sum()) for number in range(11)] == [5 * number for number in range(11)]
    assert [maps for _, maps, _ in launches] == [1, 8, 3]


@pytest.fixture
def on_device(launches: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Modules whose ids are checked so, on tensors that are said to be a GPU's."""

    @contextmanager
    def current(device: Any) -> Any:
        yield 7

    def narrowed(given: Any, rows: Any) -> Any:
        return structure._on_device(given, rows)

    monkeypatch.setattr(structure, "current", current)
    monkeypatch.setattr(torch_module, "narrowed", narrowed)
    device_ids.device_ids.cache_clear()
    yield launches
    device_ids.device_ids.cache_clear()


TEXT = """
score Dots(h: entity, r: relation, t: entity):
    param E[entity, 4], R[relation, 4]
    return sum(E[h] * R[r] * E[t])
"""


def test_a_module_gives_results_and_refuses_ids_without_a_row(on_device: Any) -> None:
    made = explorer.compile(TEXT, on_demand=True).torch(entity=9, relation=3)
    h, r, t = torch.randint(0, 9, (6,)), torch.randint(0, 3, (6,)), torch.randint(0, 9, (6,))
    for _ in range(3):  # the first call finds out what such calls are
        result = made(h, r, t)
        want = (made.E[h] * made.R[r] * made.E[t]).sum(1)
        torch.testing.assert_close(result, want)
        torch.testing.assert_close(
            torch.autograd.grad(result.sum(), [made.E, made.R]), torch.autograd.grad(want.sum(), [made.E, made.R])
        )
    assert len(on_device) == 2
    with pytest.raises(ValueError, match=r"h holds 9, but E has 9 rows"):
        made(h + 9 - h, r, t)
    with pytest.raises(ValueError, match=r"t holds -3"):
        made(h, r, t - t - 3)
    with pytest.raises(ValueError, match=r"r holds"):
        made(h, r, t, R=torch.zeros(0, 4))
    torch.testing.assert_close(made(h, r, t), want)


def test_ids_are_not_looked_at_while_a_graph_is_captured(on_device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = explorer.compile(TEXT, on_demand=True).torch(entity=9, relation=3)
    ids = torch.zeros(4, dtype=torch.int64)
    made(ids, ids, ids)
    with monkeypatch.context() as context:
        context.setattr(torch.cuda, "is_initialized", lambda: True)
        context.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        with pytest.raises(ValueError, match="while a CUDA graph is captured: make the module with check_indices=Fal"):
            made(ids, ids, ids)
    made(ids, ids, ids)


def test_a_call_that_fails_otherwise_says_so_and_frees_its_word(
    on_device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = explorer.compile(TEXT, on_demand=True).torch(entity=9, relation=3)
    ids = torch.zeros(2, dtype=torch.int64)
    made(ids, ids, ids)

    def fails(*_: Any) -> Any:
        raise MemoryError("no room")

    with monkeypatch.context() as context:
        context.setattr(made._forward, "run", fails)
        with pytest.raises(MemoryError), torch.no_grad():
            made(ids, ids, ids)
    made(ids, ids, ids)
    assert len(device_ids.device_ids(None)._free) == 1
    assert np.all(device_ids.device_ids(None)._free[0].word == 0)
