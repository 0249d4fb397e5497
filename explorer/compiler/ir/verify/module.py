"""The rules of a module: what its kernels hand on, and what it is for, is written by one of them, and rows that are
laid out have room for what they hold."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import VerificationError, once
from explorer.compiler.ir.statements import written_in

Program = loops.Kernel | kernels.ScheduledKernel


def verify_module(module: Module) -> None:
    """Raises VerificationError where a kernel reads an array of the module's own before any has written it, or where
    none writes a result or a gradient, or where rows are laid out nearer to one another than they are long. Programs of
    SLC and DLC are made of kernels that have been looked at."""
    programs = [program for program in module.programs if isinstance(program, Program)]
    if len(programs) < len(module.programs):
        return
    _verify_strides(module, programs)
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


def _verify_strides(module: Module, programs: Sequence[Program]) -> None:
    sizes = {name: size for program in programs for name, size in program.sizes}
    for packing in module.packed:
        length = sizes.get(packing.length) if isinstance(packing.length, str) else packing.length
        if packing.stride and length is not None and packing.stride < length + len(packing.scalars):
            held = f"{length + len(packing.scalars)} numbers"
            raise VerificationError(f"rows of {packing.vectors} hold {held}, and begin {packing.stride} apart")


@once
def written_by(program: Program) -> frozenset[str]:
    """The arrays that a kernel stores in or adds to."""
    return frozenset(buffer.name for buffer in program.buffers) & written_in(program)
