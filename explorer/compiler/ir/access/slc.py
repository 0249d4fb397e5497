"""SLC, the structured lookup-compute IR (Ember §6.1, Fig. 12): loops and streams for the access unit, callbacks for
the execute unit, in one structured program; with vectors it is SLCV (Fig. 15).

Streams carry names that start with `%`. A callback holds statements of the execute unit; it reads a stream only
through `to_val`, which is what crosses the queue. What a callback computes stays with the execute unit and later
callbacks may read it. As in the listing for TransR, a loop may hold several loops one after another.

A vector loop, `slcv.for<16> ((%e, %msk) from 0 to L)`, takes 16 positions at a time; its mask leaves out those at or
above the bound. What it loads, `slcv.mem_str<16>(T[%i, %e], %msk)`, are neighbouring elements. A buffer stream
collects what a loop pushes into it; a callback behind the loop reads it as an array that the loop's positions index.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.access.execute import Lanes, body_of, print_execute, print_head, reads_of
from explorer.compiler.ir.node import Atom, Extent, Level, Line, Node, VerificationError


@dataclass(frozen=True, kw_only=True)
class SlcFor(Node):
    """`slc.for (%b from 0 to B) (index o = 0) { ... }`, run by the access unit.

    `counter` names an index of the execute unit that follows the loop's position without being sent."""

    stream: str
    extent: Extent
    body: tuple[Item, ...]
    lower: Extent = 0
    vector: int = 1
    mask: str = ""
    counter: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class MemStream(Node):
    """`%e = slc.mem_str(E[%ih, %d])`: loads from memory that nobody writes.

    `level` and `temporal` are what the DLC's are: the cache that the request goes to first, and whether it stays."""

    result: str
    buffer: str
    indices: tuple[Atom, ...]
    vector: int = 1
    mask: str = ""
    level: Level = ""
    temporal: bool = True


@dataclass(frozen=True, kw_only=True)
class AluStream(Node):
    """`%i = slc.alu_str(+, %d, 32)`: integer arithmetic on streams; a vector of neighbouring indices in SLCV."""

    result: str
    function: str
    operands: tuple[Atom, ...]
    vector: int = 1


@dataclass(frozen=True, kw_only=True)
class AccStream(Node):
    """`%beg = slc.acc_str(%len, 0)`: `start`, and the operand of all earlier iterations of the loop added to it."""

    result: str
    operand: Atom
    start: Atom = 0


@dataclass(frozen=True, kw_only=True)
class BufStream(Node):
    """`%buf = slcv.buf_str<16>()`: empty whenever it is reached; the loop behind it fills it."""

    result: str
    vector: int = 1


@dataclass(frozen=True, kw_only=True)
class Push(Node):
    """`slc.push(%buf, %v)`: the stream's value, or vector, goes into the buffer."""

    buffer: str
    stream: str


@dataclass(frozen=True, kw_only=True)
class StoreStream(Node):
    """`slcv.store_str<16>(out[%z, %e], %v, %msk)`: the access unit writes a stream to an output."""

    buffer: str
    indices: tuple[Atom, ...]
    stream: str
    vector: int = 1
    mask: str = ""


@dataclass(frozen=True, kw_only=True)
class ToVal(Node):
    """`e = slc.to_val(%e)`: the stream's current value, as a value of the execute unit.

    `slcv.to_val<16>(%e)` is a vector, `slcv.to_val(%k)[0]` the index of a vector's first lane (`first`), and
    `slcv.to_val(splat<16>(%w))[0]` a scalar that travels as a vector (`splat`), of a vector loop its first lane."""

    result: str
    stream: str
    vector: int = 1
    first: bool = False
    splat: int = 1


@dataclass(frozen=True, kw_only=True)
class Callback(Node):
    """`slc.callback { ... }`: what the execute unit does at this place of the traversal.

    With a `toggle`, `slc.callback toggle(%row) { ... }`, only the first time and when the stream has changed."""

    body: tuple[Node, ...]  # ToVal first, then statements of the execute unit
    toggle: str = ""


