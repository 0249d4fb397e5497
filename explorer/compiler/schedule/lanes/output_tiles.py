"""Tiles of the output: the rows and the columns of it that a block computes.

G-Sparse §III-B and III-D: kMTile rows by kNTile columns. Columns of a row that sums do not join are computed apart, by
other blocks, which all read the row's elements.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.decisions import Decision, Value
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import Names, walk
from explorer.compiler.ir.statements import all_names, rename
from explorer.compiler.options import BLOCK_COLUMNS, BLOCK_ROWS
from explorer.compiler.report import Report
from explorer.compiler.schedule.lanes.mapping import LANES, Nest, Spread, Unfit
from explorer.compiler.schedule.lanes.registers import registers_of
from explorer.compiler.schedule.lanes.widths import ROW_LANES, fitting_lanes, lane_vectors
from explorer.compiler.target import BLOCK_THREADS

LEAST_COLUMNS = BLOCK_COLUMNS[1]
"""Columns of the narrowest tile."""
MOST_WARPS = BLOCK_THREADS // LANES
"""Warps of the largest block."""


COLUMNS = Decision(
    name="block_columns",
    domain=BLOCK_COLUMNS,
    why="columns of the output that a block computes (kNTile), 0 for all: fewer keep less of a row in registers, and"
    " have each element read as often as there are tiles",
    source="G-Sparse kNTile",
)
BLOCK = Decision(
    name="block_rows",
    domain=BLOCK_ROWS[1:],
    why="rows of the output, or dot products, of a block (kMTile): more warps wait for the longest of more rows",
    source="G-Sparse kMTile; eight warps, measured on an H100",
)


@dataclass(frozen=True)
class ColumnTiles:
    """The nest of one tile of columns, the variable that numbers the tiles, and how many there are."""

    nest: Nest
    variable: str
    count: int
    size: int

    @property
    def line(self) -> str:
        """What the schedule says of it."""
        whole = self.count * self.size
        return f"split columns: a block has kNTile = {self.size} of {whole}, bind {self.variable} to column"

    def around(self, warps: kernels.Statement) -> kernels.Statement:
        """The loop over the tiles around what a block does, which columns of blocks share."""
        return kernels.Loop(
            variable=self.variable, extent=self.count, body=(warps,), bind="column", origin=self.nest.loop.origin
        )


def column_tiles(nest: Nest, report: Report) -> ColumnTiles | None:
    """The nest in tiles of `block_columns`, or of as many as `lanes` lanes with `lane_vectors` vectors have, or the
    most below that of which a row is whole tiles; None where nobody asks for either, a row is no longer than that, or,
    as the report then says, it cannot be."""
    name, vectors, (step, longest) = nest.kernel.name, lane_vectors(report), nest.vectors
    columns = report.number(name, COLUMNS, 0, lambda: _fitting(nest))
    lanes = report.number(name, ROW_LANES, LANES, lambda: fitting_lanes(nest)) if vectors else 0
    asked = f"block_columns={columns}" if columns else f"lane_vectors={vectors}"
    wanted = columns or (0 if report.wanted(name, COLUMNS) == 0 else lanes * vectors * step)
    report.settle(name, COLUMNS, 0)
    if not wanted or longest * step <= wanted:
        if columns > longest * step:
            report.refused(f"{name}: {asked}: nothing, for a row has {longest * step}")
        return None
    sizes = [wanted >> halved for halved in range(wanted.bit_length()) if wanted >> halved >= LEAST_COLUMNS]
    size = next((size for size in sizes if step * longest % size == 0), wanted)
    try:
        made = _cut(nest, size)
        if size != wanted:
            report.refused(f"{name}: {asked}: {size} columns, for a row has {step * longest}")
        report.settle(name, COLUMNS, size)
        return made
    except Unfit as reason:
        report.refused(f"{name}: {asked}: nothing, for {reason}")
        return None


def _fitting(nest: Nest) -> tuple[Value, ...]:
    """The numbers of columns of which a row is whole tiles, where columns are apart; 0 is all of them."""
    step, longest = nest.vectors
    found: list[Value] = [0]
    for size in BLOCK_COLUMNS[1:]:
        if size < step * longest and step * longest % size == 0:
            try:
                _cut(nest, size)
            except Unfit:
                continue
            found.append(size)
    return tuple(found)


def _cut(nest: Nest, size: int) -> ColumnTiles:
    """The nest in tiles of so many columns; raises Unfit."""
    if nest.heads is not None:
        raise Unfit("its rows have heads")
    lengths = {nest.kernel.size(loop.extent) for loop in nest.row_loops}
    if len(lengths) != 1:
        raise Unfit("its rows are of unlike lengths")
    length = lengths.pop()
    if length % size:
        raise Unfit(f"rows of {length} columns are no whole tiles of {size}")
    _check_apart(nest)
    names = Names(all_names(nest.kernel))
    tile, first = names.new("tile"), names.new("column")
    start = loops.Index(result=first, function="mul", operands=(tile, size), origin=nest.loop.origin)
    cut = _Cut(nest, size, first, names)
    loop = replace(nest.loop, body=(start, *cut.body(nest.loop.body)))
    made = Nest(replace(nest.kernel, body=(loop,)), loop)
    return ColumnTiles(made, tile, length // size, size)


def _check_apart(nest: Nest) -> None:
    """Raises Unfit unless each column is computed by itself: what is of none, such as an element's weight, every tile
    computes for itself, in registers, but what is summed over columns, or stored once for all, is of no tile."""
    arrays = {buffer.name for buffer in nest.kernel.buffers}
    own = {id(child): loop.variable for loop in nest.row_loops for child in loop.body}
    for node in walk(nest.loop):
        if not isinstance(node, (loops.Store, loops.Accumulate)):
            continue
        if (id(node) in own or node.target in arrays) and node.indices[-1:] != (own.get(id(node)),):
            raise Unfit(f"{loops.print_statement(node)} is of all columns")


@dataclass(frozen=True)
class _Cut:
    """Statements of a nest as those of one tile, of `size` columns from `first` on."""

    nest: Nest
    size: int
    first: str
    names: Names

    def body(self, body: tuple[loops.Statement, ...]) -> tuple[loops.Statement, ...]:
        """A body with its rows and the loops over them in the tile alone."""
        return tuple(self._statement(statement) for statement in body)

    def _statement(self, statement: loops.Statement) -> loops.Statement:
        match statement:
            case loops.Row():
                return replace(statement, extents=(*statement.extents[:-1], self.size))
            case loops.For() if self.nest.over_row(statement):
                return self._over_row(statement)
            case loops.For():
                return replace(statement, body=self.body(statement.body))
        return statement

    def _over_row(self, loop: loops.For) -> loops.For:
        """`for d in 0..D` as `for x in 0..size { d = first + x; ... }`, in which registers are numbered by x."""
        inside = self.names.new("x")
        place = loops.Index(result=loop.variable, function="add", operands=(self.first, inside), origin=loop.origin)
        body = tuple(self._in_registers(child, {loop.variable: inside}) for child in loop.body)
        return replace(loop, variable=inside, extent=self.size, body=(place, *body))

    def _in_registers(self, statement: loops.Statement, names: dict[str, str]) -> loops.Statement:
        """An access to a row, in a lane's registers, at its place in the tile."""
        rows = self.nest.rows
        if isinstance(statement, loops.Load) and statement.buffer in rows:
            return rename(statement, names)
        if isinstance(statement, (loops.Store, loops.Accumulate)) and statement.target in rows:
            return rename(statement, names)
        return statement


