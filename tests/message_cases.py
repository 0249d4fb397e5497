"""Message functions under reductions on a graph, with their gradients, against float64 edge by edge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from explorer.runtime.gcompile import MESSAGES, REDUCTIONS, letters_of, sddmm_text, spmm_text
from tests.oracles import messages as oracle

SOURCES, TARGETS, EDGES, D = 11, 37, 90, 5
ON_EDGES = "each edge's own"
every_case = pytest.mark.parametrize(
    ("message", "reduce"), [(message, reduce) for message in MESSAGES for reduce in (*REDUCTIONS, ON_EDGES)]
)


@dataclass(frozen=True)
class Case:
    """A message under a reduction, what it reads, and the gradient of its result."""

    message: str
    reduce: str
    source: np.ndarray
    target: np.ndarray
    rows: oracle.Rows
    upstream: np.ndarray

    @property
    def text(self) -> str:
        shapes = dict.fromkeys(self.rows, (D,))
        if self.reduce == ON_EDGES:
            return sddmm_text(self.message, shapes)
        return spmm_text(self.message, self.reduce, shapes)


def check(message: str, reduce: str, run: Callable[[Case], tuple[np.ndarray, oracle.Rows]]) -> None:
    """Holds what `run` makes of a case, the result and the gradients by letter, against the oracle."""
    source, target, rows = _drawn(message)
    every = oracle.messages(message, rows, source, target)
    want = every if reduce == ON_EDGES else oracle.reduced(reduce, every, target, TARGETS)
    upstream = np.random.default_rng(1).standard_normal(want.shape).astype(np.float32)
    slopes = upstream if reduce == ON_EDGES else oracle.reduced_slopes(reduce, every, target, upstream)
    wanted = oracle.message_slopes(message, rows, source, target, slopes)
    result, gradients = run(Case(message, reduce, source, target, rows, upstream))
    _close(result, want)
    assert gradients.keys() == wanted.keys()
    for letter, slope in wanted.items():
        _close(gradients[letter], slope)


def _drawn(message: str) -> tuple[np.ndarray, np.ndarray, oracle.Rows]:
    """Edges in no order, parallel ones too, targets without any, and rows that nothing divides by a small number."""
    random = np.random.default_rng(5)
    source, target = random.integers(0, SOURCES - 1, EDGES), random.integers(0, TARGETS - 1, EDGES)
    target[:40] = 3  # longer than a warp
    counts = {"u": SOURCES, "e": EDGES, "v": TARGETS}
    signs = {letter: random.choice([-1.0, 1.0], (counts[letter], D)) for letter in letters_of(message)}
    return source, target, {x: (s * random.uniform(0.5, 1.5, s.shape)).astype(np.float32) for x, s in signs.items()}


def _close(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_allclose(np.asarray(got, float), want, rtol=1e-5, atol=2e-5)
