"""Popular rows: an inspector that finds which rows of a table are gathered most often, for the L2 cache to keep them.

Rows that a graph's nodes gather differ in how often by orders of magnitude, and a cache that keeps what was read last
gives up a row that thousands of elements read for one that a single element does. When the graph is given, rows are
counted by how often its elements name them, as many of the most popular ones are chosen as the cache has room for, and
the index array is copied with a mark: that of a popular row as it is, that of another row i as -1 - i. The kernel that
gathers reads the copy, and loads each row as the cache is to treat it.

Source: an inspector as cuKE's (§VI), which finds what is read again, here for a cache that nobody addresses.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from explorer.compiler.decisions import Decision
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.kernels import KeptLoad, ScheduledKernel
from explorer.compiler.ir.node import Extent, Origin, made, walk
from explorer.compiler.ir.set_maps import holds_sorted
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.edit.queries import edit, names_of, scheduled
from explorer.compiler.schedule.inspect import facts
from explorer.compiler.schedule.inspect.inspection import Inspection
from explorer.compiler.schedule.lanes.mapping import Unfit

POPULAR = Decision(
    name="popular",
    domain=(False, True),
    why="whether an inspector marks the rows that are gathered most often, for the L2 cache to keep them",
    source="an inspector as cuKE's (§VI); off, for it gains on tables many times as large as the cache, and costs time",
)
SHARE = Decision(
    name="share",
    domain=(10, 25, 40, 50, 60, 75),
    why="how much of the L2 cache is for the rows that it is asked to keep, in percent",
    source="half; with 12 of an H100's 50 MB SpMM takes 1.5 % longer on a table of 1 GB, with 20, 25 or 30 the same",
)
USUAL_SHARE = 50
LONGEST = 4096
"""Rows that are gathered as often as this, less one, or more often count as equally popular."""
GROUP = 64
GROUPS = LONGEST // GROUP
"""Numbers of times that are added up together, and how many such groups there are."""
THREADS, MOST_THREADS = 256, 1024


@dataclass(frozen=True)
class _Gathers:
    """The tables whose rows a kernel gathers at an index array's elements, which it stages in a tile."""

    index: loops.Buffer
    tile: str
    tables: tuple[loops.Buffer, ...]

    @property
    def rows(self) -> Extent:
        """How many rows each of the tables has."""
        return self.tables[0].extents[0]


def with_popular(kernel: ScheduledKernel, report: Report) -> tuple[ScheduledKernel, ...]:
    """The kernel, behind the inspector that marks popular rows for it where the option says so and it can be."""
    if not report.choose(kernel.name, POPULAR, False):
        return (kernel,)
    try:
        gathers = _gathers_of(kernel, report.options.edges)
    except Unfit as reason:
        report.settle(kernel.name, POPULAR, False)
        report.refused(f"no rows that {kernel.name} gathers are marked as popular: {reason}")
        return (kernel,)
    found = _keep_popular(kernel, gathers, report, report.number(kernel.name, SHARE, USUAL_SHARE))
    report.did(f"{kernel.name} has popular rows kept in the L2 cache, marked once for a graph")
    return found


def _keep_popular(
    kernel: ScheduledKernel, gathers: _Gathers, report: Report, share: int
) -> tuple[ScheduledKernel, ...]:
    """The inspector's kernels, and the kernel that reads what they wrote, for so many percent of the cache."""
    room = (
        report.target.l2_bytes
        * share
        // 100
        // sum(table.element_bytes * prod(map(kernel.size, table.extents[1:])) for table in gathers.tables)
    )
    origin = made(f"mark the popular rows of {gathers.index.name}", "schedule", kernel.origin)
    inspector = _Inspector.of_gathers(kernel.name, gathers, max(1, room), origin)
    tables = ", ".join(table.name for table in gathers.tables)
    line = f"keep rows of {tables} in the L2 cache: those that {gathers.index.name} names most often, at most {room:,}"
    return *inspector.kernels(), scheduled(_reading(kernel, gathers, inspector.of["marked"]), line)


