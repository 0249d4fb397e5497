"""Random SLC and DLC programs that their verifiers accept. They mean nothing; they reach every form of every node."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from explorer.compiler.ir import loops
from explorer.compiler.ir.access import dlc, slc
from explorer.compiler.ir.access.execute import Counter, Increment, Lanes, Reset
from explorer.compiler.ir.node import Node
from tests.compiler.ir.drawing import (
    DEPTH,
    HINTS,
    NOTES,
    ORIGIN,
    SMALL,
    Draw,
    Head,
    Scope,
    body,
    drawn_head,
    drawn_loop,
)


@dataclass
class Streams:
    """What the access unit may read at a place, its vectors apart, and what the execute unit may."""

    known: tuple[str, ...]
    execute: Scope
    vectors: tuple[str, ...] = ()
    width: int = 1
    mask: str = ""


@st.composite
def slc_programs(draw: Draw) -> slc.SlcProgram:
    """SLC programs."""
    head = drawn_head(draw)
    items = _items(Streams((), head.scope), head.scope.arrays, DEPTH)
    head.scope.arrays = {}
    return slc.SlcProgram(
        name=head.scope.pick(HINTS), sizes=head.sizes, buffers=head.buffers, body=items, origin=ORIGIN
    )


def _items(streams: Streams, read_only: dict[str, int], depth: int) -> tuple[slc.Item, ...]:
    scope = streams.execute
    items: list[slc.Item] = []
    for _ in range(scope.draw(st.integers(0, 4))):
        kinds = ["for", "alu", "acc", "buffer", "callback"]
        kind = scope.pick(kinds + (["mem", "mem"] if read_only else []) + (["store"] if streams.known else []))
        if kind == "callback":
            items.append(_callback(streams))
        elif kind == "for" and depth:
            items.append(_slc_for(streams, read_only, depth))
        elif kind == "store":
            items.append(_slc_store(streams))
        elif kind == "buffer":
            items += _buffer(streams)
        elif kind != "for":
            items.append(_slc_stream(streams, read_only, kind))
    return tuple(items)


def _slc_stream(streams: Streams, read_only: dict[str, int], kind: str) -> slc.Item:
    scope = streams.execute
    operands = (*streams.known, *scope.extents, 0, 3)
    result = "%" + scope.new()
    vector = scope.pick((1, streams.width))
    pair = (scope.pick(operands), scope.pick(operands))
    if kind == "mem":
        buffer = scope.pick(read_only)
        mask = streams.mask if vector > 1 else ""
        item: slc.Item = slc.MemStream(
            result=result,
            buffer=buffer,
            indices=tuple(scope.pick(operands) for _ in range(read_only[buffer])),
            vector=vector,
            mask=mask,
            level=scope.pick(("", "L2", "LLC", "HBM")),
            temporal=scope.draw(st.booleans()),
            origin=ORIGIN,
        )
    elif kind == "acc":
        item, vector = slc.AccStream(result=result, operand=pair[0], start=pair[1], origin=ORIGIN), 1
    else:
        function = scope.pick(loops.INFIX_INDEX)
        item = slc.AluStream(result=result, function=function, operands=pair, vector=vector, origin=ORIGIN)
    if vector == 1:
        streams.known += (result,)
    else:
        streams.vectors += (result,)
    return item


def _slc_store(streams: Streams) -> slc.Item:
    scope = streams.execute
    target, *_ = scope.written  # the output; what the execute unit has for itself comes after it
    indices = tuple(scope.pick((*streams.known, 0)) for _ in range(scope.written[target]))
    vector = scope.pick((1, streams.width)) if streams.vectors else 1
    stream = scope.pick(streams.vectors if vector > 1 else streams.known)
    mask = streams.mask if vector > 1 else ""
    return slc.StoreStream(buffer=target, indices=indices, stream=stream, vector=vector, mask=mask, origin=ORIGIN)


def _buffer(streams: Streams) -> list[slc.Item]:
    """A buffer, and what is pushed into it."""
    result, width = "%" + streams.execute.new(), streams.width if streams.vectors else 1
    pushed = streams.vectors if width > 1 else streams.known
    buffer = slc.BufStream(result=result, vector=1 if not pushed else width, origin=ORIGIN)
    return [buffer, *(slc.Push(buffer=result, stream=stream, origin=ORIGIN) for stream in pushed[:2])]


def _slc_for(streams: Streams, read_only: dict[str, int], depth: int) -> slc.SlcFor:
    scope = streams.execute
    lower, extent = scope.pick((0, *streams.known)), scope.pick((scope.extent(), *streams.known))
    stream, note, width = "%" + scope.new(), scope.pick(NOTES), scope.pick((1, 1, 4))
    mask = "%" + scope.new() if width > 1 else ""
    counter = scope.new() if scope.draw(st.booleans()) else ""
    if width > 1:
        inner = Streams(streams.known, scope, (stream,), width, mask)
    else:
        inner = Streams((*streams.known, stream), scope)
    scope.counters += (counter,) if counter else ()
    return slc.SlcFor(
        stream=stream,
        lower=lower,
        extent=extent,
        body=_items(inner, read_only, depth - 1),
        vector=width,
        mask=mask,
        counter=counter,
        note=note,
        origin=ORIGIN,
    )


def _callback(streams: Streams) -> slc.Callback:
    scope = streams.execute
    conversions: list[Node] = []
    for stream in (*streams.known, *streams.vectors):
        if scope.draw(st.booleans()):
            result = scope.new()
            scope.values += (result,)
            vector = streams.width if stream in streams.vectors else 1
            first = vector > 1 and scope.draw(st.booleans())
            conversions.append(
                slc.ToVal(
                    result=result,
                    stream=stream,
                    vector=1 if first else vector,
                    first=first,
                    splat=1 if vector > 1 else scope.pick((1, 4)),
                    origin=ORIGIN,
                )
            )
    scope.arrays = {}  # the execute unit loads from rows alone
    toggle = scope.pick(("", *streams.known))
    return slc.Callback(body=(*conversions, *_execute(scope)), toggle=toggle, origin=ORIGIN)


def _execute(scope: Scope) -> tuple[Node, ...]:
    """Statements of the execute unit: those of the loops, vector regions, and what happens to counters."""
    statements: list[Node] = [*body(scope, 2)]
    if scope.counters and scope.draw(st.booleans()):
        target, number = scope.pick(scope.counters), scope.draw(st.integers(0, 3))
        statements.append(Increment(target=target, by=number, origin=ORIGIN))
        statements.append(Reset(target=target, value=number, origin=ORIGIN))
    if scope.values and scope.draw(st.booleans()):
        inner = scope.inner()
        variable, extent = scope.pick(scope.values), scope.extent()
        region = Lanes(variable=variable, width=4, extent=extent, body=body(inner, 0), origin=ORIGIN)
        scope.values = inner.values
        statements.append(region)
    if scope.draw(st.booleans()):
        loop = replace(drawn_loop(scope, 1), step=scope.pick((1, 8)), parallel=False)
        statements.append(loop)
    return tuple(statements)


@dataclass
class Access:
    """What the access unit has at a place: its streams by type, vectors apart with their widths."""

    types: dict[str, str] = field(default_factory=dict)
    vectors: dict[str, int] = field(default_factory=dict)
    code: list[dlc.AccessStatement] = field(default_factory=list)


@st.composite
def dlc_programs(draw: Draw) -> dlc.DlcProgram:
    """DLC programs whose cases pop what their records hold."""
    head = drawn_head(draw)
    access = _access(head)
    head.scope.arrays = {}
    counters = tuple(
        Counter(name=head.scope.new(), start=draw(SMALL), origin=ORIGIN) for _ in range(draw(st.integers(0, 2)))
    )
    head.scope.counters = tuple(counter.name for counter in counters)
    program = dlc.DlcProgram(
        name=head.scope.pick(HINTS),
        sizes=head.sizes,
        buffers=head.buffers,
        access=tuple(access.code),
        counters=counters,
        execute=(),
        origin=ORIGIN,
    )
    callbacks = [statement for statement in access.code if isinstance(statement, dlc.Callback)]
    cases = [
        dlc.Case(
            token=callback.token,
            body=(*_pops(program, callback, access, head.scope), *_execute(head.scope)),
            origin=ORIGIN,
        )
        for callback in callbacks
    ]
    return replace(program, execute=tuple(cases))


def _pops(program: dlc.DlcProgram, callback: dlc.Callback, access: Access, scope: Scope) -> list[Node]:
    """What a case pops: what was pushed at its event, and before it where no token took that."""
    taken: list[Node] = []
    events = [event for event in dlc.EVENTS if event == callback.event]
    if callback.event == "end":
        events = [e for e in ("beg", "ite") if program.token(callback.traversal, e) is None] + ["end"]
    for event in events:
        pops = [_pop(push, access, scope) for push in program.pushes(callback.traversal, event)]
        if event == "ite" and callback.event == "end" and pops:
            (stride,) = (
                s.stride for s in program.access if isinstance(s, dlc.Traversal) and s.name == callback.traversal
            )
            loop = loops.For(variable=scope.new(), extent=2, step=stride, body=tuple(pops), origin=ORIGIN)
            pops = [loop]
        taken += pops
    return taken


def _pop(push: dlc.PushOp, access: Access, scope: Scope) -> dlc.Pop:
    name = scope.new()
    scope.values += (name,)
    vector = access.vectors.get(push.stream, 1)
    return dlc.Pop(result=name, type=access.types[push.stream], vector=vector, splat=push.splat, origin=ORIGIN)


def _access(head: Head) -> Access:
    """The access unit's code and its streams."""
    scope, access = head.scope, Access()
    traversals: list[str] = []
    read_only = {buffer.name: buffer.type for buffer in head.buffers if buffer.kind != "output"}
    for _ in range(scope.draw(st.integers(0, 3))):
        parent = scope.pick(traversals) if traversals else None
        name, operands = scope.new() + "_tr", (*_scalars(access), *scope.extents, 0, 2)
        lower, upper, stride = scope.pick(operands), scope.pick(operands), scope.pick((1, 8))
        access.code.append(
            dlc.Traversal(name=name, parent=parent, lower=lower, upper=upper, stride=stride, origin=ORIGIN)
        )
        traversals.append(name)
        access.types[f"{name}.ite"] = "i32"
        for _ in range(scope.draw(SMALL)):
            access.code.append(_stream(scope, name, read_only, access, stride))
        for event in dlc.EVENTS:
            access.code += _event(head, name, event, access)
    return access


