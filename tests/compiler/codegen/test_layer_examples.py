"""Every layer of the examples as CUDA and PTX, through its own text; `test_layers` runs them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import explorer
from explorer.compiler.ir.node import operations_of

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("rgnn/*.emb"))

every_example = pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])


@pytest.mark.sampled(2)
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


def test_what_one_lane_stores_is_loaded_by_the_others_behind_the_barrier() -> None:
    """A node's mean is lane 0's, which all lanes multiply: none may go on with what it loaded for its own share."""
    text = next(path for path in EXAMPLES if path.stem == "gcn").read_text()
    compilation = explorer.compile(text, sizes={"F": 1, "G": 4}, options={"grad": True})
    before, _, behind = compilation.stages["ptx"].text.partition("bar.warp.sync")
    address = re.findall(r"st\.global\.f32\s+(\[%\w+\])", before)[-1]
    assert re.search(rf"ld\.global\.f32\s+%\w+, {re.escape(address)}", behind.partition(".entry")[0])
