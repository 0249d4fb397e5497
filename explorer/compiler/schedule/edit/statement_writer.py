"""Writes statements of scheduled kernels with names that are free: of one origin, but for what is there for others
alone."""

from __future__ import annotations

from explorer.compiler.frozen import replace
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import Atom, Names, Origin
from explorer.compiler.ir.statements import all_names
from explorer.compiler.schedule.edit.origins import around


class Writer:
    """What a schedule adds to the statements of a kernel."""

    def __init__(self, kernel: loops.Kernel, origin: Origin) -> None:
        self.names = Names(all_names(kernel))
        self.origin = origin

    @classmethod
    def named(cls, names: Names, origin: Origin) -> Writer:
        """One whose statements are named by these."""
        writer = cls.__new__(cls)
        writer.names, writer.origin = names, origin
        return writer

    def define(self, result: str, function: str, *operands: Atom) -> loops.Index:
        """Integer arithmetic of a name that is known."""
        return loops.Index(result=result, function=function, operands=operands, origin=self.origin)

    def index(self, hint: str, function: str, *operands: Atom) -> loops.Index:
        """Integer arithmetic, named after the hint."""
        return self.define(self.names.new(hint), function, *operands)

    def compute(self, hint: str, function: str, *operands: Atom) -> loops.Compute:
        """A scalar, named after the hint."""
        return loops.Compute(result=self.names.new(hint), function=function, operands=operands, origin=self.origin)

    def load(self, hint: str, buffer: str, *indices: Atom) -> loops.Load:
        """A load, named after the hint."""
        return loops.Load(result=self.names.new(hint), buffer=buffer, indices=indices, origin=self.origin)

    def store(self, target: str, value: Atom, *indices: Atom) -> loops.Store:
        """A store of a value."""
        return loops.Store(target=target, indices=indices, function="copy", operands=(value,), origin=self.origin)

    def add(self, target: str, reduction: str, value: Atom, *indices: Atom) -> loops.Accumulate:
        """An accumulation of a value."""
        return loops.Accumulate(
            target=target,
            indices=indices,
            reduction=reduction,
            function="copy",
            operands=(value,),
            origin=self.origin,
        )

    def search(self, hint: str, offsets: str, value: Atom, lower: Atom, upper: Atom) -> kernels.Search:
        """The last place of offsets that hold at most a value."""
        result = self.names.new(hint)
        return kernels.Search(result=result, buffer=offsets, value=value, lower=lower, upper=upper, origin=self.origin)

    def where(self, left: Atom, comparison: str, right: Atom, *body: kernels.Statement) -> kernels.Where:
        """A condition."""
        body, origin = around(body, self.origin)
        return kernels.Where(left=left, comparison=comparison, right=right, body=body, origin=origin)

    def loop(
        self,
        variable: str,
        extent: str | int | kernels.Count,
        *body: kernels.Statement,
        bind: kernels.Level = "",
        width: int = 0,
        apart: int = 0,
    ) -> kernels.Loop:
        """A loop from 0."""
        body, origin = around(body, self.origin)
        made = kernels.Loop(variable=variable, extent=extent, body=body, origin=origin)
        return replace(made, bind=bind, width=width, apart=apart)

    def cleared(self, row: str, extents: tuple[str | int, ...]) -> tuple[loops.Statement, ...]:
        """`for d in 0..D { y[d] = 0.0 }`: a row of these extents."""
        variables = self.over(extents)
        return self.nested(variables, extents, (self.store(row, 0.0, *variables),))

    def stored(
        self, row: str, extents: tuple[str | int, ...], hint: str, target: str, *place: Atom
    ) -> tuple[loops.Statement, ...]:
        """`for d in 0..D { s = y[d]; out[b, d] = s }`: a row of these extents, or a scalar, at a place of an array."""
        variables = self.over(extents)
        if not variables:
            return (self.store(target, row, *place),)
        value = self.load(hint, row, *variables)
        return self.nested(variables, extents, (value, self.store(target, value.result, *place, *variables)))

    def over(self, extents: tuple[str | int, ...]) -> tuple[str, ...]:
        """New variables for loops over these extents."""
        return tuple(self.names.new(extent.lower() if isinstance(extent, str) else "i") for extent in extents)

    def nested(
        self, variables: tuple[str, ...], extents: tuple[str | int, ...], body: tuple[loops.Statement, ...]
    ) -> tuple[loops.Statement, ...]:
        """The loops over these extents around a body; the body itself where there are none."""
        for variable, extent in zip(reversed(variables), reversed(extents), strict=True):
            body = (loops.For(variable=variable, extent=extent, body=body, origin=self.origin),)
        return body
