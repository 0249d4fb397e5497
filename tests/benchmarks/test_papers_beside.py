"""The papers' times beside others, by kernel and as memory, with what measures them pretended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="what ours stands beside is PyTorch, which this machine does without")

import explorer  # noqa: E402
from benchmarks.gpu_suite import measuring  # noqa: E402
from benchmarks.gpu_suite.inputs import relational_graph  # noqa: E402
from benchmarks.paper import hector  # noqa: E402
from benchmarks.paper.figure import Row  # noqa: E402
from benchmarks.paper.measured import beside, breakdown, hector_figures, memory, on_gpu  # noqa: E402
from benchmarks.paper.measured import rows as timed_rows  # noqa: E402
from benchmarks.paper.measured.on_gpu import Measured  # noqa: E402
from benchmarks.paper.measured.rows import MeasuredRows  # noqa: E402
from benchmarks.timing.device import Samples, first_line  # noqa: E402
from explorer.checkout import CHECKOUT  # noqa: E402

Runs = Mapping[str, Callable[[], Any]]


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Mapping[str, Any], Mapping[str, Any], Runs]]:
    """Measures nothing: a contender takes as many ms as its place, settings first. Gives what each call would have
    measured: the problem, its programs, the exact gradients and the peers."""
    found = []

    def in_turns(
        problem: Any, programs: Any, check: Any, most: float, *, exact: Any = None, peers: Any = None
    ) -> Measured:
        found.append((problem, programs, exact, peers))
        return Measured({name: float(place) for place, name in enumerate([*programs, *peers], 1)}, True)

    monkeypatch.setattr(on_gpu, "DEVICE", "cpu")
    monkeypatch.setattr(on_gpu, "give_back", lambda: None)
    monkeypatch.setattr(on_gpu, "in_turns", in_turns)
    return found


def test_a_row_that_fails_loses_no_other_and_late_ones_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = MeasuredRows()
    found.add("first", lambda: ([Row("first", {})], True))
    assert found.right
    assert found.table((), "All.").note == "All."
    found.add("second", lambda: 1 / 0)
    found.add("third", lambda: ([Row("third", {})], True))
    monkeypatch.setattr(timed_rows, "SECONDS", -1.0)
    for late in ("fourth", "fifth"):
        found.add(late, lambda: ([Row("none", {})], True))
    assert [row.label for row in found.rows] == ["first", "third"]
    table = found.table((), "All.")
    assert not table.right
    assert table.note == (
        "All. Left out, after -1 s: fourth; fifth. Failed: second: ZeroDivisionError: division by zero."
    )


def test_products_stand_beside_the_faster_of_cusparses_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(row: Any) -> Mapping[str, Any]:
        if row.name == "SDDMM arxiv":
            raise RuntimeError("no room")
        peers = {"torch.sparse.mm": 4.0, "CuPy csr @ dense": 3.0, "torch.sampled_addmm": 8.0, "eager": 9.0}
        told: dict[str, Any] = {name: {"ms": ms} for name, ms in peers.items()}
        told["DGL SpMM"] = {"error": "No module named 'dgl'"}
        return {"ours": {"ms": 2.0}, "peers": told, "right": row.name != "SpMM proteins"}

    monkeypatch.setattr(beside, "measured", measured)
    table = beside.products_table()
    rows = {row.label: row.ours for row in table.rows}
    assert len(rows) == 5
    assert rows["SpMM arxiv, 128 wide"]["speed over cuSPARSE"] == 1.5
    assert rows["SDDMM products, 100 wide"]["gather and sum, ms"] == 9
    assert not table.right
    assert "DGL SpMM" in table.note
    assert "SDDMM arxiv: RuntimeError: no room" in table.note


def test_ours_without_a_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def measure(self, row: Any) -> dict[str, Any]:
            return {"error": "it does not compile", "peers": {}}

    monkeypatch.setattr(beside, "bench", Failing)
    monkeypatch.setattr(on_gpu, "give_back", lambda: None)
    with pytest.raises(RuntimeError, match="it does not compile"):
        beside.measured(SimpleNamespace(name="a row"))


@pytest.mark.parametrize("layer", ["rgcn", "rgat", "hgt"])
def test_figure_8s_peers_compute_the_layer_and_its_gradients(turns: list[Any], layer: str) -> None:
    chosen = {name: hector.OPTIONS[name] for name in ("C+R", "U")}
    table = beside.layers_table(layer, hector.SIZES[layer], ["tiny"], chosen, hector_figures.SPEEDS[layer])
    (forward, _, none, runs), (_, programs, exact, with_gradients) = turns
    assert list(programs) == ["C+R", "U"]
    assert none == {}
    assert list(runs) == list(with_gradients) == [beside.LOOP, beside.COPIES]
    want = on_gpu.exactly(layer, forward.program.graph, forward.tensors, relational_graph("tiny", "", "cpu")[1])[""]
    for run in runs.values():
        assert torch.allclose(run().double(), want, rtol=1e-4, atol=1e-4)
    first, second = (run() for run in with_gradients.values())
    assert len([each for each in first if each is not None]) == len(exact) > 0
    for one, other in zip(first, second, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.allclose(one, other, rtol=1e-3, atol=1e-3)
    rows = {row.label: row for row in table.rows}
    assert rows["tiny, training"].ours["speed, C+R"] == 3
    assert rows["geometric mean, inference, Hector"].ours == pytest.approx({"speed, C+R": 3, "speed, U": 1.5})
    assert rows["geometric mean, inference, PIGEON"].ours == pytest.approx({"speed, U": 1.5})
    assert {name for row in table.rows for name in (*row.ours, *row.published)} <= set(table.columns)
    assert "Seastar, Graphiler and HGL" in table.note


def test_the_mean_over_graphs_stands_beside_the_published_one() -> None:
    told = {("Hector", "training"): {"U": (1.0, 2.0, 3.0)}, ("Hector", "inference"): {"U": (4.0, 5.0, 6.0)}}
    rows = {row.label: row for row in beside.over_all({("training", "U"): [1.0, 4.0]}, {"U": "speed, U"}, told)}
    assert rows["geometric mean, training, Hector"].ours == pytest.approx({"speed, U": 2.0})
    assert rows["most, training, Hector"].ours == {"speed, U": 4.0}
    assert rows["most, training, Hector"].published == {"speed, U": 3.0}
    assert rows["least, inference, Hector"].ours == {}


def test_copies_that_have_no_room_are_left_out(turns: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    _, edges = relational_graph("tiny", "", "cpu")
    tensors = {"W": torch.zeros(edges.etypes, 4, 5), "K": torch.zeros(edges.etypes + 1, 2, 3), "x": torch.zeros(9, 9)}
    assert beside.copied_bytes(tensors, edges) == 4 * (len(edges.src) * 20 + edges.nodes * 6)
    monkeypatch.setattr(beside, "COPIED_BYTES", 0)
    assert list(beside.layer_peers("rgcn")(tensors, edges, False)) == [beside.LOOP]


@pytest.mark.parametrize("fails", [False, True])
def test_what_torch_compile_cannot_make_is_said(turns: list[Any], monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    def compiled(compute: Any) -> Any:
        return (lambda given: 1 / 0) if fails else compute

    monkeypatch.setattr(torch, "compile", compiled)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    table = beside.compiled_table({"rgcn": {}}, "tiny")
    assert [row.label for row in table.rows] == ["RGCN, inference", "RGCN, training"]
    if fails:
        assert all("torch.compile: ZeroDivisionError" in row.basis for row in table.rows)
    else:
        assert all(row.ours["speed over torch.compile"] == 3 for row in table.rows)
    assert table.right


def test_float64s_gradients_are_those_of_the_compiled_layer(turns: list[Any]) -> None:
    on_gpu.layer_times("rgcn", "tiny", {}, {"U": hector.OPTIONS["U"]}, True)
    ((problem, programs, exact, _),) = turns
    (_,), gradients = programs["U"].run(problem.structure, problem.counts, problem.tensors)
    assert gradients.keys() == exact.keys()
    for name, each in gradients.items():
        assert on_gpu.apart(each, exact[name]) < 1e-5
        assert on_gpu.apart(1.01 * each, exact[name]) > on_gpu.ALIKE


def test_kernels_are_products_or_traversals_or_look_at_the_graph() -> None:
    text = (CHECKOUT / "examples" / "rgnn" / "rgat.emb").read_text()
    kinds = breakdown.kinds_of(explorer.compile(text, on_demand=True))
    found = {kind: [name for name, each in kinds.items() if each == kind] for kind in set(kinds.values())}
    assert all("product" in name or name == "RGAT_1_kernel" for name in found[breakdown.GEMM])
    assert any("tiles" in name for name in found[breakdown.INSPECTORS])
    assert any(name.startswith("RGAT_3") for name in found[breakdown.TRAVERSAL])


class Clock:
    """Of the pretended device, on which a launch takes what it is said to take."""

    def sample(self, run: Callable[[], Any], cold: bool) -> float:
        run()
        return 0.25

    def interleave(self, runs: Runs, repeat: int) -> dict[str, Samples]:
        found = {}
        for place, (name, run) in enumerate(runs.items(), 1):
            try:
                run()
                found[name] = Samples([float(place)])
            except ZeroDivisionError as error:
                found[name] = Samples(error=first_line(error))
        return found


@pytest.fixture
def device(fake_cuda: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The pretended device, whose arrays are tensors of this processor."""

    def outcome(problem: Any, bound: Any) -> Any:
        result, gradients = bound.results()
        shapes = {name: problem.tensors[name].shape for name in gradients}
        return torch.from_numpy(result.numpy), {
            name: torch.from_numpy(each.numpy).reshape(shapes[name]) for name, each in gradients.items()
        }

    monkeypatch.setattr(on_gpu, "DEVICE", "cpu")
    monkeypatch.setattr(on_gpu, "give_back", lambda: None)
    monkeypatch.setattr(on_gpu, "clock", Clock)
    monkeypatch.setattr(breakdown, "synchronize", lambda: None)
    monkeypatch.setattr(measuring, "outcome", outcome)
    return fake_cuda


