"""The bytes that kernels ask for: closed forms, and every access of the interpreter counted as it happens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import explorer
from explorer.compiler.interpret import asked_bytes as counting
from explorer.compiler.interpret import kernels as interpreter
from explorer.compiler.interpret.asked_bytes import asked_bytes
from explorer.compiler.interpret.python import text as python
from explorer.compiler.ir import kernels as ir
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import walk
from explorer.compiler.to_json import kernels_of
from explorer.runtime.data.graphs import graph_from_edges
from explorer.runtime.encode import layers, scores
from explorer.runtime.encode.graph import encode

EXAMPLES = Path(__file__).parents[3] / "examples"
RANDOM = np.random.default_rng(7)
LISTS = {"ptr": np.array([0, 3, 3, 8, 9, 60]), "idx": RANDOM.integers(0, 7, 60), "T": np.zeros((7, 8), np.float32)}
B = 50


def compiled(name: str, options: dict[str, str | int | bool] | None = None, **sizes: int) -> Any:
    return explorer.compile((EXAMPLES / f"{name}.emb").read_text(), sizes=sizes, options=options or {}, on_demand=True)


def triples(compilation: Any) -> dict[str, Any]:
    """Ids, and tensors of 9 entities and 4 relations."""
    rows = {"entity": 9, "relation": 4, "batch": B}
    graph = compilation.stages["graph"].program
    shape = {t.name: (*(rows[s] for s in t.sets), *(graph.size(dim) for dim in t.dims)) for t in graph.tensors}
    return {index: RANDOM.integers(0, 4, B) for index in "hrt"} | {n: np.zeros(s, np.float32) for n, s in shape.items()}


def test_a_score_asks_for_its_ids_its_rows_and_its_result() -> None:
    found = compiled("kge/transe_l1", D=32)
    assert asked_bytes(kernels_of(found.stages["kernels"].program), triples(found)) == {
        "TransE_L1": B * (3 * 4 + 3 * 4 * 32 + 4)
    }


class Counted(np.ndarray[Any, Any]):
    """An array that counts the bytes which are read and written of it, an element or a vector at a time."""

    bytes = 0

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        Counted.bytes += 4 * np.size(found)
        return np.array(found).view(Part) if np.ndim(found) else found

    def tolist(self) -> Any:
        return CountedList(super().tolist())

    def __setitem__(self, key: Any, value: Any) -> None:
        plain = np.asarray(self)  # of a subclass NumPy would get an item in order to set it
        Counted.bytes += 4 * np.size(plain[key])
        plain[key] = value


class Part(np.ndarray[Any, Any]):
    """A part of one: where an index is looked for in it, halving asks for as many elements as its length has bits."""

    def searchsorted(self, v: Any, side: Any = "left", sorter: Any = None) -> Any:
        Counted.bytes += 4 * (len(self).bit_length() - len(self))
        return np.asarray(self).searchsorted(v, side, sorter)


class CountedList(list[Any]):
    """The same of an array of indices, which the interpreter reads as a list."""

    def __getitem__(self, key: Any) -> Any:
        Counted.bytes += 4
        return super().__getitem__(key)


def counted_by_the_interpreter(kernels: Any, arrays: dict[str, Any]) -> dict[str, int]:
    bound, begun = interpreter.bound, list[int]()

    def counting_bound(kernel: Any, inputs: Any, written: Any) -> Any:
        names = bound(kernel, inputs, written)
        buffers = {buffer.name for buffer in kernel.buffers}
        begun.append(Counted.bytes)
        return {name: value.view(Counted) if name in buffers else value for name, value in names.items()}

    each_by_itself = mock.patch.object(python, "places_of", return_value=frozenset())  # loops' iterations
    with mock.patch.object(interpreter, "bound", counting_bound), each_by_itself:
        interpreter.run_scheduled(kernels, arrays)
    ends = [*begun[1:], Counted.bytes]
    return {kernel.name: end - begin for kernel, begin, end in zip(kernels, begun, ends, strict=True)}


@pytest.mark.parametrize("name", ["kge/transr", "kge/transh", "embedding/sls"])
def test_every_access_is_counted_once(name: str) -> None:
    """Through inspectors, tiles that are cut off at the end of a group, and segments of any length, one empty."""
    found = compiled(name, D=64, K=64) if name == "kge/transr" else compiled(name, D=8)
    arrays = LISTS if name == "embedding/sls" else triples(found)
    kernels = kernels_of(found.stages["kernels"].program)
    if name == "embedding/sls":
        arrays = found.encode(found, arrays, None)[0]
    assert asked_bytes(kernels, arrays) == counted_by_the_interpreter(kernels, arrays)


@pytest.mark.parametrize("name", ["kge/transr", "kge/transe_l1"])
def test_what_chunks_look_for_in_shared_memory_is_not_asked_of_memory(name: str) -> None:
    """Edges are sorted in groups of several chunks, by searches in shared memory."""
    sizes = {"D": 32} | ({"K": 32} if name == "kge/transr" else {})
    options = {"inspect": "chunks", "inspect_edges": 8, "inspect_group": 4, "inspect_block": 32}
    found = compiled(name, options, **sizes)
    arrays, kernels = triples(found), kernels_of(found.stages["kernels"].program)
    assert any("chunks" in kernel.template for kernel in kernels)
    assert asked_bytes(kernels, arrays) == counted_by_the_interpreter(kernels, arrays)


def layer(options: dict[str, str | int | bool]) -> tuple[Any, dict[str, Any]]:
    """The kernels of RGCN on a graph of 30 nodes and 200 edges of 3 types, and what they read."""
    found = compiled("rgnn/rgcn", options, F=8, G=8)
    graph, module = layers.programs(found)
    edges = zip(*(RANDOM.integers(0, most, 200).tolist() for most in (30, 3, 9)), strict=True)
    encodings = encode(graph_from_edges(edges, [0] * 30, 3))
    shapes = {tensor.name: layers.tensor_shape(graph, tensor, encodings.counts) for tensor in graph.tensors}
    zeros = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    return kernels_of(found.stages["kernels"].program), layers.program_inputs(graph, module, encodings, zeros)


GRADIENTS_BY_CHUNKS = {"grad": True, "inspect": "chunks", "inspect_edges": 8, "inspect_group": 2}


def made(name: str) -> tuple[Any, dict[str, Any]]:
    if name.startswith("layer"):
        return layer({"grad": name.endswith("gradients")})
    if name == "balanced layer":
        return layer({"split": "rows", "balance": True})
    found = compiled("kge/transr", GRADIENTS_BY_CHUNKS, D=32, K=32)
    arrays = triples(found)
    encoding = scores.encode(scores.graph_of(found), found.stages["loops"].program, arrays)
    return kernels_of(found.stages["kernels"].program), {**arrays, **encoding.arrays}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["layer", "layer's gradients", "balanced layer", "score's gradients"])
@pytest.mark.parametrize("most", [200, counting.MOST_AT_ONCE])
def test_iterations_at_once_ask_for_what_each_by_itself_does(
    name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In parts of any size; also where a place in a list is what a counter held before it was added to."""
    monkeypatch.setattr(counting, "MOST_AT_ONCE", most)
    kernels, arrays = made(name)
    asked, counted = asked_bytes(kernels, dict(arrays)), counted_by_the_interpreter(kernels, dict(arrays))
    assert asked.keys() == counted.keys()
    atomic = {k.name for k in kernels if any(isinstance(node, ir.AtomicAccumulate) for node in walk(k))}
    assert {n: b for n, b in asked.items() if n not in atomic} == {n: b for n, b in counted.items() if n not in atomic}
    assert all(counted[name] / 3 <= asked[name] <= counted[name] for name in atomic)  # which reads and writes apart


