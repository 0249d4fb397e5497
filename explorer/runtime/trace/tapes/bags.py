"""Embedding bags as what they are made of: rows that ids gather, and their sum, mean or maximum in each bag."""

from __future__ import annotations

from typing import Any

import torch

from explorer.runtime.trace.tapes.columns import Columns, Run

_BAGS = {"aten::_embedding_bag", "aten::_embedding_bag_forward_only"}
_SUM, _MEAN, _MAX = range(3)
_DEFAULTS: dict[int, Any] = {3: False, 4: _SUM, 5: False, 6: None, 7: False, 8: -1}
"""By its place, what an argument is that is not there: scale_grad_by_freq, mode, sparse, per_sample_weights,
include_last_offset and padding_idx."""

_aten = torch.ops.aten


def are_bags(name: str) -> bool:
    """Whether an operator is an embedding bag."""
    return name in _BAGS


def are_plain(args: tuple[Any, ...]) -> bool:
    """Whether no id is padding."""
    return all(padding < 0 for padding in args[8:9])


def begins_of(run: Run, args: tuple[Any, ...]) -> Any:
    """Where each bag begins, of offsets whose last one is where the ids end if it is asked for: it is taken out of
    them, to be held to that."""
    if not any(args[7:8]):
        return args[2]
    run(_aten._local_scalar_dense.default, run(_aten.select.int, args[2], 0, -1))
    return run(_aten.slice.Tensor, args[2], 0, 0, len(args[2]) - 1)


def rows_of_bags(args: tuple[Any, ...], columns: Columns | None, fixed: bool) -> Any:
    """The ids of bags that are all of one size, `[bags, ids of one]`; None of others. `columns` are the ids before they
    were put one behind another, and `fixed` says that no tensor decides the offsets."""
    ids, offsets = args[1], args[2]
    bags = len(offsets) - int(args[7] if len(args) > 7 else False)
    size = ids.numel() // bags if bags else 0
    if not fixed or size == 0 or not torch.equal(offsets.cpu(), torch.arange(len(offsets), dtype=offsets.dtype) * size):
        return None
    if ids.numel() == bags:
        return ids
    whole = columns is not None and columns.along == 0 and columns.ids.shape == (bags, size)
    return columns.ids if whole and columns is not None else None


def bagged(run: Run, args: tuple[Any, ...], ids: Any) -> Any:
    """What an embedding bag returns, of ids `[bags, ids of one]`, or `[bags]` where each has one. As in PyTorch, a bag
    of padding alone is 0."""
    by_frequency, mode, sparse, weights, _, padding = (
        args[at] if at < len(args) else usual for at, usual in _DEFAULTS.items()
    )
    rows = run(_aten.embedding.default, args[0], ids, -1, by_frequency, sparse)
    if ids.dim() == 1:
        ids, rows = run(_aten.unsqueeze.default, ids, 1), run(_aten.unsqueeze.default, rows, 1)
    if weights is not None:
        each = run(_aten.view.default, weights, list(ids.shape))
        rows = run(_aten.mul.Tensor, rows, run(_aten.unsqueeze.default, each, -1))
    if padding < 0:
        return _taken(run, rows, mode)
    return _without_padding(run, rows, mode, run(_aten.ne.Scalar, ids, padding))


def bagged_by(run: Run, args: tuple[Any, ...], bag: Any, bags: int) -> Any:
    """What an embedding bag returns, of ids whose `bag` is one of so many. As in PyTorch an empty one is 0."""
    by_frequency, mode, sparse, weights, *_ = (args[at] if at < len(args) else usual for at, usual in _DEFAULTS.items())
    rows = run(_aten.embedding.default, args[0], args[1], -1, by_frequency, sparse)
    if weights is not None:
        rows = run(_aten.mul.Tensor, rows, run(_aten.unsqueeze.default, weights, -1))
    empty = run(_aten.new_zeros.default, rows, [bags, rows.shape[1]])
    if mode == _SUM:
        return run(_aten.index_add.default, empty, 0, bag, rows)
    each = run(_aten.expand.default, run(_aten.unsqueeze.default, bag, 1), list(rows.shape))
    name = "mean" if mode == _MEAN else "amax"
    return run(_aten.scatter_reduce.two, empty, 0, each, rows, name, include_self=False)


def bags_of(run: Run, ids: Any, offsets: Any) -> Any:
    """The bag of each id: the last that begins before it, or with it."""
    places = run(_aten.arange.default, len(ids), dtype=offsets.dtype, device=offsets.device)
    behind = run(_aten.searchsorted.Tensor, offsets, places, right=True)
    return run(_aten.sub.Tensor, behind, 1)


def _taken(run: Run, rows: Any, mode: int) -> Any:
    """The rows of a bag as one."""
    if mode == _MAX:
        return run(_aten.max.dim, rows, 1)[0]
    return run(_aten.mean.dim if mode == _MEAN else _aten.sum.dim_IntList, rows, [1])


def _without_padding(run: Run, rows: Any, mode: int, kept: Any) -> Any:
    """The rows of a bag that are `kept` as one."""
    there = run(_aten.unsqueeze.default, kept, -1)
    if mode == _MAX:
        lowest = run(_aten.where.ScalarOther, there, rows, torch.finfo(rows.dtype).min)
        some = run(_aten.any.dim, kept, 1, True)
        return run(_aten.where.ScalarOther, some, _taken(run, lowest, mode), 0.0)
    total = _taken(run, run(_aten.where.ScalarOther, there, rows, 0.0), _SUM)
    if mode == _SUM:
        return total
    count = run(_aten.sum.dim_IntList, kept, [1], True)
    return run(_aten.div.Tensor, total, run(_aten.clamp_min.default, count, 1))
