"""No combination of the options gives a wrong number: every example and random programs of each family, under settings
in which any two values of any two options meet, wherever they run, without and with gradients.

A sample runs with every test run; `make sweep` has all of it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.compiler import option_runs
from tests.compiler.option_pairs import changed, settings
from tests.compiler.option_runs import PLACES, Model, faults
from tests.compiler.random_layers import attention_texts, graphs, layer_texts
from tests.compiler.random_models import model_texts
from tests.compiler.random_ops import list_arrays, op_texts
from tests.compiler.test_layers import tiny_graph

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*/*.emb"))
FAMILY = re.compile(r"^(score|layer|op) ", re.MULTILINE)
SIZE = re.compile(r"\b(\w+) = \d+")
LENGTHS = {"decoupled": (2, 3, 5, 7, 17, 25), "scheduled": (4, 6, 16, 20, 33)}
"""Of rows: shorter and longer than vectors, and of tiles none, one, and parts."""
MOST_ELEMENTS = 700  # of a matrix, since interpreters take every element by itself
LISTS = ([0, 0, 1, 3, 3, 3], [0, 2, 1, 1, 3, 4], 5)
RANDOM = {
    "score": (model_texts(), st.none()),
    "layer": (layer_texts(), graphs()),
    "attention": (attention_texts(), graphs()),
    "op": (op_texts(), list_arrays()),
}

examples = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
sides = pytest.mark.parametrize("side", PLACES)
kinds = pytest.mark.parametrize("kind", RANDOM)


@pytest.fixture(autouse=True)
def no_machine_code(monkeypatch):
    """Numba takes seconds for a model: what it would compile runs as Python, but where machine code is the matter."""
    monkeypatch.setattr("explorer.runtime.targets.cpu._machine_code", option_runs.as_python)


def example(path: Path, side: str, number: int) -> Model:
    """An example with rows of some lengths, and a graph or lists that have what goes wrong."""
    text = path.read_text()
    family = FAMILY.search(text)
    assert family is not None
    random, sizes = np.random.default_rng([number, crc32(path.stem.encode())]), {}
    for name in sorted(set(SIZE.findall(text[: family.start()]))):
        most = MOST_ELEMENTS // max(1, int(np.prod(list(sizes.values()))))
        sizes[name] = int(random.choice([n for n in LENGTHS[side] if n <= most] or [1]))
    structure = {"layer": tiny_graph(), "op": LISTS}.get(family[1])
    return Model(text, family[1], sizes, structure)


def assert_right(path: Path, side: str, number: int, grad: bool, places: tuple[str, ...] = ()) -> None:
    model = example(path, side, number)
    rows = settings(side, model.family)
    setting = {**rows[number % len(rows)], "grad": grad}
    found = faults(model, setting, places or PLACES[side], number)
    assert not found, (dict(model.sizes), changed(setting), found)


@pytest.mark.sampled(2)
@examples
def test_an_example_under_a_setting_of_a_sample(path):
    number = crc32(path.stem.encode())
    assert_right(path, ("decoupled", "scheduled")[number % 2], number // 4, number % 4 > 1)


@pytest.mark.swept(4)
@sides
@examples
def test_an_example_under_every_setting(path, side):
    """Of a GPU's schedules, which take longer, each setting without gradients for half of the examples and with them
    for the other half."""
    for number in range(len(settings(side, example(path, side, 0).family))):
        both = (False, True) if side == "decoupled" else ((number + crc32(path.stem.encode())) % 2 == 0,)
        for grad in both:
            assert_right(path, side, number, grad)


@pytest.mark.swept(4)
@examples
def test_machine_code_of_an_example_under_some_settings(path, monkeypatch):
    monkeypatch.undo()
    for number in range(0, 12, 4):
        assert_right(path, "decoupled", number, number % 8 == 0, ("cpu",))


@pytest.mark.swept(6)
@pytest.mark.parametrize("opt", [1, 2, 3])
@examples
def test_rows_of_an_example_that_are_longer_than_the_queue(path, opt):
    """Each of its dimensions in turn, the others short: the machine takes a record of them in parts."""
    model = example(path, "decoupled", 0)
    for number, name in enumerate(model.sizes):
        sizes = dict.fromkeys(model.sizes, 2) | {name: 2_100 + number}
        options = {"opt": opt, "vlen": (16, 64, 5)[number % 3], "address_streams": number % 2 == 1}
        for grad in (False, True):
            found = faults(replace(model, sizes=sizes), {**options, "grad": grad}, ("dae",))
            assert not found, (sizes, options, grad, found)


def check_random(kind: str, side: str, count: int) -> None:
    texts, structures = RANDOM[kind]
    family = "layer" if kind == "attention" else kind
    rows = settings(side, family)

    @hypothesis_settings(max_examples=count, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
    @given(texts, structures, st.sampled_from(rows), st.booleans(), st.integers(0, 1000))
    def right(text: str, structure: Any, row: dict[str, Any], grad: bool, seed: int) -> None:
        note(text)
        setting = {**row, "grad": grad}
        found = faults(Model(text, family, {}, structure), setting, PLACES[side], seed)
        assert not found, (changed(setting), found)

    right()


@kinds
@sides
def test_a_few_random_programs_under_settings(kind, side):
    check_random(kind, side, 3)


@pytest.mark.sweep
@pytest.mark.timeout(900)
@kinds
@sides
def test_random_programs_under_settings(kind, side):
    check_random(kind, side, 60)
