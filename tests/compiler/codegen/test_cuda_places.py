"""What CUDA's text names, and what it writes where it is used."""

from __future__ import annotations

import pytest

from explorer.compiler.codegen.cuda.program import generate_cuda
from explorer.compiler.ir.kernels import ROLLED, Loop, ScheduledKernel
from explorer.compiler.ir.node import walk
from explorer.compiler.ir.parse import parse_scheduled
from explorer.compiler.ir.print.kernels import print_scheduled
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.options import Options
from explorer.compiler.report import Report

HEAD = """\
scheduled Places  template warps  threads 32
  size D = 64
  index h[B]
  param E[N, D]
  output out[B, D]
  for b in 0..B @block
"""


def kernel(body: str) -> ScheduledKernel:
    """A block of one warp a row, whose statements are these."""
    indented = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    parsed = parse_scheduled(HEAD + indented)
    assert isinstance(parsed, ScheduledKernel)
    verify_scheduled(parsed)
    return parsed


def lines(body: str) -> list[str]:
    """The statements in CUDA, without what stands before them."""
    written = [line.text.strip() for line in generate_cuda(kernel(body), Report(Options())).lines]
    return written[written.index("const int b = blockIdx.x;") + 1 : -1]


def test_places_are_written_where_they_are_used() -> None:
    assert lines("""
for l in 0..32 @lane
  index first = l * 2
  index last = first + 1
  e = E[b, last]
  out[b, last] = e
""") == [
        "const int last = lane * 2 + 1;",
        "const float e = E[(long long)b * D + last];",
        "out[(long long)b * D + last] = e;",
    ]


def test_parentheses_stand_where_the_order_of_operations_needs_them() -> None:
    assert (
        lines("""
for l in 0..32 @lane
  index sum = l + 1
  index twice = sum * 2
  index most = min(twice, 63)
  index half = most // 2
  index left = 63 - half
  e = E[b, left]
  out[b, l] = e
""")[0]
        == "const float e = E[(long long)b * D + (63 - min((lane + 1) * 2, 63) / 2)];"
    )


CHANGED = """
for l in 0..32 @lane
  register y[2]
  for d in 0..2 unroll all
    y[d] = 1.0
  for d1 in 0..2 unroll all
    u = y[d1]
    {between}
    out[b, l] = u * 2.0
"""


@pytest.mark.parametrize(
    ("between", "stored"),
    [("y[d1] = 3.0", "u * 2.0f"), ("y[d1] += 3.0", "u * 2.0f"), ("w = 3.0", "y[d1] * 2.0f")],
)
def test_a_register_is_read_before_it_changes(between: str, stored: str) -> None:
    """What a register held is written where it is used only if the register holds that still."""
    found = lines(CHANGED.format(between=between))
    assert f"out[(long long)b * D + lane] = {stored};" in found
    assert any(line.startswith("const float") and "= y[d1]" in line for line in found) == ("y[" in between)


def test_equal_places_have_one_name_in_the_same_braces() -> None:
    found = lines("""
for l in 0..32 @lane
  i = h[b]
  index own = i * 2
  where own < 32
    e = E[own, l]
    out[b, l] = e
  j = h[b]
  where j < 16
    index inside = j * 2
    index next = inside + l
    f = E[inside, next]
    out[b, l] = f
  where 16 < j
    index after = j + l
    g = E[after, after]
    out[b, l] = g
  where 20 < j
    index again = j + l
    k = E[again, again]
    out[b, l] = k
""")
    assert [line for line in found if line.startswith("const int")] == [
        "const int i = h[b];",
        "const int own = i * 2;",
        "const int after = i + lane;",
        "const int again = i + lane;",  # the braces of the other are closed
    ]


def test_what_is_alone_in_conditions_and_loops_needs_no_braces() -> None:
    assert lines("""
for l in 0..32 @lane
  where b < 8
    where l < 4
      for d in 0..2 rolled
        out[b, l] = 0.0
""") == [
        "if (b >= 8 || lane >= 4) return;",
        "#pragma unroll 1",
        "for (int d = 0; d < 2; d++) out[(long long)b * D + lane] = 0.0f;",
    ]
    assert lines("""
for l in 0..32 @lane
  for d in 0..2 rolled
    where l < 4
      where d < 1
        e = E[b, l]
        out[b, l] = e * e
  out[b, l] = 0.0
""") == [
        "#pragma unroll 1",
        "for (int d = 0; d < 2; d++)",
        "if (lane < 4 && d < 1) {",
        "const float e = E[(long long)b * D + lane];",
        "out[(long long)b * D + lane] = e * e;",
        "}",
        "out[(long long)b * D + lane] = 0.0f;",
    ]


def test_arithmetic_of_places_goes_into_braces_but_not_a_quotient_of_what_a_run_knows() -> None:
    found = lines("""
for l in 0..32 @lane
  i = h[b]
  index last = i - 1
  index share = last // 4
  index part = i // last
  for d in 0..share
    index own = min(d, part)
    e = E[own, l]
    out[b, l] = e
""")
    assert found == [
        "const int i = h[b];",
        "const int last = i - 1;",
        "const int part = i / last;",
        "for (int d = 0; d < last >> 2; d++) {",
        "const float e = E[(long long)min(d, part) * D + lane];",
        "out[(long long)b * D + lane] = e;",
        "}",
    ]


def test_a_tile_that_is_cleared_starts_as_zeros() -> None:
    cleared = """
for l in 0..32 @lane
  register y[2]
  for d in 0..{rows} unroll all
    y[d] = {value}
  for d1 in 0..2 unroll all
    out[b, d1] = y[d1]
"""
    cleared = cleared.replace("out[b, d1] = y[d1]", "u = y[d1]\n    out[b, l] = u")
    assert lines(cleared.format(rows=2, value=0.0))[0] == "float y[2] = {};"
    assert lines(cleared.format(rows=1, value=0.0))[0] == "float y[2];"
    assert lines(cleared.format(rows=2, value=1.0))[0] == "float y[2];"


def test_a_sum_starts_with_the_first_that_goes_in_it_in_the_same_braces() -> None:
    summed = """
for l in 0..32 @lane
  acc s = 2.0
  e = E[b, l]
  {between}
  s += e * e
  out[b, l] = s
"""
    assert "float s = fmaf(e, e, 2.0f);" in lines(summed.format(between="f = E[b, l]"))
    found = lines(summed.format(between="where l < 4\n    s += e"))
    assert found[0] == "float s = 2.0f;"
    assert "s = fmaf(e, e, s);" in found


def test_a_rolled_loop_parses_back() -> None:
    made = kernel("for d in 0..2 rolled\n  out[b, d] = 0.0")
    text = "".join(f"{line.text}\n" for line in print_scheduled(made))
    assert "for d in 0..2 rolled\n" in text
    again = parse_scheduled(text)
    assert [node.unroll for node in walk(again) if isinstance(node, Loop)] == [1, ROLLED]
    assert again == made


def test_an_accumulator_that_nobody_reads_is_added_to_all_the_same() -> None:
    assert lines("""
acc s = 0.0
for l in 0..32 @lane
  e = E[b, l]
  s += e
  out[b, l] = e
""") == [
        "float s = 0.0f;",
        "const float e = E[(long long)b * D + lane];",
        "s += e;",
        "out[(long long)b * D + lane] = e;",
    ]
