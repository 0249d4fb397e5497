"""What a simulated run spent on each operation: all of it adds up to the cycles of the run, on both units."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer
from explorer.runtime.run import RunRequest, execute
from tests.runtime.shares.runs import EXAMPLES, MODELS, columns, run


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("cores", [1, 2])
def test_the_cycles_of_all_operations_are_those_of_the_run(model: str, cores: int, tmp_path: Path) -> None:
    path, options = MODELS[model]
    if cores > 1 and model == "rgat":
        pytest.skip("some of its programs cannot be shared by cores")
    found = run(path, options, tmp_path, on="dae", machine={"cores": cores})
    spent = found["spent"]
    assert (spent["unit"], spent["source"]) == ("cycles", "simulated")
    assert columns(spent) == pytest.approx([found["cycles"]] * 2, rel=1e-9)
    assert sum(kernel["amount"] for kernel in spent["kernels"]) == pytest.approx(found["cycles"], rel=1e-9)
    tokens = [row["amounts"] for row in spent["rest"] if "tokens" in row["what"]]
    busy = sum(row["amounts"][1] for row in spent["operations"]) + tokens[0][1]
    assert busy == pytest.approx(found["execute"]["busy"], rel=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_most_cycles_are_those_of_an_operation_of_the_text(model: str, tmp_path: Path) -> None:
    path, options = MODELS[model]
    spent = run(path, options, tmp_path, on="dae")["spent"]
    known = {operation.id for operation in explorer.compile((EXAMPLES / path).read_text(), options=options).operations}
    assert {row["id"] for row in spent["operations"]} <= known | {None}
    for column in range(2):
        own = sum(row["amounts"][column] for row in spent["operations"] if row["id"] is not None)
        all_of_them = sum(row["amounts"][column] for row in spent["operations"])
        assert own > 0.9 * all_of_them


def test_a_load_from_memory_is_of_the_operation_that_reads_it(tmp_path: Path) -> None:
    """Of two rows in one triple the one that is not cached costs the access unit more."""
    text = """score Two(h: entity, r: relation, t: entity):
    param E[entity, 256], R[relation, 256]
    return sum(E[h] * R[r])
"""
    (tmp_path / "triples.tsv").write_text("".join(f"e{n}\tr0\te{n}\n" for n in range(400)))
    data = str(tmp_path / "triples.tsv")
    last = list(execute(RunRequest(text=text, on="dae", data=data, batch=400)))[-1]
    access = {row["label"]: row["amounts"][0] for row in last["spent"]["operations"]}
    assert access["E[h]"] > access["R[r]"] > 0


def test_both_sides_of_a_comparison_say_what_they_spent(tmp_path: Path) -> None:
    against = {"sizes": {}, "options": {"opt": 0}, "schedule": {}}
    found = run("embedding/sls.emb", {"opt": 3}, tmp_path, on="dae", against=against)
    theirs = found["against"]["spent"]
    assert columns(theirs) == pytest.approx([found["against"]["cycles"]] * 2, rel=1e-9)
    assert theirs["whole"] > found["spent"]["whole"]
