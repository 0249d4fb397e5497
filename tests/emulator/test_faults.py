"""That the emulator finds what is wrong with a kernel: each test has one with a fault, beside one without."""

from __future__ import annotations

import re

import numpy as np
import pytest

from explorer.compiler.codegen.text import Code, Launch
from explorer.compiler.ir.kernels import Count
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Line
from tests.emulator.emulate import Arrays, EmulatorFault, emulate

pytestmark = pytest.mark.usefixtures("compiler")

THREADS = 64
N = 2 * THREADS
HEAD = 'extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ out, int* __restrict__ ranks) {'
INDEX = "const int i = threadIdx.x, n = blockIdx.x * blockDim.x + i;"
TILE = "__shared__ float tile[64];"


def run(body: str, *, before: str = "", seed: int = 0, shared_bytes: int = 0, threads: int = THREADS) -> Arrays:
    """A kernel of this body, on two blocks, given x[128] = 0, 1, 2..., making out[128] and ranks[128]."""
    text = "\n".join(filter(None, [before, HEAD, INDEX, *body.strip().splitlines(), "}"]))
    buffers = [Buffer(name=name, kind=kind, extents=("N",), origin=()) for name, kind in KINDS.items()]
    writes = frozenset({"out", "ranks"})
    launch = Launch("k", tuple(KINDS), Count(((2, 1),)), threads, shared_bytes=shared_bytes, writes=writes)
    code = Code(tuple(map(Line, text.splitlines())), (launch,), tuple(buffers))
    return emulate(code, {"x": np.arange(N, dtype=np.float32)}, {"N": N}, seed)


KINDS = {"x": "param", "out": "output", "ranks": "index"}


def reversed_tile(barrier: str) -> str:
    return f"{TILE} tile[i] = x[n]; {barrier} out[n] = tile[63 - i];"


def test_a_right_kernel_gives_its_result() -> None:
    out = run(reversed_tile("__syncthreads();"))["out"]
    assert np.array_equal(out, np.arange(N).reshape(2, -1)[:, ::-1].ravel())


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("barrier", ["", "__syncwarp();", "__shfl_sync(0xffffffffu, 1.0f, 0);"])
def test_a_missing_barrier_of_the_block(barrier: str, seed: int) -> None:
    with pytest.raises(EmulatorFault, match=r"with no barrier between|nothing has written"):
        run(reversed_tile(barrier), seed=seed)


def in_warps(barrier: str) -> str:
    return f"{TILE} tile[i] = x[n]; {barrier} out[n] = tile[i ^ 1];"


def test_a_barrier_of_the_warp_is_enough_within_it() -> None:
    assert run(in_warps("__syncwarp();"))["out"][0] == 1
    with pytest.raises(EmulatorFault, match=r"with no barrier between|nothing has written"):
        run(in_warps(""))


def overwritten(barrier: str) -> str:
    return f"""
{TILE}
for (int round = 0; round < 3; round++) {{
  tile[i] = x[n] + round;
  __syncthreads();
  out[n] = tile[63 - i];
  {barrier}
}}"""


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_tile_overwritten_before_all_have_read_it(seed: int) -> None:
    assert run(overwritten("__syncthreads();"), seed=seed)["out"][0] == 65
    with pytest.raises(EmulatorFault, match=r"another thread (read|wrote), with no barrier between"):
        run(overwritten(""), seed=seed)


@pytest.mark.parametrize(
    ("access", "said"),
    [
        ("out[n] = x[n + 1];", r"reads 4 bytes at element 128 of x, which has 128\n  line 3: out"),
        ("out[n] = x[n - 1];", "reads 4 bytes at element -1 of x, which has 128"),
        ("out[n] = x[n + 200000];", "reads 4 bytes at element 2[0-9]* of x"),
        ("out[n + 1] = x[n];", "writes 4 bytes at element 128 of out, which has 128"),
        ("out[n] = 0.0f; if (n == 127) atomicAdd(&out[n + 1], 1.0f);", "adds to 4 bytes at element 128 of out"),
        (
            "out[n] = x[n]; if (n == 127) *(float4*)&out[n + 1] = make_float4(1, 2, 3, 4);",
            "writes 16 bytes at element 128",
        ),
        ("out[n] = *(float*)(n * 4LL + 64);", "where there is no array"),
    ],
)
def test_an_index_outside_an_array(access: str, said: str) -> None:
    with pytest.raises(EmulatorFault, match=said):
        run(access)


