"""What modules keep of a graph from one call to the next: inspectors run once for its tensors, and again for others."""

from __future__ import annotations

import copy
import gc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import explorer

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")

from explorer.runtime.targets.gpu import memory  # noqa: E402
from explorer.runtime.torch import cache as torch_kept  # noqa: E402
from explorer.runtime.torch import cuda as torch_cuda  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
ROWS, COLS, NONZEROS, D = 5, 7, 40, 8


class Made:
    """What a test keeps."""


def calls(kept: Any, rest: int = 0, **tensors: Any) -> tuple[bool, Any]:
    """Whether something was made of tensors, and what there is then."""
    made: list[Any] = []
    found = kept.get(tensors, rest, lambda: made.append(0) or Made())
    return bool(made), found


def test_what_was_made_of_tensors_is_kept_for_the_same_ones() -> None:
    kept, a, b = torch_kept.Kept(), torch.arange(4), torch.arange(4)
    assert calls(kept, x=a, y=b)[0]
    assert not calls(kept, x=a, y=b)[0]
    assert calls(kept, x=b, y=a)[0]
    assert calls(kept, x=a)[0]
    assert calls(kept, 1, x=a, y=b)[0]
    assert not calls(kept, x=a, y=b)[0]


@pytest.mark.parametrize("change", ["itself", "a view", "what it is a view of", "a detached one"])
def test_what_was_made_of_a_tensor_that_was_changed_is_made_again(change: str) -> None:
    kept, whole = torch_kept.Kept(), torch.arange(8)
    part = whole[2:6]
    assert calls(kept, x=part)[0]
    {"itself": part, "a view": part[1:], "what it is a view of": whole, "a detached one": part.detach()}[change].add_(1)
    assert calls(kept, x=part)[0]
    assert not calls(kept, x=part)[0]


def test_nothing_is_taken_for_a_tensor_that_is_gone() -> None:
    kept = torch_kept.Kept()
    found = set()
    for _ in range(20):  # each may lie where the last one lay, and be the object that the last one was
        tensor = torch.arange(100)
        made, value = calls(kept, x=tensor)
        assert made
        found.add(weakref.ref(value))
        del tensor, value
    gc.collect()
    calls(kept, x=torch.arange(1))
    assert sum(value() is not None for value in found) == 0  # and nothing is held for it


def test_the_tensors_are_not_held() -> None:
    kept, tensor = torch_kept.Kept(), torch.arange(4)
    calls(kept, x=tensor)
    gone = weakref.ref(tensor)
    del tensor
    assert gone() is None


def test_what_was_made_of_another_graph_goes_with_it_at_a_call_like_the_last() -> None:
    kept, one, other = torch_kept.Kept(), torch.arange(4), torch.arange(4)
    gone = weakref.ref(calls(kept, x=one)[1])
    calls(kept, x=other)
    del one
    assert not calls(kept, x=other)[0]
    gc.collect()
    assert gone() is None


def test_few_graphs_are_kept_and_those_used_last() -> None:
    kept, tensors = torch_kept.Kept(), [torch.arange(n) for n in range(torch_kept.MOST + 1)]
    for tensor in tensors[:-1]:
        calls(kept, x=tensor)
    calls(kept, x=tensors[0])
    calls(kept, x=tensors[-1])
    assert [calls(kept, x=tensors[n])[0] for n in (0, -1, 1)] == [False, False, True]


def test_tensors_whose_changes_are_not_counted_keep_nothing() -> None:
    kept, counted = torch_kept.Kept(), torch.arange(4)
    with torch.inference_mode():
        tensor = torch.arange(4)
        assert [calls(kept, x=tensor)[0] for _ in range(2)] == [True, True]
        assert [calls(kept, x=counted)[0] for _ in range(2)] == [True, False]


def test_copies_begin_with_nothing() -> None:
    kept, tensor = torch_kept.Kept(), torch.arange(4)
    calls(kept, x=tensor)
    assert calls(copy.deepcopy(kept), x=tensor)[0]


def sparse(**options: str | int | bool) -> Any:
    """The module of SpMM with these options."""
    text = (EXAMPLES / "embedding" / "spmm.emb").read_text()
    return explorer.compile(text, sizes={"D": D}, options=options, on_demand=True).torch()


