"""Kernels written by hand in the loops IR, in the form in which the passes make them."""

from __future__ import annotations

import itertools

from explorer.compiler.ir.functions import FUNCTIONS
from explorer.compiler.ir.loops import (
    Accumulate,
    Accumulator,
    Buffer,
    Compute,
    For,
    Index,
    Kernel,
    Load,
    Row,
    Statement,
    Store,
    verify_kernel,
)
from explorer.compiler.ir.node import Atom, Extent, Origin, Span
from tests.functions import SLOPE

_spans = itertools.count(1)


def origin() -> Origin:
    """An origin that no other statement of these kernels has."""
    line = next(_spans)
    return (Span(line, 1, line, 2),)


def load(result: str, buffer: str, *indices: Atom) -> Load:
    return Load(origin=origin(), result=result, buffer=buffer, indices=indices)


def compute(result: str, function: str, *operands: Atom) -> Compute:
    return Compute(origin=origin(), result=result, function=function, operands=operands)


def index(result: str, function: str, *operands: Atom) -> Index:
    return Index(origin=origin(), result=result, function=function, operands=operands)


def loop(variable: str, extent: Extent, *body: Statement, lower: Atom = 0, parallel: bool = False) -> For:
    return For(origin=origin(), variable=variable, lower=lower, extent=extent, body=body, parallel=parallel)


def row(name: str, *extents: Extent) -> Row:
    return Row(origin=origin(), name=name, extents=extents)


def accumulator(name: str, start: float = 0.0) -> Accumulator:
    return Accumulator(origin=origin(), name=name, start=start)


def accumulate(
    target: str, function: str, *operands: Atom, at: tuple[Atom, ...] = (), reduction: str = "sum"
) -> Accumulate:
    return Accumulate(
        origin=origin(), target=target, indices=at, reduction=reduction, function=function, operands=operands
    )


def store(target: str, at: tuple[Atom, ...], function: str, *operands: Atom) -> Store:
    return Store(origin=origin(), target=target, indices=at, function=function, operands=operands)


def buffer(kind: str, name: str, *extents: Extent) -> Buffer:
    return Buffer(origin=(), name=name, kind=kind, extents=extents)


def kernel(name: str, sizes: dict[str, int], buffers: list[Buffer], *body: Statement) -> Kernel:
    """A kernel over the batch that follows the rules of the IR."""
    return kernel_over("b", "B", name, sizes, buffers, *body)


def kernel_over(
    variable: str, extent: Extent, name: str, sizes: dict[str, int], buffers: list[Buffer], *body: Statement
) -> Kernel:
    """A kernel over any set, or of so many iterations, that follows the rules of the IR."""
    whole = Kernel(
        origin=(),
        name=name,
        template="batch",
        sizes=tuple(sizes.items()),
        buffers=tuple(buffers),
        body=(loop(variable, extent, *body, parallel=True),),
    )
    verify_kernel(whole)
    return whole


def triple_maps(*, negatives: bool = False) -> list[Buffer]:
    tail: tuple[Extent, ...] = ("B", "N") if negatives else ("B",)
    return [buffer("index", "h", "B"), buffer("index", "r", "B"), buffer("index", "t", *tail)]


def transe(size: int) -> Kernel:
    """norm(E[h] - E[t] + R[r], 2)."""
    return kernel(
        "TransE",
        {"D": size},
        [*triple_maps(), buffer("param", "E", "entity", "D"), buffer("param", "R", "relation", "D"), RESULT],
        *(load("ih", "h", "b"), load("it", "t", "b"), load("ir", "r", "b")),
        accumulator("s"),
        loop(
            "d",
            "D",
            *(load("e", "E", "ih", "d"), load("e1", "E", "it", "d"), compute("u", "sub", "e", "e1")),
            *(load("r1", "R", "ir", "d"), compute("v", "add", "u", "r1"), accumulate("s", "mul", "v", "v")),
        ),
        store("out", ("b",), "sqrt", "s"),
    )


