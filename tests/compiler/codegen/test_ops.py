"""Every op of the examples as CUDA and PTX; the sums over coordinates, whose iterations meet in one row."""

from __future__ import annotations

import pytest

import explorer
from explorer.compiler.codegen.cpu.program import generate_host
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import operations_of
from tests.compiler.ops import FOLDER, OPS

every_op = pytest.mark.parametrize("path", OPS, ids=lambda path: path.stem)


@pytest.mark.sampled(4)
@every_op
@pytest.mark.parametrize("grad", [False, True], ids=["forward", "backward"])
def test_nvrtc_compiles_every_kernel_and_no_row_is_in_local_memory(path, grad):
    compilation = explorer.compile(path.read_text(), options={"grad": grad}, on_demand=True)
    cuda, ptx = compilation.stages["cuda"], compilation.stages["ptx"]
    assert ptx.available, ptx.reason
    assert ptx.text.count(".entry") == cuda.text.count("__global__") == len(cuda.program.launches)
    assert ".local" not in ptx.text
    operations = operations_of(*(line.origin for line in compilation.stages["loops"].lines))
    assert operations_of(*(line.origin for line in cuda.lines)) == operations
    assert operations_of(*(line.origin for line in ptx.lines)) <= operations


def coordinates() -> tuple[explorer.Compilation, Kernel]:
    compilation = explorer.compile((FOLDER / "spmm_coo.emb").read_text())
    module = compilation.stages["loops"].program
    assert isinstance(module, Module)
    (kernel,) = module.programs
    assert isinstance(kernel, Kernel)
    return compilation, kernel


def test_coordinates_are_one_loop_in_order_that_adds_where_each_belongs(golden):
    compilation, kernel = coordinates()
    golden(compilation.stages["loops"].text)
    assert generate_host(kernel).sequential


def test_on_a_gpu_coordinates_add_atomically_to_what_a_kernel_before_has_cleared():
    compilation, _ = coordinates()
    code = compilation.stages["cuda"]
    clear, add = code.program.launches
    assert (str(clear.blocks), str(add.blocks)) == ("ceil(rows / 4)", "ceil(nonzeros / 4)")
    assert code.text.count("= broadcast_float4(0.0f);") == 1
    assert "add_vector(reinterpret_cast<float4*>(&out[(long long)irow" in code.text


def test_rows_are_cleared_by_the_iteration_that_sums_in_them():
    compilation = explorer.compile((FOLDER / "sls.emb").read_text())
    (kernel,) = compilation.stages["loops"].program.programs
    host = generate_host(kernel)
    assert not host.sequential
    assert host.text.index("= float32(0.0)") < host.text.index("+=")
    assert "= 0.0" not in compilation.stages["loops"].text