def _gathers_of(kernel: ScheduledKernel, edges: str) -> _Gathers:
    """The one index array that is staged whole; raises Unfit where there is none, or it is read for more than rows.

    Those that ascend name a row many times in turn, while it is in a nearer cache anyway."""
    loads = [node for node in walk(kernel) if isinstance(node, loops.Load)]
    stores = {
        str(node.operands[0]): node.target
        for node in walk(kernel)
        if isinstance(node, loops.Store) and node.function == "copy"
    }
    tiles = {node.name for node in walk(kernel) if isinstance(node, kernels.Tile) and node.memory == "shared"}
    indices = {buffer.name: buffer for buffer in kernel.buffers if buffer.type == "i32"}
    staged = {load.buffer: stores[load.result] for load in loads if stores.get(load.result) in tiles}
    found = {name: tile for name, tile in staged.items() if name in indices and not holds_sorted(indices[name], edges)}
    if len(found) != 1:
        raise Unfit("it does not stage one index array")
    ((index, tile),) = found.items()
    named = {load.result for load in loads if load.buffer == tile}
    tables = [b for b in kernel.buffers if any(x.buffer == b.name and x.indices[0] in named for x in loads)]
    used = [node for node in walk(kernel) if named.intersection(kernels.reads_of(node))]
    once = sum(load.buffer == index for load in loads) == 1
    fetched = {load.result for load in loads if load.buffer == index}
    beside = [node for node in walk(kernel) if fetched.intersection(kernels.reads_of(node)) and not _fills(node, tile)]
    if not once or beside or not tables or any(not _is_row(node, named) for node in used):
        raise Unfit(f"what it reads of {index} is not only which row it gathers")
    if any(table.type != "f32" or table.extents[0] != tables[0].extents[0] for table in tables):
        raise Unfit(f"{index} names rows of unlike tables")
    if any(isinstance(e, str) and e not in dict(kernel.sizes) for table in tables for e in table.extents[1:]):
        raise Unfit(f"{index} names only a part of which row it is")
    return _Gathers(indices[index], tile, tuple(tables))


def _is_row(node: object, named: set[str]) -> bool:
    """Whether a statement reads names only to pick a row of an array."""
    return isinstance(node, loops.Load) and named.isdisjoint(map(str, node.indices[1:]))


def _fills(node: object, tile: str) -> bool:
    """Whether a statement stores in the tile."""
    return isinstance(node, loops.Store) and node.target == tile


def _reading(kernel: ScheduledKernel, gathers: _Gathers, marked: loops.Buffer) -> ScheduledKernel:
    """The kernel with the marked copy in the place of the index array, and each row loaded as its mark says."""
    names = names_of(kernel)
    marks: dict[str, str] = {}

    def change(statement: kernels.Statement) -> tuple[kernels.Statement, ...]:
        if not isinstance(statement, loops.Load):
            return (statement,)
        if statement.buffer == gathers.index.name:
            return (replace(statement, buffer=marked.name),)
        load = statement
        if load.buffer == gathers.tile:
            mark = marks[load.result] = names.new("mark")
            steps = Steps(names, load.origin)
            steps.add(replace(load, result=mark))
            other = steps.index("other", "sub", -1, mark)
            steps.add(loops.Index(result=load.result, function="max", operands=(mark, other), origin=load.origin))
            return steps.body
        kept = marks.get(str(load.indices[0]))
        if kept is None:
            return (load,)
        return (KeptLoad(result=load.result, buffer=load.buffer, indices=load.indices, kept=kept, origin=load.origin),)

    exchanged = {gathers.index.name: marked}
    body = edit(kernel.body, change)
    return replace(
        kernel,
        body=body,
        facts=(*kernel.facts, *(fact for row in marks for fact in facts.of_marked(row, gathers.rows))),
        buffers=tuple(exchanged.get(buffer.name, buffer) for buffer in kernel.buffers),
        streamed=tuple(exchanged[name].name if name in exchanged else name for name in kernel.streamed),
    )


