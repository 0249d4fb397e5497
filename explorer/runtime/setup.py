"""What a run is asked, and what it is once it is set up: a model with its data and the result that it must give.

A family of models says how a run is set up, a target what is done with it: this is all that they know of each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import explorer
from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.kernels import Multiply, Precision
from explorer.compiler.ir.node import walk
from explorer.runtime.check import RELATIVE_TO, Check
from explorer.runtime.events import Event, failed
from explorer.runtime.gradient_check import GradientCheck, Probe, check_tensor, size_of

Target = Literal["dae", "cpu", "gpu"]
Source = Literal["measured", "simulated"]
Floats = npt.NDArray[np.float32]
Outcome = tuple[Floats, Mapping[str, Floats]]
"""The result, and gradients by tensor."""
Run = Callable[[Mapping[str, Any]], Outcome]
"""Runs the prepared program on the arrays that it reads."""

DEFAULT_DATA = "FB15k-237"
DEFAULT_BATCH = 1_024
DEFAULT_REPEAT = 20

STEPS = 7
"""Steps that a run's progress counts to; the first five are the set-up's, and CHECKING and RUNNING the target's."""
PREPARING, CHECKING, RUNNING = 5, 6, 6

COARSER: dict[Precision, float] = {"tf32x3": 2.0**3, "tf32": 2.0**12}
"""How much coarser than float32, of 24 bits, a product's factors are: the sum of two TF32 numbers of 11 bits keeps 21
of them, one that is rounded 12. Errors of what is right are as much larger, so that is what tolerances are times."""

MISMATCH = "The scores differ from the float64 reference, so no time is shown. This is a fault in the explorer."
BEYOND_FLOAT32 = (
    "float32 cannot hold this model's intermediate values: scores overflow or vanish that float64 can hold, so no time"
    " is shown. Scale the model's values."
)
NO_NUMBER = (
    "The model's result is no number for some of these inputs, as where it divides by a sum of nothing, so gradients"
    " cannot be checked, and no time is shown. Keep it a number, as in x / max(total, 0.000001)."
)


@dataclass(frozen=True)
class RunRequest:
    """What to run, on what, over which data; all of it fits in JSON.

    `data` is a preset or a file: the name of one in `data_dir`, or any path where that is None. `machine` sets
    parameters of the simulated machine by name, `peers` times PyTorch beside a run on a GPU.
    """

    text: str
    on: Target
    name: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, str | int | bool] = field(default_factory=dict)
    data: str = DEFAULT_DATA
    data_dir: str | None = None
    batch: int = DEFAULT_BATCH
    repeat: int = DEFAULT_REPEAT
    seed: int = 0
    machine: Mapping[str, int | float] = field(default_factory=dict)
    peers: bool = True

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> RunRequest:
        return cls(**fields)


class Refused(Exception):
    """The run cannot be done as asked; carries its last event."""

    def __init__(self, event: Event) -> None:
        super().__init__(event["message"])
        self.event = event


