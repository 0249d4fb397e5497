"""As for traced modules, kernels run as Python; and Dynamo begins each test with nothing compiled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime.trace.conftest import without_machine_code  # noqa: F401  # a fixture for all tests here


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    """Dynamo keeps what it compiled by code, of which tests make new ones; its counters are for all."""
    torch = pytest.importorskip("torch", reason="the backend is PyTorch's, which this machine does without")
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
