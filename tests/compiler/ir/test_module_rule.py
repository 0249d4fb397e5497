"""A module's kernels write what they hand on and what the module is for."""

from dataclasses import replace

import pytest

import explorer
from explorer.compiler.ir.node import VerificationError
from explorer.compiler.ir.verify.module import verify_module, written_by
from tests.compiler.swaps import ROOT

MODEL = (ROOT / "examples" / "rgnn" / "rgat.emb").read_text()


@pytest.mark.parametrize("stage", ["loops", "kernels"])
def test_no_kernel_that_writes_something_can_be_left_out(stage: str) -> None:
    """Neither one whose arrays others read, nor one of the result or a gradient; each must come before its readers. (Of
    index arrays that nobody writes a module does not say whether they are given.)"""
    module = explorer.compile(MODEL, options={"grad": True}, on_demand=True).stages[stage].program
    verify_module(module)
    for place, program in enumerate(module.programs):
        rest = (*module.programs[:place], *module.programs[place + 1 :])
        alone = written_by(program) - {name for each in rest for name in written_by(each)}
        if alone & {b.name for b in program.buffers if b.kind != "index"}:
            with pytest.raises(VerificationError, match="no kernel"):
                verify_module(replace(module, programs=rest))
        if alone & {b.name for each in rest for b in each.buffers}:
            with pytest.raises(VerificationError, match="no kernel before it writes"):
                verify_module(replace(module, programs=(*rest, program)))
