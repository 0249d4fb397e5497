"""A tensor of the tape as an expression: which of its dimensions is the index set, and which are of an element.

A dimension of a tensor is made of atoms, from the outside: the index set itself, an axis of the expression, or a
repetition that the expression has not. `[B, H, 1, D]` viewed as `[B * H, 1, D]` is the atoms B, H | | D, and what is
transposed or expanded changes its atoms alone: a text says it only where another order is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from explorer.runtime.trace.values.expressions import Node, Nodes

SET, REPEATED = -1, -2
ALL_PAIRS = (
    "every element of the batch or graph meets every other one: hand in the pairs that are to meet as ids, as edges "
    "are, or leave what is of all pairs to the module around"
)
NO_ROWS = -1
"""In the place of the dimension that the rows are: one of all elements has none."""


class Unsayable(ValueError):
    """What has no expression; a sentence that the operator and the line are added to."""


@dataclass(frozen=True)
class Atom:
    """A part of a dimension: an axis of the expression, SET or REPEATED."""

    size: int
    axis: int


Dimension = tuple[Atom, ...]


@dataclass(frozen=True)
class Value:
    """A tensor: its expression, and its dimensions."""

    node: Node
    dims: tuple[Dimension, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's own."""
        return tuple(prod(atom.size for atom in dim) for dim in self.dims)

    @property
    def set_dim(self) -> int:
        """The dimension that its rows are; NO_ROWS where it is one of all elements."""
        return next((at for at, dim in enumerate(self.dims) if any(atom.axis == SET for atom in dim)), NO_ROWS)

    def place(self, dim: int) -> int:
        """A dimension that may be counted from the end, from the beginning."""
        return dim + len(self.dims) if dim < 0 else dim

    def atoms(self) -> list[Atom]:
        """Those of all dimensions."""
        return [atom for dim in self.dims for atom in dim]


@dataclass(frozen=True)
class Pair:
    """A tensor of complex numbers: its real and its imaginary parts."""

    real: Value
    imaginary: Value

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's own."""
        return max(self.real.shape, self.imaginary.shape, key=lambda shape: (len(shape), prod(shape)))


def of_node(node: Node, shape: Sequence[int], over: int | None = None) -> Value:
    """A tensor of this shape, whose dimension `over` is the set and whose others, but for ones, the expression's."""
    dims: list[Dimension] = []
    axis = 0
    for place, size in enumerate(shape):
        if place == over:
            dims.append((Atom(size, SET),))
        elif size == 1:
            dims.append(())
        else:
            dims.append((Atom(size, axis),))
            axis += 1
    assert axis == len(node.shape)
    return Value(node, tuple(dims))


def splat(node: Node, shape: Sequence[int]) -> Value:
    """A number in every element of a shape."""
    return Value(node, tuple((Atom(size, REPEATED),) if size != 1 else () for size in shape))


def permuted(value: Value, order: Sequence[int]) -> Value:
    """The dimensions in another order."""
    return replace(value, dims=tuple(value.dims[value.place(dim)] for dim in order))


def expanded(value: Value, shape: Sequence[int]) -> Value:
    """Dimensions of one repeated, and new ones before them; -1 leaves one as it is."""
    new = len(shape) - len(value.dims)
    dims = ((),) * new + value.dims
    now = (1,) * new + value.shape
    made = []
    for dim, have, want in zip(dims, now, shape, strict=True):
        made.append((Atom(want, REPEATED),) if have == 1 and want > 1 else dim)
    return replace(value, dims=tuple(made))


@dataclass
class _Part:
    """A piece of an atom in a view: the atom's axis, its number among the pieces of that axis, the dimension."""

    axis: int
    number: int
    size: int
    dim: int


