"""A program's launches in two parts: those of the result, and those that wait for its gradient."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.compiler.codegen.text import Code, Launch


@dataclass(frozen=True)
class Parts:
    """A program's launches in two parts: what makes the result, and what only the gradients need; and the arrays that
    the second reads of the first."""

    forward: tuple[Launch, ...]
    backward: tuple[Launch, ...]
    crossing: frozenset[str]


def divide(code: Code, result: str, upstream: str) -> Parts | None:
    """The launches, which may each be done without the gradient `upstream` of the result or not; None where the result
    comes of some that need it, or where the second part would change what the first left."""
    later: set[int] = set()
    behind, touched = {upstream}, set[str]()
    for place_of, launch in enumerate(code.launches):
        if behind.intersection(launch.arguments) or launch.writes & touched:
            later.add(place_of)
            behind |= launch.writes
            touched.update(launch.arguments)
    needed, first = {result}, set[int]()
    for place_of in reversed(range(len(code.launches))):
        launch = code.launches[place_of]
        if place_of not in later and launch.writes & needed:
            first.add(place_of)
            needed.update(launch.arguments)
    forward = tuple(launch for at, launch in enumerate(code.launches) if at in first)
    backward = tuple(launch for at, launch in enumerate(code.launches) if at not in first)
    made = frozenset(name for launch in forward for name in launch.writes)
    if result not in made or any(launch.writes & made for launch in backward):
        return None
    return Parts(forward, backward, made & {name for launch in backward for name in launch.arguments})
