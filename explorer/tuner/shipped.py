"""The recorded spaces that come with the explorer, and what is predicted of each by a model that has not seen it.

`benchmarks.record` has measured them, and `benchmarks.tuner` has made the predictions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.compilation import Compilation, compile_model
from explorer.tuner.recorded import Recorded

FOLDER = Path(__file__).parent / "spaces"
ENDING = ".json.xz"
LEFT_OUT = "left_out.npz"
KERNEL_LEFT_OUT = "kernel_left_out.npz"
"""Of each space what its points without repeats are predicted to take, float16 logarithms [points], by models trained
without it, and without all of its kernel."""


def files(folder: Path) -> dict[str, Path]:
    """The recorded spaces in a folder by their names, "spmm/arxiv-128", in order."""
    found = {path.relative_to(folder).as_posix().removesuffix(ENDING): path for path in folder.rglob(f"*{ENDING}")}
    return dict(sorted(found.items()))


def names() -> list[str]:
    """What the spaces are called, in order."""
    return list(files(FOLDER))


def load(name: str) -> Recorded:
    """A space by its name. Raises KeyError."""
    return Recorded.load(files(FOLDER)[name])


def left_out(name: str, file: str = LEFT_OUT) -> NDArray[np.float64] | None:
    """What its points without repeats are predicted to take relative to one another, [points], by a model that was
    trained on the other spaces; None where nothing is predicted."""
    path = FOLDER / file
    if not path.exists():
        return None
    with np.load(path) as found:
        return np.exp(found[name].astype(np.float64)) if name in found.files else None


def of_model(text: str, among: Sequence[str]) -> list[str]:
    """Those of these spaces that are of a model: whose text means the same as this one, value by value, with the sizes
    and options of the recording."""
    there = files(FOLDER)
    return [name for name in among if _is_of(text, there[name])]


def _is_of(text: str, file: Path) -> bool:
    own = _compiled(text, file)
    return own.ok and own.stages["graph"].text == _graph_of(file)


@cache
def _about(file: Path) -> Mapping[str, Any]:
    """Of what model, data and device the space in a file is."""
    return Recorded.load(file).about


@cache
def _graph_of(file: Path) -> str:
    return _compiled(_about(file)["text"], file).stages["graph"].text


def _compiled(text: str, file: Path) -> Compilation:
    """A text with the sizes and options of a recording."""
    about = _about(file)
    return compile_model(text, sizes=about["sizes"], options=about["options"], on_demand=True)
