"""Scheduled kernels written by hand, in the forms that the schedules make."""

from __future__ import annotations

from typing import Literal

from explorer.compiler.ir.kernels import (
    AtomicAccumulate,
    Barrier,
    Count,
    ElementType,
    Level,
    Loop,
    Memory,
    Reduce,
    ScheduledKernel,
    Search,
    Statement,
    Tile,
    Where,
)
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Atom, Extent
from tests.compiler.codegen.kernels import accumulate, accumulator, buffer, compute, index, load, origin, store


def loop(
    variable: str,
    extent: Extent | Count,
    *body: Statement,
    bind: Level = "",
    lower: Extent = 0,
    step: int = 1,
    unroll: int = 1,
    width: int = 0,
) -> Loop:
    return Loop(
        origin=origin(),
        variable=variable,
        extent=extent,
        body=body,
        lower=lower,
        step=step,
        bind=bind,
        unroll=unroll,
        width=width,
    )


def where(left: Atom, comparison: str, right: Atom, *body: Statement) -> Where:
    return Where(origin=origin(), left=left, comparison=comparison, right=right, body=body)


def tile(memory: Memory, name: str, *extents: Extent, padding: int = 0, kind: ElementType = "f32") -> Tile:
    return Tile(origin=origin(), name=name, extents=extents, memory=memory, padding=padding, type=kind)


def reduce(target: str, lanes: int = 32, reduction: str = "sum", apart: int = 1) -> Reduce:
    return Reduce(origin=origin(), target=target, reduction=reduction, lanes=lanes, apart=apart)


def barrier(level: Literal["block", "warp"] = "block") -> Barrier:
    return Barrier(origin=origin(), level=level)


def search(result: str, offsets: str, value: Atom, lower: Atom, upper: Atom) -> Search:
    return Search(origin=origin(), result=result, buffer=offsets, value=value, lower=lower, upper=upper)


def atomic(target: str, at: tuple[Atom, ...], operand: Atom, result: str = "") -> AtomicAccumulate:
    return AtomicAccumulate(
        origin=origin(),
        target=target,
        indices=at,
        reduction="sum",
        function="copy",
        operands=(operand,),
        result=result,
    )


def scheduled(
    name: str,
    sizes: dict[str, int],
    buffers: list[Buffer],
    threads: int,
    *body: Statement,
    counts: tuple[tuple[str, Count], ...] = (),
) -> ScheduledKernel:
    return ScheduledKernel(
        origin=origin(),
        name=name,
        template="batch",
        sizes=tuple(sizes.items()),
        buffers=tuple(buffers),
        threads=threads,
        schedule=(),
        body=body,
        counts=counts,
    )


def rows_of_warps(*body: Statement, warps: int = 4, extent: str = "B", variable: str = "b") -> Loop:
    """A warp an iteration of the batch."""
    return loop(
        "c",
        Count(((extent, warps),)),
        loop(
            "w",
            warps,
            index("first", "mul", "c", warps),
            index(variable, "add", "first", "w"),
            where(variable, "<", extent, *body),
            bind="warp",
        ),
        bind="block",
    )


def transe(size: int, step: int) -> ScheduledKernel:
    """norm(E[h] - E[t] + R[r], 2), a warp a triple, rows by lanes."""
    return scheduled(
        "TransE",
        {"D": size},
        [
            *(buffer("index", name, "B") for name in "hrt"),
            buffer("param", "E", "entity", "D"),
            buffer("param", "R", "relation", "D"),
            buffer("output", "out", "B"),
        ],
        128,
        rows_of_warps(
            *(load("ih", "h", "b"), load("it", "t", "b"), load("ir", "r", "b")),
            accumulator("s"),
            loop(
                "d",
                "D",
                *(load("e", "E", "ih", "d"), load("e1", "E", "it", "d"), compute("u", "sub", "e", "e1")),
                *(load("r1", "R", "ir", "d"), compute("v", "add", "u", "r1"), accumulate("s", "mul", "v", "v")),
                bind="lane",
                step=step,
                unroll=0,
            ),
            reduce("s"),
            store("out", ("b",), "sqrt", "s"),
        ),
    )


