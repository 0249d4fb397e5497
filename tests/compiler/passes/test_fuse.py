"""One nest a score: rows only for what would else be computed twice."""

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


def test_a_scores_gradients_are_said_to_stay_in_the_graph():
    report = compiled(HEAD.format("norm(E[h] @ P[r] + R[r])"), options={"grad": "true"}).stages["loops"].passes[0]
    assert report.refusals == (
        "the gradients of a score stay in the graph: only those of layers become kernels so far",
    )
