"""DLC, the decoupled lookup-compute IR (Ember §4, Fig. 10): the access unit's dataflow code, the execute unit's
`while` loop, and the control and data queues between them.

What the access unit does, in order: a traversal fires its `beg` event, then for each iteration evaluates its streams,
fires `ite`, and runs the traversals declared under it, one after another; it ends with its `end` event. At an event
it writes what `store_str` says, pushes the operands named by `push_op` into the data queue, in the order written, and
then the token of `callback` into the control queue. After the last traversal it pushes `done`. A record is all that
was pushed since the last token: a callback takes what earlier events without one have pushed as well.

Traversals are declared in the order in which they run; `b_tr.loop_tr(...)` runs inside each iteration of `b_tr`.
Addresses are flat: element offsets, 64 bits wide. `b_tr.ite` is the traversal's position, and in a vector traversal
(stride 16) that of its first lane; a stream of 16 elements is loaded, pushed and popped whole, the elements of lanes
at or above the traversal's upper bound being 0 and not loaded.
"""

from __future__ import annotations

from typing import Literal, cast

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.access.execute import Counter, body_of, print_execute, print_head
from explorer.compiler.ir.node import Atom, Level, Line, Node, VerificationError, once

Event = Literal["beg", "ite", "end"]
EVENTS: tuple[Event, ...] = ("beg", "ite", "end")
DONE = "done"
QUEUE_BYTES = 8192
"""What the data queue holds that programs are compiled for (Ember Fig. 5)."""


@dataclass(frozen=True, kw_only=True)
class Traversal(Node):
    """`d_tr = b_tr.loop_tr(0, D, 1)`; the outermost has no parent: `b_tr = loop_tr(0, B, 1)`.

    A stride above 1 is that of a vector traversal: an iteration is for the lanes from `ite` on, below the bound."""

    name: str
    parent: str | None
    lower: Atom
    upper: Atom
    stride: int = 1


@dataclass(frozen=True, kw_only=True)
class MemStream(Node):
    """`e = d_tr.mem_str(E, a)`: loads element `a` of a read-only buffer at each iteration of the traversal.

    `mem_str<16>` loads the elements a, a+1, ..., a+15 of the lanes below the traversal's bound. `level` is the cache
    that the request goes to first ("": the last-level cache); one that is not temporal leaves nothing there."""

    result: str
    traversal: str
    buffer: str
    index: Atom
    vector: int = 1
    level: Level = ""
    temporal: bool = True


@dataclass(frozen=True, kw_only=True)
class AluStream(Node):
    """`a = d_tr.alu_str('+', a1, d_tr.ite)`: 64-bit integer arithmetic at each iteration of the traversal."""

    result: str
    traversal: str
    function: str
    operands: tuple[Atom, Atom]


@dataclass(frozen=True, kw_only=True)
class AccStream(Node):
    """`beg = b_tr.acc_str(len, 0)`: `start`, and what the operand was in all earlier iterations added to it."""

    result: str
    traversal: str
    operand: Atom
    start: Atom = 0


@dataclass(frozen=True, kw_only=True)
class PushOp(Node):
    """`push_op(e, d_tr, ite)`: at that event the stream's value, or vector, goes into the data queue.

    `push_op(splat<16>(e), d_tr, ite)` pushes a scalar 16 times, so that the vectors behind it stay aligned."""

    stream: str
    traversal: str
    event: Event
    splat: int = 1


@dataclass(frozen=True, kw_only=True)
class StoreStream(Node):
    """`store_str<16>(out, a, e, d_tr, ite)`: at that event the access unit itself writes the stream's value, or the
    lanes of its vector below the traversal's bound, to an output from element `a` on."""

    buffer: str
    index: Atom
    stream: str
    traversal: str
    event: Event
    vector: int = 1


@dataclass(frozen=True, kw_only=True)
class Callback(Node):
    """`callback(d_tr, ite) = d_ite`: at that event the token goes into the control queue.

    With a toggle, `callback(z_tr, ite, toggle(row)) = z_row`, the event pushes operands and token only the first time
    and when the stream's value is not what it was the last time."""

    traversal: str
    event: Event
    token: str
    toggle: str = ""