def transr(rows: int, columns: int) -> Kernel:
    """norm((E[h] - E[t]) @ P[r] + R[r], 2), interchanged."""
    return kernel(
        "TransR",
        {"D": rows, "K": columns},
        [*triple_maps(), *transr_tables(), RESULT],
        *(load("ih", "h", "b"), load("it", "t", "b"), load("ir", "r", "b"), row("y", "K")),
        loop("k", "K", store("y", ("k",), "copy", 0.0)),
        loop(
            "d",
            "D",
            *(load("e", "E", "ih", "d"), load("e1", "E", "it", "d"), compute("u", "sub", "e", "e1")),
            loop("k1", "K", load("p", "P", "ir", "d", "k1"), accumulate("y", "mul", "u", "p", at=("k1",))),
        ),
        accumulator("s"),
        loop(
            "k2",
            "K",
            *(load("y1", "y", "k2"), load("r1", "R", "ir", "k2"), compute("v", "add", "y1", "r1")),
            accumulate("s", "mul", "v", "v"),
        ),
        store("out", ("b",), "sqrt", "s"),
    )


def transr_tables() -> list[Buffer]:
    return [
        buffer("param", "E", "entity", "D"),
        buffer("param", "R", "relation", "K"),
        buffer("param", "P", "relation", "D", "K"),
    ]


def rescal_tails(size: int, negatives: int) -> Kernel:
    """dot(E[h] @ P[r], E[t]) for many tails: the row q is computed once and read by all."""
    return kernel(
        "RESCAL",
        {"D": size, "N": negatives},
        [
            *triple_maps(negatives=True),
            buffer("param", "E", "entity", "D"),
            buffer("param", "P", "relation", "D", "D"),
            buffer("output", "out", "B", "N"),
        ],
        *(load("ih", "h", "b"), load("ir", "r", "b"), row("q", "D")),
        loop("k", "D", store("q", ("k",), "copy", 0.0)),
        loop(
            "d",
            "D",
            load("e", "E", "ih", "d"),
            loop("k1", "D", load("p", "P", "ir", "d", "k1"), accumulate("q", "mul", "e", "p", at=("k1",))),
        ),
        loop(
            "j",
            "N",
            *(load("it", "t", "b", "j"), accumulator("s")),
            loop("k2", "D", load("q1", "q", "k2"), load("e1", "E", "it", "k2"), accumulate("s", "mul", "q1", "e1")),
            store("out", ("b", "j"), "copy", "s"),
        ),
    )


def two_products(rows: int, columns: int) -> Kernel:
    """norm((E[h] @ P[r]) @ Q[r], 1): the lanes read each other's elements of the row between the products."""
    return kernel(
        "TwoProducts",
        {"D": rows, "K": columns},
        [
            *triple_maps(),
            buffer("param", "E", "entity", "D"),
            buffer("param", "P", "relation", "D", "K"),
            buffer("param", "Q", "relation", "K", "D"),
            RESULT,
        ],
        *(load("ih", "h", "b"), load("ir", "r", "b"), row("y", "K"), row("z", "D")),
        loop("k", "K", store("y", ("k",), "copy", 0.0)),
        loop(
            "d",
            "D",
            load("e", "E", "ih", "d"),
            loop("k1", "K", load("p", "P", "ir", "d", "k1"), accumulate("y", "mul", "e", "p", at=("k1",))),
        ),
        loop("d1", "D", store("z", ("d1",), "copy", 0.0)),
        loop(
            "k2",
            "K",
            load("y1", "y", "k2"),
            loop("d2", "D", load("q", "Q", "ir", "k2", "d2"), accumulate("z", "mul", "y1", "q", at=("d2",))),
        ),
        accumulator("s"),
        loop("d3", "D", load("z1", "z", "d3"), accumulate("s", "abs", "z1")),
        store("out", ("b",), "copy", "s"),
    )