def rows_in_registers(rows: int, columns: int, step: int) -> ScheduledKernel:
    """E[h] @ P[r] + R[r], its largest element: the row is spread over the lanes."""
    return scheduled(
        "TransR",
        {"D": rows, "K": columns},
        [
            *(buffer("index", name, "B") for name in "hr"),
            buffer("param", "E", "entity", "D"),
            buffer("param", "R", "relation", "K"),
            buffer("param", "P", "relation", "D", "K"),
            buffer("output", "out", "B"),
        ],
        128,
        rows_of_warps(
            *(load("ih", "h", "b"), load("ir", "r", "b"), tile("register", "y", "K")),
            loop("k", "K", store("y", ("k",), "copy", 0.0), bind="lane", step=step),
            loop(
                "d",
                "D",
                load("e", "E", "ih", "d"),
                loop(
                    "k1",
                    "K",
                    load("p", "P", "ir", "d", "k1"),
                    accumulate("y", "mul", "e", "p", at=("k1",)),
                    bind="lane",
                    step=step,
                ),
                unroll=4,
            ),
            accumulator("s", -1e30),
            loop(
                "k2",
                "K",
                *(load("y1", "y", "k2"), load("r1", "R", "ir", "k2"), compute("v", "add", "y1", "r1")),
                compute("a", "relu", "v"),
                accumulate("s", "copy", "a", reduction="max"),
                bind="lane",
                step=step,
            ),
            reduce("s", reduction="max"),
            store("out", ("b",), "copy", "s"),
        ),
    )


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
                            loop(
                                "z",
                                "e1",
                                *(load("j", "col", "z"), load("v", "weight", "z"), load("x", "X", "j", "d")),
                                accumulate("s", "mul", "v", "x"),
                                lower="b1",
                                unroll=4,
                            ),
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


def product(inner: int, depth: int = 16) -> ScheduledKernel:
    """A[N, K] @ W[K, J] by 64 x 128 tiles of 128 threads: A transposed in shared memory, 8 x 2 x 4 sums a thread."""
    return scheduled(
        "Product",
        {"K": inner, "J": 256},
        [buffer("param", "A", "N", "K"), buffer("param", "W", "K", "J"), buffer("output", "out", "N", "J")],
        128,
        loop(
            "c",
            Count((("N", 64),)),
            loop(
                "g",
                2,
                *(index("row0", "mul", "c", 64), index("column0", "mul", "g", 128)),
                *(tile("shared", "a", depth, 64, padding=4), tile("shared", "b", depth, 128)),
                tile("register", "y", 8, 8, 2, 64),
                _each_sum("0", store("y", ("ty0", "i0", "piece0", "x0"), "copy", 0.0)),
                loop(
                    "k0",
                    inner // depth,
                    index("k1", "mul", "k0", depth),
                    _stage_rows(depth),
                    _stage_columns(depth),
                    barrier(),
                    loop("kk", depth, _add_products(), unroll=0),
                    barrier(),
                ),
                _each_sum(
                    "3",
                    *(index("r1", "mul", "ty3", 8), index("r2", "add", "r1", "i3"), index("n", "add", "row0", "r2")),
                    *(index("x1", "mul", "piece3", 64), index("x2", "add", "x1", "x3")),
                    index("column", "add", "column0", "x2"),
                    where(
                        "n",
                        "<",
                        "N",
                        load("y3", "y", "ty3", "i3", "piece3", "x3"),
                        store("out", ("n", "column"), "copy", "y3"),
                    ),
                ),
                bind="column",
            ),
            bind="block",
        ),
    )


def _each_sum(number: str, *body: Statement) -> Loop:
    """The statements for each of a thread's sums."""
    x = loop(f"x{number}", 64, *body, bind="thread", step=4)
    pieces = loop(f"piece{number}", 2, x, unroll=0)
    return loop(f"ty{number}", 8, loop(f"i{number}", 8, pieces, unroll=0), bind="thread")


def _stage_rows(depth: int) -> Loop:
    """A piece of A, transposed on its way into shared memory; rows beyond the last are the last."""
    return loop(
        "ra",
        64,
        *(index("ra1", "add", "row0", "ra"), index("last", "sub", "N", 1), index("ra2", "min", "ra1", "last")),
        loop(
            "ka",
            depth,
            *(index("ka1", "add", "k1", "ka"), load("u", "A", "ra2", "ka1"), store("a", ("ka", "ra"), "copy", "u")),
            bind="thread",
            step=4,
        ),
        bind="thread",
    )


def _stage_columns(depth: int) -> Loop:
    return loop(
        "kb",
        depth,
        index("kb1", "add", "k1", "kb"),
        loop(
            "xb",
            128,
            *(index("xb1", "add", "column0", "xb"), load("v", "W", "kb1", "xb1")),
            store("b", ("kb", "xb"), "copy", "v"),
            bind="thread",
            step=4,
        ),
        bind="thread",
    )


def _add_products() -> Loop:
    """One step of the product: eight elements of A by vectors, each times two vectors of W."""
    return loop(
        "ty",
        8,
        *(tile("register", "f", 8), index("f0", "mul", "ty", 8)),
        loop(
            "i1",
            8,
            *(index("f1", "add", "f0", "i1"), load("f2", "a", "kk", "f1"), store("f", ("i1",), "copy", "f2")),
            step=4,
            unroll=0,
        ),
        loop(
            "piece",
            2,
            index("b0", "mul", "piece", 64),
            loop(
                "x",
                64,
                *(index("b1", "add", "b0", "x"), load("p", "b", "kk", "b1")),
                loop(
                    "i",
                    8,
                    load("f3", "f", "i"),
                    accumulate("y", "mul", "f3", "p", at=("ty", "i", "piece", "x")),
                    unroll=0,
                ),
                bind="thread",
                step=4,
            ),
            unroll=0,
        ),
        bind="thread",
    )


