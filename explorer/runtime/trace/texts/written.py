"""What is written of a trace: a text, and what its names are of the module's tensors and ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from explorer.runtime.trace.tapes.recorded import Given
from explorer.runtime.trace.values.expressions import Node, walk

OWN = "each element's own"
"""In the place of a map's name: an element's own number."""


@dataclass(frozen=True)
class Written:
    """A text. `ids` says by which name the compiled module takes which map ("" for none), `tensors` which tensors it
    has, and whether they are tables; `set_at` is the dimension of the module's result that its rows are, NO_ROWS where
    none is; `counted` is a tensor with a row for each node."""

    text: str
    family: str
    ids: Mapping[str, str]
    tensors: Mapping[str, bool]
    shape: tuple[int, ...]
    set_at: int
    counted: str = ""


def used_tensors(result: Node) -> dict[str, Node]:
    """By their names in the text, the tensors that a result is made of."""
    leaves = [node for node in walk((result,)) if node.operator == "tensor"]
    return {str(node.data[0]): node for node in leaves}


def declarations(used: Mapping[str, Node], given: Mapping[str, Given], sets: Mapping[str, str]) -> Iterable[str]:
    """The lines that declare tensors; `sets` are by tensor, of those that are tables."""
    for kind, kinds in (("param", ("param", "input")), ("input", ("buffer",))):
        parts = []
        for name in (each for each in given if each in used):
            if given[name].kind in kinds:
                node = used[name]
                inner = [*([sets[name]] if name in sets else []), *map(str, node.shape)]
                parts.append(f"{name}[{', '.join(inner)}]" if inner else name)
        line = ""
        for part in parts:
            if line and len(line) + len(part) > 100:
                yield f"{kind} {line}"
                line = ""
            line += f", {part}" if line else part
        if line:
            yield f"{kind} {line}"
