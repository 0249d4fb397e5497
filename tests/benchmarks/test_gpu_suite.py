"""The GPU suite without a GPU: its rows' inputs at small sizes, what it holds results against, and what it says."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace

import pytest

from benchmarks import gpu

torch = pytest.importorskip("torch", reason="the suite's peers are PyTorch's, which this machine does without")

from benchmarks.gpu_suite import inputs, measuring, rows  # noqa: E402
from benchmarks.timing import device as timing  # noqa: E402
from explorer.runtime.targets.cpu import prepare_once  # noqa: E402

SMALL = [rows.smaller(row) for row in rows.ROWS if getattr(row, "graph", "") == ""]
SAME = {"CuPy csr @ dense", "eager", "EmbeddingBag", "torch.sparse.mm", "loop of products", "PyG RGCNConv"}
"""Peers that compute what ours does, to the last weight."""


def small(row):
    """The row, on a graph that a test has the time for."""
    return replace(row, graph="tiny") if isinstance(row, rows.LayerRow) else row


LIBRARIES = {"fbgemm_gpu", "torch_scatter", "torch_sparse", "dgl", "pykeen"}
"""Those that may be missing here: their peers say so."""


@pytest.mark.sampled(24)
@pytest.mark.parametrize("row", SMALL, ids=lambda row: row.name)
def test_every_row_computes_what_its_reference_and_its_peers_do(row):
    problem = small(row).problem("cpu", "FB15k-237")
    (result,), gradients = problem.program.run(problem.structure, problem.counts, problem.tensors)
    assert bool(gradients) == ("training" in row.name)
    assert problem.check(result, gradients) <= row.tolerance
    assert problem.check(1.01 * result, gradients) > row.tolerance
    for name, run in problem.peers.items():
        try:
            other = run()
        except ModuleNotFoundError as missing:
            if missing.name in LIBRARIES:
                continue
            raise
        if name in SAME and "training" not in row.name:
            eps = measuring.torch.finfo(other.dtype).eps  # a peer may sum in what it stores
            assert measuring.torch.allclose(other.float(), result, rtol=max(1e-3, 4 * eps), atol=max(1e-4, 4 * eps)), (
                name
            )
    counted = measuring.counted_limits(problem)
    assert 0 < counted["compulsory_bytes"] <= counted["stream_bytes"]
    assert counted["flop"] > 0


def test_wrong_gradients_are_found():
    row = small(next(row for row in SMALL if row.name == "RGCN fb15k training"))
    problem = row.problem("cpu", "FB15k-237")
    (result,), gradients = problem.program.run(problem.structure, problem.counts, problem.tensors)
    gradients["W"][0] += 0.1
    assert problem.check(result, gradients) > row.tolerance


def product(x):
    """`leaky_relu(feature @ w)`, of which one argument is at the corner where the rows' sums cancel."""
    return torch.nn.functional.leaky_relu(x["feature"] @ x["w"], 0.2)


def features(nearest):
    random = torch.Generator().manual_seed(0)
    feature, w = torch.randn(200, 64, generator=random), torch.randn(64, generator=random)
    feature[7] -= (feature[7].double() @ w.double() - nearest).float() * w / (w @ w)
    return {"feature": feature, "w": w}


def test_what_lies_at_a_corner_within_rounding_is_found():
    assert inputs.at_corners(product, features(nearest=0.0)) == 1
    assert inputs.at_corners(product, features(nearest=1e-3)) == 0
    nowhere = features(nearest=1e-3) | {"feature": torch.zeros(3, 64)}
    assert inputs.at_corners(product, nowhere) == 0  # exactly at it, in float32 too


def test_inputs_at_a_corner_are_drawn_again_and_said_to_be():
    tensors, note = inputs.away_from_corners(lambda seed: features(nearest=0.0 if seed < 2 else 1e-3), product)
    assert inputs.at_corners(product, tensors) == 0
    assert "seed 2" in note
    assert inputs.away_from_corners(lambda seed: features(nearest=1e-3), product)[1] == ""
    with pytest.raises(ValueError, match="however often"):
        inputs.away_from_corners(lambda seed: features(nearest=0.0), product)


def test_rows_of_a_table_much_larger_than_the_cache_are_marked():
    marked = {
        row.name: row.program().compilation.options.popular for row in rows.ROWS if isinstance(row, rows.MatrixRow)
    }
    assert [name for name, popular in marked.items() if popular] == ["SpMM products", "SDDMM products"]


