"""Gives the terms of a sum kernels of their own where each is one of outer products (loop distribution).

    for f { for g { u = x[z, f] * p[z, g]
                    v = y[z, f] * q[z, g]
                    s = u + v
                    out[r, f, g] += s } }

Rows that both ends of an edge take of one matrix are such a sum in the matrix's gradient. Each of its terms is a
product that has tiles; of their sum only a row at a time can be taken. What follows adds the terms' sums.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.compiler.frozen import replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Atom, Names
from explorer.compiler.ir.statements import alive
from explorer.compiler.schedule.edit.nests import Body, only_loop, part
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.match.outer_products import find_outer_sum

MOST_TERMS = 4
"""Each has an array of the sum's size."""


def split_terms(kernel: loops.Kernel, names: Names) -> tuple[loops.Kernel, ...]:
    """The kernels of a sum's terms, and one of what adds them; none where a nest is something else, or some term is no
    outer product."""
    loop, outputs = only_loop(kernel), [buffer for buffer in kernel.buffers if buffer.kind == "output"]
    if loop is None or len(outputs) != 1:
        return ()
    inner = _innermost(loop)
    sums = inner[-1]
    if not isinstance(sums, loops.Accumulate) or (sums.target, sums.reduction) != (outputs[0].name, "sum"):
        return ()
    terms = tuple(_terms(inner, sums.operands[0])) if sums.function == "copy" else ()
    if not 1 < len(terms) <= MOST_TERMS:
        return ()
    kept = names.copy()
    arrays = [replace(outputs[0], name=kept.new(f"{kernel.name}_term")) for _ in terms]
    parts = [
        part(kernel, f"{kernel.name}_term{place}", _only(loop, term, array.name), array)
        for place, (term, array) in enumerate(zip(terms, arrays, strict=True))
    ]
    if not all(map(find_outer_sum, parts)):
        return ()
    for array in arrays:
        names.new(array.name)
    return (*parts, part(kernel, kernel.name, _adding(kernel, loop, sums, outputs[0], arrays), *arrays))


def _innermost(loop: loops.For) -> Body:
    """What is done in the loops that end each other."""
    while isinstance(loop.body[-1], loops.For):
        loop = loop.body[-1]
    return loop.body


def _terms(body: Body, value: Atom) -> Iterator[Atom]:
    """What a value of a body is the sum of."""
    made = next((s for s in body if isinstance(s, loops.Compute) and s.result == value), None)
    if made is None or made.function != "add":
        yield value
        return
    for operand in made.operands:
        yield from _terms(body, operand)


def _only(loop: loops.For, term: Atom, target: str) -> loops.For:
    """The loops with one term alone added, to an array of its own."""
    *before, last = loop.body
    if isinstance(last, loops.For):
        last = _only(last, term, target)
    else:
        assert isinstance(last, loops.Accumulate)
        last = replace(last, target=target, operands=(term,))
    return replace(loop, body=alive((*before, last)))


def _adding(
    kernel: loops.Kernel, loop: loops.For, sums: loops.Accumulate, output: Buffer, arrays: list[Buffer]
) -> loops.For:
    """`for r { for f { for g { a = t[r, f, g]; b = t1[r, f, g]; s = a + b; out[r, f, g] = s } } }`"""
    writer = Writer(kernel, sums.origin)
    at, extents = writer.over(output.extents[1:]), output.extents[1:]
    loads = [writer.load("t", array.name, loop.variable, *at) for array in arrays]
    added: list[loops.Compute] = []
    total: Atom = loads[0].result
    for load in loads[1:]:
        added.append(writer.compute("s", "add", total, load.result))
        total = added[-1].result
    body: Body = (*loads, *added, writer.store(output.name, total, loop.variable, *at))
    return replace(loop, body=writer.nested(at, extents, body))
