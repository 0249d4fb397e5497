"""Searches on the simulated machine: real simulations, of small models."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from explorer.machine import simulation
from explorer.runtime import tuning
from explorer.runtime.targets import dae
from explorer.tuner import search as tuner_search
from explorer.tuner.tune import on_dae
from tests.tuner.tune.searching import hold_together, of_kind, search, text_of

EVERY = [(level, value) for level in range(4) for value in (False, True)]
BAGS = "op Bags(b: bag of row):\n    param T[row, 24]\n    return sum(T[i] for i in b)\n"


def run_again(text: str, result: dict[str, Any], **more: Any) -> float:
    """The cycles of a plain run with what a search has chosen."""
    from explorer.runtime.run import RunRequest, execute

    tuned = result["tuned"]
    given = {**more.pop("options", {}), **tuned["options"]}
    request = RunRequest(text=text, on="dae", options=given, machine=tuned["machine"], **more)
    last = list(execute(request))[-1]
    assert last["matches_reference"]
    return float(last["cycles"])


@pytest.mark.parametrize("how", tuning.SEARCHES)
def test_a_search_finds_what_a_plain_run_then_takes(how: str) -> None:
    said = search(BAGS, tune={"search": how, "trials": 20}, data="tiny")
    hold_together(said)
    last = said[-1]
    assert run_again(BAGS, last, data="tiny") == last["cycles"] == last["tuned"]["best"]
    assert of_kind("space", said)[0]["source"] == "simulated"
    assert not of_kind("space", said)[0]["predicted"]
    assert all(trial["predicted"] is None for trial in of_kind("trial", said))


def test_a_search_is_the_same_again_by_its_seed() -> None:
    def trials(seed: int) -> list[Any]:
        return of_kind("trial", search(BAGS, tune={"search": "random", "seed": seed}, data="tiny"))

    assert trials(1) == trials(1) != trials(2)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("rgnn/rgcn", {"data": "tiny"}),
        ("kge/transh", {"batch": 16, "options": {"grad": True}}),
        ("embedding/spattn", {"data": "BigBird:1"}),
        pytest.param("gat_heads", {"data": "tiny"}, marks=pytest.mark.sweep),
        pytest.param("paged_attention_gqa", {"data": "tiny"}, marks=pytest.mark.sweep),
        pytest.param("bpr_score", {"batch": 32}, marks=pytest.mark.sweep),
    ],
)
def test_models_of_every_family_are_tuned(name: str, more: dict[str, Any]) -> None:
    said = search(text_of(name), tune={"trials": 8}, **more)
    hold_together(said)
    genes = {gene["key"] for gene in of_kind("space", said)[0]["genes"]}
    assert {"opt", "vlen", "machine.queue_bytes"} <= genes
    assert not genes - set(on_dae.ORDER)


def test_every_option_that_is_varied_makes_another_program() -> None:
    from explorer.runtime.runs.request import RunRequest, compile_request

    said = search(BAGS, tune={"trials": 2}, data="tiny")
    genes = {gene["key"] for gene in of_kind("space", said)[0]["genes"]}
    for name in (*on_dae.OF_MODELS, *on_dae.BESIDE):
        asked = [RunRequest(text=BAGS, on="dae", options={"opt": level, name: value}) for level, value in EVERY]
        texts = {each.options["opt"]: set[str]() for each in asked}
        for each in asked:
            texts[each.options["opt"]].add(compile_request(each).stages["dlc"].text)
        assert (name in genes) == any(len(of_level) > 1 for of_level in texts.values()), name


def test_what_was_asked_for_stays() -> None:
    given = {"opt": 2, "vlen": 8}
    said = search(
        BAGS, tune={"held": ["accumulate_streams"]}, data="tiny", options=given, machine={"queue_bytes": 1024}
    )
    hold_together(said)
    genes = {gene["key"] for gene in of_kind("space", said)[0]["genes"]}
    assert not genes & {"opt", "vlen", "machine.queue_bytes", "accumulate_streams"}
    assert {name: said[-1]["options"][name] for name in given} == given
    assert said[-1]["machine"]["queue_bytes"]["value"] == 1024


def test_a_larger_queue_is_not_chosen_where_a_smaller_one_is_as_good() -> None:
    """All sizes are simulated, so the smallest within 1 % is known."""
    held = ["vlen", *on_dae.OF_MODELS, *on_dae.BESIDE]
    asked = {"options": {"opt": 1}, "machine": {"control_tokens": 1024}}
    said = search(BAGS, tune={"trials": 40, "held": held}, data="tiny", **asked)
    hold_together(said)
    cycles = {trial["choices"]["machine.queue_bytes"]: trial["value"] for trial in of_kind("trial", said)}
    assert sorted(cycles) == list(on_dae.SIZES["queue_bytes"])
    usual, least = cycles[8192], min(cycles.values())
    fitting = [size for size, value in cycles.items() if value <= min(1.01 * least, usual)]
    assert said[-1]["tuned"]["machine"].get("queue_bytes", 8192) == min(fitting)
    assert any(sentence.startswith("queue_bytes") for sentence in said[-1]["tuned"]["why"])


@pytest.mark.parametrize("seed", range(3))
def test_few_trials_choose_no_larger_queue_for_nothing(seed: int) -> None:
    said = search(BAGS, tune={"trials": 8, "seed": seed, "search": "random"}, data="tiny")
    hold_together(said)
    assert said[-1]["tuned"]["machine"].get("queue_bytes", 0) <= 8192
    assert said[-1]["tuned"]["machine"].get("control_tokens", 0) <= 2048


def test_a_queue_that_is_too_small_is_no_choice() -> None:
    said = search(text_of("embedding/sls"), tune={"trials": 60, "search": "random"}, data="tiny")
    hold_together(said)
    refused = [trial for trial in of_kind("trial", said) if trial["status"] == "invalid"]
    assert refused
    assert all("queue" in trial["note"] and trial["value"] is None for trial in refused)


def test_a_wrong_result_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the usual program compute something else, and are the fastest by far."""
    true = dae.simulate
    usual = of_kind("trial", search(BAGS, tune={"trials": 2}, data="tiny"))[0]["value"]

    def simulate(*arguments: Any, **more: Any) -> dae.DaeResult:
        ran = true(*arguments, **more)
        if ran.account["cycles"] == usual:
            return ran
        return dae.DaeResult(ran.output + 1, {**ran.account, "cycles": 1.0}, ran.spent)

    monkeypatch.setattr(dae, "simulate", simulate)
    said = search(BAGS, data="tiny")
    hold_together(said)
    wrong = [trial for trial in of_kind("trial", said) if trial["status"] == "wrong"]
    assert wrong
    assert all("float64" in trial["note"] for trial in wrong)
    assert said[-1]["tuned"]["best"] == said[-1]["tuned"]["usual"] == usual


