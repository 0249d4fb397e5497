"""Loops whose iterations are done side by side come to the same bits as one after another; others are left alone. So do
decoupled programs that are run as the loops that they are."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import explorer
from explorer.compiler.edited.lines import match
from explorer.compiler.edited.reading import read_edited
from explorer.compiler.edited.verdict import EditRefused
from explorer.compiler.interpret import run_program, slc
from explorer.compiler.interpret.guarded import OutsideError, guarding
from explorer.compiler.interpret.python import text as python
from explorer.compiler.interpret.python.side_by_side import elements_at_once, places_of
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import walk
from explorer.compiler.ir.parse import parse_kernel
from explorer.runtime.budget import CpuSpent, cpu_bounded
from explorer.runtime.proof.inputs import CASES, draw
from tests.runtime.proof.mutations import mutant

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
HEAD = """kernel f  template traversal
  size D = 4
  index idx[rows]
  param x[rows, D]
  param P[rows, D, D]
  output out[rows, D]
  parallel for n in 0..rows
    row y[D]
    acc s = 0.0
    for d in 0..D
"""
ALONE = {
    "an element each": "e = x[n, d];y[d] = e",
    "of a row before": "e = y[d];u = e * 2.0;y[d] = u;out[n, d] += u",
    "by an index that is the loop's and a number": "index k = d - n;index m = n + k;e = y[m];y[m] = e",
    "a sum of one element each": "e = x[n, d];s += e * e",
    "a row of its own": "row z[D];z[0] = 1.0;e = z[0];out[n, d] = e",
    "a sum of its own": "acc t = 0.0;for k in 0..D;  w = x[n, k];  t += w;out[n, d] = t",
    "what is stored alike, and read by none": "e = x[n, 0];y[0] = e",
}
RANKS = {"idx": 1, "x": 2, "P": 3, "out": 2, "y": 1, "z": 1}
NOT_ALONE = {
    "what the one before stored": "index k = d + 1;e = y[d];y[k] = e",
    "what all add to": "y[0] += 1.0",
    "the last one's": "e = x[n, d];y[0] = e",
    "how often it is done": "s += 2.0",
    "a sum that is read": "e = x[n, d];s += e;y[d] = s",
    "a sum in another order": "for k in 0..D;  e = x[k, d];  s += e",
    "an index that is no neighbour's": "index k = d * 2;e = x[n, k];y[d] = e",
    "an index that falls": "index k = 3 - d;e = x[n, k];y[d] = e",
    "an index that is looked up": "k = idx[d];e = x[k, d];y[d] = e",
    "a diagonal": "e = x[d, d];y[d] = e",
    "a loop as long as its place": "for k in 0..d;  e = x[n, k];  out[n, d] += e",
    "what is stored alike, and read": "e = y[0];u = e + 1.0;y[0] = u",
    "its own elements and another's": "e = x[n, d];y[d] = e;w = y[0];out[n, d] = w",
    "a piece of fewer dimensions than its array": "e = P[n, d];y[d] = e",
    "a segment as long as its place": "e = x[n, d];u = segment_mean(e, 0, d);y[d] = u",
}


def loop_of(body: str) -> tuple[loops.Kernel, loops.For]:
    kernel = parse_kernel(HEAD + "".join(f"      {line}\n" for line in body.split(";")))
    return kernel, next(node for node in walk(kernel) if isinstance(node, loops.For) and node.variable == "d")


@pytest.mark.parametrize("body", ALONE.values(), ids=ALONE)
def test_what_neither_sees_nor_changes_what_others_do_is_done_at_once(body: str) -> None:
    kernel, loop = loop_of(body)
    assert elements_at_once(loop, dict(kernel.sizes)) == 4
    assert "d" in places_of(loop, frozenset(), RANKS, ("idx",))


@pytest.mark.parametrize("body", NOT_ALONE.values(), ids=NOT_ALONE)
def test_what_does_is_done_one_after_another(body: str) -> None:
    assert not places_of(loop_of(body)[1], frozenset(), RANKS, ("idx",))


def outcome(program: Any, arrays: Any, each_by_itself: bool) -> Any:
    """The bits of all that a program makes, or the kind of its fault; None where it takes too long."""
    with ExitStack() as how:
        if each_by_itself:
            how.enter_context(mock.patch.object(python, "places_of", return_value=frozenset()))
            how.enter_context(mock.patch.object(slc, "as_loops", return_value=None))
        return outcome_of(program, arrays)


def outcome_of(program: Any, arrays: Any) -> Any:
    try:
        with cpu_bounded(1.0), guarding():
            result, gradients = run_program(program, arrays)
    except CpuSpent:
        return None
    except OutsideError:
        return OutsideError
    except (KeyError, NameError):
        return NameError  # nothing has set a name: by the form, of its dictionary or of a local variable
    except Exception as error:  # of what nobody has checked
        return type(error)
    return [(np.shape(array), np.asarray(array).tobytes()) for array in (result, *gradients.values())]


def differences(name: str, stage: str, count: int) -> list[str]:
    """Of the text that the compiler makes and so many mutations of it, those that come to something else side by
    side."""
    plain = explorer.compile((EXAMPLES / f"{name}.emb").read_text(), on_demand=True)
    made, pick, found = plain.stages[stage], random.Random(name), list[str]()
    inputs = draw(plain, CASES[1])
    arrays = inputs if plain.family == "score" else plain.encode(plain, inputs, None)[0]  # type: ignore[misc]
    for text, what in [(made.text, "nothing"), *(mutant(made.text, pick) for _ in range(count))]:
        try:
            program = read_edited(text, made.program, match(made.lines, text.rstrip().split("\n")))  # type: ignore[arg-type]
        except EditRefused:
            continue
        one, other = (outcome(program, arrays, each_by_itself) for each_by_itself in (True, False))
        found += [f"{stage}: {what}"] if None not in (one, other) and one != other else []
    return found


@pytest.mark.parametrize("stage", ["loops", "slc", "kernels"])
@pytest.mark.parametrize("name", ["kge/transr", "embedding/sls"])
def test_a_few_mutations_come_to_the_same_side_by_side(name: str, stage: str) -> None:
    assert differences(name, stage, 4) == []


@pytest.mark.swept(3)
@pytest.mark.parametrize("stage", ["loops", "slc", "kernels"])
@pytest.mark.parametrize("name", ["kge/transr", "rgnn/rgat", "embedding/sls", "embedding/bag_dot"])
def test_mutations_come_to_the_same_side_by_side(name: str, stage: str) -> None:
    assert differences(name, stage, 60) == []


def test_what_a_callback_defines_for_others_outside_of_its_loops_is_left_to_the_two_units() -> None:
    plain = explorer.compile((EXAMPLES / "embedding/sls.emb").read_text(), on_demand=True)
    stage = plain.stages["slc"]
    lines = stage.text.rstrip().split("\n")
    late = ["    slc.callback {", "      out[b, 0] += t", "    }", "  }"]
    text = "\n".join([*lines[:-1], *late])
    program: Any = read_edited(text, stage.program, match(stage.lines, text.split("\n")))  # type: ignore[arg-type]
    made: Any = stage.program
    assert [slc.as_loops(each) is None for each in made.programs] == [False]
    assert [slc.as_loops(each) is None for each in program.programs] == [True]