def test_what_counters_held_before_are_told_apart() -> None:
    """In the order of the iterations, of any numbers that are added."""
    array = np.array([[5, 7], [0, 2]])
    place = (np.array([0, 1, 0, 0, 1]), np.array([1, 0, 1, 0, 0]))
    before = counting._before(array, place, np.array([1, 2, 3, 4, 5]))
    assert before.tolist() == [7, 0, 8, 5, 2]


def test_what_numbers_decide_is_not_counted() -> None:
    """A condition on an element of a table: neither of the kernel nor of those that go by what it stores."""
    index, table = (loops.Buffer(name=n, kind=k, extents=(4,), origin=()) for n, k in (("i", "index"), ("x", "input")))
    load = loops.Load(result="v", buffer="x", indices=("b",), origin=())
    store = loops.Store(target="i", indices=("b",), function="copy", operands=("b",), origin=())
    where = ir.Where(left="v", comparison="<", right=1, body=(store,), origin=())
    body = (ir.Loop(variable="b", extent=4, body=(load, where), bind="block", origin=()),)
    first = ir.ScheduledKernel(
        name="first", template="t", sizes=(), buffers=(index, table), threads=32, schedule=(), body=body, origin=()
    )
    read = loops.Load(result="p", buffer="i", indices=("b",), origin=())
    inner = ir.Loop(variable="q", lower="p", extent=4, body=(load,), origin=())
    second = replace(first, name="second", body=(replace(body[0], body=(read, inner)),))
    assert asked_bytes((first, second), {"x": np.zeros(4, np.float32)}) == {}
    assert asked_bytes((second,), {"x": np.zeros(4, np.float32), "i": np.array([0, 1, 4, 2])}) == {
        "second": 4 * (4 + 9)
    }


