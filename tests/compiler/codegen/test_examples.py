"""Every score of the examples in CUDA and PTX, and on the CPU against the float64 reference."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.ir.node import Span, operations_of
from explorer.runtime.data.triples import Triples
from explorer.runtime.encode.batch import draw
from explorer.runtime.reference.evaluate import score
from explorer.runtime.targets.cpu import prepare

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("kge/*.emb"))
NEGATIVES = ("none", "tail:5", "head:3")

every_example = pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
every_mode = pytest.mark.parametrize("negatives", NEGATIVES)


def sizes_of(text: str, size: int) -> dict[str, int]:
    """The first dimension at `size`, each other larger by 3, so that none are equal."""
    return {name: size + 3 * place for place, name in enumerate(explorer.compile(text, on_demand=True).sizes)}


def few_triples() -> Triples:
    random = np.random.default_rng(1)
    columns = (random.integers(0, count, 90, dtype=np.int32) for count in (40, 6, 40))
    return Triples("random", "preset, generated", 40, 6, *columns)


def spans(stage: explorer.compiler.compilation.Stage) -> set[Span]:
    return operations_of(*(line.origin for line in stage.lines))


@pytest.mark.sampled(4)
@every_example
@every_mode
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_cuda_compiles_and_ptx_leads_back_to_every_operation(path: Path, negatives: str, arch: str) -> None:
    compilation = explorer.compile(path.read_text(), options={"negatives": negatives, "arch": arch}, on_demand=True)
    cuda, ptx = compilation.stages["cuda"], compilation.stages["ptx"]
    assert ptx.available, ptx.reason
    kernels = len(cuda.program.launches)  # one, but where triples are grouped by their matrices first
    assert (kernels == 1) == ("_group_order_kernel" not in cuda.text)
    assert ptx.text.count(".entry") == cuda.text.count("__global__") == kernels
    assert f".target {arch}" in ptx.text
    assert ".local" not in ptx.text
    operations = {operation.span for operation in compilation.operations}
    assert spans(compilation.stages["loops"]) == operations
    assert spans(cuda) == operations
    assert spans(ptx) == operations
    stores = [line for line in cuda.lines if re.search(r"\bout\[", line.text)]
    assert len(stores) == 1


@pytest.mark.sampled(3)
@every_example
@every_mode
@pytest.mark.parametrize("size", [1, 33])
def test_cpu_agrees_with_the_reference(path: Path, negatives: str, size: int) -> None:
    text = path.read_text()
    compilation = explorer.compile(text, sizes=sizes_of(text, size), options={"negatives": negatives}, on_demand=True)
    kernel: Any = compilation.stages["loops"].program
    compiled = prepare(kernel)
    for batch in (1, 50):
        inputs = draw(compilation, few_triples(), batch)
        want = score(text, inputs, compilation.sizes, negatives=negatives)
        got = compiled(inputs)
        assert got.shape == want.shape
        scale = np.maximum(np.abs(want), np.abs(want).mean())
        assert (np.abs(got - want) <= 1e-5 * scale).all()
