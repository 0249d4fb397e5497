"""Lanes and vectors: how many lanes share a row, and how many of its vectors each has, by the options.

G-Sparse §III-B-c, 1-D stride register tiling: a lane has kNRegTile vectors of a row, as far apart as there are lanes,
so that lanes side by side read memory side by side, and what an element is weighed with is in a register for all.
"""

from __future__ import annotations

from explorer.compiler.options import LANE_WIDTHS
from explorer.compiler.report import Report
from explorer.compiler.schedule.lanes.mapping import LANES, Nest, Spread, Unfit, heads_of, spread_rows, vectors_of


def lanes_for(nest: Nest, report: Report, usual: int = LANES) -> int:
    """How many lanes at most share the rows of an element: as many as are asked for, or, where those have too few
    registers for the rows, the fewest that have enough."""
    asked = _asked(nest, report, usual)
    wider = (lanes for lanes in LANE_WIDTHS if asked < lanes)
    return next((lanes for lanes in (asked, *wider) if _fit(nest, lanes)), asked)


def _asked(nest: Nest, report: Report, usual: int) -> int:
    """What the options say: `lanes` or, without it, as many as leave each no more than `lane_vectors`, or the `usual`
    number."""
    most = report.options.lanes or LANES
    if not report.options.lane_vectors:
        return report.options.lanes or usual
    wanted = -(-vectors_of(nest)[1] // report.options.lane_vectors)
    return min(most, heads_of(nest) << (wanted - 1).bit_length())


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
    options, name = report.options, nest.kernel.name
    report.heeds("lanes", "lane_vectors")
    step, longest = vectors_of(nest)
    row = f"a row of {longest} " + (f"vectors of {step}" if step > 1 else "numbers")
    shared = spread.width * spread.heads
    asked = _asked(nest, report, LANES)
    if asked < shared:
        option = "lanes" if asked == options.lanes else "lane_vectors"
        value = getattr(options, option)
        report.refused(f"{name}: {option}={value}: {shared} lanes share {row}, for {asked} have too few registers")
        return
    if options.lanes > shared:
        each = f", for each to have {options.lane_vectors}" if options.lane_vectors else ""
        report.refused(f"{name}: lanes={options.lanes}: {shared} share {row}{each}")
    if options.lane_vectors and spread.rounds > options.lane_vectors:
        reason = f"a lane has {spread.rounds}, for {spread.width} lanes share {row}"
        report.refused(f"{name}: lane_vectors={options.lane_vectors}: {reason}")
