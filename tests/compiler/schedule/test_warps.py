"""The template that fits every program: which lanes do what, where rows live, and what it refuses."""

from dataclasses import replace

import pytest

from explorer.compiler.ir.kernels import Loop, Tile
from explorer.compiler.ir.node import operations_of, walk
from explorer.compiler.ir.print.kernels import print_scheduled
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.passes.loops.cleared import clearing_kernel
from explorer.compiler.report import Report
from explorer.compiler.schedule import program
from explorer.compiler.schedule.warps.strategy import schedule_warps
from explorer.compiler.unsupported import Unsupported
from tests.compiler.codegen import kernels
from tests.compiler.models import compiled

KERNELS = {
    "transe": kernels.transe(512),
    "transe of one": kernels.transe(1),
    "transr": kernels.transr(64, 64),
    "transr of odd sizes": kernels.transr(1000, 33),
    "transr beyond registers": kernels.transr(33, 3000),
    "rescal with negatives": kernels.rescal_tails(100, 7),
    "two products": kernels.two_products(33, 100),
    "not interchanged": kernels.not_interchanged(40, 50),
    "awkward names": kernels.awkward_names(),
    "halves": kernels.halves(20),
    "a matrix a triple": kernels.outer_rows(6, 40),
}


def scheduled(kernel):
    made = schedule_warps(kernel, Report.silent())
    verify_scheduled(made)
    return made


def loops_of(kernel):
    return {node.variable: node for node in walk(scheduled(kernel)) if isinstance(node, Loop)}


def tiles(kernel, memory):
    return {node.name for node in walk(scheduled(kernel)) if isinstance(node, Tile) and node.memory == memory}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_every_statement_is_legal_and_keeps_its_origin(kernel):
    origins = operations_of(*(node.origin for node in walk(kernel)))
    assert operations_of(*(node.origin for node in walk(scheduled(kernel)))) == origins


def test_the_schedule_reads_from_top_to_bottom():
    assert scheduled(kernels.transe(512)).schedule == (
        "bind d to lane",
        "vectorise d by 4",
        "split b by 4 into b0, b1",
        "bind b0 to block",
        "bind b1 to warp",
        "reduce s over 32 lanes",
        "unroll d",
    )


@pytest.mark.parametrize(
    ("size", "step", "width"), [(512, 4, 0), (100, 4, 16), (64, 4, 8), (16, 4, 4), (6, 2, 4), (5, 1, 4), (33, 1, 16)]
)
def test_rows_go_in_vectors_and_short_ones_share_a_warp(size, step, width):
    loop = loops_of(kernels.transe(size))["d"]
    assert (loop.step, loop.bind, loop.width) == (step, "lane", width)


@pytest.mark.parametrize(("size", "asked", "lanes"), [(48, 4, 4), (48, 1, 2), (41, 8, 8), (512, 2, 2), (6, 32, 32)])
def test_fewer_lanes_than_a_row_has_vectors_go_round(size, asked, lanes):
    """Each lane then has several vectors of each row, and a warp more iterations."""
    text = TRANSE.format(D=size)
    kernel = compiled(text, schedule={"TransE.lanes": asked, "TransE.rounds": 32}).stages["kernels"].program
    (loop,) = [node for node in walk(kernel) if isinstance(node, Loop) and node.extent == "D"]
    assert loop.width == (lanes if lanes < 32 else 0)
    assert compiled(text, schedule={"TransE.lanes": asked}).schedule["TransE.lanes"] == lanes


def test_lanes_that_keep_rows_are_as_many_as_have_registers_for_them():
    """Two rows of 512 are 64 floats of each of 16 lanes."""
    for asked, lanes in ((32, 32), (16, 16), (8, 16), (2, 16)):
        assert compiled(KEPT, schedule={"Kept.lanes": asked}).schedule["Kept.lanes"] == lanes
    assert compiled(KEPT, schedule={"Kept.lanes": 2, "Kept.kept": 0}).schedule["Kept.lanes"] == 2


def test_rows_that_lanes_read_from_each_other_are_shared_and_in_step():
    kernel = kernels.two_products(33, 100)
    assert tiles(kernel, "register") == {"z"}
    assert tiles(kernel, "shared") == {"y"}
    text = [line.text.strip() for line in print_scheduled(scheduled(kernel))]
    assert text.count("barrier warp") == 1


