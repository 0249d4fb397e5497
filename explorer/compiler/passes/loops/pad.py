"""Lays the rows of arrays that kernels make for one another further apart: `m[edges, 41]` as `m[edges, 44]`.

PIGEON (§3.1.3) has "padding the innermost dimension" as an optimisation of the layout, which its models say nothing of.
A row of 41 numbers then begins at 16 bytes, a sector of 32 or a line of 128, as the option `pad` says. Loops go over
the numbers that a row has, so what lies behind them is never written and never read. Results, gradients and given
tensors are a caller's, and lie as they are.

    kernel A: output m[edges, G]     output m[edges, 44]
    for g in 0..G                    for g in 0..G
      m[e, g] = u                      m[e, g] = u
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from explorer.compiler.frozen import replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.module import Module, Packing
from explorer.compiler.ir.node import Extent
from explorer.compiler.passes.loops.columns import AnyKernel, in_columns, sectors, stride
from explorer.compiler.passes.stored.storage import SECTOR
from explorer.compiler.report import Report
from explorer.compiler.target import FLOAT_BYTES, VECTOR


def pad(program: loops.Kernel | Module, report: Report) -> loops.Kernel | Module:
    """The program with padded rows, if the option asks for them.

    A single kernel makes no array for another one."""
    if not isinstance(program, Module):
        return program
    kernels = [kernel for kernel in program.programs if isinstance(kernel, loops.Kernel)]
    multiple = report.options.pad
    if not multiple:
        for packing in padded_rows(kernels, program.kept, program.packed, VECTOR):
            apart = _without_pad(packing, kernels)
            report.refused(
                f"rows of {packing.vectors} are {apart} numbers apart, and not all begin at {VECTOR * FLOAT_BYTES}"
                " bytes: the option pad is 0"
            )
        return program
    padded = padded_rows(kernels, program.kept, program.packed, multiple)
    for packing in padded:
        report.did(cost_of(packing, kernels))
    if not padded:
        return program
    others = tuple(each for each in program.packed if all(each.vectors != packing.vectors for packing in padded))
    programs = tuple(in_columns(kernel, padded) for kernel in kernels)
    return replace(program, programs=programs, packed=(*others, *padded))


def padded_rows(
    kernels: Sequence[AnyKernel], kept: Iterable[str], packed: Iterable[Packing], multiple: int
) -> tuple[Packing, ...]:
    """The layouts of the arrays whose rows would lie further apart if they began at multiples of so many numbers. Those
    that are `packed` keep their columns."""
    known, left = {packing.vectors: packing for packing in packed}, {*kept}
    found: dict[str, Packing] = {}
    for kernel in kernels:
        for buffer in kernel.buffers:
            if buffer.kind != "output" or len(buffer.extents) < 2 or buffer.name in left:
                continue
            packing = known.get(buffer.name) or Packing(buffer.name, buffer.extents[-1])
            length = _number(kernel, packing.length)
            if length is None:
                continue  # as many as there are negatives: only a run knows
            usual = stride(length, len(packing.scalars))
            apart = -(-usual // multiple) * multiple
            if apart != usual:
                found[buffer.name] = packing._replace(stride=apart)
    return tuple(found.values())


def cost_of(packing: Packing, kernels: Sequence[loops.Kernel]) -> str:
    """What padding an array costs and gives: the bytes of a row, and the sectors that a whole row touches on the mean
    over all rows."""
    filled = _length(packing, kernels) + len(packing.scalars)
    before, taken = _without_pad(packing, kernels), packing.stride
    return (
        f"rows of {packing.vectors} are {taken} numbers apart: {(taken - filled) * FLOAT_BYTES} of"
        f" {taken * FLOAT_BYTES} bytes are padding, and a row touches {float(sectors(filled, taken)):g} sectors of"
        f" {SECTOR * FLOAT_BYTES} bytes, without it {float(sectors(filled, before)):g}"
    )


def _without_pad(packing: Packing, kernels: Sequence[loops.Kernel]) -> int:
    return stride(_length(packing, kernels), len(packing.scalars))


def _length(packing: Packing, kernels: Sequence[loops.Kernel]) -> int:
    kernel = next(each for each in kernels if any(buffer.name == packing.vectors for buffer in each.buffers))
    return kernel.size(packing.length)


def _number(kernel: AnyKernel, extent: Extent) -> int | None:
    """What an extent is, where that is known before a run."""
    return extent if isinstance(extent, int) else dict(kernel.sizes).get(extent)
