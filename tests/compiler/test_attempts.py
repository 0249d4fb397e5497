"""Texts that the language refused once, as they were written: those that it takes now mean what NumPy in float64 says,
and so do those that it takes after the changes that it offers.

They lie beside the project; where they do not, there is nothing to test."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.index_sets import is_given
from explorer.compiler.ir.set_maps import listed_in
from explorer.compiler.options import USUAL_NEGATIVE_COUNT
from explorer.compiler.returned import as_returned, each_returned
from explorer.runtime.encode.declared import declared_in
from tests.compiler.by_form.set_structures import summed
from tests.compiler.language.test_fixes import applied
from tests.compiler.slopes import assert_gives, slopes
from tests.several_results import in_one

Inputs = dict[str, Any]
FOLDER = Path(__file__).resolve().parents[3] / "shared" / "zoo" / "attempts"
TEXTS = {path.stem: path for path in sorted(FOLDER.glob("*.emb"))}
COUNTS = {
    "entity": 5,
    "etype": 2,
    "relation": 3,
    "time": 4,
    "node": 5,
    "edge": 7,
    "q_edge": 6,
    "q_etype": 2,
    "row": 5,
    "quotient": 1,
    "remainder": 100,
    "a": 1,
    "c": 10,
    "v": 3,
    "q": 3,
    "k": 3,
    "col": 3,
    "j": 3,
    "bag": 4,
    "item": 5,
    "user": 3,
}
ROWS, COLUMNS = np.array([0, 0, 2, 2, 2]), np.array([2, 0, 0, 2, 2])
STRUCTURES: dict[str, Inputs] = {
    "": {},
    "bags": {"ptr": np.array([0, 2, 2, 5, 6], np.int64), "idx": np.array([3, 0, 1, 1, 4, 2], np.int64), "num_rows": 5},
    "csr": {
        "rowptr": np.array([0, 2, 2, 5], np.int64),
        "col": COLUMNS,
        "value": np.array([0.5, -1.0, 2.0, 1.0, 0.25], np.float32),
        "num_cols": 3,
    },
    "layer": {
        "src": np.array([0, 1, 2, 2, 4, 0, 3], np.int32),
        "dst": np.array([1, 1, 1, 0, 3, 3, 3], np.int32),
        "etype": np.array([0, 1, 0, 1, 1, 0, 0], np.int32),
        "num_etypes": 2,
    },
}
STRUCTURES["layer"]["num_nodes"] = 5
STRUCTURES["several"] = {
    "a_ptr": np.array([0, 2, 2, 5, 6]),
    "a_idx": np.array([3, 0, 1, 1, 4, 2]),
    "b_ptr": np.array([0, 0, 1, 3, 3]),
    "b_idx": np.array([2, 0, 2]),
}
STRUCTURES["coo"] = {
    "row": np.array([2, 0, 2, 0, 2]),
    "col": np.array([2, 0, 0, 2, 1]),
    "value": STRUCTURES["csr"]["value"],
    "num_rows": 3,
    "num_cols": 3,
}


def triple(of: Callable[[Any, Any, Any], Any]) -> Callable[[Inputs], Any]:
    """A score of the rows of a head, a relation and a tail."""
    return lambda i: of(i["E"][i["h"]], i["R"][i["r"]], i["E"][i["t"]])


def bags(of: Callable[[Any], Any]) -> Callable[[Inputs], Any]:
    """A row for each bag, of the rows that it picks."""
    ends = STRUCTURES["bags"]["ptr"]
    return lambda i: np.stack([of(i["T"][i["idx"][a:b]]) for a, b in pairwise(ends)])


def pooled(i: Inputs, bag: str, table: Any) -> Any:
    """Of one of several bags the sum of the rows that it picks."""
    return np.stack([table[i[f"{bag}_idx"][a:b]].sum(0) for a, b in pairwise(i[f"{bag}_ptr"])])


def bags_of_ids(of: Callable[[Inputs, Any], Any]) -> Callable[[Inputs], Any]:
    """A row for each bag, the sum of what is made of each of its ids."""
    ends = STRUCTURES["bags"]["ptr"]
    return lambda i: np.stack([of(i, i["idx"][a:b]).sum(0) for a, b in pairwise(ends)])


def rows(of: Callable[[Inputs, Any], Any]) -> Callable[[Inputs], Any]:
    """A row for each row of the matrix, of the places of its nonzeros."""
    return lambda i: np.stack([of(i, np.flatnonzero(row == ROWS)) for row in range(3)])


def softmax(x: Any) -> Any:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def standardised(x: Any) -> Any:
    return (x - x.mean(0)) / np.sqrt(x.var(0) + 0.00001)


def attended(i: Inputs, places: Any) -> Any:
    if not len(places):
        return np.zeros(i["V"].shape[1])
    row = ROWS[places[0]]
    return softmax((i["Q"][row] * i["K"][COLUMNS[places]]).sum(-1)) @ i["V"][COLUMNS[places]]


def columns_of_sums(i: Inputs) -> Any:
    found = np.zeros((3, i["X"].shape[1]))
    np.add.at(found, COLUMNS, i["value"][:, None] * i["X"][ROWS])
    return found


def normalised(i: Inputs, places: Any) -> Any:
    degree = np.bincount(ROWS, minlength=3)
    own = degree[ROWS[places]]
    return (i["X"][COLUMNS[places]] / np.sqrt(own * degree[COLUMNS[places]])[:, None]).sum(0)


def correlated(h: Any, r: Any, t: Any) -> Any:
    return sum(r[:, k] * (h * np.roll(t, -k, axis=1)).sum(-1) for k in range(r.shape[1]))


def torus(h: Any, r: Any, t: Any) -> Any:
    part = (h + r - t) % 1
    return np.minimum(part, 1 - part).sum(-1)


def detached(h: Any, r: Any, t: Any) -> Any:
    return (h * r * t).sum(-1)


def labelled(i: Inputs) -> Any:
    s = triple(detached)(i)
    return np.logaddexp(0, s) - i["y"] * s


def margin(i: Inputs) -> Any:
    x = i["E"][i["h"]] + i["R"][i["r"]]
    near, far = (np.abs(x - i["E"][i[end]]).sum(-1) for end in "tn")
    return np.maximum(0, 1 + near - far)


def ambiguous(i: Inputs) -> Any:
    """A row scales a matrix by its beginning, the rows of it, where it could be both; so does the product's row."""
    matrices = i["E"][i["h"]][:, :, None] * i["W"] * i["R"][i["r"]][:, :, None]
    return matrices.sum(-1) + i["E"][i["t"]].sum(-1)[:, None]


