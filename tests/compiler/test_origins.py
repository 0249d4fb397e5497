"""Every line is of one operation of the model, or of what a pass made for several; others may contribute to it.

What an operation has no part in stays as it is when the operation becomes another one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import explorer
from explorer.compiler.ir.node import Made, Span, made, merge, serving
from explorer.compiler.pipeline import STAGES
from explorer.compiler.to_json import compilation_json, with_origins
from tests.compiler.one_operation import change, strays
from tests.compiler.swaps import EXAMPLES, compiled

MADE = ("graph", "loops", "slc", "slc.opt3", "dlc", "kernels", "cuda")
MOST_HELPERS = 0.3
"""Of all lines of a stage, how many may be of no operation but of what a pass made."""
MORE_HELPERS = {
    ("rescal", "kernels"): (0.41, "two of its three kernels group the rows by r"),
    ("rescal", "cuda"): (0.37, "two of its three kernels group the rows by r"),
    ("transr", "kernels"): (0.35, "two of its three kernels group the rows by r"),
    ("transr", "cuda"): (0.31, "two of its three kernels group the rows by r"),
    ("rgcn", "kernels"): (0.37, "five of its eight kernels group pieces of rows by their edges' type"),
    ("rgcn", "cuda"): (0.37, "five of its eight kernels group pieces of rows by their edges' type"),
}
"""By example and stage how many more, and why: kernels that look at a graph or a batch are long."""
DIVIDED = "a softmax is divided by its sum behind the sum of products (divide_last), which this ends"
MOVED = "the sum is taken before the product with a matrix (reorder), which this ends"
READ_ONCE = "another operation reads the same, and its value is called otherwise where it reads that alone"
OTHER_LINES = {
    ("hgt", "17: sum -> max"): (MADE, DIVIDED),
    ("hgt", "17: * -> /"): (MADE, DIVIDED),
    ("rgat", "17: * -> /"): (MADE, DIVIDED),
    ("rgat_heads", "14: sum -> max"): (MADE, DIVIDED),
    ("rgat_heads", "14: * -> /"): (MADE, DIVIDED),
    ("rgcn", "9: sum -> max"): (MADE, MOVED),
    ("rgcn", "9: * -> /"): (MADE, MOVED),
    ("rgcn", "9: + -> -"): (("kernels", "cuda"), "the kernel of the other product begins only what is added"),
    ("spmm_coo", "7: sum -> max"): (("kernels", "cuda"), "atomics only sum, so that rows are shared out otherwise"),
    ("mp_sigmoid", "8: y[u] -> ytwin[u]"): (("cuda",), READ_ONCE),
    ("transf", "8: E[h] -> Etwin[h]"): (("kernels", "cuda"), READ_ONCE),
    ("transf", "8: E[t] -> Etwin[t]"): (("kernels", "cuda"), READ_ONCE),
    ("transh", "11: w[r] -> wtwin[r]"): (("kernels", "cuda"), READ_ONCE),
}
"""By example and change, the stages in which it changes lines of operations that have no part in it, and why."""
IN_ANOTHER = {
    ("rgcn", "+", "kernels"): "the second product's kernel goes on with the sums of the first, and adds so",
    ("rgcn", "+", "cuda"): "the second product's kernel goes on with the sums of the first, and adds so",
    ("transr", "R[r]", "cuda"): "loaded in the line that keeps it for a tile's rows, which is the product's",
    (
        "rgat",
        "w_s[e.etype]",
        "cuda",
    ): "loaded in the line that keeps it for a tile's rows, which is the product's",
}
"""By example, operation and stage, what it has in place of lines of its own."""
every_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
H, T, R = Span(1, 1, 1, 2), Span(1, 3, 1, 4), Span(1, 5, 1, 6)


@pytest.mark.sampled(3)
@every_example
def test_an_operation_that_changes_leaves_the_lines_of_others(path: Path) -> None:
    compilation = compiled(path)
    stray: dict[tuple[str, str], set[str]] = {}
    for operation in compilation.operations:
        made = change(compilation.text, operation)
        for stage in MADE if made is not None else ():
            if lines := strays(compilation, operation, made, stage):
                key = path.stem, f"{operation.span.line}: {made.what}"
                assert stage in OTHER_LINES.get(key, ((), ""))[0], (key, stage, lines)
                stray.setdefault(key, set()).add(stage)
    assert stray == {key: set(stages) for key, (stages, _) in OTHER_LINES.items() if key[0] == path.stem}


@every_example
def test_few_lines_are_of_no_operation_but_of_a_pass(path: Path) -> None:
    passes = {step.__name__ for spec in STAGES for step in spec.passes}
    for stage in MADE:
        lines = compiled(path).stages[stage].lines
        helpers = [line.origin[0] for line in lines if line.origin and isinstance(line.origin[0], Made)]
        assert {each.by for each in helpers} <= passes
        most, _ = MORE_HELPERS.get((path.stem, stage), (MOST_HELPERS, ""))
        assert len(helpers) <= most * len(lines), f"{stage}: {len(helpers)} of {len(lines)}"


@every_example
def test_every_operation_has_lines_of_its_own(path: Path) -> None:
    """And none of them is another's, since a line has one primary. An operation that reads what another reads has the
    other's lines; a constant is in those of the operation that it is an operand of."""
    compilation = compiled(path)
    for stage in MADE:
        lines = [line.origin for line in compilation.stages[stage].lines if line.origin]
        own = {origin[0] for origin in lines}
        without = [each for each in compilation.operations if each.span not in own]
        for operation in without:
            shared = [origin[0] for origin in lines if operation.span in origin]
            twins = {each.span for each in compilation.operations if each.label == operation.label}
            is_constant = operation.op == "constant" and stage != "graph"
            assert shared, f"{stage}: {operation.label} has no line"
            assert is_constant or twins & {*shared} or (path.stem, operation.label, stage) in IN_ANOTHER, (
                operation.label
            )
    assert {key for key in IN_ANOTHER if key[0] == path.stem} <= {
        (path.stem, each.label, stage)
        for stage in MADE
        for each in compilation.operations
        if each.span not in {line.origin[0] for line in compilation.stages[stage].lines if line.origin}
    }


