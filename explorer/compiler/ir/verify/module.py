"""The rule of a module: what its kernels hand on, and what it is for, is written by one of them."""

from __future__ import annotations

from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import VerificationError, once
from explorer.compiler.ir.statements import written_in

Program = loops.Kernel | kernels.ScheduledKernel


def verify_module(module: Module) -> None:
    """Raises VerificationError where a kernel reads an array of the module's own before any has written it, or where
    none writes a result or a gradient. Programs of SLC and DLC are made of kernels that have been looked at."""
    programs = [program for program in module.programs if isinstance(program, Program)]
    if len(programs) < len(module.programs):
        return
    own = frozenset[str]().union(*map(written_by, programs))
    written: frozenset[str] = frozenset()
    for program in programs:
        read = {b.name for b in program.buffers if b.kind == "temporary" or b.name in own} - written_by(program)
        for name in sorted(read - written):
            raise VerificationError(f"{program.name} reads {name}, which no kernel before it writes")
        written |= written_by(program)
    what = {
        **dict.fromkeys(module.results, "result"),
        **{array: f"gradient of {tensor}" for tensor, array in module.gradients},
    }
    for array, meaning in what.items():
        if array not in written:
            raise VerificationError(f"no kernel writes {array}, the {meaning}")


@once
def written_by(program: Program) -> frozenset[str]:
    """The arrays that a kernel stores in or adds to."""
    return frozenset(buffer.name for buffer in program.buffers) & written_in(program)