def test_a_layers_run_is_taken_apart(device: Any) -> None:
    table = breakdown.figure_9("rgat", {}, ["tiny"], {name: hector.OPTIONS[name] for name in ("U", "C+R")})
    assert [row.label for row in table.rows] == ["tiny, U", "tiny, C+R"], table.note
    assert table.right
    for row in table.rows:
        assert row.ours["kernels"] == row.ours[breakdown.GEMM] + row.ours[breakdown.TRAVERSAL] > 0


def test_launching_and_preparation_are_told_of_training_too(device: Any) -> None:
    columns = (*breakdown.BY_KERNEL, *breakdown.LAUNCHED, *breakdown.PREPARED)
    case = ("tiny", "rgcn", "tiny", hector.OPTIONS["C"], True)
    table = breakdown.spent_table([case], hector.SIZES, columns, "")
    assert table.right, table.note
    (row,) = table.rows
    program = on_gpu.layer_program("rgcn", (), True, tuple(hector.OPTIONS["C"].items()))
    kinds = list(breakdown.kinds_of(program.compilation).values())
    assert row.ours[breakdown.INSPECTORS] == 0.25 * kinds.count(breakdown.INSPECTORS) > 0
    assert row.ours["one by one: wall"] >= row.ours["one by one: host"] > 0
    assert 0 < row.ours["API, %"] < 100
    assert row.ours["index work, host"] > 0
    device.spoils = True
    assert not breakdown.spent_table([case], hector.SIZES, columns, "").right


