"""SLC and DLC as Python functions beside the same run one statement after another, to the bit: what the compiler makes
of models, in widths that do not divide their rows, and random vector regions, which no pass makes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.interpret.dlc import run_dlc
from explorer.compiler.interpret.guarded import OutsideError, guarding
from explorer.compiler.interpret.slc import run_slc
from explorer.compiler.ir.access.dlc import DlcProgram
from explorer.compiler.ir.access.slc import SlcProgram
from explorer.compiler.ir.parse import parse_dlc, parse_slc
from explorer.compiler.returned import as_returned, each_returned
from explorer.runtime.compiling import _encode
from explorer.runtime.proof.inputs import CASES, Case, draw, draw_upstream
from explorer.runtime.reference.evaluate import Meaning
from tests.compiler.interpret.one_by_one import dlc_one_by_one, slc_one_by_one

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
ALL_STREAMS = {"address_streams": True, "store_streams": True, "accumulate_streams": True, "toggle_callbacks": True}
MODELS: tuple[tuple[str, dict[str, int], dict[str, Any]], ...] = (
    ("kge/transr", {"D": 20, "K": 9}, {"vlen": 8, "opt": 3}),
    ("embedding/sls", {"D": 21}, {"vlen": 4, "opt": 3, **ALL_STREAMS}),
    ("embedding/sls_max", {"D": 7}, {"opt": 2, "grad": True}),
    ("embedding/spattn_replicated", {"D": 33, "Q": 3}, {"grad": True, "opt": 3}),
    ("embedding/kg_lookup", {}, {"opt": 1, **ALL_STREAMS}),
    ("rgnn/rgat", {}, {"grad": True, "opt": 3, "vlen": 8}),
)
STAGES = ("slc", "slc.opt1", "slc.opt2", "slc.opt3", "dlc")


def compare(program: SlcProgram | DlcProgram, arrays: dict[str, Any]) -> dict[str, Any]:
    """What comes of a program one by one, once its function gives the same, with its accesses checked and without."""
    one_by_one: Any = slc_one_by_one if isinstance(program, SlcProgram) else dlc_one_by_one
    run: Any = run_slc if isinstance(program, SlcProgram) else run_dlc
    expected: dict[str, Any] = one_by_one(program, arrays)
    found = run(program, arrays)
    with guarding():
        checked = run(program, arrays)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
        np.testing.assert_array_equal(checked[name], array)
    return expected


def arrays_of(compilation: explorer.Compilation, case: Case) -> dict[str, Any]:
    """What the first of a stage's programs is given."""
    inputs, upstream = draw(compilation, case), None
    if compilation.options.grad:
        negatives = str(compilation.options.to_json()["negatives"])
        result = Meaning(compilation.text, inputs, compilation.sizes, compilation.name, negatives).result()
        upstream = as_returned(draw_upstream(each.shape, case) for each in each_returned(result))
    elif compilation.stages["graph"].program.is_one_nest:  # type: ignore[union-attr]
        return inputs
    arrays, _ = _encode(compilation, inputs, upstream)
    return dict(arrays)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "sizes", "options"), MODELS, ids=[model[0] for model in MODELS])
def test_what_the_compiler_makes(name: str, sizes: dict[str, int], options: dict[str, Any]) -> None:
    text = (EXAMPLES / f"{name}.emb").read_text()
    compilation = explorer.compile(text, sizes=sizes, options=options, on_demand=True)
    assert compilation.ok, compilation.diagnostics
    compared = 0
    for case in CASES[:2]:
        for stage in STAGES:
            arrays, program = arrays_of(compilation, case), compilation.stages[stage].program
            for each in getattr(program, "programs", (program,)):
                arrays |= compare(each, arrays)
                compared += 1
    assert compared >= 10


def region(pick: random.Random, popped: tuple[str, ...]) -> list[str]:
    """Statements of a vector region over `d` that read `x`, `w` and the vectors that came with it."""
    places, vectors, lines = ["d"], list(popped), []
    for number in range(pick.randint(3, 12)):
        name, place, operand = f"v{number}", pick.choice(places), pick.choice([*vectors, "0.5", "c"])
        kind = pick.choice(("compute", "load", "shift", "scale", "mixed", "store", "add", "sum", "most", "by number"))
        match kind:
            case "compute":
                lines.append(f"{name} = {pick.choice(vectors)} {pick.choice('+-*')} {operand}")
            case "load":
                lines.append(f"{name} = w[{place}]")
            case "mixed":
                lines.append(f"{name} = {pick.choice(('x', 'out'))}[b, {pick.choice(places)}]")
            case "by number":
                lines.append(f"{name} = w[{pick.randint(0, 3)}]")
            case "shift" if len(places) < 4:
                places.append(f"p{number}")
                lines.append(f"index p{number} = {pick.choice(('d + 1', 'd + b', '2 + d', 'b + d'))}")
            case "scale" if len(places) < 4:
                places.append(f"p{number}")
                lines.append(f"index p{number} = {pick.choice(('d * 2', 'd // 2', 'd % 3', '9 - d'))}")
            case "store":
                lines.append(f"out[b, {place}] = {pick.choice(vectors)}")
            case "add":
                lines.append(f"out[b, {place}] {pick.choice(('+=', 'max=', '*='))} {operand}")
            case "sum":
                lines.append(f"s += {pick.choice(vectors)} * {operand}")
            case "most":
                lines.append(f"s max= {operand}")
        if kind in ("compute", "load", "mixed", "by number"):
            vectors.append(name)
    return lines