def test_the_rows_are_those_of_the_issue():
    names = [row.name for row in rows.ROWS]
    assert len(set(names)) == len(names)
    assert {"TransE", "RESCAL 3xTF32", "TransR 1024 TF32", "HGT fb15k training", "RGCN am inference"} <= set(names)
    assert all(row.target_ms or row.of_peer or row.of_row for row in rows.ROWS)


def test_busy_ids_are_drawn_as_often_as_the_power_law_says():
    ids = rows.power_law(100, 100_000, 1.0, torch.Generator().manual_seed(0))
    counts = torch.bincount(ids, minlength=100).sort(descending=True).values / 100_000
    harmonic = sum(1 / rank for rank in range(1, 101))
    assert counts[0].item() == pytest.approx(1 / harmonic, rel=0.05)
    assert counts[9].item() == pytest.approx(0.1 / harmonic, rel=0.1)


class Ticks:
    """A clock without a device, on which every call takes what it says."""

    def __init__(self):
        self._torch = argparse.Namespace(cuda=self)

    def empty_cache(self):
        pass

    def sample(self, run, cold):
        return run() + (1.0 if cold else 0.0)

    interleave, _try, _both = timing.Clock.interleave, timing.Clock._try, timing.Clock._both

    def _first(self, run, samples):
        run()


def test_contenders_take_turns_and_one_that_fails_says_why():
    order = []

    def failing():
        raise MemoryError("out of memory")

    found = Ticks().interleave(
        {"a": lambda: order.append("a") or 2.0, "slow": lambda: order.append("b") or 900.0, "c": failing}, 5
    )
    assert order[:5] == ["a", "b", "a", "a", "b"]  # once untimed; then cold and warm, and no warm one of what is slow
    assert found["a"].to_json() == {"ms": 3.0, "p5": 3.0, "p95": 3.0, "warm_ms": 2.0, "samples": 5, "peak_bytes": None}
    assert found["slow"].to_json()["samples"] == timing.FEWEST_SAMPLES
    assert found["c"].to_json() == {"error": "MemoryError: out of memory"}


class OnCpu:
    """What `bind` gives, of a program that runs here."""

    def __init__(self, problem):
        self.problem, self.made_bytes, self.given_bytes = problem, 8, 16
        self.launches = problem.program.compilation.stages["cuda"].program.launches

    def launch(self):
        arrays, extents = self.problem.program.arrays(self.problem.structure, self.problem.counts, self.problem.tensors)
        shared = {name: tensor.numpy() for name, tensor in arrays.items()}
        self.found = prepare_once(self.problem.program.program).bind_checked(shared, extents).run()
        return 2.0

    def results(self):
        return self.found


@pytest.mark.parametrize("name", ["TransH", "RGCN fb15k training", "SDDMM arxiv"])
def test_a_measured_row_tells_times_errors_limits_and_peers(name, monkeypatch):
    monkeypatch.setattr(measuring, "bind", OnCpu)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(Ticks, "sample", lambda self, run, cold: bool(run() is None) + (1.0 if cold else 0.5))
    bench = measuring.Bench.__new__(measuring.Bench)
    bench.arguments = gpu.parse(["--data", "FB15k-237", "--without", "torch.compile,pyg"])
    bench.device, bench.repeat, bench.without, bench.clock = "cpu", 2, ["torch.compile", "pyg"], Ticks()
    bench.ceilings = timing.Ceilings(3e12, 5e13, 3.5e14)
    found = bench.measure(small(next(row for row in SMALL if row.name == name)))
    assert found["error_of_64"] <= found["tolerance"]
    assert found["ours"]["ms"] == 1.0
    assert found["ours"]["peak_bytes"] == found["made_bytes"] == 8
    assert found["limit_ms"] > 0
    assert found["kernels"] >= 1
    assert not any("torch.compile" in peer or "PyG" in peer for peer in found["peers"])
    result = {"row": name, **json.loads(json.dumps(found))}
    gpu.judge([result])
    assert result["right"]
    assert name in gpu.table({}, [result])
    assert "drawn again" in gpu.table({}, [result | {"note": "drawn again"}])


