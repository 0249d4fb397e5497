"""The benchmark suites measure what they say: the same scores on both sides, samples in turns, provenance."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from benchmarks import compile as compile_suite
from benchmarks import dae, kge, rgnn
from benchmarks.cases.growing import chain
from benchmarks.simulated import core_alone
from benchmarks.timing.host import interleave, provenance, summary
from explorer.compiler.codegen.binary import nvrtc
from explorer.runtime.data.matrices import MATRIX_PRESETS
from explorer.runtime.reference.compare import compare


@pytest.mark.parametrize("case", kge.CASES, ids=[case.model for case in kge.CASES])
def test_both_sides_compute_the_same_scores(case: kge.Case) -> None:
    pytest.importorskip("torch", reason="the peer is PyTorch, which this machine does without")
    sides, error = kge.contenders(replace(case, size=17, batch=40), "WN18")
    assert set(sides) == set(kge.SIDES)
    assert error <= 1


def test_eager_takes_memory_for_its_matrices_and_the_fused_loops_take_none() -> None:
    pytest.importorskip("torch", reason="the peer is PyTorch, which this machine does without")
    case = replace(next(case for case in kge.CASES if case.model == "transr"), size=64, batch=2_000)
    assert kge.peak_bytes(case, "eager", "WN18") > 0.9 * 2_000 * 64 * 64 * 4
    assert kge.peak_bytes(case, "explorer", "WN18") < 2**20


def test_a_wrong_score_has_no_times() -> None:
    pytest.importorskip("torch", reason="the peer is PyTorch, which this machine does without")
    wrong = replace(kge.CASES[0], size=17, batch=40, eager=lambda x: x.E[x.h].sum(-1))
    row = kge.measure(wrong, "WN18", repeat=1)
    assert not row["matches_reference"]
    assert "explorer_ms" not in row
    assert "wrong" in kge.table({**provenance(), "data": "WN18", "peer": "PyTorch", "cases": [row]})


@pytest.mark.sweep
def test_training_steps_have_eagers_gradients_and_wrong_ones_no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kge, "STEP_BATCH", 40)
    monkeypatch.setattr(kge, "STEP_SIZES", (8,))
    transr = next(case for case in kge.CASES if case.model == "transr")
    *right, candidates = kge.training_rows((("transr", transr.eager),), "WN18", repeat=1)
    (wrong, _) = kge.training_rows((("transr", lambda x: 2 * transr.eager(x)),), "WN18", repeat=1)

    assert candidates["candidates"] == kge.CANDIDATES
    assert all(row["matches_reference"] and row["ratio"] > 0 for row in (*right, candidates))
    assert not wrong["matches_reference"]
    text = kge.training_table({**provenance(), "data": "WN18", "peer": "PyTorch", "cases": [*right, wrong]})
    assert text.count("wrong") == 1


@pytest.mark.parametrize("case", rgnn.CASES, ids=[case.model for case in rgnn.CASES])
def test_layers_and_every_variant_of_their_peer_agree(case: rgnn.Case) -> None:
    pytest.importorskip("torch_geometric", reason="the peer is PyTorch Geometric, which this machine does without")
    bench = rgnn.Bench(case, "tiny")
    names = [variant.name for variant in bench.variants()]
    assert names == [variant.name for variant in case.variants]
    want = bench.reference()
    for run in bench.sides(["explorer", *names]).values():
        assert compare(run(), want).ratio <= 1


def test_a_variant_that_gathers_a_matrix_an_edge_needs_the_memory_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = rgnn.Bench(rgnn.CASES[0], "tiny")
    monkeypatch.setattr(rgnn, "available_bytes", lambda: 30 * 64 * 64)
    assert [variant.name for variant in bench.variants()] == ["RGCNConv"]


def test_contenders_take_turns() -> None:
    order: list[str] = []
    samples = interleave({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, repeat=3)
    assert order == ["a", "b"] * 4  # the first round is not measured
    assert {name: len(times) for name, times in samples.items()} == {"a": 3, "b": 3}


def test_a_summary_is_the_median_and_two_percentiles() -> None:
    assert summary(range(101)) == {"median": 50.0, "p5": 5.0, "p95": 95.0}


@pytest.mark.sweep
def test_the_compile_suite_names_every_example_and_where_it_was_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_suite, "import_samples", lambda: [1.0])
    monkeypatch.setattr(compile_suite, "GROWING", {"chain": (chain, 20)})
    monkeypatch.setattr(compile_suite, "ON_DEMAND", ("kge/transr",))
    compiled, compile_text = list[bool](), nvrtc._compile

    def noted(bindings: Any, text: str, flags: tuple[str, ...]) -> Any:
        compiled.append(nvrtc.FAST[0] in flags)
        return compile_text(bindings, text, flags)

    monkeypatch.setattr(nvrtc, "_compile", noted)
    assert compile_suite.main(["--repeat", "1", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    examples = {path.stem for path in (compile_suite.CHECKOUT / "examples").glob("*/*.emb")}
    assert set(figures["compile_ms"]) == examples
    assert [(row["text"], row["grad"], row["count"]) for row in figures["growth"]] == [
        ("chain", False, 20),
        ("chain", True, 10),
    ]
    assert figures["source"] == "measured"
    assert figures["device"]
    rows = {name: row["median"] for name, row in figures["on_demand_ms"].items()}
    assert list(rows) == [f"transr, {stage}{form}" for form in (", first", "", ", kept") for stage in ("ptx", "sass")]
    assert min(rows.values()) > 0
    # Twice, since the first time loads NVRTC: each form is compiled, and what is kept is not, whatever that takes.
    assert compiled == 2 * [True, False]
    assert "transr, sass" in compile_suite.table(figures)


def test_the_machines_ratios_are_those_that_its_costs_are_calibrated_on() -> None:
    errors = []
    for data, published in dae.PUBLISHED.items():
        (row,) = dae.simulate(dae.Case("SLS", "sls", data))
        assert row["matches_reference"]
        assert row["basis"] == "calibrated"
        ratios = [row["speedup_over_opt0"][f"opt{level}"] for level in (1, 2, 3)]
        errors += [abs(got / want - 1) for got, want in zip(ratios, published, strict=True)]
    assert max(errors) < 0.05
    assert sum(errors) / len(errors) < 0.02


def test_gains_of_message_passing_rise_with_the_edges_of_a_vertex() -> None:
    """The graphs in the order that Ember's Figure 16 has them in, which is that of their edges a vertex."""
    gains, edges = [], []
    for graph in ("wiki-Talk", "roadNet-CA", "com-Youtube", "web-Google"):
        machine = dae.set_up(dae.Case("MP", "mp", f"{graph}/1000"))
        cycles = [machine.account({"opt": level})["cycles"] for level in (0, 3)]
        assert machine.right
        gains.append(cycles[0] / cycles[1])
        edges.append(MATRIX_PRESETS[graph].edges / MATRIX_PRESETS[graph].vertices)
    assert edges == sorted(edges)
    assert gains == sorted(gains)


