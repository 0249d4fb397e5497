"""Tensors in dictionaries, lists and tuples, as a module of several kinds of nodes and edges takes and returns them;
and sparse matrices, which are their indices and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

_NESTED = dict, list, tuple


@dataclass(frozen=True)
class Leaf:
    """The place of a tensor, by its name."""

    name: str


@dataclass(frozen=True)
class Matrix:
    """The place of a sparse matrix, of a layout: those of its `indices`, one behind another by rows, its `values`, and
    how many `rows` and `columns` it has."""

    indices: Leaf
    values: Leaf
    rows: Leaf
    columns: Leaf
    layout: torch.layout

    @property
    def sizes(self) -> tuple[str, str]:
        """The names of the tensors that are how many rows and columns it has."""
        return self.rows.name, self.columns.name

    def of(self, tensors: Mapping[str, Any]) -> Any:
        """The matrix of these tensors."""
        shape = [int(tensors[each]) for each in self.sizes]
        made = torch.sparse_coo_tensor(
            tensors[self.indices.name], tensors[self.values.name], shape, is_coalesced=True, check_invariants=False
        )
        return made if self.layout == torch.sparse_coo else made.to_sparse_csr()


_INDICES: Any = WeakIdKeyDictionary()
"""By matrix, how often it had been changed and its indices: those of one that comes again are the same tensor, which a
graph is kept by. They go with the matrix."""


def matrix_taken_apart(name: str, matrix: Any) -> tuple[Matrix, dict[str, Any]]:
    """A sparse matrix, with the tensors in its place. Nonzeros that it has twice are added up."""
    layout, whole = matrix.layout, matrix
    if layout != torch.sparse_coo:
        whole = matrix.to_sparse_coo()
    if not whole.is_coalesced():
        whole = whole.coalesce()
    leaves = [Leaf(f"{name}.{part}") for part in ("indices", "values", "rows", "columns")]
    made = Matrix(leaves[0], leaves[1], leaves[2], leaves[3], layout)
    parts = _indices(matrix, whole), whole.values(), *map(torch.tensor, matrix.shape)
    return made, dict(zip((made.indices.name, made.values.name, *made.sizes), parts, strict=True))


def _indices(matrix: Any, whole: Any) -> Any:
    """The indices of a matrix, which is `whole` with its nonzeros in order."""
    if matrix.is_inference():  # whose changes are not counted
        return whole.indices().detach()
    version, found = _INDICES.get(matrix, (None, None))
    if version != matrix._version:
        found = whole.indices().detach()
        _INDICES[matrix] = matrix._version, found
    return found


def is_matrix(each: Any) -> bool:
    """Whether a tensor is a sparse matrix of numbers, by its nonzeros or its rows."""
    layouts = torch.sparse_coo, torch.sparse_csr
    return each.layout in layouts and each.dim() == 2 and (each.layout != torch.sparse_coo or each.dense_dim() == 0)


def taken_apart(name: str, each: Any) -> tuple[Any, dict[str, Any]]:
    """What holds tensors, with a `Leaf` in the place of each, and these by their names: `x_dict.paper`. In the place of
    a sparse matrix is a `Matrix`."""
    if isinstance(each, torch.Tensor) and is_matrix(each):
        return matrix_taken_apart(name, each)
    if isinstance(each, torch.Tensor):
        return Leaf(name), {name: each}
    if type(each) not in _NESTED:
        return each, {}
    pairs = each.items() if isinstance(each, dict) else enumerate(each)
    made, tensors = {}, dict[str, Any]()
    for key, inner in pairs:
        path = f"{name}.{'_'.join(map(str, key)) if isinstance(key, tuple) else key}"
        while path in tensors:  # of keys that are written alike
            path += "_"
        made[key], found = taken_apart(path, inner)
        tensors |= found
    return made if isinstance(each, dict) else type(each)(made.values()), tensors


def put_together(each: Any, tensors: Mapping[str, Any]) -> Any:
    """What `taken_apart` took apart, with these tensors."""
    if isinstance(each, Leaf):
        return tensors[each.name]
    if isinstance(each, Matrix):
        return each.of(tensors)
    if type(each) not in _NESTED:
        return each
    if isinstance(each, dict):
        return {key: put_together(inner, tensors) for key, inner in each.items()}
    return type(each)(put_together(inner, tensors) for inner in each)


def matrices_in(each: Any) -> Iterator[Matrix]:
    """The sparse matrices of what `taken_apart` took apart."""
    if isinstance(each, Matrix):
        yield each
    elif type(each) in _NESTED:
        for inner in each.values() if isinstance(each, dict) else each:
            yield from matrices_in(inner)
