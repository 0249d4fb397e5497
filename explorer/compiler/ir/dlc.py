"""DLC, the decoupled lookup-compute IR (Ember §4, Fig. 10): the access unit's dataflow code, the execute unit's
`while` loop, and the control and data queues between them.

What the access unit does, in order: a traversal fires its `beg` event, then for each iteration evaluates its streams,
fires `ite`, and runs the traversals declared under it, one after another; it ends with its `end` event. At an event
it pushes the operands named by `push_op` into the data queue, in the order written, and then the token of
`callback` into the control queue. After the last traversal it pushes `done`.

Traversals are declared in the order in which they run; `b_tr.loop_tr(...)` runs inside each iteration of `b_tr`.
Addresses are flat: element offsets, 64 bits wide. `b_tr.ite` is the traversal's position.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom, Line, Node, VerificationError

Event = Literal["beg", "ite", "end"]
EVENTS: tuple[Event, ...] = ("beg", "ite", "end")
DONE = "done"


@dataclass(frozen=True, kw_only=True)
class Traversal(Node):
    """`d_tr = b_tr.loop_tr(0, D, 1)`; the outermost has no parent: `b_tr = loop_tr(0, B, 1)`."""

    name: str
    parent: str | None
    lower: Atom
    upper: Atom
    stride: int = 1


@dataclass(frozen=True, kw_only=True)
class MemStream(Node):
    """`e = d_tr.mem_str(E, a)`: loads element `a` of a read-only buffer at each iteration of the traversal."""

    result: str
    traversal: str
    buffer: str
    index: Atom


@dataclass(frozen=True, kw_only=True)
class AluStream(Node):
    """`a = d_tr.alu_str('+', a1, d_tr.ite)`: 64-bit integer arithmetic at each iteration of the traversal."""

    result: str
    traversal: str
    function: str
    operands: tuple[Atom, Atom]


@dataclass(frozen=True, kw_only=True)
class PushOp(Node):
    """`push_op(e, d_tr, ite)`: at that event the stream's value goes into the data queue."""

    stream: str
    traversal: str
    event: Event


@dataclass(frozen=True, kw_only=True)
class Callback(Node):
    """`callback(d_tr, ite) = d_ite`: at that event the token goes into the control queue."""

    traversal: str
    event: Event
    token: str


AccessStatement = Traversal | MemStream | AluStream | PushOp | Callback


@dataclass(frozen=True, kw_only=True)
class Pop(Node):
    """`e = dataQ.pop<f32>()`; `type` is "i32" or "f32", 4 bytes either way."""

    result: str
    type: str


@dataclass(frozen=True, kw_only=True)
class Case(Node):
    """What the execute unit does for a token: the pops first, then statements of the loops."""

    token: str
    body: tuple[Node, ...]


@dataclass(frozen=True, kw_only=True)
class DlcProgram(Node):
    """Access and execute code. Values that a case defines stay until they are defined anew."""

    name: str
    sizes: tuple[tuple[str, int], ...]
    buffers: tuple[loops.Buffer, ...]
    access: tuple[AccessStatement, ...]
    execute: tuple[Case, ...]

    def traversals(self, parent: str | None) -> tuple[Traversal, ...]:
        """The traversals that run inside each iteration of the parent, in order."""
        return tuple(s for s in self.access if isinstance(s, Traversal) and s.parent == parent)

    def streams(self, traversal: str) -> tuple[MemStream | AluStream, ...]:
        """The streams of a traversal, in order of evaluation."""
        return tuple(s for s in self.access if isinstance(s, MemStream | AluStream) and s.traversal == traversal)

    def pushes(self, traversal: str, event: Event) -> tuple[PushOp, ...]:
        """What goes into the data queue at an event, in order."""
        return tuple(
            s for s in self.access if isinstance(s, PushOp) and (s.traversal, s.event) == (traversal, event)
        )

    def token(self, traversal: str, event: Event) -> str | None:
        """The token that goes into the control queue at an event, if any."""
        for statement in self.access:
            if isinstance(statement, Callback) and (statement.traversal, statement.event) == (traversal, event):
                return statement.token
        return None


