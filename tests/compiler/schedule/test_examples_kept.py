"""What is made of every example stays until somebody changes it on purpose: each kernel's strategy, and its CUDA.

`make golden` rewrites both tables; the diff says what changed, a line a kernel."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

from explorer.compiler.codegen.cuda.program import DEVICE_FUNCTIONS
from explorer.compiler.ir.module import Module
from tests.compiler.swaps import EXAMPLES, compiled

Options = dict[str, str | bool]
BACKWARD: Options = {"grad": True}
OTHER_STRATEGIES: dict[str, tuple[Options, ...]] = {
    "embedding": ({"split": "rows"},),
    "kge": ({"inspect": "chunks"}, {"inspect": "false"}, {"precision": "tf32"}),
    "rgnn": ({"aggregate": False}, {"compact": False}, {"precision": "tf32"}),
}
"""Options by which examples of a folder get other strategies; listed is what differs from an example's own."""
OTHER_TEXTS: tuple[tuple[Options, Options], ...] = (
    ({"arch": "sm_90a"}, {}),
    ({"arch": "sm_90a", "grad": True}, BACKWARD),
    ({"precision": "tf32"}, {}),
)
"""Options by which kernels get other texts, each with the options beside which only the arch or precision differs."""
KERNEL = re.compile(r"^// (\w+): blocks of ", re.MULTILINE)


def test_the_strategy_of_every_kernel(golden: Callable[[str], None]) -> None:
    lines: list[str] = []
    for path in EXAMPLES:
        own = _strategies(path, {})
        lines += _table(path.stem, {}, own)
        lines += _table(path.stem, BACKWARD, _strategies(path, BACKWARD))
        for options in OTHER_STRATEGIES[path.parent.name]:
            changed = _strategies(path, options)
            lines += _table(path.stem, options, changed) if changed != own else []
    golden("\n".join(lines) + "\n")


def test_the_cuda_of_every_kernel(golden: Callable[[str], None]) -> None:
    lines: list[str] = []
    for path in EXAMPLES:
        for options in ({}, BACKWARD):
            lines += _table(path.stem, options, _hashes(path, options))
        for options, beside in OTHER_TEXTS:
            known = set(_hashes(path, beside))
            changed = [entry for entry in _hashes(path, options) if entry not in known]
            lines += _table(path.stem, options, changed or [("", "as without")])
    golden("\n".join(lines) + "\n")


def _table(example: str, options: Options, entries: list[tuple[str, str]]) -> Iterator[str]:
    """A line for each kernel: the example, the options, the kernel's name, and what is known of it."""
    words = " ".join(name if value is True else f"{name}={value}" for name, value in options.items())
    return (f"{example:<18} {words:<16} {kernel:<36} {known}" for kernel, known in entries)


def _strategies(path: Path, options: Options) -> list[tuple[str, str]]:
    stage = compiled(path, **options).stages["kernels"]
    if stage.program is None:
        return [("", f"none: {stage.reason}")]
    kernels = stage.program.programs if isinstance(stage.program, Module) else (stage.program,)
    return [(kernel.name, kernel.template) for kernel in kernels]


def _hashes(path: Path, options: Options) -> list[tuple[str, str]]:
    """The kernels' names with a hash of their texts, behind that of the functions that they share."""
    stage = compiled(path, **options).stages["cuda"]
    if stage.program is None:
        return [("", f"none: {stage.reason}")]
    text, _, functions = stage.text.partition(DEVICE_FUNCTIONS)
    declarations, *parts = KERNEL.split(text)
    texts = [("functions", declarations + functions), *zip(parts[::2], parts[1::2], strict=True)]
    return [(name, sha256(text.encode()).hexdigest()[:12]) for name, text in texts]
