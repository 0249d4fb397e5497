"""Where a pass is from: the paper and section that its module's docstring names, and its first sentence."""

from __future__ import annotations

import re
import sys
from functools import cache

from explorer.compiler.pipeline import STAGES, Pass, StageSpec

SECTION = re.compile(r"(?:Hector|cuKE|Ember|G-Sparse) §[\w.-]*\w|FlashAttention-2, Dao 2023, §[\w.]*\w")


@cache
def source_of(step: Pass, spec: StageSpec) -> str:
    """The paper's section; of a pass that makes a stage's IR, and names none itself, the stage's own source. "" of what
    every compiler does."""
    found = SECTION.search(_docstring(step))
    return found[0] if found else spec.source if spec.follows and _makes(spec) is step else ""


def _makes(spec: StageSpec) -> Pass:
    """The pass that turns what a stage is made of into its IR: of the kernels, the last one."""
    return spec.passes[-1] if spec.name == "kernels" else spec.passes[0]


@cache
def meaning_of(step: Pass) -> str:
    """The first sentence of what a pass says of itself."""
    words = " ".join(_docstring(step).split("\n\n")[0].split())
    return re.split(r"(?<=\w[\w)`])\. |: so |\.$", words)[0].rstrip(".")


def _docstring(step: Pass) -> str:
    return sys.modules[step.__module__].__doc__ or ""


STEPS: dict[str, tuple[Pass, StageSpec]] = {step.__name__: (step, spec) for spec in STAGES for step in spec.passes}
"""By its name a pass, with the stage that it is of."""