def test_a_machine_that_breaks_costs_its_trial_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from explorer.machine.faults import MachineError

    true, calls = dae.simulate, 0

    def breaking(*arguments: Any, **more: Any) -> dae.DaeResult:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:  # the rehearsal is the first, and the usual point the second
            raise MachineError("an address is out of bounds")
        return true(*arguments, **more)

    monkeypatch.setattr(dae, "simulate", breaking)
    said = search(BAGS, tune={"trials": 8, "search": "random"}, data="tiny")
    faulted = [trial for trial in of_kind("trial", said) if trial["status"] == "faulted"]
    assert faulted
    assert faulted[0]["note"] == "An address is out of bounds."


def test_a_usual_choice_that_cannot_be_run_is_told() -> None:
    said = search(text_of("embedding/sls"), data="tiny", machine={"queue_bytes": 16})
    assert said[-1]["event"] == "failed"
    assert said[-1]["kind"] == "refused"
    assert "queue holds 16" in said[-1]["message"]


def test_no_trial_begins_once_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now, true = 0.0, simulation.advance

    def taking_a_second(*arguments: Any) -> Any:
        nonlocal now
        now += 1.0
        return true(*arguments)

    monkeypatch.setattr(simulation, "advance", taking_a_second)
    for module in (tuning, on_dae, tuner_search):
        monkeypatch.setattr(module, "own_time", lambda: now)
    said = search(BAGS, tune={"trials": 400, "search": "random", "seconds": 0.5}, data="tiny")
    hold_together(said)
    assert len(of_kind("trial", said)) == 1, "the usual one is tried in any case"
    assert any("time limit" in sentence for sentence in said[-1]["tuned"]["why"])


def test_making_the_simulator_is_no_part_of_the_first_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls, true = 0.0, 0, simulation.advance

    def made_anew(*arguments: Any) -> Any:
        nonlocal now, calls
        calls += 1
        now += 40.0 if calls == 1 else 0.0  # as long as Numba takes where it has kept nothing
        return true(*arguments)

    monkeypatch.setattr(simulation, "advance", made_anew)
    monkeypatch.setattr(tuning, "own_time", lambda: now)
    monkeypatch.setattr(on_dae, "own_time", lambda: now)
    monkeypatch.setattr(tuner_search, "own_time", lambda: now)
    said = search(BAGS, tune={"trials": 6, "search": "random", "seconds": 60.0}, data="tiny")
    hold_together(said)
    assert len(of_kind("trial", said)) > 2
    assert not any("time limit" in sentence for sentence in said[-1]["tuned"]["why"])


def test_the_sentences_are_made_of_the_account() -> None:
    said = search(BAGS, tune={"trials": 24}, data="tiny")
    account, why = said[-1], said[-1]["tuned"]["why"]
    core = account["execute"]["costs"] | {"starved": {"total_cycles": account["execute"]["stalls"]["queue_empty"]}}
    most = max(each["total_cycles"] for each in core.values()) / account["cycles"]
    (told,) = [sentence for sentence in why if sentence.startswith("What was chosen")]
    assert f"{account['cycles']:,.0f} cycles" in told
    assert f"({most:.0%})" in told
    levels = {}
    for trial in of_kind("trial", said):
        if trial["value"] is not None:
            level = trial["choices"]["opt"]
            levels[level] = min(levels.get(level, np.inf), trial["value"])
    (of_levels,) = [sentence for sentence in why if "each level" in sentence]
    assert all(f"opt {level} {cycles:,.0f}" in of_levels for level, cycles in levels.items())
    assert len(levels) == 4


@pytest.mark.parametrize(
    ("tune", "told"),
    [
        ({"trials": 1}, "2 to 512 trials"),
        ({"trials": 513}, "2 to 512 trials"),
        ({"search": "luck"}, "no search 'luck'"),
        ({"seed": -1}, "from 0"),
        ({"tries": 3}, "no such field"),
    ],
)
def test_a_bad_request_is_refused_in_words(tune: dict[str, Any], told: str) -> None:
    last = search(BAGS, tune=tune, data="tiny")[-1]
    assert (last["event"], last["kind"]) == ("failed", "refused")
    assert told in last["message"]


def test_events_are_json() -> None:
    for event in search(BAGS, tune={"trials": 3}, data="tiny"):
        assert json.loads(json.dumps(event, allow_nan=False)) == event
