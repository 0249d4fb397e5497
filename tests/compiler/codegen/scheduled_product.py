"""A matrix product scheduled by hand: tiles through shared memory, sums in registers."""

from __future__ import annotations

from explorer.compiler.ir.kernels import Count, Loop, ScheduledKernel, Statement
from tests.compiler.codegen.kernels import accumulate, buffer, index, load, store
from tests.compiler.codegen.scheduled import barrier, loop, scheduled, tile, where


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
