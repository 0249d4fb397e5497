"""Loops: the fused nests, imperative, every index explicit. What SCF is to Ember (Fig. 13a).

Operands are atoms. A `Compute` names a scalar once; an accumulator and a row are the only things that change.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.functions import SIGNS
from explorer.compiler.ir.index_sets import ENDS, counted
from explorer.compiler.ir.node import Atom, Extent, Line, Node, VerificationError, once, walk
from explorer.compiler.ir.storage import element_bytes

INFIX_INDEX = {"add": "+", "sub": "-", "mul": "*", "div": "//", "mod": "%"}
COMPARISONS = {"less": "<", "at_most": "<=", "equal": "=="}
"""Comparisons of indices, 1 where they hold and else 0: of scheduled kernels."""
REDUCTION_SIGNS = {"sum": "+=", "product": "*=", "max": "max=", "min": "min="}
SEGMENT_ENDS = ("unless_empty", "segment_mean")
"""What a segment's reduction ends in, of its value and the segment's bounds: 0 where it is empty, its mean."""


@dataclass(frozen=True, kw_only=True)
class Buffer(Node):
    """An array in memory: `kind` is "param", "input", "structure", "index" (i32), "temporary" (written by an earlier
    kernel) or "output"; all but index arrays hold f32, or what a load makes f32 of, by its `storage`. An output starts
    as zeros, so that sums can be taken in it."""

    name: str
    kind: str
    extents: tuple[Extent, ...]
    storage: str = "f32"
    sharing: int = 1  # of ids, how many rows one after another are the same

    @property
    def type(self) -> str:
        """The type of what a load gives: of index arrays i32, of all else f32."""
        return "i32" if self.kind == "index" else "f32"

    @property
    def declared(self) -> str:
        """`E[entity, D]`, with what it is stored in where that is not 32 bits: `T[row, D]: bf16`, and how many rows are
        the same: `t[B, 16] sharing 1024`."""
        stored = f": {self.storage}" if self.storage != "f32" else ""
        sharing = f" sharing {self.sharing}" if self.sharing > 1 else ""
        return f"{element(self.name, self.extents)}{stored}{sharing}"

    @property
    def element_bytes(self) -> int:
        """The bytes of an element in memory."""
        return element_bytes(self.storage)


@dataclass(frozen=True, kw_only=True)
class For(Node):
    """`for k in 0..K`; the iterations of a parallel loop are independent. `note` says what a pass did.

    A loop over a segment has bounds that were loaded: `for p in n..n1`. With a `step` above 1 it is a vector loop, as
    only the execute unit of a decoupled program has them: see `explorer.compiler.ir.access.execute`."""

    variable: str
    extent: Extent
    body: tuple[Statement, ...]
    lower: Extent = 0
    parallel: bool = False
    step: int = 1
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Load(Node):
    """`e = E[ih, d]`, from a buffer or from a row; an element of an index buffer is an index."""

    result: str
    buffer: str
    indices: tuple[Atom, ...]


@dataclass(frozen=True, kw_only=True)
class Index(Node):
    """`index i = d + 32`: integer arithmetic on indices, `function` one of INFIX_INDEX."""

    result: str
    function: str
    operands: tuple[Atom, ...]


@dataclass(frozen=True, kw_only=True)
class Compute(Node):
    """`u = e1 - e2`: a new f32 scalar; `function` as in the graph, or "copy"."""

    result: str
    function: str
    operands: tuple[Atom, ...]


@dataclass(frozen=True, kw_only=True)
class Row(Node):
    """`row y[K]`: a small f32 array private to this iteration of the enclosing loop; its contents start undefined."""

    name: str
    extents: tuple[Extent, ...]


@dataclass(frozen=True, kw_only=True)
class Accumulator(Node):
    """`acc s = 0.0`: an f32 scalar that Accumulate changes."""

    name: str
    start: float


@dataclass(frozen=True, kw_only=True)
class Accumulate(Node):
    """`s += y * y`, `y[k] += u * p`, `m max= v`: into an accumulator (no indices) or an element of a row."""

    target: str
    indices: tuple[Atom, ...]
    reduction: str
    function: str
    operands: tuple[Atom, ...]


@dataclass(frozen=True, kw_only=True)
class Store(Node):
    """`out[b] = sqrt(s)`: into an element of the output or of a row."""

    target: str
    indices: tuple[Atom, ...]
    function: str
    operands: tuple[Atom, ...]


Statement = For | Load | Index | Compute | Row | Accumulator | Accumulate | Store


@dataclass(frozen=True, kw_only=True)
class Kernel(Node):
    """One fused nest. `sizes` are the model's dimensions; the other extents of the buffers (the batch, entity,
    relation) are known at run time. The first extent of the output is the batch's."""

    name: str
    template: str
    sizes: tuple[tuple[str, int], ...]
    buffers: tuple[Buffer, ...]
    body: tuple[Statement, ...]

    def size(self, extent: Extent) -> int:
        """The number that a static extent stands for; KeyError for those known only at run time."""
        return extent if isinstance(extent, int) else dict(self.sizes)[extent]


def fixed_names(sizes: tuple[tuple[str, int], ...], buffers: tuple[Buffer, ...]) -> set[str]:
    """The names of all extents: the sizes, and what the buffers' shapes bring at run time; `node_ends` brings `nodes`
    too."""
    extents = {extent for buffer in buffers for extent in buffer.extents if isinstance(extent, str)}
    sets = {counted(extent) for extent in extents if extent.endswith(ENDS)}
    return extents | sets | {name for name, _ in sizes}