def test_a_row_without_a_program_still_times_its_peers(monkeypatch):
    def failing(problem):
        raise MemoryError("the run would take 90 GiB")

    monkeypatch.setattr(measuring, "bind", failing)
    bench = measuring.Bench.__new__(measuring.Bench)
    bench.arguments = gpu.parse(["--data", "FB15k-237"])
    bench.device, bench.repeat, bench.without, bench.clock = "cpu", 1, ["torch.compile"], Ticks()
    bench.ceilings = timing.Ceilings(3e12, 5e13, 3.5e14)
    monkeypatch.setattr(Ticks, "sample", lambda self, run, cold: bool(run() is None) + 1.0)
    monkeypatch.setattr(Ticks, "_first", lambda self, run, samples: None)
    found = bench.measure(small(next(row for row in SMALL if row.name == "SpMM arxiv")))
    assert found["error"] == "MemoryError: the run would take 90 GiB"
    assert "ms" in found["peers"]["torch.sparse.mm"]


def result(name, ms, peers=(), **more):
    times = {peer: {"ms": value, "warm_ms": value} for peer, value in dict(peers).items()}
    measured = {"ours": {"ms": ms, "warm_ms": ms}, "error_of_64": 1e-6, "tolerance": 1e-5, "limit_ms": ms / 2}
    return {"row": name, **measured, "kernels": 1, "made_bytes": 4, "peers": times, **more}


def test_targets_are_times_shares_of_a_peer_or_of_another_row():
    results = [
        result("TransE", 0.02, {"eager": 0.1, "torch.compile": 0.08}, target_ms=0.019),
        result(
            "SLS RM1", 0.016, {"EmbeddingBag": 0.034, "torch.compile": 0.02}, target_of_peer=0.5, against="EmbeddingBag"
        ),
        result("SpMM arxiv", 0.1, {"torch.sparse.mm": 0.2}, target_of_peer=1.0),
        result("SDDMM arxiv", 0.12, {}, target_of_row=("SpMM arxiv", 1.1), ours={"ms": 0.12, "warm_ms": None}),
        result("SpMM wrong", 0.1, {"torch.sparse.mm": 0.2}, target_of_peer=1.0) | {"error_of_64": 0.1},
        {"row": "RGCN am inference", "error": "OutOfMemoryError: no", "peers": {}},
    ]
    gpu.judge(results)
    assert [each.get("passes") for each in results] == [False, True, True, False, False, None]
    assert [each["right"] for each in results] == [True, True, True, True, False, False]
    assert results[1]["of_peer"] == pytest.approx(0.016 / 0.034, abs=1e-4)
    assert results[0]["best_peer"] == "torch.compile"
    text = gpu.table({"device": "a GPU", "date": "today", "torch": "2"}, results)
    assert "OutOfMemoryError" in text
    assert "WRONG" in text
    assert "SpMM is 2.00 times as fast as cuSPARSE" in text


def test_a_process_that_breaks_costs_its_row_and_no_other(monkeypatch, tmp_path, capsys):
    script = tmp_path / "worker.py"
    script.write_text(
        "import json, sys\n"
        "print('a library says something')\n"
        "print(json.dumps({'device': 'a GPU'}))\n"
        "for name in json.loads(sys.argv[sys.argv.index('--worker') + 1]):\n"
        "    if name == 'breaks': sys.exit(3)\n"
        "    print(json.dumps({'row': name, 'fault': name == 'faults'}), flush=True)\n"
    )
    start = subprocess.Popen
    monkeypatch.setattr(
        gpu.subprocess, "Popen", lambda command, **more: start([command[0], str(script), *command[3:]], **more)
    )
    arguments = gpu.parse(["--row-limit", "60"])
    facts, results = gpu.measure_all(["a", "breaks", "b", "faults", "c"], arguments)
    assert facts == {"device": "a GPU"}
    assert [each["row"] for each in results] == ["a", "breaks", "b", "faults", "c"]
    assert results[1]["error"] == "its process ended with 3"
    assert [json.loads(line)["row"] for line in capsys.readouterr().out.splitlines()[1:] if "row" in line][:2] == [
        "a",
        "breaks",
    ]


def test_without_a_gpu_the_suite_says_so(capsys):
    if gpu.missing_gpu():
        assert gpu.main([]) == 2
        assert "there is no GPU" in capsys.readouterr().err


def test_the_suite_says_what_it_takes():
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", "--help"], capture_output=True, text=True, cwd=gpu.CHECKOUT
    )
    assert ran.returncode == 0
    assert "--only" in ran.stdout
