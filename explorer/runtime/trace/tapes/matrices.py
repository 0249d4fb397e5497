"""Sparse matrices as what they are: the rows and columns of their nonzeros, which are ids, and the nonzeros' values.

A product with rows gathers these by the nonzeros' columns, takes each times its value, and sums them by the nonzeros'
rows; so its nonzeros are the edges of a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from explorer.runtime.trace.tapes.columns import Run

_aten = torch.ops.aten

_OTHERWISE = (
    "Make the matrix before, and hand it in as an argument or a buffer; or gather rows by its indices and sum them, as "
    "index_add(0, row, value[:, None] * x[column]) does."
)
_MADE = {"aten::_sparse_coo_tensor_with_dims_and_tensors": (3, 4), "aten::sparse_compressed_tensor": (0, 1, 2)}
"""Where operators that make a matrix have its indices and values, or where its rows end, its columns and values."""
_AS_THEY_ARE = {"detach", "clone", "alias", "_to_copy"}
_MOVED = {"_coalesce", "_to_sparse", "_to_sparse_csr"}
"""Operators that leave what a matrix multiplies as it is, and those that may put its nonzeros in another order, or add
up those of one place."""


@dataclass(frozen=True, eq=False)
class Nonzeros:
    """Those of a sparse tensor: by dimension, ids of one dimension, and their values. `single` says whether each has a
    place of its own, `moved` whether the tensor's own are in another order, or fewer."""

    ids: tuple[Any, ...]
    values: Any
    single: bool = False
    moved: bool = False


class Unmade(ValueError):
    """What of a sparse tensor there is no way to say, and what to do."""


def is_sparse(func: Any, read: list[Any]) -> bool:
    """Whether an operator makes a sparse tensor, or reads one."""
    return func._schema.name in _MADE or any(tensor.layout != torch.strided for tensor in read)


