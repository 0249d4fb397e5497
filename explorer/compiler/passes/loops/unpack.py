"""Takes columns and padding of arrays out again, for schedules: these tell what is written and read apart by its array.

What is scheduled is packed at the end, as the module says that its loops are (`pack`): a layout leaves the schedule as
it is, as Hector's templates know layouts from their accesses alone (§3.2.5).
"""

from __future__ import annotations

from typing import Any

from explorer.compiler.frozen import replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.module import Module, Packing
from explorer.compiler.ir.node import rewrite, walk
from explorer.compiler.report import Report


def unpack(program: loops.Kernel | Module, report: Report) -> loops.Kernel | Module:
    """The program with every packed scalar in an array of its own, and every row as long as it is; and told so."""
    if not isinstance(program, Module) or not program.packed:
        return program
    kernels: list[Any] = list(program.programs)
    for packing in program.packed:
        bodies = [_apart(kernel, packing) for kernel in kernels]
        stores = [node for body in bodies for statement in body for node in walk(statement)]
        order = [loops.array_of(node) for node in stores if isinstance(node, (loops.Store, loops.Accumulate))]
        kernels = [_with_arrays(kernel, body, packing, order) for kernel, body in zip(kernels, bodies, strict=True)]
        taken = f"{', '.join(packing.scalars)} out" if packing.scalars else "padding out"
        report.did(f"{taken} of {packing.vectors} until it is scheduled")
    return replace(program, programs=tuple(kernels))


def _apart(kernel: loops.Kernel, packing: Packing) -> tuple[loops.Statement, ...]:
    """A kernel's statements with accesses of columns as those of the scalars' own arrays."""
    scalars = dict(enumerate(packing.scalars, kernel.size(packing.length)))

    def change(node: Any) -> Any:
        match node:
            case loops.Load(indices=(*row, int() as column)) if node.buffer == packing.vectors and column in scalars:
                return replace(node, buffer=scalars[column], indices=tuple(row))
            case loops.Store(indices=(*row, int() as column)) | loops.Accumulate(indices=(*row, int() as column)) if (
                node.target == packing.vectors and column in scalars
            ):
                return replace(node, target=scalars[column], indices=tuple(row))
        return node

    return tuple(rewrite(statement, change) for statement in kernel.body)


def _with_arrays(
    kernel: loops.Kernel, body: tuple[loops.Statement, ...], packing: Packing, order: list[str]
) -> loops.Kernel:
    """A kernel with such a body, and with the arrays that this touches in the place of the packed one: in the `order`
    in which they are written, as arrays are that were never packed."""
    touched = {loops.array_of(node) for statement in body for node in walk(statement)}
    buffers: list[loops.Buffer] = []
    for buffer in kernel.buffers:
        if buffer.name != packing.vectors:
            buffers.append(buffer)
            continue
        apart = [replace(buffer, name=name, extents=buffer.extents[:-1]) for name in packing.scalars]
        apart.append(replace(buffer, extents=(*buffer.extents[:-1], packing.length)))
        buffers += sorted((each for each in apart if each.name in touched), key=lambda each: order.index(each.name))
    return replace(kernel, buffers=tuple(buffers), body=body)
