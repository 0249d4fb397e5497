"""What proofs are kept from, whose time is bounded by the process's own."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True)
def _without_the_other_tests() -> None:
    """What other tests left in this process is not looked at again by the garbage collector: at gigabytes it takes
    seconds, and a proof is refused after two."""
    gc.collect()
    gc.freeze()
