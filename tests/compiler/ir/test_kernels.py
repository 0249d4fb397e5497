"""The rules of scheduled kernels: a sound kernel that has a bit of everything, and what breaks each rule."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.compiler.interpret import run_program
from explorer.compiler.ir.node import VerificationError, rewrite
from explorer.compiler.ir.parse import parse_scheduled
from explorer.compiler.ir.print.kernels import print_scheduled
from explorer.compiler.ir.verify.kernels import verify_scheduled
from tests.compiler.ir.test_round_trip import text_of

WARPS = """\
scheduled Norms  template batch  threads 128
  schedule a warp a row, float4
  size D = 64
  index h[B]
  param E[N, D]
  output out[B], rows[B, D]
  for b0 in 0..ceil(B / 4) @block
    for w in 0..4 @warp
      index b1 = b0 * 4
      index b = b1 + w
      where b < B
        i = h[b]
        acc s = 0.0
        register y[D]
        shared z[D]
        for d in 0..D step 4 @lane
          e = E[i, d]
          y[d] = e * 2.0
          z[d] = e * 3.0
        for d1 in 0..D step 4 @lane
          e1 = y[d1]
          s += e1 * e1
        reduce s sum over 32 lanes
        out[b] = sqrt(s)
        barrier warp
        for d2 in 0..D @lane
          index d3 = 63 - d2
          e2 = z[d3]
          rows[b, d2] = e2
"""
"""A warp a row: vectors, a tile in registers, a sum over lanes, a tile in shared memory that other lanes read."""

TILES = """\
scheduled Products  template gemm  threads 64
  size K = 8
  size_extent
  param P[K, 64], X[R, K]
  output out[R, 64]
  for r0 in 0..ceil(R / 8) @block
    register acc1[8, 8, 8]
    for ty in 0..8 @thread
      for tx in 0..8 @thread
        for n in 0..8 unroll all
          acc1[ty, tx, n] = 0.0
    shared x1[8, K] padded 4
    for stage in 0..2
      index k0 = stage * 4
      for ry in 0..8 @thread
        index r1 = r0 * 8
        index r2 = r1 + ry
        for rx in 0..8 @thread
          where rx < 4
            where r2 < R
              index k1 = k0 + rx
              v = X[r2, k1]
              x1[ry, rx] = v
      barrier block
      for k in 0..4 unroll all
        index k2 = k0 + k
        for ty1 in 0..8 @thread
          a = x1[ty1, k]
          for tx1 in 0..8 @thread
            for n1 in 0..8 unroll all
              index c = tx1 * 8
              index c1 = c + n1
              p = P[k2, c1]
              acc1[ty1, tx1, n1] += a * p
      barrier block
    for ty2 in 0..8 @thread
      index r3 = r0 * 8
      index r4 = r3 + ty2
      for tx2 in 0..8 @thread
        where r4 < R
          for n2 in 0..8 unroll all
            index c2 = tx2 * 8
            index c3 = c2 + n2
            v1 = acc1[ty2, tx2, n2]
            out[r4, c3] = v1
""".replace("  size_extent\n", "")
"""Threads in a square: registers spread over both of its sides, a tile that is staged twice."""

GROUPS = """\
scheduled Sums  template traversal  threads 64
  size D = 32
  index ptr[B1], idx[N]
  param E[V, D]
  output out[B, D], taken[B, D], first[B]
  for b0 in 0..ceil(B / 2) @block
    for w in 0..2 @warp
      index b1 = b0 * 2
      index b = b1 + w
      where b < B
        begin = ptr[b]
        index b2 = b + 1
        end = ptr[b2]
        index f = last ptr[0..B] <= begin
        where f == b
          for only in 0..1 @lane
            first[f] = 1.0
        register y[D]
        for d in 0..D step 4 @lane 8
          y[d] = 0.0
        for z in begin..end @lane 4
          row = idx[z]
          for d1 in 0..D step 4 @lane 8
            e = E[row, d1]
            y[d1] += e
            atomic taken[b, d1] += e
        reduce y sum over 4 lanes apart 8
        for d2 in 0..D step 4 @lane 8
          v = y[d2]
          out[b, d2] = v
