"""What CUDA's text names, and what it writes where it is used: an expert names what is read twice.

One operation of the model stays one a line. What goes into the line that uses it is the arithmetic of places, and what
only carries a value on: loads of a thread's own registers, loads that are stored as they are, copies of a name.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from explorer.compiler.codegen.cuda.words import FUNCTIONS
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.functions import SIGNS, TABLE
from explorer.compiler.ir.kernels import (
    AtomicAccumulate,
    CheckedLoad,
    Copy,
    KeptLoad,
    Loop,
    ScheduledKernel,
    Search,
    ShuffledLoad,
    Statement,
    Tile,
    Where,
    reads_of,
    result_of,
    vector_indices,
)
from explorer.compiler.ir.loops import Accumulate, Accumulator, Compute, Index, Load, Store
from explorer.compiler.ir.node import Atom, Node, Origin, same_operations, walk

NAMED, LOOSE, BITS, SUM, PRODUCT, CALL, PRIMARY = range(-1, 6)
"""How tightly an expression's operator binds: of a choice or a comparison, a shift, a sum, a product; a call has none,
nor has a name or an element. What must be `NAMED` is written nowhere else."""
BINDING = {
    "+": (SUM, PRODUCT, SUM),
    "-": (SUM, PRODUCT, SUM),
    "*": (PRODUCT, PRIMARY, PRODUCT),
    "/": (PRODUCT, PRIMARY, PRODUCT),
    "%": (PRODUCT, PRIMARY, PRODUCT),
    ">>": (PRIMARY, PRIMARY, BITS),
    "&": (PRIMARY, PRIMARY, BITS),
}
"""By operator: how tightly its left and right sides must bind to stand without parentheses, and how it binds."""
CALLS = frozenset(f.name for f in TABLE if re.fullmatch(r"\w+\(\{0\}(, \{1\})*\)", f.cuda))
"""The functions that are written as one call, whose operands need no parentheses."""
LONGEST, LONGEST_LOAD = 60, 90
"""Characters of an expression, and of a load, that is written where it is used."""


@dataclass(frozen=True)
class Value:
    """What is written in the place of a name. `lasting`: it means the same wherever its names do."""

    text: str
    binds: int = PRIMARY
    origin: Origin = ()
    lasting: bool = True

    @property
    def fits(self) -> bool:
        """Whether it may stand in another line."""
        return self.binds != NAMED and len(self.text) <= (LONGEST_LOAD if self.binds == PRIMARY else LONGEST)

    def within(self, least: int) -> str:
        """The text, in parentheses where it binds less tightly than its place needs."""
        return self.text if self.binds >= min(least, CALL) else f"({self.text})"


def operands_bind(function: str, operands: int) -> list[int]:
    """How tightly each operand of a function of numbers must bind."""
    if function in SIGNS:
        return list(BINDING[SIGNS[function]][:2])
    return [LOOSE if function in CALLS else CALL] * operands


def binds(function: str) -> int:
    """How tightly the text of a function of numbers binds."""
    if function in SIGNS:
        return BINDING[SIGNS[function]][2]
    return PRIMARY if function == "copy" else CALL if function in CALLS else LOOSE


@dataclasses.dataclass
class Scopes:
    """The names that are defined in the braces around a place, by the type and text of their values."""

    found: list[dict[tuple[str, str], str]] = field(default_factory=lambda: [{}])

    def known(self, kind: str, text: str) -> str:
        """The name of an equal value, "" where there is none."""
        return next((scope[kind, text] for scope in self.found if (kind, text) in scope), "")

    def define(self, kind: str, text: str, name: str) -> None:
        """Notes a name of this scope."""
        self.found[-1][kind, text] = name


def used_in_place(kernel: ScheduledKernel, no_braces: Callable[[Loop], bool]) -> frozenset[str]:
    """The names that are used once, by a statement of the same braces that can take an expression, with nothing in
    between that changes what it stands for. The body of a loop that is written without braces stands as if it was of
    the body around. Arithmetic of places may go into braces inside, and a block's place into arithmetic."""
    read = [(name, node) for node in walk(kernel) for name in reads_of(node)]
    uses, readers = Counter([name for name, _ in read]), dict(read)
    tiles = {node.name: node.memory for node in walk(kernel) if isinstance(node, Tile)}
    sums = {node.name for node in walk(kernel) if isinstance(node, Accumulator)}
    vectors = set(vector_indices(kernel))
    found: dict[str, frozenset[str]] = {}  # with the registers that each reads where it is written
    searched: set[str] = set()  # of those, what a search finds
    for loop in walk(kernel):
        if isinstance(loop, Loop) and loop.bind in ("block", "column") and uses[loop.variable] == 1:
            found |= {loop.variable: frozenset()} if isinstance(readers[loop.variable], Index) else {}
    for body in _bodies(kernel.body, no_braces):
        users = {name: at for at, statement in enumerate(body) for name in reads_of(statement)}
        for place, statement in enumerate(body):
            name = result_of(statement)
            if name is None or uses[name] != 1:
                continue
            user = users.get(name)  # behind the statement, as names are defined before they are read
            reads = _registers_read(statement, tiles, sums, found)
            if user is None:
                asked = isinstance(readers[name], Where) and _is_in_loop(readers[name], body[place + 1 :], no_braces)
                inside = not reads and not asked and _is_cheap(statement, searched)
                found |= {name: reads} if inside and _takes(readers[name], name, vectors) else {}
                continue
            if not _takes(body[user], name, vectors):
                continue
            if isinstance(statement, Search):
                searched.add(name)
            elif not searched.isdisjoint(reads_of(statement)):
                if isinstance(body[user], Loop):
                    continue
                searched.add(name)
            if _may_move(statement, body[place + 1 : user], body[user], tiles, reads):
                found[name] = reads
    return frozenset(found)


