"""Ember's Figure 1 without a GPU: its models and lookups on the processor, whose kernel is whose, counts and shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the figure's models are PyTorch's, which this machine does without")

import torch.nn.functional as F  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

from benchmarks import gpu, papers  # noqa: E402
from benchmarks.gpu_suite import measuring  # noqa: E402
from benchmarks.paper.measured import beside, breakdown, on_gpu  # noqa: E402
from benchmarks.paper.measured import rows as timed_rows  # noqa: E402
from benchmarks.paper.measured.ember import figures, lookups, models  # noqa: E402
from benchmarks.paper.measured.ember.models import Weights  # noqa: E402
from benchmarks.timing.device import Ceilings, Samples  # noqa: E402

SIZES = {
    lookups.Bags: {"rows": 100, "bags": 10, "length": 6, "size": 8},
    lookups.Blocks: {"sequences": 4, "blocks": 12, "tokens": 4, "size": 8},
    lookups.Facts: {"entities": 50, "relations": 7, "batch": 30, "size": 16},
    lookups.Sums: {"nodes": 40, "edges": 300, "size": 8},
}


def small(model: Any) -> Any:
    """The model with few rows, tables and heads."""
    fewer = {models.Recommendation: {"tables": 3}, models.Attention: {"heads": 2}}.get(type(model), {})
    return replace(model, lookup=replace(model.lookup, **SIZES[type(model.lookup)]), **fewer)


SMALL = {model.name: small(model) for model in models.MODELS}


def test_the_models_are_the_figures_with_the_published_counts() -> None:
    assert list(SMALL) == [
        *("dlrm_uni", "dlrm_gau", "llm_bigbird", "kg_biokg", "kg_wikikg2"),
        *("gnn_arxiv", "gnn_mag", "gnn_products", "gnn_proteins"),
    ]
    mag = next(model for model in models.MODELS if model.name == "gnn_mag")
    assert (mag.lookup.nodes, mag.lookup.edges, mag.lookup.size, *mag.widths) == (1_939_743, 21_111_007, 128, 256, 349)
    gather = models.MODELS[2].lookup
    assert gather.blocks * gather.tokens == 4_096


@pytest.mark.parametrize("name", SMALL)
def test_a_lookup_is_the_same_compiled_in_pytorch_and_in_float64(name: str) -> None:
    lookup = SMALL[name].lookup
    problem = lookup.problem("cpu", "")
    (result,), _ = problem.program.run(problem.structure, problem.counts, problem.tensors)
    assert problem.check(result, {}) <= lookup.tolerance < problem.check(1.001 * result, {})
    assert torch.allclose(problem.peers["PyTorch"](), result, rtol=1e-4, atol=1e-4)


def test_bytes_and_operations_are_those_that_the_inputs_need() -> None:
    bags = SMALL["dlrm_gau"].lookup
    problem = bags.problem("cpu", "")
    counted = measuring.counted_limits(problem)
    count = bags.bags * bags.length
    distinct = len(torch.unique(problem.structure.maps["idx"]))
    assert distinct < count, "of 100 rows some come twice"
    assert counted["flop"] == count * bags.size
    row = 4 * bags.size
    assert counted["compulsory_bytes"] == distinct * row + 4 * count + 4 * (bags.bags + 1) + bags.bags * row
    facts = SMALL["kg_biokg"].lookup
    assert measuring.counted_limits(facts.problem("cpu", ""))["flop"] == 4 * facts.size * facts.batch
    assert measuring.counted_limits(SMALL["llm_bigbird"].lookup.problem("cpu", ""))["flop"] == 0
    sums = SMALL["gnn_mag"].lookup
    assert measuring.counted_limits(sums.problem("cpu", ""))["flop"] == 2 * sums.size * sums.edges


def test_gaussian_ids_come_again_more_often_than_uniform_ones() -> None:
    uniform, gaussian = (
        replace(SMALL[name].lookup, rows=1_000, bags=1_000).drawn("cpu")[0]["idx"] for name in ("dlrm_uni", "dlrm_gau")
    )
    assert len(torch.unique(gaussian)) < len(torch.unique(uniform))
    assert float(gaussian.double().std()) == pytest.approx(1_000 * lookups.DEVIATION, rel=0.05)
    assert int(gaussian.min()) >= 0
    assert int(gaussian.max()) < 1_000


def layers(rows: Any, found: Any) -> Any:
    """A perceptron in float64."""
    for place, (matrix, bias) in enumerate(found, 1):
        rows = rows @ matrix.double().T + bias.double()
        rows = rows.clamp(min=0) if place < len(found) else rows
    return rows


def recommended(model: Any) -> Any:
    """DLRM, pair by pair."""
    weights, bags = Weights("cpu"), model.lookup
    bottom = weights.layers((*model.dense, bags.size))
    pairs = [(i, j) for i in range(1 + model.tables) for j in range(i)]
    top = weights.layers((bags.size + len(pairs), *model.top))
    dense = layers(weights.normal(bags.bags, model.dense[0]).double(), bottom).clamp(min=0)
    vectors = [dense]
    for seed in range(model.tables):
        index, tables = bags.drawn("cpu", seed)
        vectors.append(tables["T"].double()[index["idx"]].view(bags.bags, -1, bags.size).sum(1))
    products = torch.stack([(vectors[i] * vectors[j]).sum(1) for i, j in pairs], 1)
    return layers(torch.cat([dense, products], 1), top).sigmoid()


def attended(model: Any) -> Any:
    """BigBird's layer as dense attention with all else masked; heads one by one."""
    weights, gather = Weights("cpu"), model.lookup
    tokens, width = gather.blocks * gather.tokens, model.heads * gather.size
    shapes = ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))
    inner, out, grown, back = ([weights.layer(*each)] for each in shapes)
    x = weights.normal(-(-gather.sequences // model.heads) * tokens, width).double()
    lists = gather.drawn("cpu")[0]["blocks"].view(gather.sequences, gather.blocks, -1)
    parts = layers(x, inner).view(-1, tokens, 3, model.heads, gather.size)
    found = torch.zeros(len(parts), tokens, model.heads, gather.size, dtype=torch.float64)
    for place in np.ndindex(len(parts), model.heads):
        sequence, head = place
        number = sequence * model.heads + head
        seen = torch.zeros(gather.blocks, gather.blocks, dtype=torch.bool)
        seen.scatter_(1, (lists[number] - number * gather.blocks).long(), True)
        seen = seen.repeat_interleave(gather.tokens, 0).repeat_interleave(gather.tokens, 1)
        q, k, v = (parts[sequence, :, part, head] for part in range(3))
        scores = (q @ k.T / gather.size**0.5).masked_fill(~seen, -torch.inf)
        found[sequence, :, head] = scores.softmax(-1) @ v
    seen = F.layer_norm(x + layers(found.reshape(x.shape), out), (width,))
    return F.layer_norm(seen + layers(F.gelu(layers(seen, grown)), back), (width,))


def completed(model: Any) -> Any:
    """TransE's distances, from the squares that the lookup alone gives."""
    index, tables = model.lookup.drawn("cpu")
    return model.lookup.exactly(index, tables).sqrt()


def convolved(model: Any) -> Any:
    """GCN with a dense matrix, to which parallel edges add up."""
    index, tensors = model.lookup.drawn("cpu")
    nodes = model.lookup.nodes
    row = torch.repeat_interleave(torch.arange(nodes), index["rowptr"].diff())
    dense = torch.zeros(nodes, nodes, dtype=torch.float64)
    dense.index_put_((row, index["col"].long()), tensors["value"].double(), accumulate=True)
    rows = tensors["X"].double()
    found = Weights("cpu").layers((model.lookup.size, *model.widths))
    for place, layer in enumerate(found, 1):
        rows = layers(dense @ rows, [layer])
        rows = rows.clamp(min=0) if place < len(found) else rows
    return rows


MEANT: dict[type, Callable[[Any], Any]] = {
    models.Recommendation: recommended,
    models.Attention: attended,
    models.Completion: completed,
    models.Convolutions: convolved,
}


@pytest.mark.parametrize("name", ["dlrm_gau", "llm_bigbird", "kg_wikikg2", "gnn_mag", "gnn_proteins"])
def test_a_whole_model_is_what_the_literature_says(name: str) -> None:
    model = SMALL[name]
    got, want = model.ready("cpu")(), MEANT[type(model)](model)
    assert got.shape == want.shape
    assert torch.allclose(got.double(), want, rtol=1e-4, atol=1e-4 * float(want.abs().max()))


VECTORISED = "void at::native::vectorized_elementwise_kernel<4, ...>"
LAUNCHED = {
    "aten::_embedding_bag_forward_only": "EmbeddingBag_updateOutputKernel_sum_mean",
    "aten::index_select": "indexSelectLargeIndex",
    "aten::_sparse_addmm": "cusparse::csrmm_v2_kernel",
    "aten::addmm": "ampere_sgemm_64x64_tn",
    "aten::bmm": "cutlass::Kernel2<cutlass_80_simt_sgemm>",
    "aten::clamp_min": VECTORISED,
    "aten::add": VECTORISED,
    "aten::sub": VECTORISED,
    "aten::mul": VECTORISED,
    "aten::gelu": VECTORISED,
    "aten::sigmoid": VECTORISED,
    "aten::index": "void at::native::index_elementwise_kernel<128, 4, ...>",
    "aten::clone": "void at::native::elementwise_kernel<128, 2, ...>",
    "aten::cat": "CatArrayBatchedCopy",
    "aten::_softmax": "softmax_warp_forward",
    "aten::native_layer_norm": "vectorized_layer_norm_kernel",
    "aten::linalg_vector_norm": "void at::native::reduce_kernel<512, 1, ...>",
    "embedding": "embedding",
}
"""What operators launch on a GPU, by names as the profiler has them; the range is on the device's timeline too."""


def profiled(model: Any) -> list[Any]:
    """A forward pass's operators, as PyTorch nests them, each that would launch a kernel with one of 1 us."""
    forward = model.ready("cpu")
    with profile(activities=[ProfilerActivity.CPU]) as found:
        forward()
    events = list(found.events())
    for event in events:
        if event.name in LAUNCHED:
            event.append_kernel(LAUNCHED[event.name], 0, 1.0)
    return events


COUNTS = {
    "dlrm_uni": {"embedding": 3, "GEMM": 8, "vector elementwise": 7, "scalar elementwise": 1, "other": 2},
    "llm_bigbird": {"embedding": 2, "GEMM": 6, "vector elementwise": 4, "scalar elementwise": 2, "other": 3},
    "kg_biokg": {"embedding": 3, "vector elementwise": 2, "other": 1},
}


@pytest.mark.parametrize("name", COUNTS)
def test_kernels_are_told_apart_by_what_launches_them(name: str) -> None:
    assert figures.by_kind(profiled(SMALL[name])) == COUNTS[name]


def test_a_sparse_products_kernels_are_the_lookups_and_no_gemm() -> None:
    events = profiled(SMALL["gnn_arxiv"])
    launched = Counter(kernel.name for event in events for kernel in event.kernels)
    assert launched["ampere_sgemm_64x64_tn"] > 3, "PyTorch calls what is sparse addmm too"
    found = figures.by_kind(events)
    assert found == {"embedding": launched.total() - 3 - 2 - 3, "GEMM": 3, "vector elementwise": 2}


def test_without_kernels_there_is_no_breakdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breakdown, "synchronize", lambda: None)
    with pytest.raises(RuntimeError, match="no kernel"):
        figures.spent(SMALL["kg_biokg"].ready("cpu"))


def test_times_are_of_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breakdown, "synchronize", lambda: None)
    monkeypatch.setattr(figures, "by_kind", lambda events: {"GEMM": 5_000.0})
    calls = list[int]()
    assert figures.spent(lambda: calls.append(0)) == {"GEMM": 1.0}
    assert len(calls) == figures.WARM_UPS + figures.PASSES


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs on the processor."""
    monkeypatch.setattr(on_gpu, "DEVICE", "cpu")
    monkeypatch.setattr(on_gpu, "give_back", lambda: None)


def test_shares_are_of_all_kernels(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def spent(forward: Callable[[], Any]) -> dict[str, float]:
        if forward().shape == (30,):
            raise RuntimeError("no kernel")
        return {"embedding": 3.0, "GEMM": 1.0, "other": 0.0}

    monkeypatch.setattr(figures, "spent", spent)
    table = figures.times_table([SMALL[name] for name in ("gnn_arxiv", "kg_biokg", "llm_bigbird")])
    graph, language = table.rows
    assert table.source == "measured"
    assert graph.ours == {
        "embedding, %": 75,
        "GEMM, %": 25,
        "vector elementwise, %": 0,
        "scalar elementwise, %": 0,
        "other, %": 0,
        "kernels, ms": 4,
    }
    assert not graph.published
    assert language.published == {"embedding, %": 20}
    assert not table.right
    assert "kg_biokg: RuntimeError: no kernel" in table.note
    monkeypatch.setattr(timed_rows, "SECONDS", -1.0)
    assert "Left out, after -1 s: gnn_mag." in figures.times_table([SMALL["gnn_mag"]]).note


def test_a_roofline_is_of_counted_bytes_and_the_devices_bandwidth(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(lookup: Any) -> dict[str, Any]:
        if lookup.name == "gnn_mag":
            raise RuntimeError("no room")
        theirs = {"error": "MemoryError: no room"} if lookup.name == "gnn_arxiv" else {"ms": 4.0}
        counted = {"compulsory_bytes": 2_000_000_000, "flop": 500_000_000}
        right = lookup.name != "kg_biokg"
        return {"ours": {"ms": 1.0}, "peers": {"PyTorch": theirs}, "right": right, **counted}

    ceilings = SimpleNamespace(bytes_per_second=4e12)
    monkeypatch.setattr(beside, "bench", lambda: SimpleNamespace(ceilings=ceilings))
    monkeypatch.setattr(beside, "measured", measured)
    table = figures.roofline_table([SMALL[name].lookup for name in ("dlrm_uni", "gnn_arxiv", "gnn_mag")])
    assert table.right is False
    assert "gnn_mag: RuntimeError: no room" in table.note
    bags, graph, least, most = table.rows
    assert bags.label == "dlrm_uni, 8 wide"
    assert bags.ours == {
        "FLOP/B": 0.25,
        "MB": 2_000,
        "PyTorch, TFLOP/s": 0.125,
        "ours, TFLOP/s": 0.5,
        "PyTorch, % of bandwidth": 12.5,
        "ours, % of bandwidth": 50,
        "PyTorch, ms": 4,
        "ours, ms": 1,
    }
    assert bags.published == {"PyTorch, % of bandwidth": 28}
    assert graph.basis == "MemoryError: no room"
    assert "PyTorch, ms" not in graph.ours
    assert least.ours == most.ours == {"PyTorch, % of bandwidth": 12.5, "ours, % of bandwidth": 50}
    assert (least.published, most.published) == tuple({"PyTorch, % of bandwidth": each} for each in figures.USED)
    assert {column for row in table.rows for column in row.ours} <= set(table.columns)
    assert figures.roofline_table([SMALL["dlrm_uni"].lookup]).right
    assert not figures.roofline_table([SMALL["kg_biokg"].lookup]).right


class Turns:
    """A clock without a device: each contender runs once, and takes as many ms as its place."""

    def interleave(self, runs: dict[str, Callable[[], Any]], repeat: int) -> dict[str, Samples]:
        for run in runs.values():
            run()
        return {name: Samples(cold=[float(place)]) for place, name in enumerate(runs, 1)}


@pytest.mark.parametrize("name", ["dlrm_gau", "llm_bigbird", "kg_biokg", "gnn_arxiv"])
def test_a_lookup_is_bound_checked_and_timed(
    name: str, here: None, fake_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretended = measuring.outcome

    def outcome(problem: Any, bound: Any) -> Any:
        monkeypatch.setattr(torch, "from_dlpack", lambda array: torch.from_numpy(array.numpy.copy()))
        return pretended(problem, bound)

    bench = measuring.Bench.__new__(measuring.Bench)
    bench.arguments, bench.repeat, bench.without = gpu.parse([]), 1, []
    bench.device, bench.clock = "cpu", Turns()  # type: ignore[assignment]
    bench.ceilings = Ceilings(4e12, 5e13, 3.5e14)
    monkeypatch.setattr(measuring, "outcome", outcome)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(beside, "bench", lambda: bench)
    table = figures.roofline_table([SMALL[name].lookup])
    assert table.right, table.note
    (row, *_) = table.rows
    assert (row.ours["ours, ms"], row.ours["PyTorch, ms"]) == (1, 2)
    assert row.ours["ours, % of bandwidth"] == pytest.approx(100 * row.ours["MB"] * 1e6 / 1e-3 / 4e12)
    assert row.ours["ours, TFLOP/s"] == pytest.approx(row.ours["FLOP/B"] * row.ours["MB"] / 1e3)
    fake_cuda.spoils = True
    assert not figures.roofline_table([SMALL[name].lookup]).right


def test_without_a_gpu_both_tables_say_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(papers, "missing_gpu", lambda: "none")
    assert papers.main(["ember", "fig1", "roofline"]) == 0
    assert capsys.readouterr().out.count("left out: a GPU, with PyTorch and CuPy.") == 2
