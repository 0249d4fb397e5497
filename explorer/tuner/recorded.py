"""A space that was measured whole: times of all its points, and what is known of them without a GPU.

A file is the JSON of the autotuning community's T4 format (github.com/odgaard/TuningSchema, results 1.0.0; what Kernel
Tuner writes), compressed by xz: a result for each point with its configuration, its validity, and as measurements the
mean and the median of its times, with the caches cold and warm. The single times are left out (`runtimes` is empty):
they would be most of a file. T4 says nothing of what else a search is tested with, so that stands beside `results`: the
`space` with its genes in order, and the `features` of launches, each once however many points have it.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.decisions import Value
from explorer.tuner.points import Points

SCHEMA = "1.0.0"
DIGITS = 4
"""Of numbers that are kept: a time's, and a feature's."""
TIMES = ("cold mean", "cold median", "warm mean", "warm median")
"""What is measured of a point, in milliseconds."""
OBJECTIVE = "cold median"
"""What a point takes, as `explorer tune` measures it. A mean of ten has a tenth of a sample that another process or the
clock has held up: of the recorded points of TransE on 1,024 triples, means and medians have r 0.15 (logarithms)."""
INVALIDITIES = ("correct", "compile", "runtime", "correctness", "timeout", "constraints")
"""What T4 may call a point: measured, or why it was not."""


@dataclass(frozen=True)
class Trial:
    """A point: its times in milliseconds in the order of TIMES, or what was wrong with it; which launches it has, by
    their place in the table of features; how long it took to compile, in seconds; a number of its machine code, which
    is timed once for all points that have it, -1 where there is none."""

    invalidity: str
    times: tuple[float, ...] = ()
    launches: tuple[int, ...] = ()
    compilation: float = 0.0
    code: int = -1


@dataclass(frozen=True, eq=False)
class Recorded:
    """A space with a trial for each point. `about` says of what model, data and device it is, `feature_names` what the
    numbers of a launch are, `launches` float32 [launches, features] has them, `data` those of the data by name."""

    name: str
    about: Mapping[str, Any]
    points: Points
    trials: tuple[Trial, ...]
    feature_names: tuple[str, ...]
    launches: NDArray[np.float32]
    data: Mapping[str, float]

    def times(self, of: str = OBJECTIVE) -> NDArray[np.float64]:
        """The points' times in milliseconds, [points]; infinite where a point is not valid."""
        place = TIMES.index(of)
        return np.array([trial.times[place] if trial.times else np.inf for trial in self.trials])

    @cached_property
    def valid(self) -> NDArray[np.bool_]:
        """Which points were measured and right, [points]."""
        return np.array([trial.invalidity == "correct" for trial in self.trials])

    def features_of(self, point: int) -> NDArray[np.float32]:
        """Those of a point's launches, [launches, features]."""
        return self.launches[list(self.trials[point].launches)]

    def without_repeats(self) -> Recorded:
        """The space with one point for each machine code, the first, or the usual one: what there is to time."""
        codes = [trial.code if trial.code >= 0 else -2 - number for number, trial in enumerate(self.trials)]
        first: dict[int, int] = {codes[self.points.usual]: self.points.usual}
        for number, code in enumerate(codes):
            first.setdefault(code, number)
        kept = sorted(first.values())
        points = Points(self.points.genes, self.points.ordinals[kept], kept.index(self.points.usual))
        return replace(self, points=points, trials=tuple(self.trials[number] for number in kept))

    def to_json(self) -> dict[str, Any]:
        """A T4 document, with what is beside the results."""
        genes = [{"key": gene.key, "values": list(gene.values)} for gene in self.points.genes]
        return {
            "schema_version": SCHEMA,
            "results": [self._result(number, trial) for number, trial in enumerate(self.trials)],
            "space": {**self.about, "name": self.name, "genes": genes, "usual": self.points.usual},
            "features": {
                "names": list(self.feature_names),
                "launches": [[_rounded(float(each)) for each in column] for column in self.launches.T],
                "of_points": [list(trial.launches) for trial in self.trials],
                "codes": [trial.code for trial in self.trials],
                "data": {name: _rounded(value) for name, value in self.data.items()},
            },
        }

    def _result(self, number: int, trial: Trial) -> dict[str, Any]:
        measured = zip(TIMES, trial.times, strict=False)
        return {
            "configuration": self.points.at(number),
            "times": {"compilation_time": _rounded(trial.compilation), "runtimes": []},
            "invalidity": trial.invalidity,
            "correctness": int(trial.invalidity == "correct"),
            "measurements": [{"name": name, "value": _rounded(value), "unit": "ms"} for name, value in measured],
            "objectives": [OBJECTIVE],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Recorded:
        """What `to_json` has written. Raises ValueError for another schema."""
        if found["schema_version"] != SCHEMA:
            raise ValueError(f"a recorded space is of schema {SCHEMA}, not {found['schema_version']}")
        about, features = dict(found["space"]), found["features"]
        genes, usual, name = about.pop("genes"), about.pop("usual"), about.pop("name")
        points = _points(genes, [result["configuration"] for result in found["results"]], usual)
        trials = tuple(
            _trial(*each) for each in zip(found["results"], features["of_points"], features["codes"], strict=True)
        )
        names = tuple(features["names"])
        launches = np.array(features["launches"], np.float32).reshape(len(names), -1).T
        return cls(name, about, points, trials, names, np.ascontiguousarray(launches), features["data"])

    def save(self, path: Path) -> None:
        """Writes a file, the same one for the same trials."""
        text = json.dumps(self.to_json(), separators=(",", ":"))
        path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))

    @classmethod
    def load(cls, path: Path) -> Recorded:
        """Reads a file."""
        return cls.from_json(json.loads(lzma.decompress(path.read_bytes())))


def _trial(result: Mapping[str, Any], launches: Sequence[int], code: int) -> Trial:
    found = {each["name"]: float(each["value"]) for each in result["measurements"]}
    times = tuple(found[name] for name in TIMES if name in found)
    return Trial(result["invalidity"], times, tuple(launches), float(result["times"]["compilation_time"]), code)


def _points(genes: Iterable[Mapping[str, Any]], configurations: Sequence[Mapping[str, Value]], usual: int) -> Points:
    """The points of configurations, in their order."""
    listed = list(genes)
    places = [{(type(value), value): at for at, value in enumerate(gene["values"])} for gene in listed]

    def ordinal(configuration: Mapping[str, Value], number: int) -> int:
        value = configuration.get(listed[number]["key"])
        return -1 if value is None else places[number][type(value), value]

    columns = [[ordinal(each, number) for each in configurations] for number in range(len(listed))]
    return Points.from_json({"genes": listed, "ordinals": columns, "usual": usual})


def _rounded(value: float) -> float | int:
    """A number of DIGITS digits; a whole one as such."""
    found = float(f"{value:.{DIGITS}g}")
    return int(found) if found == int(found) else found
