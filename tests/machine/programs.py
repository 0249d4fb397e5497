"""DLC programs written by hand, and their results in float64."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.ir import loops
from explorer.compiler.ir.access import dlc, execute
from explorer.compiler.ir.node import Atom, Extent, Node, Span

HERE = (Span(1, 1, 1, 2),)


def buffer(name: str, kind: str, *extents: Extent) -> loops.Buffer:
    return loops.Buffer(origin=HERE, name=name, kind=kind, extents=extents)


def loop(name: str, parent: str | None, lower: Atom, upper: Extent, stride: int = 1) -> dlc.Traversal:
    return dlc.Traversal(origin=HERE, name=name, parent=parent, lower=lower, upper=upper, stride=stride)


def mem(result: str, traversal: str, array: str, index: Atom) -> dlc.MemStream:
    return dlc.MemStream(origin=HERE, result=result, traversal=traversal, buffer=array, index=index)


def alu(result: str, traversal: str, function: str, left: Atom, right: Atom) -> dlc.AluStream:
    return dlc.AluStream(origin=HERE, result=result, traversal=traversal, function=function, operands=(left, right))


def push(stream: str, traversal: str, event: dlc.Event) -> dlc.PushOp:
    return dlc.PushOp(origin=HERE, stream=stream, traversal=traversal, event=event)


def callback(traversal: str, event: dlc.Event, token: str) -> dlc.Callback:
    return dlc.Callback(origin=HERE, traversal=traversal, event=event, token=token)


def case(token: str, *body: Node) -> dlc.Case:
    return dlc.Case(origin=HERE, token=token, body=body)


def pop(result: str, kind: str) -> dlc.Pop:
    return dlc.Pop(origin=HERE, result=result, type=kind)


def vector_mem(result: str, traversal: str, array: str, index: Atom, width: int) -> dlc.MemStream:
    return replace(mem(result, traversal, array, index), vector=width)


def vector_pop(result: str, width: int) -> dlc.Pop:
    return dlc.Pop(origin=HERE, result=result, type="f32", vector=width)


def vector_each(variable: str, extent: Extent, width: int, *body: Any) -> loops.For:
    return replace(each(variable, extent, *body), step=width)


def lanes(variable: str, extent: Extent, width: int, *body: Any) -> execute.Lanes:
    return execute.Lanes(origin=HERE, variable=variable, width=width, extent=extent, body=body)


def row(name: str, *extents: Extent) -> loops.Row:
    return loops.Row(origin=HERE, name=name, extents=extents)


def accumulator(name: str, start: float = 0.0) -> loops.Accumulator:
    return loops.Accumulator(origin=HERE, name=name, start=start)


def compute(result: str, function: str, *operands: Atom) -> loops.Compute:
    return loops.Compute(origin=HERE, result=result, function=function, operands=operands)


def add_to(target: str, indices: tuple[Atom, ...], function: str, *operands: Atom) -> loops.Accumulate:
    return loops.Accumulate(
        origin=HERE, target=target, indices=indices, reduction="sum", function=function, operands=operands
    )


def store(target: str, indices: tuple[Atom, ...], function: str, *operands: Atom) -> loops.Store:
    return loops.Store(origin=HERE, target=target, indices=indices, function=function, operands=operands)


def load(result: str, array: str, *indices: Atom) -> loops.Load:
    return loops.Load(origin=HERE, result=result, buffer=array, indices=indices)


def each(variable: str, extent: Extent, *body: Any) -> loops.For:
    return loops.For(origin=HERE, variable=variable, extent=extent, body=body)


def program(sizes: dict[str, int], buffers: list[loops.Buffer], access: list[Any], *cases: dlc.Case) -> dlc.DlcProgram:
    return dlc.DlcProgram(
        origin=HERE,
        name="by_hand",
        sizes=tuple(sizes.items()),
        buffers=tuple(buffers),
        access=tuple(access),
        execute=cases,
    )


def sls(length: int, opt: int = 0, vlen: int = 16) -> dlc.DlcProgram:
    """Sums of rows of bags (ir.md 3.5): as decoupled, vectorised, bufferised, with its queue aligned."""
    width = 1 if opt == 0 else vlen
    bags = [
        loop("b_tr", None, 0, "bags"),
        mem("beg", "b_tr", "ptrs", "b_tr.ite"),
        alu("e1", "b_tr", "add", "b_tr.ite", 1),
        mem("end", "b_tr", "ptrs", "e1"),
        loop("s_tr", "b_tr", "beg", "end"),
        mem("i", "s_tr", "idxs", "s_tr.ite"),
        alu("a", "s_tr", "mul", "i", "L"),
        loop("e_tr", "s_tr", 0, "L", width),
        alu("q", "e_tr", "add", "a", "e_tr.ite"),
        vector_mem("v", "e_tr", "vals", "q", width),
    ]
    element = add_to("out", ("b", "e"), "copy", "x")
    indices = [pop("b", "i32"), pop("e", "i32")]
    buffered = vector_each("e", "L", width, vector_pop("x", width), element)
    counters: tuple[execute.Counter, ...] = ()
    if opt < 2:
        bags += [push("b_tr.ite", "e_tr", "ite"), push("e_tr.ite", "e_tr", "ite"), push("v", "e_tr", "ite")]
        bags += [callback("e_tr", "ite", "ei")]
        body = [element] if width == 1 else [lanes("e", "L", width, element)]
        cases = [case("ei", *indices, vector_pop("x", width), *body)]
    elif opt == 2:
        bags += [push("b_tr.ite", "e_tr", "beg"), push("v", "e_tr", "ite"), callback("e_tr", "end", "ee")]
        cases = [case("ee", pop("b", "i32"), buffered)]
    else:
        bags += [push("v", "e_tr", "ite"), callback("e_tr", "end", "ee"), callback("s_tr", "end", "se")]
        cases = [case("ee", buffered), case("se", execute.Increment(origin=HERE, target="b", by=1))]
        counters = (execute.Counter(origin=HERE, name="b", start=0),)
    buffers = [
        buffer("ptrs", "index", "bag_ends"),
        buffer("idxs", "index", "entries"),
        buffer("vals", "param", "row", "L"),
        buffer("out", "output", "bags", "L"),
    ]
    return replace(program({"L": length}, buffers, bags, *cases), counters=counters)


def bags_of(bags: int, lookups: int, length: int, rows: int = 16384, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Bags of as many uniformly drawn rows each."""
    random = np.random.default_rng(seed)
    return {
        "ptrs": np.arange(bags + 1, dtype=np.int32) * lookups,
        "idxs": random.integers(0, rows, bags * lookups).astype(np.int32),
        "vals": random.standard_normal((rows, length)).astype(np.float32),
    }


