"""Prints a line for each text, forward and with gradients: hashes of its stages up to CUDA.

python -m tests.compiler.schedule.kernel_hashes - < model.emb
python -m tests.compiler.schedule.kernel_hashes --random 600 examples/rgnn/*.emb
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import explorer
from tests.sweep.drawing import stand_in

STAGES = ("graph", "loops", "dlc", "kernels", "cuda")


def both_ways(name: str, text: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, text and options of a model, forward and with gradients."""
    for grad in (False, True):
        yield f"{name} {grad}", text, {"grad": grad}


def random_programs(count: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, text and options of the first random programs."""
    stand_in()
    from tests.sweep.quiet import drawn

    for seed in range(count):
        program = drawn(200_000 + seed)
        yield str(seed), program.text, dict(program.options)


def hashes(text: str, options: dict[str, Any]) -> str:
    """The stages' hashes; of one that refuses, that of its reason. Raises ValueError for a text with errors."""
    compilation = explorer.compile(text, options=options, on_demand=True)
    if not compilation.ok:
        raise ValueError("; ".join(d.message for d in compilation.diagnostics))
    stages = compilation.stages
    texts = [str(stages[name].text or stages[name].reason) for name in STAGES if name in stages]
    return " ".join(hashlib.sha256(each.encode()).hexdigest()[:12] for each in texts)


def main() -> None:
    """Prints them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help="a model; - for standard input")
    parser.add_argument("--random", type=int, default=0, metavar="COUNT")
    asked = parser.parse_args()
    texts = {file: sys.stdin.read() if file == "-" else Path(file).read_text() for file in asked.files}
    given = (both_ways(Path(file).stem, text) for file, text in texts.items())
    for name, text, options in chain(*given, random_programs(asked.random)):
        print(name, hashes(text, options))


if __name__ == "__main__":
    main()
