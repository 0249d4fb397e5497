"""Lanes and vectors: how many lanes share a row, and how many of its vectors each has, by the options.

G-Sparse §III-B-c, 1-D stride register tiling: a lane has kNRegTile vectors of a row, as far apart as there are lanes,
so that lanes side by side read memory side by side, and what an element is weighed with is in a register for all.
"""

from __future__ import annotations

from explorer.compiler.decisions import Decision, Value
from explorer.compiler.options import LANE_WIDTHS
from explorer.compiler.passes.stored.storage import SECTOR
from explorer.compiler.report import Report
from explorer.compiler.schedule.lanes.mapping import LANES, Nest, Spread, Unfit, heads_of, spread_rows

WIDTHS = (1, *LANE_WIDTHS[1:])
"""Lanes that may share a row: one has it alone where it is a number."""
ROW_LANES = Decision(
    name="lanes",
    domain=WIDTHS,
    why="lanes that share a row (kLaneWidth): more read more of it side by side, fewer have more rows at a time",
    source="G-Sparse §III-B-c; usually as many as a row has vectors, up to a warp, but for short segments as few as"
    " have 16 floats to wait for each, and where a lane keeps nothing no more than a line of memory needs",
)
WAITED = 16
"""Floats of gathered rows that a lane may wait for before more lanes share a row. On an H200, bags of one row of 128
take 38 us by 8 lanes each and 45 by 32, of 48 20 by 4 and 25 by 16; nonzeros of 41 columns 130 by 16 and 164 by 32."""


def fewest_waiting(nest: Nest, loads: int) -> int:
    """As few lanes as leave each no more than WAITED floats of so many elements' rows, and read whole sectors side by
    side: what they do not share, a warp has more rows for, which wait at the same time."""
    step, longest = nest.vectors
    lanes = min(LANES, 1 << (longest - 1).bit_length())
    if nest.heads is not None:
        return LANES
    while lanes * step > SECTOR and loads * step * -(-longest // (lanes // 2)) <= WAITED:
        lanes //= 2
    return lanes


def lanes_for(nest: Nest, report: Report, usual: int = LANES) -> int:
    """How many lanes at most share the rows of an element: as many as are asked for, or, where those have too few
    registers for the rows, the fewest that have enough."""
    asked = _asked(nest, report, usual)
    wider = (lanes for lanes in LANE_WIDTHS if asked < lanes)
    return next((lanes for lanes in (asked, *wider) if _fit(nest, lanes)), asked)


def fitting_lanes(nest: Nest) -> tuple[Value, ...]:
    """The numbers of lanes that a row's vectors leave."""
    most = _most(nest)
    return tuple(lanes for lanes in WIDTHS if min(2, most) <= lanes <= most and _fit(nest, lanes)) or (
        min(most, LANES),
    )


def _most(nest: Nest) -> int:
    """As many lanes as have a vector of a row each, for all heads."""
    return heads_of(nest) << (nest.vectors[1] - 1).bit_length()


def _asked(nest: Nest, report: Report, usual: int) -> int:
    """What is chosen: `lanes`, or, by the option, as many as leave each no more than `lane_vectors`, or the `usual`
    number."""
    lanes = report.number(nest.kernel.name, ROW_LANES, usual, lambda: fitting_lanes(nest))
    vectors = lane_vectors(report)
    lanes = max(lanes, min(2, _most(nest)))
    if not vectors:
        return lanes
    most = lanes if report.wanted(nest.kernel.name, ROW_LANES) else LANES
    wanted = -(-nest.vectors[1] // vectors)
    return min(most, heads_of(nest) << (wanted - 1).bit_length())


def lane_vectors(report: Report) -> int:
    """How many vectors of a row a lane is to have, by the option: another way to say how many lanes, and columns."""
    return int(report.option("lane_vectors"))


def _fit(nest: Nest, lanes: int) -> bool:
    """Whether so many lanes have registers for the rows, and are one at least for each head."""
    try:
        spread_rows(nest, lanes)
    except Unfit:
        return False
    return True


def say_lanes(nest: Nest, spread: Spread, report: Report) -> None:
    """What was asked of lanes and does not come about: a row of few vectors has no more lanes, and one of many leaves
    more vectors to each; rows for which lanes have too few registers, or that have heads, take more lanes."""
    name, vectors = nest.kernel.name, lane_vectors(report)
    asked, lanes = _asked(nest, report, LANES), int(report.wanted(name, ROW_LANES) or 0)
    step, longest = nest.vectors
    row = f"a row of {longest} " + (f"vectors of {step}" if step > 1 else "numbers")
    shared = spread.width * spread.heads
    report.settle(name, ROW_LANES, shared)
    if (lanes or vectors) and asked < shared:
        option = f"lanes={lanes}" if asked == lanes else f"lane_vectors={vectors}"
        report.refused(f"{name}: {option}: {shared} lanes share {row}, for {asked} have too few registers")
        return
    if lanes > shared:
        each = f", for each to have {vectors}" if vectors else ""
        report.refused(f"{name}: lanes={lanes}: {shared} share {row}{each}")
    if vectors and spread.rounds > vectors:
        reason = f"a lane has {spread.rounds}, for {spread.width} lanes share {row}"
        report.refused(f"{name}: lane_vectors={vectors}: {reason}")