def two_products(size: int, step: int) -> ScheduledKernel:
    """norm((E[h] @ P[r]) @ P[r], 1): a warp's lanes read each other's elements of the row in between."""
    return scheduled(
        "TwoProducts",
        {"D": size},
        [
            *(buffer("index", name, "B") for name in "hr"),
            *(buffer("param", "E", "entity", "D"), buffer("param", "P", "relation", "D", "D")),
            buffer("output", "out", "B"),
        ],
        128,
        rows_of_warps(
            *(load("ih", "h", "b"), load("ir", "r", "b"), tile("shared", "y", "D"), accumulator("s")),
            loop(
                "k",
                "D",
                accumulator("t"),
                loop(
                    "d",
                    "D",
                    *(load("e", "E", "ih", "d"), load("p", "P", "ir", "d", "k"), accumulate("t", "mul", "e", "p")),
                ),
                store("y", ("k",), "copy", "t"),
                bind="lane",
                step=step,
            ),
            barrier("warp"),
            loop(
                "k1",
                "D",
                accumulator("t1"),
                loop(
                    "d1",
                    "D",
                    *(load("y1", "y", "d1"), load("p1", "P", "ir", "d1", "k1"), accumulate("t1", "mul", "y1", "p1")),
                ),
                *(compute("a", "abs", "t1"), accumulate("s", "copy", "a")),
                bind="lane",
                step=step,
            ),
            reduce("s"),
            store("out", ("b",), "copy", "s"),
        ),
    )


def sums_across_groups(size: int) -> ScheduledKernel:
    """Sums of rows of a matrix by four groups of eight lanes, each with a part of the rows."""
    return scheduled(
        "Columns",
        {"D": size},
        [buffer("param", "X", "N", "D"), buffer("output", "out", "D")],
        32,
        loop(
            "c",
            1,
            tile("register", "y", "D"),
            loop("d", "D", store("y", ("d",), "copy", 0.0), bind="lane", step=4, width=8),
            loop(
                "n",
                "N",
                loop(
                    "d1",
                    "D",
                    *(load("x", "X", "n", "d1"), accumulate("y", "copy", "x", at=("d1",))),
                    bind="lane",
                    step=4,
                    width=8,
                ),
                bind="lane",
                width=4,
            ),
            reduce("y", 4, apart=8),
            loop(
                "d2",
                "D",
                *(load("y2", "y", "d2"), store("out", ("d2",), "copy", "y2")),
                bind="lane",
                step=4,
                width=8,
            ),
            bind="block",
        ),
    )


def ranks() -> ScheduledKernel:
    """Where each element comes among those of its kind, in whatever order: indices are loaded, kept and stored."""
    return scheduled(
        "Ranks",
        {},
        [buffer("index", "kind", "B"), buffer("index", "count", "M"), buffer("index", "rank", "B")],
        64,
        loop(
            "c",
            Count((("B", 128),)),
            tile("register", "kept", 2, 64, kind="i32"),
            *(index("first", "mul", "c", 128), index("last", "sub", "B", 1)),
            loop(
                "i",
                2,
                loop(
                    "x",
                    64,
                    *(index("a", "mul", "i", 64), index("a1", "add", "a", "x"), index("a2", "add", "a1", "first")),
                    *(
                        index("a3", "min", "a2", "last"),
                        load("m", "kind", "a3"),
                        store("kept", ("i", "x"), "copy", "m"),
                    ),
                    bind="thread",
                ),
                unroll=0,
            ),
            loop(
                "i1",
                2,
                loop(
                    "x1",
                    64,
                    *(index("f", "mul", "i1", 64), index("f1", "add", "f", "x1"), index("b", "add", "f1", "first")),
                    where(
                        "b",
                        "<",
                        "B",
                        load("m1", "kept", "i1", "x1"),
                        atomic("count", ("m1",), 1, "before"),
                        store("rank", ("b",), "copy", "before"),
                    ),
                    bind="thread",
                ),
                unroll=0,
            ),
            bind="block",
        ),
    )


def function_of_vectors(function: str, operands: int, step: int) -> ScheduledKernel:
    """One function of one, two or three operands, the first of them a vector."""
    atoms: tuple[Atom, ...] = ("x", "begin", "end") if operands == 3 else ("x", "x1")[:operands]
    return scheduled(
        "Function",
        {"D": 64},
        [
            buffer("index", "ptr", "B1"),
            buffer("param", "X", "B", "D"),
            buffer("output", "out", "B", "D"),
        ],
        128,
        rows_of_warps(
            *(load("begin", "ptr", "b"), index("b1", "add", "b", 1), load("end", "ptr", "b1")),
            load("x1", "X", "b", 0),
            loop(
                "d",
                "D",
                *(load("x", "X", "b", "d"), compute("y", function, *atoms), store("out", ("b", "d"), "copy", "y")),
                bind="lane",
                step=step,
            ),
        ),
    )
