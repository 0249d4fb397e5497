"""docs/LANGUAGE.md shows texts that compile, and says of the language what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import explorer
from explorer.compiler.language.names.builtins import BUILTINS
from explorer.compiler.language.names.prelude import prelude

PAGE = (Path(__file__).parents[1] / "docs" / "LANGUAGE.md").read_text(encoding="utf-8")
TEXTS = re.findall(r"```emb\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: re.findall(r"(?:score|layer|op) (\w+)", text)[0])
def test_a_text_of_the_page_compiles_with_gradients(text: str) -> None:
    compilation = explorer.compile(text, options={"grad": True}, on_demand=True)
    assert compilation.ok, "\n".join(entry.render(text) for entry in compilation.diagnostics)
    assert compilation.stages["cuda"].available, compilation.stages["cuda"].reason


def test_the_page_names_every_function() -> None:
    named = set(re.findall(r"\w+", PAGE))
    assert {*BUILTINS, *prelude()} - {"masked"} <= named