@pytest.mark.parametrize("tile", ["__shared__ float tile[64];", "float tile[64];"])
def test_an_index_outside_a_tile_of_known_size(tile: str) -> None:
    with pytest.raises(EmulatorFault, match=r"indexes an array of known size with 64"):
        run(f"{tile} tile[i + 1] = x[n]; out[n] = 0.0f;")


def test_dynamic_shared_memory_has_the_size_of_its_launch() -> None:
    body = "extern __shared__ __align__(16) float tile[];\ntile[i] = x[n]; out[n] = tile[i];"
    assert np.array_equal(run(body, shared_bytes=4 * THREADS)["out"], np.arange(N))
    with pytest.raises(EmulatorFault, match=r"where there is no array"):
        run(body, shared_bytes=4 * THREADS - 4)


@pytest.mark.parametrize(
    "body",
    [
        "if (i < 32) return; __syncthreads();",
        "if (i % 2) return; __syncwarp();",
        "if (i == 5) return; out[n] = __shfl_xor_sync(0xffffffffu, x[n], 1);",
        "if (i < 32) __syncthreads(); else __syncwarp();",
        "if (i < 32)\n __syncthreads();\nelse\n __syncthreads();",
        "for (int round = 0; round <= i / 32; round++) __syncthreads();",
        "if (i % 32 < 16)\n out[n] = __shfl_xor_sync(0xffffu, x[n], 1);\nelse\n __syncwarp();",
    ],
)
def test_threads_that_wait_in_vain(body: str) -> None:
    with pytest.raises(EmulatorFault, match=r"wait for each other in vain.*thread .* line [0-9]+"):
        run(body)


def test_a_part_of_a_warp_may_exchange_by_itself() -> None:
    body = "float sum = x[n];\nif (i % 32 >= 24) sum += __shfl_xor_sync(0xff000000u, sum, 1); out[n] = sum;"
    assert np.array_equal(run(body)["out"][22:26], [22, 23, 49, 49])


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("__shfl_sync(0xffffffffu, x[n], 3)", [3, 3, 3, 3]),
        ("__shfl_sync(0xffffffffu, x[n], 1, 2)", [1, 1, 3, 3]),
        ("__shfl_xor_sync(0xffffffffu, x[n], 2)", [2, 3, 0, 1]),
        ("__shfl_down_sync(0xffffffffu, x[n], 1, 4)", [1, 2, 3, 3]),
        ("__shfl_up_sync(0xffffffffu, x[n], 1)", [0, 0, 1, 2]),
    ],
)
def test_an_exchange_takes_the_other_lanes_value(call: str, expected: list[int]) -> None:
    assert run(f"out[n] = {call};")["out"][:4].tolist() == expected


def test_a_value_of_a_lane_that_takes_no_part() -> None:
    with pytest.raises(EmulatorFault, match=r"takes a value of lane 8, which takes no part"):
        run("out[n] = i % 32 < 8 ? __shfl_sync(0xffu, x[n], 8) : 0.0f;")
    with pytest.raises(EmulatorFault, match=r"waits for lanes that it is not among"):
        run("out[n] = __shfl_sync(0xffu, x[n], 0);")


def test_an_element_that_no_kernel_writes() -> None:
    with pytest.raises(EmulatorFault, match=r"no kernel writes element 127 of out"):
        run("if (n < 127) out[n] = x[n];")


