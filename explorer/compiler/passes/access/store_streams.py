"""The access unit writes what is only copied (Ember §7.4): nothing of it crosses the queues.

A callback that does nothing but store a stream to an output becomes a store stream. It is an option beside the
levels; the loops are vectorised afterwards as others are.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.access import slc
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.node import walk
from explorer.compiler.report import Report


@each_program
def store_streams(program: slc.SlcProgram, report: Report) -> slc.SlcProgram:
    """The program with the callbacks that only copy replaced, if the option asks for it."""
    if not report.options.store_streams:
        return program
    used = [name for node in walk(program) if (name := loops.array_of(node))]
    body = _items(program.body, {name for name in used if used.count(name) == 1}, program.name, report)
    return replace(program, body=body)


def _items(items: tuple[slc.Item, ...], once: set[str], kernel: str, report: Report) -> tuple[slc.Item, ...]:
    result: list[slc.Item] = []
    for item in items:
        if isinstance(item, slc.SlcFor):
            result.append(replace(item, body=_items(item.body, once, kernel, report)))
        elif isinstance(item, slc.Callback):
            stores, reason = _stores(item, once)
            if reason:
                report.refused(f"{kernel}: a callback stays, since {reason}")
                result.append(item)
            else:
                names = ", ".join(dict.fromkeys(store.buffer for store in stores))
                report.did(f"{kernel}: the access unit writes {names}")
                result += stores
        else:
            result.append(item)
    return tuple(result)


def _stores(callback: slc.Callback, once: set[str]) -> tuple[list[slc.StoreStream], str]:
    """The callback as store streams, or the reason against it."""
    streams = {s.result: s.stream for s in callback.body if isinstance(s, slc.ToVal)}
    stores: list[slc.StoreStream] = []
    for statement in callback.body:
        if isinstance(statement, slc.ToVal):
            continue
        if not isinstance(statement, loops.Store) or statement.function != "copy":
            return [], "it computes"
        value = statement.operands[0]
        indices = tuple(streams.get(str(index), index) for index in statement.indices)
        if value not in streams or not all(isinstance(i, int) or i.startswith("%") for i in map(_text, indices)):
            return [], f"{loops.element(statement.target, statement.indices)} gets what the execute unit computed"
        if statement.target not in once:
            return [], f"{statement.target} is used elsewhere too"
        stream = streams[str(value)]
        stores.append(slc.StoreStream(buffer=statement.target, indices=indices, stream=stream, origin=statement.origin))
    return stores, "" if stores else "it stores nothing"


def _text(index: object) -> int | str:
    return index if isinstance(index, int) else str(index)