HEAD = """
  size D = {D}, W = 32
  param x[n, W]
  param w[W]
  output out[n, W]
  output sums[n]
"""
SLC = """  slc.for (%b from 0 to n) {{
    slcv.for<{V}> ((%d, %msk) from {L} to D) {{
      %e = slcv.alu_str<{V}>({sign}, %d, %b)
      %x = slcv.mem_str<{V}>(x[%b, %e], %msk)
      %y = slcv.mem_str<{V}>(w[%d], %msk)
      slcv.callback {{
        b = slc.to_val(%b)
        d = slcv.to_val(%d)[0]
        y0 = slcv.to_val(%y)[0]
        a = slcv.to_val<{V}>(%x)
        y = slcv.to_val<{V}>(%y)
        c = y0 * 2.0
        acc s = 0.25
        lanes<{V}> d below D
          {region}
        sums[b] += s
      }}
    }}
  }}
"""
DLC = """access
  b_tr = loop_tr(0, n, 1)
  a0 = b_tr.alu_str('*', b_tr.ite, W)
  push_op(b_tr.ite, d_tr, beg)
  d_tr = b_tr.loop_tr({L}, D, {V})
  a1 = d_tr.alu_str('+', a0, d_tr.ite)
  a = d_tr.mem_str<{V}>(x, a1)
  y = d_tr.mem_str<{V}>(w, d_tr.ite)
  push_op(a, d_tr, ite)
  push_op(y, d_tr, ite)
  callback(d_tr, end) = d_end
execute
  while ((token = ctrlQ.pop()) != done) {{
    if (token == d_end) {{
      b = dataQ.pop<i32>()
      c = w[1]
      acc s = 0.25
      for d in {L}..D step {V}
        a = dataQ.pop<{V} x f32>()
        y = dataQ.pop<{V} x f32>()
        {region}
      sums[b] += s
    }}
  }}
"""


@pytest.mark.parametrize("seed", range(60))
def test_random_vector_regions(seed: int) -> None:
    pick = random.Random(seed)
    width, size, first = pick.choice((2, 4, 8)), pick.randint(1, 10), pick.randint(0, 1)
    lines = region(pick, ("a", "y"))
    drawn = np.random.default_rng(seed)
    arrays = {"x": drawn.uniform(-1, 1, (3, 32)), "w": drawn.uniform(-1, 1, 32), "n": 3}
    arrays |= {name: drawn.astype(np.float32) for name, drawn in arrays.items() if np.ndim(drawn)}
    said = {"D": size, "V": width, "L": first, "sign": pick.choice("+*")}
    slc_text = "slc f" + HEAD + SLC
    compare(parse_slc(slc_text.format(**said, region="\n          ".join(lines))), arrays)
    compare(parse_dlc(("dlc f" + HEAD + DLC).format(**said, region="\n        ".join(lines))), arrays)


PLAIN = {"D": 8, "V": 4, "L": 0, "sign": "+", "region": "s += a * y"}


def test_a_case_that_pops_less_or_more_than_its_record_holds_is_told() -> None:
    text = ("dlc f" + HEAD + DLC).format(**PLAIN)
    arrays = {"x": np.ones((3, 32), np.float32), "w": np.ones(32, np.float32), "n": 3}
    np.testing.assert_array_equal(run_dlc(parse_dlc(text), arrays)["sums"], [8.25] * 3)
    with pytest.raises(RuntimeError, match="2 operands were never popped after d_end"):
        run_dlc(parse_dlc(text.replace("in 0..D step", "in 4..D step")), arrays)
    with pytest.raises(RuntimeError, match="a is popped, 4 words of it, but nothing is left"):
        run_dlc(parse_dlc(text.replace("in 0..D step", "in 0..W step")), arrays)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("index p = d - 1\n          q = w[p]", "w[-1..3] of w[32]"),
        ("index p = d * 9\n          q = w[p]", "w[36..63] of w[32]"),
        ("index p = d * 9\n          q = x[b, p]", "x[0, 36..63]"),
    ],
)
def test_lanes_outside_of_an_array_are_found(statement: str, said: str) -> None:
    program = parse_slc(("slc f" + HEAD + SLC).format(**{**PLAIN, "region": statement}))
    arrays = {"x": np.ones((3, 32), np.float32), "w": np.ones(32, np.float32), "n": 3}
    with guarding(), pytest.raises(OutsideError) as error:
        run_slc(program, arrays)
    assert said in str(error.value)