def matrix(dtype: Any) -> dict[str, Any]:
    """A matrix and what it is multiplied with."""
    ptr = torch.tensor([0, 3, 3, 20, 21, NONZEROS], dtype=dtype)
    col = torch.randint(0, COLS, (NONZEROS,), dtype=dtype)
    return {"rowptr": ptr, "col": col, "value": torch.rand(NONZEROS), "X": torch.rand(COLS, D)}


def inspections(fake_cuda: Any, made: Any, given: dict[str, Any], grad: bool = False) -> dict[str, int]:
    """How often a call launches each of the kernels that need to run but once, and that its result is right."""
    fake_cuda.log.clear()
    given = {n: t.clone().requires_grad_() if grad and n in ("value", "X") else t for n, t in given.items()}
    result = made(**given)
    if grad:
        result.sum().backward()
    rows = torch.repeat_interleave(torch.arange(ROWS), given["rowptr"].long().diff())
    terms = given["value"][:, None] * given["X"][given["col"].long()]
    torch.testing.assert_close(result, torch.zeros(ROWS, D).index_add(0, rows, terms), rtol=1e-4, atol=1e-5)
    programs = [made._forward, *made._backward]
    once = {launch.symbol for p in programs for e in p._executors.values() for launch in e.phases.once.launches}
    return {symbol: fake_cuda.log.count(symbol) for symbol in fake_cuda.log if symbol in once}


OPTIONS = [({"popular": True}, 5), ({"split": "rows", "balance": True}, 1)]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(("options", "kernels"), OPTIONS)
def test_inspectors_run_once_for_a_matrix(
    options: dict[str, str | int | bool], kernels: int, dtype: Any, pretended_gpu: Any, fake_cuda: Any
) -> None:
    made, given = sparse(**options), matrix(dtype)
    assert inspections(fake_cuda, made, given) == dict.fromkeys(inspections_of(made), 1)
    assert len(inspections_of(made)) == kernels
    assert inspections(fake_cuda, made, given) == {}
    assert inspections(fake_cuda, made, given | {"X": torch.rand(COLS, D)}) == {}  # of no graph
    given["col"].sub_(1).clamp_(min=0)
    given["rowptr"][1] -= 2
    assert inspections(fake_cuda, made, given) == dict.fromkeys(inspections_of(made), 1)
    assert inspections(fake_cuda, made, given) == {}
    other = given | {"rowptr": given["rowptr"].clone(), "col": given["col"].clone()}
    assert inspections(fake_cuda, made, other) == dict.fromkeys(inspections_of(made), 1)
    assert inspections(fake_cuda, made, given) == {}


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_where_rows_begin_is_found_once_for_a_matrix(dtype: Any, pretended_gpu: Any, fake_cuda: Any) -> None:
    """Also where the matrix was given by where its rows begin: the program reads each nonzero's row."""
    text = (EXAMPLES / "embedding" / "sddmm.emb").read_text()
    made = explorer.compile(text, sizes={"D": D}, options={"encoding": "compressed"}, on_demand=True).torch()
    given = {**matrix(dtype), "X": torch.rand(ROWS, D), "Y": torch.rand(COLS, D)}
    rows = torch.repeat_interleave(torch.arange(ROWS), given["rowptr"].long().diff())
    want = given["value"] * (given["X"][rows] * given["Y"][given["col"].long()]).sum(1)
    counts = []
    for _ in range(2):
        fake_cuda.log.clear()
        torch.testing.assert_close(made(**given), want, rtol=1e-4, atol=1e-5)
        counts.append([fake_cuda.log.count(symbol) for symbol in inspections_of(made)])
    assert counts == [[1], [0]]


def inspections_of(made: Any) -> list[str]:
    """The kernels of the forward program that need to run but once."""
    return [launch.symbol for launch in made._forward._executors["cpu"].phases.once.launches]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_inspectors_of_a_training_step_run_once_for_a_matrix(dtype: Any, pretended_gpu: Any, fake_cuda: Any) -> None:
    made, given = sparse(popular=True), matrix(dtype)
    first = inspections(fake_cuda, made, given, grad=True)
    assert len(first) == 10  # those of the forward pass, and of the gradient of X by the rows that gathered from it
    assert sum(first.values()) == 10  # of one program, whose parts make the result and the gradients
    assert inspections(fake_cuda, made, given, grad=True) == {}


