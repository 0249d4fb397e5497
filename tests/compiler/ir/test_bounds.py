"""That every access of the kernels is shown to be inside its array, and that one which is not is found."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.checkout import CHECKOUT
from explorer.compiler.ir.bounds.affine import ONE, Affine, plus
from explorer.compiler.ir.bounds.lookups import given_facts
from explorer.compiler.ir.facts import Fact
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import walk
from explorer.compiler.ir.parse import parse_scheduled
from explorer.compiler.ir.print.kernels import print_scheduled
from explorer.compiler.ir.verify import accesses as verify_bounds
from explorer.compiler.ir.verify.accesses import Extents
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.guards import within_extents
from tests.compiler.ir.test_round_trip import text_of

EXAMPLES = sorted((CHECKOUT / "examples").glob("*/*.emb"))

GATHER = """\
scheduled Gather  template rows  threads 32
  size D = 8
  index src[edges]
  index begins[node_ends]
  input x[nodes, D]
  output out[nodes, D]
  for n in 0..nodes @block
    begin = begins[n]
    index next = n + 1
    end = begins[next]
    register y[D]
    for d in 0..D step 4 @lane 2
      y[d] = 0.0
    for e in begin..end
      isrc = src[e]
      for d1 in 0..D step 4 @lane 2
        s = x[isrc, d1]
        y[d1] += s
    for d2 in 0..D step 4 @lane 2
      s1 = y[d2]
      out[n, d2] = s1
"""
OUT = "  output out[nodes, D]\n"
BEYOND = """\
    index other = n + 3
    where 0 < nodes
      for k in 0..1 @lane 1
        far[other, k] = 0.0
        z = x[other, k]
        near[n, k] = z
"""
FACTS = tuple(
    Fact(text, "given")
    for text in (
        "0 <= src[_0]",
        "src[_0] < nodes",
        "0 <= begins[_0]",
        "begins[_0] <= edges",
    )
)


def missing_of(text: str, facts: tuple[Fact, ...] = FACTS) -> list[str]:
    """The indices of a kernel that are not shown to be inside."""
    return [str(each.index) for each in Extents(facts).unproved(parse_scheduled(text))]


def test_what_is_inside_is_shown() -> None:
    assert missing_of(GATHER) == []


@pytest.mark.parametrize(
    ("right", "wrong", "index"),
    [
        ("for n in 0..nodes @block", "for n in 0..node_ends @block", "n"),
        ("index next = n + 1", "index next = n + 2", "next"),
        ("index next = n + 1", "index next = n - 1", "next"),
        ("isrc = src[e]", "isrc = src[end]", "end"),
        ("s = x[isrc, d1]", "s = x[e, d1]", "e"),
        ("x[nodes, D]", "x[edges, D]", "isrc"),
        ("src[edges]", "src[nodes]", "e"),
        ("out[nodes, D]", "out[nodes, 4]", "d2"),
        ("register y[D]", "register y[7]", "d"),
        ("for d1 in 0..D", "for d1 in 0..12", "d1"),
    ],
)
def test_an_index_that_may_be_outside_is_found(right: str, wrong: str, index: str) -> None:
    assert right in GATHER
    assert index in missing_of(GATHER.replace(right, wrong))


@pytest.mark.parametrize("fact", FACTS, ids=str)
def test_each_fact_of_a_map_is_needed(fact: Fact) -> None:
    assert missing_of(GATHER, tuple(other for other in FACTS if other is not fact))


GROWS = """\
scheduled Grows  template rows  threads 32
  input x[2]
  output out[nodes, 8]
  for n in 0..nodes @block
    MEMORY at[1] i32, copied[1] i32
    at[0] = 0
    for k in 0..4
      for e in 0..8
        i = at[0]
        s = x[i]
        out[n, e] = s
        STEP
