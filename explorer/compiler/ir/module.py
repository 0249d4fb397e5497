"""A module: the programs that a definition lowers to, one a kernel, run in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

from explorer.compiler.ir.dlc import DlcProgram
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.node import Node
from explorer.compiler.ir.slc import SlcProgram


@dataclass(frozen=True, kw_only=True)
class Module(Node):
    """Programs of one IR. What one writes as an output, later ones read as a temporary of the same name; `result`
    names the output that is the definition's, `gradients` those of the learnt tensors, by tensor."""

    name: str
    result: str
    gradients: tuple[tuple[str, str], ...]
    programs: tuple[Kernel | SlcProgram | DlcProgram, ...]


def each_program(step: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A pass over one program as a pass over modules too: it is applied to each program."""

    @wraps(step)
    def over_all(program: Any, report: Any) -> Any:
        if not isinstance(program, Module):
            return step(program, report)
        programs = tuple(step(inner, report) for inner in program.programs)
        return replace(program, programs=programs)

    return over_all