Stream = MemStream | AluStream | AccStream
AccessStatement = Traversal | Stream | PushOp | StoreStream | Callback


@dataclass(frozen=True, kw_only=True)
class Pop(Node):
    """`e = dataQ.pop<f32>()`; `type` is "i32" or "f32", 4 bytes either way.

    `dataQ.pop<16 x f32>()` is a vector; `dataQ.pop<16 x f32>()[0]` is a scalar that was pushed 16 times."""

    result: str
    type: str
    vector: int = 1
    splat: int = 1

    @property
    def words(self) -> int:
        """How many words of 4 bytes leave the queue."""
        return self.vector * self.splat


@dataclass(frozen=True, kw_only=True)
class Case(Node):
    """What the execute unit does for a token: pops, and statements of `explorer.compiler.ir.access.execute`. A buffered
    record is popped a vector at a time, by a loop."""

    token: str
    body: tuple[Node, ...]


@dataclass(frozen=True, kw_only=True)
class DlcProgram(Node):
    """Access and execute code. Values that a case defines stay until they are defined anew."""

    name: str
    sizes: tuple[tuple[str, int], ...]
    buffers: tuple[loops.Buffer, ...]
    access: tuple[AccessStatement, ...]
    counters: tuple[Counter, ...] = ()
    execute: tuple[Case, ...]

    def traversals(self, parent: str | None) -> tuple[Traversal, ...]:
        """The traversals that run inside each iteration of the parent, in order."""
        return tuple(s for s in self.access if isinstance(s, Traversal) and s.parent == parent)

    def streams(self, traversal: str) -> tuple[Stream, ...]:
        """The streams of a traversal, in order of evaluation."""
        return tuple(s for s in self.access if isinstance(s, Stream) and s.traversal == traversal)

    def pushes(self, traversal: str, event: Event) -> tuple[PushOp, ...]:
        """What goes into the data queue at an event, in order."""
        return tuple(s for s in _at_events(self).get((traversal, event), ()) if isinstance(s, PushOp))

    def stores(self, traversal: str, event: Event) -> tuple[StoreStream, ...]:
        """What the access unit writes at an event."""
        return tuple(s for s in _at_events(self).get((traversal, event), ()) if isinstance(s, StoreStream))

    def callback(self, traversal: str, event: Event) -> Callback | None:
        """The callback at an event, if there is one."""
        callbacks = (s for s in _at_events(self).get((traversal, event), ()) if isinstance(s, Callback))
        return next(callbacks, None)

    def token(self, traversal: str, event: Event) -> str | None:
        """The token that goes into the control queue at an event, if any."""
        callback = self.callback(traversal, event)
        return callback.token if callback else None


@once
def _at_events(program: DlcProgram) -> dict[tuple[str, Event], list[AccessStatement]]:
    """What the access unit does at each event, in order: who runs a program asks in every iteration."""
    found: dict[tuple[str, Event], list[AccessStatement]] = {}
    for statement in program.access:
        if isinstance(statement, (PushOp, StoreStream, Callback)):
            found.setdefault((statement.traversal, statement.event), []).append(statement)
    return found


def print_dlc(program: DlcProgram) -> tuple[Line, ...]:
    """The head, the access unit's code, then the execute unit's loop."""
    lines = [Line(f"dlc {program.name}")]
    if program.sizes:
        lines.append(Line("  size " + ", ".join(f"{name} = {size}" for name, size in program.sizes)))
    lines += [Line(f"  {buffer.kind} {buffer.declared}") for buffer in program.buffers]
    lines.append(Line("access", (), "access"))
    lines += [Line(f"  {print_access(statement)}", statement.origin, "access") for statement in program.access]
    lines.append(Line("execute", (), "execute"))
    lines += [Line(f"  {print_head(counter)}", counter.origin, "execute") for counter in program.counters]
    lines.append(Line(f"  while ((token = ctrlQ.pop()) != {DONE}) {{", (), "execute"))
    for number, case in enumerate(program.execute):
        head = "if" if number == 0 else "else if"
        lines.append(Line(f"    {head} (token == {case.token}) {{", case.origin, "execute"))
        for statement in case.body:
            lines += print_execute(statement, 3, _print_head)
        lines.append(Line("    }", (), "execute"))
    return (*lines, Line("  }", (), "execute"))


