"""The indices of an op: lists of rows to pick, compressed ones as they are, coordinates sorted by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .indices import Indices, Tensor, highest, inverse, narrow, one_device
from .maps import add_declared
from .module import Compiled

FORMS = (
    ("ptr", "idx", "", "num_rows"),
    ("ptr", "blocks", "", "num_blocks"),
    ("rowptr", "col", "num_rows", "num_cols"),
    ("row", "col", "num_rows", "num_cols"),
)
"""The ways to write lists down: what says where each list begins (or which list an entry is in), what entries pick, and
the numbers of lists and of rows to pick."""


class Lists(Compiled):
    """An op on lists: `module(ptr, idx, T=table)`, with the maps that its text declares behind these; which of FORMS
    comes without names, `form` says."""

    form: int
    owner: str  # the sets of lists, of entries and of rows; the maps from entries to the others
    entry: str
    picked: str
    home: str
    pick: str
    home_ends: str  # what the inverse of `home` is called
    home_order: str

    def sets(self) -> set[str]:
        """The lists are one too, whether or not a tensor is over them."""
        return super().sets() | {self.owner}

    def prepare(self, *ids: Tensor, known: Mapping[str, int] | None = None, **named: Any) -> Indices:
        """The lists; how many there are, where coordinates leave that open, is as given, or what tensors or the module
        have rows for, or the least that holds the ids."""
        declared = [entry.name for entry in self.declared]
        order = (*FORMS[self.form][:2], *declared)
        given = {**dict(zip(order, ids, strict=False)), **named}
        form = next((form for form in FORMS if form[0] in given and form[1] in given), FORMS[self.form])
        if not {*form[:2]} <= given.keys() <= {*filter(None, form), *declared} or len(ids) > len(order):
            sizes = " or ".join(filter(None, form[2:]))
            needed = " and ".join([*form[:2], *declared])
            raise ValueError(f"{type(self).__name__} takes {needed}, and {sizes}.")
        lists = {n: narrow(given[n], n, self.check_indices) for n in (*form[:2], *declared) if n in given}
        ends, picks = (lists[name] for name in form[:2])
        if ends.ndim != 1 or picks.ndim != 1:
            raise ValueError(f"{form[0]} and {form[1]} are lists.")
        device = one_device(lists)
        made = Indices(device, {}, {"unit": 1, self.entry: len(picks)}, ordered=self.entry)
        owners = given.get(form[2])
        if form[0] == "row":
            owners = (self.set_sizes if known is None else known).get(self.owner) if owners is None else owners
            owners = highest(ends, True) + 1 if owners is None else int(owners)
            ends, picks = self._sort(made, ends, picks, owners)
        else:
            if owners not in (None, len(ends) - 1):
                raise ValueError(f"{form[0]} begins {len(ends) - 1:,} lists, not {form[2]}={owners}.")
            if self.check_indices:
                _check_ends(ends, form[0], len(picks))
            made.arrays[self.home_order] = made.every(len(picks))
            every = made.every(len(ends) - 1)
            made.arrays[self.home] = torch.repeat_interleave(every, ends.diff(), output_size=len(picks))
        made.arrays[self.home_ends], made.arrays[self.pick] = ends, picks
        made.highest[self.pick] = highest(picks, self.check_indices)
        made.counts[self.owner] = len(ends) - 1
        if form[3] in given:
            made.counts[self.picked] = int(given[form[3]])
        add_declared(made, self.declared, lists, self.check_indices)
        return made

    def _sort(self, made: Indices, lists: Tensor, picks: Tensor, owners: int) -> tuple[Tensor, Tensor]:
        """Where the entries of each list begin once they are sorted, and what these pick."""
        if len(lists) != len(picks):
            raise ValueError(f"there are {len(lists):,} entries and {len(picks):,}, not one number.")
        rows, made.order = torch.sort(lists, stable=True)
        if self.check_indices and len(rows) and int(rows[-1]) >= owners:
            raise ValueError(f"an entry is in list {int(rows[-1]):,} of {owners:,}.")
        ends, made.arrays[self.home_order] = inverse(rows, owners)
        made.arrays[self.home] = rows
        return ends, picks.index_select(0, made.order)


def _check_ends(ends: Tensor, name: str, entries: int) -> None:
    """Raises ValueError unless these begin with 0, end with the entries, and nowhere fall."""
    if not len(ends) or int(ends[0]) or int(ends[-1]) != entries or bool((ends.diff() < 0).any()):
        raise ValueError(f"{name} must begin with 0, end with {entries:,}, and nowhere fall.")