"""
"""Four groups of eight lanes share a segment, and put their sums together."""

PARTS = WARPS.replace("acc s = 0.0", "acc s = 0.0\n        shared parts[32]").replace("32 lanes", "32 lanes in parts")
"""The same sum, whose parts go through shared memory."""

PROGRAMS = {"parts": PARTS, "warps": WARPS, "tiles": TILES, "groups": GROUPS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_sound_kernel_verifies_and_prints_as_it_was_read(name: str) -> None:
    kernel = parse_scheduled(PROGRAMS[name])
    verify_scheduled(kernel)
    assert text_of(print_scheduled(kernel)) == PROGRAMS[name]


def test_a_warp_a_row_computes_norms() -> None:
    random = np.random.default_rng(0)
    E, h = random.normal(size=(5, 64)).astype("f4"), random.integers(0, 5, 7)
    result = run_program_outputs(WARPS, E=E, h=h)
    np.testing.assert_allclose(result["out"], np.linalg.norm(2 * E[h], axis=1), rtol=1e-5)
    np.testing.assert_allclose(result["rows"], 3 * E[h][:, ::-1], rtol=1e-6)


def test_tiles_compute_a_product() -> None:
    random = np.random.default_rng(1)
    X, P = random.normal(size=(11, 8)).astype("f4"), random.normal(size=(8, 64)).astype("f4")
    np.testing.assert_allclose(run_program_outputs(TILES, X=X, P=P)["out"], X @ P, rtol=1e-4, atol=1e-5)


def test_a_tile_that_nobody_stored_in_is_undefined() -> None:
    X, P = np.ones((8, 8), "f4"), np.ones((8, 64), "f4")
    skipped = TILES.replace(
        "x1[ry, rx] = v", "x1[ry, rx] = v\n              where rx == 9\n                x1[ry, 5] = v"
    )
    unwritten = skipped.replace("a = x1[ty1, k]", "a = x1[ty1, 7]")
    assert np.isnan(run_program_outputs(unwritten, X=X, P=P)["out"]).all()


def run_program_outputs(text: str, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    """What the kernel of a text writes, by name."""
    from explorer.compiler.interpret.kernels import run_scheduled

    return run_scheduled([parse_scheduled(text)], inputs)


def test_a_search_finds_the_row_and_min_clamps() -> None:
    text = """\
scheduled Rows  template rows  threads 32
  index ptr[R1]
  output row[Z]
  for z in 0..Z @block
    index most = min(z, 4)
    index r = last ptr[0..R1] <= most
    row[z] = r
"""
    ptr = np.array([0, 2, 2, 5])
    rows, _ = run_program(parse_scheduled(text), {"ptr": ptr, "Z": 6})
    np.testing.assert_array_equal(rows, [0, 0, 2, 2, 2, 2])


def test_kernels_of_a_module_hand_arrays_on() -> None:
    text = """\
module Degrees  result total

scheduled Clear  template rows  threads 32
  index count[N] 
  output total[N]
  for n in 0..N @block
    count[n] = 0
    total[n] = 0.0

scheduled Count  template rows  threads 32
  index dst[E]
  index count[N]
  index place[E]
  for e in 0..E @block
    n = dst[e]
    rank = atomic count[n] += 1
    place[e] = rank

scheduled Add  template rows  threads 32
  index dst[E]
  index place[E]
  output total[N]
  for e in 0..E @block
    n = dst[e]
    p = place[e]
    atomic total[n] += p
