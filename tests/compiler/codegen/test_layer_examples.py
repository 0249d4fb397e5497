"""Every layer of the examples as CUDA and PTX, through its own text; `test_layers` runs them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import explorer
from explorer.compiler.ir.node import operations_of

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("rgnn/*.emb"))

every_example = pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])


@pytest.mark.sampled(4)
@every_example
@pytest.mark.parametrize("grad", [False, True], ids=["forward", "backward"])
def test_ptx_leads_back_to_every_operation(path: Path, grad: bool) -> None:
    compilation = explorer.compile(path.read_text(), options={"grad": grad}, on_demand=True)
    cuda, ptx = compilation.stages["cuda"], compilation.stages["ptx"]
    assert ptx.available, ptx.reason
    assert ptx.text.count(".entry") == cuda.text.count("__global__") == len(cuda.program.launches)
    operations = operations_of(*(line.origin for line in compilation.stages["loops"].lines))
    assert operations_of(*(line.origin for line in cuda.lines)) == operations
    assert operations_of(*(line.origin for line in ptx.lines)) <= operations


@pytest.mark.sampled(2)
@every_example
@pytest.mark.parametrize("grad", [False, True], ids=["forward", "backward"])
def test_only_what_a_kernel_does_not_write_is_restricted(path: Path, grad: bool) -> None:
    """Else a lane could go on with what it loaded before another lane's store, across the barrier between them."""
    compilation = explorer.compile(path.read_text(), options={"grad": grad})
    kernels = compilation.stages["cuda"].text.split("__global__")[1:]
    parameters = "".join(kernel.partition("{")[0] for kernel in kernels)
    pointers = re.findall(r"(const )?\w+\* (__restrict__ )?\w+[,)]", parameters)
    assert pointers
    assert all(bool(is_read) == bool(is_restricted) for is_read, is_restricted in pointers)
