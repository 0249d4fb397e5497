"""Formulas that the page's scripts have too: against those of the compiler, and against all orders there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.tuner.replay import expected_random


def called(root: Path, module: str, function: str, argument: Any) -> Any:
    """What a function of a module of the page answers."""
    path = (root / "static" / "js" / module).as_uri()
    text = f"import {{ {function} }} from {json.dumps(path)};"
    text += f"console.log(JSON.stringify({function}({json.dumps(argument)})));"
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    command = ["node", "--input-type=module", "-e", text]
    ran = subprocess.run(command, env={**os.environ, "PATH": places}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("count", [1, 2, 7, 200])
def test_what_random_search_is_expected_to_have_is_the_tuners(root: Path, count: int) -> None:
    values = np.random.default_rng(count).lognormal(2, 1, count)
    found = called(root, "tuning/expected.js", "expectedLeast", values.tolist())
    np.testing.assert_allclose(found, expected_random(values, count), rtol=1e-9)


def test_the_usual_point_comes_first_and_what_gave_no_value_costs_a_draw(root: Path) -> None:
    values = [10.0, 4.0, None, 25.0, 7.0]
    found = called(root, "tuning/expected.js", "expectedOfRandom", [{"value": value} for value in values])
    drawn = [10.0 if value is None else value for value in values[1:]]
    runs = [np.minimum.accumulate([10.0, *order]) for order in permutations(drawn)]
    np.testing.assert_allclose(found, np.mean(runs, axis=0), rtol=1e-12)
    assert called(root, "tuning/expected.js", "expectedOfRandom", []) == []