def test_inspectors_run_once_for_both_parts_of_a_training_step(pretended_gpu: Any, fake_cuda: Any) -> None:
    layer, structure, tensors = graph_layer({"split": "rows", "balance": True})
    log = []
    for _ in range(2):
        fake_cuda.log.clear()
        result = layer(structure, **tensors)
        before = list(fake_cuda.log)
        result.sum().backward()
        (program,) = layer._backward
        executor = program._executors["cpu"]
        assert executor.phases.parts
        symbols = [launch.symbol for launch in executor.phases.once.launches]
        log.append([[symbol for symbol in part if symbol in symbols] for part in (before, fake_cuda.log)])
    assert log == [[symbols, symbols], [[], []]]
    assert symbols


def graph_layer(options: dict[str, str | int | bool] | None = None) -> tuple[Any, Any, dict[str, Any]]:
    """A graph's layer, the graph as it is prepared, and the layer's tensors."""
    layer = explorer.compile((EXAMPLES / "rgnn" / "gcn.emb").read_text(), options=options or {}).torch()
    size, width = layer.compilation.sizes.values()
    src, dst = torch.randint(0, 6, (2, 20))
    tensors = {"x": torch.rand(6, size), "W": torch.rand(size, width, requires_grad=True)}
    return layer, layer.prepare(src, dst, num_nodes=6), tensors


def test_inspectors_run_once_for_a_prepared_structure(pretended_gpu: Any, fake_cuda: Any) -> None:
    made, given = sparse(popular=True), matrix(torch.int32)
    structure = made.prepare(given["rowptr"], given["col"])
    rest = {"value": given["value"], "X": given["X"]}
    counts = []
    for change in (False, False, True, False):
        if change:
            given["col"].sub_(1).clamp_(min=0)  # whose memory the structure reads
        fake_cuda.log.clear()
        made(structure, **rest)
        counts.append(sum(fake_cuda.log.count(symbol) for symbol in inspections_of(made)))
    assert counts == [5, 0, 5, 0]


def test_inspectors_run_again_on_another_stream_and_where_launches_are_recorded(
    pretended_gpu: Any, fake_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, given = sparse(popular=True), matrix(torch.int32)
    assert len(inspections(fake_cuda, made, given)) == 5
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=8))
    assert len(inspections(fake_cuda, made, given)) == 5  # the other stream's may not be done
    assert len(inspections(fake_cuda, made, given)) == 0
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    structure = made.prepare(given["rowptr"], given["col"])
    symbols, counts = set(inspections_of(made)), []
    for _ in range(2):
        fake_cuda.log.clear()
        made(structure, value=given["value"], X=given["X"])
        counts.append(len(symbols & set(fake_cuda.log)))
    assert counts == [5, 5]


