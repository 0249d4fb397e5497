"""What is found of the edited text of a stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.node import Span
from explorer.compiler.stages import Program

Read = Callable[[], Program]
"""Reads a text, which takes as long as it takes. Raises EditRefused."""
Status = Literal["same", "matches", "wrong", "refused"]


class EditRefused(Exception):
    """A text that is no program which may stand in a stage's place; line and column count from 1. Line 0 is where no
    line is at fault by itself: then the first that was changed is."""

    def __init__(self, message: str, line: int = 0, column: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


@dataclass(frozen=True)
class Difference:
    """The first value that is not the model's: of which output, where in it, what the reference expects and what came.
    None for a number that is none."""

    output: str
    index: tuple[int, ...]
    expected: float | None
    got: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "output": self.output,
            "index": list(self.index),
            "expected": self.expected,
            "got": self.got,
        }


@dataclass(frozen=True)
class Verdict:
    """What was found of a program on `inputs` small inputs: that its results are the reference's but for the rounding
    of float32, `error` being the largest relative error that was measured; or the first value that differs; or
    why it does not run ("refused"), or that it is what the compiler makes ("same"). It proves nothing of other
    inputs."""

    status: Status
    message: str
    inputs: int = 0
    error: float | None = None
    difference: Difference | None = None


NOT_RUN = Verdict("matches", "it is verified, and was not run")


@dataclass(frozen=True)
class EditedStage:
    """The edited text of a stage with its verdict, the place that this is about, and the operation of the model that
    the first changed line belongs to, where it belongs to one. `changed` counts the lines that are other than the
    compiler's, and `lines` are the operations of all lines; what is refused is left to what the compiler makes."""

    stage: str
    text: str
    verdict: Verdict
    line: int
    column: int
    changed: int
    operation: Span | None = None
    lines: tuple[Span | None, ...] = ()
    ms: float = 0.0

    @property
    def stands(self) -> bool:
        """Whether it stands in the place of what the compiler makes: what is wrong does too, for others to see."""
        return self.verdict.status in ("matches", "wrong")

    @property
    def why_not_onward(self) -> str:
        """Why nothing is made of it; "" where the stages onward are."""
        if self.verdict.status != "wrong":
            return ""
        return f"Not made: {self.stage}, as it was edited, is proven wrong: {self.verdict.message}"

    def to_json(self) -> dict[str, Any]:
        """The verdict with its place, for a page and for scripts."""
        found = self.verdict
        return {
            "stage": self.stage,
            "status": found.status,
            "message": found.message,
            "line": self.line,
            "column": self.column,
            "changed": self.changed,
            "inputs": found.inputs,
            "max_relative_error": found.error,
            "difference": None if found.difference is None else found.difference.to_json(),
            "ms": self.ms,
        }
