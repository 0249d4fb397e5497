"""Who does an iteration of a scheduled kernel: how the members of a level share its loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.kernels import (
    AtomicAccumulate,
    Level,
    Loop,
    ScheduledKernel,
    Statement,
    Tile,
    Where,
    reads_of,
    result_of,
)
from explorer.compiler.ir.loops import Accumulate, Store
from explorer.compiler.ir.node import Atom, Node, VerificationError, once, walk
from explorer.compiler.ir.print.kernels import print_step

LANES = 32
"""Lanes of a warp."""
REGISTER_INDEX = ("register", "i32")
"""Where a thread keeps indices, and of what type such a tile is."""
GRID = ("block", "column")
"""Levels whose members cannot wait for one another."""

Path = tuple[Loop | Where, ...]
"""The loops and conditions around a statement, from the outside in."""


@dataclass(frozen=True)
class Share:
    """How a loop is shared: by `members`, neighbours of which are `stride` apart. Two loops that are shared alike give
    the same iteration to the same thread."""

    level: Level
    lower: Atom
    upper: object
    step: int
    members: int
    stride: int

    def within(self, lanes: int) -> bool:
        """Whether all its members are among so many neighbouring lanes."""
        return self.stride * self.members <= lanes


def broken(statement: Node, rule: str) -> VerificationError:
    """The error for a statement that breaks a rule."""
    return VerificationError(f"{rule}: {print_step(statement)}")


def size_of(kernel: ScheduledKernel, extent: object) -> int | None:
    """The number that an extent or a bound stands for, where it is known when the kernel is compiled."""
    if isinstance(extent, int):
        return extent
    return dict(kernel.sizes).get(extent) if isinstance(extent, str) else None


def iterations(kernel: ScheduledKernel, loop: Loop) -> int | None:
    """How often a loop goes round, where that is known when the kernel is compiled."""
    lower, upper = size_of(kernel, loop.lower), size_of(kernel, loop.extent)
    return None if lower is None or upper is None else max(0, -(-(upper - lower) // loop.step))


def capacity(kernel: ScheduledKernel, level: Level) -> int:
    """The members of a level in a block or in a warp."""
    return {"warp": kernel.threads // LANES, "lane": LANES, "thread": kernel.threads}.get(level, 1)


@once
def statements(kernel: ScheduledKernel) -> list[tuple[Statement, Path]]:
    """Every statement of a kernel with what is around it, in program order."""
    return list(_with_paths(kernel.body, ()))


def _with_paths(body: Sequence[Statement], path: Path) -> Iterator[tuple[Statement, Path]]:
    for statement in body:
        yield statement, path
        if isinstance(statement, (Loop, Where)):
            yield from _with_paths(statement.body, (*path, statement))


def is_shared(loop: Loop) -> bool:
    """Whether members of a level share a loop; one of width 1 each of them does all by itself."""
    return bool(loop.bind) and loop.width != 1


def shared_loops(path: Path) -> tuple[Loop, ...]:
    """The loops of a path that members of a level share."""
    return tuple(loop for loop in path if isinstance(loop, Loop) and is_shared(loop))


def shares(kernel: ScheduledKernel) -> dict[str, Share]:
    """How each bound loop is shared, by its variable; raises VerificationError where loops inside disagree."""
    found: dict[str, Share] = {}
    inside: dict[str, set[int]] = {}  # by the variable of a loop: what those of its level right inside take together
    for loop, path in reversed(statements(kernel)):
        if not (isinstance(loop, Loop) and loop.bind):
            continue
        strides = inside.get(loop.variable) or {1}
        if len(strides) > 1 and not all(loop.apart and loop.apart % stride == 0 for stride in strides):
            raise broken(loop, f"the {loop.bind} loops inside are shared by different numbers of members")
        stride = loop.apart or strides.pop()
        trips, most = iterations(kernel, loop), max(1, capacity(kernel, loop.bind) // stride)
        members = loop.width or (most if trips is None else max(1, min(trips, most)))
        upper = size_of(kernel, loop.extent)
        found[loop.variable] = Share(
            loop.bind, loop.lower, loop.extent if upper is None else upper, loop.step, members, stride
        )
        around = next((outer for outer in reversed(path) if isinstance(outer, Loop) and outer.bind == loop.bind), None)
        if around is not None:
            inside.setdefault(around.variable, set()).add(stride * members)
    return found


@once
def dependences(kernel: ScheduledKernel) -> dict[str, frozenset[str]]:
    """For each name, the loop variables that it comes from; what an atomic found depends on all around it. An index
    that a thread keeps in a register comes from what it stored there."""
    found: dict[str, frozenset[str]] = {}
    kept = {node.name for node in walk(kernel) if isinstance(node, Tile) and (node.memory, node.type) == REGISTER_INDEX}
    for statement, path in statements(kernel):
        name = result_of(statement)
        if isinstance(statement, AtomicAccumulate):
            if name is not None:
                found[name] = frozenset(loop.variable for loop in path if isinstance(loop, Loop))
        elif name is not None:
            own = (name,) if isinstance(statement, Loop) else ()
            found[name] = _union(found, reads_of(statement)).union(own)
        elif isinstance(statement, (Store, Accumulate)) and statement.target in kept:
            found[statement.target] = _union(found, (statement.target, *reads_of(statement)))
    return found


def _union(found: dict[str, frozenset[str]], names: Sequence[str]) -> frozenset[str]:
    """All that some names come from."""
    return frozenset().union(*[found[name] for name in names if name in found])
