"""What statements do to memory that threads share, in summary: which accesses an earlier one may meet, and with which
barrier before them; which a later one may meet, and with which barrier after them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

from explorer.compiler.ir.kernels import Loop, Statement
from explorer.compiler.ir.node import Atom
from explorer.compiler.ir.verify.sharing import Path

NOTHING, WARP, BLOCK, ARRIVED, KERNEL = range(5)
"""What threads may wait for one another at, and for their copies; the blocks of a kernel cannot."""
Kind = Literal["read", "write", "copy", "atomic"]
NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Place:
    """An index, as far as it decides who has the element: two that are equal have `common` in common, a number that
    stands for the form, unless a loop has gone on whose variable is among `changes`. `owners` are the bound loops that
    decide who has it."""

    common: int
    changes: frozenset[str]
    owners: frozenset[str]


@dataclass(frozen=True, eq=False)
class Access:
    """A statement's access to an element of memory that threads share; `fixed` are shared loops of whose iterations one
    alone does it."""

    statement: Statement
    array: str
    indices: tuple[Atom, ...]
    kind: Kind
    places: tuple[Place, ...]
    depends: frozenset[str]  # the variables of loops that the indices come from
    around: tuple[str, ...]  # the variables of the shared loops
    levels: frozenset[str]  # at which each member does it for itself; at others all read alike, one writes
    settled: int  # the barrier behind which it disturbs nothing: the block's own is settled in the block
    fixed: frozenset[tuple[Atom, Atom]]  # by variable, the iteration
    only: frozenset[tuple[Atom, Atom]]  # likewise, of the loops that nobody shares
    limits: frozenset[tuple[str, float, float]]  # what the conditions around say of names: the least and most they are


class Around(NamedTuple):
    """What an access has of the loops and conditions around it: see `Access`."""

    path: Path
    loops: tuple[Loop, ...]
    fixed: frozenset[tuple[Atom, Atom]]
    only: frozenset[tuple[Atom, Atom]]
    limits: frozenset[tuple[str, float, float]]


class Past(NamedTuple):
    """An access as later statements see it: `stale` are variables of loops that went on since, `older` those, of loops
    whose iterations take turns, that went on more than once, `left` those whose loop has ended since."""

    access: Access
    stale: frozenset[str] = NONE
    older: frozenset[str] = NONE
    left: frozenset[str] = NONE


@dataclass
class Summary:
    """What statements do. By array: the accesses that earlier ones may meet, each with the widest barrier before it,
    and those that later ones may meet, with the widest barrier since; where ways differ, the narrowest."""

    first: dict[str, dict[Access, int]] = field(default_factory=dict)
    last: dict[str, dict[Past, int]] = field(default_factory=dict)
    passed: int = NOTHING  # the widest barrier that is surely passed
    renewed: set[str] = field(default_factory=set)  # the tiles that are declared: what was before is of another one

    def then(self, later: Summary) -> None:
        """This, and `later` after it."""
        for array, entering in later.first.items():
            if array not in self.renewed:
                mine = self.first.setdefault(array, {})
                for access, waited in entering.items():
                    _add(mine, access, access, max(waited, self.passed))
        if later.passed or later.renewed:
            self.last = {
                array: past if not later.passed else _after_barrier(past, later.passed)
                for array, past in self.last.items()
                if array not in later.renewed
            }
        for array, left in later.last.items():
            mine_left = self.last.setdefault(array, {})
            for past, waited in left.items():
                _add(mine_left, past, past.access, waited)
        self.passed = max(self.passed, later.passed)
        self.renewed |= later.renewed


Known = TypeVar("Known", bound=Access | Past)


def _add(held: dict[Known, int], key: Known, access: Access, waited: int) -> None:
    """Notes an access, unless it is settled."""
    if waited < access.settled:
        held[key] = min(waited, held.get(key, waited))


def _after_barrier(last: dict[Past, int], met: int) -> dict[Past, int]:
    """The accesses as they are seen from behind a barrier."""
    behind: dict[Past, int] = {}
    for past, waited in last.items():
        _add(behind, past, past.access, max(waited, met))
    return behind


def in_another(access: Access, past: Past) -> bool:
    """Whether conditions leave either to another iteration of a loop that nobody shares, and it is still the same one:
    then they do not both come to pass in it, and those of others meet as the loop is put together with itself."""
    here = [(each, number) for each, number in past.access.only if each not in past.stale]
    return any(each == other and number != theirs for each, number in access.only for other, theirs in here)


def covered(access: Access, past: Past) -> tuple[set[str], set[str]]:
    """The bound loops around either whose iteration is the same where the two accesses meet in an element."""
    same = {str(variable) for variable, _ in access.fixed & past.access.fixed}
    mine, theirs = set(same), set(same)
    if len(access.places) == len(past.access.places):
        for place, match in zip(access.places, past.access.places, strict=True):
            if place.common == match.common and not match.changes & past.stale:
                mine |= place.owners
                theirs |= match.owners
    return mine, theirs
