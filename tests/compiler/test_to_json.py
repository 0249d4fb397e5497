"""A compilation's JSON grows as its text does."""

import json

import explorer

STAGES = ("graph", "loops", "kernels", "cuda")


def answer(operands: int) -> str:
    """That of a norm of so many operands."""
    rows = ", ".join(("E[h]", "R[r]", "E[t]")[number % 3] for number in range(operands))
    head = "dim D = 16\nscore S(h: entity, r: relation, t: entity):\n    param E[entity, D], R[relation, D]\n"
    compilation = explorer.compile(f"{head}    return norm(concat({rows}), 2)\n", on_demand=True)
    return json.dumps(compilation.to_json(STAGES))


def test_a_line_does_not_name_all_operations_of_a_sum_again() -> None:
    """Of 220 operands it had 83 MB with its snapshots; its lines' origins are said once each now."""
    small, large = len(answer(30)), len(answer(60))
    assert large < 2.5 * small
    assert large < 1 << 20