def _scalars(access: Access) -> list[str]:
    return [name for name in access.types if name not in access.vectors]


def _stream(
    scope: Scope, traversal: str, read_only: dict[str, str], access: Access, stride: int
) -> dlc.AccessStatement:
    operands = (*_scalars(access), *scope.extents, 5)
    result = scope.new()
    if read_only and scope.draw(st.booleans()):
        buffer, index, vector = scope.pick(read_only), scope.pick(operands), scope.pick((1, stride))
        access.types[result] = read_only[buffer]
        access.vectors |= {result: vector} if vector > 1 else {}
        return dlc.MemStream(
            result=result,
            traversal=traversal,
            buffer=buffer,
            index=index,
            vector=vector,
            level=scope.pick(("", "L2", "LLC", "HBM")),
            temporal=scope.draw(st.booleans()),
            origin=ORIGIN,
        )
    function, pair = scope.pick((*loops.INFIX_INDEX, "acc")), (scope.pick(operands), scope.pick(operands))
    access.types[result] = "i32"
    if function == "acc":
        return dlc.AccStream(result=result, traversal=traversal, operand=pair[0], start=pair[1], origin=ORIGIN)
    return dlc.AluStream(result=result, traversal=traversal, function=function, operands=pair, origin=ORIGIN)


def _event(head: Head, traversal: str, event: dlc.Event, access: Access) -> list[dlc.AccessStatement]:
    """A callback, perhaps, with what it pushes, and perhaps a store."""
    scope, streams = head.scope, tuple(access.types)
    statements: list[dlc.AccessStatement] = []
    if scope.draw(st.booleans()):
        stream = scope.pick(streams)
        statements.append(
            dlc.StoreStream(
                buffer=head.buffers[-1].name,
                index=scope.pick((*_scalars(access), 0)),
                stream=stream,
                traversal=traversal,
                event=event,
                vector=access.vectors.get(stream, 1),
                origin=ORIGIN,
            )
        )
    if scope.draw(st.booleans()):
        return statements
    for stream in [scope.pick(streams) for _ in range(scope.draw(SMALL))]:
        splat = 1 if stream in access.vectors else scope.pick((1, 8))
        push = dlc.PushOp(stream=stream, traversal=traversal, event=event, splat=splat, origin=ORIGIN)
        statements.append(push)
    toggle = scope.pick(("", *_scalars(access)))
    token = f"{traversal}_{event}"
    return [
        *statements,
        dlc.Callback(traversal=traversal, event=event, token=token, toggle=toggle, origin=ORIGIN),
    ]
