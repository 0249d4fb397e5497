"""A module: the programs that a definition lowers to, one a kernel, run in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, NamedTuple

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.access.dlc import DlcProgram, print_dlc
from explorer.compiler.ir.access.slc import SlcProgram, print_slc
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.loops import Kernel, print_kernel
from explorer.compiler.ir.node import Extent, Line, Node, once
from explorer.compiler.ir.print.instances import print_instances
from explorer.compiler.ir.print.kernels import print_scheduled

AnyProgram = Kernel | ScheduledKernel | SlcProgram | DlcProgram


class Packing(NamedTuple):
    """A layout: each row of an array of vectors has their `length` numbers, then one of each array of `scalars`, and
    the next row begins `stride` numbers behind it; 0 leaves that to the alignment which rows of that length have."""

    vectors: str
    length: Extent
    scalars: tuple[str, ...] = ()
    stride: int = 0

    def __str__(self) -> str:
        columns = ", ".join(map(str, (self.length, *self.scalars)))
        return f"{self.vectors} = [{columns}]" + (f" stride {self.stride}" if self.stride else "")


@dataclass(frozen=True, kw_only=True)
class Module(Node):
    """Programs of one IR. What one writes as an output, later ones read as a temporary of the same name; `result`
    names the output that is the definition's, `further` those behind it where it returns several, and `gradients` those
    of the learnt tensors, by tensor.

    `inverses` are by index array of a batch the one that orders the batch by it: of these both may be at hand, so a sum
    over a segment of the order may as well be taken element by element. `products` are by name the index arrays that
    are none, but several as one: each of theirs with the extent of what it leads to, the last counting fastest.
    `packed` are, of loops, the arrays whose rows hold elements of others too, or are padded."""

    name: str
    result: str
    gradients: tuple[tuple[str, str], ...]
    programs: tuple[AnyProgram, ...]
    inverses: tuple[tuple[str, str], ...] = ()
    products: tuple[tuple[str, tuple[tuple[str, Extent], ...]], ...] = ()
    further: tuple[str, ...] = ()
    packed: tuple[Packing, ...] = ()

    @property
    def results(self) -> tuple[str, ...]:
        """The outputs that the definition returns, in order; one may be there twice."""
        return (self.result, *self.further)

    @property
    def kept(self) -> tuple[str, ...]:
        """The outputs that a caller gets: the results, and the gradients."""
        return (*self.results, *(name for _, name in self.gradients))


def print_module(module: Module) -> tuple[Line, ...]:
    """What the module is for, the instances of its kernels, and its programs, each behind an empty line."""
    gradients = ", ".join(f"{tensor} = {buffer}" for tensor, buffer in module.gradients)
    head = f"module {module.name}  result {', '.join(module.results)}" + (
        f"  gradient {gradients}" if gradients else ""
    )
    kernels = tuple(program for program in module.programs if isinstance(program, Kernel))
    inverses = ", ".join(f"{entry} = {order}" for entry, order in module.inverses)
    head += f"  inverse {inverses}" if inverses else ""
    products = ", ".join(
        f"{name} = [{', '.join(f'{entry} of {extent}' for entry, extent in factors)}]"
        for name, factors in module.products
    )
    head += f"  product {products}" if products else ""
    packed = ", ".join(map(str, module.packed))
    head += f"  packed {packed}" if packed else ""
    lines = [Line(head), *print_instances(kernels)]
    for program in module.programs:
        lines += [Line(""), *print_program(program)]
    return tuple(lines)


@once
def print_program(program: AnyProgram) -> tuple[Line, ...]:
    """One program of a module, or one that stands alone."""
    match program:
        case Kernel():
            return print_kernel(program)
        case ScheduledKernel():
            return print_scheduled(program)
        case SlcProgram():
            return print_slc(program)
        case DlcProgram():
            return print_dlc(program)


def each_program(step: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A pass over one program as a pass over modules too: it is applied to each program."""

    @wraps(step)
    def over_all(program: Any, report: Any) -> Any:
        if not isinstance(program, Module):
            return step(program, report)
        changed = [(inner, step(inner, report)) for inner in program.programs]
        # What is equal stays the same object: it need not be printed or verified again.
        programs = tuple(old if old == new else new for old, new in changed)
        same = all(new is old for new, old in zip(programs, program.programs, strict=True))
        return program if same else replace(program, programs=programs)

    return over_all
