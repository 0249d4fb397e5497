"""Ids that are computed of several, in modules of PyTorch: what autograd makes of the same tables, on a CPU and on a
pretended GPU, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.compiler.models import compiled

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")

ENTITIES, RELATIONS, TIMES, D, M = 9, 4, 5, 4, 7


class Case(NamedTuple):
    """A text, the sizes of its parameters' sets, a call's ids, and what it gives for these and the parameters."""

    text: str
    sizes: dict[str, int]
    ids: Callable[[int], dict[str, Any]]
    means: Callable[[dict[str, Any], dict[str, Any]], Any]


def drawn(count: int, **sizes: int) -> dict[str, Any]:
    """Ids of sets, of which the greatest are there wherever there are some."""
    found = {name: torch.randint(size, (count,)) for name, size in sizes.items()}
    for name, size in sizes.items():
        found[name][:1] = size - 1
    return found


SCORE = f"""dim D = {D}, M = {M}
score Crossed(h: entity, r: relation, t: entity):
    param E[entity, D], S[either, D], C[cross, D], P[pair]
    return dot(E[h] + S[h + t], C[(2654435761 * h - 40503 * t + 11 * r) % M]) * P[h * {RELATIONS} + r]
"""


def scores(i: dict[str, Any], w: dict[str, Any]) -> Any:
    h, r, t = i["h"], i["r"], i["t"]
    crossed = w["C"][(2654435761 * h - 40503 * t + 11 * r) % M]
    return ((w["E"][h] + w["S"][h + t]) * crossed).sum(-1) * w["P"][h * RELATIONS + r]


LAYER = f"""dim D = {D}, M = {M}
layer Crossed(g: graph):
    param x[node, D], Q[sums, D], H[hours, D]
    map when: edge -> time
    for n in g.nodes():
        n["h"] = sum(x[e.src] * Q[e.src + n] * H[(3 * e.when - n + e.etype) % M] for e in n.incoming_edges())
    return n["h"]
"""


def messages(i: dict[str, Any], w: dict[str, Any]) -> Any:
    src, dst = i["src"], i["dst"]
    rows = w["x"][src] * w["Q"][src + dst] * w["H"][(3 * i["when"] - dst + i["etype"]) % M]
    return torch.zeros(ENTITIES, D).index_add(0, dst, rows)


OP = f"""dim D = {D}, M = {M}
op Crossed(b: bag of row):
    param T[row, D], P[cross, D]
    return sum(T[i] * P[(3 * i + 5 * b) % M] for i in b)
"""


def bags(count: int) -> dict[str, Any]:
    ends = torch.tensor([0, count // 3, count // 3, count])
    return {"ptr": ends, **drawn(count, idx=ENTITIES)}


def pooled(i: dict[str, Any], w: dict[str, Any]) -> Any:
    owner = torch.repeat_interleave(torch.arange(3), i["ptr"].diff())
    rows = w["T"][i["idx"]] * w["P"][(3 * i["idx"] + 5 * owner) % M]
    return torch.zeros(3, D).index_add(0, owner, rows)


CASES = {
    "score": Case(
        SCORE,
        {"entity": ENTITIES, "either": 2 * ENTITIES - 1, "cross": M, "pair": ENTITIES * RELATIONS},
        lambda count: drawn(count, h=ENTITIES, r=RELATIONS, t=ENTITIES),
        scores,
    ),
    "layer": Case(
        LAYER,
        {"node": ENTITIES, "sums": 2 * ENTITIES - 1, "hours": M},
        lambda count: drawn(count, src=ENTITIES, dst=ENTITIES, etype=2, when=TIMES),
        messages,
    ),
    "op": Case(OP, {"row": ENTITIES, "cross": M}, bags, pooled),
}


def assert_as_autograd(case: Case, counts: tuple[int, ...]) -> None:
    """A module's results and gradients, for calls with so many ids."""
    torch.manual_seed(0)
    module = compiled(case.text, on_demand=True).torch(**case.sizes)
    for count in counts:
        ids = case.ids(count)
        tables = {name: each.detach().clone().requires_grad_() for name, each in module.named_parameters()}
        want = case.means(ids, tables)
        upstream = torch.randn_like(want)
        want.backward(upstream)
        module.zero_grad()
        got = module(**ids)
        got.backward(upstream)
        torch.testing.assert_close(got, want)
        for name, parameter in module.named_parameters():
            torch.testing.assert_close(parameter.grad, tables[name].grad)