def test_each_operation_of_transr_has_what_it_is_for() -> None:
    compilation = compiled(next(path for path in EXAMPLES if path.stem == "transr"))
    labels = {operation.span: operation.label for operation in compilation.operations}
    kernels: dict[str, Counter[str]] = {}
    for line in compilation.stages["kernels"].lines:
        if line.text.startswith("scheduled "):
            counts = kernels[line.text.split()[1]] = Counter()
        elif line.origin:
            first = line.origin[0]
            counts[first.name if isinstance(first, Made) else labels[first]] += 1
    grouping = {"group the rows by r"}
    assert {*kernels["TransR_group_tile"]} == {*kernels["TransR_group_order"]} == grouping
    product = kernels["TransR_product"]
    assert {*product} == {*labels.values()}
    assert product["@"] < 0.6 * sum(product.values())  # its tiles, slabs and sums, and no gather and no end
    assert max(product["E[h]"], product["E[t]"], product["R[r]"]) <= 6
    assert product["P[r]"] <= 14
    for line in compilation.stages["kernels"].lines:
        if line.origin and labels.get(line.origin[0]) == "P[r]":  # type: ignore[call-overload]
            assert "P[" in line.text or line.text.lstrip().startswith(("for ", "index ")), line.text


def test_the_first_primary_stays_when_origins_are_merged() -> None:
    assert merge((T,), (H, R)) == (T, H, R)
    assert merge((), (R, H), (T,)) == (R, H, T)
    assert merge(made("clear", "schedule", (T, H)), (R,)) == (Made("clear", "schedule"), H, T, R)
    assert merge((T,), made("clear", "schedule", (H,))) == (T, H)


def test_what_serves_one_operation_is_of_that_and_of_the_pass_elsewhere() -> None:
    assert serving("loop", "fuse", [(T, H), (T, R)]) == (T, H, R)
    assert serving("loop", "fuse", [(T, H), (R,)]) == (Made("loop", "fuse"), H, T, R)
    assert serving("loop", "fuse", [(T,), (R,)], own=[(R,)]) == (R, T)
    assert serving("loop", "fuse", [made("tile", "schedule", (T,))]) == (Made("tile", "schedule"), T)


def test_the_json_of_a_line_says_whose_it_is_and_what_made_it() -> None:
    text = "dim D = 4\nscore S(h: entity, r: relation, t: entity):\n    param E[entity, D]\n"
    compilation = explorer.compile(f"{text}    return dot(E[h], 2 * E[t])", on_demand=True)
    found = compilation_json(compilation, ["loops"])
    labels = {operation["id"]: operation["label"] for operation in found["operations"]}
    (stage,) = found["stages"]
    lines = {line["text"].strip(): line for line in with_origins(stage, stage["lines"])}
    loop = lines["parallel for b in 0..B"]
    assert loop["made"] == {"name": "loop over B", "by": "fuse"}
    assert {labels[each] for each in loop["operations"]} == {*labels.values()}
    (scaled,) = (line for text, line in lines.items() if " = 2.0 * " in text)
    assert scaled["made"] is None
    assert [labels[each] for each in scaled["operations"]] == ["*", "2"]