Stream = MemStream | AluStream | AccStream
Item = SlcFor | Stream | BufStream | Push | StoreStream | Callback


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
        lines.append(Line(f"  {buffer.kind} {buffer.declared}"))
    return (*lines, *_print_items(program.body, 1))


def _print_items(items: tuple[Item, ...], depth: int) -> Iterator[Line]:
    pad = "  " * depth
    for item in items:
        match item:
            case SlcFor():
                yield Line(pad + _print_loop(item), item.origin, "access")
                yield from _print_items(item.body, depth + 1)
                yield Line(f"{pad}}}", (), "access")
            case Callback():
                words = "slcv" if _vectors(item.body) else "slc"
                toggle = f" toggle({item.toggle})" if item.toggle else ""
                yield Line(f"{pad}{words}.callback{toggle} {{", item.origin, "execute")
                for statement in item.body:
                    yield from print_execute(statement, depth + 1, _print_head)
                yield Line(f"{pad}}}", (), "execute")
            case _:
                yield Line(pad + _print_stream(item), item.origin, "access")


def _print_loop(loop: SlcFor) -> str:
    counter = f" (index {loop.counter} = {loop.lower})" if loop.counter else ""
    note = f"  # {loop.note}" if loop.note else ""
    stream = f"({loop.stream}, {loop.mask})" if loop.vector > 1 else loop.stream
    return f"{_word('for', loop.vector)} ({stream} from {loop.lower} to {loop.extent}){counter} {{{note}"


def _print_stream(item: Stream | BufStream | Push | StoreStream) -> str:
    match item:
        case MemStream():
            hints = (f", {item.mask}" if item.mask else "") + (f", {item.level}" if item.level else "")
            hints += "" if item.temporal else ", non_temporal"
            element = loops.element(item.buffer, item.indices)
            return f"{item.result} = {_word('mem_str', item.vector)}({element}{hints})"
        case AluStream():
            sign = loops.INFIX_INDEX[item.function]
            left, right = item.operands
            return f"{item.result} = {_word('alu_str', item.vector)}({sign}, {left}, {right})"
        case AccStream():
            return f"{item.result} = slc.acc_str({item.operand}, {item.start})"
        case BufStream():
            return f"{item.result} = {_word('buf_str', item.vector)}()"
        case Push():
            return f"slc.push({item.buffer}, {item.stream})"
        case StoreStream():
            mask = f", {item.mask}" if item.mask else ""
            element = loops.element(item.buffer, item.indices)
            return f"{_word('store_str', item.vector)}({element}, {item.stream}{mask})"


def _word(word: str, vector: int) -> str:
    return f"slc.{word}" if vector == 1 else f"slcv.{word}<{vector}>"


def _vectors(body: tuple[Node, ...]) -> bool:
    """Whether a callback works on vectors."""
    for statement in body:
        if isinstance(statement, Lanes) or (isinstance(statement, loops.For) and statement.step > 1):
            return True
        if _vectors(body_of(statement)):
            return True
    return False


def _print_head(statement: Node) -> str:
    if not isinstance(statement, ToVal):
        return print_head(statement)
    if statement.splat > 1:
        return f"{statement.result} = slcv.to_val(splat<{statement.splat}>({statement.stream}))[0]"
    if statement.first:
        return f"{statement.result} = slcv.to_val({statement.stream})[0]"
    return f"{statement.result} = {_word('to_val', statement.vector)}({statement.stream})"


def verify_slc(program: SlcProgram) -> None:
    """Raises VerificationError for a stream read without `to_val`, a load from what is written, names used before
    their definition or defined twice, vectors outside a loop of their width, and statements without an origin."""
    _Verification(program).items(program.body, {}, 1)


