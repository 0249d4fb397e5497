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
