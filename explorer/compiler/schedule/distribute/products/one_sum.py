"""Sums of sums of a product's columns, as one sum over all of them: what an epilogue of tiles ends in registers.

    for d { acc s1; for k { acc s2; for i { s2 += X[b, i] * W[k, i, d] }; s1 += r[k] * s2 }; s += s1 * e[d] }

becomes, with the product's columns and heads in `y`,

    for c in 0..K*D { k = c / D; d = c % D; w = e[d] * r[k]; s2 = y[c]; s += w * s2 }

A sum of scaled sums is the sum of what is scaled; each column takes a multiplication more, where it takes a product's
depth of them anyway. TuckER's score (Balazevic 2019, eq. 3) is such a sum, and so is any bilinear form by slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom
from explorer.compiler.ir.statements import names_read, pure
from explorer.compiler.schedule.edit.nests import Body
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.match.contractions import Contraction


def joined(found: Contraction) -> Contraction | None:
    """The product with its heads among its columns; None where the rows' factor needs a head, or where all is in one
    loop already."""
    columns = (*found.heads, *found.columns)
    around = {loop.variable for loop in found.around[: found.outside]}
    if found.summed_heads or len(columns) < 2 or around != set(columns) or around & found.factor.loops:
        return None
    return replace(found, heads=(), columns=columns)


def one_sum(found: Contraction, sizes: Sequence[int], row: str, writer: Writer) -> loops.For | None:
    """The loop over all columns, of such sizes, that adds up what the nest does of the product's sums, which it loads
    from a row; None where the nest does anything else with them than to scale and add up."""
    around = found.around[: found.outside]
    target, value = found.add.target, found.add.target
    code: list[loops.Statement] = []
    factors: list[Atom] = []
    add = None
    for loop, inside in zip(reversed(around), (found.around[found.outside], *reversed(around[1:])), strict=True):
        level = _Level.of(loop, inside, target)
        if level is None:
            return None
        scales: list[Atom] | None = level.scales(target) if add else []
        if scales is None:
            return None
        add = add or level.add
        factors += scales
        code = [*level.code, *code]
        target = level.add.target
    assert add is not None
    column = writer.names.new("c")
    digits, total = _digits(column, found.columns, sizes, writer)
    load = loops.Load(result=value, buffer=row, indices=(column,), origin=found.add.origin)
    ready = [s for s in code if value not in loops.reads_of(s)]
    scaled = _scaled(replace(add, target=target), value, factors, writer)
    late = [s for s in code if not any(s is other for other in ready)]
    body = (*digits, *ready, load, *late, *scaled)
    return loops.For(variable=column, extent=total, body=body, origin=found.add.origin)


class _Level:
    """One loop of the sums: pure `code`, and what `add`s the sum of the loop `inside` it to the next one out."""

    def __init__(self, code: Body, add: loops.Accumulate) -> None:
        self.code, self.add = code, add

    @classmethod
    def of(cls, loop: loops.For, inside: loops.For, target: str) -> _Level | None:
        """The level at which `target` is declared, summed by the loop inside, and added; None where more is done."""
        others = [s for s in loop.body if s is not inside]
        declared = [s for s in others if isinstance(s, loops.Accumulator) and s.name == target and not s.start]
        adds = [s for s in others if isinstance(s, loops.Accumulate)]
        code = tuple(s for s in others if pure(s))
        if len(declared) != 1 or len(adds) != 1 or len(code) + 2 != len(others):
            return None
        (add,) = adds
        alone = add.reduction == "sum" and not add.indices and add.target != target
        return cls(code, add) if alone and target in names_read((*code, add)) else None

    def scales(self, target: str) -> list[Atom] | None:
        """What the sum is multiplied with before it is added; None where it is used in another way."""
        if target in names_read(self.code) or self.add.operands.count(target) != 1:
            return None
        rest = [operand for operand in self.add.operands if operand != target]
        return rest if self.add.function in ("mul", "copy") else None


def _digits(
    column: str, variables: Sequence[str], sizes: Sequence[int], writer: Writer
) -> tuple[list[loops.Index], int]:
    """The variables that a column has for digits, the last one's the lowest, and the number of columns."""
    code: list[loops.Index] = []
    rest, total = column, sizes[0]
    for variable, size in zip(reversed(variables[1:]), reversed(sizes[1:]), strict=True):
        code.append(replace(writer.index("n", "mod", rest, size), result=variable))
        above = writer.index("n", "div", rest, size)
        code.append(above)
        rest, total = above.result, total * size
    code[-1] = replace(code[-1], result=variables[0])
    return code, total


def _scaled(add: loops.Accumulate, value: str, factors: Sequence[Atom], writer: Writer) -> Body:
    """The accumulation with its value multiplied by all factors: of a product of the sum, its other factor first."""
    code: list[loops.Statement] = []
    factors = list(factors)
    if not factors:
        return (add,)
    if add.function == "mul" and add.operands.count(value) == 1:
        factors += [operand for operand in add.operands if operand != value]
        last: Atom = value
    elif add.function == "copy":
        (last,) = add.operands
    else:
        code.append(made := writer.compute("u", add.function, *add.operands))
        last = made.result
    whole = factors[0]
    for factor in factors[1:]:
        code.append(made := writer.compute("u", "mul", whole, factor))
        whole = made.result
    return (*code, replace(add, function="mul", operands=(whole, last)))
