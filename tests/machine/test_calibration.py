"""The fit, done again: what parameters.py carries is what it finds, and the published ratios are met."""

from __future__ import annotations

from functools import cache

import pytest

from benchmarks.calibrate import cases, figures, table
from explorer.machine.calibration import ACCESS_SHARE, CORE_SHARE, PUBLISHED, Calibration, calibrate
from explorer.machine.parameters import CALIBRATED, MachineParameters
from explorer.runtime.runs.basis import EXPECTED_ERROR
from explorer.runtime.targets.dae import simulate

made = cache(cases)


@cache
def found() -> Calibration:
    """Fitted from other parameters than those carried."""
    return calibrate(made(), MachineParameters(start_cycles=3.0, scalar_cycles=9.0, traversal_cycles=1.0))


def test_parameters_are_those_that_the_fit_finds() -> None:
    carried = {name: entry for name, entry in MachineParameters().describe().items() if entry["source"] == CALIBRATED}
    assert set(found().parameters) == set(carried)
    for name, value in found().parameters.items():
        assert carried[name]["value"] == pytest.approx(value, rel=2e-3), name


def test_nine_ratios_are_met() -> None:
    errors = figures(found())["errors"]
    assert errors["mean"] <= 0.02
    assert errors["max"] <= 0.05


def test_a_model_left_out_is_predicted() -> None:
    assert 0.02 < figures(found())["left_out_errors"]["max"] <= EXPECTED_ERROR, "what predictions are labelled with"


@pytest.mark.parametrize("model", PUBLISHED)
def test_simulated_ratios_are_those_of_the_fit(model: str) -> None:
    cycles = [simulate(*made()[(model, level)]).account["cycles"] for level in range(4)]
    for level, published in enumerate(PUBLISHED[model], start=1):
        assert cycles[0] / cycles[level] == pytest.approx(published, rel=0.05)
        assert cycles[0] / cycles[level] == pytest.approx(found().ratios[model][level - 1], rel=5e-3)


def test_unit_constants_are_met() -> None:
    unoptimised = simulate(*made()[("RM3", 0)], throughput=True).account["throughput"]
    assert unoptimised["execute_alone"] / 64 == pytest.approx(CORE_SHARE, rel=0.01)
    optimised = simulate(*made()[("RM1", 3)], throughput=True).account["throughput"]
    assert optimised["access_alone"] / 64 == pytest.approx(ACCESS_SHARE, rel=0.01)


@pytest.mark.parametrize(
    ("model", "elements", "bags"), [("RM1", 262144, 128), ("RM2", 524288, 64), ("RM3", 1048576, 32)]
)
def test_exact_counts_of_a_core(model: str, elements: int, bags: int) -> None:
    """dae.md: tokens and payload at every level, of 8192 lookups in two tables."""
    want = [elements, elements // 16, 8192, 8192 + bags]
    for level in range(4):
        account = simulate(*made()[(model, level)]).account
        assert account["queues"]["control"]["pushes"] - 1 == want[level]
        assert account["access"]["payload_bytes"] == 4 * elements
        assert account["access"]["traversals"] == 1 + bags + 8192
        ends = [8192, bags] if level == 3 else [want[level]]
        assert sorted(account["tokens"].values(), reverse=True) == [*ends, 1], "records, segment ends and `done`"


def test_table_says_what_was_fitted_and_how_well() -> None:
    text = table(found())
    assert "start_cycles" in text
    assert "one model left out: mean" in text
