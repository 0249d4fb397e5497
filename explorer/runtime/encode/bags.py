"""The bags of an op that has several, `op f(a: bag of item, b: bag of user)`: each lists of its own, and every list of
one stands beside that of the others.

What they are given as has the name of the parameter before it, `a_ptr` and `a_idx`.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from explorer.compiler.ir.graph import Graph, IndexMap
from explorer.compiler.ir.set_maps import listed_in
from explorer.runtime.data.index_arrays import FORMS, Form, sparse_in
from explorer.runtime.data.index_lists import SparseRows
from explorer.runtime.data.triples import Ids, InputError

BAG = "bag"
"""The map from entries to bags, where there is one bag; of several the name of each stands before it."""


@dataclass(frozen=True, eq=False)
class Bag:
    """The lists of one of several bags, and the maps that they are: from entries to bags, and to what they pick."""

    home: IndexMap
    pick: IndexMap
    lists: SparseRows

    @property
    def counts(self) -> dict[str, int]:
        """How many elements its sets have."""
        return {self.pick.codomain: self.lists.num_cols, self.home.domain: self.lists.num_entries}

    @property
    def maps(self) -> dict[str, Ids]:
        """Its maps, by name."""
        return {self.home.name: self.lists.owners(), self.pick.name: self.lists.idx}


def has_several_bags(graph: Graph) -> bool:
    """Whether an op is over several bags."""
    return len(listed_in(graph)) > 1


def form_of_bag(home: str) -> Form:
    """The arrays that a bag is given as, by the name of its map to bags."""
    prefix, usual = home.removesuffix(BAG), FORMS[0]
    lists, picks, value = (f"{prefix}{name}" for name in (usual.lists, usual.picks, usual.value))
    return Form(lists, picks, value, usual.num_lists, f"{prefix}{usual.num_picked}")


def given_bags(by_home: Mapping[str, SparseRows]) -> dict[str, Any]:
    """Bags as a caller gives them, by their maps to bags; of those without weights any will do, since nothing takes
    them."""
    found: dict[str, Any] = {}
    for home, lists in by_home.items():
        form = form_of_bag(home)
        weights = np.ones(lists.num_entries, np.float32) if lists.value is None else lists.value
        found |= {form.lists: lists.ptr, form.picks: lists.idx, form.value: weights}
    return found


def bags_from(graph: Graph, arrays: Mapping[str, Any], known: Mapping[str, int]) -> tuple[Bag, ...]:
    """All bags of an op that has several, of the arrays that they are given as, checked; `known` says how many rows
    there are to pick where tensors tell it. Raises InputError."""
    found = []
    for home, pick in listed_in(graph):
        form = form_of_bag(home.name)
        for name in (form.lists, form.picks):
            if name not in arrays:
                raise InputError(f"There is no array for {name}.")
        lists = sparse_in(form, arrays, graph.name, "given", known.get(pick.codomain))
        found.append(Bag(home, pick, lists))
    check_bags(graph.name, [(form_of_bag(each.home.name).lists, each.lists.num_rows) for each in found])
    return with_rows(graph.name, found, arrays)


def check_bags(name: str, counts: Sequence[tuple[str, int]]) -> None:
    """Raises InputError where bags are not as many each: `counts` are those of the arrays of their ends."""
    first, bags = counts[0]
    for other, others in counts[1:]:
        if others != bags:
            raise InputError(f"{name}: {first} is of {bags:,} bags and {other} of {others:,}, not one number")


def with_rows(name: str, bags: Sequence[Bag], arrays: Mapping[str, Any]) -> tuple[Bag, ...]:
    """The bags, where those that pick of one set know of as many rows. Raises InputError where two say otherwise."""
    most: dict[str, int] = {}
    said: dict[str, tuple[str, int]] = {}
    for bag in bags:
        index_set, rows, count = bag.pick.codomain, bag.lists.num_cols, form_of_bag(bag.home.name).num_picked
        most[index_set] = max(rows, most.get(index_set, 0))
        if count in arrays:
            first, others = said.setdefault(index_set, (count, rows))
            if others != rows:
                raise InputError(f"{name}: {first} is {others:,} and {count} {rows:,}, which are of the same rows")
    for index_set, (count, rows) in said.items():
        if most[index_set] > rows:
            raise InputError(f"{name}: {count} is {rows:,}, but others of its bags pick among {most[index_set]:,} rows")
    return tuple(replace(bag, lists=replace(bag.lists, num_cols=most[bag.pick.codomain])) for bag in bags)


def drawn_beside(graph: Graph, lists: SparseRows, seed: int) -> tuple[Bag, ...]:
    """Of an op that has several bags those behind the first, whose lists are these: as many bags, each of up to twice
    as many entries as theirs have on average, some of none, which pick uniformly among as many rows."""
    found = []
    for home, pick in listed_in(graph)[1:]:
        random = np.random.default_rng([seed, zlib.crc32(home.name.encode())])
        ptr = np.zeros(lists.num_rows + 1, np.int32)
        np.cumsum(random.integers(0, _longest(lists) + 1, lists.num_rows), out=ptr[1:])
        idx = random.integers(0, max(1, lists.num_cols), ptr[-1], dtype=np.int32)
        found.append(Bag(home, pick, SparseRows(lists.name, lists.source, lists.num_cols, ptr, idx)))
    return tuple(found)


def most_beside(graph: Graph, lists: SparseRows) -> dict[str, int]:
    """How many elements the sets of bags that are drawn beside the first's have at the most."""
    entries = lists.num_rows * _longest(lists)
    return {
        index_set: count
        for home, pick in listed_in(graph)[1:]
        for index_set, count in ((pick.codomain, lists.num_cols), (home.domain, entries))
    }


def _longest(lists: SparseRows) -> int:
    """Up to how many entries a bag is drawn to have beside one of these lists: of no rows there are none."""
    return 2 * -(-lists.num_entries // max(1, lists.num_rows)) if lists.num_cols else 0
