"""Names each scalar of a nest once: nests whose loops were joined, or of one head, compute some more than once.

An exponential in all lanes of an edge costs more than the row that they add up.
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.compiler.frozen import dataclass, replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import once, walk
from explorer.compiler.ir.statements import renamed
from explorer.compiler.schedule.edit.nests import Body


@once
def computed_once(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with scalars that are equal, of what nothing in it changes, under one name."""
    given = frozenset(buffer.name for buffer in kernel.buffers if buffer.kind != "output")
    nodes = [node for statement in kernel.body for node in walk(statement)]
    changing = frozenset(node.name for node in nodes if isinstance(node, loops.Accumulator))
    return replace(kernel, body=_Scalars(given, changing).once(kernel.body, {}, {}))


@dataclass(frozen=True)
class _Scalars:
    """`given` are the arrays that nobody writes, `changing` the accumulators."""

    given: frozenset[str]
    changing: frozenset[str]

    def once(self, body: Body, around: Mapping[loops.Statement, str], same: Mapping[str, str]) -> Body:
        """Statements of one scope; `around` are the names of scalars that are known there, `same` what others that
        are equal to one are called."""
        known, names = dict(around), dict(same)
        found: list[loops.Statement] = []
        for each in body:
            if isinstance(each, loops.For):
                (head,) = renamed((replace(each, body=()),), names)
                assert isinstance(head, loops.For)
                found.append(replace(head, body=self.once(each.body, known, names)))
                continue
            (statement,) = renamed((each,), names)
            key = self._key(statement)
            if isinstance(key, str):
                names[str(loops.result_of(statement))] = key
            elif key is not None and key in known:
                names[str(loops.result_of(statement))] = known[key]
            else:
                found.append(statement)
                known |= {} if key is None else {key: str(loops.result_of(statement))}
        return tuple(found)

    def _key(self, statement: loops.Statement) -> loops.Statement | str | None:
        """What a scalar is whatever it is called, another's name for a copy of it; None for what may change."""
        match statement:
            case loops.Compute(function="copy", operands=(str() as value,)) if value not in self.changing:
                return value
            case loops.Index() | loops.Compute() if not self.changing & set(loops.reads_of(statement)):
                return replace(statement, result="")
            case loops.Load() if statement.buffer in self.given:
                return replace(statement, result="")
        return None