def test_a_case_with_options_has_a_row_with_them() -> None:
    case = next(case for case in dae.CASES if case.data == "BigBird:8")
    plain, own = dae.simulate(case)
    assert own["speedup_over_opt0"]["opt3"] > plain["speedup_over_opt0"]["opt3"]
    for row in (plain, own):
        assert 0 < row["speedup_over_core_alone"]["vectorised"] < row["speedup_over_core_alone"]["scalar"]
    statement = core_alone._statement(
        "Fig. 4", "held out", core_alone.IN_FLIGHT, dict.fromkeys(core_alone.IN_FLIGHT, 20.0)
    )
    figures = {"source": "simulated", "device": "machine", "date": "today", "cases": [plain, own]}
    text = dae.table(figures | {"core_alone": {"statements": [statement]}})
    assert text.count("predicted, expected error") == 2
    assert "store_streams" in text
    assert "assumed baseline, not comparable with the paper's Figure 7" in text
    assert "10      20  +100%" in text


def test_the_machines_suite_covers_embers_operations() -> None:
    for case in dae.CASES:
        assert case.parameters.tlb_entries <= 1280 / case.divided + 5, "a machine for every case"
    assert {case.group for case in dae.CASES} == {"SLS", "MP", "SpMM", "KG", "SpAttn"}
    assert sum(case.group == "MP" for case in dae.CASES) == 4
    assert sum(case.group == "SLS" for case in dae.CASES) == 9