"""


@pytest.mark.parametrize("memory", ["register", "shared"])
@pytest.mark.parametrize(
    ("step", "inside"),
    [
        ("index j = i + 1; at[0] = j", False),
        ("index j = max(i + 1, 1); at[0] = j", False),
        ("index j = i + 1; copied[0] = j; c = copied[0]; at[0] = c", False),
        ("where i < 2;   index j = i + 1;   at[0] = j", False),
        ("index j = i - 1, h = select(0, i, j); at[0] = h", False),
        ("where i < 1;   index j = i + 1;   at[0] = j", True),
        ("index j = min(i + 1, 1); at[0] = j", True),
        ("index j = (i + 1) % 2; at[0] = j", True),
        ("index j = 1 - i; at[0] = j", True),
    ],
)
def test_what_grows_from_one_iteration_to_the_next(step: str, inside: bool, memory: str) -> None:
    """What a tile holds is what any iteration before has stored, not only the statements above."""
    text = GROWS.replace("MEMORY", memory).replace("STEP", step.replace("; ", "\n        "))
    assert (missing_of(text, ()) == []) == inside


CLEARS = """\
scheduled Clear  template rows  threads 32
  index at[1]
  for n in 0..1 @block
    at[n] = 0
"""
COUNTS_ON = """\
scheduled CountsOn  template rows  threads 32
  index at[1]
  input x[2]
  output out[nodes]
  for n in 0..1 @block
    for e in 0..nodes
      i = at[n]
      s = x[i]
      out[e] = s
      index j = STEP
      at[n] = j
"""


@pytest.mark.parametrize(("step", "inside"), [("i + 1", False), ("i + 0", True)])
def test_what_grows_in_an_array_that_an_earlier_kernel_has_cleared(step: str, inside: bool) -> None:
    extents = Extents(())
    assert not extents.unproved(parse_scheduled(CLEARS))
    assert (extents.unproved(parse_scheduled(COUNTS_ON.replace("STEP", step))) == ()) == inside


@cache
def module_of(path: Path, grad: bool) -> tuple[tuple[Fact, ...], tuple[ScheduledKernel, ...]]:
    """What is known of an example's arrays, and its kernels."""
    stages = explorer.compile(path.read_text(), options={"grad": grad}, on_demand=True).stages
    nests, scheduled = stages["loops"].program, stages["kernels"].program
    nests = nests.programs if isinstance(nests, Module) else (nests,)
    kernels = scheduled.programs if isinstance(scheduled, Module) else (scheduled,)
    return given_facts(nest for nest in nests if isinstance(nest, Kernel)), kernels


@pytest.mark.parametrize(
    ("name", "grad", "right", "wrong"),
    [
        ("rgnn/gcn", False, ", n < nodes", ", n <= nodes"),
        ("rgnn/gcn", False, "where position < end", "where position <= end"),
        ("rgnn/gcn", False, "shared isrc_tile[128] i32", "shared isrc_tile[127] i32"),
        ("rgnn/gcn", False, ", last = end - 1", ", last = end + 0"),
        ("rgnn/gcn", False, "where following < 64", "where following <= 64"),
        ("rgnn/gcn", False, "min(own1 + slot * 2, end1)", "max(own1 + slot * 2, end1)"),
        ("rgnn/gcn", False, "(piece1 + 1) * 128", "(piece1 + 1) * 136"),
        ("rgnn/gcn", False, "shared left[2, 64, 16]", "shared left[1, 64, 16]"),
        ("rgnn/gcn", False, "y3[8, 1, 8, 1, 64]", "y3[8, 1, 7, 1, 64]"),
        ("rgnn/gcn", True, "end = min(begin + 64, nodes)", "end = max(begin + 64, nodes)"),
        ("rgnn/gcn", True, "shared a[2, 16, 64]", "shared a[2, 15, 64]"),
        ("kge/distmult", True, "where b < B", "where b <= B"),
        ("kge/distmult", True, "e = E[ih, d]", "e = E[ir, d]"),
        ("kge/rescal", False, ", k1 < 2048", ", k1 <= 2048"),
        ("kge/rescal", False, "shared counts[2048] i32", "shared counts[2047] i32"),
        ("kge/rescal", False, "(n + 63) // 64", "(n + 64) // 64"),
        ("embedding/bag_dot", False, "index p1 = min(own + slot * 2, end1)", "index p1 = min(own + slot * 2, end)"),
    ],
)
def test_a_mutant_of_an_example_is_found(name: str, grad: bool, right: str, wrong: str) -> None:
    """A guard off by one, a tile too small, a bound too high, a wrong map."""
    given, kernels = module_of(CHECKOUT / "examples" / f"{name}.emb", grad)
    extents, found, changed = Extents(given), 0, 0
    for kernel in kernels:
        text = text_of(print_scheduled(kernel))
        mutant = parse_scheduled(text.replace(right, wrong))
        object.__setattr__(mutant, "facts", kernel.facts)
        changed += right in text
        found += bool(extents.unproved(mutant))
    assert changed, f"no kernel has {right}"
    assert found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("grad", [False, True])