@dataclass(frozen=True)
class _Inspector(Inspection):
    """How often each row is named (`gathered`), how often at least a popular one is, `room` of them at most (`least`),
    and the `marked` copy."""

    room: int

    @classmethod
    def of_gathers(cls, name: str, gathers: _Gathers, room: int, origin: Origin) -> _Inspector:
        """The inspector of a kernel of this name."""
        extents = {"gathered": gathers.rows, "least": 1, "marked": gathers.index.extents[0]}
        of = {
            held: loops.Buffer(name=f"{name}_{held}", kind="index", extents=(extent,), origin=origin)
            for held, extent in extents.items()
        }
        return cls(name, (gathers.index,), of, (), True, origin, room)

    @property
    def index(self) -> str:
        """The array whose elements name rows."""
        return self.given[0].name

    @property
    def rows(self) -> Extent:
        """How many rows there are."""
        return self.of["gathered"].extents[0]

    @property
    def elements(self) -> Extent:
        """How many elements name one."""
        return self.given[0].extents[0]

    def kernels(self) -> tuple[ScheduledKernel, ...]:
        """The inspector's kernels in order, which run once for a graph."""
        return self._clear(), self._count(), self._choose(), self._mark()

    def _clear(self) -> ScheduledKernel:
        steps = self.steps()
        with steps.each("i", self.rows, THREADS) as row:
            steps.store(self["gathered"], [row], 0)
        return self.kernel("clear", steps, THREADS, f"clear how often each of {self.rows} is gathered")

    def _count(self) -> ScheduledKernel:
        steps = self.steps()
        with steps.each("z", self.elements, THREADS) as element:
            steps.atomic(self["gathered"], [steps.load("i", self.index, element)], 1)
        line = f"count how often {self.index} names each of {self.rows}"
        return self.kernel("count", steps, THREADS, line)

    def _choose(self) -> ScheduledKernel:
        """One block, so that its threads can wait for one another: rows by how often they are named, and the smallest
        number of times that no more than `room` rows are named at least."""
        steps = self.steps()
        with steps.loop("block", 1, "block"):
            named = steps.tile("named", [LONGEST], "shared", type="i32")
            some = steps.tile("some", [GROUPS + 1], "shared", type="i32")
            above = steps.tile("above", [LONGEST], "shared", type="i32")
            for tile, size in ((named, LONGEST), (some, GROUPS + 1), (above, LONGEST)):
                with steps.loop("n", size, "thread") as each:
                    steps.store(tile, [each], 0)
            with steps.loop("k", 1, "thread") as only:
                steps.store(self["least"], [only], 1)
            steps.barrier()
            with steps.loop("i", self.rows, "thread", unroll=4) as row:
                times = steps.index("times", "min", steps.load("n", self["gathered"], row), LONGEST - 1)
                steps.atomic(named, [times], 1)
                steps.atomic(some, [steps.index("g", "div", times, GROUP)], 1)
            steps.barrier()
            later = self._sums_of_groups(steps, some)
            steps.barrier()
            self._raise_least(steps, named, later, above)
        line = f"find how often the {self.room:,} most popular rows are named at least, in one block"
        return self.kernel("choose", steps, MOST_THREADS, line)

    def _sums_of_groups(self, steps: Steps, some: str) -> str:
        """How many rows are named as often as in a group of numbers of times, or more often."""
        later = steps.tile("later", [GROUPS + 1], "shared", type="i32")
        with steps.loop("g", GROUPS + 1, "thread") as group:
            steps.store(later, [group], 0)
            with steps.segment("more", group, GROUPS + 1, 1) as more:
                steps.increase(later, group, steps.load("rows", some, more))
        return later

    def _raise_least(self, steps: Steps, named: str, later: str, above: str) -> None:
        """By 1 for each number of times, from 1 on, that more than `room` rows are named at least; the last but for
        one. Within a group rows are added up only where the group decides."""
        with steps.loop("n", LONGEST, "thread") as number, steps.where(1, "<=", number):
            group = steps.index("g", "div", number, GROUP)
            following = steps.index("next", "add", group, 1)
            with steps.where(number, "<", LONGEST - 1):
                behind, whole = steps.load("behind", later, following), steps.load("whole", later, group)
                with steps.where(self.room, "<", behind):
                    steps.atomic(self["least"], [0], 1)
                with steps.where(behind, "<=", self.room), steps.where(self.room, "<", whole):
                    end = steps.index("end", "mul", following, GROUP)
                    steps.store(above, [number], behind)
                    with steps.segment("more", number, end, 1) as more:
                        steps.increase(above, number, steps.load("rows", named, more))
                    with steps.where(self.room, "<", steps.load("rows", above, number)):
                        steps.atomic(self["least"], [0], 1)

    def _mark(self) -> ScheduledKernel:
        steps = self.steps()
        with steps.each("z", self.elements, THREADS) as element:
            row = steps.load("i", self.index, element)
            times, least = steps.load("n", self["gathered"], row), steps.load("least", self["least"], 0)
            with steps.where(least, "<=", times):
                steps.store(self["marked"], [element], row)
            with steps.where(times, "<", least):
                steps.store(self["marked"], [element], steps.index("mark", "sub", -1, row))
        line = f"copy {self.index}, i as -1 - i where its row is not popular"
        return self.kernel("mark", steps, THREADS, line)
