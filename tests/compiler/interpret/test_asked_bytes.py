"""The bytes that kernels ask for: closed forms, and every access of the interpreter counted as it happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import explorer
from explorer.compiler.interpret import kernels as interpreter
from explorer.compiler.interpret.asked_bytes import asked_bytes
from explorer.compiler.to_json import kernels_of

EXAMPLES = Path(__file__).parents[3] / "examples"
RANDOM = np.random.default_rng(7)
LISTS = {"ptr": np.array([0, 3, 3, 8, 9, 60]), "idx": RANDOM.integers(0, 7, 60), "T": np.zeros((7, 8), np.float32)}
B = 50


def compiled(name: str, options: dict[str, str | int | bool] | None = None, **sizes: int) -> Any:
    return explorer.compile((EXAMPLES / f"{name}.emb").read_text(), sizes=sizes, options=options or {}, on_demand=True)


def triples(compilation: Any) -> dict[str, Any]:
    """Ids, and tensors of 9 entities and 4 relations."""
    rows = {"entity": 9, "relation": 4}
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
        return np.array(found) if np.ndim(found) else found

    def tolist(self) -> Any:
        return CountedList(super().tolist())

    def __setitem__(self, key: Any, value: Any) -> None:
        plain = np.asarray(self)  # of a subclass NumPy would get an item in order to set it
        Counted.bytes += 4 * np.size(plain[key])
        plain[key] = value


class CountedList(list[Any]):
    """The same of an array of indices, which the interpreter reads as a list."""

    def __getitem__(self, key: Any) -> Any:
        Counted.bytes += 4
        return super().__getitem__(key)


def counted_by_the_interpreter(kernels: Any, arrays: dict[str, Any]) -> dict[str, int]:
    bound, begun = interpreter.bound, list[int]()

    def counting(kernel: Any, inputs: Any, written: Any) -> Any:
        names = bound(kernel, inputs, written)
        buffers = {buffer.name for buffer in kernel.buffers}
        begun.append(Counted.bytes)
        return {name: value.view(Counted) if name in buffers else value for name, value in names.items()}

    with mock.patch.object(interpreter, "bound", counting):
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
