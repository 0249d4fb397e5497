"""What is stored: an edge's weight and the gradient of its logit once, for all the loops that would compute them."""

from pathlib import Path

import numpy as np
import pytest

import explorer
from benchmarks.cases.growing import GROWING
from explorer.compiler.ir.graph import Elementwise, operands
from explorer.compiler.ir.loops import Compute, For, Load
from explorer.compiler.ir.node import walk
from explorer.compiler.passes.stored.storage import stored_values
from explorer.runtime.targets.parts import divide
from tests.compiler.by_form.set_forms import SET_FORMS
from tests.compiler.layers import layer

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def kernels_of(name, **options):
    return layer(name, aggregate=False, **options).stages["loops"].program.programs


def stored_over(kernels, extent):
    """The arrays over a set that kernels store."""
    return [b.name for k in kernels for b in k.buffers if b.kind == "output" and b.extents[:1] == (extent,)]


@pytest.mark.parametrize("name", ["rgat", "rgat_heads", "hgt"])
def test_a_softmax_takes_each_exponential_once(name):
    kernels = kernels_of(name, grad=True)
    found = [node for kernel in kernels for node in walk(kernel) if isinstance(node, Compute)]
    assert sum(node.function == "exp" for node in found) == 1


def test_the_gradient_of_a_logit_is_computed_once():
    kernels = kernels_of("rgat", grad=True)
    assert len(stored_over(kernels, "edges")) == 2  # the weight, and the gradient of the logit
    found = [node for kernel in kernels for node in walk(kernel) if isinstance(node, Compute)]
    assert sum(node.function == "step" for node in found) == 1


def test_what_a_load_is_enough_for_is_not_stored():
    assert len(stored_over(kernels_of("hgt", grad=True), "edges")) == 3  # the logit, its weight, its gradient


@pytest.mark.parametrize(("name", "arrays"), [("rgat", 0), ("hgt", 1)])
def test_without_gradients_nothing_more_is_stored(name, arrays):
    assert len(stored_over(kernels_of(name), "edges")) == arrays


def test_sums_by_the_same_map_are_taken_by_one_kernel():
    kernels = kernels_of("hgt", grad=True)
    (kernel,) = [
        k for k in kernels if stored_over([k], "src_pairs") and "src_pair_order" in {b.name for b in k.buffers}
    ]
    assert len(stored_over([kernel], "src_pairs")) == 2
    assert not [n for n in walk(kernel) if isinstance(n, Load) and n.buffer == "src_pair"]


def test_a_chain_of_softmaxes_stores_what_each_would_begin_anew_and_is_right():
    text, _ = GROWING["softmaxes"]
    compilation = explorer.compile(text(12).replace("F = 64, H = 4, D = 16", "F = 8, H = 2, D = 4"), on_demand=True)
    assert stored_over(compilation.stages["loops"].program.programs, "edges")
    rng = np.random.default_rng(0)
    nodes, edges = 12, 40
    src, dst = rng.integers(0, nodes, edges), rng.integers(0, nodes - 2, edges)
    etype, ntype = rng.integers(0, 3, edges), rng.integers(0, 2, nodes)
    shapes = {"x": (nodes, 8), "K": (2, 2, 8, 4), "Q": (2, 2, 8, 4), "V": (2, 2, 8, 4)}
    shapes |= {"A": (3, 2, 4, 4), "M": (3, 2, 4, 4), "mu": (3, 2)}
    given = {name: (rng.standard_normal(shape) * 0.5).astype(np.float32) for name, shape in shapes.items()}
    x, k, q, v, a, m, mu = (each.astype(np.float64) for each in given.values())
    keys, queries, messages = (np.einsum("nf,nhfd->nhd", x, weight[ntype]) for weight in (k, q, v))
    att = (np.einsum("ehd,ehdc->ehc", keys[src], a[etype]) * queries[dst]).sum(-1) * mu[etype] / 2
    for _ in range(12):
        weights, total = np.exp(att), np.zeros((nodes, 2))
        np.add.at(total, dst, weights)
        att = weights / total[dst]
    wanted = np.zeros((nodes, 2, 4))
    np.add.at(wanted, dst, np.einsum("ehd,ehdc->ehc", messages[src], m[etype]) * att[..., None])
    graph = {"src": src, "dst": dst, "etype": etype, "ntype": ntype}
    graph |= {"num_nodes": nodes, "num_etypes": 3, "num_ntypes": 2}
    for stage in ("loops", "dlc", "kernels"):
        result = compilation.run(given | graph, on=stage)
        assert np.abs(result - wanted.reshape(nodes, 8)).max() < 1e-6 * np.abs(wanted).max(), stage


