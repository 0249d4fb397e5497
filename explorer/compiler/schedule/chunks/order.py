"""Edge reordering: the edges of a group of chunks sorted by what they chose, in shared memory (cuKE §VI-B).

A group is p chunks of C edges. Each block sorts all of its group, and takes one of the chunks: sorting p times costs
less than leaving that many multiprocessors without work, and blocks need not wait for one another. Runs of C edges are
sorted by counting, and then merged, two by two, log2(p) times. Nothing but the edges' numbers moves, so results are
stored where they belong.
"""

from __future__ import annotations

from explorer.compiler.ir.node import Extent
from explorer.compiler.schedule.chunks.inspector import rank
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.inspect import facts


def sort_group(
    steps: Steps, key_of: tuple[str, int], first: Extent, edges: tuple[int, int], rows: Extent, behind: Extent
) -> str:
    """Writes the sorting of a group's edges, the batch's from `first` on; gives the tile with their numbers in order.

    `key_of` is the index array, and how many edges next to each other have one element of it; `edges` are C and p;
    `rows` is how many edges there are, and `behind` an index that is above all of them, by which places that have no
    edge come last."""
    (array, triple), (run, runs) = key_of, edges
    size = run * runs
    chosen = steps.tile(f"{array}_chosen", [size], "shared", type="i32")
    keys = steps.tile(f"{array}_keys", [size], "shared", type="i32")
    order = steps.tile("order", [size], "shared", type="i32")
    with steps.loop("i", size, "thread") as place:
        edge = steps.index("edge", "add", first, place)
        there = steps.index("there", "min", edge, steps.index("last", "sub", rows, 1))
        key = steps.load("key", array, steps.index("triple", "div", there, triple))
        is_edge = steps.index("is_edge", "less", edge, rows)
        steps.store(chosen, [place], steps.select("key", is_edge, key, behind))
    steps.barrier()
    with steps.loop("i", size, "thread") as place:
        begin = steps.index("begin", "mul", steps.index("run", "div", place, run), run)
        key = steps.load("key", chosen, place)
        others = chosen, (), (begin, steps.index("end", "add", begin, run))
        goes = steps.index("goes", "add", begin, rank(steps, others, key, place, falling=False))
        steps.know(facts.of_rank(str(goes), size))
        steps.store(keys, [goes], key)
        steps.store(order, [goes], steps.index("edge", "add", first, place))
    steps.barrier()
    if runs > 1:
        _merge_runs(steps, keys, order, edges)
    return order


def _merge_runs(steps: Steps, keys: str, order: str, edges: tuple[int, int]) -> None:
    """Merges runs two by two until there is one: each edge's place is its own in its run, and how many of the other
    run come before it."""
    run, runs = edges
    size = run * runs
    length = steps.tile("run_length", [1], "register", type="i32")
    held, kept, places = (steps.tile(hint, [size], "register", type="i32") for hint in ("held", "kept", "place"))
    steps.store(length, [0], run)
    with steps.loop("round", (runs - 1).bit_length()):
        width = steps.load("width", length, 0)
        with steps.loop("i", size, "thread") as place:
            key, edge = steps.load("key", keys, place), steps.load("edge", order, place)
            steps.store(held, [place], key)
            steps.store(kept, [place], edge)
            steps.store(places, [place], _merged_place(steps, keys, size, (place, key, width)))
        steps.barrier()
        with steps.loop("i", size, "thread") as place:
            goes = steps.load("goes", places, place)
            steps.know(facts.of_rank(goes, size))
            steps.store(keys, [goes], steps.load("key", held, place))
            steps.store(order, [goes], steps.load("edge", kept, place))
        steps.barrier()
        steps.store(length, [0], steps.index("width", "mul", width, 2))


def _merged_place(steps: Steps, keys: str, size: int, at: tuple[Extent, Extent, Extent]) -> Extent:
    """Where the key of a place goes when its run of some width is merged with its neighbour; of equal ones, the first
    run's do. There are `size` keys."""
    place, key, width = at
    number = steps.index("run", "div", place, width)
    odd = steps.index("odd", "mod", number, 2)
    own = steps.index("begin", "mul", number, width)
    both = steps.index("both", "mul", steps.index("even", "sub", number, odd), width)
    begin = steps.select("begin", odd, both, steps.index("other", "add", both, width))
    end = steps.index("end", "add", begin, width)
    steps.know(facts.of_run(begin, end, size))
    most = steps.select("most", odd, key, steps.index("below", "sub", key, 1))
    last = steps.search("last", keys, most, end, begin)
    before = steps.index("before", "sub", steps.index("past", "add", last, 1), begin)
    inside = steps.index("inside", "sub", place, own)
    return steps.index("goes", "add", steps.index("goes", "add", both, inside), before)
