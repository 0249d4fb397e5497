"""Rows that several loops want are read once: before a loop over a segment, or by the first loop of an iteration."""

from explorer.compiler.ir import loops
from explorer.compiler.ir.node import walk
from tests.compiler.layers import report
from tests.compiler.ops import FOLDER, compiled

DOT = "sum(dot(x[v], y[u]) * {} for u in A.row(v))"


def nests(body, **options):
    """The loops of an op over a square matrix, and what the pass said."""
    text = "dim D = 4\nop f(A: csr[node, node]):\n    param x[node, D], y[node, D], W[node, D, D]\n"
    text += f'    for v in A.rows():\n        v["z"] = {body}\n    return v["z"]\n'
    compilation = compiled(text, **options)
    (kernel,) = compilation.stages["loops"].program.programs
    return kernel, report(compilation, "share_rows", "loops")


def loads(kernel, table):
    return [node for node in walk(kernel) if isinstance(node, loops.Load) and node.buffer == table]


def segment_loop(kernel):
    return next(node for node in walk(kernel) if isinstance(node, loops.For) and node.lower != 0)


def test_message_passing(golden):
    compilation = compiled((FOLDER / "mp.emb").read_text())
    golden(compilation.stages["loops"].text)


def test_fused_sddmm_and_spmm(golden):
    compilation = compiled((FOLDER / "mp_sigmoid.emb").read_text())
    golden(compilation.stages["loops"].text)


def test_a_neighbour_s_row_is_read_by_the_first_loop_and_kept():
    kernel, said = nests(DOT.format("y[u]"))
    assert len(loads(kernel, "y")) == 1
    assert "y[icol, ...] is read once: the first loop keeps it for the later ones" in said.summary


def test_a_vertex_s_own_row_is_read_before_the_loop_over_its_neighbours():
    kernel, said = nests(DOT.format("y[u]"))
    (own,) = loads(kernel, "x")
    assert own not in list(walk(segment_loop(kernel)))
    assert "x[n, ...] is read once, before the loop over z" in said.summary


def test_a_row_that_one_loop_reads_stays_where_it_is():
    kernel, said = nests("sum(y[u] for u in A.row(v))")
    assert not any(isinstance(node, loops.Row) for node in walk(kernel))
    assert not said.changed


def test_a_matrix_larger_than_what_is_kept_is_read_where_it_is_used():
    text = "dim N = 64\nop f(A: csr[node, node]):\n    param x[node, N], W[node, N, N]\n"
    text += '    for v in A.rows():\n        v["z"] = sum(x[u] @ W[v] for u in A.row(v))\n    return v["z"]\n'
    compilation = compiled(text)
    (kernel,) = compilation.stages["loops"].program.programs
    (matrix,) = loads(kernel, "W")
    assert matrix in list(walk(segment_loop(kernel)))


def test_what_is_written_is_never_kept():
    kernel, _ = nests("mean(y[u] for u in A.row(v))")
    assert [load.buffer for load in loads(kernel, "out")] == ["out"]
