"""What the papers' figures compile before they measure is what they measure then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from benchmarks.gpu_suite import rows as gpu_rows  # noqa: E402
from benchmarks.paper import cuke, gsparse  # noqa: E402
from benchmarks.paper.figure import Figure  # noqa: E402
from benchmarks.paper.measured import beside, by_setting, counters, cuke_times, cuke_training, memory, networks, on_gpu  # noqa: E402
from benchmarks.timing import device as timing  # noqa: E402

Recorded = set[str]


def is_compiled_before(figure: Figure, asked: Recorded) -> None:
    """Holds what is asked for in measuring a figure against what it names before."""
    asked.clear()
    assert figure.on_gpu
    figure.on_gpu()
    measured = {*asked}
    asked.clear()
    cuke_times._program.cache_clear()
    for program in figure.ahead():
        program()
    assert measured
    assert measured == asked, figure.name


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """The programs that are asked for, while nothing is measured."""
    found = Recorded()

    def told(*of: Any) -> Any:
        found.add(repr(of))
        return SimpleNamespace(compilation=None)

    @dataclass(frozen=True)
    class Scores:
        case: cuke_times.Case
        checked: int = 0

        def program(self, **options: Any) -> Any:
            return told(self.case, options)

        def problem(self, device: str, data: str) -> Any:
            return SimpleNamespace(peers={"eager": None}, compiled=dict.fromkeys(("TorchScript", "torch.compile")))

    def counted(cases: Any, metrics: Any, seconds: float) -> Any:
        found.update(map(repr, cases))
        raise counters.NoCounters

    def peaks(ids: Any, width: int) -> tuple[int, int, bool]:
        told(f"kge/{memory.MODEL}", width, False, {})
        return 1, 1, True

    def trained(name: str, data: str) -> on_gpu.Measured:
        told(f"kge/{cuke_training.MODELS[name]}", cuke_training.SIZE, True, {})
        return on_gpu.Measured({}, True)

    def of_row(row: Any) -> Any:
        told(row)
        return {"peers": {}, "ours": {"ms": 1.0}, "right": True}

    nothing: Callable[..., Any] = lambda *rest, **named: None  # noqa: E731
    for module, name, other in (
        (on_gpu, "give_back", nothing),
        (on_gpu, "in_turns", lambda *rest, **named: on_gpu.Measured({}, True)),
        (on_gpu, "module_code", told),
        (timing, "called_within", lambda *rest: "left out"),
        (gpu_rows.MatrixRow, "problem", lambda *rest: SimpleNamespace(check=None)),
        (cuke_times, "_row_of", Scores),
        (cuke_training, "measured", trained),
        (memory, "peaks", peaks),
        (counters, "counted", counted),
        (counters, "_code_of", lambda case: found.add(repr(case))),
        (by_setting, "_sparse_program", told),
        (beside, "measured", of_row),
        (beside, "code_of", told),
    ):
        monkeypatch.setattr(module, name, other)
    cuke_times._program.cache_clear()
    cuke_times.table.cache_clear()
    return found


@pytest.mark.parametrize("figure", [each for each in cuke.PAPER.figures if each.on_gpu], ids=lambda each: each.name)
def test_what_cukes_figures_measure_is_compiled_before(asked: Recorded, figure: Figure) -> None:
    is_compiled_before(figure, asked)
    cuke_times._program.cache_clear()
    cuke_times.table.cache_clear()


@pytest.mark.parametrize(
    "figure",
    [each for each in gsparse.PAPER.figures if each.on_gpu and each.name != "networks"],
    ids=lambda each: each.name,
)
def test_what_gsparses_figures_measure_is_compiled_before(asked: Recorded, figure: Figure) -> None:
    is_compiled_before(figure, asked)


def same_program(made: Any, code: Any) -> None:
    """Holds the one program with gradients that a module has run against what was compiled for it."""
    ((frozen, program),) = made._backward._programs.items()
    assert code.frozen == frozen
    assert code.options == replace(program.compilation.options, arch=code.options.arch)
    assert code.text == program.compilation.text


@pytest.mark.parametrize("place", range(3))
def test_the_programs_of_networks_are_those_of_their_modules(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    for name, size in {"FEATURES": 8, "HIDDEN": 8, "CLASSES": 4, "HEADS": 2}.items():
        monkeypatch.setattr(beside, name, size)
    network = networks.networks(8, 8, 4, 2)[place]
    pair = network.modules()
    monkeypatch.setattr(networks.Network, "modules", lambda self: pair)
    forward, drawn = network.ours(networks.Citations.drawn(12, 30, "cpu"))
    learnt: list[Mapping[str, Any]] = [{key: each.requires_grad_() for key, each in of.items()} for of in drawn]
    forward(torch.randn(12, 8), learnt).sum().backward()
    for layer, made in enumerate(pair):
        same_program(made, beside._code_of_network(place, layer, True))


@pytest.mark.parametrize("path", ["kge/transh", "kge/distmult"])
def test_the_program_of_a_module_is_that_of_its_calls(path: str) -> None:
    """Of one whose kernels cannot make results before gradients are there it is another than is usual."""
    made = on_gpu.module(path, 8)
    graph, ids = made.compilation.stages["graph"].program, torch.tensor([0, 1, 2])
    tables = {each.name: torch.randn([3, *map(graph.size, each.dims)]).requires_grad_() for each in graph.tensors}
    made(ids, ids, ids, **tables).sum().backward()
    code = on_gpu.module_code(path, 8, True, {})
    same_program(made, code)
    assert code.options.apart == (path == "kge/transh")
