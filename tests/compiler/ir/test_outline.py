"""What verdicts of kernels are kept by: outlines, which tell all that rules read, and no name or constant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from random import Random
from typing import Any

import pytest

from explorer.checkout import CHECKOUT
from explorer.compiler.frozen import dataclass, replace
from explorer.compiler.ir import kernels as ir
from explorer.compiler.ir.facts import Fact
from explorer.compiler.ir.kernels import Count, ScheduledKernel
from explorer.compiler.ir.loops import Accumulate, Accumulator, Compute, Store
from explorer.compiler.ir.node import Node, VerificationError, walk
from explorer.compiler.ir.parse import parse_scheduled
from explorer.compiler.ir.verify import accesses, kernels
from explorer.compiler.ir.verify import outline as outlines
from explorer.compiler.ir.verify.accesses import Extents
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.ir.verify.outline import UNREAD, fields_of, outline
from tests.compiler.ir import test_copies, test_kernels, test_products
from tests.compiler.ir.test_bounds import FACTS, GATHER, module_of
from tests.compiler.models import compiled

EXAMPLES = (("kge/transr", True), ("rgnn/gcn", True), ("rgnn/rgat_heads", True), ("embedding/spmm_max", False))
TEXTS = (test_kernels.WARPS, test_kernels.TILES, test_kernels.GROUPS, test_copies.RING, test_products.TOGETHER, GATHER)
BROKEN = (*test_kernels.BROKEN, *((test_copies.RING, *each) for each in test_copies.BROKEN))
MODEL = """\
dim D = 64, K = 32
score Distance(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, K], P[relation, D, K]
    return 0.25 * norm((E[h] - E[t]) @ P[r] + R[r], 2) + 3.5