@pytest.mark.parametrize(
    ("columns", "memory", "warps"), [(2048, "register", 4), (2049, "shared", 5), (6144, "shared", 2)]
)
def test_rows_move_to_shared_memory_and_blocks_shrink(columns, memory, warps):
    kernel = kernels.transr(8, columns)
    assert "y" in tiles(kernel, memory)
    assert scheduled(kernel).threads == 32 * warps


KEPT = """dim D = 512
score Kept(h: entity, r: relation, t: entity):
    param E[entity, D], w[relation, D]
    return dot(E[h] - dot(w[r], E[h]) * w[r], E[t])
"""


TRANSE = """dim D = {D}
score TransE(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D]
    return norm(E[h] + R[r] - E[t], 2)
"""


@pytest.mark.parametrize(("text", "resident"), [(KEPT, 4), (KEPT.replace(" - dot(w[r], E[h]) * w[r]", ""), 0)])
def test_lanes_that_keep_rows_may_have_the_registers_for_them(text, resident):
    """So few blocks a multiprocessor that each has 128; where nothing is kept the assembler chooses."""
    assert compiled(text).stages["kernels"].program.resident == resident


def test_rows_too_large_for_a_block_are_refused_in_a_sentence():
    with pytest.raises(Unsupported, match=r"take 49,156 bytes, and a block has 49,152 bytes of shared"):
        scheduled(kernels.transr(8, 12289))


def test_rows_too_large_for_a_block_of_any_gpu_have_one_warp_in_what_this_gpu_gives():
    text = """dim D = 2, K = 13000
score Long(h: entity, r: relation, t: entity):
    param E[entity, D], P[relation, D, K], Q[relation, K, D]
    return dot(tanh(E[h] @ P[r]) @ Q[r], E[t])
"""
    stages = compiled(text).stages
    made, said = stages["cuda"].program, stages["kernels"].passes[-1].refusals
    assert not any("49,152" in each for each in said)  # what is refused is of the kernel that was made
    assert [(launch.threads, launch.shared_bytes) for launch in made.launches] == [(32, 52_000)]
    longer = compiled(text, sizes={"K": 45_000}, options={"arch": "sm_80"}).stages
    assert "in the GPU's memory, larger than a block's shared memory" in longer["kernels"].passes[-1].summary
    # One nest, and two outputs, of which the first is the result: a module.
    assert longer["kernels"].text.startswith("module Long  result out\n")
    assert [launch.shared_bytes for launch in longer["cuda"].program.launches] == [0]


def test_a_program_that_needs_more_than_any_gpu_has_is_scheduled_once(monkeypatch):
    text = """dim D = 2, K = 13000
score Long(h: entity, r: relation, t: entity):
    param E[entity, D], P[relation, D, K], Q[relation, K, D]
    return dot(tanh(E[h] @ P[r]) @ Q[r], E[t])
"""
    scheduled_nests, within = [], program._each_scheduled
    monkeypatch.setattr(program, "_each_scheduled", lambda *given: scheduled_nests.append(given) or within(*given))
    assert compiled(text).stages["kernels"].available
    assert len(scheduled_nests) == 1


def test_a_kernel_that_adds_to_rows_of_others_is_atomic_and_cleared_first():
    loop = kernels.loop("d", 8, kernels.load("x", "X", "z", "d"), kernels.accumulate("out", "copy", "x", at=("i", "d")))
    buffers = [
        *(kernels.buffer("index", "row", "nonzeros"), kernels.buffer("param", "X", "nonzeros", 8)),
        kernels.buffer("output", "out", "rows", 8),
    ]
    kernel = kernels.kernel_over("z", "nonzeros", "Scatter", {}, buffers, kernels.load("i", "row", "z"), loop)
    assert clearing_kernel(kernel) is None
    with pytest.raises(Unsupported, match="elements of out that belong to other iterations"):
        scheduled(kernel)
    in_order = replace_parallel(kernel)
    text = [line.text.strip() for line in print_scheduled(scheduled(in_order))]
    assert "atomic out[i, d] += x" in text
    clear = clearing_kernel(in_order)
    assert any(line.text.endswith("out[i1, i2] = 0.0") for line in print_scheduled(scheduled(clear)))


def replace_parallel(kernel):
    return replace(kernel, body=(replace(kernel.body[0], parallel=False),))


def test_a_kernel_without_a_loop_over_the_batch_is_refused():
    kernel = kernels.transe(8)
    with pytest.raises(Unsupported, match="does not end in a loop over the batch"):
        schedule_warps(replace(kernel, body=()), Report.silent())
    with pytest.raises(Unsupported, match="more than one parallel loop"):
        schedule_warps(replace(kernel, body=kernel.body * 2), Report.silent())


