"""What `benchmarks.gpu_models` measures and how it judges; its times, no test here can tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import gpu_models
from explorer.runtime import on_gpu
from explorer.runtime.peers import timed

SCORE = """dim D = 8
score Product(h: entity, r: relation, t: entity):
    param E[entity, D]
    param R[relation, D]
    return dot(E[h] * R[r], E[t])
"""


def asked(folder: Path, *more: str) -> Any:
    return gpu_models.parse(["--models", str(folder), "--triples", "WN18", "--repeat", "3", *more])


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder of one score, and of a text that is none."""
    (tmp_path / "product.emb").write_text(SCORE)
    (tmp_path / "broken.emb").write_text("score Broken(")
    return tmp_path


@pytest.fixture
def here(fake_cuda: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Peers on the processor; which were asked for."""
    pytest.importorskip("torch", reason="the peer is PyTorch, which this machine does without")
    seen: list[str] = []

    def peers_of(setup: Any) -> list[timed.Peer]:
        seen.append("eager")
        return [timed.eager(setup, "cpu")]

    def all_peers_of(setup: Any) -> list[timed.Peer]:
        return [*peers_of(setup), timed.Peer("torch.compile", lambda: seen.append("compiled"), lambda: (0.0, {}))]

    monkeypatch.setattr(on_gpu, "peers_of", None)
    monkeypatch.setattr(timed, "peers_of", peers_of)
    monkeypatch.setattr(timed, "all_peers_of", all_peers_of)
    return seen


def test_a_model_is_measured_at_larger_sizes_beside_its_peers(models: Path, here: list[str], tmp_path: Path) -> None:
    row = gpu_models.measure("product", asked(models, "--grad", "--compiled", "all"), tmp_path / "lock")
    assert (row["sizes"], row["data"]) == ({"D": 32}, "WN18")
    assert {name: len(peer["samples_ms"]) for name, peer in row["peers"].items()} == {
        "eager PyTorch": 3,
        "torch.compile": 3,
    }
    assert "compiled" in here
    gpu_models.measure("product", asked(models), tmp_path / "lock")
    assert on_gpu.peers_of is timed.peers_of


def test_a_text_that_does_not_compile_says_why(models: Path, tmp_path: Path) -> None:
    row = gpu_models.measure("broken", asked(models), tmp_path / "lock")
    assert set(row) == {"failed"}
    assert gpu_models.names(asked(models)) == ["broken", "product"]
    assert "broken" in gpu_models.table([{"model": "broken", **row}], grad=False)


def test_what_is_not_begun_in_time_is_told(models: Path) -> None:
    rows = list(gpu_models.measure_all(["product"], asked(models, "--seconds", "0", "--jobs", "1")))
    assert rows == [{"model": "product", "failed": "not begun in time"}]


def test_without_a_gpu_nothing_is_measured(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_models.main(["--models", str(models)]) == 2
    assert "there is no GPU to use" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ours", "theirs", "times", "slower"),
    [
        (0.02, 0.2, 10.0, False),
        (0.022, 0.02, 1 / 1.1, True),
        (0.0202, 0.02, 1 / 1.01, False),  # within what is called equal
        (0.0095, 0.0085, 0.0085 / 0.0095, False),  # both are mostly launches
    ],
)
def test_slower_is_what_lies_above_its_interval(ours: float, theirs: float, times: float, slower: bool) -> None:
    noise = np.random.default_rng(1).normal(1, 0.002, 30)
    row = {"samples_ms": list(ours * noise), "peers": {"eager PyTorch": {"samples_ms": list(theirs * noise[::-1])}}}
    found = gpu_models.judged(json.loads(json.dumps(row)))
    assert found["times"] == pytest.approx(times, rel=0.01)
    assert found["slower"] is slower


def test_a_peer_without_times_is_no_verdict() -> None:
    peer = {"samples_ms": None, "reason": "out of memory"}
    row = {"model": "x", "samples_ms": [1.0], "peers": {"eager PyTorch": peer}}
    assert gpu_models.judged(row) == {}
    assert "out of memory" in gpu_models.table([row], grad=True)