def warps_for(name: str, groups: int, usual: int, report: Report) -> int:
    """How many warps a block has, where each has `groups` rows: those that make `block_rows`, or come
    nearest to it, or the `usual` number. All are powers of 2."""
    rows = report.number(name, BLOCK, usual * groups, lambda: _fitting_rows(groups))
    warps = max(1, min(rows // groups, MOST_WARPS))
    many = f"has {groups} rows at a time" if rows < groups else f"has {groups} of them, and a block {MOST_WARPS} warps"
    report.settle(name, BLOCK, warps * groups, f"a warp {many}")
    return warps


def _fitting_rows(groups: int) -> tuple[Value, ...]:
    """The rows of blocks of 1, 2, 4 warps and so on."""
    return tuple(rows for rows in BLOCK_ROWS[1:] if groups <= rows <= groups * MOST_WARPS)


def check_registers(kernel: kernels.ScheduledKernel, spread: Spread, report: Report) -> None:
    """Says what a block of many warps costs, where they have too few registers for their tiles."""
    needed, there = registers_of(kernel, spread), report.target.registers // kernel.threads
    rows = report.wanted(kernel.name, BLOCK)
    if rows and needed > there:
        report.did(
            f"{kernel.name}: block_rows={rows}: its tiles do not stay in registers, for a thread"
            f" needs {needed}, and a block of {kernel.threads:,} threads leaves {there}"
        )