@pytest.mark.parametrize("name", CASES)
def test_a_module_gives_what_autograd_gives(name: str) -> None:
    assert_as_autograd(CASES[name], (13, 0, 30))


@pytest.mark.parametrize("name", CASES)
def test_a_module_on_a_gpu_gives_what_autograd_gives(name: str, pretended_gpu: list[int]) -> None:
    assert_as_autograd(CASES[name], (13, 30))  # of no facts the pretended one leaves out the launch that computes
    assert set(pretended_gpu) == {7}


@pytest.mark.parametrize("negatives", ["tail:5", "tail:5/4"])
def test_a_batch_of_nothing_has_no_ids_to_compute_negatives_of(negatives: str) -> None:
    case = CASES["score"]
    module = compiled(case.text, options={"negatives": negatives}, on_demand=True).torch(**case.sizes)
    none = torch.zeros(0, dtype=torch.int64)
    for _ in range(2):
        scores = module(none, none, none.reshape(0, 5))
        assert scores.shape == (0, 5)
        module.zero_grad()
        scores.sum().backward()
        assert all(not parameter.grad.any() for parameter in module.parameters())


def test_a_table_lacks_no_row() -> None:
    case = CASES["score"]
    module = compiled(case.text, on_demand=True).torch(**{**case.sizes, "either": 2 * ENTITIES - 2})
    with pytest.raises(ValueError, match="h_plus_t leads to 17 rows, but S has 16"):
        module(**case.ids(3))


def test_rows_that_32_bits_do_not_number_are_refused() -> None:
    text = "score f(h: entity, t: entity):\n    param E[entity], S[sums]\n    return E[h] * S[1000000000 * h + t]\n"
    module = compiled(text, on_demand=True).torch(entity=4, sums=3)
    ids = torch.tensor([0, 3])
    message = "h_times_1000000000_plus_t may lead to 3,000,000,004 rows, and an id has 32 bits, for 2,147,483,647"
    with pytest.raises(ValueError, match=message):
        module(h=ids, t=ids)


TIMED = """op f(b: bag of row):
    param T[row], S[sums]
    map when: entry -> time
    return sum(T[i] * S[i + 2 * i.when] for i in b)
"""


@pytest.mark.parametrize("rows", [5, 6, 7, 12])
def test_a_set_that_no_tensor_is_over_has_as_many_elements_as_the_table_of_sums_is_for(rows: int) -> None:
    """Of 3 rows and n times there are 2 n + 1 sums: 6 rows are for no number of times, 5 for two, 7 for three."""
    random = np.random.default_rng(0)
    table, sums = random.normal(size=3).astype(np.float32), random.normal(size=rows).astype(np.float32)
    idx, when = np.array([2, 0, 1]), np.array([1, 0, 1])
    inputs = {"ptr": np.array([0, 2, 3]), "idx": idx, "when": when, "T": table, "S": sums}
    made = compiled(TIMED, on_demand=True)
    if rows % 2 == 0:
        with pytest.raises(ValueError, match=rf"S has the shape \[{rows}\], but is declared \[{rows - 1}\]"):
            made.run(inputs, "cpu")
        return
    each = table[idx] * sums[idx + 2 * when]
    for target in ("graph", "loops", "kernels", "cpu"):
        np.testing.assert_allclose(made.run(inputs, target), [each[:2].sum(), each[2]], rtol=1e-6)


def test_an_id_that_a_table_of_sums_has_no_rows_for_is_refused() -> None:
    """With 3 rows there is one time, and none is the second."""
    inputs = {"ptr": [0, 1], "idx": [2], "when": [1], "T": np.ones(3, np.float32), "S": np.ones(3, np.float32)}
    with pytest.raises(ValueError, match=r"when\[0\] is 1, which is not in 0 to 0"):
        compiled(TIMED, on_demand=True).run(inputs, "cpu")