def test_a_graph_that_a_call_brings_is_not_captured(pretended_gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made, given = sparse(), matrix(torch.int32)
    want, structure = made(**given), made.prepare(given["rowptr"], given["col"])
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(ValueError, match="A CUDA graph would keep the indices of this call"):
        made(**given)
    torch.testing.assert_close(made(structure, value=given["value"], X=given["X"]), want)


def test_a_layers_graph_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from explorer.runtime.torch import structure as torch_structure

    found = []
    encoded = torch_structure.encoded
    monkeypatch.setattr(torch_structure, "encoded", lambda data, graph: found.append(data) or encoded(data, graph))
    layer = explorer.compile((EXAMPLES / "rgnn" / "gcn.emb").read_text()).torch()
    size, width = layer.compilation.sizes.values()
    src, dst = torch.randint(0, 6, (2, 20))
    given = {"src": src, "dst": dst, "num_nodes": 6}
    tensors = {"x": torch.rand(6, size), "W": torch.rand(size, width)}
    first = layer(**given, **tensors)
    torch.testing.assert_close(layer(**given, **tensors), first)
    assert len(found) == 1
    given["src"].copy_(src.flip(0))
    assert not torch.equal(layer(**given, **tensors), first)
    assert len(found) == 2


def test_what_is_prepared_takes_tables_of_any_size():
    text = """
    score Pairs(h: entity, r: relation, t: entity):
        param E[entity, 4], R[relation, 4], M[entity, relation, 4]
        return sum(E[h] * R[r] * E[t] * M[h, r])
    """
    module = explorer.compile(text, on_demand=True).torch()
    h, r, t = (torch.tensor(ids) for ids in ([0, 1, 2], [0, 1, 1], [2, 2, 0]))
    made = module.prepare(h, r, t)
    for entities, relations in ((3, 4), (6, 2), (4, 4)):  # of which two have as many pairs
        shapes = {"E": (entities, 4), "R": (relations, 4), "M": (entities, relations, 4)}
        tables = {name: torch.randn(shape, requires_grad=True) for name, shape in shapes.items()}
        E, R, M = tables.values()
        want = (E[h] * R[r] * E[t] * M[h, r]).sum()
        got = module(made, **tables).sum()
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        pairs = zip(torch.autograd.grad(got, (E, R, M)), torch.autograd.grad(want, (E, R, M)), strict=True)
        for one, other in pairs:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_rows_are_put_in_order_once_for_a_tensor_that_comes_again_unchanged() -> None:
    again, made = torch_kept.Again(), list[int]()

    def get(tensor: Any, stream: int = 0) -> Any:
        return again.get(tensor, stream, lambda: made.append(1) or tensor + 1)

    features = torch.zeros(3)
    for _ in range(4):
        assert get(features).eq(1).all()
    assert len(made) == 2  # what is seen once is not kept
    assert get(features, 7).eq(1).all()
    assert len(made) == 3  # the other stream's may not be there
    features.add_(1)
    assert get(features).eq(2).all()
    assert len(made) == 4
    learnt = torch.zeros(3, requires_grad=True)
    with torch.inference_mode():
        inferred = torch.zeros(3)
    for tensor in (learnt, inferred):
        made.clear()
        assert [get(tensor) is not None for _ in range(3)] == [True] * 3
        assert len(made) == 3
    several = [torch.full((2,), each) for each in range(9)]
    assert [float(get(tensor)[0]) for _ in range(3) for tensor in several] == [*range(1, 10)] * 3
    assert len(again._seen) == torch_kept.MOST


def test_what_is_kept_of_features_goes_with_them() -> None:
    again = torch_kept.Again()
    features = torch.zeros(3)
    kept = [again.get(features, 0, lambda: torch.ones(3)) for _ in range(2)][1]
    gone = weakref.ref(kept)
    del features, kept
    again.get(torch.zeros(1), 0, lambda: torch.zeros(1))
    gc.collect()
    assert gone() is None


def test_a_layer_reads_an_edges_features_as_they_are_now() -> None:
    body = '    for n in g.nodes():\n        n["h"] = sum(w[e] for e in n.incoming_edges())\n    return n["h"]\n'
    module = explorer.compile(f"layer F(g: graph):\n    input w[edge]\n{body}", on_demand=True).torch()
    src, dst = torch.tensor([0, 1, 2, 0]), torch.tensor([2, 0, 1, 2])
    weights = torch.arange(4.0)
    for step in range(5):
        want = torch.zeros(3).index_add(0, dst, weights)
        assert torch.equal(module(src, dst, num_nodes=3, w=weights).reshape(-1), want)
        if step == 2:
            weights.mul_(3)


def test_a_plan_keeps_its_sizes_also_where_another_thread_has_cleared_these(
    pretended_gpu: Any, fake_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Sizes(dict[str, int]):
        """Sizes that tell when they are gone, and others may take their identity."""

    known: dict[int, weakref.ref[Sizes]] = {}

    def sizes_of(*arguments: Any) -> Sizes:
        made = Sizes(memory.sizes_of(*arguments))
        known[id(made)] = weakref.ref(made)
        return made

    monkeypatch.setattr(torch_cuda, "sizes_of", sizes_of)
    text = "score f(h: entity, w: entity):\n    param E[entity, 4]\n    return sum(E[h] * E[w])\n"
    made, E = explorer.compile(text, on_demand=True).torch(), torch.rand(9, 4)

    def call(count: int) -> None:
        h, w = torch.randint(0, 9, (2, count))
        torch.testing.assert_close(made(h, w, E=E), (E[h] * E[w]).sum(-1))

    call(600)
    (executor,) = made._forward._executors.values()
    executor._plans.clear()  # as a call of yet other sizes does, while one of these is under way
    executor._sizes.clear()
    call(600)
    call(100)
    gc.collect()
    assert len(executor._plans) == 2
    assert all(known[sizes]() is not None for sizes, *_ in executor._plans)