SCORE = """score S(h: entity, r: relation, t: entity):
    param E[entity, 8], R[relation, 8]
    return sum({})
"""


def counts(text: str, options: dict[str, str | int | bool]) -> tuple[dict[str, int], dict[str, int], int]:
    """What a text's kernels ask for: as it is counted after others, and with nothing counted before; and how many of
    its kernels the first of these went through."""
    made = explorer.compile(text, options=options, on_demand=True)
    kernels, inputs = (
        kernels_of(made.stages["kernels"].program),
        IDS | {name: np.zeros((9, 8), np.float32) for name in "ER"},
    )
    walked = mock.patch.object(counting._Counting, "bytes", autospec=True, side_effect=counting._Counting.bytes)
    with walked as walk:
        found = asked_bytes(kernels, inputs)
    calls = walk.call_count
    counting._OUTLINED.clear()
    for kernel in kernels:
        kernel.__dict__.pop("_counted", None)
    return found, asked_bytes(kernels, inputs), calls


IDS = {index: RANDOM.integers(0, 4, 200) for index in "hrt"}


@pytest.mark.parametrize("inspect", ["false", "true", "chunks"])
def test_kernels_that_look_up_the_same_rows_are_gone_through_once(inspect: str) -> None:
    counting._OUTLINED.clear()
    options: dict[str, str | int | bool] = {"inspect": inspect}
    first, anew, _ = counts(SCORE.format("(E[h] + R[r]) * E[t]"), options)
    assert first == anew
    edited, anew, calls = counts(SCORE.format("(exp(E[h]) + 2 * R[r] + 1.5) * E[t]"), options)
    assert (edited, calls) == (first, 0)
    assert edited == anew
    twice, anew, calls = counts(SCORE.format("(E[h] + R[r]) * R[r]"), options)
    assert calls > 0
    assert twice == anew != first


def test_other_indices_are_counted_again() -> None:
    counting._OUTLINED.clear()
    text, options = SCORE.format("(E[h] + R[r]) * E[t]"), {"inspect": "chunks"}
    few, _, _ = counts(text, options)
    with mock.patch.dict(IDS, {"h": RANDOM.integers(0, 1, 200)}):
        fewer, anew, calls = counts(text, options)
    assert calls == 1
    assert fewer == anew != few
