"""Sums that are only copied to the output are taken in the output itself, as in Ember's SLS (Fig. 13a).

Fusion collects a sum in a row of its own and copies it: `y[e] = 0; for p { y[e] += v }; out[b, e] = y[e]`. Since an
output starts as zeros, and each of its rows is written in one iteration only, `out[b, e] += v` does the same, in the
same order; the execute unit is spared two loops and a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.node import Atom, Extent, walk
from explorer.compiler.ir.statements import redirected
from explorer.compiler.report import Report

Body = tuple[loops.Statement, ...]


@each_program
def in_place(kernel: loops.Kernel, report: Report) -> loops.Kernel:
    """The kernel without the rows that only collect a sum for an output, and without clearing what is zero."""
    step = _InPlace(kernel, report)
    body = step.body(kernel.body, ())
    return replace(kernel, body=body) if step.changed else kernel


class _InPlace:
    def __init__(self, kernel: loops.Kernel, report: Report) -> None:
        self.report = report
        self.kernel, self.name = kernel, kernel.name
        self.extents = {buffer.name: buffer.extents for buffer in kernel.buffers if buffer.kind == "output"}
        self.uses: dict[str, list[loops.Statement]] = {}  # by row, accumulator or array, in order
        for node in walk(kernel):
            if isinstance(node, (loops.Load, loops.Store, loops.Accumulate)):
                self.uses.setdefault(loops.array_of(node), []).append(node)
        self.changed = False

    def body(self, body: Body, around: tuple[str, ...]) -> Body:
        """The statements inside the loops over `around`, without what is superfluous."""
        for row in [statement for statement in body if isinstance(statement, loops.Row)]:
            body = self._without_row(body, row, around)
        kept = [statement for statement in body if not self._clears(statement, body, around)]
        return tuple(
            replace(s, body=self.body(s.body, (*around, s.variable))) if isinstance(s, loops.For) else s for s in kept
        )

    def _without_row(self, body: Body, row: loops.Row, around: tuple[str, ...]) -> Body:
        """The body with the row's sum taken in an output, if that is what the row is for."""
        uses = self.uses.get(row.name, [])
        sums = [n for n in uses if isinstance(n, loops.Accumulate)]
        if not sums:
            return body
        clearing = [s for s in body if (store := _store_of(s, row.name)) and store.operands == (0.0,)]
        copies = [s for s in body if (store := _copy(s, row.name)) and store.target in self.extents]
        if len(clearing) != 1:
            return body
        if any(node.reduction != "sum" for node in sums):
            self._refuse(row, f"an output starts as zeros, which is no start for a {sums[0].reduction}")
            return body
        reads = [n for n in uses if isinstance(n, loops.Load)]
        if len(copies) != 1 or len(reads) != 1:
            self._refuse(row, "its sums are computed on, not just copied to an output")
            return body
        store = _copy(copies[0], row.name)
        assert store is not None
        place = store.indices[: len(store.indices) - len(row.extents)]
        if not self._once(place, around):
            self._refuse(row, f"{loops.element(store.target, store.indices)} may be written in several iterations")
            return body
        if not self._as_large(self.extents[store.target][len(place) :], row.extents):
            self._refuse(row, f"only a part of it is copied to {store.target}")
            return body
        if len(self.uses[store.target]) != 1:
            self._refuse(row, f"{store.target} is used elsewhere too")
            return body
        self._did(f"{row.name} is summed in {store.target} itself")
        gone = (row, clearing[0], copies[0])
        kept = (s for s in body if not any(s is each for each in gone))
        return tuple(redirected(s, {row.name: store.target}, lambda indices: (*place, *indices)) for s in kept)

    def _as_large(self, extents: Sequence[Extent], others: Sequence[Extent]) -> bool:
        """Whether rows of these extents have as many elements, dimension by dimension."""
        return list(map(self.kernel.size, extents)) == list(map(self.kernel.size, others))

    def _clears(self, statement: loops.Statement, body: Body, around: tuple[str, ...]) -> bool:
        """Whether a statement sets rows of an output to 0 to which later ones only add."""
        store = _innermost(statement)
        if not isinstance(store, loops.Store) or store.target not in self.extents or store.operands != (0.0,):
            return False
        others = [n for n in self.uses[store.target] if n is not store]
        depth = len(store.indices) - len(_variables(statement))
        adds = all(isinstance(n, loops.Accumulate) and n.reduction == "sum" for n in others)
        same = all(getattr(n, "indices", ())[:depth] == store.indices[:depth] for n in others)
        if not (others and adds and same and self._once(store.indices[:depth], around)):
            return False
        self._did(f"{store.target} starts as zeros, and is not cleared")
        return True

    def _once(self, place: tuple[Atom, ...], around: tuple[str, ...]) -> bool:
        """Whether no two iterations of the loops around reach the same place."""
        return set(place) == set(around) and len(place) == len(around)

    def _did(self, sentence: str) -> None:
        self.changed = True
        self.report.did(f"{self.name}: {sentence}")

    def _refuse(self, row: loops.Row, reason: str) -> None:
        self.report.refused(f"{self.name}: {row.name} stays a row: {reason}")


def _variables(statement: loops.Statement) -> tuple[str, ...]:
    """The variables of perfectly nested loops."""
    if not isinstance(statement, loops.For):
        return ()
    return (statement.variable, *(_variables(statement.body[0]) if len(statement.body) == 1 else ()))


def _innermost(statement: loops.Statement) -> loops.Statement:
    """What perfectly nested loops do, if it is a single statement."""
    while isinstance(statement, loops.For) and len(statement.body) == 1:
        statement = statement.body[0]
    return statement


def _store_of(statement: loops.Statement, row: str) -> loops.Store | None:
    """`for g { y[g] = ... }`: the store, where a loop does nothing else and goes over the row."""
    store = _innermost(statement)
    over = isinstance(store, loops.Store) and store.target == row and store.indices == _variables(statement)
    return store if over and isinstance(store, loops.Store) else None


def _copy(statement: loops.Statement, row: str) -> loops.Store | None:
    """`for g { s = y[g]; out[n, g] = s }`: the store of the copy, where a loop does nothing else."""
    variables: list[str] = []
    while isinstance(statement, loops.For):
        variables.append(statement.variable)
        if len(statement.body) == 2:
            load, store = statement.body
            if not isinstance(load, loops.Load) or not isinstance(store, loops.Store):
                return None
            copies = (load.buffer, load.indices, store.function, store.operands) == (
                row,
                tuple(variables),
                "copy",
                (load.result,),
            )
            return store if copies and store.indices[-len(variables) :] == tuple(variables) else None
        if len(statement.body) != 1:
            return None
        statement = statement.body[0]
    return None