"""
OTHERWISE = {"D": "Wide", "K": "Small", "Distance": "Far", "E": "Table", "R": "Shift", "P": "Into", "h": "head"}


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """A text, a node or what is made of these with other names."""
    match value:
        case str():
            return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), value)
        case Fact(text, reason):
            return Fact(renamed(text, names), reason)
        case tuple():
            return tuple(renamed(each, names) for each in value)
        case Node() | Count():
            own = [field.name for field in fields(value) if field.name != "origin"]
            return replace(value, **{name: renamed(getattr(value, name), names) for name in own})
    return value


def with_numbers(value: Any, change: Callable[[float], float]) -> Any:
    """A node, or what is made of these, with the numbers changed that it computes with."""
    match value:
        case tuple() if not isinstance(value, Fact):
            return tuple(with_numbers(each, change) for each in value)
        case float():
            return change(value)
        case Node():
            own = {name: getattr(value, name) for name in ("body", "operands", "start") if hasattr(value, name)}
            return replace(value, **{name: with_numbers(each, change) for name, each in own.items()})
    return value


def other_names(*programs: ScheduledKernel) -> dict[str, str]:
    """Other names for all that kernels define, and for their arrays, but for those that are words of theirs besides."""
    nodes = [node for kernel in programs for node in walk(kernel)]
    defined = {name for node in nodes if (name := ir.result_of(node)) is not None}
    arrays = {buffer.name for kernel in programs for buffer in kernel.buffers}
    words = {getattr(node, field, "") for node in nodes for field in ("bind", "function", "kind", "level", "reduction")}
    return {name: f"other_{name}" for name in (defined | arrays) - words}


def others(value: Any, names: tuple[str, str]) -> Iterator[Any]:
    """What might stand in the place of a value: one thing in it another one, or gone. Of the two `names` that another
    stands for, neither is new."""
    match value:
        case bool():
            yield not value
        case int():
            yield value + 1
        case float():
            yield from (each for each in (0.0, 1.0, float("inf")) if each != value)
        case str():
            yield names[value == names[0]]
        case tuple():
            for place, each in enumerate(value):
                yield (*value[:place], *value[place + 1 :])
                yield from ((*value[:place], other, *value[place + 1 :]) for other in others(each, names))
        case Node() | Count():
            unread = UNREAD.get(type(value), frozenset())
            for field in fields(value):
                if field.name == "origin":
                    yield replace(value, origin=())
                elif field.name not in unread:
                    found = others(getattr(value, field.name), names)
                    yield from (replace(value, **{field.name: other}) for other in found)


class Unreadable:
    """What must not be looked at."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":  # as a walk asks that looks for nodes
            return Unreadable
        raise AssertionError(f"{name} of something is asked for that no rule reads")

    def __str__(self) -> str:
        raise AssertionError("something is told that no rule reads")

    __repr__ = __str__


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that rules look at, from no verdicts on."""
    looked: list[str] = []

    def noting(look: Callable[..., Any]) -> Callable[..., Any]:
        def noted(kernel: ScheduledKernel, *known: Any) -> Any:
            looked.append(kernel.name)
            return look(kernel, *known)

        return noted

    monkeypatch.setattr(kernels, "_verify", noting(kernels._verify))
    monkeypatch.setattr(accesses, "_looked_at", noting(accesses._looked_at))
    forget()
    return looked


def forget() -> None:
    """Gives up all verdicts."""
    kernels._RIGHT.clear()
    accesses._SHOWN.clear()


@pytest.mark.parametrize(
    ("old", "new"), [*OTHERWISE.items(), ("0.25", "0.75"), ("3.5", "7.0"), ("score", "# a comment\nscore")]
)
def test_an_edit_of_a_name_or_a_number_is_not_looked_at_again(old: str, new: str, looked_at: list[str]) -> None:
    text = re.sub(rf"\b{re.escape(old)}\b", new, MODEL)
    assert compiled(MODEL, options={"grad": True}).stages["kernels"].available
    assert looked_at
    looked_at.clear()
    assert compiled(text, options={"grad": True}).stages["kernels"].text != ""
    assert looked_at == []


@pytest.mark.parametrize(("old", "new"), [("D = 64", "D = 65"), ("K = 32", "K = 64"), (", 2)", ", 1)")])
def test_an_edit_of_what_rules_read_is_looked_at(old: str, new: str, looked_at: list[str]) -> None:
    compiled(MODEL)
    looked_at.clear()
    compiled(MODEL.replace(old, new))
    assert looked_at


@pytest.mark.parametrize(("name", "grad"), EXAMPLES)
def test_what_is_kept_is_what_would_be_found(name: str, grad: bool, looked_at: list[str]) -> None:
    """Of kernels that store in arrays of indices, too, whose elements others rest on."""
    given, programs = module_of(CHECKOUT / "examples" / f"{name}.emb", grad)
    names = other_names(*programs)
    others_given, others_programs = renamed(given, names), renamed(programs, names)

    def looking(facts: tuple[Fact, ...], looked: tuple[ScheduledKernel, ...]) -> Extents:
        extents = Extents(facts)
        assert all(not extents.unproved(kernel) for kernel in looked)
        return extents

    looking(given, programs)
    looked_at.clear()
    known = looking(others_given, others_programs)
    assert looked_at == []
    forget()
    found = looking(others_given, others_programs)
    assert len(looked_at) >= len(others_programs)
    assert known._contents == found._contents
    assert found._contents or name != "rgnn/gcn"


@pytest.mark.parametrize("text", TEXTS)
def test_names_and_numbers_are_left_out(text: str) -> None:
    kernel = parse_scheduled(text)
    for other in (
        renamed(kernel, other_names(kernel)),
        with_numbers(kernel, lambda number: number if number in (0.0, 1.0) else number / 3 + 5),
        replace(kernel, **dict.fromkeys(UNREAD[ScheduledKernel], "other")),
    ):
        assert outline(other).digest == outline(kernel).digest
    assert renamed(kernel, other_names(kernel)) != kernel


@pytest.mark.parametrize("text", TEXTS)
def test_all_else_tells_outlines_apart(text: str) -> None:
    kernel = parse_scheduled(text)
    known, count = outline(kernel).digest, 0
    names = kernel.buffers[0].name, kernel.buffers[-1].name
    for other in others(kernel, names):
        assert outline(other).digest != known
        count += 1
    assert count > 100


def test_numbers_that_are_stored_as_indices_are_told() -> None:
    text = GATHER.replace("    begin =", "    register place[1] i32\n    place[0] = 2.5\n    begin =")
    kernel = parse_scheduled(text)
    assert outline(with_numbers(kernel, lambda number: number * 3)).digest != outline(kernel).digest


def test_names_that_say_something_are_told() -> None:
    """`node_ends` is one more than `nodes`, whatever these are."""
    known, *different = (
        outline(parse_scheduled(renamed(GATHER, names))).digest
        for names in ({}, {"nodes": "places"}, {"node_ends": "node_last"}, {"src": "_src"}, {"src": "inf"})
    )
    same = outline(parse_scheduled(renamed(GATHER, {"nodes": "places", "node_ends": "place_ends"}))).digest
    assert known == same
    assert known not in different


def test_facts_are_told() -> None:
    kernel = parse_scheduled(GATHER)
    asked = [FACTS, FACTS[1:], FACTS[::-1], (*FACTS[:3], Fact("begins[_0] <= nodes", "")), renamed(FACTS, {"_0": "_1"})]
    keys = {outline(kernel).with_more(facts, (), known=())[0] for facts in asked}
    assert len(keys | {outline(kernel).with_more((), FACTS, known=())[0]}) == len(asked) + 1
    names = other_names(kernel)
    other = outline(renamed(kernel, names)).with_more(renamed(FACTS, names), (), known=())
    assert other[0] == outline(kernel).with_more(FACTS, (), known=())[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n + 1", "n + 2"),
        ("for e in begin..end", "for e in begin..edges step 2"),
        ("x[isrc, d1]", "x[isrc, 8]"),
        ("output out[nodes, D]", "output out[nodes, 7]"),
        ("size D = 8", "size D = 12"),
        ("src[e]", "src[n]"),
    ],
)
def test_what_is_alike_but_for_an_integer_or_a_size_is_looked_at(old: str, new: str, looked_at: list[str]) -> None:
    assert Extents(FACTS).unproved(parse_scheduled(GATHER)) == ()
    looked_at.clear()
    text = GATHER.replace(old, new).replace("x[nodes, D]", "x[nodes, 8]")
    assert Extents(FACTS).unproved(parse_scheduled(text))
    assert looked_at


@pytest.mark.parametrize(("text", "old", "new", "message"), BROKEN)
def test_what_breaks_a_rule_breaks_it_by_any_name(text: str, old: str, new: str, message: str) -> None:
    """Also where the same is kept that is right, and has been refused before."""
    right, wrong = parse_scheduled(text), parse_scheduled(text.replace(old, new, 1))
    names = other_names(right, wrong)
    for kernel in (right, renamed(right, names)):
        with suppress(VerificationError):  # some are right only elsewhere
            verify_scheduled(kernel)
    with pytest.raises(VerificationError, match=message) as first:
        verify_scheduled(wrong)
    with pytest.raises(VerificationError) as second:
        verify_scheduled(renamed(wrong, names))
    assert renamed(str(second.value), {other: name for name, other in names.items()}) == str(first.value)


@pytest.mark.parametrize(("name", "grad"), EXAMPLES)
def test_rules_read_nothing_that_is_left_out(name: str, grad: bool, looked_at: list[str]) -> None:
    given, programs = module_of(CHECKOUT / "examples" / f"{name}.emb", grad)
    numbers = iter(range(2, 1_000_000))
    hidden = {each: Unreadable() for each in UNREAD[ScheduledKernel] - {"name", "facts"}}
    extents = Extents(given)
    for kernel in programs:
        plain = with_numbers(kernel, lambda number: number if number in (0.0, 1.0) else float(next(numbers)))
        forget()
        verify_scheduled(replace(plain, **hidden))
        assert extents.unproved(replace(plain, **hidden)) == ()
    assert len(looked_at) >= 2 * len(programs)


def judged(given: tuple[Fact, ...], before: tuple[ScheduledKernel, ...], kernel: ScheduledKernel) -> tuple[Any, ...]:
    """What the rules say of a kernel behind others: what is wrong, or what is not shown."""
    forget()
    extents = Extents(given)
    for each in before:
        extents.unproved(each)
    found: list[Any] = []
    for look in (kernels._verify, lambda kernel: len(extents.unproved(kernel))):
        try:
            found.append(look(kernel))
        except (VerificationError, LookupError, ValueError, AttributeError) as error:  # of what is no program at all
            found.append(type(error))
    return tuple(found)


@pytest.mark.parametrize(
    "count", [8, pytest.param(60, marks=pytest.mark.sweep), pytest.param(300, marks=pytest.mark.exhaustive)]
)
@pytest.mark.parametrize(("name", "grad"), EXAMPLES)
def test_rules_say_the_same_of_mutants_by_any_name(name: str, grad: bool, count: int) -> None:
    draw, verdicts = Random(count), set()
    given, programs = module_of(CHECKOUT / "examples" / f"{name}.emb", grad)
    names = other_names(*programs)
    other_given, other_programs = renamed(given, names), renamed(programs, names)
    for number in range(count):
        place, (one, two) = draw.randrange(len(programs)), draw.sample(sorted(names), 2)
        mutant = draw.choice(list(others(programs[place], (one, two)))) if number else programs[place]
        other = with_numbers(renamed(mutant, names), lambda number: number if number in (0.0, 1.0) else -number)
        verdict = judged(given, programs[:place], mutant)
        assert judged(other_given, other_programs[:place], other) == verdict
        verdicts.add(verdict)
    assert (None, 0) in verdicts
    assert len(verdicts) > 1, "some are not right"


def test_of_every_field_it_is_said_what_it_holds() -> None:
    classes = {each for each in vars(ir).values() if isinstance(each, type) and issubclass(each, Node)} - {Node}
    assert {Compute, Accumulator, Accumulate, Store, ScheduledKernel} < classes
    for each in classes | {Count}:
        assert fields_of(each)
    kinds = (outlines.AS_IT_IS, outlines.NAMES, outlines.ROWS_OF_NAMES, outlines.COMPUTED, outlines.NESTED)
    assert len(frozenset().union(*kinds)) == sum(map(len, kinds))


def test_a_field_of_which_nothing_is_said_is_refused() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Sleep(Node):
        rounds: int

    with pytest.raises(TypeError, match="what rules read in rounds of Sleep is not said"):
        fields_of(Sleep)