@dataclass(frozen=True, eq=False, kw_only=True)
class Setup(ABC):
    """A compiled model with its data, its tensors, and the result that they must give.

    `probe` is there where gradients are asked for; `gradients` is filled in when they are checked."""

    request: RunRequest
    compilation: Compilation
    tensors: Mapping[str, npt.NDArray[Any]]
    want: npt.NDArray[np.float64]
    probe: Probe | None = None
    gradients: dict[str, GradientCheck] = field(default_factory=dict)

    renews = False
    """Whether every run is of a new batch, so that checking and grouping its ids belongs to a run's time."""
    compared = False
    """Whether the simulated machine is also run on the program unoptimised, as Ember's figures do with its ops."""
    error_relative_to = RELATIVE_TO
    """What errors are relative to, in words."""

    @abstractmethod
    def inputs(self) -> dict[str, Any]:
        """What the programs read, by name."""

    @abstractmethod
    def check(self, got: Floats) -> Check:
        """Holds a result against the one that the model must give."""

    @abstractmethod
    def finished(self, got: Floats, gradients: Mapping[str, Floats]) -> Outcome:
        """What the programs give in the order and the shapes that the reference has."""

    @abstractmethod
    def evaluate(self, replaced: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
        """The reference's result, with some tensors replaced."""

    @property
    @abstractmethod
    def upstream(self) -> Floats:
        """The gradient of the result."""

    @property
    @abstractmethod
    def gradient_tolerance(self) -> float:
        """The largest relative error that float32 is allowed over a gradient's sums."""

    @property
    @abstractmethod
    def large(self) -> bool:
        """Whether differences of every tensor by itself would take too long, so that all are taken together."""

    @abstractmethod
    def smaller(self) -> Setup | None:
        """Of a large run, a part on which each tensor's gradient is checked by itself; or None."""

    @abstractmethod
    def recompiled(self, options: Mapping[str, str | int | bool]) -> Setup:
        """The same data and tensors with the model compiled with other options. Raises Refused."""

    @abstractmethod
    def describe(self, check: Check) -> dict[str, Any]:
        """What the result says of the data, the pre-processing and the limits."""

    @property
    def coarser(self) -> float:
        """How much coarser than float32 the target's products are: only a GPU's may be, where its kernels say so."""
        if self.request.on != "gpu":
            return 1.0
        found = {node.precision for node in walk(self.program("kernels")) if isinstance(node, Multiply)}
        return max((COARSER[precision] for precision in found), default=1.0)

    @property
    def gradients_match(self) -> bool:
        """Whether all gradients that were checked are right."""
        tolerance = self.gradient_tolerance * self.coarser
        return all(check.max_relative_error < tolerance for check in self.gradients.values())

    def right(self, check: Check) -> bool:
        """Whether the result, of this check, and the gradients are."""
        return check.matches and self.gradients_match

    def check_gradients(self, gradients: Mapping[str, Floats], run: Run) -> None:
        """Fills in the check of each gradient, or of all together where the run is large; `run` runs a part."""
        part, found = self, gradients
        if self.large and self.probe is not None:
            self.gradients["(all together)"] = self.probe.check(gradients, self.upstream)
            smaller = self.smaller()
            if smaller is None:
                return
            part, found = smaller, smaller.finished(*run(smaller.inputs()))[1]
        beside = size_of(found)
        for name, gradient in found.items():
            self.gradients[name] = check_tensor(
                name, gradient, part.tensors[name], part.upstream, part.evaluate, self.request.seed, beside=beside
            )

    def compiled_with(self, options: Mapping[str, str | int | bool]) -> Compilation:
        """The model compiled with other options. Raises Refused."""
        return compile_request(
            replace(self.request, sizes=self.compilation.sizes, options={**self.request.options, **options})
        )

    def program(self, name: str) -> Any:
        """The program of a stage that a target runs. Raises Refused."""
        stage = self.compilation.stages[name]
        if not stage.available:
            raise Refused(failed("refused", f"There is no {name} program to run: {stage.reason}"))
        return stage.program

    def _why_not(self, check: Check) -> str:
        """A sentence about a result or gradients that are not the reference's."""
        if check.beyond_float32:
            return BEYOND_FLOAT32
        return NO_NUMBER if check.matches and not np.isfinite(self.want).all() else MISMATCH

    def description(self, check: Check, source: Source, device: str) -> dict[str, Any]:
        """The part of a result that every target has: what ran, on what, and whether it was right."""
        error, right = check.max_relative_error, self.right(check)
        return {
            "matches_reference": right,
            "max_relative_error": error if np.isfinite(error) else None,
            "error_relative_to": self.error_relative_to,
            "median_magnitude": check.median_magnitude,
            "tolerance": check.tolerance,
            "plain_float32_error": check.plain_error,
            "rows_checked": check.rows,
            "message": "" if right else self._why_not(check),
            "gradients": {name: found.to_json() for name, found in self.gradients.items()},
            "name": self.compilation.name,
            "family": self.compilation.family,
            "target": self.request.on,
            "device": device,
            "source": source,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "rows": check.rows,
            "seed": self.request.seed,
            "sizes": dict(self.compilation.sizes),
            "options": self.compilation.options.to_json(),
            **self.describe(check),
        }


def compile_request(request: RunRequest, counts: Mapping[str, int] | None = None, counted_on: str = "") -> Compilation:
    """The request's model, its costs counted on a graph of these sizes, and of its stages those that are asked for.
    Raises Refused."""
    compilation = explorer.compile(
        request.text,
        sizes=request.sizes,
        options=request.options,
        name=request.name,
        counts=counts,
        counted_on=counted_on,
        on_demand=True,
    )
    if not compilation.ok:
        diagnostics = [diagnostic.to_json(request.text) for diagnostic in compilation.diagnostics]
        first = diagnostics[0]["message"] if diagnostics else "it has no definition to run"
        more = f" (and {len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
        raise Refused(failed("error", f"The model does not compile: {first}{more}.", "Correct the model.", diagnostics))
    return compilation


def worse(one: Check, other: Check) -> Check:
    """The check with the larger error."""
    return max(one, other, key=lambda check: check.max_relative_error)


def statistics(samples: list[float]) -> dict[str, float]:
    """The figures shown of a list of times in milliseconds."""
    return {
        "median_ms": float(np.median(samples)),
        "p5_ms": float(np.percentile(samples, 5)),
        "p95_ms": float(np.percentile(samples, 95)),
        "least_ms": min(samples),
    }


def sentence(error: Exception) -> str:
    """An error's message with a capital, unless it begins with a file's name, and a full stop."""
    text = str(error)
    if text.split(" ")[0].isalpha():
        text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else text + "."