def test_no_example_needs_a_guard(path: Path, grad: bool) -> None:
    given, kernels = module_of(path, grad)
    extents = Extents(given)
    assert [str(each) for kernel in kernels for each in extents.unproved(kernel)] == []
    assert not [line for kernel in kernels for line in kernel.schedule if line.startswith("guard ")]


def test_what_is_not_shown_is_looked_at_while_the_kernel_runs() -> None:
    """And the kernel's schedule and the pass say so."""
    kernel = parse_scheduled(GATHER.replace(OUT, f"{OUT}  output far[nodes, D]\n  output near[nodes, D]\n") + BEYOND)
    report = Report.silent()
    facts = Extents(FACTS).unproved(kernel)
    assert {each.index for each in facts} == {"other"}
    (guarded,) = within_extents((), (replace_facts(kernel),), report)
    printed = text_of(print_scheduled(guarded))
    assert "where other < nodes" in printed
    assert "z = x[other, k] checked other" in printed
    assert "guard far" in printed
    assert "guard x" in printed
    assert any("Gather looks while it runs" in line for line in report.done)


def replace_facts(kernel: ScheduledKernel) -> ScheduledKernel:
    """The kernel with the facts of its arrays, as one that made them has."""
    object.__setattr__(kernel, "facts", FACTS)
    return kernel


MIRRORED = (
    """\
scheduled Marks  template rows  threads 32
  input x[nodes]
  index chosen[edges]
  index marks[edges]
  for e in 0..edges @block
    n = chosen[e]
    marks[e] = n
    where e < 5
      index mirrored = -1 - n
      marks[e] = mirrored
""",
    """\
scheduled Marked  template rows  threads 32
  input x[nodes]
  index marks[edges]
  output out[edges]
  for e in 0..edges @block
    mark = marks[e]
    where mark < 0
      index own = -1 - mark
      s = x[own]
      out[e] = s
    where 0 <= mark
      s1 = x[mark]
      out[e] = s1
""",
)
OF_CHOSEN = (Fact("0 <= chosen[_0]", "given"), Fact("chosen[_0] < nodes", "given"))


@pytest.mark.parametrize(
    ("right", "wrong", "missing"),
    [
        ("", "", []),
        ("mirrored = -1 - n", "mirrored = -2 - n", ["own"]),
        ("mirrored = -1 - n", "mirrored = -1 - e", ["own", "mark"]),
        ("own = -1 - mark", "own = 0 - mark", ["own"]),
        ("marks[e] = n\n", "marks[e] = e\n", ["mark"]),
        ("marks[e] = n\n", "marks[e] = -1\n", ["own"]),
    ],
)
def test_what_is_mirrored_below_0_is_shown_when_it_is_mirrored_back(right: str, wrong: str, missing: list[str]) -> None:
    """A row of a piece that alone is added to it. -1 is a row mirrored too, but for graphs that have none."""
    extents = Extents(OF_CHOSEN)
    first, second = (parse_scheduled(text.replace(right, wrong)) for text in MIRRORED)
    assert extents.unproved(first) == ()
    assert [each.index for each in extents.unproved(second)] == missing


NAMED_ALIKE = (
    """\
scheduled Placed  template rows  threads 32
  index given[edges]
  output x[nodes]
  for e in 0..edges @block
    place = given[e]
    where place < nodes
      x[place] = 0.0
""",
    """\
scheduled Cleared  template rows  threads 32
  index marks[nodes]
  for n in 0..nodes @block
    marks[n] = 0
""",
    """\
scheduled Before  template rows  threads 32
  index marks[nodes]
  output x[nodes]
  for n in 0..nodes @block
    index place = n - 5
    mark = marks[n]
    where mark < 5
      x[place] = 0.0
""",
)


