"""Products by four warps as machine code: what the assembler makes of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import explorer
from explorer.compiler.codegen.binary.nvrtc import compile_text
from explorer.compiler.codegen.resources import read_resources

KGE = Path(__file__).parents[3] / "examples" / "kge"
SIZES = {"transr": {"D": 512, "K": 512}, "rescal": {"D": 512}}
MOST_SPILLED = 32
"""Bytes of a thread that lie in local memory while a tile is multiplied, but are not used in it."""


@pytest.mark.parametrize(("precision", "threads", "blocks"), [("tf32x3", 128, 3), ("tf32", 256, 2)])
@pytest.mark.parametrize("model", SIZES)
def test_it_is_not_serialised_and_has_its_registers(model: str, precision: str, threads: int, blocks: int) -> None:
    options = {"precision": precision, "arch": "sm_90a"}
    text = (KGE / f"{model}.emb").read_text()
    cuda = explorer.compile(text, sizes=SIZES[model], options=options, on_demand=True).stages["cuda"].text
    compiled = compile_text(cuda, "sm_90a")
    assert "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32" in compiled.ptx
    assert "erialized" not in compiled.log  # ptxas waits after each of them where it cannot follow their registers
    assert "warning" not in compiled.log
    (name,) = re.findall(r"(\w+_product_kernel)\(", cuda)
    (product,) = read_resources(compiled.log, "sm_90a", {name: threads})
    assert product.spill_store_bytes <= MOST_SPILLED
    assert product.registers * threads * blocks <= 65_536
