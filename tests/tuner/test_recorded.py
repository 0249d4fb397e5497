"""Recorded spaces are kept in the T4 format, and read back as they were. The one here is made up, and says so."""

from __future__ import annotations

import json
import lzma
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from explorer.tuner.points import Gene, Points
from explorer.tuner.recorded import INVALIDITIES, TIMES, Recorded, Trial


def made_up() -> Recorded:
    genes = (Gene("K.wide", (1, 2, 4)), Gene("K.strategy", ("rows", "warps")), Gene("compact", (False, True)))
    ordinals = np.array([[0, 0, 1], [1, 0, 0], [2, 0, 1], [-1, 1, 1]], np.int16)
    trials = (
        Trial("correct", (0.25, 0.251, 0.125, 0.1251), (0, 1), 0.5, 0),
        Trial("correct", (0.5, 0.5, 0.5, 0.5), (0,), 0.25, 1),
        Trial("runtime", (), (1,), 0.125, 2),
        Trial("compile"),
    )
    launches = np.array([[1, 132_000, 0.5], [0, 7, 123.4]], np.float32)
    about = {"device": "made up, for a test", "sizes": {"D": 8}}
    names = ("once", "blocks", "waves")
    return Recorded("Toy", about, Points(genes, ordinals, 1), trials, names, launches, {"rows": 9})


def test_a_space_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    space = made_up()
    space.save(tmp_path / "toy.json.xz")
    again = Recorded.load(tmp_path / "toy.json.xz")
    assert again.trials == space.trials
    assert (again.points.ordinals == space.points.ordinals).all()
    assert again.points.genes == space.points.genes
    assert again.points.at(1) == {"K.wide": 2, "K.strategy": "rows", "compact": False}
    assert (again.name, again.about, again.data, again.points.usual) == ("Toy", space.about, space.data, 1)
    assert (again.launches == space.launches).all()
    assert again.features_of(0).tolist() == space.launches.tolist()
    again.save(tmp_path / "again.json.xz")
    assert (tmp_path / "again.json.xz").read_bytes() == (tmp_path / "toy.json.xz").read_bytes()


def test_points_of_one_machine_code_are_there_once() -> None:
    space = made_up()
    same = replace(space.trials[0], code=7)
    others = (same, same, *space.trials[2:], replace(space.trials[2], code=-1))
    ordinals = np.concatenate([space.points.ordinals, [[1, 1, 0]]]).astype(np.int16)
    repeated = replace(space, trials=others, points=replace(space.points, ordinals=ordinals))
    found = repeated.without_repeats()
    assert found.points.ordinals.tolist() == ordinals[1:].tolist(), "the usual one stands for both"
    assert found.points.usual == 0
    assert [trial.code for trial in found.trials] == [7, 2, -1, -1]


def test_what_was_not_measured_takes_for_ever() -> None:
    space = made_up()
    assert space.times().tolist() == [0.251, 0.5, np.inf, np.inf], "the median"
    assert space.times("cold mean").tolist() == [0.25, 0.5, np.inf, np.inf]
    assert space.times("warm median").tolist() == [0.1251, 0.5, np.inf, np.inf]
    assert space.valid.tolist() == [True, True, False, False]


def test_a_file_is_what_t4_asks_for(tmp_path: Path) -> None:
    """What its schema requires of results, version 1.0.0."""
    made_up().save(tmp_path / "toy.json.xz")
    found = json.loads(lzma.decompress((tmp_path / "toy.json.xz").read_bytes()))
    assert found["schema_version"] == "1.0.0"
    for result in found["results"]:
        assert {"configuration", "times", "invalidity", "correctness"} <= result.keys()
        assert result["invalidity"] in INVALIDITIES
        assert isinstance(result["correctness"], int)
        assert isinstance(result["times"]["compilation_time"], float | int)
        assert result["times"]["runtimes"] == []
        assert [each["name"] for each in result["measurements"]] in ([], list(TIMES))
        assert {each["unit"] for each in result["measurements"]} <= {"ms"}


def test_a_file_of_another_schema_is_refused() -> None:
    with pytest.raises(ValueError, match=r"2\.0\.0"):
        Recorded.from_json({**made_up().to_json(), "schema_version": "2.0.0"})
