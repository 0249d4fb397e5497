"""The examples from simple to rich, and a tour of nine of them, each with what to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from explorer.compiler.pipeline import STAGES
from explorer.web.examples import Example, examples

DEFAULT_EXAMPLE = "rgnn/rgat"
"""What the page opens with. Of all examples its passes change most (measured: four of the graph and four of the
loops; TransR's change nothing in the graph), so that its first screen shows a compiler at work."""


@dataclass(frozen=True)
class View:
    """A pane of a stop: its stage, at the end of a pass of it where one is named, beside what that pass was given."""

    stage: str
    after: str = ""

    def to_json(self) -> dict[str, Any]:
        """The pane as the page has it: the last pass of a stage is its end."""
        return {"stage": self.stage, "at": self.number, "diff": bool(self.after)}

    @property
    def number(self) -> int | None:
        """The number of its pass."""
        if not self.after:
            return None
        (spec,) = (spec for spec in STAGES if spec.name == self.stage)
        names = [step.__name__ for step in spec.passes]
        found = names.index(self.after)
        return None if found == len(names) - 1 else found


@dataclass(frozen=True)
class Stop:
    """An example of the tour, what to look at in a sentence, and how the page then stands."""

    example: str
    look: str
    panes: tuple[View, ...]
    options: Mapping[str, str | int | bool] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """What the page's script takes."""
        panes = [view.to_json() for view in self.panes]
        return {**asdict(self), "panes": panes, "options": dict(self.options)}


STOPS = (
    Stop(
        "kge/distmult",
        "Point at the * of the model: its lines light up in the graph, the loops and the CUDA. Why tells its story.",
        (View("graph"), View("loops"), View("cuda")),
    ),
    Stop(
        "kge/transr",
        "interchange turns the two loops of @ around, so that the inner one walks the rows of P, which lie together.",
        (View("loops", "interchange"), View("cuda")),
    ),
    Stop(
        "kge/transh",
        "common_subexpressions finds w[r] written twice, and gathers it once.",
        (View("graph", "common_subexpressions"), View("loops")),
    ),
    Stop(
        "embedding/sls",
        "decouple tears lookups (the access unit, A) from arithmetic (the execute unit, X). Run fills their queues.",
        (View("loops"), View("slc"), View("dlc")),
    ),
    Stop(
        "embedding/sls_weighted",
        "Ember's three levels: vectors first, then one record a row, then a queue where scalars are padded or counted.",
        (View("slc"), View("slc.opt1", "vectorize"), View("slc.opt2", "bufferize"), View("slc.opt3", "align_queues")),
    ),
    Stop(
        "rgnn/gcn",
        "A layer over a graph: one nest visits each node and its edges, which a GPU then runs as two kernels.",
        (View("loops", "fuse"), View("kernels")),
    ),
    Stop(
        "rgnn/rgcn",
        "aggregate_first adds the edges of a type up before it multiplies: a product a pair of node and type.",
        (View("graph", "aggregate_first"), View("loops")),
    ),
    Stop(
        "rgnn/rgat",
        "compact moves what depends on source and type alone from each edge to each distinct pair of the two.",
        (View("graph", "compact"), View("loops", "online")),
    ),
    Stop(
        "rgnn/hgt",
        "With the backward pass on, differentiate writes the gradients into the same graph, and all stages follow.",
        (View("graph", "differentiate"), View("kernels")),
        {"grad": True},
    ),
)

MORE = {
    "kge/transe_l1": "TransE: two rows added, one taken away, and a sum of absolute values.",
    "kge/transe_l2": "The same under the 2-norm: one square root more.",
    "kge/transf": "TransF: a sum that is needed twice, gathered once.",
    "kge/rescal": "RESCAL: a whole matrix a relation, and the product that interchange turns around.",
    "embedding/spattn": "Blocks of keys gathered: a lookup with no arithmetic at all.",
    "embedding/spattn_replicated": "The same, with a copy for each token of the query.",
    "embedding/kg_lookup": "Three lookups a triple, as Ember counts them.",
    "embedding/sls_mean": "A bag's mean; an empty bag gives 0.",
    "embedding/sls_max": "A bag's largest, element by element.",
    "embedding/spmm_unweighted": "Rows added up along a sparse matrix of ones.",
    "embedding/spmm": "The same, each scaled by its nonzero: the aggregation of a GNN.",
    "embedding/spmm_mean": "The mean over a row's nonzeros, as GraphSAGE has it.",
    "embedding/spmm_max": "The maximum over a row's nonzeros.",
    "embedding/spmm_coo": "From coordinates: one loop, with a callback at each new row.",
    "embedding/sddmm": "A dot product for each nonzero.",
    "embedding/mp": "SDDMM and SpMM in one, where a node's own row is read once.",
    "embedding/mp_sigmoid": "FusedMM: the same with a sigmoid between, over two tables.",
    "embedding/bag_dot": "A DLRM in small: lookup, projection and dot product in one op.",
    "rgnn/rgat_heads": "RGAT with several heads: H leads every shape.",
}
"""The examples that the tour leaves out, in the same order, with a sentence each."""


@dataclass(frozen=True)
class Entry:
    """A line of the menu of examples; `number` counts the stops of the tour, 0 is none of them."""

    key: str
    name: str
    sentence: str
    number: int = 0


def key_of(example: Example) -> str:
    """What an example is called in addresses."""
    return f"{example.folder}/{example.name}"


def menu() -> tuple[tuple[Entry, ...], tuple[Entry, ...]]:
    """The stops of the tour, and the other examples; those of no sentence yet come last."""
    there = {key_of(example): example for example in examples()}
    stops = tuple(
        Entry(stop.example, there[stop.example].name, stop.look, number)
        for number, stop in enumerate(STOPS, start=1)
        if stop.example in there
    )
    others = [*MORE, *(key for key in there if key not in MORE)]
    taken = {entry.key for entry in stops}
    more = (Entry(key, there[key].name, MORE.get(key, "")) for key in others if key in there and key not in taken)
    return stops, tuple(more)