class _Verification:
    """Goes through a program. Values and counters stay known, since later callbacks may read them; streams are known
    in their loop, each with its width."""

    def __init__(self, program: SlcProgram) -> None:
        self.fixed = loops.fixed_names(program.sizes, program.buffers)
        self.written = {buffer.name for buffer in program.buffers if buffer.kind == "output"}
        self.arrays = {buffer.name for buffer in program.buffers}
        self.defined: set[str] = set()
        self.values: set[str] = set()

    def items(self, items: tuple[Item, ...], around: dict[str, int], vector: int) -> None:
        """The items of a loop of that width, in which the streams `around` are known."""
        streams = dict(around)
        for item in items:
            if not item.origin:
                raise VerificationError(f"a {type(item).__name__} has no origin")
            for atom in _streams_read(item):
                if isinstance(atom, str) and atom not in streams and atom not in self.fixed:
                    raise VerificationError(f"{atom} is no stream here")
            match item:
                case SlcFor():
                    self._loop(item, streams)
                case Callback():
                    self._callback(item, streams)
                case Push():
                    if streams[item.buffer] != streams[item.stream]:
                        raise VerificationError(f"{item.stream} and {item.buffer} differ in width")
                case StoreStream():
                    if item.buffer not in self.written:
                        raise VerificationError(f"the access unit writes {item.buffer}, which is no output")
                case _:
                    self._define(item, streams, vector)

    def _loop(self, loop: SlcFor, streams: dict[str, int]) -> None:
        if (loop.vector > 1) != bool(loop.mask):
            raise VerificationError(f"the loop over {loop.stream} must have a mask if it takes vectors, and else none")
        if loop.counter:
            self.values.add(loop.counter)
        inside = {name: loop.vector for name in (loop.stream, loop.mask) if name}
        if self.defined & inside.keys():
            raise VerificationError(f"{loop.stream} is defined twice")
        self.defined |= inside.keys()
        self.items(loop.body, streams | inside, loop.vector)

    def _define(self, item: Stream | BufStream, streams: dict[str, int], vector: int) -> None:
        if item.result in self.defined:
            raise VerificationError(f"{item.result} is defined twice")
        width = 1 if isinstance(item, AccStream) else item.vector
        if not isinstance(item, BufStream) and width not in (1, vector):
            raise VerificationError(f"{item.result} is a vector of {width} in a loop of {vector}")
        if isinstance(item, MemStream) and (item.buffer in self.written or item.buffer not in self.arrays):
            raise VerificationError(f"the access unit reads {item.buffer}, which is written")
        self.defined.add(item.result)
        streams[item.result] = width

    def _callback(self, callback: Callback, streams: dict[str, int]) -> None:
        for statement in callback.body:
            if not isinstance(statement, ToVal):
                continue
            if not statement.origin:
                raise VerificationError(f"the ToVal of {statement.stream} has no origin")
            if statement.stream not in streams:
                raise VerificationError(f"to_val of {statement.stream}, which is no stream here")
            self.values.add(statement.result)
        self._execute(tuple(s for s in callback.body if not isinstance(s, ToVal)))

    def _execute(self, body: tuple[Node, ...]) -> None:
        for statement in body:
            if not statement.origin:
                raise VerificationError(f"a {type(statement).__name__} has no origin")
            for name in reads_of(statement):
                if name.startswith("%"):
                    raise VerificationError(f"{name} is read without to_val: {print_head(statement)}")
                if not (name in self.values or name in self.fixed or name in self.arrays):
                    raise VerificationError(f"{name} is used before its definition: {print_head(statement)}")
            name_defined = loops.result_of(statement)
            if name_defined is not None:
                self.values.add(name_defined)
            self._execute(body_of(statement))


def _streams_read(item: Item) -> tuple[Atom, ...]:
    """What an item of the access unit reads; a mask is read where it is written."""
    match item:
        case SlcFor():
            return (item.lower, item.extent)
        case MemStream():
            return (*item.indices, *((item.mask,) if item.mask else ()))
        case AluStream():
            return item.operands
        case AccStream():
            return (item.operand, item.start)
        case Push():
            return (item.buffer, item.stream)
        case StoreStream():
            return (*item.indices, item.stream, *((item.mask,) if item.mask else ()))
        case Callback():
            return (item.toggle,) if item.toggle else ()
    return ()