def print_access(statement: AccessStatement) -> str:
    """The one line of a statement of the access unit."""
    match statement:
        case Traversal():
            owner = f"{statement.parent}." if statement.parent else ""
            return f"{statement.name} = {owner}loop_tr({statement.lower}, {statement.upper}, {statement.stride})"
        case MemStream():
            hints = (f", {statement.level}" if statement.level else "") + (
                "" if statement.temporal else ", non_temporal"
            )
            load = f"{statement.traversal}.mem_str{_width(statement.vector)}"
            return f"{statement.result} = {load}({statement.buffer}, {statement.index}{hints})"
        case AluStream():
            sign = loops.INFIX_INDEX[statement.function]
            left, right = statement.operands
            return f"{statement.result} = {statement.traversal}.alu_str('{sign}', {left}, {right})"
        case AccStream():
            return f"{statement.result} = {statement.traversal}.acc_str({statement.operand}, {statement.start})"
        case PushOp():
            operand = statement.stream if statement.splat == 1 else f"splat<{statement.splat}>({statement.stream})"
            return f"push_op({operand}, {statement.traversal}, {statement.event})"
        case StoreStream():
            operands = f"{statement.buffer}, {statement.index}, {statement.stream}"
            place = f"{statement.traversal}, {statement.event}"
            return f"store_str{_width(statement.vector)}({operands}, {place})"
        case Callback():
            toggle = f", toggle({statement.toggle})" if statement.toggle else ""
            return f"callback({statement.traversal}, {statement.event}{toggle}) = {statement.token}"


def _width(vector: int) -> str:
    return "" if vector == 1 else f"<{vector}>"


def _print_head(statement: Node) -> str:
    if not isinstance(statement, Pop):
        return print_head(statement)
    element = statement.type if statement.words == 1 else f"{statement.words} x {statement.type}"
    first = "[0]" if statement.splat > 1 else ""
    return f"{statement.result} = dataQ.pop<{element}>(){first}"


def verify_dlc(program: DlcProgram) -> None:
    """Raises VerificationError unless streams are defined before use, each token has one case and one callback,
    and what a record pushes is what its case pops: as many values, of the same types and widths."""
    types = _verify_access(program)
    tokens = {s.token: (s.traversal, s.event) for s in program.access if isinstance(s, Callback)}
    if sorted(tokens) != sorted(case.token for case in program.execute):
        raise VerificationError("the tokens of the access unit are not the cases of the execute unit")
    for case in program.execute:
        pushed, popped = _record(program, *tokens[case.token], types), _pops(case.body)
        if pushed != popped:
            raise VerificationError(f"{case.token} pushes {_print_words(pushed)} and pops {_print_words(popped)}")
    for push in (s for s in program.access if isinstance(s, PushOp)):
        if push.event != "end" and not {program.token(push.traversal, e) for e in (push.event, "end")} - {None}:
            raise VerificationError(f"no token follows {print_access(push)}")
        if push.event == "end" and program.token(push.traversal, "end") is None:
            raise VerificationError(f"no token follows {print_access(push)}")


@once
def _traversals(program: DlcProgram) -> dict[str, Traversal]:
    """The traversals by name."""
    return {each.name: each for each in program.access if isinstance(each, Traversal)}


Words = tuple[object, ...]
"""A record's contents: a pair of type and words for each operand, and a loop's contents as one tuple of them."""


