"""Nests whose statements stand in another order, which means the same: what does not read what the other defines or
writes, and writes nothing that the other reads or writes, may stand on either side of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random

import explorer
from explorer.compiler.ir import loops
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Node, walk

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*/*.emb"))
ZOO = sorted((ROOT / "tests" / "zoo").glob("*.emb"))
"""Models from the literature that are no example: scores, losses, layers, operations, odd cases."""
Body = tuple[loops.Statement, ...]
Program = loops.Kernel | Module


@cache
def compiled(path: Path, **options: str | bool) -> explorer.Compilation:
    """The compilation of a text, each stage once for all tests that look at it."""
    return explorer.compile(path.read_text(), options=options, on_demand=True)


def nests_of(program: Program) -> tuple[loops.Kernel, ...]:
    """The nests of a program of the loops stage."""
    return program.programs if isinstance(program, Module) else (program,)


def with_nests(program: Program, nests: tuple[loops.Kernel, ...]) -> Program:
    """The program with other nests."""
    return replace(program, programs=nests) if isinstance(program, Module) else nests[0]


def swaps(kernel: loops.Kernel) -> Iterator[loops.Kernel]:
    """The kernel with two neighbours exchanged, for each two that are independent, in every body."""
    yield from (replace(kernel, body=body) for body in _swaps(kernel.body))


def shuffled(kernel: loops.Kernel, random: Random) -> loops.Kernel:
    """The kernel with each body in an order drawn from all that exchanges of independent neighbours lead to."""
    return replace(kernel, body=_shuffled(kernel.body, random))


def _swaps(body: Body) -> Iterator[Body]:
    for place, (first, second) in enumerate(pairwise(body)):
        if _independent(first, second):
            yield (*body[:place], second, first, *body[place + 2 :])
    for place, statement in enumerate(body):
        if isinstance(statement, loops.For):
            for inside in _swaps(statement.body):
                yield (*body[:place], replace(statement, body=inside), *body[place + 1 :])


def _shuffled(body: Body, random: Random) -> Body:
    left = [replace(s, body=_shuffled(s.body, random)) if isinstance(s, loops.For) else s for s in body]
    order: list[loops.Statement] = []
    while left:
        free = [n for n, statement in enumerate(left) if all(_independent(other, statement) for other in left[:n])]
        order.append(left.pop(random.choice(free)))
    return tuple(order)


def _independent(one: loops.Statement, other: loops.Statement) -> bool:
    changes, others = _changes(one), _changes(other)
    return not (changes & others or changes & _reads(other) or others & _reads(one))


def _changes(statement: loops.Statement) -> set[str]:
    """What a statement defines or writes, at any depth."""
    return {name for node in walk(statement) for name in (_target(node), loops.result_of(node)) if name}


def _reads(statement: loops.Statement) -> set[str]:
    return {name for node in walk(statement) for name in loops.reads_of(node)}


def _target(node: Node) -> str:
    return node.target if isinstance(node, loops.Store | loops.Accumulate) else ""