def viewed(nodes: Nodes, value: Value, shape: Sequence[int], merge: bool = True) -> Value:
    """The elements in the same order in another shape. Axes are split, and where `merge` asks for it joined, by one
    reshape; a set is never split."""
    if -1 in shape:
        rest = prod(value.shape) // max(1, prod(size for size in shape if size != -1))
        shape = [rest if size == -1 else size for size in shape]
    parts = _parts([atom for atom in value.atoms() if atom.size != 1], shape)
    sizes: list[int] = []
    axis_of: dict[tuple[int, int], int] = {}
    rows = sorted((part for part in parts if part.axis >= 0), key=lambda part: (part.axis, part.number))
    follows = {(id(one), id(other)) for one, other in pairwise(parts) if one.dim == other.dim}
    for place, part in enumerate(rows):
        if merge and place and (id(rows[place - 1]), id(part)) in follows:
            sizes[-1] *= part.size
        else:
            sizes.append(part.size)
        axis_of[part.axis, part.number] = len(sizes) - 1
    dims: list[list[Atom]] = [[] for _ in shape]
    for part in parts:
        axis = axis_of[part.axis, part.number] if part.axis >= 0 else part.axis
        if part.axis < 0:
            dims[part.dim].append(Atom(part.size, axis))
        elif not dims[part.dim] or dims[part.dim][-1].axis != axis:
            dims[part.dim].append(Atom(sizes[axis], axis))
    node = nodes.reshaped(value.node, tuple(sizes))
    return Value(node, tuple(map(tuple, dims)))


def _parts(atoms: list[Atom], shape: Sequence[int]) -> list[_Part]:
    """The pieces of atoms that make the dimensions of a shape, from the outside."""
    parts: list[_Part] = []
    counted: dict[int, int] = {}
    left = list(reversed(atoms))
    for dim, size in enumerate(shape):
        wanted = size
        while wanted > 1:
            atom = left.pop() if left else Atom(1, REPEATED)
            piece = min(atom.size, wanted)
            if atom.size == 1 or wanted % piece or atom.size % piece:
                raise Unsayable("this view takes dimensions apart in the middle")
            if piece < atom.size:
                if atom.axis == SET:
                    raise Unsayable("this view takes the rows of a batch, or of a graph, apart")
                left.append(Atom(atom.size // piece, atom.axis))
            number = counted[atom.axis] = counted.get(atom.axis, -1) + 1
            parts.append(_Part(atom.axis, number, piece, dim))
            wanted //= piece
    return parts


def flat(nodes: Nodes, values: Sequence[Value]) -> tuple[list[Value], list[int]]:
    """Tensors of one rank whose shapes broadcast, with each dimension taken apart until it has one atom in all of them;
    and how many dimensions each became."""
    shapes = [value.shape for value in values]
    rank = len(shapes[0])
    factors = [common([value.dims[dim] for value in values if value.shape[dim] != 1]) for dim in range(rank)]
    flattened = []
    for value, shape in zip(values, shapes, strict=True):
        sizes: list[int] = []
        for dim, factor in enumerate(factors):
            sizes += factor if shape[dim] != 1 else [1] * len(factor)
        flattened.append(viewed(nodes, value, sizes, merge=False))
    return flattened, [len(factor) for factor in factors]


def common(dims: list[Dimension]) -> list[int]:
    """The sizes that a dimension falls into where all of these, of one size, meet; [1] where there are none."""
    if not dims:
        return [1]
    ends = {1}
    for dim in dims:
        inner = 1
        for atom in reversed(dim):
            inner *= atom.size
            ends.add(inner)
    ordered = sorted(ends)
    if any(outer % inner for inner, outer in pairwise(ordered)):
        raise Unsayable("two ways of taking a dimension apart do not fit")
    return [outer // inner for inner, outer in reversed(list(pairwise(ordered)))] or [1]


def grouped(dims: Sequence[Dimension], counts: Sequence[int]) -> tuple[Dimension, ...]:
    """Dimensions of one atom put together again, as many to each as it had."""
    made, at = [], 0
    for count in counts:
        made.append(tuple(atom for dim in dims[at : at + count] for atom in dim))
        at += count
    return tuple(made)
