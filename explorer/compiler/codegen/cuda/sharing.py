"""Which threads do which iterations: the place of a bound loop among the loops of its level, in mixed radix."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.kernels import Count, Loop, ScheduledKernel, Statement, Where
from explorer.compiler.ir.node import Extent
from explorer.compiler.target import WARP

THREAD_LEVELS = ("warp", "lane", "thread")


@dataclass(frozen=True)
class Share:
    """A loop shared by the members of a level: a member has position `member / stride % width`, and iterations
    `position`, `position + width`, ... `iterations` is their number, None where only a run knows it."""

    loop: Loop
    members: int
    stride: int
    width: int
    iterations: int | None

    @property
    def top(self) -> int:
        """How many neighbouring members have an iteration each, at least in part."""
        return self.stride * self.width

    @property
    def rounds(self) -> int | None:
        """How often a member goes round."""
        return None if self.iterations is None else -(-self.iterations // self.width)

    @property
    def position(self) -> str:
        """The member's first iteration, in CUDA: `lane / 8`."""
        divided = f"{self.loop.bind} / {self.stride}" if self.stride > 1 else self.loop.bind
        return f"{divided} % {self.width}" if self.top < self.members else divided


def share_loops(kernel: ScheduledKernel) -> dict[str, Share]:
    """The loops over warps, lanes or threads, by variable."""
    members = {"warp": max(1, kernel.threads // WARP), "lane": WARP, "thread": kernel.threads}
    shares: dict[str, Share] = {}
    for level in THREAD_LEVELS:
        for loop in _outermost(kernel.body, level):
            _share(kernel, loop, members[level], 1, shares, members[level])
    return shares


def iterations_of(kernel: ScheduledKernel, loop: Loop) -> int | None:
    """How many iterations a loop has, where that is known when the kernel is compiled."""
    lower, upper = static_number(kernel, loop.lower), static_number(kernel, loop.extent)
    return None if lower is None or upper is None else -(-(upper - lower) // loop.step)


def static_number(kernel: ScheduledKernel, extent: Extent | Count) -> int | None:
    """The number that a bound stands for, where it is known when the kernel is compiled."""
    if isinstance(extent, Count):
        return None
    return dict(kernel.sizes).get(extent) if isinstance(extent, str) else int(extent)


def _outermost(body: tuple[Statement, ...], level: str) -> Iterator[Loop]:
    """The loops of a level that no other of that level is around."""
    for statement in body:
        if isinstance(statement, Loop) and statement.bind == level:
            yield statement
        elif isinstance(statement, (Loop, Where)):
            yield from _outermost(statement.body, level)


def _share(kernel: ScheduledKernel, loop: Loop, members: int, outer: int, shares: dict[str, Share], free: int) -> Share:
    """Shares a loop among `free` members at most, those inside it first; `outer` iterations are around it."""
    iterations = iterations_of(kernel, loop)
    around = outer * min(iterations or 1, members)
    inner = [_share(kernel, child, members, around, shares, free) for child in _outermost(loop.body, loop.bind)]
    stride = loop.apart or max((share.top for share in inner), default=1)
    left = max(1, free // stride)
    width = loop.width or left
    if not loop.width and outer > 1:
        wanted = max(1, left // outer) if iterations is None else iterations
        width = next(divisor for divisor in range(min(wanted, left), left + 1) if left % divisor == 0)
    shares[loop.variable] = Share(loop, members, stride, width, iterations)
    return shares[loop.variable]