@pytest.mark.parametrize("wrong", [False, True])
def test_a_peer_that_fails_is_no_fault_and_wrong_results_are(device: Any, wrong: bool) -> None:
    device.spoils = wrong

    def peers(tensors: Any, edges: Any, grad: bool) -> Runs:
        return {"fails": lambda: 1 / 0, "works": lambda: None}

    found = on_gpu.layer_times("rgcn", "tiny", {}, {"U": hector.OPTIONS["U"]}, True, peers)
    assert found.ms == {"U": 1.0, "works": 3.0}
    assert found.errors == {"fails": "ZeroDivisionError: division by zero"}
    assert found.right is not wrong


def test_peaks_stand_beside_what_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    most = {"U": 400, "C": 100, "R": 400, "C+R": 200}

    def held(layer: str, data: str, sizes: Any, options: Any, grad: bool) -> tuple[int, bool]:
        (name,) = (name for name, each in hector.OPTIONS.items() if each == options)
        return (2 if grad else 1) * most[name] * memory.MIB, True

    monkeypatch.setattr(memory, "held", held)
    table = memory.figure_10("hgt", {}, ["tiny"], hector.OPTIONS, lambda data, name, grad: most[name] * memory.MIB)
    forward, training = table.rows
    assert forward.ours == {
        "U, MiB": 400,
        "U, counted": 400,
        "C, %": 25,
        "R, %": 100,
        "C+R, %": 50,
        "C, counted, %": 25,
        "R, counted, %": 100,
        "C+R, counted, %": 50,
    }
    assert training.ours["U, MiB"] == 800
    assert set(forward.ours) == set(table.columns)


def test_what_a_layer_holds_is_that_of_a_whole_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the processor, whose allocator tells nothing: a call that is asked for makes the graph, tensors and result."""
    found = []

    def peak_of(run: Callable[[], Any]) -> tuple[int, Any]:
        found.append(run())
        return 7, found[-1]

    monkeypatch.setattr(on_gpu, "DEVICE", "cpu")
    monkeypatch.setattr(on_gpu, "give_back", lambda: None)
    monkeypatch.setattr(memory, "peak_of", peak_of)
    assert memory.held("rgcn", "tiny", {"F": 8, "G": 8}, {"compact": True}, True) == (7, True)
    ((result, tensors),) = found
    assert result.requires_grad
    assert tensors["W"].grad.shape == tensors["W"].shape
    assert tensors["x"].grad is None