def _is_cheap(statement: Statement, searched: set[str]) -> bool:
    """Whether it is arithmetic that may as well be done once more; what has been searched for is not."""
    if not isinstance(statement, Index) or not searched.isdisjoint(reads_of(statement)):
        return False
    return statement.function != "div" or isinstance(statement.operands[1], int)


def _is_in_loop(reader: Node, body: Sequence[Statement], no_braces: Callable[[Loop], bool]) -> bool:
    """Whether a statement is in a loop of a body, or of the conditions in it. There, what a condition asks must be
    plain in itself: of unrolled loops a compiler leaves out what it sees is not done (15 % of a product's time)."""
    for statement in body:
        if isinstance(statement, (Loop, Where)) and any(node is reader for node in walk(statement)):
            own = isinstance(statement, Loop) and not no_braces(statement)
            return statement is not reader and (own or _is_in_loop(reader, statement.body, no_braces))
    return False


def _registers_read(
    statement: Statement, tiles: Mapping[str, str], sums: set[str], found: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    """The register tiles and accumulators that the text of a value has, also by what is written in it."""
    own = {name for name in reads_of(statement) if name in sums or tiles.get(name) == "register"}
    return frozenset(own.union(*(found.get(name, ()) for name in reads_of(statement))))


def _bodies(body: Sequence[Statement], no_braces: Callable[[Loop], bool]) -> Iterator[Sequence[Statement]]:
    """The statements of each pair of braces."""
    flat = list(_flat(body, no_braces))
    yield flat
    for statement in flat:
        if isinstance(statement, Where) or (isinstance(statement, Loop) and not no_braces(statement)):
            yield from _bodies(statement.body, no_braces)


def _flat(body: Sequence[Statement], no_braces: Callable[[Loop], bool]) -> Iterator[Statement]:
    for statement in body:
        yield statement
        if isinstance(statement, Loop) and no_braces(statement):
            yield from _flat(statement.body, no_braces)


def _may_move(
    statement: Statement,
    between: Sequence[Statement],
    user: Statement,
    tiles: Mapping[str, str],
    registers: frozenset[str],
) -> bool:
    """Whether a value that reads `registers` is the same where it is used, and no operation of the model."""
    if isinstance(statement, Index):
        return not registers
    changed = {node.target for node in between if isinstance(node, (Store, Accumulate))}
    quiet = registers.isdisjoint(changed) and all(
        isinstance(node, (Index, Load, Compute, Search, Store, Accumulate)) or (isinstance(node, Loop) and node.bind)
        for node in between
    )
    match statement:
        case Search():
            between_indices = all(isinstance(node, Index) for node in between)
            return between_indices and (isinstance(user, Index) or _only_stores(user, statement, tiles))
        case KeptLoad() | CheckedLoad() | ShuffledLoad():  # that all lanes come by
            return False
        case Load(buffer=buffer) if tiles.get(buffer) == "register":
            return quiet and not isinstance(user, Index)
        case Load() | AtomicAccumulate():
            return all(isinstance(node, Index) for node in between) and _only_stores(user, statement, tiles)
        case Compute(function="copy", operands=(str(),)):
            adds = isinstance(user, Accumulate) and user.target in registers
            return quiet and not adds and (not isinstance(user, Store) or _only_stores(user, statement, tiles))
        case Compute():  # of the same operation of the model, or of none but the schedule's
            return _of_same(statement, user) and quiet
    return False


def _only_stores(user: Statement, statement: Statement, tiles: Mapping[str, str]) -> bool:
    """Whether a value is only put elsewhere, which is no operation of the model besides that which made it."""
    if not isinstance(user, Store) or isinstance(user, Copy) or user.function != "copy":
        return False
    return user.target in tiles or _of_same(statement, user)


def _of_same(statement: Statement, user: Statement) -> bool:
    """Whether what reads a value is of the operations that made it; numbers that this takes contribute to it alone."""
    made, reads = statement.origin, user.origin
    takes_numbers = isinstance(statement, Compute) and any(isinstance(each, float) for each in statement.operands)
    return same_operations(made, reads) or (takes_numbers and made[0] == reads[0] and {*reads} <= {*made})


def _takes(user: Node, name: str, vectors: set[str]) -> bool:
    """Whether a statement names its operand once, and where an expression may stand."""
    match user:
        case Index() | Where() | Search():
            return True
        case Loop(extent=extent, bind=""):
            return extent == name
        case Compute(function=function, operands=operands):
            return _once(function, operands, name)
        case KeptLoad(kept=kept) if kept == name:
            return True
        case CheckedLoad(checked=checked) if name in checked:
            return False
        case Load(indices=indices):
            return not vectors.intersection(map(str, indices[:-1]))
        case Copy():
            return True
        case AtomicAccumulate():
            return name in user.indices
        case Store() | Accumulate() if name in user.indices:
            return not vectors.intersection(map(str, user.indices[:-1]))
        case Store():
            return not vectors.intersection(map(str, user.indices[:-1])) and _once(user.function, user.operands, name)
        case Accumulate():
            return _once(user.function, user.operands, name)
    return False


def _once(function: str, operands: Sequence[Atom], name: str) -> bool:
    """Whether the text of a function has the operand once; what it adds to is none of its operands."""
    return name in operands and FUNCTIONS[function].count(f"{{{operands.index(name)}}}") == 1
