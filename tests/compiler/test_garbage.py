"""A compilation that nobody holds goes at once: nothing in it refers to itself, so no collector has to look for it.

Where a class of sixty types, looking for cycles among all objects took a fifth of the compilers' time."""

from __future__ import annotations

import gc
from collections import Counter
from pathlib import Path

import pytest

import explorer

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/*.emb"))
LATE = {"ptx", "sass"}


@pytest.fixture(autouse=True, scope="module")
def _nothing_from_before() -> None:
    gc.collect()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
@pytest.mark.parametrize("grad", [False, True])
def test_a_compilation_leaves_nothing_to_collect(file: Path, grad: bool) -> None:
    def compiled(text: str) -> None:
        compilation = explorer.compile(text, options={"grad": grad}, on_demand=True)
        shown = [name for name in compilation.stages if name not in LATE]
        compilation.to_json(shown, snapshots=[], effects=[])

    text = file.read_text()
    compiled(text)  # what is kept for good
    compiled(f"# once more\n{text}")
    gc.disable()
    gc.freeze()  # all that other tests hold, or each look would take seconds where many ran before
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        compiled(f"# another text\n{text}")
        gc.collect()
        assert Counter(type(each).__qualname__ for each in gc.garbage) == {}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()
