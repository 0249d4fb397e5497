"""A text has the same kernels in every process: nothing that is chosen or written goes by the order of a set, which
Python draws anew in each."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.compiler.swaps import ROOT

TYPES = """layer Model(g: graph):
    param v1[etype, 2, 2], temporary[ntype, 2, 2]
    param acc[node, 2]
    for e in g.edges():
        e["m"] = acc[e.dst] @ (v1[e.etype] + temporary[e.dst.ntype])
    return e["m"]
"""
"""A product with a matrix that is chosen by two indices of types."""
SHARED = """layer Model(g: graph):
    param V[3, 3, 4], acc[node], inf[node, 3]
    for e in g.edges():
        e["z"] = tanh(max(mean(dot(V, V))) + acc[e.src] * (inf[e.src] @ inf[e.dst]))
    edge_softmax(g, "z")
    return e["z"]
"""
"""A kernel that leaves two scalars to another."""
EXAMPLES = tuple(str(path) for path in sorted((ROOT / "examples").rglob("*.emb")))


def hashes(seed: int, *which: str, text: str = "") -> str:
    """What a process of that hash seed prints of models, of the text, and of random programs."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.compiler.schedule.kernel_hashes", *which]
    done = subprocess.run(command, env=environment, cwd=ROOT, text=True, input=text, capture_output=True, check=True)
    return done.stdout


@pytest.mark.parametrize("text", [TYPES, SHARED])
def test_kernels_do_not_depend_on_the_hash_seed(text: str) -> None:
    first = hashes(1, "-", text=text)
    assert first.count("\n") == 2
    assert hashes(2, "-", text=text) == first


@pytest.mark.parametrize(
    "which",
    [
        pytest.param(EXAMPLES, marks=pytest.mark.sweep),
        pytest.param(("--random", "60"), marks=pytest.mark.sweep),
        pytest.param(("--random", "300"), marks=pytest.mark.exhaustive),
    ],
)
def test_kernels_of_all_texts_do_not_depend_on_the_hash_seed(which: tuple[str, ...]) -> None:
    first = hashes(1, *which)
    for seed in (2, 3):
        assert hashes(seed, *which) == first
