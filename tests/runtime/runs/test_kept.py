"""Runs that have something in common with others before them say the very same as if they were the first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.machine.parameters import MachineParameters
from explorer.runtime.data import matrices, triples
from explorer.runtime.data.lists import load_lists
from explorer.runtime.data.triples import load_triples
from explorer.runtime.reference.evaluate import Meaning
from explorer.runtime.reference.text import read_model, said_to_mean
from explorer.runtime.run import RunRequest, compile_request, execute
from explorer.runtime.runs import request as setups
from explorer.runtime.runs import score as scores
from explorer.runtime.runs import simulate as dae_run
from explorer.runtime.targets import dae

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
KEPT = (dae_run._RAN, dae_run._ACCOUNTS, setups._MEANINGS, scores._ASKED, matrices._MADE, triples._GENERATED)
RANDOM = np.random.default_rng(3)
SMALL: dict[str, dict[str, Any]] = {
    "embedding/sls": {"data": "bags.npz", "sizes": {"D": 19}},
    "embedding/spmm": {"data": "matrix.npz", "sizes": {"D": 19}},
    "kge/transr": {"data": "FB15k-237", "batch": 40, "sizes": {"D": 6, "K": 6}},
    "rgnn/rgat": {"data": "tiny", "sizes": {"F": 5, "G": 5}},
}


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    forget()
    yield
    forget()


def forget() -> None:
    for kept in KEPT:
        kept.clear()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.savez(tmp_path / "bags.npz", ptr=[0, 0, 3, 4, 4, 20, 20], idx=RANDOM.integers(0, 9, 20), num_rows=9)
    np.savez(
        tmp_path / "matrix.npz",
        row=RANDOM.integers(0, 6, 25),
        col=RANDOM.integers(0, 6, 25),
        num_rows=7,
        num_cols=7,
    )
    return tmp_path


def asked(name: str, folder: Path, **changes: Any) -> RunRequest:
    text = (EXAMPLES / f"{name}.emb").read_text()
    sizes = {dim: size for dim, size in SMALL[name]["sizes"].items() if f"{dim} =" in text}
    fields = {"on": "dae", "data_dir": str(folder), **SMALL[name], "sizes": sizes, **changes}
    return RunRequest(**{"text": text, **fields})


def told(request: RunRequest) -> list[dict[str, Any]]:
    """All events of a run, less what a clock says."""
    events = list(execute(request))
    assert events[-1]["event"] == "result", events[-1]
    assert events[-1]["matches_reference"]
    untimed: list[dict[str, Any]] = without_times(events)
    return untimed


def without_times(value: Any) -> Any:
    match value:
        case dict():
            return {name: without_times(each) for name, each in value.items() if name not in ("date", "ms")}
        case list() | tuple():
            return [without_times(each) for each in value]
    return value


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("name", SMALL)
def test_a_run_that_was_before_says_the_same_again(name: str, cores: int, data: Path) -> None:
    request = asked(name, data, machine={"cores": cores})
    first = told(request)
    kept = sum(each.nbytes for each in KEPT)
    assert kept > 0
    assert told(request) == first
    assert sum(each.nbytes for each in KEPT) == kept, "a run that was before keeps nothing more"


CHANGES: dict[str, dict[str, Any]] = {
    "seed": {"seed": 1},
    "level": {"options": {"opt": 1, "vlen": 8}},
    "machine": {"machine": {"hbm_ns": 200.0, "issue_width": 2}},
    "size": {"sizes": {"D": 21}},
    "unoptimised": {"options": {"opt": 0}},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_of_anything_else_says_what_it_says_without_those_before_it(change: str, data: Path) -> None:
    before, after = asked("embedding/sls", data), asked("embedding/sls", data, **CHANGES[change])
    alone = told(after)
    forget()
    first = told(before)
    assert told(after) == alone != first
    assert told(before) == first


@pytest.mark.parametrize(
    ("old", "new"), [("sum(T[i]", "sum(2 * T[i]"), ("sum(T[i]", "max(T[i]"), ("# Sparse", "# A line more\n# Sparse")]
)
def test_a_run_of_an_edited_text_says_what_it_says_without_those_before_it(old: str, new: str, data: Path) -> None:
    before = asked("embedding/sls", data)
    after = replace(before, text=before.text.replace(old, new))
    assert after.text != before.text
    alone = told(after)
    forget()
    told(before)
    assert told(after) == alone


def test_other_numbers_in_the_same_file_are_other_data(data: Path) -> None:
    request = asked("embedding/sls", data)
    first = told(request)
    np.savez(data / "bags.npz", ptr=[0, 5, 20, 20], idx=RANDOM.integers(0, 9, 20), num_rows=9)
    second = told(request)
    forget()
    assert told(request) == second != first


def test_what_a_run_is_compared_with_is_simulated_once_for_all_levels(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated = []
    simulate = dae.simulate

    def counted(*arguments: Any, **named: Any) -> Any:
        simulated.append(named.get("core_alone", False))
        return simulate(*arguments, **named)

    monkeypatch.setattr(dae, "simulate", counted)
    for level in range(4):
        told(asked("embedding/sls", data, options={"opt": level}))
    assert (simulated.count(True), simulated.count(False)) == (2, 4)
    plain = asked("embedding/sls", data)
    for text in ("\n" + plain.text, plain.text.replace("op SLS", "op Mine")):  # the same instructions
        told(replace(plain, text=text))
    assert (simulated.count(True), simulated.count(False)) == (2, 4)


@pytest.mark.parametrize("name", SMALL)
def test_a_run_of_a_text_that_says_the_same_is_made_of_the_one_before_and_tells_its_own_names_and_lines(
    name: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = asked(name, data)
    called = explorer.compile(before.text).name
    moved = "# A line more\n" + re.sub(rf"\b{called}\b", f"{called}OfAnother", before.text).replace(
        "return ", "return  "
    )
    after = replace(before, text=moved)
    alone = told(after)
    forget()
    assert told(before) != alone
    for work in ((dae, "simulate"), (Meaning, "result")):
        monkeypatch.setattr(*work, _refused)
    assert told(after) == alone


def _refused(*_: Any, **__: Any) -> Any:
    raise AssertionError("it is computed again")


@pytest.mark.parametrize(
    "text",
    [
        "score A(h: entity):\n    param E[entity, D]\n    return sum(E[h])",
        "score A(h: entity):\n    param E[entity, D]\n    return  sum( E[h] )  # of all",
        "score Other(h: entity):\n    param E[entity, D]\n    return sum(E[h])",
    ],
)
def test_texts_that_mean_the_same_are_known_as_such(text: str) -> None:
    said = said_to_mean("dim D = 4\nscore A(h: entity):\n    param E[entity, D]\n    return sum(E[h])")
    assert said_to_mean("dim D = 4\n" + text) == said
    assert said_to_mean("dim D = 5\n" + text) != said
    assert said_to_mean("dim D = 4\n" + text.replace("sum", "max")) != said
    assert said_to_mean("dim D = 4\n" + text.replace("score", "op")) != said
    two = f"dim D = 4\n{text}\n{text.replace('sum', 'max').replace('score ', 'score Last')}"
    first, second = (said_to_mean(two, name) for name in read_model(two).definitions)
    assert first != second


@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize("options", [dae_run.UNOPTIMISED, dae_run.VECTORISED, {"opt": 3}], ids=["opt0", "opt1", "opt3"])
@pytest.mark.parametrize("name", ["embedding/sls", "embedding/spmm", "rgnn/rgat"])
def test_figures_do_not_depend_on_whether_a_run_is_traced(
    name: str, options: dict[str, Any], cores: int, data: Path
) -> None:
    request = asked(name, data, options=options)
    setup = _prepared(request)
    program, parameters = setup.program("dlc"), MachineParameters(cores=cores)
    traced, plain = (
        dae.simulate(program, setup.inputs(), parameters, core_alone=True, throughput=True, traced=each)
        for each in (True, False)
    )
    assert traced.account["occupancy"]
    assert traced.account["pushed_first"]
    assert plain.account == traced.account | {"occupancy": [], "pushed_first": []}
    assert plain.spent == traced.spent
    np.testing.assert_array_equal(plain.output, traced.output)


def _prepared(request: RunRequest) -> Any:
    from explorer.runtime.run import _prepare

    steps = _prepare(request, compile_request(request))
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value


def test_a_large_result_is_not_kept(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kept in KEPT:
        monkeypatch.setattr(kept, "_most_bytes", 64)
    first = told(asked("embedding/sls", data))
    assert sum(kept.nbytes for kept in KEPT) == 0
    assert told(asked("embedding/sls", data)) == first


def test_data_that_is_kept_is_handed_out_as_the_callers_own() -> None:
    lists, facts = load_lists("com-Youtube/5000"), load_triples("WN18")
    ptr, idx, head = lists.ptr.copy(), lists.idx.copy(), facts.h.copy()
    lists.ptr[:], lists.idx[:], facts.h[:] = 0, 0, 0
    again, more = load_lists("com-Youtube/5000"), load_triples("WN18")
    np.testing.assert_array_equal(again.ptr, ptr)
    np.testing.assert_array_equal(again.idx, idx)
    np.testing.assert_array_equal(more.h, head)
