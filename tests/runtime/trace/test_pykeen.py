"""PyKEEN's own interactions, of rows that ids gather, and its own training, where PyKEEN is installed: the table of
docs/TRACE.md."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import numpy as np
import pytest

import explorer

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")
pykeen = pytest.importorskip(
    "pykeen.nn.modules", reason="the interactions are PyKEEN's, which this project does without"
)

pykeen_models = pytest.importorskip("pykeen.models")
pykeen_training = pytest.importorskip("pykeen.training")
pykeen_triples = pytest.importorskip("pykeen.triples")

from tests.runtime.trace.held import hold, redraw  # noqa: E402

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "TRACE.md").read_text()
TABLE = PAGE[PAGE.index("| interaction |") :]
ROWS = dict(re.findall(r"^\| ([a-z]\w+) \| ([^|]+) \|$", TABLE, re.MULTILINE)[1:])
ENTITIES, RELATIONS = 13, 5
SIZES = {"d": 8, "e": 4, "f": 8, "k": 2, "s": 1}
"""By the letter that PyKEEN gives a dimension."""
NETWORK = {"embedding_dim": 8, "hidden_dim": 5}
ARGUMENTS = {
    "autosf": {"coefficients": [(0, 0, 0, 1), (1, 1, 1, -1)], "num_blocks": 2},
    "conve": {"embedding_dim": 16, "output_channels": 3, "kernel_height": 2, "kernel_width": 2},
    "convkb": {"embedding_dim": 8, "num_filters": 3},
    "crosse": {"embedding_dim": 8},
    "ermlp": NETWORK,
    "ermlpe": NETWORK,
    "multilineartucker": {"head_dim": 8, "relation_dim": 4, "tail_dim": 8},
    "proje": {"embedding_dim": 8},
    "transformer": {"input_dim": 8, "num_heads": 2, "dim_feedforward": 6, "num_layers": 1},
    "tucker": {"embedding_dim": 8, "relation_dim": 8},
    **{name: {"p": 2} for name in ("transe", "transd", "transh", "transr", "rotate", "se", "um", "mure")},
    **{name: {"p": 2} for name in ("lineare", "pairre", "triplere")},
}
OTHER_SIZES = {"conve": {"d": 16}, "quate": {"k": 4}}


class Model(torch.nn.Module):
    """An interaction, with the tables that it asks for."""

    def __init__(self, name):
        super().__init__()
        self.interaction = pykeen.interaction_resolver.make(name, ARGUMENTS.get(name))
        sizes = {**SIZES, **OTHER_SIZES.get(name, {})}
        self.complex = self.interaction.is_complex

        def tables(count, shapes):
            inner = [[*(sizes[letter] for letter in shape), *([2] if self.complex else [])] for shape in shapes]
            return torch.nn.ParameterList([torch.nn.Parameter(torch.randn(count, *shape)) for shape in inner])

        self.entities = tables(ENTITIES, self.interaction.entity_shape)
        self.relations = tables(RELATIONS, self.interaction.relation_shape)

    def forward(self, h, r, t):
        every = range(len(self.entities))
        heads, tails = (every if of is None else of for of in (self._of("_head_indices"), self._of("_tail_indices")))
        return self.interaction(
            self._rows(self.entities, heads, h),
            self._rows(self.relations, range(len(self.relations)), r),
            self._rows(self.entities, tails, t),
        )

    def _of(self, name):
        return getattr(self.interaction, name)

    def _rows(self, tables, which, ids):
        rows = [torch.view_as_complex(tables[at][ids]) if self.complex else tables[at][ids] for at in which]
        return rows[0] if len(rows) == 1 else tuple(rows)


def triples(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, most, (count,), generator=generator) for most in (ENTITIES, RELATIONS, ENTITIES)]


def test_the_page_has_every_interaction() -> None:
    assert list(ROWS) == sorted(pykeen.interaction_resolver.lookup_dict)


@pytest.mark.parametrize("name", ROWS)
def test_an_interaction_goes_or_says_why(name) -> None:
    torch.manual_seed(0)
    module = Model(name).eval()
    if ROWS[name] != "goes":
        with pytest.raises(ValueError, match=re.escape(ROWS[name])):
            explorer.trace(module, *triples(7, 0))
        return
    found = explorer.trace(module, *triples(7, 0))
    redraw(module, 3)
    hold(module, found.module(), triples(11, 1))
    hold(module, found.module(), triples(4, 2))


class Scored(torch.nn.Module):
    """What PyKEEN's training asks of a model, for triples [batch, 3]."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, triples):
        return self.model.score_hrt(triples).squeeze(-1)


def trained(model, factory):
    """The losses of an epoch of PyKEEN's own training loop."""
    torch.manual_seed(5)
    loop = pykeen_training.SLCWATrainingLoop(
        model=model, triples_factory=factory, optimizer=torch.optim.SGD(model.parameters(), lr=0.1)
    )
    return loop.train(factory, num_epochs=1, batch_size=64, use_tqdm=False, use_tqdm_batch=False)


@pytest.mark.parametrize("name", ["TransE", "RotatE", "TransR"])
def test_training_in_pykeen_is_the_same_with_a_replacement(name, shared_data) -> None:
    data = np.load(shared_data / "fb15k-237.npz")
    triples = torch.from_numpy(data["train"][:128].astype(np.int64))
    factory = pykeen_triples.CoreTriplesFactory(triples, int(data["num_entities"]), int(data["num_relations"]))
    eager = getattr(pykeen_models, name)(triples_factory=factory, embedding_dim=8, random_seed=0)
    beside, start = copy.deepcopy(eager), copy.deepcopy(eager.state_dict())
    replacement = explorer.trace(Scored(beside), triples[:40]).module()
    calls = []
    beside.score_hrt = lambda hrt_batch, **_: calls.append(1) or replacement(hrt_batch).unsqueeze(-1)
    assert trained(beside, factory) == pytest.approx(trained(eager, factory), rel=1e-5)
    assert calls
    after, moved = beside.state_dict(), 0.0
    for path, tensor in eager.state_dict().items():
        torch.testing.assert_close(after[path], tensor, rtol=0, atol=1e-5 * max(1.0, float(tensor.abs().max())))
        moved = max(moved, float((tensor - start[path]).abs().max()))
    assert moved > 1e-3
