"""SLC, the structured lookup-compute IR (Ember §6.1, Fig. 12): loops and streams for the access unit, callbacks for
the execute unit, in one structured program.

Streams carry names that start with `%`. A callback holds statements of the loops; it reads a stream only through
`to_val`, which is what crosses the queue. What a callback computes stays with the execute unit and later callbacks
may read it. As in the listing for TransR, a loop may hold several loops one after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom, Extent, Line, Node, Origin, VerificationError, walk


@dataclass(frozen=True, kw_only=True)
class SlcFor(Node):
    """`slc.for (%b from 0 to B) { ... }`, run by the access unit."""

    stream: str
    extent: Extent
    body: tuple[Item, ...]
    lower: Extent = 0
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class MemStream(Node):
    """`%e = slc.mem_str(E[%ih, %d])`: loads from memory that nobody writes."""

    result: str
    buffer: str
    indices: tuple[Atom, ...]


@dataclass(frozen=True, kw_only=True)
class AluStream(Node):
    """`%i = slc.alu_str(+, %d, 32)`: integer arithmetic on streams."""

    result: str
    function: str
    operands: tuple[Atom, ...]


@dataclass(frozen=True, kw_only=True)
class ToVal(Node):
    """`e = slc.to_val(%e)`: the stream's current value, as a value of the execute unit."""

    result: str
    stream: str


@dataclass(frozen=True, kw_only=True)
class Callback(Node):
    """`slc.callback { ... }`: what the execute unit does at this place of the traversal."""

    body: tuple[Node, ...]  # ToVal first, then statements of the loops


Item = SlcFor | MemStream | AluStream | Callback


@dataclass(frozen=True, kw_only=True)
class SlcProgram(Node):
    """A decoupled kernel; sizes and buffers are those of the loops."""

    name: str
    sizes: tuple[tuple[str, int], ...]
    buffers: tuple[loops.Buffer, ...]
    body: tuple[Item, ...]

    def buffer(self, name: str) -> loops.Buffer:
        """The buffer of that name."""
        return next(buffer for buffer in self.buffers if buffer.name == name)


def print_slc(program: SlcProgram) -> tuple[Line, ...]:
    """The head with sizes and buffers, then the access unit's loops and streams with the callbacks among them."""
    lines = [Line(f"slc {program.name}")]
    if program.sizes:
        lines.append(Line("  size " + ", ".join(f"{name} = {size}" for name, size in program.sizes)))
    for buffer in program.buffers:
        lines.append(Line(f"  {buffer.kind} {loops.element(buffer.name, buffer.extents)}"))
    return (*lines, *_print_items(program.body, 1))


def _print_items(items: tuple[Item, ...], depth: int) -> Iterator[Line]:
    pad = "  " * depth
    for item in items:
        match item:
            case SlcFor():
                note = f"  # {item.note}" if item.note else ""
                head = f"slc.for ({item.stream} from {item.lower} to {item.extent}) {{{note}"
                yield Line(pad + head, item.origin, "access")
                yield from _print_items(item.body, depth + 1)
                yield Line(f"{pad}}}", (), "access")
            case MemStream():
                element = loops.element(item.buffer, item.indices)
                yield Line(f"{pad}{item.result} = slc.mem_str({element})", item.origin, "access")
            case AluStream():
                sign = loops.INFIX_INDEX[item.function]
                left, right = item.operands
                yield Line(f"{pad}{item.result} = slc.alu_str({sign}, {left}, {right})", item.origin, "access")
            case Callback():
                yield Line(f"{pad}slc.callback {{", item.origin, "execute")
                for statement in item.body:
                    yield from print_execute(statement, depth + 1)
                yield Line(f"{pad}}}", (), "execute")


def print_execute(statement: Node, depth: int) -> Iterator[Line]:
    """The lines of one statement of the execute unit; the body of a loop is indented."""
    pad = "  " * depth
    if isinstance(statement, ToVal):
        yield Line(f"{pad}{statement.result} = slc.to_val({statement.stream})", statement.origin, "execute")
    elif isinstance(statement, loops.For):
        yield Line(f"{pad}{loops.print_statement(statement)}", statement.origin, "execute")
        for inner in statement.body:
            yield from print_execute(inner, depth + 1)
    else:
        yield Line(pad + loops.print_statement(statement), statement.origin, "execute")


def verify_slc(program: SlcProgram) -> None:
    """Raises VerificationError for a stream read without `to_val`, a load from what is written, names used before
    their definition or defined twice, and statements without an origin."""
    fixed = loops.fixed_names(program.sizes, program.buffers)
    read_only = {buffer.name for buffer in program.buffers if buffer.kind != "output"}
    written = {buffer.name for buffer in program.buffers if buffer.kind == "output"}
    seen: set[str] = set()
    for node in walk(program):
        name = getattr(node, "result", None) or (node.stream if isinstance(node, SlcFor) else None)
        if isinstance(node, MemStream | AluStream | SlcFor) and name is not None:
            if name in seen:
                raise VerificationError(f"{name} is defined twice")
            seen.add(name)
    _verify_items(program.body, fixed, set(), written, read_only)


def _verify_items(
    items: tuple[Item, ...], fixed: set[str], streams: set[str], values: set[str], read_only: set[str]
) -> None:
    streams = set(streams)
    for item in items:
        _require_origin(item.origin, type(item).__name__)
        match item:
            case SlcFor():
                _require_streams((item.lower, item.extent), fixed | streams)
                _verify_items(item.body, fixed, streams | {item.stream}, values, read_only)
            case MemStream():
                if item.buffer not in read_only:
                    raise VerificationError(f"the access unit reads {item.buffer}, which is written")
                _require_streams(item.indices, fixed | streams)
                streams.add(item.result)
            case AluStream():
                _require_streams(item.operands, fixed | streams)
                streams.add(item.result)
            case Callback():
                verify_execute(item.body, fixed, streams, values)


def verify_execute(body: tuple[Node, ...], fixed: set[str], streams: set[str], values: set[str]) -> None:
    """Checks a callback's statements; the names they define are added to `values`, for callbacks read on."""
    for statement in body:
        _require_origin(statement.origin, type(statement).__name__)
        if isinstance(statement, ToVal):
            if statement.stream not in streams:
                raise VerificationError(f"to_val of {statement.stream}, which is no stream here")
            values.add(statement.result)
            continue
        for name in loops.reads_of(statement):
            if name.startswith("%"):
                raise VerificationError(f"{name} is read without to_val: {loops.print_statement(statement)}")
            if name not in values and name not in fixed:
                raise VerificationError(f"{name} is used before its definition: {loops.print_statement(statement)}")
        name_defined = loops.result_of(statement)
        if name_defined is not None:
            values.add(name_defined)
        if isinstance(statement, loops.For):
            verify_execute(statement.body, fixed, streams, values)


def _require_origin(origin: Origin, what: str) -> None:
    if not origin:
        raise VerificationError(f"a {what} has no origin")


def _require_streams(atoms: tuple[Atom, ...], known: set[str]) -> None:
    for atom in atoms:
        if isinstance(atom, str) and atom not in known:
            raise VerificationError(f"{atom} is no stream here")
