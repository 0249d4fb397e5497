"""What Python makes of a module's inputs and state, which a text does not say, is held to the trace or refused."""

from __future__ import annotations

import pytest

import explorer

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")

from tests.runtime.trace.held import hold  # noqa: E402
from tests.runtime.trace.test_refused import CALL, of, scored  # noqa: E402


def test_a_number_taken_out_of_ids_is_held_at_the_call() -> None:
    module = of(lambda m, h, r, t: scored(m, h, r, t) / (int(r.max() > 0) + 1))
    replacement = explorer.trace(module, *CALL).module()
    hold(module, replacement, CALL)
    with pytest.raises(ValueError, match=r"int\(r\.max\(\) > 0\)"):
        replacement(CALL[0], CALL[1] * 0, CALL[2])
    module = of(lambda m, h, r, t: scored(m, h, r, t) / (int(r.clamp(max=1).max()) + 1))
    replacement = explorer.trace(module, *CALL).module()
    hold(module, replacement, CALL)
    with pytest.raises(ValueError, match=r"the number 1 out of ids.*r\.clamp"):
        replacement(CALL[0], CALL[1] * 0, CALL[2])


def test_a_number_of_ids_that_differs_is_refused() -> None:
    module = of(lambda m, h, r, t: scored(m, h, r, t) * (2 if h.sum().item() > 10**6 else 1))
    with pytest.raises(ValueError, match=r"out of ids.*\n.*h\.sum\(\)\.item\(\)"):
        explorer.trace(module, *CALL)


def test_how_many_ids_are_picked_is_held_at_the_call() -> None:
    module = of(lambda m, h, r, t: scored(m, h, r, t) / len((r % 2).unique()))
    replacement = explorer.trace(module, *CALL).module()
    hold(module, replacement, CALL)
    with pytest.raises(ValueError, match=r"another number.*unique"):
        replacement(CALL[0], CALL[1] * 0, CALL[2])
