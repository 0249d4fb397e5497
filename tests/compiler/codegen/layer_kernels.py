"""Modules written by hand, in the form in which the passes lower layers: segments, several outputs, temporaries."""

from __future__ import annotations

from explorer.compiler.ir.loops import Buffer, Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import merge
from tests.compiler.codegen.kernels import (
    accumulate,
    accumulator,
    buffer,
    compute,
    index,
    kernel_over,
    load,
    loop,
    row,
    store,
)


def module(name: str, result: str, *kernels: Kernel) -> Module:
    origin = merge(*(kernel.body[0].origin for kernel in kernels))
    return Module(origin=origin, name=name, result=result, gradients=(), programs=kernels)


def attention(rows: int, columns: int) -> Module:
    """out[n] = sum of softmax(leaky_relu(w . z)) z over n's in-edges, z = x[source] @ W[type] once a pair."""
    return module("Attention", "out", messages(rows, columns), aggregation(columns))


def messages(rows: int, columns: int) -> Kernel:
    """Two outputs over pairs: z, and w . z, which reads z where this kernel has just written it."""
    return kernel_over(
        "s",
        "src_pairs",
        "Attention_0",
        {"D": rows, "K": columns},
        [
            buffer("index", "src_pair_node", "src_pairs"),
            buffer("index", "src_pair_etype", "src_pairs"),
            buffer("input", "x", "nodes", "D"),
            buffer("param", "W", "etypes", "D", "K"),
            buffer("param", "w", "etypes", "K"),
            buffer("output", "z", "src_pairs", "K"),
            buffer("output", "a", "src_pairs"),
        ],
        *(load("node", "src_pair_node", "s"), load("kind", "src_pair_etype", "s")),
        loop("k", "K", store("z", ("s", "k"), "copy", 0.0)),
        loop(
            "d",
            "D",
            load("x1", "x", "node", "d"),
            loop("k1", "K", load("p", "W", "kind", "d", "k1"), accumulate("z", "mul", "x1", "p", at=("s", "k1"))),
        ),
        accumulator("t"),
        loop("k2", "K", load("z1", "z", "s", "k2"), load("w1", "w", "kind", "k2"), accumulate("t", "mul", "z1", "w1")),
        store("a", ("s",), "copy", "t"),
    )


def aggregation(columns: int) -> Kernel:
    """A node's edges walked three times: the greatest score, the sum of exponentials, the weighted sum."""
    return kernel_over(
        "n",
        "nodes",
        "Attention_1",
        {"K": columns},
        [
            buffer("index", "src_pair", "edges"),
            buffer("index", "dst_ptr", "node_ends"),
            buffer("temporary", "z", "src_pairs", "K"),
            buffer("temporary", "a", "src_pairs"),
            buffer("output", "out", "nodes", "K"),
        ],
        loop("k", "K", store("out", ("n", "k"), "copy", 0.0)),
        *(load("begin", "dst_ptr", "n"), index("n1", "add", "n", 1), load("end", "dst_ptr", "n1")),
        accumulator("m", float("-inf")),
        loop(
            "e",
            "end",
            *(load("pair", "src_pair", "e"), load("a1", "a", "pair"), compute("u", "leaky_relu", "a1", 0.2)),
            accumulate("m", "copy", "u", reduction="max"),
            lower="begin",
        ),
        *(compute("top", "unless_empty", "m", "begin", "end"), accumulator("s")),
        loop(
            "e1",
            "end",
            *(load("pair1", "src_pair", "e1"), load("a2", "a", "pair1"), compute("u1", "leaky_relu", "a2", 0.2)),
            *(compute("v", "sub", "u1", "top"), accumulate("s", "exp", "v")),
            lower="begin",
        ),
        loop(
            "e2",
            "end",
            *(load("pair2", "src_pair", "e2"), load("a3", "a", "pair2"), compute("u2", "leaky_relu", "a3", 0.2)),
            *(compute("v1", "sub", "u2", "top"), compute("v2", "exp", "v1"), compute("share", "div", "v2", "s")),
            loop("k1", "K", load("z2", "z", "pair2", "k1"), accumulate("out", "mul", "share", "z2", at=("n", "k1"))),
            lower="begin",
        ),
    )


def means(columns: int) -> Module:
    """out[n] = mean of x[destination] over n's out-edges, which lie apart; each node's row is filled and then ended."""
    return module(
        "Means",
        "out",
        kernel_over(
            "n",
            "nodes",
            "Means_0",
            {"K": columns},
            [
                buffer("index", "dst", "edges"),
                buffer("index", "src_ptr", "node_ends"),
                buffer("index", "src_order", "edges"),
                buffer("input", "x", "nodes", "K"),
                buffer("output", "out", "nodes", "K"),
            ],
            *(row("y", "K"), loop("k", "K", store("y", ("k",), "copy", 0.0))),
            *(load("begin", "src_ptr", "n"), index("n1", "add", "n", 1), load("end", "src_ptr", "n1")),
            loop(
                "p",
                "end",
                *(load("e", "src_order", "p"), load("to", "dst", "e")),
                loop("k1", "K", load("x1", "x", "to", "k1"), accumulate("y", "copy", "x1", at=("k1",))),
                lower="begin",
            ),
            loop(
                "k2",
                "K",
                *(load("y1", "y", "k2"), compute("u", "segment_mean", "y1", "begin", "end")),
                store("out", ("n", "k2"), "copy", "u"),
            ),
        ),
    )


def totals(columns: int) -> Module:
    """The column sums of x[node], one iteration over all nodes, then every node's share of the first of them."""
    sums = kernel_over(
        "i",
        1,
        "Totals_0",
        {"K": columns},
        [buffer("input", "x", "nodes", "K"), buffer("output", "t", 1, "K")],
        loop("k", "K", store("t", ("i", "k"), "copy", 0.0)),
        loop(
            "n",
            "nodes",
            loop("k1", "K", load("x1", "x", "n", "k1"), accumulate("t", "copy", "x1", at=("i", "k1"))),
        ),
    )
    shares = kernel_over(
        "n",
        "nodes",
        "Totals_1",
        {"K": columns},
        [buffer("input", "x", "nodes", "K"), buffer("temporary", "t", 1, "K"), buffer("output", "out", "nodes")],
        *(load("x1", "x", "n", 0), load("t1", "t", 0, 0)),
        store("out", ("n",), "div", "x1", "t1"),
    )
    return module("Totals", "out", sums, shares)


def scattered() -> Kernel:
    """Each iteration adds to another one's element: a kernel that no pass makes."""
    return kernel_over(
        "e",
        "edges",
        "Scattered",
        {},
        [buffer("index", "dst", "edges"), buffer("input", "x", "edges"), OUT],
        *(load("n", "dst", "e"), load("v", "x", "e"), accumulate("out", "copy", "v", at=("n",))),
    )


OUT: Buffer = buffer("output", "out", "nodes")
