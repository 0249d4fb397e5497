"""Programs that a person wrote, on the machine: the shipped ones are right on every structure, wrong ones are told."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.language.diagnostics import DiagnosticsError
from explorer.machine.assembly.assembly import AssemblyError
from explorer.machine.faults import MachineError
from explorer.runtime.reference import evaluate as reference
from explorer.runtime.run import RunRequest, execute
from explorer.runtime.runs.written import read_written
from explorer.runtime.targets import dae

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "embedding"
WRITTEN = sorted(FOLDER.glob("*.dlc"))
SLS, SLS_MODEL = (FOLDER / "sls.dlc").read_text(), (FOLDER / "sls.emb").read_text()
written = pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
LENGTHS = ((), (0,), (1,), (4,), (3, 0, 5, 8, 1, 0), (0, 0, 17, 2, 6))
"""With what the programs' records divide and what they do not, and nothing."""


def given_for(compilation: explorer.Compilation, lengths: tuple[int, ...]) -> dict[str, Any]:
    """Lists of these lengths, and tables."""
    generator = np.random.default_rng(3)
    ptr, rows = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32), max(7, len(lengths))
    picked = generator.integers(0, rows, ptr[-1]).astype(np.int32)
    graph = compilation.stages["graph"].program
    if graph.structure == "bags":
        given: dict[str, Any] = {"ptr": ptr, "idx": picked}
    else:
        ptr = np.concatenate((ptr, np.full(rows - len(lengths), ptr[-1], np.int32)))
        value = generator.standard_normal(ptr[-1]).astype(np.float32)
        given = {"rowptr": ptr, "col": picked, "value": value, "num_rows": rows, "num_cols": rows}
    for tensor in graph.tensors:
        if tensor.kind != "structure":
            shape = (rows, *(graph.size(extent) for extent in tensor.dims))
            given[tensor.name] = generator.standard_normal(shape).astype(np.float32)
    return given


def refused(text: str, **options: Any) -> str:
    """What is said of a program for SLS, with its place."""
    compilation = explorer.compile(SLS_MODEL, options=options, on_demand=True)
    with pytest.raises(DiagnosticsError) as raised:
        read_written(text, compilation)
    return "\n".join(diagnostic.render(text) for diagnostic in raised.value.diagnostics)


def outcome(text: str, **fields: Any) -> dict[str, Any]:
    """The last event of a run of a program for SLS."""
    request = RunRequest(text=SLS_MODEL, on="dae", data="RM1:L0", sizes={"D": 8}, written=text, **fields)
    return list(execute(request))[-1]


@written
@pytest.mark.parametrize("size", [1, 16, 33])
def test_a_shipped_program_computes_its_model(path: Path, size: int) -> None:
    model = path.with_suffix(".emb").read_text()
    compilation = explorer.compile(model, sizes={"D": size}, on_demand=True)
    program = read_written(path.read_text(), compilation)
    for lengths in LENGTHS:
        given = given_for(compilation, lengths)
        arrays, finish = compilation.encode(compilation, given, None)  # type: ignore[misc]
        got = finish(dae.simulate(program, arrays).output, {})[0]
        np.testing.assert_allclose(got, reference.op(model, given, compilation.sizes), rtol=1e-5, atol=1e-4)


def test_a_run_is_checked_and_held_against_the_compiled_program() -> None:
    last = outcome(SLS)
    assert last["matches_reference"]
    assert last["source"] == "simulated"
    assert last["speedup_over"]["compiled"] > 1
    other = outcome(SLS.replace("s = s0 + s1", "s = s0 + s0"))
    assert not other["matches_reference"]
    assert "computes something else than the model" in other["message"]
    assert other["cycles"] is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  push_op(t0, d_tr, ite)", "  push_op(t0 d_tr, ite)", "41:14: expected ',', found 'd_tr'"),
        ("index idx[entries]", "index ids[entries]", "7:9: the model has no array ids: it reads T[rows, D], bag_ptr"),
        ("param T[rows, D]", "param T[rows, 16]", "9:9: T[rows, 16] is T[rows, D] in the model"),
        ("output out[bags, D]", "param out[bags, D]", "10:9: out is the model's result, an output"),
        ("size D = 128", "size K = 128", "6:8: the model has no size K"),
        ("mem_str<16>(T, a)", "mem_str<16>(S, a)", "3: there is no array S"),
        ("l_tr = b_tr.loop_tr(fours", "l_tr = c_tr.loop_tr(fours", "3: there is no traversal c_tr above"),
        ("mem_str(idx, at1)", "mem_str(idx, at9)", "3: at9 is used before its definition"),
        ("        out[o, e] += t\n", "        out[o, e] += t\n        u = dataQ.pop<16 x f32>()\n", "one_row pushes"),
        ("token == next", "token == later", "the tokens of the access unit are not the cases"),
    ],
)
def test_a_program_that_does_not_fit_is_refused_with_its_place(old: str, new: str, said: str) -> None:
    assert old in SLS
    assert said in refused(SLS.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("loop_tr(begin, fours, 4)", "loop_tr(begin, 4, 0)", "stride 0, but must go forward"),
        ("row0 = p_tr.alu_str('*', i0, D)", "row0 = p_tr.alu_str('*', i0, 1000000)", "reaches for element"),
        ("index o += 1", "index o += 2", "of an array of 1,024, at `out[o, d] += s`"),
        ("out[o, e] += t", "out[o, e] += tt", "tt is used before its definition"),
        ("        out[o, d] += s", "        rows[d] += s", "rows is neither a row nor the output"),
    ],
)
def test_what_a_program_cannot_do_is_told(old: str, new: str, said: str) -> None:
    assert old in SLS
    last = outcome(SLS.replace(old, new, 1))
    assert (last["event"], last["kind"]) == ("failed", "refused")
    assert said in last["message"]


def test_a_deadlock_is_told() -> None:
    """Four rows are a record: more than the data queue holds, and the core waits for its token."""
    last = outcome(SLS, machine={"queue_bytes": 64})
    assert (last["event"], last["kind"]) == ("failed", "refused")
    assert "queue holds 64" in last["message"]


def test_a_program_with_gradients_is_refused() -> None:
    assert "no gradients" in outcome(SLS, options={"grad": True})["message"]


def test_no_change_of_a_line_breaks_the_explorer() -> None:
    """Programs with a line dropped, doubled or changed for another run, or are refused in a sentence."""
    compilation = explorer.compile(SLS_MODEL, sizes={"D": 8}, on_demand=True)
    arrays, _ = compilation.encode(compilation, given_for(compilation, LENGTHS[-1]), None)  # type: ignore[misc]
    drawn, seen = random.Random(1), set()
    lines = [line for line in SLS.split("\n") if not line.startswith("#")]
    for _ in range(100):
        at, other = drawn.randrange(len(lines)), drawn.randrange(len(lines))
        change = drawn.choice([[], [lines[at]] * 2, [lines[other]]])
        try:
            program = read_written("\n".join([*lines[:at], *change, *lines[at + 1 :]]), compilation)
            seen.add(dae.simulate(program, arrays).output.shape)
        except (DiagnosticsError, AssemblyError, MachineError, ValueError) as error:  # what a run tells
            seen.add(type(error).__name__)
    assert seen >= {"DiagnosticsError", "MachineError", (len(LENGTHS[-1]), 8)}