@pytest.mark.parametrize(
    "body",
    [
        f"{TILE} out[n] = tile[i];",
        f"{TILE} if (i != 7) tile[i] = x[n]; __syncthreads(); out[n] = tile[i];",
        f"{TILE} if (n < 64) tile[i] = x[n]; __syncthreads(); out[n] = tile[i];",  # the other block left it there
        "out[n] += x[n];",
        "atomicAdd(&out[n], x[n]);",
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_read_of_what_nothing_has_written(body: str, seed: int) -> None:
    with pytest.raises(EmulatorFault, match=r"which nothing has written"):
        run(body, seed=seed)


@pytest.mark.parametrize(
    "body",
    [
        "float sum; if (n != 9) sum = 0.0f; out[n] = sum + x[n];",
        "float4 sum; if (n != 9) sum = make_float4(0, 0, 0, 0); out[n] = sum.z + x[n];",
        "float sum[4]; if (n != 9) sum[i % 4] = 0.0f; out[n] = sum[i % 4] + x[n];",
    ],
)
def test_a_register_that_is_not_set_is_no_zero(body: str) -> None:
    right = run(body)["out"] == np.arange(N)
    assert np.flatnonzero(~right).tolist() == [9]


@pytest.mark.parametrize("seed", [0, 1])
def test_blocks_have_no_barrier(seed: int) -> None:
    for body in ("out[n] = x[n]; out[N - 1 - n] = x[n];", "out[n] = x[n]; __syncthreads(); x = &out[127 - n]; *x;"):
        with pytest.raises(EmulatorFault, match=r"another thread wrote, with no barrier|nothing has written"):
            run(body.replace("N", str(N)).replace("*x;", "ranks[n] = *x;"), seed=seed)


def test_sums_of_many_threads_must_be_atomic() -> None:
    clear = "ranks[n] = 0; out[n] = 0.0f; __syncthreads();"
    added = run(clear + "atomicAdd(&ranks[n - i], 1); out[n] = x[n];")["ranks"]
    assert added[0] == added[THREADS] == THREADS
    for wrong in ("ranks[n - i] += 1;", "atomicAdd(&ranks[n - i], 1); out[n] = ranks[n - i];"):
        with pytest.raises(EmulatorFault, match=r"which another thread .*, with no barrier between"):
            run(clear + wrong)


def test_the_seed_sets_the_order_of_the_threads() -> None:
    body = "out[n] = 0.0f; if (i == 0) ranks[n] = 0; __syncthreads(); out[n] = atomicAdd(&ranks[n - i], 1);"
    orders = {seed: tuple(run(body, seed=seed)["out"][:THREADS]) for seed in (3, 4)}
    assert orders[3] != orders[4]
    assert sorted(orders[3]) == sorted(orders[4]) == list(range(THREADS))
    assert tuple(run(body, seed=3)["out"][:THREADS]) == orders[3]


def test_a_vector_must_be_aligned() -> None:
    assert run("out[n] = (*(const float4*)&x[n / 4 * 4]).y;")["out"][5] == 5
    with pytest.raises(EmulatorFault, match=r"not aligned"):
        run("out[n] = (*(const float4*)&x[(n + 1) % 64]).y;")


def test_a_function_of_inline_ptx_is_the_headers() -> None:
    before = """\
__device__ __forceinline__ void add_vector(float4* target, float4 a) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
               :: "l"(target), "f"(a.x), "f"(a.y), "f"(a.z), "f"(a.w) : "memory");
}"""
    body = "out[n] = 0.0f; __syncthreads();\nadd_vector((float4*)&out[n / 4 * 4], make_float4(1, 2, 3, 4));"
    assert run(body, before=before)["out"][:8].tolist() == [4, 8, 12, 16] * 2
    with pytest.raises(EmulatorFault, match=r"element 124 of out.*\n  line 8: add_vector"):
        run(body.replace("out[n] = 0.0f;", "if (n < 124) out[n] = 0.0f;"), before=before)


def test_a_function_for_gpus_without_the_instruction_is_the_texts_own() -> None:
    before = """\
__device__ __forceinline__ void add_vector(float4* target, float4 a) {
  atomicAdd(&target->y, 10 * a.y);
}"""
    body = "out[n] = 0.0f; __syncthreads();\nadd_vector((float4*)&out[n / 4 * 4], make_float4(1, 2, 3, 4));"
    assert run(body, before=before)["out"][:8].tolist() == [0, 80, 0, 0] * 2


def test_a_grid_that_no_device_has() -> None:
    with pytest.raises(EmulatorFault, match=r"no device has 1 columns of 1056 threads"):
        run("out[n] = 0.0f;", threads=1056)


def test_what_is_no_cuda_says_where() -> None:
    with pytest.raises(EmulatorFault, match=re.compile(r"does not take the text.*text\.cpp:3:", re.DOTALL)):
        run("out[n] = y;")


def test_what_is_left_of_a_fault_does_not_matter() -> None:
    with pytest.raises(EmulatorFault):
        run(in_warps(""))
    assert run(in_warps("__syncwarp();"))["out"][0] == 1
