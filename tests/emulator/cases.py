"""The cases of `benchmarks.gpu_check` as parameters of tests, at sizes that an emulator runs in a moment."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from benchmarks.cases.checked import Case

SIZES = (8, 33)
"""One that vectors divide, and one that nothing does."""
NAME = re.compile(r"^(?:score|layer|op) (\w+)\(", re.MULTILINE)


def as_parameters(cases: Iterable[Case]) -> list[Any]:
    """A parameter for each case, named by its definition, size, batch and options."""
    return [pytest.param(case, id="-".join(_words(case))) for case in cases]


def _words(case: Case) -> Iterable[str]:
    yield NAME.findall(case.text)[-1]
    yield str(case.size)
    if case.batch:
        yield f"batch {case.batch}"
    yield from (f"{name}={value}" for name, value in case.options.items())
