"""The story of one operation: its own lines alone, and of a pass what speaks of it and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.node import Line
from explorer.compiler.pipeline import STAGES
from explorer.compiler.story.mix import instruction_mix
from explorer.compiler.story.sources import STEPS, meaning_of, source_of
from explorer.compiler.story.story import MOST_LINES, story_json

ALL = [spec.name for spec in STAGES if not spec.on_demand]
CASES: list[tuple[str, dict[str, Any]]] = [
    ("kge/transr", {}),
    ("kge/transr", {"negatives": "tail:4"}),
    ("rgnn/rgat", {"grad": True}),
    ("rgnn/hgt", {}),
    ("embedding/sls", {"opt": 3}),
]


def compiled(root: Path, name: str, **options: Any) -> Compilation:
    return explorer.compile((root / "examples" / f"{name}.emb").read_text(), options=options)


def story(compilation: Compilation, label: str, place: int = 0) -> dict[str, Any]:
    found = [operation.id for operation in compilation.operations if operation.label == label]
    told = story_json(compilation, found[place], ALL)
    assert told is not None
    return told


def hop(told: dict[str, Any], stage: str, name: str) -> dict[str, Any]:
    (found,) = (each for each in told["stages"] if each["name"] == stage)
    (step,) = (each for each in found["hops"] if each["pass"] == name)
    return dict(step)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "options"), CASES)
def test_every_operation_has_its_own_lines_and_no_other(root: Path, name: str, options: dict[str, Any]) -> None:
    compilation = compiled(root, name, **options)
    for operation in compilation.operations:
        told = story_json(compilation, operation.id, ALL)
        assert told is not None
        assert [stage["name"] for stage in told["stages"]] == ALL
        (line,) = (line for line in told["text"] if line["words"])
        start, end = line["words"][0]
        assert line["text"][start:end] == compilation.text.split("\n")[operation.span.line - 1][start:end] != ""
        for stage in told["stages"]:
            lines = compilation.stages[stage["name"]].lines
            own = [number for number, each in enumerate(lines, 1) if each.origin and each.origin[0] == operation.span]
            assert stage["is_own"] == bool(own)
            numbers = [shown["number"] for shown in stage["lines"]]
            if own:
                assert (numbers, stage["total"]) == (own[:MOST_LINES], len(own))
            else:
                assert all(operation.span in lines[number - 1].origin for number in numbers)


def test_a_pass_says_of_an_operation_what_it_saved_of_it(root: Path) -> None:
    compilation = compiled(root, "rgnn/rgat")
    first, second = story(compilation, "dot"), story(compilation, "dot", 1)
    assert hop(first, "graph", "compact")["said"] == ["%8 from edge to src_pair: it depends on src and etype alone"]
    assert hop(second, "graph", "compact")["said"] == ["%10 from edge to dst_pair: it depends on dst and etype alone"]
    saved = {entry["what"]: (entry["before"], entry["after"]) for entry in hop(second, "graph", "compact")["saved"]}
    assert saved == {"rows": (620_232, 161_260), "FLOP": (620_232 * 128, 161_260 * 128)}
    assert hop(second, "graph", "compact")["source"] == "Hector §3.2.2"
    assert hop(second, "graph", "reorder")["touched"]


def test_a_refusal_is_told_of_its_operation_alone(root: Path) -> None:
    compilation = compiled(root, "rgnn/rgat")
    refused = hop(story(compilation, "dot"), "graph", "reorder")
    assert not refused["touched"]
    assert refused["refused"][0].startswith("%8 keeps its order")
    assert hop(story(compilation, "dot", 1), "graph", "reorder")["refused"] == []


def test_a_name_that_two_kernels_have_is_that_of_the_one_that_was_spoken_of(root: Path) -> None:
    compilation = compiled(root, "rgnn/hgt")
    products = [operation.id for operation in compilation.operations if operation.label == "@"]
    said = [hop(story(compilation, "@", place), "loops", "interchange")["said"] for place in range(len(products))]
    walked = [[sentence[-1] for sentence in sentences] for sentences in said]
    assert walked == [["K"], ["Q"], ["V"], ["A"], ["M"]]


def test_what_is_fused_takes_no_memory(root: Path) -> None:
    compilation = compiled(root, "rgnn/rgat")
    (saved,) = hop(story(compilation, "leaky_relu"), "loops", "fuse")["saved"]
    assert saved == {"what": "bytes in memory", "before": 4 * 620_232, "after": 0}
    (saved,) = hop(story(compiled(root, "kge/transr"), "P[r]"), "loops", "fuse")["saved"]
    assert saved == {"what": "bytes in memory", "before": 4 * 64 * 64, "after": 0}  # of one triple


def test_a_kernel_s_sentence_is_told_where_the_kernel_has_lines(root: Path) -> None:
    compilation = compiled(root, "rgnn/rgat")
    said = hop(story(compilation, "leaky_relu"), "loops", "fuse")["said"]
    assert said == ["RGAT_3: template traversal over node, stores 1 value"]
    assert all("RGAT_3" in text for text in hop(story(compilation, "leaky_relu"), "kernels", "schedule")["said"])


def test_what_it_takes_is_predicted_by_published_figures(root: Path) -> None:
    found = story(compiled(root, "kge/transr"), "P[r]")["predicted"]
    assert (found["flop"], found["bytes"], found["limit"]) == (0, 4 * 64 * 64, "memory")  # one matrix a triple
    assert found["seconds"] == pytest.approx(4 * 64 * 64 / 3.35e12)
    product = story(compiled(root, "kge/transr", arch="sm_80"), "@")["predicted"]
    assert (product["flop"], product["bytes"], product["limit"]) == (8192, 0, "arithmetic")  # its operands are at hand
    assert product["seconds"] == pytest.approx(8192 / 19.5e12)
    weighed = story(compiled(root, "rgnn/rgat"), "dot", 1)["predicted"]  # reads a product once a pair, stores a number
    assert weighed["flop"] == 161_260 * 128
    assert weighed["bytes"] >= 161_260 * 4


def test_there_is_no_story_of_what_is_no_operation(root: Path) -> None:
    assert story_json(compiled(root, "kge/transr"), 99, ALL) is None


def test_every_pass_says_what_it_does_and_the_papers_own_theirs() -> None:
    sources = {name: source_of(step, spec) for name, (step, spec) in STEPS.items()}
    assert sources["compact"] == "Hector §3.2.2"
    assert sources["bufferize"] == "Ember §7.2"
    assert sources["fuse"] == "cuKE §V-B"
    assert sources["common_subexpressions"] == ""
    assert all(len(meaning_of(step)) > 20 for step, _ in STEPS.values())


def test_instructions_are_counted_by_what_they_are_for() -> None:
    texts = ["/*0010*/       LDG.E R2, desc[UR4][R2.64];", "/*0020*/  @!P0 EXIT;", "/*0030*/  FFMA R1, R2, R3, R1;"]
    texts += ["/*0040*/ HMMA.1688.F32.TF32 R4, R2, R3, R4;", "/*0050*/ IMAD.WIDE R2, R17, 0x4, R2;", ".L_x_1:"]
    mix = instruction_mix([Line(f"    {text}") for text in texts])
    assert mix == dict.fromkeys(
        ["global memory", "branches", "float arithmetic", "tensor cores", "addresses and integers"], 1
    )