def temporal(i: Inputs) -> Any:
    return np.abs(i["E"][i["h"]] + i["R"][i["r"]] + i["T"][i["tau"]] - i["E"][i["t"]]).sum(-1)


def rotation(i: Inputs) -> Any:
    x, y, a = i["X"][i["h"]], i["Y"][i["h"]], i["A"][i["r"]]
    turned = np.cos(a) * x - np.sin(a) * y, np.sin(a) * x + np.cos(a) * y
    return sum(np.linalg.norm(part - i[to][i["t"]], axis=-1) for part, to in zip(turned, "XY", strict=True))


def product_of_tensor(i: Inputs) -> Any:
    found = np.zeros((3, i["B"].shape[1]))
    np.add.at(found, i["row"], i["value"][:, None] * i["B"][i["col"]] * i["C"][i["k"]])
    return found


def gated(i: Inputs) -> Any:
    gate, sums = i["f"] + i["x"][i["src"]] + i["x"][i["dst"]], np.zeros(i["x"].shape)
    np.add.at(sums, i["dst"], i["x"][i["src"]] / (1 + np.exp(-gate)))
    return sums, gate


MEANS: dict[str, Callable[[Inputs], Any]] = {
    "asin_atan": triple(lambda h, r, t: (np.arctan2(h, r) - t).sum(-1)),
    "batch_norm_training": lambda i: standardised(i["x"]),
    "bias_rows": bags(lambda part: part.sum(0)),
    "compgcn_relation_update": lambda i: i["R"] @ i["W"],
    "comparison": triple(lambda h, r, t: ((h > 0) * r * t).sum(-1)),
    "distmult_nary": lambda i: (i["R"][i["r"]] * i["E"][i["a"]] * i["E"][i["b"]] * i["E"][i["c"]]).sum(-1),
    "distmult_nary_bag": lambda i: (i["R"] * bags(lambda part: part.prod(0))({**i, "T": i["E"]})).sum(-1),
    "edge_softmax_op": rows(attended),
    "han_global": lambda i: (np.tanh(i["x"] @ i["W"]) @ i["q"]).mean() * i["x"],
    "hole_fft": triple(correlated),
    "hole_roll": triple(correlated),
    "identity_layer": lambda i: i["x"],
    "hyper_relational": lambda i: np.abs(
        i["E"][i["h"]] + i["R"][i["r"]] + bags(lambda part: part.sum(0))({**i, "T": i["R"]}) - i["E"][i["t"]]
    ).sum(-1),
    "index_first_dimension": lambda i: (i["E"][i["h"], 0] * i["R"][i["r"]] * i["E"][i["t"], 1]).sum(-1),
    "int8_table": lambda i: bags(lambda part: part.sum(0))({**i, "T": i["scale"][:, None] * i["q"]}),
    "labels_of_batch": labelled,
    "margin_loss_pair": margin,
    "min_plus_infinity": rows(
        lambda i, p: (i["value"][p, None] + i["X"][COLUMNS[p]]).min(0) if len(p) else np.zeros(i["X"].shape[1])
    ),
    "mttkrp_coo3": product_of_tensor,
    "norm_p_keyword": triple(lambda h, r, t: np.abs(h + r - t).sum(-1)),
    "prefix_ambiguity": ambiguous,
    "power_operator": triple(lambda h, r, t: ((h + r - t) ** 2).sum(-1)),
    "product_reduction": bags(lambda part: part.prod(0)),
    "qr_modulo": bags_of_ids(lambda i, ids: i["Q"][ids // 100] * i["R"][ids % 100]),
    "readout_batched": lambda i: i["x"].sum(0, keepdims=True),
    "readout_mean": lambda i: i["x"].mean(0, keepdims=True),
    "scalar_param_one": lambda i: i["gamma"] - triple(lambda h, r, t: np.abs(h + r - t).sum(-1))(i)[:, None],
    "scalar_param": lambda i: i["gamma"][0] - triple(lambda h, r, t: np.abs(h + r - t).sum(-1))(i),
    "several_bags": lambda i: np.concatenate([pooled(i, "a", i["T"]), pooled(i, "b", i["U"])], 1),
    "softmax_dense": bags(lambda part: softmax(part.sum(0))),
    "stop_gradient": triple(detached),
    "sum_first_dimension": bags(lambda part: part.sum((0, 1))),
    "tcomplex_time": temporal,
    "toruse_l1_floor": triple(torus),
    "transposed_spmm": columns_of_sums,
    "ttrec_index": bags_of_ids(lambda i, ids: (i["G1"][ids // 10] * i["G2"][ids % 10]).sum(-1)),
    "tuple_helper": rotation,
    "two_graphs": lambda i: summed(i["x"][i["src"]], i["dst"], 5),
    "two_outputs": gated,
    "two_vars_csr_index": rows(normalised),
    "vector_score": lambda i: i["E"][i["h"]] + i["R"][i["r"]],
    "where_select": triple(lambda h, r, t: np.where(h > 0, r, t).sum(-1)),
}
WITH_BIAS = MEANS["bias_rows"]
MEANS["bias_rows"] = lambda i: WITH_BIAS(i) + i["bias"]


def exponentials(i: Inputs) -> Any:
    layer = STRUCTURES["layer"]
    powers = np.exp((i["x"][layer["src"]] * i["a"][layer["etype"]]).sum(-1))
    return np.bincount(layer["dst"], powers, minlength=5)


def neighbours_mean(i: Inputs) -> Any:
    sources, into = STRUCTURES["layer"]["src"], STRUCTURES["layer"]["dst"]
    found = [i["x"][sources[into == node]] for node in range(5)]
    return np.stack([part.mean(0) if len(part) else np.zeros(i["x"].shape[1]) for part in found])


def distances(i: Inputs) -> Any:
    return np.abs((i["E"][i["h"]] + i["R"][i["r"]])[:, None] - i["E"][i["n"]]).sum(-1)


def products(i: Inputs) -> Any:
    return np.einsum("bd,bd,bnd->bn", i["E"][i["h"]], i["R"][i["r"]], i["E"][i["n"]])


def propagated(i: Inputs) -> Any:
    """Ten steps of personalised PageRank, each of the one before."""
    h = i["z"]
    for _ in range(10):
        h = 0.9 * neighbours_mean({"x": h}) + 0.1 * i["z"]
    return h


def before_reverse(i: Inputs) -> Any:
    """What comes into an edge's source, less what comes along its reverse."""
    sources, into = STRUCTURES["layer"]["src"], STRUCTURES["layer"]["dst"]
    return np.stack([i["h"][into == node].sum(0) for node in sources]) - i["h"][i["rev"]]


MENDED: dict[str, Callable[[Inputs], Any]] = {
    "helper_reads_params": lambda i: neighbours_mean(i) @ i["W"],
    "loss_over_negatives": lambda i: np.log(np.exp(-distances(i)).sum(1)),
    "k_steps_range": propagated,
    "method_style": triple(detached),
    "one_to_all": lambda i: np.exp(products(i)).sum(1),
    "qr_indexed": bags_of_ids(lambda i, ids: i["Q"][i["q"][ids]] * i["R"][i["r"][ids]]),
    "reverse_edge_message": before_reverse,
    "scalar_param_brackets": MEANS["scalar_param"],
    "softmax_per_type": exponentials,
    "time_input_map": lambda i: temporal({**i, "tau": i["when"]}),
    "torch_style": MEANS["norm_p_keyword"],
}
"""Those that are taken once the first change that a diagnostic offers is made, one after another."""
UNDIFFERENCED = {"stop_gradient": ("E",)}
"""What a difference says nothing of."""


def inputs_of(graph: Graph) -> Inputs:
    """Ids, a structure and tensors, drawn by the graph's own declarations."""
    random = np.random.default_rng(4)
    several = graph.family == "op" and len(listed_in(graph)) > 1
    inputs = dict(STRUCTURES["layer" if graph.family == "layer" else "several" if several else graph.structure])
    counts = {**COUNTS, "batch": 4}
    if graph.family == "score":
        shapes = {"batch": (4,), "negative": (4, USUAL_NEGATIVE_COUNT)}
        given = [entry for entry in graph.maps if is_given(entry)]
        inputs |= {e.name: random.integers(0, counts[e.codomain], shapes[e.domain]).astype(np.int32) for e in given}
    elif graph.structure == "csr":
        counts["row"] = 3
    elif graph.structure == "bags" and not several:
        counts[graph.maps[1].codomain] = 5
    if graph.family != "score":
        sizes = counts | {"entry": len(STRUCTURES["bags"]["idx"]), "nonzero": 5}
        for each in declared_in(graph):
            inputs[each.name] = random.integers(0, sizes[each.codomain], sizes[each.domain]).astype(np.int32)
    for tensor in graph.tensors:
        if tensor.kind != "structure":
            shape = [*(counts[name] for name in tensor.sets), *map(graph.size, tensor.dims)]
            drawn = random.normal(size=shape)
            inputs[tensor.name] = (np.round(9 * drawn) if tensor.storage == "i8" else drawn).astype(np.float32)
    return inputs


def exact(inputs: Inputs) -> Inputs:
    """The inputs with their tensors in float64."""
    return {n: v.astype(np.float64) if getattr(v, "dtype", None) == np.float32 else v for n, v in inputs.items()}


@pytest.mark.skipif(not TEXTS, reason="the attempts of the literature do not lie beside the project")
@pytest.mark.sampled(8, 1)
@pytest.mark.parametrize("name", MEANS)
def test_an_attempt_means_what_its_authors_say(name: str) -> None:
    assert_means(TEXTS[name].read_text(encoding="utf-8"), name, MEANS[name])


def mended(text: str) -> str:
    """A text with the first change that is offered, again and again until nothing is wrong with it."""
    for _ in range(5):
        compilation = explorer.compile(text, on_demand=True)
        fixes = [fix for each in compilation.diagnostics for fix in each.fixes]
        if not fixes:
            return text
        text = applied(text, fixes[0])
    return text


@pytest.mark.skipif(not TEXTS, reason="the attempts of the literature do not lie beside the project")
@pytest.mark.sampled(4, 1)
@pytest.mark.parametrize("name", MENDED)
def test_an_attempt_means_it_with_what_is_offered(name: str) -> None:
    assert_means(mended(TEXTS[name].read_text(encoding="utf-8")), name, MENDED[name])


def assert_means(text: str, name: str, means: Callable[[Inputs], Any]) -> None:
    """On every target, with gradients."""
    forward = explorer.compile(text, on_demand=True)
    assert forward.ok, [each.message for each in forward.diagnostics]
    backward = explorer.compile(text, options={"grad": True}, on_demand=True)
    graph = forward.stages["graph"].program
    assert isinstance(graph, Graph)
    inputs = inputs_of(graph)
    learnt = [tensor.name for tensor in graph.tensors if tensor.kind == "param"]
    want, random = each_returned(means(exact(inputs))), np.random.default_rng(5)
    upstream = tuple(random.normal(size=each.shape).astype(np.float32) for each in want)
    known = [each for each in learnt if each not in UNDIFFERENCED.get(name, ())]
    gradients = slopes(lambda given: in_one(each_returned(means(exact(given)))), inputs, known, in_one(upstream))
    for target in ("graph", "loops", "kernels", "dlc", "dae", "cpu"):
        for one, each in zip(each_returned(forward.run(inputs, target)), want, strict=True):
            assert_gives((one, {}), each, {}, target)
        if learnt:
            got, found = backward.run(inputs, target, grad=as_returned(upstream))
            for one, each in zip(each_returned(got), want, strict=True):
                assert_gives((one, found), each, gradients, target)


@pytest.mark.skipif(not TEXTS, reason="the attempts of the literature do not lie beside the project")
@pytest.mark.parametrize("name", sorted(TEXTS.keys() - MEANS.keys()))
def test_what_is_not_taken_is_told_with_its_place(name: str) -> None:
    """Its place, in words that are a sentence; and no number is made of it."""
    compilation = explorer.compile(TEXTS[name].read_text(encoding="utf-8"))
    assert not compilation.ok
    assert all(each.span is not None and each.message for each in compilation.diagnostics)