def result_of(statement: Node) -> str | None:
    """The name that a statement defines, if any."""
    match statement:
        case Load() | Index() | Compute():
            return statement.result
        case Row() | Accumulator():
            return statement.name
        case For():
            return statement.variable
    return None


@once
def reads_of(statement: Node) -> tuple[str, ...]:
    """The names that a statement itself reads: atoms, buffers and rows, not those of a loop's body."""
    atoms: tuple[Atom, ...] = ()
    match statement:
        case For():
            atoms = (statement.lower, statement.extent)
        case Load():
            atoms = (statement.buffer, *statement.indices)
        case Index() | Compute():
            atoms = statement.operands
        case Accumulate():
            atoms = (statement.target, *statement.indices, *statement.operands)
        case Store():
            atoms = (*statement.indices, *statement.operands)
    return tuple(atom for atom in atoms if isinstance(atom, str))


def array_of(statement: Node) -> str:
    """The array, row or accumulator that a statement loads from or writes; "" for others."""
    match statement:
        case Load():
            return statement.buffer
        case Store() | Accumulate():
            return statement.target
    return ""


def print_expression(function: str, operands: tuple[Atom, ...]) -> str:
    """`u * p`, `sqrt(s)`, or the operand itself for a copy."""
    texts = [str(operand) for operand in operands]
    if function == "copy":
        return texts[0]
    if function in SIGNS:
        return f" {SIGNS[function]} ".join(texts)
    return f"{function}({', '.join(texts)})"


def element(target: str, indices: tuple[Atom, ...]) -> str:
    """`y[k]`, or `s` where there are no indices."""
    return f"{target}[{', '.join(str(index) for index in indices)}]" if indices else target


def print_statement(statement: Node) -> str:
    """The one line of a statement; for a loop, its head."""
    match statement:
        case For():
            parallel = "parallel " if statement.parallel else ""
            step = f" step {statement.step}" if statement.step != 1 else ""
            note = f"  # {statement.note}" if statement.note else ""
            return f"{parallel}for {statement.variable} in {statement.lower}..{statement.extent}{step}{note}"
        case Load():
            return f"{statement.result} = {element(statement.buffer, statement.indices)}"
        case Index():
            sign = INFIX_INDEX[statement.function]
            return f"index {statement.result} = {statement.operands[0]} {sign} {statement.operands[1]}"
        case Compute():
            return f"{statement.result} = {print_expression(statement.function, statement.operands)}"
        case Row():
            return f"row {element(statement.name, statement.extents)}"
        case Accumulator():
            return f"acc {statement.name} = {statement.start!r}"
        case Accumulate():
            target = element(statement.target, statement.indices)
            value = print_expression(statement.function, statement.operands)
            return f"{target} {REDUCTION_SIGNS[statement.reduction]} {value}"
        case Store():
            target = element(statement.target, statement.indices)
            return f"{target} = {print_expression(statement.function, statement.operands)}"
    raise TypeError(f"not a statement of loops: {statement!r}")


def print_body(body: tuple[Statement, ...], depth: int) -> Iterator[Line]:
    """The lines of statements, two spaces a level."""
    for statement in body:
        yield Line("  " * depth + print_statement(statement), statement.origin)
        if isinstance(statement, For):
            yield from print_body(statement.body, depth + 1)


def print_kernel(kernel: Kernel) -> tuple[Line, ...]:
    """The head with sizes and buffers, then the nest."""
    lines = [Line(f"kernel {kernel.name}  template {kernel.template}")]
    if kernel.sizes:
        lines.append(Line("  size " + ", ".join(f"{name} = {size}" for name, size in kernel.sizes)))
    lines += [Line(f"  {buffer.kind} {buffer.declared}") for buffer in kernel.buffers]
    return (*lines, *print_body(kernel.body, 1))


@once
def verify_kernel(kernel: Kernel) -> None:
    """Raises VerificationError for shadowing, use before definition, writes to what may not be written,
    or a statement without an origin."""
    known = {buffer.name for buffer in kernel.buffers} | fixed_names(kernel.sizes, kernel.buffers)
    writable = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
    _verify_body(kernel.body, known, writable)
    defined = [name for node in walk(kernel) if (name := result_of(node)) is not None]
    if len(defined) != len(set(defined)):
        twice = sorted({name for name in defined if defined.count(name) > 1})
        raise VerificationError(f"defined twice: {', '.join(twice)}")


def _verify_body(body: tuple[Statement, ...], known: set[str], writable: set[str]) -> None:
    known, writable = set(known), set(writable)
    for statement in body:
        if not statement.origin:
            raise VerificationError(f"no origin: {print_statement(statement)}")
        for name in reads_of(statement):
            if name not in known:
                raise VerificationError(f"{name} is used before its definition: {print_statement(statement)}")
        if isinstance(statement, (Accumulate, Store)) and statement.target not in writable:
            raise VerificationError(f"{statement.target} may not be written: {print_statement(statement)}")
        defined = result_of(statement)
        if defined is not None and defined in known:
            raise VerificationError(f"{defined} shadows: {print_statement(statement)}")
        if isinstance(statement, For):
            _verify_body(statement.body, known | {statement.variable}, writable)
        elif defined is not None:
            known.add(defined)
        if isinstance(statement, (Row, Accumulator)):
            writable.add(statement.name)