COMPARED = """layer Model(g: graph):
    param a[node, 4], b[edge, 4, 4], x[node]
    for e in g.edges():
        e["h"] = {value}
    for n in g.nodes():
        n["m"] = max(e["h"] for e in n.incoming_edges())
    return n["m"]
"""


@pytest.mark.parametrize(
    ("value", "again"),
    [
        ("e.src.x + min(norm(outer(e.dst.a, e.src.a) * b[e], 1))", ["add"]),
        ("max(b[e] @ e.src.a)", []),
        ("e.src.x * e.dst.x + e.dst.x", []),  # which a GPU may take as one operation
        ("relu(e.src.x - e.dst.x)", ["relu", "sub"]),
    ],
)
def test_what_is_compared_with_its_maximum_is_computed_once(value, again):
    """A number that is computed in another kernel again, by another order of sums, may not equal it any more. What one
    operation rounds is the same anywhere, and may be computed again."""
    compilation = explorer.compile(COMPARED.format(value=value), options={"grad": True}, on_demand=True)
    graph = compilation.stages["graph"].program
    stored = set(stored_values(graph))
    equal = [v.operator for v in graph.values if isinstance(v.operator, Elementwise) and v.operator.function == "equal"]
    assert equal
    computed: list[str] = []
    pending = [name for operator in equal for name in operator.operands]
    while pending:
        found = graph.value(pending.pop())
        if found.name not in stored:
            function = getattr(found.operator, "function", "")
            computed += [function] if function not in ("", "min", "max") else []
            pending += operands(found.operator)
    assert sorted(set(computed)) == again


OF_ALL = """layer Model(g: graph):
    param x[node, 4], q[4]
    w = mean(tanh(x[n]) for n in g.nodes())
    for {element}:
        {home} = {value}
    return {home}
"""
AT_NODES, AT_EDGES = {"element": "n in g.nodes()", "home": 'n["y"]'}, {"element": "e in g.edges()", "home": 'e["y"]'}
WHOLE = {
    "a mean": OF_ALL.format(value="w * x[n]", **AT_NODES),
    "what is made of it": OF_ALL.format(value="softmax(q * w) * x[n] + norm(w)", **AT_NODES),
    "at edges": OF_ALL.format(value="dot(w, x[e.src] * x[e.dst])", **AT_EDGES),
    **{name: form.text for name, form in SET_FORMS.items()},
}


def extents_inside(statement, dims, outer=()):
    """By loop over a whole set, which no dimension is, the sets of the loops that it is in."""
    if not isinstance(statement, For):
        return []
    whole = isinstance(statement.extent, str) and statement.lower == 0 and statement.extent not in dims
    found = [(statement.extent, outer)] if whole else []
    inside = (*outer, statement.extent) if whole else outer
    return found + [pair for each in statement.body for pair in extents_inside(each, dims, inside)]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", WHOLE)
def test_what_is_summed_over_a_whole_set_is_not_summed_again_for_each_element_of_one(name, grad):
    program = explorer.compile(WHOLE[name], options={"grad": grad}, on_demand=True).stages["loops"].program
    kernels = getattr(program, "programs", (program,))
    inside = [pair for k in kernels for each in k.body for pair in extents_inside(each, dict(k.sizes))]
    assert inside
    assert all(not outer for _, outer in inside), inside


APART = {"transr": (EXAMPLES / "kge" / "transr.emb").read_text(), **{n: WHOLE[n] for n in ("batch norm", "a readout")}}


@pytest.mark.parametrize("name", APART)
def test_kernels_of_results_are_kept_free_of_gradients_where_that_is_asked_for(name):
    for apart in (False, True):
        compilation = explorer.compile(APART[name], options={"grad": True, "apart": apart}, on_demand=True)
        module = compilation.stages["loops"].program
        steps = [Nest(each) for each in module.programs]
        graph = compilation.stages["graph"].program
        upstreams = [tensor.name for tensor in graph.tensors if tensor.kind == "upstream"]
        divided = divide(steps, module.results, upstreams)
        assert (divided is not None) == (apart or name == "batch norm")


class Nest:
    """A kernel as a step of a program."""

    def __init__(self, kernel):
        self.arguments = tuple(buffer.name for buffer in kernel.buffers)
        self.writes = frozenset(buffer.name for buffer in kernel.buffers if buffer.kind == "output")
