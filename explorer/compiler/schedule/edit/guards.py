"""Every access inside its array: shown, or looked at while the kernel runs.

    s = y[position, x]                  s = y[position, x] checked position

    out[position, x] = s                where position < nodes
                                          out[position, x] = s

    copy tile[q] = x[position, q]       s = x[position, q] checked position
                                        tile[q] = s

A place that is searched is one of those that there are. Of an index that a checked load gives nothing is known, so that
what it is used for is looked at too. Arrays may be empty: nothing of them is touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from explorer.compiler.ir import loops
from explorer.compiler.ir.bounds.extents import Unproved
from explorer.compiler.ir.bounds.lookups import given_facts
from explorer.compiler.ir.kernels import AtomicAccumulate, CheckedLoad, Copy, ScheduledKernel, Search, Statement
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
        found.append(_guarded(kernel, missing, extents, report) if missing else kernel)
    return tuple(found)


def _guarded(
    kernel: ScheduledKernel, missing: tuple[Unproved, ...], extents: Extents, report: Report
) -> ScheduledKernel:
    """The kernel with guards, which its schedule names."""
    first, guarded, before = missing[0], kernel, list[Unproved]()
    while missing:
        if again := next((each for each in missing if each.unwritten or any(map(each.is_same, before))), None):
            raise _refused(kernel, str(again))
        before += missing
        body = edit(guarded.body, partial(_inside, missing=missing, names=names_of(guarded)))
        guarded = replace(guarded, body=body)
        missing = extents.unproved(guarded)
    arrays = dict.fromkeys(each.array for each in before)
    report.did(f"{kernel.name} looks while it runs whether it is inside {', '.join(arrays)}: nothing shows {first}")
    said = tuple(f"guard {array}: nothing shows every access to be inside it" for array in arrays)
    guarded = replace(guarded, schedule=(*guarded.schedule, *said))
    try:
        verify_scheduled(guarded)
    except VerificationError as error:
        raise _refused(kernel, f"{first} ({error})") from error
    return guarded


def _refused(kernel: ScheduledKernel, why: str) -> Unsupported:
    return Unsupported(f"{kernel.name} cannot be shown to stay inside its arrays: {why}.")


def _inside(statement: Statement, missing: tuple[Unproved, ...], names: Names) -> Body:
    """A statement, with guards for its own indices that are not shown to be inside."""
    own = [each for each in missing if each.statement is statement]
    if not own:
        return (statement,)
    match statement:
        case loops.Load():
            return (_checked(statement, own),)
        case Search():
            return _narrowed(statement, own, names)
        case Copy():
            return _copied(statement, own, names)
        case AtomicAccumulate(result=str(result)) if result:
            return (statement,)
        case loops.Store() | loops.Accumulate():
            return _where(statement, own, names)
    return (statement,)


def _where(statement: Statement, own: list[Unproved], names: Names) -> Body:
    """A store only where it is inside."""
    steps = Steps(names, statement.origin)
    with ExitStack() as conditions:
        for each in own:
            if each.below:
                conditions.enter_context(steps.where(0, "<=", _index(each.index)))
            elif each.width == 1:
                conditions.enter_context(steps.where(_index(each.index), "<", each.extent))
            else:
                last = steps.index("last", "sub", each.extent, each.width)
                conditions.enter_context(steps.where(_index(each.index), "<=", last))
        steps.add(statement)
    return steps.body


def _checked(load: loops.Load, own: list[Unproved]) -> CheckedLoad:
    """A load of what there is."""
    before = load.checked if isinstance(load, CheckedLoad) else ()
    checked = tuple(dict.fromkeys((*before, *(each.index for each in own))))
    return CheckedLoad(
        result=load.result, buffer=load.buffer, indices=load.indices, checked=checked, origin=load.origin
    )


def _copied(copy: Copy, own: list[Unproved], names: Names) -> Body:
    """A copy as the load and the store that it is as a sequential program, each inside."""
    read, written = ([each for each in own if each.array == array] for array in (copy.buffer, copy.target))
    name, origin = names.new(f"{copy.buffer}_copied"), copy.origin
    load = loops.Load(result=name, buffer=copy.buffer, indices=copy.buffer_indices, origin=origin)
    store = loops.Store(target=copy.target, indices=copy.indices, function="copy", operands=(name,), origin=origin)
    return (_checked(load, read) if read else load, *_where(store, written, names))


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
