"""Every access inside its array: shown, or looked at while the kernel runs.

    s = y[position, x]                  index last = nodes - 1
                                        index within = min(position, last)
                                        index inside = max(within, 0)
                                        s = y[inside, x]

    out[position, x] = s                where position < nodes
                                          out[position, x] = s

A place that is searched is one of those that there are, as a load is of an element that there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from explorer.compiler.ir import loops
from explorer.compiler.ir.bounds.extents import Unproved
from explorer.compiler.ir.bounds.lookups import given_facts
from explorer.compiler.ir.kernels import AtomicAccumulate, Copy, ScheduledKernel, Search, Statement, Where
from explorer.compiler.ir.node import Atom, Names, VerificationError
from explorer.compiler.ir.verify.accesses import Extents
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.edit.queries import Body, edit, names_of
from explorer.compiler.unsupported import Unsupported


def within_extents(
    nests: Iterable[loops.Kernel], kernels: Iterable[ScheduledKernel], report: Report
) -> tuple[ScheduledKernel, ...]:
    """A program's kernels in order, with a guard for each access that is not shown to be inside its array; raises
    Unsupported where that is of no avail."""
    extents, found = Extents(given_facts(nests)), []
    for kernel in kernels:
        missing = extents.unproved(kernel)
        if missing:
            kernel = _guarded(kernel, missing, report)
            if left := extents.unproved(kernel):
                raise _refused(kernel, str(left[0]))
        found.append(kernel)
    return tuple(found)


def _refused(kernel: ScheduledKernel, why: str) -> Unsupported:
    return Unsupported(f"{kernel.name} cannot be shown to stay inside its arrays: {why}.")


def _guarded(kernel: ScheduledKernel, missing: tuple[Unproved, ...], report: Report) -> ScheduledKernel:
    """The kernel with guards, which its schedule names."""
    arrays = list(dict.fromkeys(each.array for each in missing))
    report.did(
        f"{kernel.name} looks while it runs whether it is inside {', '.join(arrays)}: nothing shows {missing[0]}"
    )
    said = tuple(f"guard {array}: nothing shows every access to be inside it" for array in arrays)
    body = edit(kernel.body, partial(_inside, missing=missing, names=names_of(kernel)))
    guarded = replace(kernel, schedule=(*kernel.schedule, *said), body=body)
    try:
        verify_scheduled(guarded)
    except VerificationError as error:
        raise _refused(kernel, f"{missing[0]} ({error})") from error
    return guarded


def _inside(statement: Statement, missing: tuple[Unproved, ...], names: Names) -> Body:
    """A statement, with guards for its own indices that are not shown to be inside."""
    own = [each for each in missing if each.statement is statement]
    if not own:
        return (statement,)
    match statement:
        case loops.Load():
            return _clamped(statement, own, names)
        case Search():
            return _narrowed(statement, own, names)
        case AtomicAccumulate(result=str(result)) if result:
            return (statement,)
        case loops.Store() | loops.Accumulate() if not isinstance(statement, Copy):
            return (_where(statement, own),)
    return (statement,)


def _where(statement: Statement, own: list[Unproved]) -> Statement:
    """A store only where it is inside."""
    for each in own:
        left, comparison, right = (0, "<=", each.index) if each.below else (each.index, "<", each.extent)
        statement = Where(left=left, comparison=comparison, right=right, body=(statement,), origin=statement.origin)
    return statement


def _clamped(load: loops.Load, own: list[Unproved], names: Names) -> Body:
    """A load of the nearest element that there is."""
    steps, indices = Steps(names, load.origin), load.indices
    for index, extent in {each.index: each.extent for each in own}.items():
        within = steps.index("within", "min", _index(index), steps.index("last", "sub", extent, 1))
        inside = steps.index("inside", "max", within, 0)
        indices = tuple(inside if each == index else each for each in indices)
    steps.add(replace(load, indices=indices))
    return steps.body


def _narrowed(search: Search, own: list[Unproved], names: Names) -> Body:
    """A search of the places that there are."""
    steps, extent = Steps(names, search.origin), own[0].extent
    lower = steps.index("from", "max", _index(search.lower), 0)
    upper = steps.index("upto", "min", _index(search.upper), extent)
    steps.add(replace(search, lower=lower, upper=upper))
    return steps.body


def _index(atom: Atom) -> str | int:
    assert not isinstance(atom, float), "an index is a whole number"
    return atom
