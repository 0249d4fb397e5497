"""What the execute unit of a decoupled program has beside the statements of the loops: vectors and counters.

An array of several dimensions may be reached by one index, `out[at]`: the flat address of an element.

There are no vector opcodes: a vector is what a name means inside a vector region. A region is one trip of a loop
with a step, `for e in 0..L step 16`, or `lanes<16> e below L`. It works on the lanes e, e+1, ..., e+15 that lie below
the extent, all at once:

- the region's variable stands for the lanes' indices, and `out[b, e] += v` touches neighbouring elements;
- names defined in the region, and what is popped 16 words wide, have a value a lane; all other names the same in all;
- an accumulation without indices, `s += u * u`, reduces over the lanes, and then into the accumulator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom, Extent, Line, Node


@dataclass(frozen=True, kw_only=True)
class Lanes(Node):
    """`lanes<16> e below L`: its body once, for the lanes from e on; `variable` is the first one's index."""

    variable: str
    width: int
    extent: Extent
    body: tuple[Node, ...]


@dataclass(frozen=True, kw_only=True)
class Counter(Node):
    """`index o = 0`: an index that the execute unit keeps, and what it is at the start."""

    name: str
    start: int = 0


@dataclass(frozen=True, kw_only=True)
class Increment(Node):
    """`index o += 1`: a counter goes on."""

    target: str
    by: int = 1


@dataclass(frozen=True, kw_only=True)
class Reset(Node):
    """`index o = 0`: a counter starts anew."""

    target: str
    value: int = 0


def body_of(statement: Node) -> tuple[Node, ...]:
    """The statements inside a loop or a vector region."""
    return statement.body if isinstance(statement, (loops.For, Lanes)) else ()


def reads_of(statement: Node) -> tuple[str, ...]:
    """The names that a statement itself reads, not those of what is inside."""
    match statement:
        case Lanes():
            atoms: tuple[Atom, ...] = (statement.variable, statement.extent)
            return tuple(atom for atom in atoms if isinstance(atom, str))
        case Increment() | Reset():
            return (statement.target,)
    return loops.reads_of(statement)


def print_head(statement: Node) -> str:
    """The one line of a statement; for a loop or region, its head."""
    match statement:
        case Lanes():
            return f"lanes<{statement.width}> {statement.variable} below {statement.extent}"
        case Counter():
            return f"index {statement.name} = {statement.start}"
        case Increment():
            return f"index {statement.target} += {statement.by}"
        case Reset():
            return f"index {statement.target} = {statement.value}"
    return loops.print_statement(statement)


def print_execute(statement: Node, depth: int, head: Callable[[Node], str]) -> Iterator[Line]:
    """The lines of a statement of the execute unit, `head` printing the first; what is inside is indented."""
    yield Line("  " * depth + head(statement), statement.origin, "execute")
    for inner in body_of(statement):
        yield from print_execute(inner, depth + 1, head)