class Matrices:
    """The sparse tensors of a tape, while they are made. `run` calls an operator, so that it is on the tape."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._nonzeros: dict[int, Nonzeros] = {}
        self._kept: list[Any] = []  # so that no other tensor takes the identity of one

    def returned(self, func: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """What an operator returns that makes or reads a sparse tensor. Raises Unmade, and LookupError for a sparse
        tensor that was not given, nor made by operators that are known."""
        name = func._schema.name.removeprefix("aten::")
        if func._schema.name in _MADE:
            return self._known(func(*args, **named), self._of_parts(args, named, _MADE[func._schema.name]))
        if name == "is_coalesced":
            return func(*args)
        if name in _AS_THEY_ARE | _MOVED:
            nonzeros = self._of(args[0])
            moved = nonzeros.moved or name in _MOVED
            return self._known(func(*args, **named), replace(nonzeros, moved=moved))
        if name not in _WAYS:
            raise Unmade(
                "of a sparse matrix a text has products with rows, transposes, sums, a softmax of rows and what is "
                f"multiplied by a number. {_OTHERWISE}"
            )
        return _WAYS[name](self, args, named)

    def _of_parts(self, args: tuple[Any, ...], named: Mapping[str, Any], places: Sequence[int]) -> Nonzeros:
        parts = [args[at] for at in places]
        if len(parts) == 2:
            return Nonzeros(tuple(self._run(_aten.unbind.int, parts[0])), parts[1], bool(named.get("is_coalesced")))
        ends, columns, values = parts
        places = self._run(_aten.arange.default, len(columns), dtype=ends.dtype, device=ends.device)
        behind = self._run(_aten.searchsorted.Tensor, ends, places, right=True)
        return Nonzeros((self._run(_aten.sub.Tensor, behind, 1), columns), values)

    def _known(self, made: Any, nonzeros: Nonzeros) -> Any:
        self._nonzeros[id(made)] = nonzeros
        self._kept.append(made)
        return made

    def _of(self, matrix: Any) -> Nonzeros:
        return self._nonzeros[id(matrix)]

    def _new(self, nonzeros: Nonzeros, shape: Sequence[int], like: Any = None) -> Any:
        """A sparse tensor of these nonzeros, which are in the order that those of another have."""
        ids, in_order = torch.stack(nonzeros.ids), like is not None and like.is_coalesced()
        made = torch.sparse_coo_tensor(ids, nonzeros.values, list(shape), is_coalesced=in_order, check_invariants=False)
        return self._known(made, nonzeros)

    def product(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """A matrix by rows, or rows by a matrix."""
        one, other = args[:2]
        if one.layout != torch.strided and other.layout != torch.strided:
            raise Unmade(f"two sparse matrices are multiplied. Multiply one with rows first. {_OTHERWISE}")
        if one.layout == torch.strided:
            turned = self._times(_turned(self._of(other)), other.shape[::-1], self._run(_aten.t.default, one))
            return self._run(_aten.t.default, turned)
        return self._times(self._of(one), one.shape, other)

    def _times(self, nonzeros: Nonzeros, shape: Any, rows: Any) -> Any:
        messages = self._messages(nonzeros, shape, rows)
        empty = self._run(_aten.new_zeros.default, rows, [shape[0], *rows.shape[1:]])
        return self._run(_aten.index_add.default, empty, 0, nonzeros.ids[0], messages)

    def _messages(self, nonzeros: Nonzeros, shape: Any, rows: Any) -> Any:
        """For each nonzero the row of its column, times its value."""
        if shape[1] != rows.shape[0]:
            raise RuntimeError(f"a sparse matrix of {list(shape)} cannot be multiplied with {list(rows.shape)}")
        read = self._run(_aten.index_select.default, rows, 0, nonzeros.ids[1])
        values = nonzeros.values
        each = values if rows.dim() == 1 else self._run(_aten.unsqueeze.default, values, 1)
        return self._run(_aten.mul.Tensor, read, each)

    def added(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """`beta * rows + alpha * matrix @ rows`."""
        made, beta, alpha = self.product(args[1:3], {}), named.get("beta", 1), named.get("alpha", 1)
        made = made if alpha == 1 else self._run(_aten.mul.Tensor, made, alpha)
        if beta == 0:
            return made
        base = args[0] if beta == 1 else self._run(_aten.mul.Tensor, args[0], beta)
        return self._run(_aten.add.Tensor, base, made)

    def reduced(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """A mean or the largest of what a product sums; of rows without a nonzero 0."""
        matrix, rows, name = args
        nonzeros = self._of(matrix)
        messages = self._messages(nonzeros, matrix.shape, rows)
        each = self._run(_aten.unsqueeze.default, nonzeros.ids[0], 1)
        to = self._run(_aten.expand.default, each, list(messages.shape))
        empty = self._run(_aten.new_zeros.default, rows, [matrix.shape[0], rows.shape[1]])
        made = self._run(_aten.scatter_reduce.two, empty, 0, to, messages, name, include_self=False)
        return made, rows.new_empty(0, dtype=torch.int64)

    def turned(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """The transpose."""
        return self._new(_turned(self._of(args[0])), args[0].shape[::-1])

    def both(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """The sum of two matrices: the nonzeros of both."""
        one, other = args[:2]
        if isinstance(other, int | float) or other.layout != one.layout or one.shape != other.shape:
            raise Unmade(f"something is added to a sparse matrix that is none of its size. {_OTHERWISE}")
        first, second = self._of(one), self._of(other)
        alpha = named.get("alpha", 1)
        more = second.values if alpha == 1 else self._run(_aten.mul.Tensor, second.values, alpha)
        ids = tuple(self._run(_aten.cat.default, list(pair)) for pair in zip(first.ids, second.ids, strict=True))
        values = self._run(_aten.cat.default, [first.values, more])
        return self._new(Nonzeros(ids, values, moved=True), one.shape)

    def summed(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """The sum of each row, or of each column."""
        dims = [dim % args[0].dim() for dim in args[1]]
        if len(dims) != 1 or max(dims) > 1 or args[0].sparse_dim() != 2 or any(args[2:3]) or named.get("keepdim"):
            raise Unmade("a sparse matrix is summed otherwise than by rows or by columns. Sum its rows first.")
        nonzeros, kept = self._of(args[0]), 1 - dims[0]
        shape = [args[0].shape[kept], *args[0].shape[2:]]
        return self._new(Nonzeros((nonzeros.ids[kept],), nonzeros.values, moved=True), shape)

    def dense(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """The sums of rows as a dense tensor; a matrix has no dense form in a text."""
        if args[0].sparse_dim() != 1:
            raise Unmade(
                f"a sparse matrix becomes a dense one, of all rows by all others. Keep it sparse. {_OTHERWISE}"
            )
        nonzeros = self._of(args[0])
        empty = self._run(_aten.new_zeros.default, nonzeros.values, list(args[0].shape))
        return self._run(_aten.index_add.default, empty, 0, nonzeros.ids[0], nonzeros.values)

    def softened(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """A softmax of each row's nonzeros."""
        nonzeros = self._of(args[0])
        if args[0].dim() != 2 or args[1] % 2 != 1:
            raise Unmade("a softmax goes over the columns of a sparse matrix. Take it of the transpose's rows.")
        if not nonzeros.single:
            raise Unmade(
                "a softmax is of a sparse matrix that forward makes, whose nonzeros of one place are added up before. "
                "Take the softmax of the values by each row: exp, index_add by the rows, and a quotient."
            )
        to, count, values = nonzeros.ids[0], [args[0].shape[0]], nonzeros.values
        empty = self._run(_aten.new_zeros.default, values, count)
        most = self._run(_aten.scatter_reduce.two, empty, 0, to, values, "amax", include_self=False)
        less = self._run(_aten.sub.Tensor, values, self._run(_aten.index_select.default, most, 0, to))
        shares = self._run(_aten.exp.default, less)
        whole = self._run(_aten.index_add.default, self._run(_aten.new_zeros.default, values, count), 0, to, shares)
        shares = self._run(_aten.div.Tensor, shares, self._run(_aten.index_select.default, whole, 0, to))
        return self._new(replace(nonzeros, values=shares, moved=not args[0].is_coalesced()), args[0].shape, args[0])

    def ids_of(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """The indices."""
        return self._run(_aten.stack.default, list(self._as_built(args[0]).ids))

    def values_of(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """The values."""
        return self._run(_aten.alias.default, self._as_built(args[0]).values)

    def _as_built(self, matrix: Any) -> Nonzeros:
        """The nonzeros in their order."""
        nonzeros = self._of(matrix)
        if nonzeros.moved:
            raise Unmade(
                "indices or values are read of a sparse matrix whose nonzeros were put in another order, or added up "
                "where they have one place. Take those that the matrix was made of."
            )
        return nonzeros


def _turned(nonzeros: Nonzeros) -> Nonzeros:
    return replace(nonzeros, ids=nonzeros.ids[::-1])


def _of_values(operator: Any) -> Callable[[Matrices, tuple[Any, ...], Mapping[str, Any]], Any]:
    """A matrix by, or over, one number."""

    def made(matrices: Matrices, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        matrix, number = args
        if isinstance(number, torch.Tensor) and (number.dim() or number.layout != torch.strided):
            raise Unmade(f"a sparse matrix is multiplied element by element. {_OTHERWISE}")
        nonzeros = matrices._of(matrix)
        values = matrices._run(operator, nonzeros.values, number)
        return matrices._new(replace(nonzeros, values=values), matrix.shape, matrix)

    return made


_WAYS: Mapping[str, Callable[[Matrices, tuple[Any, ...], Mapping[str, Any]], Any]] = {
    **dict.fromkeys(("mm", "mv", "_sparse_mm"), Matrices.product),
    **dict.fromkeys(("addmm", "_sparse_addmm"), Matrices.added),
    "_sparse_mm_reduce_impl": Matrices.reduced,
    **dict.fromkeys(("t", "transpose"), Matrices.turned),
    "add": Matrices.both,
    **dict.fromkeys(("_sparse_sum", "sum"), Matrices.summed),
    **dict.fromkeys(("_to_dense", "to_dense"), Matrices.dense),
    "_sparse_softmax": Matrices.softened,
    **dict.fromkeys(("_indices", "indices"), Matrices.ids_of),
    **dict.fromkeys(("_values", "values"), Matrices.values_of),
    "mul": _of_values(_aten.mul.Tensor),
    "div": _of_values(_aten.div.Tensor),
}
"""By the operator's name, how it is said with others."""
