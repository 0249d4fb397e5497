"""Sums over segments and dot products at nonzeros, scheduled by hand."""

from __future__ import annotations

from explorer.compiler.ir.kernels import Count, Loop, ScheduledKernel
from tests.compiler.codegen.kernels import accumulate, accumulator, buffer, index, load, store
from tests.compiler.codegen.scheduled import atomic, loop, reduce, scheduled, search, where


def segment_sum(size: int, step: int, lanes: int) -> ScheduledKernel:
    """Sums of gathered rows, each in registers, some lanes a row."""
    rows = 32 // lanes
    return scheduled(
        "Sum",
        {"D": size},
        [
            buffer("index", "ptr", "N1"),
            buffer("index", "col", "Z"),
            buffer("param", "X", "M", "D"),
            buffer("output", "out", "N", "D"),
        ],
        128,
        loop(
            "c",
            Count((("N", 4 * rows),)),
            loop(
                "w",
                4,
                loop(
                    "q",
                    rows,
                    *(index("a", "mul", "c", 4), index("a1", "add", "a", "w")),
                    *(index("a2", "mul", "a1", rows), index("n", "add", "a2", "q")),
                    where(
                        "n",
                        "<",
                        "N",
                        *(load("begin", "ptr", "n"), index("n1", "add", "n", 1), load("end", "ptr", "n1")),
                        loop(
                            "d",
                            "D",
                            accumulator("s"),
                            loop(
                                "p",
                                "end",
                                *(load("j", "col", "p"), load("x", "X", "j", "d"), accumulate("s", "copy", "x")),
                                lower="begin",
                                unroll=4,
                            ),
                            store("out", ("n", "d"), "unless_empty", "s", "begin", "end"),
                            bind="lane",
                            step=step,
                            width=lanes,
                        ),
                    ),
                    bind="lane",
                ),
                bind="warp",
            ),
            bind="block",
        ),
    )


def sampled_dots(size: int, lanes: int) -> ScheduledKernel:
    """Dot products of gathered rows: groups of lanes take a nonzero each, and part where there are none left."""
    groups = 32 // lanes
    return scheduled(
        "Dots",
        {"D": size},
        [
            buffer("index", "row", "Z"),
            buffer("index", "col", "Z"),
            buffer("param", "A", "N", "D"),
            buffer("param", "X", "M", "D"),
            buffer("output", "out", "Z"),
        ],
        128,
        loop(
            "c",
            Count((("Z", 256),)),
            loop(
                "w",
                4,
                *(index("a", "mul", "c", 4), index("a1", "add", "a", "w"), index("begin", "mul", "a1", 64)),
                *(index("a2", "add", "begin", 64), index("end", "min", "a2", "Z")),
                loop(
                    "z",
                    "end",
                    *(load("i", "row", "z"), load("j", "col", "z"), accumulator("s")),
                    loop(
                        "d",
                        "D",
                        *(load("x", "A", "i", "d"), load("x1", "X", "j", "d"), accumulate("s", "mul", "x", "x1")),
                        bind="lane",
                        step=4,
                        width=lanes,
                        unroll=0,
                    ),
                    reduce("s", lanes),
                    store("out", ("z",), "copy", "s"),
                    lower="begin",
                    bind="lane",
                    width=groups,
                ),
                bind="warp",
            ),
            bind="block",
        ),
    )


def nonzeros_in_chunks(size: int, step: int) -> ScheduledKernel:
    """A warp walks a chunk of nonzeros wherever rows begin: complete sums are added atomically."""
    return scheduled(
        "SpMM",
        {"D": size},
        [
            buffer("index", "ptr", "N1"),
            buffer("index", "col", "Z"),
            buffer("param", "weight", "Z"),
            buffer("param", "X", "M", "D"),
            buffer("output", "out", "N", "D"),
        ],
        128,
        loop(
            "c",
            "chunks",
            loop(
                "w",
                4,
                *(index("a", "mul", "c", 4), index("a1", "add", "a", "w"), index("begin", "mul", "a1", 256)),
                where(
                    "begin",
                    "<",
                    "Z",
                    *(index("a2", "add", "begin", 256), index("end", "min", "a2", "Z")),
                    search("first", "ptr", "begin", 0, "N"),
                    *(
                        index("a3", "sub", "end", 1),
                        search("last", "ptr", "a3", 0, "N"),
                        index("stop", "add", "last", 1),
                    ),
                    loop(
                        "n",
                        "stop",
                        *(load("b0", "ptr", "n"), index("n2", "add", "n", 1), load("e0", "ptr", "n2")),
                        *(index("b1", "max", "b0", "begin"), index("e1", "min", "e0", "end")),
                        loop(
                            "d",
                            "D",
                            accumulator("s"),
                            _weighed_rows("z", "b1", "e1"),
                            atomic("out", ("n", "d"), "s"),
                            bind="lane",
                            step=step,
                        ),
                        lower="first",
                    ),
                ),
                bind="warp",
            ),
            bind="block",
        ),
        counts=(("chunks", Count((("Z", 1024),))),),
    )


def _weighed_rows(element: str, first: str, last: str) -> Loop:
    """`s += weight[z] * X[col[z], d]` for the elements of a range."""
    loads = (load("j", "col", element), load("v", "weight", element), load("x", "X", "j", "d"))
    return loop(element, last, *loads, accumulate("s", "mul", "v", "x"), lower=first, unroll=4)