def _record(program: DlcProgram, traversal: str, event: Event, types: dict[str, tuple[str, int]]) -> Words:
    """What a token's record holds: at the end of a traversal also what was pushed before, if no token took it."""
    at = {
        each: tuple((types[p.stream][0], types[p.stream][1] * p.splat) for p in program.pushes(traversal, each))
        for each in EVENTS
    }
    if event != "end":
        return at[event]
    before = at["beg"] if program.token(traversal, "beg") is None else ()
    buffered = at["ite"] if program.token(traversal, "ite") is None else ()
    inside = ((_traversals(program)[traversal].stride, *buffered),) if buffered else ()
    return (*before, *inside, *at["end"])


def _pops(body: tuple[Node, ...]) -> Words:
    popped: list[object] = []
    for statement in body:
        if isinstance(statement, Pop):
            popped.append((statement.type, statement.words))
        elif inner := _pops(body_of(statement)):
            popped.append((statement.step if isinstance(statement, loops.For) else 0, *inner))
    return tuple(popped)


def _print_words(words: Words) -> str:
    """`f32, 16 x f32`; of a loop over a row what each of its steps takes, `(16 x f32) each 16`."""
    said = []
    for word in words:
        first, *rest = cast(tuple[object, ...], word)
        if isinstance(first, int):
            said.append(f"({_print_words(tuple(rest))}) each {first}")
        else:
            said.append(str(first) if rest == [1] else f"{rest[0]} x {first}")
    return ", ".join(said) or "nothing"


def _verify_access(program: DlcProgram) -> dict[str, tuple[str, int]]:
    """The types and widths of all streams, once their definitions and uses are found to be in order."""
    kinds = {buffer.name: buffer for buffer in program.buffers}
    fixed = loops.fixed_names(program.sizes, program.buffers)
    strides: dict[str, int] = {}
    types: dict[str, tuple[str, int]] = {}
    for statement in program.access:
        if not statement.origin:
            raise VerificationError(f"no origin: {print_access(statement)}")
        defined, kind, width, used = "", "", 1, ()  # type: tuple[str, str, int, tuple[Atom, ...]]
        match statement:
            case Traversal():
                strides[statement.name] = statement.stride
                defined, kind, used = f"{statement.name}.ite", "i32", (statement.lower, statement.upper)
            case MemStream():
                if kinds[statement.buffer].kind == "output":
                    raise VerificationError(f"the access unit reads the output {statement.buffer}")
                defined, kind, used = statement.result, kinds[statement.buffer].type, (statement.index,)
                width = statement.vector
            case AluStream():
                defined, kind, used = statement.result, "i32", statement.operands
            case AccStream():
                defined, kind, used = statement.result, "i32", (statement.operand, statement.start)
            case PushOp():
                used = (statement.stream,)
            case StoreStream():
                if kinds[statement.buffer].kind != "output":
                    raise VerificationError(f"the access unit writes {statement.buffer}, which is no output")
                used = (statement.index, statement.stream)
            case Callback() if statement.toggle:
                used = (statement.toggle,)
        _verify_streams(statement, used, types, fixed)
        if defined in types:
            raise VerificationError(f"{defined} is defined twice")
        if width not in (1, strides.get(getattr(statement, "traversal", ""), 1)):
            raise VerificationError(f"a vector of {width} in steps of another width: {print_access(statement)}")
        if defined:
            types[defined] = (kind, width)
    return types


def _verify_streams(
    statement: AccessStatement, used: tuple[Atom, ...], types: dict[str, tuple[str, int]], fixed: set[str]
) -> None:
    for atom in used:
        if isinstance(atom, str) and atom not in types and atom not in fixed:
            raise VerificationError(f"{atom} is used before its definition: {print_access(statement)}")
        if isinstance(statement, (AluStream, AccStream, MemStream)) and types.get(str(atom), ("", 1))[1] != 1:
            raise VerificationError(f"arithmetic on the vector {atom}: {print_access(statement)}")
    if isinstance(statement, PushOp) and statement.splat > 1 and types[statement.stream][1] > 1:
        raise VerificationError(f"a vector is no scalar to be repeated: {print_access(statement)}")