def not_interchanged(rows: int, columns: int) -> Kernel:
    """norm(E[h] @ P[r], 2) with the sum innermost, into an element of a row, and a maximum beside it."""
    return kernel(
        "NotInterchanged",
        {"D": rows, "K": columns},
        [*triple_maps(), buffer("param", "E", "entity", "D"), buffer("param", "P", "relation", "D", "K"), RESULT],
        *(load("ih", "h", "b"), load("ir", "r", "b"), row("y", "K"), accumulator("m", float("-inf"))),
        loop(
            "k",
            "K",
            store("y", ("k",), "copy", 0.0),
            loop(
                "d",
                "D",
                *(load("e", "E", "ih", "d"), load("p", "P", "ir", "d", "k")),
                accumulate("y", "mul", "e", "p", at=("k",)),
            ),
            *(load("y1", "y", "k"), accumulate("m", "abs", "y1", reduction="max")),
        ),
        accumulator("s"),
        loop("k1", "K", load("y2", "y", "k1"), compute("v", "div", "y2", "m"), accumulate("s", "mul", "v", "v")),
        compute("n", "sqrt", "s"),
        store("out", ("b",), "mul", "n", "m"),
    )


def outer_rows(rows: int, columns: int) -> Kernel:
    """sum of |outer(E[h], E[t])|, through a row of two dimensions and a sum over two loops."""
    return kernel(
        "Outer",
        {"D": rows, "K": columns},
        [*triple_maps(), buffer("param", "E", "entity", "D"), buffer("param", "F", "entity", "K"), RESULT],
        *(load("ih", "h", "b"), load("it", "t", "b"), row("m", "D", "K")),
        loop(
            "d",
            "D",
            load("e", "E", "ih", "d"),
            loop("k", "K", load("f", "F", "it", "k"), store("m", ("d", "k"), "mul", "e", "f")),
        ),
        accumulator("s"),
        loop(
            "d1",
            "D",
            loop("k1", "K", load("x", "m", "d1", "k1"), accumulate("s", "abs", "x")),
        ),
        store("out", ("b",), "copy", "s"),
    )


def awkward_names() -> Kernel:
    """dot(int[main], warp[main]) with names that the target languages and the generators use themselves."""
    return kernel(
        "lambda",
        {"float": 40, "range": 40},
        [
            buffer("index", "main", "B"),
            buffer("param", "int", "entity", "float"),
            buffer("param", "warp", "entity", "range"),
            buffer("output", "lane", "B"),
        ],
        *(load("def", "main", "b"), accumulator("NULL")),
        loop(
            "threadIdx",
            "float",
            *(load("fmaf", "int", "def", "threadIdx"), load("numpy", "warp", "def", "threadIdx")),
            accumulate("NULL", "mul", "fmaf", "numpy"),
        ),
        store("lane", ("b",), "copy", "NULL"),
    )


def function_of(name: str) -> Kernel:
    """f(x[h], y[h]) for one scalar function, or f(x[h], SLOPE)."""
    second: tuple[Atom, ...] = ((SLOPE,) if FUNCTIONS[name].parameter else ("v",))[: FUNCTIONS[name].operand_count - 1]
    other = [load("v", "y", "ih")] if "v" in second else []
    return kernel(
        f"f_{name}",
        {},
        [buffer("index", "h", "B"), buffer("param", "x", "entity"), buffer("param", "y", "entity"), RESULT],
        *(load("ih", "h", "b"), load("u", "x", "ih"), *other, compute("w", name, "u", *second)),
        store("out", ("b",), "copy", "w"),
    )


def halves(size: int) -> Kernel:
    """dot of the two halves of E[h], with index arithmetic, and of a table indexed by two sets."""
    return kernel(
        "Halves",
        {"D": 2 * size, "H": size},
        [
            *triple_maps(),
            buffer("param", "E", "entity", "D"),
            buffer("param", "W", "entity", "relation", "H"),
            RESULT,
        ],
        *(load("ih", "h", "b"), load("ir", "r", "b"), accumulator("s")),
        loop(
            "i",
            "H",
            *(index("i1", "add", "i", size), load("x", "E", "ih", "i"), load("y", "E", "ih", "i1")),
            *(load("w", "W", "ih", "ir", "i"), compute("z", "mul", "x", "w"), accumulate("s", "mul", "z", "y")),
        ),
        store("out", ("b",), "copy", "s"),
    )


RESULT = buffer("output", "out", "B")
