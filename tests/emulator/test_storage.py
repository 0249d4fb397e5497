"""The CUDA for tables in float16, bfloat16 and int8, forward and backward, by each strategy that reads them."""

import random
from dataclasses import replace

import numpy as np
import pytest

from explorer.compiler.compilation import compile_model
from explorer.compiler.decisions import Sample
from explorer.compiler.ir.kernels import Copy, KeptLoad
from explorer.compiler.ir.node import walk
from tests.emulator.launch import launch
from tests.stored_models import CASES, FLOATS, GRAPH, MATRIX, NAMES, QUANTISED, close


def emulated(compilation, inputs, upstream=None):
    arrays, finish = inputs, lambda result, gradients: (result, gradients)
    if compilation.family != "score" or compilation.options.grad:
        arrays, finish = compilation.encode(compilation, inputs, upstream)
    return finish(*launch(compilation, arrays))


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("model", "storage", "size"), CASES, ids=NAMES)
@pytest.mark.parametrize("grad", [False, True], ids=["result", "gradients"])
def test_kernels(compiler, model, storage, size, grad):
    compilation, inputs = model.compiled(size, storage, grad=grad), model.inputs(size)
    upstream = None
    if grad:
        shape = model.expected(inputs, storage)[0].shape
        upstream = np.random.default_rng(9).normal(size=shape).astype(np.float32)
    want, slopes = model.expected(inputs, storage, upstream)
    result, gradients = emulated(compilation, inputs, upstream)
    close(result, want)
    for name, slope in slopes.items():
        close(gradients[name], slope, 5e-6)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("name", "storage"), [(name, "bf16") for name in FLOATS] + [("quantised", "i8")])
def test_schedules_that_nobody_chose(compiler, name, storage, seed):
    model = {**FLOATS, "quantised": QUANTISED}[name]
    inputs = model.inputs(36)
    usual = model.compiled(36, storage)
    sampled = compile_model(usual.text, on_demand=True, policy=Sample(random.Random(seed)))
    compilation = replace(usual, stages=sampled.stages)
    close(emulated(compilation, inputs)[0], model.expected(inputs, storage)[0])


@pytest.mark.parametrize("storage", ["f16", "bf16", "i8"])
@pytest.mark.parametrize("size", [41, 64])
def test_popular_rows_are_kept_as_they_are_stored(compiler, storage, size):
    """Vectors of elements, and single ones, by the load that says what caches keep."""
    compilation, inputs = MATRIX.compiled(size, storage, popular=True), MATRIX.inputs(size)
    inputs["X"] = np.rint(inputs["X"] * 60)
    kernels = compilation.stages["kernels"].program.programs
    assert any(isinstance(node, KeptLoad) for kernel in kernels for node in walk(kernel))
    close(emulated(compilation, inputs)[0], MATRIX.expected(inputs, storage)[0])


def test_what_is_narrower_is_converted_on_its_way_into_shared_memory(compiler):
    """A copy of bytes would be one of other numbers."""
    compilation, inputs = GRAPH.compiled(64, "f16"), GRAPH.inputs(64)
    kernels = compilation.stages["kernels"].program.programs
    copied = {node.buffer for kernel in kernels for node in walk(kernel) if isinstance(node, Copy)}
    assert copied & set(GRAPH.narrow)
    close(emulated(compilation, inputs)[0], GRAPH.expected(inputs, "f16")[0])
