"""What negatives share is computed once for their triple (semantics: the rows hoisted a model)."""

import pytest

from tests.compiler.models import compiled

HEAD = """dim D = 4
score Model(h: entity, r: relation, t: entity):
    param E[entity, D]
    param R[relation, D]
    param P[relation, D, D]
    return {}
"""


def graph_of(expression, negatives):
    return compiled(HEAD.format(expression), options={"negatives": negatives}).stages["graph"]


@pytest.mark.parametrize(("negatives", "shared"), [("tail:3", "h, r"), ("head:3", "r, t")])
def test_a_difference_adds_the_shared_rows_first(negatives, shared):
    stage = graph_of("norm(E[h] - E[t] + R[r], 1)", negatives)
    sums = [line.text for line in stage.lines if " add " in line.text or " sub " in line.text]
    assert "batch [D]" in sums[0]
    assert f"{{{shared}}}" in sums[0]
    assert len(sums) == 2


def test_two_products_with_one_row_become_one(golden):
    stage = graph_of("2 * dot(E[h], E[t]) + dot(E[t] - E[h], R[r])", "tail:3")
    golden(stage.text)


def test_a_matrix_moves_to_the_shared_side(golden):
    stage = graph_of("dot(E[h] @ P[r], E[t])", "head:3")
    assert not any("bmv" in line.text and "negative" in line.text for line in stage.lines)
    golden(stage.text)


def test_nothing_changes_without_negatives():
    stage = graph_of("dot(E[h] @ P[r], E[t])", "none")
    report = next(report for report in stage.passes if report.name == "reassociate")
    assert not report.changed


def test_what_is_new_belongs_to_the_operations_taken_apart():
    compilation = compiled(HEAD.format("norm(E[h] - E[t] + R[r], 1)"), options={"negatives": "tail:3"})
    labels = {operation.span: operation.label for operation in compilation.operations}
    sums = [line for line in compilation.stages["graph"].lines if " add " in line.text]
    assert {labels[span] for span in sums[0].origin} == {"-", "+"}
