"""Several sets of nodes that became one, all kinds one behind another: what a call's ids and rows are of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from explorer.runtime.trace.joins.rows import Row
from explorer.runtime.trace.tapes.unions import starts


@dataclass(frozen=True)
class Lead:
    """How a map of the module's leads to all nodes: its ids in each block of the set `of` lead to one block of the set
    `to`, whose numbers are `places`."""

    map: str
    of: tuple[str, ...]
    to: tuple[str, ...]
    places: tuple[int, ...]

    def ids(self, ids: Any, lengths: Mapping[str, int], begins: Mapping[str, int]) -> Any:
        """The ids of nodes, of the module's own. `begins` are where each kind's nodes do. Raises ValueError where an id
        leads to another block than in the trace."""
        ends = starts(lengths[each] for each in self.to)
        less, most, more = (
            each[0] if len(each) == 1 else self._spread(each, lengths, ids.device)
            for each in (
                [ends[at] for at in self.places],
                [lengths[self.to[at]] for at in self.places],
                [begins[self.to[at]] for at in self.places],
            )
        )
        own = ids.long() - less
        if bool(((own < 0) | (own >= most)).any()):
            raise ValueError("an id leads to a node of another kind than in the traced example, or to none.")
        return own + more

    def _spread(self, numbers: list[int], lengths: Mapping[str, int], device: Any) -> Any:
        """A number for each row, of those of the blocks."""
        counts = torch.tensor([lengths[each] for each in self.of])
        return torch.repeat_interleave(torch.tensor(numbers), counts).to(device)


@dataclass(frozen=True)
class Kinds:
    """One set of nodes, of all `kinds` one behind another. `leads` are the maps that are new, `types` those that lead
    to the number of a row's block, with the blocks of their sets. `stacks` are tables whose rows are the module's, one
    a block; `rows` tensors that are made of a tensor a block, "" for one that has none and is 0 there; `own` tensors
    that are 1 for one block's rows and 0 for the others. `results` are, for each of the module's, the text's and the
    kind whose rows it has, None where these are all. `behind` are maps that lead where others do, one a block of
    edges."""

    kinds: tuple[str, ...]
    leads: Mapping[str, Lead]
    types: Mapping[str, tuple[str, ...]]
    stacks: Mapping[str, tuple[Row, ...]]
    rows: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
    own: Mapping[str, tuple[tuple[str, ...], int]]
    results: tuple[tuple[int, int | None], ...]
    behind: Mapping[str, tuple[str, ...]]

    def made(self, ids: Mapping[str, Any], lengths: Mapping[str, int]) -> dict[str, Any]:
        """The ids of the maps that are new, and which rows are a block's, in 32-bit floats. `lengths` are by set.
        Raises ValueError where ids do not lead to the kinds that they did in the trace."""
        begins = dict(zip(self.kinds, starts(lengths[each] for each in self.kinds), strict=False))
        device = next((each.device for each in ids.values()), None)
        found = {name: lead.ids(ids[lead.map], lengths, begins) for name, lead in self.leads.items()}
        known = {**ids, **found}
        for name, parts in self.behind.items():
            found[name] = torch.cat([known[part].long() for part in parts])
            if name in known and not torch.equal(found[name], known[name].long()):
                raise ValueError(
                    "edges lead to others than those that are put behind one another, unlike in the trace."
                )
        for name, blocks in self.types.items():
            counts = torch.tensor([lengths[each] for each in blocks])
            found[name] = torch.repeat_interleave(torch.arange(len(blocks)), counts).to(device)
        for name, (blocks, of) in self.own.items():
            found[name] = torch.cat(
                [torch.full((lengths[each],), float(at == of), device=device) for at, each in enumerate(blocks)]
            )
        return found

    def with_rows(self, tensors: Mapping[str, Any], lengths: Mapping[str, int]) -> dict[str, Any]:
        """The tensors that are made of others' rows."""
        return {
            name: torch.cat(_blocks([tensors.get(each) for each in sources], [lengths[each] for each in blocks]))
            for name, (blocks, sources) in self.rows.items()
        }

    def nodes(self, lengths: Mapping[str, int]) -> int:
        """How many nodes there are, of all kinds."""
        return sum(lengths[each] for each in self.kinds)

    def of_results(self, results: Iterable[Any], lengths: Mapping[str, int]) -> tuple[Any, ...]:
        """The module's results, of the text's."""
        counts = [lengths[each] for each in self.kinds]
        ends, made = starts(counts), tuple(results)
        return tuple(
            made[at] if kind is None else made[at].narrow(0, ends[kind], counts[kind]) for at, kind in self.results
        )


def _blocks(tensors: list[Any], lengths: list[int]) -> list[Any]:
    """The rows of each block, 0 where there is no tensor."""
    like = next(each for each in tensors if each is not None)
    pairs = zip(tensors, lengths, strict=True)
    return [like.new_zeros(length, *like.shape[1:]) if each is None else each for each, length in pairs]