def test_what_is_known_of_a_name_is_known_in_its_kernel_alone() -> None:
    """Elsewhere another value has the name, and no array's elements are held against it."""
    placed, cleared, before = (parse_scheduled(text) for text in NAMED_ALIKE)
    object.__setattr__(placed, "facts", (Fact("0 <= place", "places are counted from 0"),))
    extents = Extents()
    assert extents.unproved(placed) == extents.unproved(cleared) == ()
    assert [str(each.index) for each in extents.unproved(before)] == ["place"]


COUNTED = """\
scheduled Counted  template rows  threads 32
  index counts[nodes]
  output out[nodes]
  for n in 0..nodes @block
    place = atomic counts[n] += 1
    where place < nodes
      out[place] = 0.0
"""


def test_what_other_kernels_have_stored_is_counted_on_from() -> None:
    """A count that began below 0 is no place."""
    assert missing_of(COUNTED) == ["place"]


@pytest.mark.parametrize(("name", "most"), [("kge/transr", 6_000), ("rgnn/hgt", 40_000)])
def test_proofs_look_at_few_goals(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new text waits for its proofs."""
    given, kernels = module_of(CHECKOUT / "examples" / f"{name}.emb", True)
    verify_bounds._SHOWN.clear()
    looked, eliminated = 0, Affine._eliminated

    def counted(*of: Any) -> bool:
        nonlocal looked
        looked += 1
        return eliminated(*of)

    monkeypatch.setattr(Affine, "_eliminated", counted)
    extents = Extents(given)
    for kernel in kernels:
        extents.unproved(kernel)
    assert 0 < looked < most


def test_a_proof_rounds_integers() -> None:
    """From 16 k <= 63 - 16 follows k <= 2."""
    affine = Affine()
    k = affine.atom(0)
    assert not affine.holds({ONE: 2, k: -1})
    affine.assume({ONE: 47, k: -16})
    assert affine.holds({ONE: 2, k: -1})
    assert not affine.holds({ONE: 1, k: -1})


def test_a_goal_rounds_integers() -> None:
    """A part of 8 of a row: from `8 q <= p < 8 n` follows `8 q + 7 < 8 n`, and no more."""
    affine = Affine()
    n, p, q = affine.atom(0), affine.atom(0), affine.atom(0)
    affine.assume({n: 8, p: -1, ONE: -1})
    affine.assume({p: 1, q: -8})
    assert affine.holds({n: 8, q: -8, ONE: -8})
    assert not affine.holds({n: 8, q: -8, ONE: -9})


def test_what_a_scope_assumes_ends_with_it() -> None:
    affine = Affine()
    k, n = affine.atom(0), affine.atom(0)
    mark = affine.mark()
    affine.assume({n: 1, k: -1, ONE: -1})
    assert affine.holds({n: 1, ONE: -1})
    affine.back_to(mark)
    assert not affine.holds({n: 1, ONE: -1})


def test_the_least_and_the_greatest_of_forms() -> None:
    affine = Affine()
    a, b = affine.atom(1), affine.atom(2)
    assert affine.holds(plus(affine.least({a: 1}, {b: 1}), {ONE: -1}))
    assert not affine.holds(plus(affine.least({a: 1}, {b: 1}), {ONE: -2}))
    assert affine.holds(plus(affine.greatest({a: 1}, {b: 1}), {ONE: -2}))
    assert affine.holds(plus({a: 1}, affine.least({a: 1}, {b: 1}), -1))


def test_every_index_array_of_the_examples_has_facts() -> None:
    """Those that a caller gives are checked before they are used."""
    for path in EXAMPLES:
        given, kernels = module_of(path, False)
        known = {array for fact in given for array in fact.arrays}
        written = {getattr(node, "target", "") for kernel in kernels for node in walk(kernel)}
        arrays = {buffer.name for kernel in kernels for buffer in kernel.buffers if buffer.kind == "index"}
        assert arrays - written <= known, path.stem
