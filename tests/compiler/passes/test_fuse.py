"""One nest a score: rows only for what would else be computed twice."""

from explorer.compiler.ir.loops import Row, result_of
from explorer.compiler.ir.node import walk
from explorer.compiler.ir.statements import names_read
from tests.compiler.models import compiled

HEAD = """dim D = 4, K = 3
score Model(h: entity, r: relation, t: entity):
    param E[entity, D]
    param R[relation, K]
    param P[relation, D, K]
    param Q[relation, K, K]
    return {}
"""


def fused(expression):
    return "\n".join(line.text for line in compiled(HEAD.format(expression)).stages["loops"].passes[0].after)


def test_a_projection_read_once_has_no_row():
    assert "row " not in fused("norm(E[h] @ P[r] + R[r])")


def test_a_projection_that_is_projected_again_has_one():
    assert fused("norm(E[h] @ P[r] @ Q[r])").count("row ") == 1


def test_a_projection_that_two_sums_read_has_one():
    text = HEAD.format("norm(y) + dot(y, R[r])").replace("    return", "    y = E[h] @ P[r]\n    return")
    loops = "\n".join(line.text for line in compiled(text).stages["loops"].passes[0].after)
    assert loops.count("row ") == 1


def test_a_scalar_is_computed_outside_the_loop_that_reads_it(golden):
    golden(fused("norm(dot(E[h], E[t]) * R[r])"))


def test_a_tensor_may_have_the_name_of_anything_the_compiler_names():
    text = """dim d = 4
score out(b: entity, u: relation, k: entity):
    param B[entity, d]
    param ih[relation, d]
    return dot(B[b] * ih[u], B[k])
"""
    assert compiled(text).stages["dlc"].available


def test_a_matrix_gets_its_gradient_in_its_own_iteration_without_a_matrix_for_each_triple():
    options = {"grad": "true", "negatives": "tail:2"}
    module = compiled(HEAD.format("norm((E[h] - E[t]) @ P[r] + R[r])"), options=options).stages["loops"].program
    shapes = {b.name: b.extents for k in module.programs for b in k.buffers if b.kind in ("output", "temporary")}
    assert shapes.pop("grad_P") == ("relation", "D", "K")
    assert not [extents for extents in shapes.values() if "D" in extents and "K" in extents]
    rows = [node.extents for kernel in module.programs for node in walk(kernel) if isinstance(node, Row)]
    assert not [extents for extents in rows if len(extents) > 1]


def test_a_row_of_a_matrix_is_read_without_a_division():
    """The element d of a matrix's second row lies at D + d of all its elements: there it is not divided back."""
    text = HEAD.format("sum(M[r][0] * E[h] + M[r][1] * E[t])").replace(
        "    return", "    param M[relation, 2, D]\n    return"
    )
    for grad in ("false", "true"):
        loops = "\n".join(line.text for line in compiled(text, options={"grad": grad}).stages["loops"].lines)
        assert "M[ir, 1, " in loops
        assert not {"//", "%"} & {*loops.split()}


def test_a_column_of_one_is_read_without_a_division():
    loops = fused("sum(reshape(reshape(E[h], D, 1) * 2, D) * E[t])")
    assert not {"//", "%"} & {*loops.split()}


def test_nothing_is_computed_that_nothing_reads():
    kernel = compiled(HEAD.format("sum(P[r][1] * R[r])")).stages["loops"].program
    assert all(result in names_read(kernel.body) for node in walk(kernel) if (result := result_of(node)) is not None)