def print_dlc(program: DlcProgram) -> tuple[Line, ...]:
    """The head, the access unit's code, then the execute unit's loop."""
    lines = [Line(f"dlc {program.name}")]
    if program.sizes:
        lines.append(Line("  size " + ", ".join(f"{name} = {size}" for name, size in program.sizes)))
    lines += [Line(f"  {buffer.kind} {loops.element(buffer.name, buffer.extents)}") for buffer in program.buffers]
    lines.append(Line("access", (), "access"))
    lines += [Line(f"  {_print_access(statement)}", statement.origin, "access") for statement in program.access]
    lines.append(Line("execute", (), "execute"))
    lines.append(Line(f"  while ((token = ctrlQ.pop()) != {DONE}) {{", (), "execute"))
    for number, case in enumerate(program.execute):
        head = "if" if number == 0 else "else if"
        lines.append(Line(f"    {head} (token == {case.token}) {{", case.origin, "execute"))
        for statement in case.body:
            lines += _print_execute(statement, 3)
        lines.append(Line("    }", (), "execute"))
    return (*lines, Line("  }", (), "execute"))


def _print_access(statement: AccessStatement) -> str:
    match statement:
        case Traversal():
            owner = f"{statement.parent}." if statement.parent else ""
            return f"{statement.name} = {owner}loop_tr({statement.lower}, {statement.upper}, {statement.stride})"
        case MemStream():
            return f"{statement.result} = {statement.traversal}.mem_str({statement.buffer}, {statement.index})"
        case AluStream():
            sign = loops.INFIX_INDEX[statement.function]
            left, right = statement.operands
            return f"{statement.result} = {statement.traversal}.alu_str('{sign}', {left}, {right})"
        case PushOp():
            return f"push_op({statement.stream}, {statement.traversal}, {statement.event})"
        case Callback():
            return f"callback({statement.traversal}, {statement.event}) = {statement.token}"


def _print_execute(statement: Node, depth: int) -> Iterator[Line]:
    pad = "  " * depth
    if isinstance(statement, Pop):
        yield Line(f"{pad}{statement.result} = dataQ.pop<{statement.type}>()", statement.origin, "execute")
        return
    yield Line(pad + loops.print_statement(statement), statement.origin, "execute")
    if isinstance(statement, loops.For):
        for inner in statement.body:
            yield from _print_execute(inner, depth + 1)


def verify_dlc(program: DlcProgram) -> None:
    """Raises VerificationError unless streams are defined before use, each token has one case and one callback,
    and what a callback pushes is what its case pops: as many values, of the same types."""
    types = _verify_access(program)
    tokens = {s.token: (s.traversal, s.event) for s in program.access if isinstance(s, Callback)}
    if sorted(tokens) != sorted(case.token for case in program.execute):
        raise VerificationError("the tokens of the access unit are not the cases of the execute unit")
    for case in program.execute:
        pushed = [types[push.stream] for push in program.pushes(*tokens[case.token])]
        popped = [statement.type for statement in case.body if isinstance(statement, Pop)]
        if pushed != popped:
            raise VerificationError(f"{case.token} pushes {pushed} and pops {popped}")
    pushing = {(s.traversal, s.event) for s in program.access if isinstance(s, PushOp)}
    if not pushing <= set(tokens.values()):
        raise VerificationError("operands are pushed at an event without a callback")


def _verify_access(program: DlcProgram) -> dict[str, str]:
    """The types of all streams, once their definitions and uses are found to be in order."""
    kinds = {buffer.name: buffer for buffer in program.buffers}
    fixed = loops.fixed_names(program.sizes, program.buffers)
    types: dict[str, str] = {}
    for statement in program.access:
        if not statement.origin:
            raise VerificationError(f"no origin: {_print_access(statement)}")
        match statement:
            case Traversal():
                used: tuple[Atom | None, ...] = (statement.lower, statement.upper)
                defined, kind = f"{statement.name}.ite", "i32"
            case MemStream():
                if kinds[statement.buffer].kind == "output":
                    raise VerificationError(f"the access unit reads the output {statement.buffer}")
                used, defined, kind = (statement.index,), statement.result, kinds[statement.buffer].type
            case AluStream():
                used, defined, kind = statement.operands, statement.result, "i32"
            case _:
                used, defined, kind = (getattr(statement, "stream", None),), "", ""
        for atom in used:
            if isinstance(atom, str) and atom not in types and atom not in fixed:
                raise VerificationError(f"{atom} is used before its definition: {_print_access(statement)}")
        if defined in types:
            raise VerificationError(f"{defined} is defined twice")
        if defined:
            types[defined] = kind
    return types