""".replace("[N] \n", "[N]\n")
    from explorer.compiler.ir.parse import parse_module

    module = parse_module(text)
    for kernel in module.programs:
        verify_scheduled(kernel)
    total, gradients = run_program(module, {"dst": np.array([1, 0, 1, 1]), "N": 2, "E": 4})
    np.testing.assert_array_equal(total, [0, 0 + 1 + 2])
    assert gradients == {}


BROKEN = [
    # names
    (WARPS, "e1 = y[d1]", "e1 = y[d9]", r"d9 is used before its definition: e1 = y\[d9\]"),
    (WARPS, "e1 = y[d1]\n          s += e1 * e1", "e = y[d1]\n          s += e * e", "defined twice: e"),
    (WARPS, "where b < B\n", "where b < B\n        b0 = h[b]\n", "b0 shadows: b0 = h"),
    (WARPS, "out[b] = sqrt(s)", "E[b, 0] = sqrt(s)", r"E may not be written: E\[b, 0\] = sqrt"),
    # the grid and its levels
    (WARPS, "threads 128", "threads 100", "Norms has 100 threads a block, no whole number of warps"),
    (WARPS, "threads 128", "threads 2048", "Norms has 2048 threads a block, not 1 to 1024"),
    (WARPS, "@block", "", "Norms is not one loop over blocks"),
    (WARPS, "0..4 @warp", "0..B @column", "the number of columns is not known when the kernel is compiled"),
    (WARPS, "for b0 in 0..ceil", "for b0 in 1..ceil", "blocks are counted from 0, one by one"),
    (WARPS, "for w in 0..4 @warp", "for w in 0..4 @lane", "the lane loops inside are shared by different numbers"),
    (WARPS, "for d in 0..D step 4 @lane", "for d in 0..D step 4 @warp", "16 warps are needed, and there are 4"),
    (
        WARPS,
        "for d in 0..D step 4 @lane",
        "for d in 0..D step 4 @thread",
        "a loop over threads stands in one over warps",
    ),
    (TILES, "for tx1 in 0..8 @thread", "for tx1 in 0..8 @lane", "a loop over lanes stands in one over threads"),
    (TILES, "for ry in 0..8 @thread", "for ry in 0..ceil(R / 8) @thread", "a count is how many blocks there are"),
    (
        TILES,
        "for rx in 0..8 @thread",
        "for rx in 0..R @thread",
        "how many threads share a loop inside another's is not",
    ),
    (TILES, "for rx in 0..8 @thread", "for rx in 0..80 @thread", "80 threads are needed, and there are 64"),
    (GROUPS, "@lane 4", "@lane 8", "64 lanes are needed, and there are 32"),
    (GROUPS, "(B / 2) @block", "(B / 2) @block 2", "only warps, lanes and threads share a loop by a width"),
    # vectors
    (WARPS, "D = 64", "D = 62", "the bounds of a vector loop are no multiples of its step: for d in 0..D step 4"),
    (WARPS, "for d1 in 0..D step 4", "for d1 in 0..D step 8", "a vector is of 2 or 4 elements"),
    (GROUPS, "for z in begin..end @lane 4", "for z in begin..end step 4 @lane 4", "no multiples of its step: for z"),
    (WARPS, "param E[N, D]", "param E[N, 65]", r"the rows of E are no multiple of 4 elements: e = E\[i, d\]"),
    (
        WARPS,
        "          e = E[i, d]",
        "          index x = d + 1\n          e = E[i, x]",
        "x is not known to be a multiple",
    ),
    (WARPS, "          e = E[i, d]", "          e = E[d, d]", "two of the indices are vectors"),
    (WARPS, "z[d] = e * 3.0", "z[0] = e * 3.0", r"a vector of 4 goes where 1 can be: z\[0\]"),
    (WARPS, "s += e1 * e1", "s += 1.0", r"of a vector's elements, all the same, one is added: s \+= 1.0"),
    # caches
    (WARPS, "e = E[i, d]", "e = E[i, d] kept k", r"k is used before its definition: e = E\[i, d\] kept k"),
    (WARPS, "i = h[b]", "i = h[b] kept b", "caches keep what is loaded from an array of numbers: i = h"),
    (WARPS, "e2 = z[d3]", "e2 = rows[b, d3] kept i", "rows is written in this kernel, so caches may hold old"),
    # registers
    (WARPS, "for d1 in 0..D step 4 @lane", "for d1 in 0..D step 2 @lane", "y is spread over other threads elsewhere"),
    (WARPS, "e1 = y[d1]", "e1 = y[d1], e3 = y[0]", "y is spread over other threads elsewhere"),
    (TILES, "for n1 in 0..8 unroll all", "for n1 in 0..8", "the loop over n1 is not unrolled"),
    (TILES, "acc1[ty1, tx1, n1] += a * p", "acc1[ty1, tx1, c1] += a * p", "c1 is the variable of no loop around"),
    (TILES, "v1 = acc1[ty2, tx2, n2]", "v1 = acc1[ty2, n2]", "acc1 has 3 dimensions"),
    (TILES, "v1 = acc1[ty2, tx2, n2]", "v1 = acc1[tx2, ty2, n2]", "acc1 is spread over other threads elsewhere"),
    # sums over threads
    (WARPS, "        reduce s sum over 32 lanes\n", "", r"s is read before its parts are put together: out\[b\]"),
    (WARPS, "over 32 lanes", "over 8 lanes", "it joins fewer than all that hold parts of s: reduce s sum over 8"),
    (WARPS, "over 32 lanes", "over 24 lanes", "lanes are joined by powers of 2, within 32"),
    (WARPS, "reduce s sum", "reduce s max", "the parts of s are of another reduction"),
    (WARPS, "reduce s sum", "reduce z sum", "z is no accumulator"),
    (WARPS, "acc s = 0.0", "acc s = 1.0", "every thread that adds to s begins with what it holds already"),
    (
        WARPS,
        "        out[b] =",
        "        reduce s sum over 32 lanes\n        out[b] =",
        "s is whole, and would be counted 32",
    ),
    (WARPS, "          y[d] = e * 2.0", "          s = d\n          y[d] = e * 2.0", "of all iterations over d"),
    (WARPS, "          s += e1 * e1", "          s += e1 * e1\n          x = s", "s is read before its parts"),
    (PARTS, "parts[32]", "parts[16]", "parts is no tile of 32 numbers in shared memory"),
    (PARTS, "in parts", "in rows", "rows is no tile of 32 numbers in shared memory"),
    (PARTS, "e2 = z[d3]", "e2 = parts[d2]", "parts is there for the parts of sums alone"),
    (PARTS, "z[d] = e * 3.0", "parts[3] = e", "parts is there for the parts of sums alone"),
    (
        PARTS.replace("        shared parts[32]\n", ""),
        "    for w",
        "    shared parts[32]\n    for w",
        "parts is not a warp's own",
    ),
    (GROUPS, "apart 8", "apart 4", "it joins fewer than all that hold parts of y"),
    (GROUPS, "4 lanes apart 8", "32 lanes", "it joins lanes that hold different elements of y"),
    (GROUPS, "        reduce y", "          reduce y", "the loop over z takes the lanes that it joins apart"),
    # barriers
    (WARPS, "        barrier warp", "        barrier block", "not all threads reach it alike, in a loop over warps"),
    (WARPS, "          e2 = z", "          barrier warp\n          e2 = z", "in a loop over lanes: barrier warp"),
    (
        TILES,
        "            where r2 < R",
        "            barrier block\n            where r2 < R",
        "in a loop over threads",
    ),
    # shared memory
    (WARPS, "        barrier warp\n", "", r"z was written by other threads, with no barrier warp between: e2 = z"),
    (
        TILES,
        "      barrier block\n      for k",
        "      for k",
        "x1 was written by other threads, with no barrier block",
    ),
    (
        TILES,
        "      barrier block\n    for",
        "    for",
        r"x1 was read by other threads, with no barrier block .*: x1\[ry",
    ),
    (TILES, "x1[ry, rx] = v", "acc1[ry, rx, 0] = v", "x1 is read before anything is stored in it: a = x1"),
    (TILES, "x1[ry, rx] = v", "x1[ry, 0] = v", r"all iterations over rx write to the same element: x1\[ry, 0\] = v"),
    (WARPS, "for w in 0..4", "for w in 0..5", r"some iterations over b0 write to the same element: out\[b\]"),
    (WARPS, "index b1 = b0 * 4", "index b1 = b0 * 3", r"some iterations over b0 write to the same element: out\[b\]"),
    (WARPS, "out[b] = sqrt(s)", "out[b1] = sqrt(s)", r"all iterations over w write to the same element: out\[b1\]"),
    (WARPS, "e2 = z[d3]", "e2 = rows[i, d2]", "rows was .* by other threads, with no kernel of its own between"),
    (GROUPS, "atomic taken", "taken", r"all iterations over z write to the same element: taken\[b, d1\]"),
]


@pytest.mark.parametrize(("text", "old", "new", "message"), BROKEN)
def test_a_broken_rule(text: str, old: str, new: str, message: str) -> None:
    assert old in text
    with pytest.raises(VerificationError, match=message):
        verify_scheduled(parse_scheduled(text.replace(old, new, 1)))


def test_every_statement_has_an_origin() -> None:
    kernel = rewrite(parse_scheduled(WARPS), lambda node: node)
    nowhere = parse_scheduled(WARPS.replace("barrier warp", "barrier warp"))
    object.__setattr__(nowhere.body[0], "origin", ())
    verify_scheduled(kernel)
    with pytest.raises(VerificationError, match="no origin: for b0 in"):
        verify_scheduled(nowhere)