SHORT = """dim D = {D}, N = 6
score Short(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D], omega[N, 3], b[N], w[N, D]
    v = reshape(concat(E[h], R[r], E[t]), 3, D)
    return sum(sum(tanh(omega @ v + b) * w))
"""


@pytest.mark.parametrize("size", [9, 41, 80, 256])
def test_lanes_fill_a_row_at_any_place_and_take_short_sums_whole(size):
    """What is stored behind something else of a row is each lane's own too; and a sum of three numbers is not worth
    the exchanges of a warp, where an iteration around it is one of many."""
    kernel = compiled(SHORT.format(D=size)).stages["kernels"].program
    loops = [node for node in walk(kernel) if isinstance(node, Loop)]
    unshared = [loop for loop in loops if not loop.bind and loop.extent == "D"]
    assert not unshared
    assert {loop.bind for loop in loops if loop.extent == 3} == {""}
    fills = [loop for loop in loops if loop.bind == "lane" and loop.body[-1].target == "q"]
    assert len(fills) == 3
    assert {loop.step for loop in fills} == ({1} if size in (9, 41) else {4})


def test_lanes_share_long_sums_of_few_iterations():
    text = """dim K = 640, D = 3
score Long(h: entity, r: relation, t: entity):
    param E[entity, K], W[D, K]
    return sum(tanh(W @ (E[h] * E[t])))
"""
    loops = [node for node in walk(compiled(text).stages["kernels"].program) if isinstance(node, Loop)]
    assert {loop.bind for loop in loops if loop.extent == "D"} == {""}


HEADS = """dim P = 5, D = {D}, Q = 7

layer Heads(g: graph):
    input z[node, P, D]
    param U[D, Q], q[Q]
    for n in g.nodes():
        s = tanh(relu(z[n]) @ U) @ q
        n["h"] = exp(s - max(s)) @ z[n]
    return n["h"]
"""


def kept(text: str) -> list[tuple[set[str], set[int]]]:
    """Of each kernel the memories of its tiles, and how many lanes share its loops."""
    program = compiled(text).stages["kernels"].program
    nodes = [list(walk(kernel)) for kernel in getattr(program, "programs", (program,))]
    return [
        (
            {node.memory for node in each if isinstance(node, Tile)},
            {node.width for node in each if isinstance(node, Loop) and node.bind == "lane"},
        )
        for each in nodes
    ]


def test_an_iteration_of_short_rows_that_meet_is_one_lanes():
    """Lanes that share rows of 5, 6 and 7 numbers are idle, and wait for what one leaves the others."""
    assert ({"register"}, {32}) in kept(HEADS.format(D=6))
    assert all("shared" not in memories for memories, _ in kept(HEADS.format(D=6)))
    assert ({"register"}, {32}) not in kept(HEADS.format(D=100))


def test_a_row_at_places_that_are_computed_is_no_lanes_own():
    """No register has an element whose number is known only at run time: lanes share such rows, as any others."""
    text = """dim H = 2, G = 6, C = 5

layer Flat(g: graph):
    input x[node, C], z[node, H, G]
    param W[12, C]
    for n in g.nodes():
        y = W @ x[n]
        n["h"] = sum(reshape(y, H, G).T) * sum(z[n].T) + max(y)
    return n["h"]
"""
    assert compiled(text).stages["kernels"].available


WIDE = """dim F = 64, K = {K}, G = 64

layer Wide(g: graph):
    input x[node, F]
    param A[K, 2 * F], B[G, K]
    for n in g.nodes():
        n["h"] = max(B @ relu(A @ concat([x[e.dst], x[e.src] - x[e.dst]])) for e in n.incoming_edges())
    return n["h"]
"""


@pytest.mark.parametrize(("columns", "whole"), [(3, True), (5, True), (7, True), (13, False)])
def test_lanes_take_sums_over_short_rows_of_a_matrix_whole(columns, whole):
    """A lane reads a row of 7 in as many lines as there are elements, and a warp's exchanges for each of 64 sums take
    longer; rows of 13 are read by all lanes, a sum at a time."""
    program = compiled(WIDE.format(K=columns)).stages["kernels"].program
    product = program.programs[0]
    lanes = [node for node in walk(product) if isinstance(node, Loop) and node.bind == "lane"]
    takes = [loop for loop in lanes if any(isinstance(node, Loop) for s in loop.body for node in walk(s))]
    assert bool(takes) is whole