def sls_reference(inputs: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    ptrs, rows = inputs["ptrs"], inputs["vals"].astype(np.float64)[inputs["idxs"]]
    return np.array([rows[low:high].sum(axis=0) for low, high in pairwise(ptrs)]).reshape(-1, inputs["vals"].shape[1])


def sls_inputs() -> dict[str, NDArray[Any]]:
    """The golden data of ir.md 3.5, with A..D = 1..4, I..L = 9..12, U..X = 21..24."""
    values = np.zeros((6, 4), np.float32)
    values[0], values[2], values[5] = [1, 2, 3, 4], [9, 10, 11, 12], [21, 22, 23, 24]
    return {"ptrs": np.array([0, 2, 3], np.int32), "idxs": np.array([0, 2, 5], np.int32), "vals": values}


def transr(d: int, k: int) -> dlc.DlcProgram:
    """norm((E[h] - E[t]) @ P[r] + R[r], 2), rows of P contiguous: d outside, k inside."""
    return program(
        {"D": d, "K": k},
        [
            buffer("h", "index", "B"),
            buffer("r", "index", "B"),
            buffer("t", "index", "B"),
            buffer("E", "param", "entity", "D"),
            buffer("R", "param", "relation", "K"),
            buffer("P", "param", "relation", "D", "K"),
            buffer("out", "output", "B"),
        ],
        [
            loop("b_tr", None, 0, "B"),
            mem("ih", "b_tr", "h", "b_tr.ite"),
            mem("ir", "b_tr", "r", "b_tr.ite"),
            mem("it", "b_tr", "t", "b_tr.ite"),
            alu("ah", "b_tr", "mul", "ih", "D"),
            alu("at", "b_tr", "mul", "it", "D"),
            alu("ar", "b_tr", "mul", "ir", "K"),
            alu("ap", "b_tr", "mul", "ir", "D"),
            callback("b_tr", "ite", "b_ite"),
            loop("k0_tr", "b_tr", 0, "K"),
            alu("a0", "k0_tr", "add", "ar", "k0_tr.ite"),
            mem("rk", "k0_tr", "R", "a0"),
            push("k0_tr.ite", "k0_tr", "ite"),
            push("rk", "k0_tr", "ite"),
            callback("k0_tr", "ite", "k0_ite"),
            loop("d_tr", "b_tr", 0, "D"),
            alu("a1", "d_tr", "add", "ah", "d_tr.ite"),
            mem("e1", "d_tr", "E", "a1"),
            alu("a2", "d_tr", "add", "at", "d_tr.ite"),
            mem("e2", "d_tr", "E", "a2"),
            alu("a3", "d_tr", "add", "ap", "d_tr.ite"),
            alu("a4", "d_tr", "mul", "a3", "K"),
            push("e1", "d_tr", "ite"),
            push("e2", "d_tr", "ite"),
            callback("d_tr", "ite", "d_ite"),
            loop("k_tr", "d_tr", 0, "K"),
            alu("a5", "k_tr", "add", "a4", "k_tr.ite"),
            mem("p", "k_tr", "P", "a5"),
            push("k_tr.ite", "k_tr", "ite"),
            push("p", "k_tr", "ite"),
            callback("k_tr", "ite", "k_ite"),
            push("b_tr.ite", "d_tr", "end"),
            callback("d_tr", "end", "d_end"),
        ],
        case("b_ite", row("y", "K"), accumulator("s")),
        case("k0_ite", pop("k0", "i32"), pop("r0", "f32"), store("y", ("k0",), "copy", "r0")),
        case("d_ite", pop("x1", "f32"), pop("x2", "f32"), compute("u", "sub", "x1", "x2")),
        case("k_ite", pop("k1", "i32"), pop("w", "f32"), add_to("y", ("k1",), "mul", "u", "w")),
        case(
            "d_end",
            pop("b", "i32"),
            each("k2", "K", load("z", "y", "k2"), add_to("s", (), "mul", "z", "z")),
            store("out", ("b",), "sqrt", "s"),
        ),
    )


def transr_inputs(batch: int, d: int, k: int, entities: int = 500, relations: int = 40) -> dict[str, NDArray[Any]]:
    """Random tables and triples, the same at every call."""
    random = np.random.default_rng(7)
    draw = random.standard_normal
    return {
        "h": random.integers(0, entities, batch).astype(np.int32),
        "r": random.integers(0, relations, batch).astype(np.int32),
        "t": random.integers(0, entities, batch).astype(np.int32),
        "E": draw((entities, d)).astype(np.float32),
        "R": draw((relations, k)).astype(np.float32),
        "P": draw((relations, d, k)).astype(np.float32),
    }


def transr_reference(inputs: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    wide = {name: array.astype(np.float64) for name, array in inputs.items() if array.dtype == np.float32}
    e = wide["E"][inputs["h"]] - wide["E"][inputs["t"]]
    u = np.einsum("bd,bdk->bk", e, wide["P"][inputs["r"]]) + wide["R"][inputs["r"]]
    result: NDArray[np.float64] = np.sqrt((u * u).sum(axis=1))
    return result
