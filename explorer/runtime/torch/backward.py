"""A module's programs with a backward pass, which compute the gradients that are asked for and no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.compiler.compilation import Compilation
from explorer.runtime.torch.programs import Run, TensorProgram
from explorer.runtime.torch.structure import Structure, Tensor

MOST_PROGRAMS = 8
"""Sets of tensors of which no gradient is wanted that a module has a program each for; for others all are computed."""


class BackwardPrograms:
    """By the learnt tensors that no gradient is asked of, as of features of a graph or of a table that is not trained,
    the program with the backward pass of all others, compiled when it is first needed."""

    def __init__(self, compilation: Compilation) -> None:
        self.compilation = compilation
        self._programs: dict[frozenset[str], TensorProgram] = {}
        self._looked_at: set[frozenset[str]] = set()  # of whose programs it is known whether they are better parted

    def __deepcopy__(self, memo: dict[int, Any]) -> BackwardPrograms:
        """Itself: copies of a module share what is compiled."""
        return self

    def __iter__(self) -> Any:
        """The programs that there are."""
        return iter(self._programs.values())

    def of(self, frozen: frozenset[str]) -> TensorProgram:
        """The program without gradients of these. Raises InputError where there is none."""
        frozen = self._key(frozen)
        if frozen not in self._programs:
            self._programs[frozen] = TensorProgram.of(self.compilation.with_frozen(frozen), grad=True)
        return self._programs[frozen]

    def start(
        self, frozen: frozenset[str], structure: Structure, counts: Mapping[str, int], tensors: Mapping[str, Tensor]
    ) -> tuple[tuple[Tensor, ...], Run] | None:
        """The results and the run that goes on with them, None where kernels cannot make the one without the other.
        Raises InputError where there is no such program."""
        program, frozen = self.of(frozen), self._key(frozen)
        begun = program.start(structure, counts, tensors)
        if (
            begun is None and self.compilation.may_part and frozen not in self._looked_at
        ):  # what kernels of both make is made twice
            apart = TensorProgram.of(program.compilation.with_options(apart=True), grad=True)
            begun = apart.start(structure, counts, tensors)
            self._looked_at.add(frozen)
            self._programs[frozen] = apart if begun else program
        return begun

    def _key(self, frozen: frozenset[str]) -> frozenset[str]:
        """What a program is kept by: what somebody edited has the gradients that it has."""
        known = frozen in self._programs or len(self._programs) < MOST_PROGRAMS
        return frozen if known and not self.compilation.edits else frozenset()
