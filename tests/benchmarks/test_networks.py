"""G-Sparse's networks end to end: every side is the same network, and one that is not is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the networks' other sides are PyTorch's, which this machine does without")

from benchmarks import traced  # noqa: E402
from benchmarks.paper.measured import beside, networks, on_gpu  # noqa: E402
from benchmarks.paper.measured.networks import Citations, Training, by_index, errors  # noqa: E402

WIDTH = 8
SMALL = networks.networks(WIDTH, WIDTH, WIDTH, 2)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs on the processor, each side once; ours takes 1 ms, the next 2, and so on."""

    def interleaved(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
        for run in runs.values():
            run()
        return {name: float(place) for place, name in enumerate(runs, 1)}

    monkeypatch.setattr(traced, "interleaved", interleaved)
    monkeypatch.setattr(on_gpu, "DEVICE", "cpu")
    monkeypatch.setattr(on_gpu, "give_back", lambda: None)
    for name in ("FEATURES", "HIDDEN", "CLASSES"):
        monkeypatch.setattr(beside, name, WIDTH)


@pytest.mark.parametrize(
    "network",
    [pytest.param(each, id=each.name, marks=() if each.name == "GCN" else pytest.mark.sweep) for each in SMALL],
)
def test_a_network_is_the_same_on_every_side(
    network: networks.Network, here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(networks, "networks", lambda *_: (network,))
    table = beside.networks_table(40, 200)
    assert table.right, table.note
    forward, step = table.rows
    assert (forward.label, step.label) == (f"{network.name}, inference", f"{network.name}, training")
    assert not forward.basis
    assert forward.ours["speed over eager"] == 2
    assert ("cuSPARSE, ms" in step.ours) == (network.name != "GAT"), "attention is no product with a matrix"
    assert {name for row in table.rows for name in row.ours} <= set(table.columns)


@pytest.mark.parametrize("network", SMALL, ids=lambda network: network.name)
def test_a_side_that_is_off_is_found(network: networks.Network) -> None:
    graph = Citations.drawn(30, 90, "cpu")
    random = torch.Generator().manual_seed(0)
    x = torch.randn(graph.nodes, WIDTH, generator=random)
    labels = torch.randint(0, network.classes, (graph.nodes,), generator=random)
    shapes = {
        "W": (1, WIDTH, WIDTH) if network.name == "GAT" else (WIDTH, WIDTH),
        "own": (WIDTH, WIDTH),
        "b": (WIDTH,),
        "from_src": (1, WIDTH),
        "from_dst": (1, WIDTH),
    }
    learnt = [{name: torch.randn(shape, generator=random) for name, shape in shapes.items()} for _ in range(2)]
    plain = network.in_pytorch(graph, by_index(network, graph, torch.float32))
    exactly = network.in_pytorch(graph, by_index(network, graph, torch.float64))

    def found(forward: networks.Forward) -> networks.Errors:
        return errors(Training(forward, x, labels, learnt), Training(exactly, x.double(), labels, learnt), 3)

    assert found(plain).right
    off = found(replace(plain, second=lambda x, learnt: 1.001 * plain.second(x, learnt)))
    assert off.logits > 1e-4
    assert not off.right
    # Right forward, and wrong backward alone.
    made = network.between
    off = found(replace(plain, between=lambda rows: made(0.9 * rows + 0.1 * rows.detach())))
    assert off.logits < 1e-4
    assert not off.right


def test_gradients_are_of_the_side_of_0_that_rounding_left_an_element_on() -> None:
    tiny = 1e-9
    both = [
        networks.Forward(lambda x, _, sign=sign: x + sign * tiny, lambda x, learnt: x @ learnt["W"], torch.relu)
        for sign in (-1, 1)
    ]
    side, exact = (replace(each, between=torch.nn.functional.relu) for each in both)
    x, labels = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([0, 1])
    learnt: networks.Learnt = [{}, {"W": torch.eye(2)}]
    bent = exact.bent_as(side, x, learnt)
    hidden = x.clone().requires_grad_()
    bent(hidden, learnt).sum().backward()
    assert hidden.grad is not None
    assert hidden.grad.tolist() == [[0, 1], [1, 0]], "the exact ones are above 0 throughout"
    assert errors(Training(side, x, labels, learnt), Training(exact, x.double(), labels, learnt), 2).right


def test_each_kind_of_error_is_wrong() -> None:
    assert networks.Errors(1e-6, 1e-6, 1e-7).right
    for wrong in ((1e-3, 0.0, 0.0), (0.0, 1e-3, 0.0), (0.0, 0.0, 1e-3), (float("nan"), 0.0, 0.0)):
        assert not networks.Errors(*wrong).right


def test_edges_weigh_what_the_papers_say() -> None:
    graph = Citations(torch.tensor([0, 1, 2, 0]), torch.tensor([0, 1, 2, 1]), 3)
    assert graph.degrees.tolist() == [1, 2, 1]
    assert graph.share.tolist() == pytest.approx([1, 1 / 2, 1, 2**-0.5])
    matrix, transposed = graph.matrix(graph.share)
    assert torch.equal(matrix.to_dense().T, transposed.to_dense())
    assert len(matrix.values()) == len(transposed.values()) == 4
    assert float(matrix.to_dense()[1, 0]) == pytest.approx(2**-0.5), "row 1 is of the edges into node 1"


def test_a_network_that_fails_is_said(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "networks", lambda *_: SMALL[:2])
    monkeypatch.setattr(beside, "network_rows", lambda *_: 1 / 0)
    table = beside.networks_table(20, 40)
    assert not table.right
    assert "Failed: GCN: ZeroDivisionError" in table.note
    assert "GraphSAGE: ZeroDivisionError" in table.note
