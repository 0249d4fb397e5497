"""Outputs start as zeros in the loops; a target that writes into memory as it is clears what it is going to sum in."""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Names, Origin, made, merge, walk
from explorer.compiler.ir.statements import all_names

ADDS = "adds"
"""The template of a kernel whose iterations add to rows of one another, of an output that another one has cleared."""


def clear_sums(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with each iteration of its parallel loop clearing the rows of outputs that it sums in.

    Only rows of its own: what all iterations share must be cleared before the kernel starts."""
    if len(kernel.body) != 1 or not isinstance(kernel.body[0], loops.For):
        return kernel
    loop, names = kernel.body[0], Names(all_names(kernel))
    clears = [
        _clear(buffer, loop.variable, names, merge(*(node.origin for node in sums)))
        for buffer in kernel.buffers
        if buffer.kind == "output" and (sums := sums_in_place(loop, buffer.name))
    ]
    return replace(kernel, body=(replace(loop, body=(*clears, *loop.body)),)) if clears else kernel


def clearing_kernel(kernel: loops.Kernel) -> loops.Kernel | None:
    """The kernel that clears what another, whose iterations add to rows of one another, sums in; None for others, and
    for those that add to what has been cleared."""
    loop = kernel.body[0]
    if not isinstance(loop, loops.For) or loop.parallel or kernel.template == ADDS:
        return None
    (output,) = (buffer for buffer in kernel.buffers if buffer.kind == "output")
    return clear_output(kernel, output)


def clear_output(kernel: loops.Kernel, output: loops.Buffer) -> loops.Kernel:
    """The kernel that clears an output which another one sums in."""
    return clear_outputs(kernel, output)


def clear_outputs(kernel: loops.Kernel, *outputs: loops.Buffer) -> loops.Kernel:
    """The kernel that clears outputs of one number of rows which another one sums in."""
    names, origin = Names(all_names(kernel)), made("zero the sums", "schedule", kernel.body[0].origin)
    row, rows = names.new("i"), outputs[0].extents[0]
    body = tuple(_clear(output, row, names, origin) for output in outputs)
    clear = loops.For(variable=row, extent=rows, body=body, parallel=True, origin=origin)
    name = names.new(f"{kernel.name}_clear")
    return replace(kernel, name=name, template="rows", buffers=outputs, body=(clear,))


def sums_in_place(loop: loops.For, output: str) -> list[loops.Accumulate]:
    """The statements that sum in an output's rows, where nothing in the loop stores there before."""
    found: list[loops.Accumulate] = []
    for node in walk(loop):
        match node:
            case loops.Store(target=target) if target == output:
                return found
            case loops.Accumulate(target=target, indices=(first, *_)) if target == output and first == loop.variable:
                found.append(node)
    return found


def _clear(output: loops.Buffer, row: str, names: Names, origin: Origin) -> loops.Statement:
    """`for d in 0..D: out[b, d] = 0.0`."""
    variables = [names.new(e.lower() if isinstance(e, str) else "i") for e in output.extents[1:]]
    statement: loops.Statement = loops.Store(
        target=output.name, indices=(row, *variables), function="copy", operands=(0.0,), origin=origin
    )
    for variable, extent in zip(reversed(variables), reversed(output.extents[1:]), strict=True):
        statement = loops.For(variable=variable, extent=extent, body=(statement,), origin=origin)
    return statement
